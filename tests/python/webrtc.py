#!/usr/bin/env python3
"""Opens the page of pipelines/webrtc in a headless Chromium: frames come, and follow the page's settings."""
import contextlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

from browser import PATIENCE, Browser, missing
from harness import case, equal, load_gst, run, skip_all

Gst = load_gst()
if missing():
    skip_all(missing())
absent = [name for name in ("webrtcbin", "nicesrc", "x264enc", "vp8enc") if not Gst.ElementFactory.find(name)]
if absent:
    skip_all(f"GStreamer has no {', '.join(absent)}")
if not any(name != "lo" for name in os.listdir("/sys/class/net")):
    skip_all("no network interface: webrtcbin uses no loopback")

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "pipelines", "webrtc", "webrtc.py")
GREEN, BLUE, RED = (0, 177, 64), (48, 80, 128), (224, 16, 32)
RATE = 20
# Everything is a green screen, and the default filters put blue in its place.
SCREEN = f"videotestsrc is-live=true pattern=solid-color foreground-color=0xff00b140 ! video/x-raw,width=320,height=180,framerate={RATE}/1"

# Notes the moments in ms at which frames are shown.
WATCH = """
  const video = document.querySelector("video")
  window.shown = []
  const next = now => { shown.push(now); video.requestVideoFrameCallback(next) }
  video.requestVideoFrameCallback(next)
"""
# Returns red, green and blue in the middle of the picture.
MIDDLE = """
  const canvas = document.createElement("canvas"), video = document.querySelector("video")
  canvas.width = canvas.height = 1
  const context = canvas.getContext("2d")
  context.drawImage(video, video.videoWidth / 2, video.videoHeight / 2, 1, 1, 0, 0, 1, 1)
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3)
"""
# Moves a control of the page as its user does.
MOVE = """
  const [element, property, value] = arguments
  const input = document.querySelector(`input[name^="${element}"][name$=".${property}"]`)
  if (input.type === "checkbox") input.checked = value
  else input.value = value
  input.dispatchEvent(new Event("input"))
"""


