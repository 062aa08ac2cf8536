#!/usr/bin/env python3
"""Tests gst-cuda-filters-tune: its page in headless Chromium, its server, and the command line that it writes."""
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import urllib.error
import urllib.request

from browser import PATIENCE, Browser, missing
from harness import Skip, case, equal, load_gst, run

Gst = load_gst()

from gst_cuda_filters.tune import controls, description, pictures, server  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "pipelines" / "tune.py"
WORK = tempfile.TemporaryDirectory()
FRAMES = "is-live=true ! video/x-raw,format=I420,width=320,height=240,framerate=30/1"


def without_gpu():
    """Returns whether backend=cuda is refused on this machine."""
    element = Gst.ElementFactory.make("cudagaussian")
    element.set_property("backend", 1)
    refused = element.set_state(Gst.State.PAUSED) == Gst.StateChangeReturn.FAILURE
    element.set_state(Gst.State.NULL)
    return refused


@contextlib.contextmanager
def started(*arguments, folder=None, port="0"):
    """Runs the program and yields its process and the address of its page."""
    program = subprocess.Popen([sys.executable, PROGRAM, "--port", port, *arguments], stderr=subprocess.PIPE, text=True,
                               cwd=folder)
    try:
        said = ""
        for line in program.stderr:
            said += line
            if line.startswith("Tune at "):
                break
        else:
            raise AssertionError(said)
        yield program, line.split()[-1]
        assert program.poll() is None, program.stderr.read()
    finally:
        program.terminate()
        said = program.communicate(timeout=PATIENCE)[1]
    assert program.returncode == 0 and "Traceback" not in said, said


@contextlib.contextmanager
def tuning(*arguments, **named):
    """Runs the program and yields the address of its page."""
    with started(*arguments, **named) as (_, address):
        yield address


def ask(address, path="", body=None, **headers):
    """Returns the status and the text of an answer."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, data, headers), timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def eventually(look, holds):
    """Looks again until what is seen holds, and fails with what was seen last."""
    end = time.monotonic() + PATIENCE
    while not holds(seen := look()):
        assert time.monotonic() < end, seen
        time.sleep(0.1)


class Page(Browser):
    def __init__(self, address):
        if missing():
            raise Skip(missing())
        super().__init__(address)
        self.until("document.getElementById('before').width > 16")

    def drag(self, selector, start, end):
        """Drags the pointer from one share of an element's width to another."""
        x, y, width, height = self.run("const box = document.querySelector(arguments[0]).getBoundingClientRect();"
                                       "return [box.x, box.y, box.width, box.height]", selector)

        def to(share, duration=0):
            return {"type": "pointerMove", "duration": duration, "x": round(x + width * share),
                    "y": round(y + height / 2)}
        self.post("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": [
            to(start), {"type": "pointerDown", "button": 0}, to(end, 100), {"type": "pointerUp", "button": 0}]}]})

    def enter(self, selector, text):
        """Types into a field and leaves it."""
        self.run("const field = document.querySelector(arguments[0]); field.focus(); field.value = arguments[1];"
                 "field.dispatchEvent(new Event('change'));field.blur()", selector, text)

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).click()", selector)

    def line(self):
        return self.run("return document.getElementById('line').textContent")

    def details(self):
        """Returns the details of the picture before the filters and of that behind them."""
        return self.detail("before"), self.detail("after")

    def detail(self, canvas):
        """Returns the mean difference between neighbouring pixels of a picture."""
        return self.run("""
            const canvas = document.getElementById(arguments[0]);
            const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            let sum = 0;
            for (let i = 4; i < data.length; i += 4) sum += Math.abs(data[i] - data[i - 4]);
            return 4 * sum / data.length""", canvas)

    def pixel(self, x, y):
        """Returns a pixel of the page as a person sees it."""
        with tempfile.NamedTemporaryFile(suffix=".png") as shot:
            self.picture(shot.name)
            pipeline = Gst.parse_launch(f"filesrc location={shot.name} ! pngdec ! videoconvert "
                                        "! video/x-raw,format=RGBA ! appsink name=sink")
            pipeline.set_state(Gst.State.PLAYING)
            sample = pipeline.get_by_name("sink").emit("pull-sample")
            width = sample.get_caps().get_structure(0).get_value("width")
            pixel = sample.get_buffer().extract_dup(4 * (round(y) * width + round(x)), 3)
            pipeline.set_state(Gst.State.NULL)
            return tuple(pixel)


