"""Tests live-matte's messages, cameras' modes, files, backgrounds, its end, and its memory."""
import faulthandler
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

from common import FOLDER, MISSING, PROGRAM, Gst, frames_of, live_matte, make, run_program
from harness import Skip, case
from gst_cuda_filters.live_matte import Failure, source

BALL = "test", "--background", "color:000000"
NO_CAMERA = {} if list(pathlib.Path("/dev").glob("video*")) else {
    "no camera": ([], "there is no camera gst-cuda-live-matte test"),
}
BAD = {
    **NO_CAMERA,
    "no video": ([__file__], "live-matte:"),
    "no file": (["/nowhere.mp4"], "there is no file /nowhere.mp4"),
    "no camera of that number": (["--camera", "97"], "there is no camera /dev/video97"),
    "no v4l2loopback": ([*BALL, "--output", "/dev/video97"], "/dev/video97 apt install v4l2loopback-dkms modprobe"),
    "no folder": ([*BALL, "--output", "/nowhere/a.mp4"], "there is no folder /nowhere"),
    "an unknown container": ([*BALL, "--output", "/nowhere/a.wmv"], "--output /nowhere/a.wmv FILE.mp4 FILE.mkv"),
    "a server of another kind": ([*BALL, "--output", "http://example.com/live"],
                                 "http://example.com/live is a URI window, FILE.mp4, FILE.mov, FILE.mkv, hls:FOLDER, "
                                 "rtmp://..., srt://..., /dev/videoN pipewire, none, ELEMENTS"),
    "no folder for a playlist": ([*BALL, "--output", "hls:/nowhere/a"], "there is no folder /nowhere"),
    "no port": ([*BALL, "--page", "65536"], "--page from 0 to 65535"),
    "an unknown background": (["test", "--background", "beach"], "--background beach blur[:SIGMA] color:RRGGBB"),
    "a colour of five digits": (["test", "--background", "color:12345"], "color:RRGGBB six hexadecimal digits"),
    "a sigma that is none": (["test", "--background", "blur:much"], "blur:SIGMA number"),
    "a size that is none": (["test", "--size", "12by9"], "--size WIDTHxHEIGHT"),
    "a mask error of 65": (["test", "--mask-error", "65"], "--mask-error from 0 to 64"),
    **({} if Gst.ElementFactory.find("tfliteinference") else {
        "an engine of another version": ([*BALL, "--engine", "gst"], "--engine gst tfliteinference 1.28")}),
    "a delay of 11 seconds": ([*BALL, "--delay", "11000"], "--delay 11000 auto or a whole number from 0 to 10000"),
    "two ways to wait": ([*BALL, "--delay", "50", "--wait-for-mask"], "--wait-for-mask and --delay exclude each other"),
    "a camera and a file": (["a.mp4", "--camera", "0"], "--camera exclude"),
}


@case(*BAD)
def error(name):
    arguments, words = BAD[name]
    live_matte(*arguments, "--output", "none", fails=words) if "--output" not in arguments else \
        live_matte(*arguments, fails=words)


@case()
def error_a_model_that_is_none():
    if MISSING:
        raise Skip(MISSING)
    (FOLDER / "text.tflite").write_text("no network")
    live_matte(*BALL, "--output", "none", "--model", FOLDER / "text.tflite", fails="is no model that LiteRT runs")
    live_matte(*BALL, "--output", "none", "--model", FOLDER / "none.tflite", fails="none.tflite")


@case()
def error_a_property_that_is_none():
    if MISSING:
        raise Skip(MISSING)
    live_matte(*BALL, "--output", "none", "--matte", "beauty=1", fails="--matte beauty=1 property")


@case()
def help_has_examples():
    text = live_matte("--help") if not MISSING else ""
    assert MISSING or all(word in text for word in ("examples:", "/dev/video10", "--background", "Ctrl-C")), text


