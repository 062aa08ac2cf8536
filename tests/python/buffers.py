#!/usr/bin/env python3
"""Tests arrays as buffers in system memory: what elements see of them and how long they are kept.
"""
import gc
import os
import subprocess
import sys
import time
import weakref

from harness import case, equal, load_gst, raises, run, skip_all

Gst = load_gst()
from gi.repository import GstVideo  # noqa: E402

try:
    import numpy as np
except ImportError:
    skip_all("NumPy is not there")
import gst_cuda_filters as gcf  # noqa: E402


class Kept(np.ndarray):
    """Holds an array and shows when it is freed."""


def kept(array):
    return array.view(Kept)


def gone(watched):
    end = time.monotonic() + 60
    while any(ref() is not None for ref in watched):
        assert time.monotonic() < end, "an array is still there"
        time.sleep(0.001)


def noise(shape, dtype="u1", seed=1):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(dtype)


def caps_of(format, width, height):
    return f"video/x-raw,format={format},width={width},height={height},framerate=30/1"


FORMATS = [
    ("GRAY8", 13, 5, [((5, 13), "u1")]),
    ("GRAY16_LE", 13, 5, [((5, 13), "u2")]),
    ("RGB", 5, 4, [((4, 5, 3), "u1")]),
    ("RGBA", 5, 4, [((4, 5, 4), "u1")]),
    ("NV12", 17, 9, [((9, 17), "u1"), ((5, 9, 2), "u1")]),
    ("I420", 17, 9, [((9, 17), "u1"), ((5, 9), "u1"), ((5, 9), "u1")]),
    ("P010_10LE", 16, 8, [((8, 16), "u2"), ((4, 8, 2), "u2")]),
]


def through_an_element(buffer, caps):
    """Returns what an element makes of a buffer that it copies with the strides of the caps."""
    pipeline = Gst.parse_launch(
        "appsrc name=source format=time ! capsfilter ! videocrop name=crop ! videoconvert "
        "! capsfilter name=same ! appsink name=sink"
    )
    caps = Gst.Caps.from_string(caps)
    source = pipeline.get_by_name("source")
    source.props.caps = caps
    pipeline.set_state(Gst.State.PLAYING)
    equal(source.emit("push-buffer", buffer), Gst.FlowReturn.OK)
    source.emit("end-of-stream")
    sample = pipeline.get_by_name("sink").emit("try-pull-sample", 60 * Gst.SECOND)
    pipeline.set_state(Gst.State.NULL)
    assert sample
    return sample


@case(*FORMATS)
def buffer_of_a_frame(row):
    format, width, height, planes = row
    caps = caps_of(format, width, height)
    for padding in (0, 3):
        arrays = []
        for n, (shape, dtype) in enumerate(planes):
            wide = (shape[0], shape[1] + padding, *shape[2:])
            arrays.append(kept(noise(wide, dtype, n))[:, : shape[1]])
        watched = [weakref.ref(a.base) for a in arrays]
        pointers = [a.ctypes.data for a in arrays]
        values = [np.array(a) for a in arrays]
        buffer = gcf.buffer_from(arrays if len(arrays) > 1 else arrays[0], caps)
        frame = gcf.frame(buffer, caps)
        equal([plane.pointer for plane in frame.planes], pointers)
        for plane, want in zip(frame.planes, values):
            assert np.array_equal(np.asarray(plane), want)
        # GStreamer's own library computes these strides.
        info = GstVideo.VideoInfo.new_from_caps(Gst.Caps.from_string(caps))
        ok, mapped = GstVideo.video_frame_map(info, buffer, Gst.MapFlags.READ)
        assert ok
        mapped.unmap()
        del frame, plane, mapped, arrays, want
        gc.collect()
        assert all(ref() is not None for ref in watched)
        del buffer
        gone(watched)