@case()
def a_slider_changes_the_pixels():
    with tuning(f"videotestsrc pattern=snow {FRAMES} ! cudagaussian sigma=0") as address, Page(address) as page:
        page.until("document.getElementById('status').textContent === 'playing'")
        # The pictures follow the settings after a while, which depends on what else the machine does.
        eventually(page.details, lambda seen: seen[0] > 20 and abs(seen[0] - seen[1]) < 2)
        page.drag("[data-property=sigma] input[type=range]", 0.02, 0.5)
        page.until("Number(document.querySelector('[data-property=sigma] input[type=number]').value) > 2")
        eventually(page.details, lambda seen: seen[0] > 20 and seen[1] < seen[0] / 4)
        page.until("/cudagaussian sigma=[0-9.]+ !/.test(document.getElementById('line').textContent)")
        # enabled switches the filter off.
        page.click("#control-cudagaussian0 .switch")
        eventually(page.details, lambda seen: seen[1] > 20)
        equal([each for each in page.log() if "willReadFrequently" not in each], [])


@case()
def the_wipe_moves_the_border():
    line = (f"videotestsrc pattern=green {FRAMES} "
            "! cudaguidedmatte mask=chroma-key key-color=0x00ff00 output=matte")
    with tuning(line) as address, Page(address) as page:
        x, y, width, height = page.run("const box = document.getElementById('pictures').getBoundingClientRect();"
                                       "return [box.x, box.y, box.width, box.height]")
        # The picture is green before the filter, and black behind it.
        for start, end, green in (0.5, 0.2, False), (0.2, 0.8, True):
            page.drag("#pictures", start, end)
            eventually(lambda: (end, page.pixel(x + width * 0.5, y + height * 0.3)[1]),
                       lambda seen: seen[1] > 200 if green else seen[1] < 60)
        page.click("#view-side")

        def sides():
            x, y, width, height = page.run("const box = document.getElementById('pictures').getBoundingClientRect();"
                                           "return [box.x, box.y, box.width, box.height]")
            return [page.pixel(x + width * share, y + height * 0.5)[1] for share in (0.25, 0.75)]
        eventually(sides, lambda levels: levels[0] > 200 and levels[1] < 60)


def load(page, preset):
    page.run("[...document.querySelectorAll('.chip')].find((each) => each.textContent === arguments[0]).click()", preset)


@case()
def a_preset_is_loaded():
    with tuning(f"videotestsrc {FRAMES} ! cudadenoise ! cudagaussian ! cudapixelate") as address, Page(address) as page:
        load(page, "low-light")
        page.until("document.querySelector('#control-cudadenoise0 [data-property=temporal] input').value === '48'")
        assert "! cudadenoise strength=1.3 temporal=48 ! cudagaussian ! cudapixelate !" in page.line(), \
            page.line()
        # The preset's button resets with all properties.
        page.click("#control-cudadenoise0 .plain")
        page.until("document.getElementById('line').textContent.includes('! cudadenoise ! cudagaussian !')")


def newest(folder):
    """Returns the digest of the last complete frame in a folder, or None while there is none."""
    files = sorted(folder.glob("*.raw"), key=lambda each: int(each.stem))
    try:
        return hashlib.sha256(files[-2].read_bytes()).hexdigest() if len(files) > 2 else None
    except FileNotFoundError:  # Newer frames have replaced it meanwhile.
        return None


