#!/usr/bin/env python3
"""Tests frames and tensors on a GPU, taken by CuPy and PyTorch.

    tests/python/gpu.py [CASE...]        or `alone` for the cases that measure, `parallel` for the others

Needs CuPy, PyTorch, a GPU, GStreamer's nvcodec and this plugin, but not PyGObject: GStreamer is
driven by its C functions. Each case runs in its own process, because a CUDA error ends a process.
"""
import ctypes
import faulthandler
import itertools
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "pipelines")]

try:
    import cupy
    import numpy as np
    import torch

    import gst_cuda_filters as gcf
    from gst_cuda_filters import _cuda, _gst
except ImportError as error:
    print(f"1..0 # SKIP {error}")
    sys.exit(0)
if not torch.cuda.is_available():
    print("1..0 # SKIP PyTorch has no GPU")
    sys.exit(0)

core = ctypes.CDLL("libgstreamer-1.0.so.0")
app = ctypes.CDLL("libgstapp-1.0.so.0")
gobject = ctypes.CDLL("libgobject-2.0.so.0")
P = ctypes.c_void_p


class Error(ctypes.Structure):  # GError
    _fields_ = [("domain", ctypes.c_uint32), ("code", ctypes.c_int), ("message", ctypes.c_char_p)]


OUT = ctypes.POINTER(ctypes.POINTER(Error))
core.gst_parse_launch.restype = P
core.gst_parse_launch.argtypes = [ctypes.c_char_p, OUT]
core.gst_element_get_bus.restype = P
core.gst_element_get_bus.argtypes = [P]
core.gst_bus_pop_filtered.restype = P
core.gst_bus_pop_filtered.argtypes = [P, ctypes.c_int]
core.gst_message_parse_error.argtypes = [P, OUT, ctypes.POINTER(ctypes.c_char_p)]
core.gst_bin_get_by_name.restype = P
core.gst_bin_get_by_name.argtypes = [P, ctypes.c_char_p]
core.gst_element_set_state.argtypes = [P, ctypes.c_int]
core.gst_object_unref.argtypes = [P]
app.gst_app_sink_try_pull_sample.restype = P
app.gst_app_sink_try_pull_sample.argtypes = [P, ctypes.c_uint64]
app.gst_app_sink_is_eos.argtypes = [P]
app.gst_app_src_push_buffer.argtypes = [P, P]
app.gst_app_src_set_caps.argtypes = [P, P]
app.gst_app_src_end_of_stream.argtypes = [P]
gobject.g_signal_connect_data.argtypes = [P, ctypes.c_char_p, P, P, P, ctypes.c_int]
NULL, PLAYING = 1, 4
ERROR_MESSAGE = 1 << 1
SECOND = 10**9
# A case has this many seconds. Processes load nvcodec one at a time, those of other tests included.
LIMIT = int(os.environ.get("VF_TEST_LIMIT", 250))


class Held:
    """Keeps a reference to a sample, whose address is `at`."""

    def __init__(self, address):
        self.at = ctypes.c_void_p(address)

    def __del__(self, unref=_gst.mini_object_unref):
        unref(self.at.value)


