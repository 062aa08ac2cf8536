"""Tests live-matte with cameras, windows and PipeWire, or with replacements of them."""
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
from common import FOLDER, MISSING, PROGRAM, Gst, frames_of, live_matte, program, run_program
from harness import Skip, case
from gst_cuda_filters.live_matte import Failure, source

# The path exists, but the frames come from a replacement of v4l2src.
DEVICE = "/dev/null"
CAMERA = ("videotestsrc is-live=true pattern=ball num-buffers={} "
          "! video/x-raw,format={},width={},height={},framerate={}/1 ! identity")


@contextlib.contextmanager
def camera(modes, description):
    """Replaces v4l2src at DEVICE, which offers `modes`, by `description`."""
    kept = source.modes, source.camera_line
    source.modes = lambda path: Gst.Caps.from_string(modes)
    source.camera_line = lambda path, mode, size: kept[1](path, mode, size).replace(
        f"v4l2src device={source.quoted(path)} ", f"{description} ")
    try:
        yield
    finally:
        source.modes, source.camera_line = kept


# Each name has what a camera offers, the pipeline that replaces it, the options, and the size of
# the result.
CAMERAS = {
    "MJPG": ("video/x-raw,format=YUY2,width=640,height=360,framerate=5/1;"
             "image/jpeg,width=640,height=360,framerate=20/1",
             CAMERA.format(20, "I420", 640, 360, 20) + " ! jpegenc", ["--size", "640x360"], (640, 360)),
    "YUY2": ("video/x-raw,format=YUY2,width=320,height=240,framerate={20/1,10/1}",
             CAMERA.format(20, "YUY2", 320, 240, 20), ["--rate", "20"], (320, 240)),
    "NV12, upright": ("video/x-raw,format=NV12,width=360,height=640,framerate=20/1",
                      CAMERA.format(20, "NV12", 360, 640, 20), [], (360, 640)),
    "another size than its own": ("image/jpeg,width=640,height=480,framerate=20/1",
                                  CAMERA.format(20, "I420", 640, 480, 20) + " ! jpegenc", ["--size", "320x180"],
                                  (320, 180)),
}


@case(*CAMERAS)
def frames_of_a_camera(name):
    modes, description, options, size = CAMERAS[name]
    made = FOLDER / "camera.mp4"
    with camera(modes, description):
        it, said = run_program("--camera", DEVICE, *options, "--background", "color:203040", "--output", made)
    got, times = frames_of(made)
    assert got == size, got
    # A machine that is too slow for a live source drops frames, and the program counts them.
    assert len(times) == it.left and times, (len(times), it.left, said)


@case("mp4", "mkv")
def a_camera_that_changes_its_rate(extension):
    """The rate changes in the middle without a restart, as cameras do in the dark."""
    size = "format=YUY2,width=320,height=180,framerate"
    cameras = (f"concat name=camera  videotestsrc num-buffers=10 ! video/x-raw,{size}=20/1 ! camera. "
               f"videotestsrc num-buffers=10 ! video/x-raw,{size}=7/1 ! camera.  camera. ! videoconvert")
    made = FOLDER / f"out.{extension}"
    make_source, program.source.make = program.source.make, lambda *_: source.Source(cameras, False, "cameras")
    try:
        run_program("cameras", "--background", "color:203040", "--output", made)
    finally:
        program.source.make = make_source
    size, times = frames_of(made)
    assert (size, len(times)) == ((320, 180), 20), (size, len(times), times)
    if extension == "mp4":
        # Frames keep their times.
        assert abs(times[-1] - times[0] - (0.5 + 9 / 7) * Gst.SECOND) < 0.01 * Gst.SECOND, times


@case()
def an_unplugged_camera():
    """The program fails, but what it has recorded can be played."""
    made = FOLDER / "unplugged.mp4"
    with camera("video/x-raw,format=YUY2,width=320,height=180,framerate=20/1",
                CAMERA.format(-1, "YUY2", 320, 180, 20) + " ! identity error-after=25"):
        try:
            run_program("--camera", DEVICE, "--background", "color:203040", "--output", made)
        except Failure as failure:
            assert "identity" in str(failure), failure
        else:
            raise AssertionError("no error")
    size, times = frames_of(made)
    assert size == (320, 180) and times, (size, len(times))


@case()
def error_no_camera_at_all():
    """The path is no device."""
    live_matte("--camera", DEVICE, "--output", "none", fails=f"cannot open {DEVICE} group video")


def started(*arguments, environment):
    """Returns the program as soon as frames come out of it."""
    if MISSING:
        raise Skip(MISSING)
    running = subprocess.Popen([sys.executable, PROGRAM, "test", "--size", "320x180", "--rate", "20", *arguments],
                               env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in running.stderr:
        lines.append(line)
        if "frames/s" in line and " 0.0 frames/s" not in line:
            return running, lines
    running.wait()
    raise AssertionError(f"status {running.returncode}: {lines}")


def ended(running, lines):
    """Checks that the program ends soon and without an error."""
    try:
        said = running.communicate(timeout=200)[1]
    finally:
        running.kill()
    assert running.returncode == 0 and "Traceback" not in said, (running.returncode, lines, said)


def picture(description, environment):
    """Reads a frame of 320 x 180 RGB with a pipeline in another process."""
    file = FOLDER / "picture.raw"
    subprocess.run(["gst-launch-1.0", "-q", *description.split(), "!", "videoconvert", "!",
                    "video/x-raw,format=RGB,width=320,height=180", "!", "multifilesink", f"location={file}"],
                   env=environment, timeout=200, check=True, stdout=subprocess.DEVNULL)
    return np.fromfile(file, np.uint8).reshape(180, 320, 3)


def is_color(frame, wanted):
    """Returns whether the background is everywhere, because the network sees nobody."""
    return np.abs(frame.astype(int) - wanted).max() <= 6


def assert_color(frame, wanted):
    assert is_color(frame, wanted), (frame.min(axis=(0, 1)), frame.max(axis=(0, 1)), wanted)


SCREEN = "ximagesrc num-buffers=1 use-damage=false show-pointer=false"


@contextlib.contextmanager
def processes(*commands, environment):
    """Runs programs until the end of the block."""
    running = []
    try:
        for command in commands:
            running.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL))
        yield running
    finally:
        for each in reversed(running):
            each.terminate()
            each.wait(timeout=90)


