"""Serves the page: its files, pictures as multipart JPEG, statistics as server-sent events, and changes of settings."""
import contextlib
import hmac
import http.server
import json
import pathlib
import queue
import secrets
import select
import socket
import threading
import time
import traceback
import urllib.parse

from .._program import Failure

PAGE = pathlib.Path(__file__).parent / "page"
FILES = {"": ("index.html", "text/html"), "page.js": ("page.js", "text/javascript"),
         "controls.js": ("controls.js", "text/javascript"), "style.css": ("style.css", "text/css")}
PORT = 8088
LOCAL = "127.0.0.1", "localhost", "::1"
BOUNDARY = "picture"
# Seconds between two reports of values and statistics.
TICK = 0.5
LARGEST_REQUEST = 65536


class Board:
    """What the page shows and sets."""

    def __init__(self, title, controls, pictures, line=None, note=""):
        """`controls` are objects such as controls.Element. `line` returns the command line to copy."""
        self.title, self.pictures, self.line, self.note = title, pictures, line, note
        self.controls = {each.id: each for each in controls}
        self.lock, self.reading, self.changing = threading.Lock(), threading.Lock(), threading.Lock()
        self.listeners = set()
        self.left = threading.Condition(self.lock)
        self.ended = False

    def describe(self):
        return {"title": self.title, "note": self.note, "controls": [each.describe() for each in self.controls.values()],
                **self.state()}

    def state(self):
        # One is read after the other, so that the page knows by their times which is the newer one.
        with self.reading:
            return {"time": time.monotonic(), "values": {name: each.values() for name, each in self.controls.items()},
                    "stats": {name: each.stats() for name, each in self.controls.items()},
                    "line": self.line() if self.line else None}

    def publish(self, kind, about):
        """Sends an event to all pages."""
        text = f"event: {kind}\ndata: {json.dumps(about)}\n\n".encode()
        with self.lock:
            for listener in self.listeners:
                listener.put(text)

    @contextlib.contextmanager
    def listening(self):
        listener = queue.SimpleQueue()
        with self.lock:
            self.listeners.add(listener)
            if self.ended:
                listener.put(None)
        try:
            yield listener
        finally:
            with self.lock:
                self.listeners.discard(listener)
                self.left.notify_all()

    def end(self, text):
        """Sends the last event, and waits until pages have it, but not for a page that reads nothing."""
        self.publish("end", {"text": text})
        with self.lock:
            self.ended = True
            for listener in self.listeners:
                listener.put(None)
            self.left.wait_for(lambda: not self.listeners, 2)

    def tick(self):
        while not self.ended:
            time.sleep(TICK)
            if self.listeners:
                self.publish("state", self.state())

    def warn(self, message):
        """Shows a warning message of the bus on the page."""
        error, _ = message.parse_warning()
        details = message.parse_warning_details()
        about = {"element": message.src.get_name(), "text": error.message}
        for field in ("property", "allowed"):
            if details and details.has_field(field):
                about[field] = str(details.get_value(field))
        self.publish("warning", about)

    def change(self, path, wanted):
        """Does what a request asks for and returns the new state."""
        what = "property" if path == "set" else "preset"
        if not isinstance(wanted, dict) or not all(isinstance(wanted.get(each), str) for each in ("control", what)):
            raise Failure(f"the request must have the texts control and {what}")
        control = self.controls.get(wanted["control"])
        if not control:
            raise Failure(f"there is no element {wanted['control']}")
        with self.changing:
            if path == "set":
                control.set(wanted["property"], wanted.get("value"))
            else:
                control.load(wanted["preset"])
        return self.state()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_):
        pass

    def target(self):
        """Returns the path without the token, or None with the answer sent if the request may not be served."""
        path = urllib.parse.urlsplit(self.path).path.lstrip("/")
        server = self.server
        if server.token:
            token, _, path = path.partition("/")
            if not hmac.compare_digest(token.encode(), server.token.encode()):
                return self.answer(403, "The address lacks the token that the program has printed.")
        else:
            # Other pages in the browser must not reach the program under a name of theirs.
            host = urllib.parse.urlsplit("//" + self.headers.get("Host", "")).hostname
            if host not in (*LOCAL, server.server_address[0]):
                return self.answer(403, f"The program serves {server.address} only.")
        return path

    def answer(self, status, content, kind="text/plain"):
        body = content if isinstance(content, bytes) else content.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.target()
        if path is None:
            return
        if path in FILES:
            name, kind = FILES[path]
            self.answer(200, (PAGE / name).read_bytes(), kind)
        elif path == "state":
            self.answer(200, json.dumps(self.server.board.describe()), "application/json")
        elif path in ("pictures", "events"):
            self.stream(path)
        else:
            self.answer(404, "There is no such page.")

    def do_POST(self):
        path = self.target()
        if path is None:
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > LARGEST_REQUEST:
            self.close_connection = True
            self.answer(413, "The request is too large.")
            return
        body = self.rfile.read(int(length))
        # A browser sends this type from pages of other servers only after asking, and nothing here answers that.
        if self.headers.get_content_type() != "application/json" or path not in ("set", "preset"):
            self.answer(400, "The request is none of this page.")
            return
        try:
            self.answer(200, json.dumps(self.server.board.change(path, json.loads(body))), "application/json")
        except (Failure, ValueError) as error:
            self.answer(400, str(error))
        except Exception:  # the page shows it, and the pipeline goes on
            self.answer(500, traceback.format_exc())

    def stream(self, path):
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if path == "events" else
                         f"multipart/x-mixed-replace; boundary={BOUNDARY}")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.flush()
        with contextlib.suppress(OSError):
            self.events() if path == "events" else self.pictures()

    def gone(self):
        """Returns whether the other side has closed the connection."""
        ready, _, _ = select.select([self.connection], [], [], 0)
        return bool(ready) and not self.connection.recv(1, socket.MSG_PEEK)

    def events(self):
        board = self.server.board
        with board.listening() as listener:
            while True:
                try:
                    text = listener.get(timeout=1)
                except queue.Empty:
                    if self.gone():
                        return
                    continue
                if text is None:
                    return
                self.wfile.write(text)

    def pictures(self):
        pictures, number = self.server.board.pictures, 0
        # Old pictures must not wait in a slow connection.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        with pictures.watching():
            while not self.server.board.ended and not self.gone():
                newer = pictures.next(number, 1)
                if newer:
                    number, pair = newer
                    for name, content in zip(("before", "after"), pair):
                        self.part(name, content)

    def part(self, name, content):
        kind = "image/jpeg" if isinstance(content, bytes) else "text/plain; charset=utf-8"
        body = content if isinstance(content, bytes) else content.encode()
        self.wfile.write(f"--{BOUNDARY}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nX-Picture: {name}"
                         "\r\n\r\n".encode() + body + b"\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, board, bind, port):
        """Without a port, it is PORT if that is free, and otherwise one that is."""
        self.board = board
        if ":" in bind:
            self.address_family = socket.AF_INET6
        self.token = "" if bind in LOCAL else secrets.token_urlsafe(16)
        for number in [port] if port is not None else [PORT, 0]:
            try:
                super().__init__((bind, number), Handler)
                break
            except (OSError, OverflowError) as error:
                failure = Failure(f"cannot serve a page on {bind}, port {number}: {getattr(error, 'strerror', error)}")
        else:
            raise failure
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.serve_forever, board.tick)]
        for thread in self.threads:
            thread.start()

    def server_bind(self):
        # HTTPServer would look the name of the machine up, which can take seconds.
        if hasattr(socket, "SO_REUSEADDR"):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request, address):
        pass  # a browser that leaves is no fault

    @property
    def address(self):
        host = self.server_address[0]
        if host in ("0.0.0.0", "::"):
            host = own_address(self.address_family)
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.server_port}/" + (f"{self.token}/" if self.token else "")

    def stop(self, end=None):
        """Ends the server. Pages show the text `end`."""
        self.board.end(end or "The program has ended.")
        self.board.pictures.stop()
        self.shutdown()
        self.server_close()


def own_address(family):
    """Returns the address of this machine that other machines see, as far as its routes tell."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing.
            probe.connect(("2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return socket.gethostname()
