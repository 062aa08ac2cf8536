"""Tests live-matte with streams, reports as JSON, and the page that changes a running program."""
import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np
from common import FOLDER, MISSING, PROGRAM, Gst, live_matte, make
from files import clip, encoder
from harness import Skip, case, equal, free_port

GREEN, BLUE = (0, 177, 64), (32, 48, 224)
PLAIN = "--background", "color:00b140"
RED = (255, 0, 0)
NEAR = 40  # The network may take a part of the test's ball for a person.
LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1  # from linux/prctl.h


def colors(line):
    """Returns the mean colours of the frames of a pipeline."""
    pipeline = Gst.parse_launch(f"{line} ! videoconvert ! video/x-raw,format=RGBx ! appsink name=sink sync=false")
    pipeline.set_state(Gst.State.PLAYING)
    means, end = [], time.monotonic() + 300
    while time.monotonic() < end and (sample := pipeline.get_by_name("sink").emit("try-pull-sample", 90 * Gst.SECOND)):
        data = sample.get_buffer().extract_dup(0, sample.get_buffer().get_size())
        means.append(np.frombuffer(data, np.uint8).reshape(-1, 4)[:, :3].mean(0))
    message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    assert not message, message.parse_error()
    return np.array(means)


def near(got, wanted):
    assert len(got) and np.abs(np.array(got) - wanted).max() < NEAR, (got, wanted)


@contextlib.contextmanager
def running(*arguments, **streams):
    if MISSING:
        raise Skip(MISSING)
    # Where a case ends this process, the program ends, too. Otherwise whoever reads its output would wait for ever.
    program = subprocess.Popen([sys.executable, PROGRAM, *map(str, arguments)], text=True,
                               preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL), **streams)
    try:
        yield program
        assert program.poll() is None, "the program has ended"
    finally:
        program.terminate()
        program.communicate(timeout=200)
    equal(program.returncode, 0)


@case()
def hls_of_a_file():
    folder = FOLDER / "stream"
    shutil.rmtree(folder, ignore_errors=True)
    film = FOLDER / "film.mkv"
    make(f"matroskamux name=mux ! filesink location={film} videotestsrc num-buffers=150 "
         "! video/x-raw,format=I420,width=320,height=180,framerate=30/1 ! x264enc ! h264parse ! mux. "
         f"audiotestsrc num-buffers=215 ! audio/x-raw,rate=44100 ! audioconvert ! {encoder()} ! aacparse ! mux.")
    live_matte(film, *PLAIN, "--output", f"hls:{folder}")
    playlist = (folder / "index.m3u8").read_text()
    assert "#EXT-X-ENDLIST" in playlist and playlist.count(".ts") >= 2, playlist
    # The segments of a playlist follow each other without a gap.
    got = colors(f'uridecodebin uri="{(folder / "index.m3u8").as_uri()}" caps=video/x-raw')
    equal(len(got), 150)
    near(got, GREEN)
    first = (folder / "segment00000.ts").as_uri()
    pipeline = Gst.parse_launch(f'uridecodebin uri="{first}" caps=audio/x-raw ! appsink name=sink sync=false')
    pipeline.set_state(Gst.State.PLAYING)
    assert pipeline.get_by_name("sink").emit("try-pull-sample", 90 * Gst.SECOND), "there is no sound"
    pipeline.set_state(Gst.State.NULL)


@case()
def srt_of_a_camera():
    for name in ("srtsink", "srtsrc"):
        if not Gst.ElementFactory.find(name):
            raise Skip(f"GStreamer has no {name}")
    port = free_port(socket.SOCK_DGRAM)
    with running("test", "--size", "320x180", *PLAIN, "--output", f"srt://127.0.0.1:{port}?mode=listener"):
        # A machine that is busy receives packets late. SRT drops those that are later than its latency (125 ms).
        got = colors(f'srtsrc uri="srt://127.0.0.1:{port}?mode=caller" latency=2000 ! decodebin ! identity eos-after=40')
    near(got, GREEN)
    assert len(got) >= 30, len(got)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@case()