MODES = {
    # Many cameras offer raw frames at a few per second, and JPEG at higher rates.
    "a webcam": ("video/x-raw,format=YUY2,width=640,height=480,framerate={30/1,15/1};"
                 "video/x-raw,format=YUY2,width=1280,height=720,framerate={10/1};"
                 "image/jpeg,width=1280,height=720,framerate={30/1};image/jpeg,width=1920,height=1080,framerate={30/1}",
                 (1280, 720), 30, "image/jpeg,width=1280,height=720,framerate=30/1"),
    "raw where both are as good": ("image/jpeg,width=1280,height=720,framerate=30/1;"
                                   "video/x-raw,format=NV12,width=1280,height=720,framerate=30/1",
                                   (1280, 720), 30, "video/x-raw,width=1280,height=720,format=NV12,framerate=30/1"),
    "ranges": ("video/x-raw,format=YUY2,width=[160,1920,16],height=[120,1080,8],framerate=[1/1,60/1]",
               (1280, 720), 30, "video/x-raw,width=1280,height=720,format=YUY2,framerate=30/1"),
    "a small camera": ("video/x-raw,format=YUY2,width=640,height=480,framerate=30/1",
                       (1920, 1080), 30, "video/x-raw,width=640,height=480,format=YUY2,framerate=30/1"),
    "60 frames per second": ("image/jpeg,width=1280,height=720,framerate={60/1,30/1}", (1280, 720), 60,
                             "image/jpeg,width=1280,height=720,framerate=60/1"),
    "no video": ("video/x-h264,width=640,height=480", (640, 480), 30, None),
}


@case(*MODES)
def mode_of_a_camera(name):
    caps, size, rate, expected = MODES[name]
    mode = source.choose_mode(Gst.Caps.from_string(caps), size, rate)
    assert mode == expected, mode
    if mode and Gst.ElementFactory.find("v4l2src"):
        Gst.parse_launch(source.camera_line("/dev/video0", mode, size) + " ! fakesink")


# These replace the files of cameras and telephones. Each has 20 frames.
TEST = "videotestsrc num-buffers=20 pattern=ball ! video/x-raw,framerate=20/1,"
CLIPS = {
    "MJPG": (TEST + "format=I420,width=320,height=240 ! jpegenc ! avimux", "avi", (320, 240)),
    "YUY2": (TEST + "format=YUY2,width=320,height=240 ! avimux", "avi", (320, 240)),
    "portrait": (TEST + "format=I420,width=180,height=320 ! x264enc ! h264parse ! mp4mux", "mp4", (180, 320)),
    "turned": (TEST + "format=I420,width=320,height=180 ! x264enc ! h264parse ! mp4mux", "mp4", (180, 320)),
    "odd size": (TEST + "format=I420,width=321,height=181 ! jpegenc ! avimux", "avi", (320, 180)),
    "4:4:4, 10 bit": (TEST + "format=Y444_10LE,width=320,height=180 ! x264enc ! h264parse ! matroskamux", "mkv",
                      (320, 180)),
}


@case(*CLIPS)
def clip(name):
    line, extension, size = CLIPS[name]
    if "Y444" in line and not Gst.ElementFactory.find("avdec_h264"):
        raise Skip("only FFmpeg decodes it (gstreamer1.0-libav)")
    file, made = FOLDER / f"in.{extension}", FOLDER / "out.mp4"
    make(f"{line} ! filesink location={file}")
    if name == "turned":
        # Telephones write a quarter turn as a matrix in the track's header.
        data = bytearray(file.read_bytes())
        at = data.index(b"tkhd") + 44
        data[at:at + 36] = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30)
        file.write_bytes(data)
    live_matte(file, "--background", "color:203040", "--output", made)
    got, times = frames_of(made)
    assert (got, len(times)) == (size, 20), (got, len(times))
    assert times == sorted(set(times)), times


@case("blur", "blur:5", "color:00b140", "image", "video", "matte", "mask")
def background(name):
    clip = FOLDER / "in.mp4"
    make(TEST + f"format=I420,width=320,height=180 ! x264enc ! h264parse ! mp4mux ! filesink location={clip}")
    what = name
    if name == "image":
        what = FOLDER / "behind.png"
        make("videotestsrc num-buffers=1 ! video/x-raw,width=300,height=300 ! pngenc ! filesink location=" + str(what))
    if name == "video":
        # The background is shorter than the clip, so it repeats.
        what = FOLDER / "behind.mp4"
        make("videotestsrc num-buffers=6 pattern=snow ! video/x-raw,format=I420,width=100,height=300,framerate=10/1 "
             f"! x264enc ! mp4mux ! filesink location={what}")
    for file in ("out.mp4", "out.mkv", "out.mov") if name == "video" else ("out.mp4",):
        live_matte(clip, "--background", what, "--output", FOLDER / file)
        got, times = frames_of(FOLDER / file)
        assert (got, len(times)) == ((320, 180), 20), (file, got, len(times))


