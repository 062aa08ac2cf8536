"""Drives a headless Chromium by its WebDriver, with Python's standard library alone."""
import atexit
import base64
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

# Seconds after which something that a page or a program has not done counts as never done. It is long because machines
# are busy.
PATIENCE = 90


def missing():
    """Returns what is not installed, or an empty string."""
    names = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    return f"{' and '.join(names)} not installed" if names else ""


class Driver:
    """A browser without a page."""

    def __init__(self, size):
        self.size = size
        # The sandbox does not work for root and in most containers. WebRTC leaves out loopback otherwise.
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--mute-audio",
                 "--allow-loopback-in-peer-connection", "--autoplay-policy=no-user-gesture-required",
                 "--window-size=%d,%d" % size]
        self.process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, env={**os.environ, "LC_ALL": "C"})
        self.session = ""
        atexit.register(self.close)
        port = None
        while not port:
            line = self.process.stdout.readline()
            assert line, "chromedriver ended"
            port = re.search(r"successfully on port (\d+)", line)
        self.base = f"http://127.0.0.1:{port[1]}"
        self.session = "/session/" + self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": flags, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 1000 * PATIENCE},
        }}})["sessionId"]

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=2 * PATIENCE) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def close(self):
        try:
            if self.session:
                self.call("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait(PATIENCE)
            self.process.stdout.close()


class Browser:
    """A browser with one page. Use it in a `with` statement. The next one takes the same browser, because the start takes
    longest."""

    idle = []

    def __init__(self, url, size=(1240, 720)):
        self.driver = next((each for each in self.idle if each.size == size), None)
        if self.driver:
            self.idle.remove(self.driver)
        else:
            self.driver = Driver(size)
        self.log()  # of the page before
        self.post("/url", {"url": url})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def post(self, path, body):
        return self.driver.call("POST", self.driver.session + path, body)

    def run(self, script, *arguments):
        """Runs the body of a JavaScript function and returns its value, or what its promise gives."""
        return self.post("/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, condition, seconds=PATIENCE):
        """Waits until a JavaScript expression is true, and returns it."""
        end = time.monotonic() + seconds
        while not (value := self.run(f"return {condition}")):
            assert time.monotonic() < end, f"{condition} is not true after {seconds} s: {self.log()}"
            time.sleep(0.1)
        return value

    def log(self):
        """Returns what the page has written to its console since the last call."""
        return [entry["message"] for entry in self.post("/se/log", {"type": "browser"})]

    def picture(self, file):
        with open(file, "wb") as out:
            out.write(base64.b64decode(self.driver.call("GET", self.driver.session + "/screenshot")))

    def close(self):
        self.post("/url", {"url": "about:blank"})
        self.idle.append(self.driver)