def launched(line):
    """Runs a line of the page in a shell, and returns the digest of a frame that it writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        other = subprocess.Popen(["sh", "-c", f"exec {line}"], cwd=folder, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        end = time.monotonic() + PATIENCE
        while not (found := newest(folder)) and time.monotonic() < end and other.poll() is None:
            time.sleep(0.1)
        other.send_signal(signal.SIGINT)
        said = other.communicate(timeout=PATIENCE)[0]
        assert found, said
        return found


@case()
def the_copied_line_gives_the_same_frames():
    with tempfile.TemporaryDirectory() as name:
        line = (f"videotestsrc pattern=smpte75 {FRAMES} ! cudagaussian sigma=2 ! cudapixelate name=second block-size=4 "
                "! multifilesink location=%d.raw max-files=4")
        with tuning(line, folder=name) as address, Page(address) as page:
            untouched = launched(page.line())
            page.enter("#control-cudagaussian0 [data-property=sigma] input[type=number]", "6.5")
            page.run("const select = document.querySelector('#control-cudagaussian0 [data-property=border] select');"
                     "select.value = 'constant'; select.dispatchEvent(new Event('change'))")
            page.enter("#control-cudagaussian0 [data-property=border-color] input.code", "0xff336699")
            page.click("#control-second [data-property=planes] .segments button")
            for word in "sigma=6.5", "border-color=", "planes=":
                page.until(f"document.getElementById('line').textContent.includes('{word}')")
            copied = page.line()
            equal(copied.split("! ")[2:4],
                  ["cudagaussian sigma=6.5 border=constant border-color=0xff336699 ",
                   "cudapixelate name=second block-size=4 planes=chroma+alpha "])
            wanted = launched(copied)
            assert wanted != untouched, "the settings change nothing"
            eventually(lambda: newest(pathlib.Path(name)), lambda seen: seen == wanted)


# Holds the first request with some words before it is sent, or its answer. `held` tells that it is, and release() lets
# it go. `answered` counts the answers that the page has had.
HOLD = """
    const ask = window.fetch, [words, when] = arguments;
    const hold = () => new Promise((resolve) => { window.release = resolve; window.held = true; });
    window.answered = 0;
    window.fetch = async (path, request) => {
      const mine = request?.body?.includes(words) && !window.held;
      if (mine && when === 'request') await hold();
      const answer = await ask(path, request);
      if (!request?.body || !answer.ok) return answer;
      const state = await answer.json();
      if (mine && when === 'answer') await hold();
      return { ok: true, json: async () => { setTimeout(() => { answered++; }); return state; } };
    };"""
SIGMA = "[data-property=sigma] input[type=number]"


def values(address, control):
    return json.loads(ask(address, "state")[1])["values"][control]


@case()
def an_answer_that_comes_late_takes_nothing_back():
    with tuning(f"videotestsrc {FRAMES} ! cudagaussian ! cudapixelate") as address, Page(address) as page:
        # The answer about sigma comes after that about block-size, and after events.
        page.run(HOLD + """
            window.lines = [];
            new MutationObserver(() => lines.push(document.getElementById('line').textContent))
              .observe(document.getElementById('line'), {childList: true});""", "sigma", "answer")
        page.enter(SIGMA, "3")
        page.until("window.held")
        page.enter("[data-property=block-size] input[type=number]", "8")
        page.until("lines.some((line) => line.includes('block-size=8'))")
        page.run("release()")
        page.until("answered === 2")
        lines = page.run("return lines")
        first = ["block-size=8" in line for line in lines].index(True)
        assert all("block-size=8" in line for line in lines[first:]), lines


CHOSEN = "document.querySelector('#control-cudadenoise0 .chip.chosen')"
STRENGTH = "[data-property=strength] input[type=number]"


def change_twice(page, words, when, first, second):
    """Does `first`, whose request has some words and is held, and `second` meanwhile. Returns when both are answered."""
    page.run(HOLD, words, when)
    first()
    page.until("window.held")
    second()
    page.run("setTimeout(release, 500)")
    page.until("answered === 2")


@case()
def a_preset_after_a_value_replaces_it():
    """The value's request is so late that the preset's would overtake it."""
    with tuning(f"videotestsrc {FRAMES} ! cudadenoise") as address, Page(address) as page:
        change_twice(page, "strength", "request", lambda: page.enter(STRENGTH, "2"), lambda: load(page, "low-light"))
        equal(values(address, "cudadenoise0")["strength"], 1.3)
        page.until(f"{CHOSEN} && document.querySelector('{STRENGTH}').value === '1.3'")


@case()
def a_value_after_a_preset_replaces_it():
    with tuning(f"videotestsrc {FRAMES} ! cudadenoise") as address, Page(address) as page:
        change_twice(page, "low-light", "answer", lambda: load(page, "low-light"), lambda: page.enter(STRENGTH, "2"))
        equal(values(address, "cudadenoise0")["strength"], 2)
        page.until(f"!{CHOSEN} && document.querySelector('{STRENGTH}').value === '2'")


@case()
def a_warning_before_the_answer_about_a_preset_stays():
    with tuning(f"videotestsrc {FRAMES} ! cudagaussian") as address, Page(address) as page:
        fault = "document.querySelector('[data-property=sigma] .fault').textContent"
        page.run(HOLD, "faces-soft", "answer")
        load(page, "faces-soft")
        page.until("window.held")
        for name, value in ("sigma-relative", 0), ("sigma", 90):
            equal(ask(address, "set", {"control": "cudagaussian0", "property": name, "value": value})[0], 200)
        words = page.until(fault)
        page.run("release()")
        page.until("answered === 1")
        equal(page.run(f"return {fault}"), words)


@case()
def defaults_take_a_value_back_that_is_under_way():
    with tuning(f"videotestsrc {FRAMES} ! cudagaussian") as address, Page(address) as page:
        page.run(HOLD, "sigma", "answer")
        page.enter(SIGMA, "3")
        page.until("window.held")
        page.click("#control-cudagaussian0 .plain")
        page.run("release()")
        eventually(lambda: values(address, "cudagaussian0")["sigma"], lambda seen: seen == 1.5)


class Slow:
    """A control whose value is read while others change it."""
    id = "slow"

    def __init__(self):
        self.value, self.begun, self.go = 0, threading.Event(), threading.Event()

    def values(self):
        if not self.begun.is_set():
            self.begun.set()
            self.go.wait(PATIENCE)
        return {"value": self.value}

    def stats(self):
        return {}


@case()
def the_state_of_a_later_time_is_no_older_one():
    slow, states = Slow(), []
    board = server.Board("test", [slow], None)
    threads = [threading.Thread(target=lambda: states.append(board.state())) for _ in range(2)]
    threads[0].start()
    assert slow.begun.wait(PATIENCE)
    threads[1].start()
    threads[1].join(0.3)
    slow.value = 1
    slow.go.set()
    for each in threads:
        each.join()
    states.sort(key=lambda each: each["time"])
    equal([each["values"]["slow"]["value"] for each in states], [1, 1])


@case()
def a_page_gets_the_last_event():
    class Board(server.Board):
        @contextlib.contextmanager
        def listening(self):
            """The thread that sends events is slow, as on a busy machine."""
            with super().listening() as listener:
                yield types.SimpleNamespace(empty=listener.empty, get=lambda timeout: (
                    listener.get(timeout=timeout), time.sleep(1))[0])
    board = Board("test", [], types.SimpleNamespace(stop=lambda: None))
    board.tick = lambda: None
    serving = server.Server(board, "127.0.0.1", 0)
    with socket.create_connection(serving.server_address[:2]) as page:
        page.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        eventually(lambda: len(board.listeners), lambda seen: seen == 1)
        serving.stop("The stream has ended.")
        page.setblocking(False)
        said = page.recv(10000)
    assert b"The stream has ended." in said, said


@case()
def a_value_that_cannot_be_used_is_explained():
    with tuning(f"videotestsrc {FRAMES} ! cudagaussian sigma=2") as address, Page(address) as page:
        page.enter("[data-property=sigma] input[type=number]", "90")
        words = page.until("document.querySelector('[data-property=sigma] .fault').textContent")
        assert "sigma" in words and "85" in words, words
        page.until("document.querySelector('[data-property=sigma] input[type=number]').value === '2'")
        page.enter("[data-property=sigma] input[type=number]", "-1")
        page.until("document.querySelector('[data-property=sigma] .fault').textContent"
                   " === 'sigma must be a number of at least 0'")
        if without_gpu():
            page.run("const select = document.querySelector('[data-property=backend] select');"
                     "select.value = 'cuda'; select.dispatchEvent(new Event('change'))")
            page.until("document.querySelector('[data-property=backend] .fault').textContent")
        # The pipeline goes on, also after a change that starts it again.
        equal(ask(address, "set", {"control": "cudagaussian0", "property": "backend", "value": "cpu"})[0], 200)
        page.until("document.querySelector('[data-property=backend] select').value === 'cpu'")
        frames = json.loads(ask(address, "state")[1])["stats"]["cudagaussian0"]["frames"]
        page.until("document.querySelector('#status.live')")
        eventually(lambda: json.loads(ask(address, "state")[1])["stats"]["cudagaussian0"]["frames"],
                   lambda seen: seen > frames)


@case()
def a_tensor_has_no_picture():
    line = (f"videotestsrc {FRAMES} ! cudaletterbox ! other/tensors,format=static,num_tensors=1,types=float32,"
            "dimensions=64:64:3:1 ! fakesink")
    with tuning(line) as address, Page(address) as page:
        time.sleep(1)  # later pictures say the same as the first one
        page.until("document.getElementById('missing').textContent.includes('other/tensors is no picture')")


# Each name has the arguments, and words that the program must say.
FAULTS = {
    "no such element": (["videotestsrc ! nosuchfilter ! fakesink"], "pipeline cannot be made nosuchfilter"),
    "a wrong value": (["videotestsrc ! cudagaussian border=wrong ! fakesink"], "pipeline cannot be made border"),
    "no filter": (["videotestsrc ! fakesink"], "no element of this plugin cudagaussian"),
    "no text": ([""], "pipeline cannot be made"),
    "a file that is missing": (["filesrc location=/nowhere ! cudagaussian ! fakesink"], "filesrc0 No such file /nowhere"),
    "caps that cannot be filtered": (["videotestsrc ! video/x-raw,format=GRAY8 ! cudaguidedmatte ! fakesink"],
                                     "cudaguidedmatte0"),
    "a setting that cannot be used": (["videotestsrc ! cudagaussian sigma=90 ! fakesink"], "cudagaussian0 sigma 63.75"),
    "an address of another machine": (["--bind", "192.0.2.1", "videotestsrc ! cudagaussian ! fakesink"],
                                      "cannot serve 192.0.2.1"),
}


@case(*FAULTS)
def a_fault_ends_with_a_sentence(name):
    arguments, words = FAULTS[name]
    done = subprocess.run([sys.executable, PROGRAM, *arguments], stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    equal(done.returncode, 1)
    assert all(word in done.stderr for word in words.split()) and "Traceback" not in done.stderr, done.stderr


@case()
def a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run([sys.executable, PROGRAM, "--port", port, "videotestsrc ! cudagaussian ! fakesink"],
                              stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and f"port {port}: Address already in use" in done.stderr, done.stderr


@case()
def strangers_are_refused():
    line = f"videotestsrc {FRAMES} ! cudagaussian"
    wanted = {"control": "cudagaussian0", "property": "sigma", "value": 3}
    with tuning(line) as address:
        equal(ask(address)[0], 200)
        equal(ask(address, Host="evil.example")[0], 403)
        equal(ask(address, "set", wanted, Host="evil.example")[0], 403)
        equal(ask(address, "set", wanted, Content_Type="text/plain")[0], 400)
        equal(ask(address, "set", b"{" * 70000)[0], 413)
        for body in b"nothing", b"[]", {"control": 3}, {**wanted, "value": None}, {**wanted, "property": ["x"]}, \
                {"control": "cudagaussian0", "property": "name", "value": "x"}:
            equal(ask(address, "set", body)[0], 400)
        equal(ask(address, "preset", {"control": "cudagaussian0", "preset": "../x"})[0], 400)
        equal(ask(address, "../program.py")[0], 404)
        equal(json.loads(ask(address, "state")[1])["values"]["cudagaussian0"]["sigma"], 1.5)
        equal(ask(address, "set", wanted)[0], 200)
    with tuning("--bind", "0.0.0.0", line) as address:
        port, token = re.fullmatch(r"http://[^/]+:(\d+)/([\w-]{20,})/", address).groups()
        bare = f"http://127.0.0.1:{port}/"
        equal(ask(bare + token + "/state")[0], 200)
        for path in "", "state", token[:-1] + "x/state":
            equal(ask(bare + path)[0], 403)
        equal(ask(bare + "set", "", wanted)[0], 403)


@case()
def a_file_plays_in_a_loop():
    file = pathlib.Path(WORK.name) / "clip.mkv"
    maker = Gst.parse_launch(f"videotestsrc num-buffers=10 ! video/x-raw,width=64,height=64,framerate=30/1 "
                             f"! matroskamux ! filesink location={file}")
    maker.set_state(Gst.State.PLAYING)
    assert maker.get_bus().timed_pop_filtered(PATIENCE * Gst.SECOND, Gst.MessageType.EOS), "no end of the clip"
    maker.set_state(Gst.State.NULL)
    line = f"filesrc location={file} ! matroskademux ! cudagaussian"
    with tuning(line) as address:
        eventually(lambda: json.loads(ask(address, "state")[1])["stats"]["cudagaussian0"]["frames"], lambda seen: seen >= 40)
    done = subprocess.run([sys.executable, PROGRAM, "--once", "--port", "0", line], stderr=subprocess.PIPE, timeout=PATIENCE)
    equal(done.returncode, 0)


@case()
def nothing_is_encoded_while_nobody_watches():
    pipeline = Gst.parse_launch(f"videotestsrc {FRAMES} ! cudagaussian name=filter ! fakesink")
    element = pipeline.get_by_name("filter")
    taken = pictures.Pictures(element.get_static_pad("sink"), element.get_static_pad("src"))
    pipeline.set_state(Gst.State.PLAYING)
    time.sleep(0.7)
    equal(taken.number, 0)
    with taken.watching():
        number, pair = taken.next(0, PATIENCE)
        assert [each[:2] for each in pair] == [b"\xff\xd8"] * 2, pair
    # One more pair may have been on its way.
    number = taken.number
    time.sleep(1.2)
    assert taken.number <= number + 1, (taken.number, number)
    taken.stop()
    pipeline.set_state(Gst.State.NULL)


def time_for_the_page(process):
    """Returns the seconds that all threads of a process have worked, except those in which its pipeline plays."""
    worked = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may have ended
            name, _, fields = (task / "stat").read_text().partition("(")[2].rpartition(")")
            if not name.startswith(("imagefreeze", "videotestsrc")):
                worked += sum(map(int, fields.split()[11:13]))
    return worked / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def watching(address):
    """Receives pictures and events as a page does, and yields a function that counts the pictures."""
    ended, received = threading.Event(), []

    def read(path):
        with urllib.request.urlopen(address + path, timeout=PATIENCE) as stream:
            while not ended.is_set() and (line := stream.readline()):
                received.append(line) if line.startswith(b"X-Picture") else None

    threads = [threading.Thread(target=read, args=(path,)) for path in ("pictures", "events")]
    for each in threads:
        each.start()
    try:
        yield lambda: len(received)
    finally:
        ended.set()
        for each in threads:
            each.join()


@case()
def the_page_costs_at_most_15_percent_of_a_core():
    line = ("videotestsrc num-buffers=1 ! video/x-raw,format=I420,width=1280,height=720 ! imagefreeze is-live=true "
            "! video/x-raw,framerate=30/1 ! cudagaussian backend=cpu")
    with started(line) as (program, address), watching(address) as count:
        eventually(count, lambda seen: seen >= 2)
        begin, worked, before = time.monotonic(), time_for_the_page(program), count()
        time.sleep(10)
        worked, seconds = time_for_the_page(program) - worked, time.monotonic() - begin
        rate, cost = (count() - before) / 2 / seconds, worked / seconds
    print(f"# {cost:.1%} of one core, for {rate:.1f} pairs of pictures per second")
    assert cost <= 0.15, (rate, cost)


# Formats with and without alpha, of any depth, and sizes that are scaled down or have other than square pixels.
CAPS = {
    "RGBA": "format=RGBA,width=64,height=48", "A420": "format=A420,width=64,height=48",
    "GRAY16_LE": "format=GRAY16_LE,width=33,height=17", "P010_10LE": "format=P010_10LE,width=64,height=48",
    "1 x 1": "format=I420,width=1,height=1", "2160p": "format=NV12,width=3840,height=2160",
    "wide pixels": "format=I420,width=720,height=576,pixel-aspect-ratio=64/45",
    "no frame rate": "format=I420,width=64,height=48,framerate=0/1",
}
SIZES = {"2160p": (1280, 720), "wide pixels": (1024, 576)}


@case(*CAPS)
def frames_become_jpeg(name):
    source = Gst.parse_launch(f"videotestsrc num-buffers=1 ! video/x-raw,{CAPS[name]} ! appsink name=sink")
    source.set_state(Gst.State.PLAYING)
    sample = source.get_by_name("sink").emit("pull-sample")
    source.set_state(Gst.State.NULL)
    for checker in False, True:
        encoder = pictures.Encoder(checker)
        made = [encoder(sample.get_buffer(), sample.get_caps()) for _ in range(3)]
        encoder.close()
        for each in made:
            assert each[:2] == b"\xff\xd8" and each[-2:] == b"\xff\xd9", each[:10]
        # The frame header has the size.
        at = made[0].index(b"\xff\xc0")
        height, width = (int.from_bytes(made[0][at + i:at + i + 2], "big") for i in (5, 7))
        frame = sample.get_caps().get_structure(0)
        equal((width, height), SIZES.get(name, (frame.get_value("width"), frame.get_value("height"))))


LABELS = ["face", "a b", "a,b", 'say "x"', "back\\slash", "it's", "a\\,b", "!", "$HOME `id` ;", "", "=", "\u00e4"]


@case(*[(label or "empty", label) for label in LABELS])
def a_text_comes_back_from_the_line(named):
    label = named[1]
    text = 'videotestsrc ! cudagaussian region-labels="typed" ! fakesink'
    found = description.mentions(text, controls.factories())
    pipeline = Gst.parse_launch(description.named(text, found))
    element = controls.Element(pipeline.get_by_name(found[0].name))
    element.set("region-labels", label)
    line = description.shell(description.replaced(text, found, [" ".join(["cudagaussian", *element.words()])]))
    words = subprocess.run(["sh", "-c", line.replace("gst-launch-1.0", "printf '%s\\0'", 1)], stdout=subprocess.PIPE,
                           check=True).stdout.decode().split("\0")[:-1]
    equal(words, shlex.split(line)[1:])
    again = Gst.parse_launchv(words)
    equal(controls.elements(again)[0].get_property("region-labels"), label)


# Each text has the names of the filters in it.
TEXTS = {
    "glued links": ("videotestsrc !cudagaussian!cudapixelate name=p ! fakesink", ["cudagaussian0", "p"]),
    "two of one kind": ("videotestsrc ! cudamedian ! cudamedian size=5 ! fakesink", ["cudamedian0", "cudamedian1"]),
    "a name that is taken": ("videotestsrc name=cudamedian0 ! cudamedian ! fakesink", ["cudamedian1"]),
    "spaces at the sign": ("videotestsrc ! cudamedian size = 5 name = x ! fakesink", ["x"]),
    "a factory as a value": ("videotestsrc name=cudagaussian ! cudamedian ! fakesink", ["cudamedian0"]),
    "caps with spaces": ("videotestsrc ! video/x-raw, width = 64 ! cudamedian ! fakesink", ["cudamedian0"]),
    "a branch": ("videotestsrc ! tee name=t t. ! cudamedian ! fakesink t. ! cudagaussian ! fakesink",
                 ["cudamedian0", "cudagaussian0"]),
}


@case(*TEXTS)
def filters_are_found_in_a_text(name):
    text, names = TEXTS[name]
    found = description.mentions(text, controls.factories())
    equal([each.name for each in found], names)
    pipeline = Gst.parse_launch(description.named(text, found))
    equal({each.get_name() for each in controls.elements(pipeline)}, set(names))
    # The line without settings runs, and has the settings that were typed.
    words = []
    for each in found:
        element = controls.Element(pipeline.get_by_name(each.name))
        words.append(" ".join([each.factory, *([f"name={each.name}"] if each.typed else []), *element.words()]))
    again = Gst.parse_launchv(shlex.split(description.shell(description.replaced(text, found, words)))[1:])
    equal([controls.Element(each).words() for each in controls.elements(again)],
          [controls.Element(each).words() for each in controls.elements(pipeline)])


@case(*controls.factories())
def every_property_has_a_control(factory):
    element = Gst.ElementFactory.make(factory)
    shown = controls.Element(element, restart=lambda change, _: change())
    described = {each["name"]: each for each in shown.describe()["properties"]}
    writable = {each.name for each in element.list_properties() if int(each.flags) & 2} - {"name", "parent"}
    equal(set(described), writable)
    for name, each in described.items():
        values = {"boolean": [False, True], "string": ["text"], "flags": [[c["nick"]] for c in each["choices"]],
                  "enum": [c["nick"] for c in each["choices"]]}.get(each["kind"])
        values = values or [each["minimum"], min(each["maximum"], 2**31 - 1)]
        for value in values:
            if name in ("mean", "std", "mask-tensor"):
                value = "0.5"
            if name == "areas":
                value = "16,16,32,24"
            shown.set(name, value)
            equal(shown.values()[name], value)
    assert json.dumps([shown.describe(), shown.values(), shown.stats()], allow_nan=False)


run()