def until(condition, seconds=90):
    """Waits until the condition returns something true, and returns that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    return None


class Display:
    """Does what a window manager does, on an X server without a screen."""

    def __init__(self, name):
        self.x = ctypes.CDLL("libX11.so.6")
        self.x.XOpenDisplay.restype = ctypes.c_void_p
        self.x.XInternAtom.restype = ctypes.c_ulong
        self.x.XDefaultRootWindow.restype = ctypes.c_ulong
        self.display = ctypes.c_void_p(self.x.XOpenDisplay(name.encode()))
        if not self.display:
            raise Skip(f"cannot connect to {name}")

    def window(self):
        """Returns the window on the screen, or 0."""
        root, parent = ctypes.c_ulong(), ctypes.c_ulong()
        children, count = ctypes.POINTER(ctypes.c_ulong)(), ctypes.c_uint()
        self.x.XQueryTree(self.display, ctypes.c_ulong(self.x.XDefaultRootWindow(self.display)), ctypes.byref(root),
                          ctypes.byref(parent), ctypes.byref(children), ctypes.byref(count))
        return children[count.value - 1] if count.value else 0

    def close(self, window):
        """Closes the window as by the button of its frame."""
        class Message(ctypes.Structure):
            _fields_ = [("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("sent", ctypes.c_int),
                        ("display", ctypes.c_void_p), ("window", ctypes.c_ulong), ("kind", ctypes.c_ulong),
                        ("format", ctypes.c_int), ("data", ctypes.c_long * 5), ("unused", ctypes.c_long * 10)]
        message = Message(type=33, window=window, kind=self.x.XInternAtom(self.display, b"WM_PROTOCOLS", 0), format=32)
        message.data[0] = self.x.XInternAtom(self.display, b"WM_DELETE_WINDOW", 0)
        self.x.XSendEvent(self.display, ctypes.c_ulong(window), 0, 0, ctypes.byref(message))
        self.x.XSync(self.display, 0)


@case("closed", "Ctrl-C")
def window(how):
    """The window shows frames, and the program ends without an error when it is closed."""
    if not shutil.which("Xvfb"):
        raise Skip("no Xvfb")
    for element in ("ximagesrc", "ximagesink"):
        if not Gst.ElementFactory.find(element):
            raise Skip(f"GStreamer has no {element}")
    read, write = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "320x180x24", "-nolisten", "tcp"],
                              pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(write)
    try:
        number = os.read(read, 16).decode().strip()
        if not number:
            raise Skip("Xvfb does not start")
        environment = dict(os.environ, DISPLAY=f":{number}", WAYLAND_DISPLAY="")
        display = Display(f":{number}")
        running, lines = started("--output", "window", "--background", "color:204080", environment=environment)
        window = until(display.window)
        assert window, "no window"
        # The window may be there before its first frame.
        until(lambda: is_color(picture(SCREEN, environment), (0x20, 0x40, 0x80)))
        assert_color(picture(SCREEN, environment), (0x20, 0x40, 0x80))
        if how == "closed":
            display.close(window)
        else:
            running.send_signal(signal.SIGINT)
        ended(running, lines)
    finally:
        os.close(read)
        server.terminate()
        server.wait(timeout=90)


@case("none", "not there")
def error_no_display(name):
    if MISSING:
        raise Skip(MISSING)
    environment = {"DISPLAY": "" if name == "none" else ":9797", "WAYLAND_DISPLAY": ""}
    kept = {key: os.environ.get(key) for key in environment}
    os.environ.update(environment)
    try:
        live_matte("test", "--size", "320x180", "--seconds", "20", fails="window DISPLAY --output FILE.mp4")
    finally:
        for key, value in kept.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})


@case()
def pipewire():
    """Other programs find the virtual camera and get its frames, even after one of them has left.
    """
    missing = [name for name in ("pipewire", "wireplumber", "dbus-daemon") if not shutil.which(name)]
    missing += [name for name in ("pipewiresink", "pipewiresrc") if not Gst.ElementFactory.find(name)]
    if missing:
        raise Skip(f"no {', '.join(missing)}")
    home = FOLDER / "pipewire"
    home.mkdir(mode=0o700)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PIPEWIRE")}
    environment.update(XDG_RUNTIME_DIR=str(home), XDG_STATE_HOME=str(home), XDG_CONFIG_HOME=str(home),
                       DBUS_SESSION_BUS_ADDRESS=f"unix:path={home}/bus")
    with processes(["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address=unix:path={home}/bus"],
                   ["pipewire"], environment=environment):
        if not until(lambda: (home / "bus").exists() and (home / "pipewire-0").exists()):
            raise Skip("PipeWire does not start")
        with processes(["wireplumber"], environment=environment):
            running, lines = started("--output", "pipewire", "--background", "color:204080", environment=environment)
            for _ in range(2):
                assert_color(picture("pipewiresrc target-object=live-matte num-buffers=20", environment),
                             (0x20, 0x40, 0x80))
            running.send_signal(signal.SIGINT)
            ended(running, lines)
