#!/usr/bin/env python3
"""Tests frames and tensors in CUDA memory on the emulated device, so that CI can run them.

Accesses by the host to device memory fault, and work on streams is lazy: it runs only when
something waits for it. A wrong pointer and a missing wait therefore always show.
"""
import ctypes
import os
import subprocess
import sys
import time

import capsules
from harness import Skip, case, equal, load_gst, raises, run, skip_all

Gst = load_gst()
try:
    import gi

    gi.require_version("GstCuda", "1.0")
    from gi.repository import GstCuda
    import numpy as np
except (ImportError, ValueError) as error:
    skip_all(error)
import gst_cuda_filters as gcf  # noqa: E402

GstCuda.cuda_load_library()
GstCuda.cuda_memory_init_once()
driver = ctypes.CDLL("libcuda.so.1")
FRAME = "video/x-raw(memory:CUDAMemory),format=NV12,width=64,height=32,framerate=30/1"
SIZE = 512 * 48


def call(name, *arguments):
    result = getattr(driver, name)(*arguments)
    assert result == 0, f"{name}: error {result}"


def void(value):
    return ctypes.c_void_p(value)


class Primary:
    """Makes the primary context, where consumers work, current for a block."""

    handle = None

    def __enter__(self):
        if Primary.handle is None:
            out = ctypes.c_void_p()
            call("cuDevicePrimaryCtxRetain", ctypes.byref(out), 0)
            Primary.handle = out
        call("cuCtxPushCurrent_v2", Primary.handle)

    def __exit__(self, *_):
        call("cuCtxPopCurrent_v2", None)


def allocate(size):
    out = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(size))
    return out.value


def stream_new():
    out = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(out), 1)
    return out.value


def fetch(pointer, size):
    """Returns bytes of device memory, after the work of the default stream."""
    out = np.empty(size, "u1")
    call("cuMemcpyDtoH_v2", void(out.ctypes.data), ctypes.c_uint64(pointer), ctypes.c_size_t(size))
    return out


def read(array):
    """Returns the elements of an array on the device, copied row by row with the strides that it
    reports."""
    row = array.strides[0]
    used = int(np.prod(array.shape[1:])) * array.itemsize
    with Primary():
        rows = [fetch(array.pointer + y * row, used) for y in range(array.shape[0])]
    return np.concatenate(rows).view(array.dtype).reshape(array.shape)


def pull(line, *names):
    pipeline = Gst.parse_launch(line)
    pipeline.set_state(Gst.State.PLAYING)
    samples = [pipeline.get_by_name(name).emit("try-pull-sample", 60 * Gst.SECOND) for name in names]
    message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    assert None not in samples, message and message.parse_error()
    return samples


def check_downloads(format):
    """Skips the case if GStreamer cannot copy such frames to the host: 1.24 before 1.24.4 cannot
    for even heights of I420 (and 1.22 for odd ones)."""
    if format == "I420" and (1, 24) <= tuple(Gst.version())[:3] < (1, 24, 4):
        raise Skip("GStreamer before 1.24.4 cannot bring even heights to the host")


FORMATS = [
    ("NV12", 64, 32), ("NV12", 33, 18), ("I420", 34, 18), ("I420", 17, 10), ("P010_10LE", 34, 18),
    ("RGBA", 13, 7), ("BGR", 13, 7), ("Y444", 9, 5), ("Y42B", 9, 5), ("RGBP", 9, 5),
]