class Pipeline:
    def __init__(self, line, primary=True):
        error = ctypes.POINTER(Error)()
        self.at = P(core.gst_parse_launch(line.encode(), ctypes.byref(error)))
        # GStreamer builds a pipeline from the valid parts of the line, and reports an error as
        # well.
        assert self.at and not error, f"{error.contents.message.decode()}: {line}"
        self.bus = P(core.gst_element_get_bus(self.at))
        if primary:
            gcf.use_primary_context(self.at)
        self.sinks = {}

    def play(self):
        assert core.gst_element_set_state(self.at, PLAYING) != 0
        return self

    def get(self, name):
        if name not in self.sinks:
            self.sinks[name] = P(core.gst_bin_get_by_name(self.at, name.encode()))
            assert self.sinks[name]
        return self.sinks[name]

    def check(self):
        """Raises the error of the pipeline."""
        message = core.gst_bus_pop_filtered(self.bus, ERROR_MESSAGE)
        if message:
            error, details = ctypes.POINTER(Error)(), ctypes.c_char_p()
            core.gst_message_parse_error(message, ctypes.byref(error), ctypes.byref(details))
            raise RuntimeError(f"{error.contents.message.decode()} {(details.value or b'').decode()}")

    def pull(self, name="s", seconds=20):
        """Returns the next sample, or None at the end of the stream or if none comes in time."""
        sink = self.get(name)
        end = time.monotonic() + seconds
        while True:
            sample = app.gst_app_sink_try_pull_sample(sink, SECOND // 5)
            if sample:
                return Held(sample)
            # A pipeline that failed sends no end of the stream.
            self.check()
            if app.gst_app_sink_is_eos(sink) or time.monotonic() > end:
                return None

    def stop(self):
        core.gst_element_set_state(self.at, NULL)


def push(source, buffer):
    # The element takes a reference, which a PyGObject object would keep.
    if not isinstance(buffer, P):
        buffer = P(_gst.mini_object_ref(_gst.address_of(buffer)))
    return app.gst_app_src_push_buffer(source, buffer)


def caps(format, width, height, memory=""):
    return f"video/x-raw{memory},format={format},width={width},height={height},framerate=30/1"


CUDA = "(memory:CUDAMemory)"
SINK = "appsink name=s sync=false max-buffers=4"
cases = {}


def case(function):
    cases[function.__name__] = function
    return function


def downloaded(sample, uploaded):
    """Returns a frame as GStreamer downloads it, or the uploaded one if GStreamer cannot download
    it."""
    try:
        return gcf.frame(sample, host=True).planes
    except BufferError as error:
        # GStreamer misplaces a chroma plane of I420 in CUDA memory by half a row: in 1.22 for odd
        # heights, in 1.24 for even ones.
        assert "before 1.24.4" in str(error) and _gst.runtime_version() <= (1, 24)
        return gcf.frame(uploaded, host=True).planes


def frames_agree(sample, uploaded=None):
    """Both libraries must have the frame's pointers and the values that GStreamer downloads."""
    got = gcf.frame(sample).planes if uploaded else [gcf.tensor(sample)]
    down = downloaded(sample, uploaded) if uploaded else [gcf.tensor(sample, host=True)]
    for index, (array, host) in enumerate(zip(got, down)):
        want = np.asarray(host)
        assert array.device == "cuda:0"
        a = cupy.from_dlpack(array)
        b = cupy.asarray(array)
        c = torch.from_dlpack(array)
        assert a.data.ptr == b.data.ptr == c.data_ptr() == array.pointer
        assert a.shape == b.shape == tuple(c.shape) == want.shape
        assert a.strides == b.strides == array.strides
        assert np.array_equal(cupy.asnumpy(a), want) and np.array_equal(cupy.asnumpy(b), want)
        assert np.array_equal(c.cpu().numpy(), want)
        assert index or len(np.unique(want)) > 1
        # The arrays are used in computations, not only copied.
        assert int((a * 255).astype(cupy.int64).sum()) == int((want * want.dtype.type(255)).astype(np.int64).sum())
        # PyTorch stores uint16 but cannot compute with it.
        if want.dtype == np.uint8:
            assert int(c.long().sum()) == int(want.astype(np.int64).sum())


def formats(primary):
    for format, width, height in (("NV12", 1920, 1080), ("NV12", 333, 240), ("I420", 322, 180),
                                  ("P010_10LE", 640, 360), ("RGBA", 333, 241), ("BGR", 333, 241),
                                  ("Y444", 333, 241)):
        pipeline = Pipeline(
            f"videotestsrc pattern=zone-plate kx2=20 ky2=9 num-buffers=2 ! "
            f"{caps(format, width, height)} ! tee name=t t. ! queue ! appsink name=uploaded sync=false "
            f"t. ! queue ! cudaupload ! video/x-raw{CUDA} ! {SINK}", primary
        ).play()
        uploaded, sample = pipeline.pull("uploaded"), pipeline.pull()
        frames_agree(sample.at, uploaded.at)
        pipeline.stop()
    for types, dimensions in (("float32", "640:480:3:1"), ("float16", "3:320:320:1"),
                              ("uint8", "320:320:3:1")):
        pipeline = Pipeline(
            f"videotestsrc pattern=smpte num-buffers=2 ! {caps('NV12', 1280, 720)} ! cudaupload "
            f"! cudaletterbox ! other/tensors{CUDA},format=static,num_tensors=1,types={types},"
            f"dimensions=(string){dimensions} ! {SINK}", primary
        ).play()
        sample = pipeline.pull()
        frames_agree(sample.at)
        box = gcf.tensor(sample.at).letterbox
        assert (box.source_width, box.source_height) == (1280, 720)
        pipeline.stop()


@case
def values_in_the_primary_context():
    formats(True)


@case
def values_in_a_context_of_gstreamers_own():
    formats(False)


def checksums(deferred, primary):
    """Returns sums of frames, computed by slow work that is enqueued and not waited for, and the
    correct sums."""
    if not deferred:
        _cuda.CudaMapping._waits = lambda self: []
    pipeline = Pipeline(
        f"videotestsrc pattern=snow num-buffers=250 ! {caps('NV12', 640, 360)} ! tee name=t "
        "t. ! queue max-size-buffers=0 max-size-bytes=0 max-size-time=0 ! appsink name=host sync=false "
        f"t. ! queue ! cudaupload ! video/x-raw{CUDA} ! appsink name=s sync=false max-buffers=2",
        primary,
    ).play()
    streams = [torch.cuda.Stream(), torch.cuda.default_stream(), torch.cuda.Stream()]
    ours = cupy.cuda.Stream(non_blocking=True)
    sums = []
    n = 0
    while sample := pipeline.pull(seconds=3):
        plane = gcf.frame(sample.at).planes[0]
        if n % 4 == 3:
            with ours:
                x = cupy.from_dlpack(plane) if n % 8 == 3 else cupy.asarray(plane)
                slow(ours)
                sums.append(x.astype(cupy.int64).sum())
        else:
            with torch.cuda.stream(streams[n % 4]):
                x = torch.from_dlpack(plane)
                torch.cuda._sleep(3_000_000)
                sums.append(x.long().sum())
        # Only the work on the stream still refers to the frame.
        del x, plane, sample
        n += 1
    want = []
    while sample := pipeline.pull("host", seconds=2):
        want.append(int(np.asarray(gcf.frame(sample.at).planes[0]).astype(np.int64).sum()))
        del sample
    torch.cuda.synchronize()
    ours.synchronize()
    pipeline.stop()
    assert n == len(want) == 250, (n, len(want))
    return sum(int(s) != w for s, w in zip(sums, want))


_slow = cupy.RawKernel(
    'extern "C" __global__ void slow(long long n) { long long t = clock64(); '
    "while (clock64() - t < n); }", "slow"
)


def slow(stream):
    _slow((1,), (1,), (np.int64(3_000_000),), stream=stream)


@case
def buffers_wait_for_consumers():
    for primary in (True, False):
        wrong = checksums(True, primary)
        assert wrong == 0, f"{wrong} of 250 frames were overwritten while they were read"


@case
def buffers_that_do_not_wait_are_overwritten():
    # Without the wait the sums are wrong, so the case above can fail.
    wrong = checksums(False, True)
    print(f"# {wrong} of 250 frames were overwritten")
    assert wrong > 0


def microseconds(functions, count=250, rounds=60):
    """Measures each row: the best of short runs that take turns, because others may use the machine
    meanwhile."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(count):
                function()
            best[name] = min(best[name], (time.perf_counter() - start) / count * 1e6)
    return best


@case
def time_of_a_frame():
    pipeline = Pipeline(
        f"videotestsrc num-buffers=3 ! {caps('NV12', 1920, 1080)} ! cudaupload "
        f"! video/x-raw{CUDA} ! {SINK}"
    ).play()
    sample = pipeline.pull()
    side = torch.cuda.Stream()

    def on_side():
        with torch.cuda.stream(side):
            torch.from_dlpack(gcf.frame(sample.at).planes[0])

    def change():
        with torch.cuda.stream(side):
            pass

    own, own_cupy = torch.zeros(9, device="cuda"), cupy.zeros(9)
    rows = {
        "PyTorch's from_dlpack of a tensor of its own": lambda: torch.from_dlpack(own),
        "CuPy's from_dlpack of an array of its own": lambda: cupy.from_dlpack(own_cupy),
        "frame": lambda: gcf.frame(sample.at),
        "frame, DLPack to PyTorch": lambda: torch.from_dlpack(gcf.frame(sample.at).planes[0]),
        "frame, DLPack to PyTorch on another stream": on_side,
        "PyTorch's change of streams in that": change,
        "frame, DLPack to CuPy": lambda: cupy.from_dlpack(gcf.frame(sample.at).planes[0]),
        "frame, array interface to CuPy": lambda: cupy.asarray(gcf.frame(sample.at).planes[0]),
    }
    times = microseconds(rows)
    for name, value in times.items():
        print(f"# {value:6.1f} us  {name}")
    pipeline.stop()
    # Without the extension, the limit is relative to what the library needs for its own array.
    most = 20
    pure = _gst.native is None
    of_torch = times["PyTorch's from_dlpack of a tensor of its own"] if pure else 0
    assert times["frame, DLPack to PyTorch"] - of_torch <= most
    of_cupy = times["CuPy's from_dlpack of an array of its own"] if pure else 0
    assert times["frame, DLPack to CuPy"] - of_cupy <= most


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@case
def memory_over_100000_frames():
    total = 100_000
    pipeline = Pipeline(
        f"videotestsrc num-buffers={total} pattern=black ! {caps('NV12', 64, 64)} ! queue ! cudaupload "
        f"! video/x-raw{CUDA} ! {SINK}"
    ).play()
    total_sum = torch.zeros((), dtype=torch.int64, device="cuda")
    marks = []
    n = 0
    start = time.perf_counter()
    while sample := pipeline.pull(seconds=2):
        frame = gcf.frame(sample.at)
        if n % 2:
            total_sum += torch.from_dlpack(frame.planes[0])[0, 0]
        else:
            cupy.asarray(frame.planes[1])
        n += 1
        if n % 10_000 == 0:
            torch.cuda.synchronize()
            marks.append((resident(), torch.cuda.mem_get_info()[0]))
            if time.perf_counter() - start > 60:
                break
    elapsed = time.perf_counter() - start
    pipeline.stop()
    grown = (marks[-1][0] - marks[1][0]) / 1024
    used = (marks[1][1] - marks[-1][1]) / 1024
    print(f"# {n} frames in {elapsed:.1f} s: resident memory grew by {grown:.0f} KiB from frame 20,000 "
          f"on, memory on the GPU by {used:.0f} KiB")
    assert len(marks) >= 4, "too few frames"
    # A leak of 100 bytes per frame would be 8 MB.
    assert grown < 4096 and used < 4096


@case
def pipelines_stop_while_arrays_are_held():
    callback = ctypes.CFUNCTYPE(ctypes.c_int, P, P)
    for n in range(25):
        pipeline = Pipeline(
            f"videotestsrc ! {caps('NV12', 320, 240)} ! cudaupload ! video/x-raw{CUDA} ! tee name=t "
            f"t. ! queue ! {SINK} t. ! queue ! appsink name=called sync=false emit-signals=true",
            n % 2 == 0,
        )
        kept = []

        def take(sink, _, kept=kept):
            # This runs in a streaming thread.
            sample = Held(app.gst_app_sink_try_pull_sample(sink, SECOND))
            x = torch.from_dlpack(gcf.frame(sample.at).planes[0])
            kept.append(x.long().sum())
            return 0

        function = callback(take)
        gobject.g_signal_connect_data(pipeline.get("called"), b"new-sample", function, None, None, 0)
        pipeline.play()
        arrays = []
        for _ in range(n % 6 + 1):
            sample = pipeline.pull()
            arrays.append(torch.from_dlpack(gcf.frame(sample.at).planes[1]))
            arrays.append(cupy.from_dlpack(gcf.frame(sample.at).planes[0]))
            del sample
        pipeline.stop()
        core.gst_object_unref(pipeline.at)
        # The memory outlives the pipeline.
        assert all(int(a.max()) > 0 for a in arrays)
        threading.Thread(target=arrays.clear).start()


@case
def kernel_in_a_pipeline():
    import python_cupy

    for primary in (True, False):
        pipeline = Pipeline(
            f"videotestsrc num-buffers=40 ! {caps('RGBA', 640, 360)} ! cudaupload "
            f"! video/x-raw{CUDA} ! {SINK} "
            "appsrc name=filtered format=time ! cudadownload ! video/x-raw "
            "! appsink name=result sync=false async=false", primary
        ).play()
        pool = None
        for n in range(40):
            sample = pipeline.pull()
            assert sample, n
            if pool is None:
                of_sample = _gst.sample_get_caps(sample.at.value)
                app.gst_app_src_set_caps(pipeline.get("filtered"), of_sample)
                pool = gcf.Pool(P(of_sample), like=sample.at, most=8)
            buffer = python_cupy.filter_frame(sample.at, pool)
            assert push(pipeline.get("filtered"), buffer) == 0
            came = pipeline.pull("result")
            python_cupy.check(gcf.frame(sample.at, host=True), gcf.frame(came.at, host=True))
        pipeline.stop()


@case
def detector_on_tensors():
    import python_torch

    pipeline = Pipeline(
        f"videotestsrc pattern=ball num-buffers=40 ! {caps('I420', 640, 360)} ! tee name=t "
        "t. ! queue ! appsink name=frames sync=false "
        f"t. ! queue ! cudaupload ! cudaletterbox ! other/tensors{CUDA},{python_torch.TENSOR} ! {SINK}"
    ).play()
    for _ in range(40):
        frame, sample = pipeline.pull("frames"), pipeline.pull()
        boxes = python_torch.boxes_on_frame(sample.at)
        assert boxes.is_cuda
        python_torch.check(gcf.frame(frame.at), boxes.tolist())
    pipeline.stop()


@case
def batches_without_a_copy():
    streams = "".join(
        f" videotestsrc num-buffers=3 pattern={pattern} ! {caps('NV12', 640, 360)} ! cudaupload ! batch.sink_{n}"
        for n, pattern in enumerate(("smpte", "ball"))
    )
    pipeline = Pipeline(
        f"cudaletterboxbatch name=batch max-wait=4294967295 ! other/tensors{CUDA},format=static,num_tensors=1,"
        f"types=float32,dimensions=(string)320:320:3:2 ! {SINK}{streams}"
    ).play()
    sample = pipeline.pull()
    batch = gcf.batch_of(sample.at)
    rows = torch.from_dlpack(batch.tensor)
    assert rows.is_cuda and tuple(rows.shape) == (2, 3, 320, 320)
    assert rows.data_ptr() == batch.tensor.pointer
    assert [row.stream for row in batch.rows] == [0, 1] and all(row.present for row in batch.rows)
    first = rows[0].cpu().numpy()
    assert len(np.unique(first)) > 2
    # GStreamer must download what PyTorch writes.
    rows[1] = 0.25
    torch.cuda.synchronize()
    host = np.asarray(gcf.tensor(sample.at, host=True))
    assert np.array_equal(host[0], first) and (host[1] == 0.25).all()
    frame = batch.rows[1].frame.planes[0]
    assert torch.from_dlpack(frame).data_ptr() == frame.pointer and tuple(frame.shape) == (360, 640)
    pipeline.stop()


@case
def array_as_a_buffer():
    caps_text = caps("NV12", 320, 240, CUDA)
    whole = torch.randint(0, 256, (360, 320), dtype=torch.uint8, device="cuda")
    planes = [whole[:240], whole[240:].reshape(120, 160, 2)]
    if _gst.runtime_version() < (1, 24):
        try:
            gcf.buffer_from(planes, caps_text)
        except RuntimeError as error:
            assert "1.24" in str(error)
            return
        raise AssertionError("no error")
    pipeline = Pipeline(
        f"appsrc name=a format=time caps={caps_text} ! cudadownload ! video/x-raw ! {SINK}"
    ).play()
    for _ in range(100):
        torch.cuda._sleep(1_000_000)
        whole = torch.randint(0, 256, (360, 320), dtype=torch.uint8, device="cuda")
        planes = [whole[:240], whole[240:].reshape(120, 160, 2)]
        buffer = gcf.buffer_from(planes, caps_text)
        assert push(pipeline.get("a"), buffer) == 0
        got = gcf.frame(pipeline.pull().at, host=True)
        want = whole.cpu().numpy()
        assert np.array_equal(got.planes[0], want[:240])
        assert np.array_equal(np.asarray(got.planes[1]).reshape(120, 320), want[240:])
    pipeline.stop()


@case
def interpreter_ends_with_arrays():
    # The process that runs this case must end without an error.
    pipeline = Pipeline(
        f"videotestsrc ! {caps('NV12', 320, 240)} ! cudaupload ! video/x-raw{CUDA} ! {SINK}"
    ).play()
    sample = pipeline.pull()
    frame = gcf.frame(sample.at)
    import builtins

    builtins.kept = [sample, frame, torch.from_dlpack(frame.planes[0]), cupy.asarray(frame.planes[1]),
                     frame.planes[0].__dlpack__()]
    torch.cuda._sleep(100_000_000)


@case
def pytorch_and_the_array_interface():
    pipeline = Pipeline(
        f"videotestsrc num-buffers=2 ! {caps('NV12', 320, 240)} ! cudaupload ! video/x-raw{CUDA} ! {SINK}"
    ).play()
    sample = pipeline.pull()
    try:
        torch.as_tensor(gcf.frame(sample.at).planes[0], device="cuda")
        print("# PyTorch takes a read-only array interface")
    except (TypeError, RuntimeError, ValueError) as error:
        print(f"# PyTorch refuses it: {error}")
    pipeline.stop()


def main():
    names = sys.argv[1:] or list(cases)
    alone = ["time_of_a_frame", "memory_over_100000_frames"]
    if names == ["alone"]:
        names = alone
    elif names == ["parallel"]:
        names = [n for n in cases if n not in alone]
    if len(names) == 1:
        # Prints the stack shortly before the process is killed.
        faulthandler.dump_traceback_later(LIMIT - 10)
        cases[names[0]]()
        return 0
    print(f"# PyTorch {torch.__version__}, CuPy {cupy.__version__}, GStreamer "
          f"{'.'.join(map(str, _gst.runtime_version()))}, {torch.cuda.get_device_name()}, "
          f"{'with' if _cuda.driver().context_record else 'without'} cuCtxRecordEvent", flush=True)
    waiting = [n for n in names if n not in alone]
    failed = []
    count = itertools.count(1)
    printing = threading.Lock()

    def start(name):
        begin = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, __file__, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            text, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            text = f"{process.communicate()[0]}\n# ran into the limit of {LIMIT} s"
        # The output is printed at once, for users who stop the program early.
        with printing:
            for line in text.splitlines()[-25:]:
                print(line if line.startswith("#") else "# " + line)
            if process.returncode:
                failed.append(name)
            print(f"{'not ok' if process.returncode else 'ok'} {next(count)} - {name.replace('_', ' ')}")
            print(f"# {time.monotonic() - begin:.1f} s", flush=True)

    for name in (n for n in alone if n in names):
        start(name)
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                if not waiting:
                    return
                name = waiting.pop(0)
            start(name)

    threads = [threading.Thread(target=work) for _ in range(max(6, (os.cpu_count() or 1) // 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"1..{len(names)}")
    return 1 if failed else 0


sys.exit(main())