@case("RGB", "NV12")
def frame_through_elements(format):
    width, height = 34, 20
    caps = caps_of(format, width, height)
    if format == "RGB":
        # The rows are no multiple of 4 bytes, unlike GStreamer's.
        arrays = [noise((height, width + 5, 3))[:, 2 : width + 2]]
    else:
        arrays = [noise((height, width + 9))[:, :width], noise((height // 2, width // 2, 2), seed=2)]
    sample = through_an_element(gcf.buffer_from(arrays, caps), caps)
    for plane, want in zip(gcf.frame(sample).planes, arrays):
        assert np.array_equal(np.asarray(plane), want)


@case(("float32", "f4", "8:6:3:1", (1, 3, 6, 8)), ("float32", "f4", "8:6:3:1", (3, 6, 8)),
      ("float16", "f2", "3:8:6:1", (1, 6, 8, 3)), ("uint8", "u1", "3:8:6:1", (6, 8, 3)))
def buffer_of_a_tensor(row):
    types, dtype, dimensions, shape = row
    caps = f"other/tensors,format=static,num_tensors=1,types={types},dimensions=(string){dimensions}"
    array = kept(noise(shape, dtype))
    watched = [weakref.ref(array)]
    want = np.array(array)
    buffer = gcf.buffer_from(array, caps)
    equal(buffer.get_size(), want.nbytes)
    tensor = gcf.tensor(buffer, caps)
    equal(tensor.pointer, array.ctypes.data)
    assert np.array_equal(np.asarray(tensor).reshape(shape), want)
    del array, tensor
    assert watched[0]() is not None
    del buffer
    gone(watched)


class OnlyDLPack:
    """Supports only DLPack, like PyTorch's tensors on the CPU, which have no array interface."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, stream=None):
        assert stream is None
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@case()
def buffer_of_an_array_with_dlpack_alone():
    array = kept(noise((6, 8)))
    watched = [weakref.ref(array)]
    want = np.array(array)
    # NumPy exports only writable arrays through DLPack.
    buffer = gcf.buffer_from(OnlyDLPack(array), caps_of("GRAY8", 8, 6))
    del array
    gc.collect()
    assert watched[0]() is not None
    assert np.array_equal(np.asarray(gcf.frame(buffer, caps_of("GRAY8", 8, 6)).planes[0]), want)
    del buffer
    gone(watched)


@case()
def frame_given_back_as_it_came():
    caps = caps_of("NV12", 16, 8)
    pipeline = Gst.parse_launch(f"videotestsrc num-buffers=1 ! {caps} ! appsink name=s")
    pipeline.set_state(Gst.State.PLAYING)
    sample = pipeline.get_by_name("s").emit("pull-sample")
    pipeline.set_state(Gst.State.NULL)
    frame = gcf.frame(sample)
    buffer = gcf.buffer_from(frame.planes, caps, like=sample)
    again = gcf.frame(buffer, caps)
    equal([p.pointer for p in again.planes], [p.pointer for p in frame.planes])
    equal((again.pts, again.duration), (frame.pts, frame.duration))
    assert frame.pts is not None and frame.duration


@case()
def times_are_those_of_like():
    array = np.zeros((4, 4), "u1")
    caps = caps_of("GRAY8", 4, 4)
    old = Gst.Buffer.new_allocate(None, 16, None)
    old.pts, old.dts, old.duration, old.offset = 7, 6, 5, 4
    old.set_flags(Gst.BufferFlags.DISCONT)
    for like in (old, Gst.Sample.new(old, None, None, None), gcf.frame(old, caps)):
        new = gcf.buffer_from(array, caps, like=like)
        equal((new.pts, new.dts, new.duration), (7, 6, 5))
        assert new.has_flags(Gst.BufferFlags.DISCONT)
        equal(new.get_size(), 16)
    new = gcf.buffer_from(array, caps)
    equal(new.pts, Gst.CLOCK_TIME_NONE)
    new.pts = 9
    equal(new.pts, 9)
    raises(TypeError, "like", gcf.buffer_from, array, caps, like=5)
    raises(ValueError, "no buffer", gcf.buffer_from, array, caps,
           like=Gst.Sample.new(None, None, None, None))


@case()
def pipeline_does_not_write_to_the_array():
    caps = caps_of("GRAY8", 16, 16)
    for writable in (False, True):
        array = np.full((16, 16), 9, "u1")
        buffer = gcf.buffer_from(array, caps, writable=writable)
        ok, info = buffer.map(Gst.MapFlags.WRITE)
        assert ok
        buffer.unmap(info)
        # Mapping a read-only memory for writing replaces it by a copy.
        pointer = gcf.frame(buffer, caps).planes[0].pointer
        equal(pointer == array.ctypes.data, writable)
        assert (array == 9).all()
    array.flags.writeable = False
    buffer = gcf.buffer_from(array, caps, writable=True)
    ok, info = buffer.map(Gst.MapFlags.WRITE)
    buffer.unmap(info)
    assert not ok or gcf.frame(buffer, caps).planes[0].pointer != array.ctypes.data


@case()
def wrong_arrays_are_refused():
    gray, nv12 = caps_of("GRAY8", 6, 4), caps_of("NV12", 6, 4)
    good = np.zeros((4, 6), "u1")
    for wrong in (None, 5, "x", object(), b"x" * 24):
        raises(TypeError, "array", gcf.buffer_from, wrong, gray)
    for dtype in ("i1", "f8", "c8", "?", "U2", ">u2", "i4"):
        raises(TypeError, "uint8", gcf.buffer_from, np.zeros((4, 6), dtype), gray)
    raises(TypeError, "caps", gcf.buffer_from, good, None)
    raises(ValueError, "not fixed", gcf.buffer_from, good, "video/x-raw,width=[1,2]")
    for shape in ((6, 4), (4, 6, 1), (24,), (4, 5), (5, 6), ()):
        raises(ValueError, "(4, 6) uint8", gcf.buffer_from, np.zeros(shape, "u1"), gray)
    raises(ValueError, "uint16", gcf.buffer_from, np.zeros((4, 6), "u2"), gray)
    for strided in (np.zeros((4, 12), "u1")[:, ::2], np.zeros((6, 4), "u1").T, good[::-1],
                    good[:, ::-1], np.broadcast_to(np.zeros((1, 6), "u1"), (4, 6))):
        raises(ValueError, "strides", gcf.buffer_from, strided, gray)
    raises(ValueError, "2 arrays", gcf.buffer_from, good, nv12)
    raises(ValueError, "2 arrays 3", gcf.buffer_from, [good] * 3, nv12)
    raises(ValueError, "plane 1 (2, 3, 2)", gcf.buffer_from, [good, good], nv12)
    raises(ValueError, "big-endian", gcf.buffer_from, np.zeros((4, 6), "u2"),
           caps_of("GRAY16_BE", 6, 4))
    tensor = "other/tensors,num_tensors=1,types=float32,dimensions=(string)6:4:3:1"
    raises(ValueError, "(1, 3, 4, 6)", gcf.buffer_from, np.zeros((3, 6, 4), "f4"), tensor)
    raises(ValueError, "gaps", gcf.buffer_from, np.zeros((3, 4, 12), "f4")[:, :, ::2], tensor)
    raises(ValueError, "float32", gcf.buffer_from, np.zeros((3, 4, 6), "f2"), tensor)
    raises(TypeError, "Gst.Element", gcf.use_primary_context, 5)
    raises(TypeError, "Gst.Element", gcf.use_primary_context, Gst.Buffer.new())
    raises(TypeError, "Gst.Element", gcf.use_primary_context, Gst.BufferPool.new())


@case()
def refused_arrays_are_not_kept():
    planes = [kept(noise((4, 6))), kept(noise((2, 2, 2)))]
    watched = [weakref.ref(p) for p in planes]
    raises(ValueError, "plane 1", gcf.buffer_from, planes, caps_of("NV12", 6, 4))
    del planes
    gone(watched)


@case(("NV12", 34, 18), ("RGB", 5, 4), ("I420", 17, 9))
def pool_in_system_memory(row):
    caps = caps_of(*row)
    like = Gst.Buffer.new_allocate(None, 9999, None)
    like.pts = 77
    pool = gcf.Pool(caps, like=like, most=2)
    for n in range(10):
        frame = pool.frame()
        equal((frame.format, frame.width, frame.height, frame.readonly), (*row, False))
        want = []
        for p, plane in enumerate(frame.planes):
            array = np.asarray(plane)
            assert array.flags.writeable
            want.append(noise(plane.shape, seed=10 * n + p))
            array[:] = want[-1]
        buffer = frame.to_buffer(like=like)
        raises(ValueError, "writing", frame.to_buffer)
        del frame, plane, array
        equal(buffer.pts, 77)
        # Elements may change the buffer in place.
        equal(gcf._gst.MiniObject.from_address(hash(buffer)).refcount, 1)
        sample = through_an_element(buffer, caps)
        for plane, values in zip(gcf.frame(sample).planes, want):
            assert np.array_equal(np.asarray(plane), values)
        del sample, buffer, plane
    pool = gcf.Pool(caps, like=like, most=2)
    pointers = set()
    for _ in range(10):
        frame = pool.frame()
        pointers.add(frame.planes[0].pointer)
        buffer = frame.to_buffer()
        del frame, buffer
    equal(len(pointers), 1)
    frames = [pool.frame(), pool.frame()]
    del pool
    np.asarray(frames[1].planes[0])[:] = 1
    raises(ValueError, "video", gcf.Pool, "other/tensors,types=uint8,dimensions=(string)3:2:1",
           like=like)
    raises(TypeError, "like", gcf.Pool, caps, like=None)
    raises(ValueError, "for writing", gcf.frame(like, caps_of("GRAY8", 4, 4)).to_buffer)


@case()
def memory_does_not_grow():
    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    array = [noise((64, 64)), noise((32, 32, 2))]
    caps = Gst.Caps.from_string(caps_of("NV12", 64, 64))

    def buffers(count):
        for _ in range(count):
            gcf.buffer_from(array, caps)

    buffers(3000)
    before = resident()
    buffers(20000)
    grown = resident() - before
    assert grown < 1 << 20, f"grew by {grown} bytes in 20000 buffers"


PROLOGUE = f"""
import sys
sys.path.insert(0, {os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")!r})
import gi
gi.require_version("Gst", "1.0")
from gi.repository import Gst
Gst.init(None)
import numpy as np
import gst_cuda_filters as gcf
caps = "video/x-raw,format=GRAY8,width=64,height=64,framerate=30/1"
p = Gst.parse_launch("appsrc name=a format=time caps=" + caps + " ! queue ! fakesink sync=false")
p.set_state(Gst.State.PLAYING)
a = p.get_by_name("a")
"""


@case(("buffers in globals", "b = [gcf.buffer_from(np.zeros((64, 64), 'u1'), caps) for _ in range(9)]"),
      ("buffers in a pipeline that runs", "for _ in range(500): a.emit('push-buffer', "
       "gcf.buffer_from(np.zeros((64, 64), 'u1'), caps))"),
      ("a pool", "q = gcf.Pool(caps, like=Gst.Buffer.new()); f = q.frame(); n = np.asarray(f.planes[0])"))
def interpreter_ends_with(row):
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", PROLOGUE + row[1]], capture_output=True, text=True, timeout=200
        )
        equal((done.returncode, done.stderr), (0, ""))


run()