@case(*((f"{f} {w}x{h}", f, w, h) for f, w, h in FORMATS))
def frame_on_the_device(row):
    _, format, width, height = row
    check_downloads(format)
    caps = f"video/x-raw,format={format},width={width},height={height},framerate=30/1"
    host, device = pull(
        f"videotestsrc pattern=zone-plate kx2=20 ky2=10 num-buffers=1 ! {caps} ! tee name=t "
        "t. ! queue ! appsink name=host "
        "t. ! queue ! cudaupload ! video/x-raw(memory:CUDAMemory) ! appsink name=device",
        "host", "device",
    )
    want = gcf.frame(host)
    got = gcf.frame(device)
    down = gcf.frame(device, host=True)
    equal((got.device, down.device, got.format), ("cuda:0", "cpu", format))
    equal((got.width, got.height, got.stream), (width, height, None))
    for w, g, d in zip(want.planes, got.planes, down.planes):
        values = np.asarray(w)
        equal((g.shape, g.dtype, d.shape), (w.shape, w.dtype, w.shape))
        # All planes on the device have one pitch.
        equal(g.strides[0], got.planes[0].strides[0])
        equal(g.strides, d.strides)
        equal(g.pointer - got.planes[0].pointer, d.pointer - down.planes[0].pointer)
        assert np.array_equal(np.asarray(d), values)
        assert np.array_equal(read(g), values)
        interface = g.__cuda_array_interface__
        equal(interface["data"], (g.pointer, True))
        equal(interface["shape"], values.shape)
        equal(np.dtype(interface["typestr"]), values.dtype)
        equal((interface["strides"], interface["version"]), (g.strides, 3))
        equal(interface["stream"], None)
        equal(g.__dlpack_device__(), (2, 0))
        assert not hasattr(g, "__array_interface__")
        assert not hasattr(d, "__cuda_array_interface__")
        raises(BufferError, "device (2, 0)", g.__dlpack__, dl_device=(1, 0))
        raises(ValueError, "-5", g.__dlpack__, stream=-5)
        raises(ValueError, "0", g.__dlpack__, stream=0)
        raises(TypeError, "CUDA host=True", np.asarray, g)
    tensor, address = take(got.planes[-1].__dlpack__(stream=1))
    array = got.planes[-1]
    n = len(array.shape)
    equal((tensor.data, tensor.device_type, tensor.device_id), (array.pointer, 2, 0))
    equal(tuple(tensor.shape[:n]), array.shape)
    equal(tuple(s * array.itemsize for s in tensor.strides[:n]), array.strides)
    free(address)


def take(capsule):
    taken, address = capsules.take(capsule, b"dltensor", capsules.Unversioned)
    return taken.tensor, address


def free(address):
    capsules.Unversioned.from_address(address).deleter(address)


@case("float32", "float16", "uint8")
def tensor_on_the_device(types):
    (sample,) = pull(
        "videotestsrc pattern=ball num-buffers=1 ! video/x-raw,format=NV12,width=64,height=36 "
        "! cudaupload ! cudaletterbox ! other/tensors(memory:CUDAMemory),format=static,num_tensors=1,"
        f"types={types},dimensions=(string)48:40:3:1 ! appsink name=s",
        "s",
    )
    got, down = gcf.tensor(sample), gcf.tensor(sample, host=True)
    equal((got.shape, got.dtype, got.device), ((1, 3, 40, 48), types, "cuda:0"))
    values = np.asarray(down)
    assert values[0, :, 20].max() > values[0, :, 20].min()
    assert np.array_equal(fetch_all(got), values)
    equal(got.__cuda_array_interface__["strides"], None)
    box = got.letterbox
    equal((box.source_width, box.source_height, box.left, box.width), (64, 36, 0.0, 48.0))


def fetch_all(tensor):
    with Primary():
        return fetch(tensor.pointer, tensor.itemsize * int(np.prod(tensor.shape))).view(
            tensor.dtype
        ).reshape(tensor.shape)


