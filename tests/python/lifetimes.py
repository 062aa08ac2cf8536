#!/usr/bin/env python3
"""Tests when a buffer returns to its pool: with the last array, in any thread, and at exit."""
import ctypes
import gc
import os
import queue
import subprocess
import sys
import threading
import time

from harness import case, equal, load_gst, run, skip_all

Gst = load_gst()
try:
    import numpy as np
except ImportError:
    skip_all("NumPy is not there")
import gst_cuda_filters as gcf  # noqa: E402

CAPS = "video/x-raw,format=NV12,width=64,height=32,framerate=30/1"
HERE = os.path.dirname(os.path.abspath(__file__))


class Pool:
    """Holds a pool of two buffers."""

    def __init__(self, size=64 * 48):
        self.pool = Gst.BufferPool.new()
        config = self.pool.get_config()
        Gst.BufferPool.config_set_params(config, Gst.Caps.from_string(CAPS), size, 2, 2)
        assert self.pool.set_config(config) and self.pool.set_active(True)

    def take(self):
        """Returns a buffer, or None if all are in use."""
        params = Gst.BufferPoolAcquireParams()
        params.flags = Gst.BufferPoolAcquireFlags.DONTWAIT
        result, buffer = self.pool.acquire_buffer(params)
        assert result in (Gst.FlowReturn.OK, Gst.FlowReturn.EOS), result
        return buffer if result == Gst.FlowReturn.OK else None

    def free(self):
        """Returns how many buffers are in the pool."""
        taken = []
        while (buffer := self.take()) is not None:
            taken.append(buffer)
        return len(taken)

    def close(self):
        equal(self.free(), 2)
        self.pool.set_active(False)


def plane_as_array(frame):
    return np.asarray(frame.planes[0])


def view_of_an_array(frame):
    return np.asarray(frame.planes[1])[::2, 1:][1:]


def dlpack_consumer(frame):
    return np.from_dlpack(frame.planes[0])


def capsule(frame):
    return frame.planes[0].__dlpack__()


def versioned_capsule(frame):
    return frame.planes[1].__dlpack__(max_version=(1, 1))


def array_of_frame(frame):
    return frame.planes[1]


def frame_itself(frame):
    return frame


HOLDERS = [
    (function.__name__.replace("_", " "), function)
    for function in (plane_as_array, view_of_an_array, dlpack_consumer, capsule, versioned_capsule,
                     array_of_frame, frame_itself)
]


@case(*HOLDERS)
def buffer_is_kept_by(row):
    pool = Pool()
    _, hold = row
    buffer = pool.take()
    held = hold(gcf.frame(buffer, CAPS))
    equal(pool.free(), 1)
    del buffer
    equal(pool.free(), 1)
    del held
    pool.close()


@case(*HOLDERS)
def buffer_goes_back_in_another_thread(row):
    pool = Pool()
    _, hold = row
    todo = queue.Queue()
    buffer = pool.take()
    todo.put(hold(gcf.frame(buffer, CAPS)))
    del buffer
    equal(pool.free(), 1)
    thread = threading.Thread(target=lambda: todo.get() is None)
    thread.start()
    thread.join()
    pool.close()