def rtmp_through_a_server():
    module = os.environ.get("NGINX_RTMP_MODULE", "/usr/lib/nginx/modules/ngx_rtmp_module.so")
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if not nginx or not os.path.exists(module):
        raise Skip("nginx with libnginx-mod-rtmp is not installed")
    port, folder = free_port(), FOLDER / "nginx"
    folder.mkdir(exist_ok=True)
    settings, log = folder / "nginx.conf", folder / "error.log"
    settings.write_text(f"load_module {module}; daemon off; master_process off; pid {folder}/pid; error_log {log};"
                        "events {} rtmp { access_log off; server { "
                        f"listen 127.0.0.1:{port}; application live {{ live on; }} }} }}")
    server = subprocess.Popen([nginx, "-p", folder, "-c", settings, "-e", log],
                              preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    uri = f"rtmp://127.0.0.1:{port}/live/x"
    try:
        begin = time.monotonic()
        while not listens(port):
            assert time.monotonic() < begin + 90, "nginx does not start"
            time.sleep(0.1)
        with running("test", "--size", "320x180", *PLAIN, "--output", uri, stderr=subprocess.PIPE) as program:
            assert any(" 0.0 frames/s" not in line for line in program.stderr if "frames/s" in line)
            got = colors(f"rtmp2src location={uri} ! decodebin ! identity eos-after=40")
    finally:
        server.terminate()
        server.wait(30)
    near(got, GREEN)
    assert len(got) >= 30, len(got)


@case("rtmp", "srt")
def a_server_that_is_not_there(scheme):
    uri = f"{scheme}://127.0.0.1:{free_port()}/live/x"
    if scheme == "rtmp":
        live_matte("test", "--size", "320x180", *PLAIN, "--output", uri, "--seconds", "20", fails=f"--output {uri}")
    else:
        live_matte("test", "--size", "320x180", *PLAIN, "--output", "srt://nowhere", fails="--output srt://nowhere")


@case()
def elements_as_the_output():
    raw = FOLDER / "frames.rgb"
    live_matte(clip(), *PLAIN, "--output", f"! video/x-raw,format=RGB ! filesink location={raw}")
    frames = np.fromfile(raw, np.uint8)
    assert len(frames) and len(frames) % (320 * 180 * 3) == 0, len(frames)
    near(frames.reshape(-1, 3).mean(0), GREEN)
    live_matte(clip(), "--output", "! nosuchelement", fails="nosuchelement")


@case()
def reports_as_json():
    lines, other = [], FOLDER / "stderr"
    with open(other, "w") as file, running("test", "--size", "320x180", *PLAIN, "--output", "none", "--json",
                                           stdout=subprocess.PIPE, stderr=file) as program:
        for text in program.stdout:
            lines.append(json.loads(text))
            if len(lines) > 1 and lines[-1]["network_ms"]:
                break
    equal(set(lines[0]), {"seconds", "frames", "frames_per_second", "latency_ms", "mask_age_ms", "mask_age_longest_ms",
                          "masks_per_second", "network_ms", "late", "still", "dropped"})
    assert lines[-1]["frames"] > 0, lines
    for before, line in zip([{"seconds": 0, "frames": 0}, *lines], lines):
        came = line["frames_per_second"] * (line["seconds"] - before["seconds"])
        assert abs(came - (line["frames"] - before["frames"])) < 1, (before, line)
    assert "frames/s  " not in other.read_text(), other.read_text()


def ask(address, path, body=None):
    request = urllib.request.Request(address + path, body and json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def shown(address):
    """Returns the mean colour of the picture on the page."""
    with urllib.request.urlopen(address + "pictures", timeout=90) as stream:
        for _ in range(4):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += stream.read(1)
            length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
            picture = stream.read(length + 2)[:-2]
    assert b"X-Picture: after" in head and picture[:2] == b"\xff\xd8", head
    file = FOLDER / "shown.jpg"
    file.write_bytes(picture)
    return colors(f"filesrc location={file} ! jpegdec")[0]


def shows(address, wanted):
    """Waits until the page shows a colour. Frames in flight have the former one."""
    end = time.monotonic() + 90
    while np.abs(shown(address) - wanted).max() >= NEAR and time.monotonic() < end:
        time.sleep(0.1)
    near(shown(address), wanted)


@case()
def the_page_changes_a_running_program():
    red = FOLDER / "red.png"
    make(f"videotestsrc num-buffers=1 pattern=red ! video/x-raw,width=300,height=300 ! pngenc ! filesink location={red}")
    film = FOLDER / "blue.mp4"
    make("videotestsrc num-buffers=20 pattern=solid-color foreground-color=0xff2030e0 "
         f"! video/x-raw,format=I420,width=100,height=60,framerate=30/1 ! x264enc ! mp4mux ! filesink location={film}")
    nothing = FOLDER / "nothing.png"
    nothing.write_text("no picture")
    with running("test", "--size", "320x180", *PLAIN, "--output", "none", "--page", "0", "--quiet",
                 stderr=subprocess.PIPE) as program:
        address = next(line for line in program.stderr if line.startswith("Tune at ")).split()[-1]
        shows(address, GREEN)

        def set_to(text):
            return ask(address, "set", {"control": "background", "property": "background", "value": str(text)})
        # Each background is the picture's colour, because nobody is before the camera.
        for what, color in ((red, RED), ("color:2030e0", BLUE), (film, BLUE), (red, RED), ("color:00b140", GREEN)):
            equal(set_to(what)[0], 200)
            shows(address, color)
        for what, words in (("beach", "must be blur"), (nothing, "nothing.png"), ("mask", "from the start"),
                            ("blur:1", "2 to 256")):
            status, said = set_to(what)
            assert status == 400 and words in said, (status, said)
        shows(address, GREEN)
        equal(ask(address, "set", {"control": "matte", "property": "temporal", "value": 0.5})[0], 200)
        equal(set_to(red)[0], 200)
        line = json.loads(ask(address, "state")[1])["line"]
        equal(line, f"gst-cuda-live-matte test --size 320x180 --output none --quiet --background {red} "
                    "--matte temporal=0.5")
        # The blur shows the test's own colours, and goes away again.
        for what in "blur:5", "color:2030e0":
            equal(set_to(what)[0], 200)
        shows(address, BLUE)
        equal(ask(address, "set", {"control": "matte", "property": "output", "value": "alpha"})[0], 400)
        equal(ask(address, "preset", {"control": "matte", "preset": "webcam"})[0], 400)
        frames, end = [], time.monotonic() + 90
        while len(set(frames)) < 5:
            assert time.monotonic() < end, frames
            frames.append(json.loads(ask(address, "state")[1])["stats"]["matte"]["frames"])
    live_matte("test", "--background", "mask", "--output", "none", "--page", fails="--page mask")