class Pool:
    """Holds two buffers in CUDA memory, as a decoder does. They have a stream if GStreamer supports
    that."""

    def __init__(self, stream=None):
        self.context = GstCuda.CudaContext.new(0)
        self.pool = GstCuda.CudaBufferPool.new(self.context)
        config = self.pool.get_config()
        Gst.BufferPool.config_set_params(config, Gst.Caps.from_string(FRAME), 0, 2, 2)
        if stream:
            GstCuda.buffer_pool_config_set_cuda_stream(config, stream(self.context))
        assert self.pool.set_config(config) and self.pool.set_active(True)

    def take(self):
        params = Gst.BufferPoolAcquireParams()
        params.flags = Gst.BufferPoolAcquireFlags.DONTWAIT
        result, buffer = self.pool.acquire_buffer(params)
        return buffer if result == Gst.FlowReturn.OK else None

    def free(self):
        taken = []
        while (buffer := self.take()) is not None:
            taken.append(buffer)
        return len(taken)

    def free_soon(self):
        """Waits until both buffers are back and returns them."""
        end = time.monotonic() + 60
        while self.free() < 2:
            assert time.monotonic() < end, "a buffer does not come back"
            time.sleep(0.001)
        return [self.take(), self.take()]

    def fill(self, buffer, value):
        """Fills a buffer and waits, as a decoder does."""
        data = np.full(SIZE, value, "u1")
        assert self.context.push()
        pointer = gcf.frame(buffer, FRAME).planes[0].pointer
        call("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer), void(data.ctypes.data),
             ctypes.c_size_t(SIZE))
        call("cuCtxPopCurrent_v2", None)


def consumer(array, way, made):
    """Takes the array as a library that works on `way`. Returns the object that keeps the array,
    and the stream."""
    if way == "array interface":
        assert array.__cuda_array_interface__["version"] == 3
        return [array], made
    if way == "default stream":
        return take(array.__dlpack__(stream=1))[1], None
    if way == "no stream named":
        return take(array.__dlpack__())[1], None
    return take(array.__dlpack__(stream=made))[1], made


@case("array interface", "default stream", "no stream named", "stream")
def buffer_waits_for_work_of_the_consumer(way):
    pool = Pool()
    with Primary():
        scratch, stream = allocate(2048), stream_new()
    for n in range(1, 30):
        buffer = pool.take()
        pool.fill(buffer, n)
        array = gcf.frame(buffer, FRAME).planes[0]
        pointer = array.pointer
        del buffer
        held, on = consumer(array, way, stream)
        del array
        with Primary():
            # The copy is enqueued but not done.
            call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(scratch), ctypes.c_uint64(pointer),
                 ctypes.c_size_t(2048), void(on))
        equal(pool.free(), 1)
        if isinstance(held, int):
            free(held)
        del held
        # The decoder gets the buffer back and writes the next frame.
        buffers = pool.free_soon()
        for buffer in buffers:
            pool.fill(buffer, 200)
        del buffer, buffers
        with Primary():
            call("cuStreamSynchronize", void(on))
            got = fetch(scratch, 2048)
        equal(set(got.tolist()), {n})
    with Primary():
        call("cuMemFree_v2", ctypes.c_uint64(scratch))
        call("cuStreamDestroy_v2", void(stream))


@case()
def buffer_is_back_at_once_without_work():
    pool = Pool()
    for _ in range(100):
        free(take(gcf.frame(pool.take(), FRAME).planes[0].__dlpack__(stream=1))[1])
    end = time.monotonic() + 60
    while pool.free() < 2:
        assert time.monotonic() < end
    # This time there is no consumer.
    for _ in range(100):
        frame = gcf.frame(pool.take(), FRAME)
        equal(pool.free(), 1)
        del frame
        equal(pool.free(), 2)


@case()
def one_buffer_mapped_again_and_again():
    pool = Pool()
    buffer = pool.take()
    frames = []
    try:
        for _ in range(1000):
            frames.append(gcf.frame(buffer, FRAME))
    except BufferError as error:
        assert "times" in str(error)
    assert 150 < len(frames) < 255, len(frames)
    del frames
    for _ in range(2000):
        gcf.frame(buffer, FRAME).planes[0].__cuda_array_interface__
    del buffer
    pool.free_soon()