@case()
def size_of_the_result():
    clip = FOLDER / "in.mp4"
    make(TEST + f"format=I420,width=320,height=180 ! x264enc ! h264parse ! mp4mux ! filesink location={clip}")
    live_matte(clip, "--background", "matte", "--size", "200x200", "--output", FOLDER / "out.mkv")
    assert frames_of(FOLDER / "out.mkv")[0] == (200, 200)


@case("SIGINT", "SIGTERM", "SIGHUP, and nobody listens")
def ends_cleanly(name):
    """The file of a live source is complete when the program is told to end."""
    if MISSING:
        raise Skip(MISSING)
    made = FOLDER / "live.mp4"
    running = subprocess.Popen([sys.executable, PROGRAM, "test", "--size", "320x180", "--output", made,
                                "--background", "color:000000"], stderr=subprocess.PIPE, text=True)
    lines = [running.stderr.readline()]
    while lines[-1] and ("frames/s" not in lines[-1] or " 0.0 frames/s" in lines[-1]):
        lines.append(running.stderr.readline())
    if "nobody" in name:
        running.stderr.close()
    running.send_signal(getattr(signal, name.partition(",")[0]))
    if "nobody" in name:
        running.wait(timeout=200)
    else:
        lines += running.communicate(timeout=200)[1].splitlines()
    assert running.returncode == 0, (running.returncode, lines)
    size, times = frames_of(made)
    assert size == (320, 180) and times, (size, len(times), lines)


@case()
def a_slow_network_holds_no_frame_up():
    """Masks take half a second each. Many frames come for each mask, and the report says how old the masks are."""
    def patch(it):
        mask = it.net.mask
        it.net.mask = lambda tensor: time.sleep(0.5) or mask(tensor)
    it, said = run_program("test", "--size", "160x90", "--rate", "20", "--seconds", "4", "--output", "none",
                           "--background", "color:000000", patch=patch)
    assert it.masks.made and it.left >= 3 * it.masks.made, (it.left, it.masks.made, said)
    ages = [int(line.split("mask")[1].split()[0]) for line in said.splitlines() if " ms old" in line]
    assert max(ages) >= 400, said


@case()
def a_network_without_numbers():
    """The network returns NaNs: nobody is seen, and the program continues."""
    def patch(it):
        it.net.mask = lambda tensor: None
    clip = FOLDER / "in.mp4"
    make(TEST + f"format=I420,width=320,height=180 ! x264enc ! h264parse ! mp4mux ! filesink location={clip}")
    it, _ = run_program(clip, "--output", "none", "--background", "color:000000", patch=patch)
    assert it.left == 20, it.left


@case()
def a_network_that_fails():
    def patch(it):
        def mask(tensor):
            raise RuntimeError("out of order")
        it.net.mask = mask
    try:
        run_program("test", "--output", "none", "--background", "color:000000", patch=patch)
    except Failure as failure:
        assert "out of order" in str(failure), failure
    else:
        raise AssertionError("no error")


def memory():
    """Returns the resident memory in MiB."""
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1024


@case()
def memory_does_not_grow():
    """Runs a live source and compares memory from a third of the run on. LIVE_SECONDS makes it
    longer."""
    seconds = int(os.environ.get("LIVE_SECONDS", 12))
    faulthandler.dump_traceback_later(seconds + 600, exit=True)
    size, rate = os.environ.get("LIVE_SIZE", "320x180"), 30
    sizes = []

    def patch(it):
        report = it.report
        it.report = lambda: sizes.append(memory()) or report()
    it, said = run_program("test", "--size", size, "--rate", rate, "--seconds", seconds, "--backend", "cpu",
                           "--background", "color:102030", "--output", "none", patch=patch)
    before, after = max(sizes[len(sizes) // 3:len(sizes) // 3 + 3]), max(sizes[-3:])
    lines = [line for line in said.splitlines() if "frames/s" in line]
    print(f"# {size}, {it.left} frames in {seconds} s, {it.entered - it.masks.joined} dropped, {it.masks.made} masks; "
          f"{before:.1f} MiB, at the end {after:.1f} MiB; load {os.getloadavg()[0]:.1f}\n# {lines[-1]}")
    assert after <= before + 4, sizes
    assert it.left >= rate, (it.left, said)
