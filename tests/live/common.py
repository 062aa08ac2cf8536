"""Shares the program, clips and file readers between the tests of gst-cuda-live-matte."""
import contextlib
import faulthandler
import functools
import io
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from harness import Skip, load_gst  # noqa: E402

Gst = load_gst()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = ROOT / "pipelines" / "live-matte.py"
WORK = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(WORK.name)

import gst_cuda_filters as gcf  # noqa: E402
from gst_cuda_filters.live_matte import Failure, fetch, program  # noqa: E402

try:
    NETWORK = fetch.network_file("selfie_segmentation_landscape.tflite")
    fetch.litert()
    MISSING = None
except Failure as why:
    MISSING = str(why).splitlines()[0]


@functools.cache
def forks():
    """Returns a process that runs the program, and the socket of its requests."""
    mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen([sys.executable, pathlib.Path(__file__).with_name("forks.py"), PROGRAM,
                                    str(its.fileno())], pass_fds=[its.fileno()], start_new_session=True)
    # The time limit is that of one case, and long because machines are busy.
    mine.settimeout(800)
    return process, mine


def live_matte(*arguments, fails=None):
    """Runs the program and returns its output. With `fails`, it must fail and print all these
    words."""
    if fails is None and MISSING:
        raise Skip(MISSING)
    faulthandler.dump_traceback_later(900, exit=True)
    process, requests = forks()
    with tempfile.TemporaryFile() as output:
        request = {"arguments": list(map(str, arguments)), "environment": dict(os.environ)}
        socket.send_fds(requests, [json.dumps(request).encode()], [output.fileno()])
        try:
            status = int(requests.recv(100))
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        output.seek(0)
        said = output.read().decode()
    assert bool(status) == bool(fails), said
    if fails:
        missing = [word for word in fails.split() if word not in said]
        assert not missing and "Traceback" not in said, f"{missing} not in: {said}"
    return said


def make(line):
    """Runs a pipeline to its end."""
    pipeline = Gst.parse_launch(line)
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(300 * Gst.SECOND, Gst.MessageType.ERROR | Gst.MessageType.EOS)
    pipeline.set_state(Gst.State.NULL)
    assert message and message.type == Gst.MessageType.EOS, message and message.parse_error()


def without_loss(file):
    """Encodes a Y4M file as lossless H.264: decodebin of GStreamer 1.28.8 sometimes hangs when it
    starts a Y4M decoder."""
    made = file.with_suffix(".mkv")
    make(f"filesrc location={file} ! y4mdec ! x264enc pass=quant quantizer=0 bframes=0 ! h264parse ! matroskamux "
         f"! filesink location={made}")
    return made


def samples_of(file, conversion="", kind=""):
    """Yields the samples that a file decodes to, after a conversion. `kind` is video or audio if it has both."""
    only = f'caps="{kind}/x-raw"' if kind else ""
    pipeline = Gst.parse_launch(f'uridecodebin uri="{pathlib.Path(file).as_uri()}" {only} ! {conversion} '
                                "appsink name=sink sync=false max-buffers=4")
    sink = pipeline.get_by_name("sink")
    pipeline.set_state(Gst.State.PLAYING)
    while sample := sink.emit("try-pull-sample", 90 * Gst.SECOND):
        yield sample
    message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    assert not message, message.parse_error()


def frames_of(file):
    """Returns the caps and time stamps of the frames that a file decodes to."""
    times, caps = [], None
    for sample in samples_of(file):
        caps = sample.get_caps().get_structure(0)
        times.append(sample.get_buffer().pts)
    return (caps.get_value("width"), caps.get_value("height")) if caps else None, times


def grays(file):
    """Returns the luma of a file's frames, from 0 for black to 1 for white."""
    return np.array([(np.array(gcf.frame(sample).planes[0]) - 16.0) / 219
                     for sample in samples_of(file, "videoconvert ! video/x-raw,format=I420 !")])


class Waits(threading.Thread):
    """Adds up for how long the threads of this process wait for a processor."""

    def __init__(self):
        super().__init__(daemon=True)
        self.begun, self.waits, self.ended = time.monotonic(), {}, threading.Event()

    def run(self):
        while not self.ended.wait(0.05):
            for task in pathlib.Path("/proc/self/task").iterdir():
                with contextlib.suppress(OSError):  # it may have ended, or the kernel may not count
                    self.waits[task.name] = int((task / "schedstat").read_text().split()[1])

    def share(self):
        self.ended.set()
        self.join()
        return sum(self.waits.values()) / 1e9 / (time.monotonic() - self.begun)


def punctual(function):
    """Marks a case that measures how punctual the program is, which no program is without a processor. Where other
    programs have kept it from one, a case that fails is tried again, and skipped at last."""
    @functools.wraps(function)
    def tried(*arguments):
        for _ in range(4):
            waits = Waits()
            waits.start()
            try:
                return function(*arguments)
            except AssertionError as error:
                share, why = waits.share(), error
                if share < 0.1:
                    raise
            finally:
                waits.ended.set()
        raise Skip(f"other programs need the processors, {share:.1f} threads waited at any time: {str(why)[:200]}")
    return tried


def run_program(*arguments, patch=None):
    """Runs the program in this process. Returns the finished Program and its output."""
    if MISSING:
        raise Skip(MISSING)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        it = program.Program(program.options(list(map(str, arguments))))
        if patch:
            patch(it)
        it.run()
    return it, said.getvalue()