@case("array interface", "stream", "default stream")
def consumer_waits_for_work_of_the_producer(way):
    if not hasattr(GstCuda, "CudaStream"):
        raise Skip("GStreamer before 1.24 has no streams in CUDA memory")
    streams = []

    def new_stream(context):
        streams.append(GstCuda.CudaStream.new(context))
        return streams[0]

    pool = Pool(new_stream)
    with Primary():
        scratch, stream = allocate(2048), stream_new()
    source = np.empty(SIZE, "u1")
    core = ctypes.CDLL("libgstreamer-1.0.so.0")
    for n in range(1, 20):
        buffer = pool.take()
        # The producer enqueues its work and pushes. Mapping for writing marks the memory as
        # pending.
        info = (ctypes.c_char * 104)()
        assert core.gst_buffer_map(void(hash(buffer)), ctypes.byref(info), 1 << 17 | 2)
        pointer = ctypes.c_void_p.from_buffer(info, 16).value
        source[:] = n
        assert pool.context.push()
        pinned = ctypes.c_void_p()
        call("cuMemAllocHost_v2", ctypes.byref(pinned), ctypes.c_size_t(SIZE))
        ctypes.memmove(pinned, source.ctypes.data, SIZE)
        handle = gcf._cuda.pending_stream(gcf._gst.buffer_peek_memory(hash(buffer), 0))
        assert handle
        call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(pointer), pinned, ctypes.c_size_t(SIZE),
             void(handle))
        call("cuCtxPopCurrent_v2", None)
        core.gst_buffer_unmap(void(hash(buffer)), ctypes.byref(info))

        array = gcf.frame(buffer, FRAME).planes[0]
        equal(array.stream, handle)
        held, on = consumer(array, way, stream)
        with Primary():
            if way == "array interface":
                # A consumer of the array interface must wait itself.
                equal(array.__cuda_array_interface__["stream"], handle)
                call("cuStreamSynchronize", void(handle))
            call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(scratch), ctypes.c_uint64(array.pointer),
                 ctypes.c_size_t(2048), void(on))
            call("cuStreamSynchronize", void(on))
            got = fetch(scratch, 2048)
        equal(set(got.tolist()), {n})
        if isinstance(held, int):
            free(held)
        del held, array, buffer
        pool.free_soon()
        pool.context.push()
        call("cuMemFreeHost", pinned)
        call("cuCtxPopCurrent_v2", None)


def emulated_kernel(frame, seed):
    """Enqueues the filling of a frame and does not wait, as CuPy does."""
    stream = 1
    held, want = [], []
    for p, plane in enumerate(frame.planes):
        capsule = plane.__dlpack__(stream=stream)
        values = np.random.default_rng(seed + p).integers(0, 256, plane.shape).astype(plane.dtype)
        width = values[0].nbytes
        with Primary():
            # Pinned memory is read when the stream gets there.
            pinned = ctypes.c_void_p()
            call("cuMemAllocHost_v2", ctypes.byref(pinned), ctypes.c_size_t(values.nbytes))
            ctypes.memmove(pinned, values.ctypes.data, values.nbytes)
            for y in range(plane.shape[0]):
                call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(plane.pointer + y * plane.strides[0]),
                     void(pinned.value + y * width), ctypes.c_size_t(width), None)
        held.append((pinned, take(capsule)[1]))
        want.append(values)
    return held, want


def drop(held):
    for pinned, address in held:
        free(address)
        with Primary():
            call("cuMemFreeHost", pinned)


def through_download(buffer, caps):
    pipeline = Gst.parse_launch("appsrc name=a format=time ! cudadownload ! appsink name=s")
    source = pipeline.get_by_name("a")
    source.props.caps = Gst.Caps.from_string(caps.replace("raw,", "raw(memory:CUDAMemory),"))
    pipeline.set_state(Gst.State.PLAYING)
    equal(source.emit("push-buffer", buffer), Gst.FlowReturn.OK)
    sample = pipeline.get_by_name("s").emit("try-pull-sample", 60 * Gst.SECOND)
    pipeline.set_state(Gst.State.NULL)
    assert sample
    return sample