@contextlib.contextmanager
def server(*arguments):
    program = subprocess.Popen([sys.executable, PROGRAM, "--port", "0", *arguments], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    try:
        line = program.stdout.readline()
        assert line.startswith("ready at "), line + program.stdout.read()
        yield line.split()[2]
    finally:
        program.terminate()
        said = program.communicate(timeout=PATIENCE)[0]
        assert "Traceback" not in said and "CRITICAL" not in said, said


def has_color(browser, color, what):
    """Waits until the middle of the picture has a colour. 4:2:0, limited range and a lossy codec change it a little."""
    end = time.monotonic() + PATIENCE
    while True:
        middle = browser.run(MIDDLE)
        if max(abs(a - b) for a, b in zip(middle, color)) <= 14:
            return
        assert time.monotonic() < end, f"{what}: the middle is {middle}, not {color}; {browser.log()}"
        time.sleep(0.05)


def codec_in_use(browser):
    return browser.run("""return peer.getStats().then(all => {
        for (const r of all.values())
            if (r.type === "inbound-rtp" && r.codecId) return all.get(r.codecId).mimeType + " " + all.get(r.codecId).sdpFmtpLine
    })""")


@case("h264", "vp8")
def browser_plays(codec):
    with server("--source", SCREEN) as url, Browser(url) as page:
        page.until("document.querySelector('#controls input')")
        if codec != "h264":
            page.run("const c = document.getElementById('codec'); c.value = arguments[0]; c.onchange()", codec)
        page.until("peer.connectionState === 'connected' && channel && channel.readyState === 'open'")
        page.until("document.querySelector('video').videoWidth === 320")
        used = codec_in_use(page)
        assert used.startswith(f"video/{codec.upper()}"), used
        # 42 is baseline, and the bit 40 of the next byte makes it constrained.
        assert codec != "h264" or int(re.search("profile-level-id=42(..)", used)[1], 16) & 0x40, used

        has_color(page, BLUE, "at first")
        page.run(MOVE, "cudaguidedmatte", "background-color", "#e01020")
        has_color(page, RED, "background-color was moved")
        page.run(MOVE, "cudaguidedmatte", "enabled", False)
        has_color(page, GREEN, "enabled was switched off")
        page.run(MOVE, "cudaguidedmatte", "enabled", True)
        has_color(page, RED, "enabled was switched on")

        # The rate of the frames depends on what else the machine does, but they must go on.
        page.run(WATCH)
        page.until("shown.length > 40")
        times = page.run("return shown")
        rate, longest = 1000 * (len(times) - 1) / (times[-1] - times[0]), max(b - a for a, b in zip(times, times[1:]))
        print(f"# {codec}: {rate:.1f} of {RATE} frames/s, at most {longest:.0f} ms from one to the next")
        page.until("/cpu, .* ms per frame|cuda, .* ms per frame/.test(document.querySelector('.stats').textContent)")
        equal(page.log(), [])


@case()
def other_settings_are_refused():
    with server("--source", SCREEN) as url, Browser(url) as page:
        page.until("document.querySelector('#controls input')")
        matte, denoise = [page.run(f"return document.querySelector('input[name^={name}]').name").split(".")[0]
                          for name in ("cudaguidedmatte", "cudadenoise")]
        page.run("window.said = []; channel.addEventListener('message', e => said.push(JSON.parse(e.data).warning))")
        for element, name, value in (
            (matte, "output", 1), (matte, "despill", 2), (matte, "despill", True),
            (matte, "despill", None), (matte, "enabled", 0), ("videotestsrc0", "pattern", 1),
            (denoise, "strength", "1"), (denoise, "strength", float("nan")),
            (matte, "background-color", 0.5),
        ):
            page.run("said.length = 0; channel.send(arguments[0])",
                     json.dumps({"element": element, "property": name, "value": value}))
            page.until(f"said.some(text => text && text.startsWith('{element}.{name} cannot be '))")
        for text in ("[]", "7", "{}", '{"element": []}'):
            page.run("said.length = 0; channel.send(arguments[0])", text)
            page.until("said.some(text => text)")
        has_color(page, BLUE, "after all of them")


# Notes which of a page's connections, numbered from 0 on, were made. A clip may end, and the page connect anew, before
# anybody has looked.
CONNECTED = """
  const Plain = window.RTCPeerConnection
  let made = 0
  window.connected = []
  window.RTCPeerConnection = class extends Plain {
    constructor(...all) {
      super(...all)
      const number = made++
      this.addEventListener("connectionstatechange", () => this.connectionState === "connected" && connected.push(number))
    }
  }
"""


def open_after(page, script, url):
    """Opens the address in a page that runs the script before those of the address."""
    page.post("/goog/cdp/execute", {"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": {"source": script}})
    page.post("/url", {"url": url})


@case()
def clip_ends_and_starts_again():
    clip = SCREEN.replace("is-live=true", "num-buffers=80")
    with server("--source", clip) as url, Browser("about:blank") as page:
        open_after(page, CONNECTED, url)
        page.until("connected.includes(0) && connected.includes(1)")
        has_color(page, BLUE, "the second time")


# Holds the first answer of a page back until a clip of one second has ended.
LATE = """
  const direct = window.fetch
  let answers = 0
  window.fetch = (path, options) => String(path).includes("answer") && !answers++
    ? new Promise(done => setTimeout(() => done(direct(path, options)), 3000)) : direct(path, options)
"""


@case()
def clip_ends_before_the_page_is_connected():
    clip = SCREEN.replace("is-live=true", f"num-buffers={RATE}")
    with server("--source", clip) as url, Browser("about:blank") as page:
        open_after(page, CONNECTED + LATE, url)
        page.until("connected.some(each => each > 0)")


@case()
def a_missing_clip_is_said_on_the_page():
    with server("--source", "filesrc location=/nowhere.mp4 ! decodebin ! videoconvert") as url, Browser(url) as page:
        page.until("document.body.innerText.includes('/nowhere.mp4')")


@case()
def second_page_takes_over():
    with server("--source", SCREEN) as url, Browser(url) as first:
        first.until("peer.connectionState === 'connected'")
        with Browser(url) as second:
            second.until("peer.connectionState === 'connected'")
            has_color(second, BLUE, "the second page")
        first.run("location.reload()")
        first.until("peer && peer.connectionState === 'connected'")
        has_color(first, BLUE, "the first page again")


def status_of(url, body, kind="application/json", **headers):
    request = urllib.request.Request(url, data=body, headers={"Content-Type": kind, **headers})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@case()
def wrong_requests():
    with server("--source", SCREEN) as url:
        for path, body, kind, status, words in (
            ("offer", b'{"codec": "h264"}', "text/plain", 415, ""),
            ("offer", b'{"codec": "h266"}', "application/json", 400, "h264 or vp8"),
            ("offer", b"{", "application/json", 400, "error"),
            ("offer", b"[]", "application/json", 400, "error"),
            ("answer", b'{"sdp": ""}', "application/json", 400, "nothing to answer"),
            ("offer", b" " * 70000, "application/json", 413, ""),
            ("elsewhere", b"{}", "application/json", 400, "error"),
        ):
            got, text = status_of(url + path, body, kind)
            assert got == status and words in text, (path, body[:40], got, text)
        for host in "evil.example", "127.0.0.1.evil.example:80", "", "[::1":
            for path, body in ("", None), ("offer", b'{"codec": "vp8"}'):
                equal(status_of(url + path, body, Host=host)[0], 403)
        for host in "localhost:1234", "127.0.0.1", "[::1]:80", "192.0.2.7:8080":
            equal(status_of(url, None, Host=host)[0], 200)
        got, text = status_of(url + "offer", b'{"codec": "vp8"}')
        assert got == 200 and "m=video" in text and "candidate" in text, (got, text)
        got, text = status_of(url + "answer", b'{"sdp": "v=0"}')
        assert got == 400, (got, text)


# Each name has the arguments, and words that the program must say.
FAULTS = {
    "a wrong filter": (["--filter", "cudadenoise noise=wrong"], "The pipeline cannot be made: noise"),
    "a camera that is missing": (["--source", "v4l2src device=/nowhere ! videoconvert"],
                                 "The pipeline cannot start: /nowhere"),
}


@case(*FAULTS)
def a_fault_ends_with_a_sentence(name):
    arguments, words = FAULTS[name]
    done = subprocess.run([sys.executable, PROGRAM, "--port", "0", *arguments], capture_output=True, text=True,
                          timeout=PATIENCE)
    assert done.returncode == 1 and all(word in done.stderr for word in words.split()), done
    assert "Traceback" not in done.stderr and "CRITICAL" not in done.stderr, done.stderr


run()