@case()
def each_array_counts():
    pool = Pool()
    buffer = pool.take()
    frames = [gcf.frame(buffer, CAPS) for _ in range(3)]
    arrays = [np.asarray(plane) for frame in frames for plane in frame.planes]
    arrays += [np.from_dlpack(plane) for frame in frames for plane in frame.planes]
    del buffer, frames
    while arrays:
        equal(pool.free(), 1)
        del arrays[len(arrays) // 2]
    pool.close()


@case()
def buffer_goes_back_after_an_error():
    pool = Pool(size=64 * 48 - 1)
    for caps in (CAPS, CAPS + ",x=1", "audio/x-raw", "other/tensors"):
        buffer = pool.take()
        try:
            gcf.frame(buffer, caps)
        except (ValueError, BufferError):
            pass
        else:
            raise AssertionError("no error")
        del buffer
    frame = gcf.frame(pool.take(), "video/x-raw,format=GRAY8,width=5,height=5,framerate=30/1")
    try:
        frame.planes[0].__dlpack__(dl_device=(2, 0))
    except BufferError:
        pass
    del frame
    pool.close()


@case()
def buffer_goes_back_from_a_cycle():
    pool = Pool()
    cycle = [gcf.frame(pool.take(), CAPS)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    pool.close()


@case()
def deleter_called_without_the_interpreter_lock():
    # A library may free its last tensor in its own thread. The callback must then take the
    # interpreter's lock.
    api = ctypes.PyDLL(None)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    pool = Pool()
    for _ in range(100):
        managed = []
        for _ in range(2):
            capsule = gcf.frame(pool.take(), CAPS).planes[0].__dlpack__()
            managed.append(api.PyCapsule_GetPointer(capsule, b"dltensor"))
            api.PyCapsule_SetName(capsule, b"used_dltensor")
            del capsule
        equal(pool.free(), 0)
        # ctypes calls a CFUNCTYPE function without the lock, from threads that Python did not
        # start.
        glib = ctypes.CDLL("libglib-2.0.so.0")
        glib.g_thread_new.restype = ctypes.c_void_p
        glib.g_thread_new.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
        glib.g_thread_join.argtypes = [ctypes.c_void_p]
        threads = []
        for address in managed:
            deleter = ctypes.c_void_p.from_address(address + 56).value
            threads.append(glib.g_thread_new(b"consumer", deleter, address))
        for thread in threads:
            glib.g_thread_join(thread)
        equal(pool.free(), 2)
    pool.close()


@case()
def arrays_shared_by_threads():
    pools = [Pool() for _ in range(4)]
    failures = []

    def work(number):
        try:
            for i in range(400):
                buffer = pools[(number + i) % 4].take()
                if buffer is None:
                    continue
                frame = gcf.frame(buffer, CAPS)
                del buffer
                arrays = [np.from_dlpack(plane) for plane in frame.planes]
                arrays.append(np.asarray(frame.planes[0]))
                left.put(arrays)
                del frame, arrays
                if left.qsize() > 3:
                    left.get()
        except Exception as error:
            failures.append(error)

    left = queue.Queue()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(failures, [])
    del left
    gc.collect()
    for pool in pools:
        pool.close()


@case()
def caps_of_every_size():
    # These are more caps than the package remembers.
    data = Gst.Buffer.new_allocate(None, 400 * 400, None)
    before = data.mini_object.refcount
    for _ in range(2):
        for n in range(1, 300):
            frame = gcf.frame(data, f"video/x-raw,format=GRAY8,width={n},height=3,framerate=1/1")
            equal(frame.planes[0].shape, (3, n))
    del frame
    equal(data.mini_object.refcount, before)


@case()
def memory_does_not_grow():
    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    pool = Pool()
    caps = Gst.Caps.from_string(CAPS)

    def frames(count):
        for _ in range(count):
            sample = Gst.Sample.new(pool.take(), caps, None, None)
            frame = gcf.frame(sample)
            np.from_dlpack(frame.planes[0])
            np.asarray(frame.planes[1])
            frame.planes[0].__dlpack__(max_version=(1, 0))
            frame.letterbox

    frames(2000)
    before = resident()
    frames(20000)
    grown = resident() - before
    pool.close()
    # A leak of 100 bytes per frame would be 2 MB.
    assert grown < 1 << 20, f"grew by {grown} bytes in 20000 frames"


@case()
def pipeline_stops_while_arrays_are_held():
    for n in range(30):
        pipeline = Gst.parse_launch(
            f"videotestsrc ! {CAPS} ! tee name=t "
            "t. ! queue max-size-buffers=2 ! appsink name=pulled sync=false max-buffers=1 "
            "t. ! queue max-size-buffers=2 ! appsink name=called sync=false emit-signals=true"
        )
        held = queue.Queue(3)

        def take(sink, held=held):
            frame = gcf.frame(sink.emit("pull-sample"))
            array = np.from_dlpack(frame.planes[0])
            try:
                held.put_nowait(array)
            except queue.Full:
                held.get()
            return Gst.FlowReturn.OK

        pipeline.get_by_name("called").connect("new-sample", take)
        pipeline.set_state(Gst.State.PLAYING)
        pulled = pipeline.get_by_name("pulled")
        arrays = [np.asarray(gcf.frame(pulled.emit("pull-sample")).planes[1]) for _ in range(n % 5)]
        pipeline.set_state(Gst.State.NULL)
        # The memory outlives the pipeline that it came from.
        del pipeline, pulled
        assert all(int(array.max()) > 0 for array in arrays)
        del arrays, held


PROLOGUE = f"""
import sys, threading, ctypes, time
sys.path.insert(0, {os.path.join(HERE, "..", "..", "python")!r})
import gi
gi.require_version("Gst", "1.0")
from gi.repository import Gst
Gst.init(None)
import numpy as np
import gst_cuda_filters as gcf
p = Gst.parse_launch("videotestsrc ! {CAPS} ! appsink name=s sync=false max-buffers=1")
p.set_state(Gst.State.PLAYING)
s = p.get_by_name("s")
"""
EXITS = [
    ("arrays in globals", "f = gcf.frame(s.emit('pull-sample')); a = np.asarray(f.planes[0]);"
     "b = np.from_dlpack(f.planes[0]); c = f.planes[1].__dlpack__()"),
    ("the pipeline runs on", "f = gcf.frame(s.emit('pull-sample')); sys.exit(0)"),
    ("arrays in a cycle", "f = gcf.frame(s.emit('pull-sample'));"
     "a = [np.from_dlpack(f.planes[0]), f, f.planes[0].__dlpack__()]; a.append(a); del f"),
    ("arrays in another module", "f = gcf.frame(s.emit('pull-sample'));"
     "import builtins; builtins.kept = [np.from_dlpack(f.planes[0]), f.planes[0].__dlpack__()]"),
    ("a thread that goes on", "threading.Thread(target=lambda: [np.from_dlpack("
     "gcf.frame(s.emit('pull-sample')).planes[0]) for _ in iter(int, 1)], daemon=True).start();"
     "time.sleep(0.1)"),
    ("a consumer that frees after the interpreter", """
api = ctypes.PyDLL(None)
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
c = gcf.frame(s.emit('pull-sample')).planes[0].__dlpack__()
address = api.PyCapsule_GetPointer(c, b"dltensor")
name = b"used_dltensor"
api.Py_IncRef.argtypes = [ctypes.py_object]
api.Py_IncRef(name)
api.PyCapsule_SetName(c, name)
import weakref
class Late:
    def __del__(self, at=address, read=ctypes.c_void_p.from_address, write=sys.stdout.write,
                function=ctypes.CFUNCTYPE(None, ctypes.c_void_p)):
        # The consumer's: none, or one that needs no interpreter.
        deleter = read(at + 56).value
        if deleter:
            function(deleter)(at)
        write("freed")
late = Late()
sys.modules["late"] = late
"""),
]


@case(*EXITS)
def interpreter_ends_with(row):
    name, code = row
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", PROLOGUE + code], capture_output=True, text=True, timeout=200
        )
        equal((done.returncode, done.stderr), (0, ""))
        if "frees after" in name:
            equal(done.stdout, "freed")


@case()
def time_of_a_frame():
    # A frame may take 20 us. A slow machine gets ten times that. The time of other programs does not count.
    pool = Pool()
    sample = Gst.Sample.new(pool.take(), Gst.Caps.from_string(CAPS), None, None)
    best = float("inf")
    for _ in range(20):
        start = time.thread_time()
        for _ in range(200):
            np.from_dlpack(gcf.frame(sample).planes[0])
        best = min(best, (time.thread_time() - start) / 200)
    print(f"# {best * 1e6:.1f} us for a frame and an array of NumPy")
    assert best < 200e-6, best


run()