@case(("NV12", 34, 18), ("I420", 34, 18), ("RGBA", 13, 7), ("P010_10LE", 34, 18))
def pool_on_the_device(row):
    check_downloads(row[0])
    caps = "video/x-raw,format={},width={},height={},framerate=30/1".format(*row)
    (like,) = pull(
        f"videotestsrc num-buffers=1 ! {caps} ! cudaupload ! video/x-raw(memory:CUDAMemory) "
        "! appsink name=s", "s"
    )
    pool = gcf.Pool(caps, like=like, most=2)
    for n in range(20):
        frame = pool.frame()
        equal((frame.device, frame.readonly), ("cuda:0", False))
        equal(frame.planes[0].__cuda_array_interface__["data"], (frame.planes[0].pointer, False))
        held, want = emulated_kernel(frame, n)
        buffer = frame.to_buffer(like=like)
        equal(buffer.pts, like.get_buffer().pts)
        drop(held)
        del frame
        down = gcf.frame(through_download(buffer, caps), host=True)
        for plane, values in zip(down.planes, want):
            assert np.array_equal(np.asarray(plane), values)
        del buffer, down, plane
    pool = gcf.Pool(caps, like=like, most=2)
    pointers = set()
    for n in range(10):
        frame = pool.frame()
        pointers.add(frame.planes[0].pointer)
        held, _ = emulated_kernel(frame, n)
        buffer = frame.to_buffer()
        drop(held)
        del frame, buffer
    equal(len(pointers), 1)


class DeviceArray:
    """Is an array of a library that works in the primary context."""

    alive = 0

    def __init__(self, shape, dtype, pitch=None):
        DeviceArray.alive += 1
        self.shape, self.dtype = shape, np.dtype(dtype)
        row = int(np.prod(shape[1:])) * self.dtype.itemsize
        self.pitch = pitch or row
        with Primary():
            self.pointer = allocate(self.pitch * shape[0])
            self.pinned = ctypes.c_void_p()
            call("cuMemAllocHost_v2", ctypes.byref(self.pinned), ctypes.c_size_t(row * shape[0]))
            self.stream = stream_new()

    def fill(self, seed):
        """Fills the array on a stream without waiting."""
        values = np.random.default_rng(seed).integers(0, 256, self.shape).astype(self.dtype)
        ctypes.memmove(self.pinned, values.ctypes.data, values.nbytes)
        row = values[0].nbytes
        with Primary():
            for y in range(self.shape[0]):
                call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(self.pointer + y * self.pitch),
                     void(self.pinned.value + y * row), ctypes.c_size_t(row), void(self.stream))
        return values

    def part(self, first, shape, dtype="u1"):
        inner = np.empty(shape, dtype).strides[1:]
        return Part(self, self.pointer + first * self.pitch, shape, (self.pitch, *inner), dtype)

    def __del__(self):
        with Primary():
            call("cuMemFree_v2", ctypes.c_uint64(self.pointer))
            call("cuMemFreeHost", self.pinned)
            call("cuStreamDestroy_v2", void(self.stream))
        DeviceArray.alive -= 1


class Part:
    def __init__(self, owner, pointer, shape, strides, dtype):
        self.owner, self.version = owner, 3
        self.interface = {
            "shape": shape, "strides": strides, "typestr": np.dtype(dtype).str,
            "data": (pointer, False), "version": 3,
        }

    @property
    def __cuda_array_interface__(self):
        if self.version == 3:
            return {**self.interface, "stream": self.owner.stream}
        return self.interface


def all_gone():
    end = time.monotonic() + 60
    while DeviceArray.alive:
        assert time.monotonic() < end, f"{DeviceArray.alive} arrays are still there"
        time.sleep(0.001)


@case(("with a stream", 3), ("without a stream", 2))
def buffer_of_an_array_on_the_device(row):
    width, height = 64, 32
    caps = f"video/x-raw,format=NV12,width={width},height={height},framerate=30/1"
    if gcf._gst.runtime_version() < (1, 24):
        array = DeviceArray((48, 64), "u1")
        raises(RuntimeError, "1.22 1.24 Pool", gcf.buffer_from,
               [array.part(0, (32, 64)), array.part(32, (16, 32, 2))], caps)
        del array
        all_gone()
        return
    for n in range(10):
        array = DeviceArray((height * 3 // 2, width), "u1", pitch=width + 16 * n)
        planes = [array.part(0, (height, width)), array.part(height, (height // 2, width // 2, 2))]
        for plane in planes:
            plane.version = row[1]
        values = array.fill(n)
        buffer = gcf.buffer_from(planes, caps)
        frame = gcf.frame(buffer, caps)
        equal([p.pointer for p in frame.planes], [p.interface["data"][0] for p in planes])
        equal(frame.device, "cuda:0")
        del array, plane, planes, frame
        down = gcf.frame(through_download(buffer, caps), host=True)
        assert np.array_equal(np.asarray(down.planes[0]), values[:height])
        assert np.array_equal(np.asarray(down.planes[1]).reshape(height // 2, width), values[height:])
        equal(DeviceArray.alive, 1)
        del buffer, down
        all_gone()
    array = DeviceArray((48, 64), "u1")
    for wrong in (
        [array.part(16, (32, 64)), array.part(0, (16, 32, 2))],
        [array.part(0, (32, 64)), array.part(16, (16, 32, 2))],
    ):
        raises(ValueError, "one piece", gcf.buffer_from, wrong, caps)
    del array, wrong
    all_gone()
    # Tensors have a single row. A frame of the pipeline goes back unchanged.
    array = DeviceArray((1, 3 * 4 * 6), "u1")
    values = array.fill(5)
    tensor = "other/tensors,num_tensors=1,types=uint8,dimensions=(string)6:4:3:1"
    buffer = gcf.buffer_from(Part(array, array.pointer, (3, 4, 6), None, "u1"), tensor)
    equal(gcf.tensor(buffer, tensor).pointer, array.pointer)
    assert np.array_equal(np.asarray(gcf.tensor(buffer, tensor, host=True)).ravel(), values.ravel())
    del buffer, array
    all_gone()
    (sample,) = pull(f"videotestsrc num-buffers=1 ! {caps} ! cudaupload ! video/x-raw(memory:CUDAMemory) "
        "! appsink name=s", "s")
    frame = gcf.frame(sample)
    buffer = gcf.buffer_from(frame.planes, caps, like=sample)
    equal([p.pointer for p in gcf.frame(buffer, caps).planes], [p.pointer for p in frame.planes])


@case()
def pipeline_in_the_primary_context():
    pipeline = Gst.parse_launch(
        "videotestsrc num-buffers=1 ! video/x-raw,format=NV12,width=64,height=32 ! cudaupload "
        "! video/x-raw(memory:CUDAMemory) ! appsink name=s"
    )
    gcf.use_primary_context(pipeline)
    pipeline.set_state(Gst.State.PLAYING)
    sample = pipeline.get_by_name("s").emit("pull-sample")
    pipeline.set_state(Gst.State.NULL)
    memory = gcf._gst.buffer_peek_memory(hash(sample.get_buffer()), 0)
    context = gcf._cuda.CudaMemory.from_address(memory).context
    with Primary():
        equal(gcf._cuda._context_get_handle(context), Primary.handle.value)
    equal(gcf.frame(sample).device, "cuda:0")
    raises(RuntimeError, "device 99", gcf.use_primary_context, pipeline, 99)


PROLOGUE = f"""
import sys
sys.path.insert(0, {os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")!r})
import gi
gi.require_version("Gst", "1.0")
from gi.repository import Gst
Gst.init(None)
import gst_cuda_filters as gcf
p = Gst.parse_launch("videotestsrc ! video/x-raw,format=NV12,width=64,height=32 ! cudaupload "
                     "! video/x-raw(memory:CUDAMemory) ! appsink name=s sync=false max-buffers=1")
p.set_state(Gst.State.PLAYING)
s = p.get_by_name("s")
f = gcf.frame(s.emit("pull-sample"))
"""


@case(("with a capsule", "c = f.planes[0].__dlpack__(stream=1)"),
      ("with an interface", "i = f.planes[0].__cuda_array_interface__"),
      ("after many frames", "for _ in range(100):\n  f = gcf.frame(s.emit('pull-sample'));"
       "f.planes[0].__cuda_array_interface__; f.planes[1].__dlpack__()"))
def interpreter_ends(row):
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROLOGUE + row[1]], capture_output=True, text=True, timeout=200
        )
        equal((done.returncode, done.stderr), (0, ""))


run()
