#!/usr/bin/env python3
"""Tests frames and tensors in system memory: shapes, strides, values, and what is refused."""
import ctypes

from capsules import Unversioned, Versioned, take
from harness import Skip, case, equal, load_gst, raises, run, skip_all

Gst = load_gst()
from gi.repository import GstVideo  # noqa: E402

try:
    import numpy as np
except ImportError:
    skip_all("NumPy is not there")
import gst_cuda_filters as gcf  # noqa: E402

# Each row has a format, width and height, and for each plane the shape and type of the array and
# the bytes from one column to the next.
FORMATS = [
    ("NV12", 17, 9, ((9, 17), "u1", 1), ((5, 9, 2), "u1", 2)),
    ("NV21", 64, 32, ((32, 64), "u1", 1), ((16, 32, 2), "u1", 2)),
    ("NV24", 5, 3, ((3, 5), "u1", 1), ((3, 5, 2), "u1", 2)),
    ("I420", 17, 9, ((9, 17), "u1", 1), ((5, 9), "u1", 1), ((5, 9), "u1", 1)),
    ("YV12", 1, 1, ((1, 1), "u1", 1), ((1, 1), "u1", 1), ((1, 1), "u1", 1)),
    ("Y42B", 7, 5, ((5, 7), "u1", 1), ((5, 4), "u1", 1), ((5, 4), "u1", 1)),
    ("Y444", 7, 5, ((5, 7), "u1", 1), ((5, 7), "u1", 1), ((5, 7), "u1", 1)),
    ("A420", 6, 4, ((4, 6), "u1", 1), ((2, 3), "u1", 1), ((2, 3), "u1", 1), ((4, 6), "u1", 1)),
    ("P010_10LE", 18, 10, ((10, 18), "<u2", 2), ((5, 9, 2), "<u2", 4)),
    ("I420_10LE", 17, 9, ((9, 17), "<u2", 2), ((5, 9), "<u2", 2), ((5, 9), "<u2", 2)),
    ("RGB", 5, 4, ((4, 5, 3), "u1", 3)),
    ("RGBA", 13, 7, ((7, 13, 4), "u1", 4)),
    ("BGRx", 13, 7, ((7, 13, 4), "u1", 4)),
    ("ARGB64_LE", 3, 2, ((2, 3, 4), "<u2", 8)),
    ("GBR", 5, 4, ((4, 5), "u1", 1), ((4, 5), "u1", 1), ((4, 5), "u1", 1)),
    ("GRAY8", 11, 6, ((6, 11), "u1", 1)),
    ("GRAY16_LE", 11, 6, ((6, 11), "<u2", 2)),
    ("GRAY16_BE", 11, 6, ((6, 11), ">u2", 2)),
    # This format has rows of bytes.
    ("YUY2", 5, 4, ((4, 12), "u1", 1)),
    ("UYVY", 6, 4, ((4, 12), "u1", 1)),
    ("RGB16", 5, 4, ((4, 10), "u1", 1)),
    ("RGB10A2_LE", 5, 4, ((4, 20), "u1", 1)),
]


def video_caps(format, width, height):
    return Gst.Caps.from_string(
        f"video/x-raw,format={format},width={width},height={height},framerate=30/1"
    )


def numbered(size):
    """Returns bytes that differ from their neighbours in every direction."""
    return (np.arange(size, dtype=np.uint64) * 2654435761 >> 13).astype(np.uint8)


def buffer_of(data):
    return Gst.Buffer.new_wrapped(data.tobytes())


def check_planes(frame, data, offsets, strides, planes):
    """Compares an array with the bytes of the buffer, element by element."""
    equal(len(frame.planes), len(planes))
    for p, (shape, dtype, step) in enumerate(planes):
        array = frame.planes[p]
        got = np.asarray(array)
        equal(got.shape, shape)
        equal(array.shape, shape)
        equal(array.strides, got.strides)
        equal(got.dtype, np.dtype(dtype))
        equal(got.strides[0], strides[p])
        assert not got.flags.writeable
        equal(got.ctypes.data, array.pointer)
        size = np.dtype(dtype).itemsize
        channels = shape[2] if len(shape) == 3 else 1
        want = np.empty((shape[0], shape[1], channels), dtype)
        for y in range(shape[0]):
            for x in range(shape[1]):
                for c in range(channels):
                    at = offsets[p] + y * strides[p] + x * step + c * size
                    want[y, x, c] = np.frombuffer(data[at : at + size].tobytes(), dtype)[0]
        assert np.array_equal(got.reshape(want.shape), want), f"plane {p}"
        if dtype == ">u2":
            raises(BufferError, "big-endian", array.__dlpack__)
        else:
            assert np.array_equal(np.from_dlpack(array), got)


@case(*FORMATS)
def frame_as_the_caps_say(row):
    format, width, height, *planes = row
    caps = video_caps(format, width, height)
    info = GstVideo.VideoInfo.new_from_caps(caps)
    data = numbered(info.size)
    buffer = buffer_of(data)
    buffer.pts, buffer.duration = 5 * Gst.SECOND, 40 * Gst.MSECOND
    frame = gcf.frame(Gst.Sample.new(buffer, caps, None, None))
    equal((frame.format, frame.width, frame.height), (format, width, height))
    equal((frame.pts, frame.duration), (5 * Gst.SECOND, 40 * Gst.MSECOND))
    equal((frame.device, frame.stream, frame.readonly), ("cpu", None, True))
    equal(frame.letterbox, None)
    check_planes(frame, data, info.offset, info.stride, planes)


@case(*FORMATS)
def frame_with_strides_of_a_video_meta(row):
    format, width, height, *planes = row
    caps = video_caps(format, width, height)
    info = GstVideo.VideoInfo.new_from_caps(caps)
    offsets, strides, at = [], [], 37 * 2
    for p in range(len(planes)):
        offsets.append(at)
        strides.append(info.stride[p] + 6 + 2 * p)
        at += strides[p] * (planes[p][0][0] + 3) + 22
    data = numbered(at)
    buffer = buffer_of(data)
    padded = [offsets + [0] * (4 - len(offsets)), strides + [0] * (4 - len(strides))]
    GstVideo.buffer_add_video_meta_full(
        buffer, GstVideo.VideoFrameFlags.NONE, info.finfo.format, width, height, len(planes), *padded
    )
    frame = gcf.frame(buffer, caps)
    check_planes(frame, data, offsets, strides, planes)


@case()
def frame_with_a_memory_for_each_plane():
    caps = video_caps("NV12", 16, 8)
    luma, chroma = numbered(20 * 8), numbered(500)[300:300 + 24 * 4]
    buffer = Gst.Buffer.new()
    for part in (luma, chroma):
        buffer.append_memory(buffer_of(part).get_memory(0))
    GstVideo.buffer_add_video_meta_full(
        buffer, GstVideo.VideoFrameFlags.NONE, GstVideo.VideoFormat.NV12, 16, 8, 2,
        [0, luma.size, 0, 0], [20, 24, 0, 0],
    )
    equal(buffer.n_memory(), 2)
    frame = gcf.frame(buffer, caps)
    data = np.concatenate([luma, chroma])
    check_planes(
        frame, data, [0, luma.size], [20, 24], [((8, 16), "u1", 1), ((4, 8, 2), "u1", 2)]
    )
    equal(buffer.n_memory(), 2)


@case()
def frame_cropped_by_a_meta():
    caps = video_caps("NV12", 16, 8)
    info = GstVideo.VideoInfo.new_from_caps(video_caps("NV12", 40, 30))
    data = numbered(info.size)
    buffer = buffer_of(data)
    GstVideo.buffer_add_video_meta_full(
        buffer, GstVideo.VideoFrameFlags.NONE, GstVideo.VideoFormat.NV12, 40, 30, 2, info.offset,
        info.stride,
    )
    planes = [((8, 16), "u1", 1), ((4, 8, 2), "u1", 2)]
    check_planes(gcf.frame(buffer, caps), data, info.offset, info.stride, planes)
    core, video = ctypes.CDLL("libgstreamer-1.0.so.0"), ctypes.CDLL("libgstvideo-1.0.so.0")
    video.gst_video_crop_meta_get_info.restype = ctypes.c_void_p
    core.gst_buffer_add_meta.restype = ctypes.c_void_p
    core.gst_buffer_add_meta.argtypes = [ctypes.c_void_p] * 3
    meta = core.gst_buffer_add_meta(hash(buffer), video.gst_video_crop_meta_get_info(), None)
    place = (ctypes.c_uint * 4).from_address(meta + 16)  # x, y, width, height
    # An odd position is rounded down to the chroma sample's.
    place[:] = 7, 5, 16, 8
    offsets = [info.offset[0] + 4 * info.stride[0] + 6, info.offset[1] + 2 * info.stride[1] + 6]
    check_planes(gcf.frame(buffer, caps), data, offsets, info.stride, planes)


TENSORS = [
    ("float32", "f4", "20:10:3:1", (1, 3, 10, 20)),
    ("float16", "f2", "20:10:3:1", (1, 3, 10, 20)),
    ("uint8", "u1", "3:20:10:1", (1, 10, 20, 3)),
    ("float32", "f4", "3:7:5", (5, 7, 3)),
]


def tensor_caps(types, dimensions):
    return (
        f"other/tensors,format=static,num_tensors=1,types={types},dimensions=(string){dimensions},"
        "framerate=30/1"
    )


@case(*TENSORS)
def tensor_of(row):
    types, dtype, dimensions, shape = row
    want = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    caps = Gst.Caps.from_string(tensor_caps(types, dimensions))
    buffer = buffer_of(want)
    tensor = gcf.tensor(Gst.Sample.new(buffer, caps, None, None))
    equal((tensor.shape, tensor.dtype, tensor.device), (shape, types, "cpu"))
    equal((len(tensor), tensor.ndim), (shape[0], len(shape)))
    for got in (np.asarray(tensor), np.from_dlpack(tensor)):
        assert np.array_equal(got, want)
        equal(got.dtype, want.dtype)
        assert not got.flags.writeable
    # Caps may be text, and an address may replace the object.
    text = tensor_caps(types, dimensions)
    for obj in (buffer, ctypes.c_void_p(hash(buffer))):
        assert np.array_equal(np.asarray(gcf.tensor(obj, text)), want)


@case()
def tensor_has_no_interface_of_another_device():
    tensor = gcf.tensor(buffer_of(np.zeros(12, "f4")), tensor_caps("float32", "2:2:3:1"))
    assert not hasattr(tensor, "__cuda_array_interface__")
    equal(tensor.__dlpack_device__(), (1, 0))
    raises(ValueError, "system memory", tensor.__dlpack__, stream=1)
    raises(BufferError, "device", tensor.__dlpack__, dl_device=(2, 0))
    raises(BufferError, "copy", tensor.__dlpack__, copy=True)
    assert tensor.__dlpack__(dl_device=(1, 0), copy=False)


@case(("before 1.0", None, b"dltensor", Unversioned), ("0.8", (0, 8), b"dltensor", Unversioned),
      ("1.0", (1, 0), b"dltensor_versioned", Versioned),
      ("1.3", (1, 3), b"dltensor_versioned", Versioned))
def dlpack_structure_of_version(row):
    _, version, name, kind = row
    data = numbered(40 * 9)
    buffer = buffer_of(data)
    GstVideo.buffer_add_video_meta_full(
        buffer, GstVideo.VideoFrameFlags.NONE, GstVideo.VideoFormat.GRAY16_LE, 11, 9, 1,
        [0, 0, 0, 0], [40, 0, 0, 0],
    )
    before = buffer.mini_object.refcount
    array = gcf.frame(buffer, video_caps("GRAY16_LE", 11, 9)).planes[0]
    capsule = array.__dlpack__(max_version=version)
    got, address = take(capsule, name, kind)
    pointer = array.pointer
    del capsule, array
    t = got.tensor
    equal((t.data, t.device_type, t.device_id, t.byte_offset), (pointer, 1, 0, 0))
    equal((t.ndim, t.code, t.bits, t.lanes), (2, 1, 16, 1))
    equal((t.shape[0], t.shape[1], t.strides[0], t.strides[1]), (9, 11, 20, 1))
    if kind is Versioned:
        equal((got.major, got.flags & 1), (1, 1))
    assert buffer.mini_object.refcount > before
    got.deleter(address)
    equal(buffer.mini_object.refcount, before)


@case()
def strides_that_dlpack_has_not():
    buffer = buffer_of(numbered(200))
    GstVideo.buffer_add_video_meta_full(
        buffer, GstVideo.VideoFrameFlags.NONE, GstVideo.VideoFormat.GRAY16_LE, 4, 4, 1,
        [0, 0, 0, 0], [15, 0, 0, 0],
    )
    array = gcf.frame(buffer, video_caps("GRAY16_LE", 4, 4)).planes[0]
    equal(np.asarray(array).strides, (15, 2))
    raises(BufferError, "strides multiple 2", array.__dlpack__)


@case()
def wrong_objects_are_refused():
    for wrong in (None, 5, "sample", b"", object(), Gst.Caps.from_string("video/x-raw"),
                  Gst.Structure.new_empty("x"), Gst.Sample, ctypes.c_void_p(0), np.zeros(4)):
        for function in (gcf.frame, gcf.tensor):
            raises(TypeError, "must be a Gst.Sample or Gst.Buffer", function, wrong)
    raises(TypeError, "caps Gst.Caps string int", gcf.frame, Gst.Buffer.new(), 7)


@case()
def wrong_samples_are_refused():
    caps = video_caps("GRAY8", 4, 4)
    raises(ValueError, "no buffer", gcf.frame, Gst.Sample.new(None, caps, None, None))
    raises(ValueError, "no caps", gcf.frame, Gst.Sample.new(buffer_of(numbered(16)), None, None, None))
    buffer = buffer_of(numbered(16))
    raises(ValueError, "caps=", gcf.frame, buffer)
    raises(ValueError, "no caps 'nonsense caps!'", gcf.frame, buffer, "nonsense caps!")
    raises(ValueError, "not fixed", gcf.frame, buffer, "video/x-raw,width=[1,2]")
    raises(ValueError, "not fixed", gcf.frame, buffer, Gst.Caps.new_any())
    raises(ValueError, "audio/x-raw", gcf.frame, buffer, "audio/x-raw")
    raises(ValueError, "raw video", gcf.frame, buffer, "video/x-raw,format=GRAY8")
    raises(ValueError, "frame()", gcf.tensor, buffer, caps)
    raises(ValueError, "tensor()", gcf.frame, buffer, tensor_caps("uint8", "2:2:3:1"))
    for format in ("v210", "NV12_4L4", "RGB8P", "NV12_64Z32", "UYVP", "GRAY10_LE32"):
        raises(ValueError, format, gcf.frame, buffer, video_caps(format, 4, 4))
    for types, dimensions in (("int64", "2:2:3:1"), ("float32", "2:x:3:1"), ("float32", "2:0:3:1"),
                              ("float32", "2:-1:3:1"), ("(string)float32,float32", "2:2:3:1")):
        raises(ValueError, "float32 dimensions", gcf.tensor, buffer, tensor_caps(types, dimensions))


@case()
def buffers_too_small_are_refused():
    raises(BufferError, "small 48 47", gcf.tensor, buffer_of(numbered(47)),
           tensor_caps("float32", "2:2:3:1"))
    raises(BufferError, "small", gcf.frame, buffer_of(numbered(15)), video_caps("GRAY8", 4, 4))
    raises(BufferError, "small plane 1", gcf.frame, buffer_of(numbered(20)), video_caps("NV12", 4, 4))
    # The last row needs no padding behind it.
    assert gcf.frame(buffer_of(numbered(4 * 3 + 3)), video_caps("GRAY8", 3, 4))
    for offsets, strides, words in (
        ([0, 16, 0, 0], [3, 4, 0, 0], "plane 0 stride 3 4"),
        ([0, 17, 0, 0], [4, 4, 0, 0], "small plane 1"),
        ([0, 24, 0, 0], [4, 4, 0, 0], "small plane 1"),
        ([0, 2**63, 0, 0], [4, 4, 0, 0], "small plane 1"),
        ([0, 16, 0, 0], [2**31 - 1, 4, 0, 0], "small plane 0"),
        ([0, 16, 0, 0], [-4, 4, 0, 0], "stride -4"),
    ):
        buffer = buffer_of(numbered(24))
        GstVideo.buffer_add_video_meta_full(
            buffer, GstVideo.VideoFrameFlags.NONE, GstVideo.VideoFormat.NV12, 4, 4, 2, offsets, strides
        )
        before = buffer.mini_object.refcount
        raises(BufferError, words, gcf.frame, buffer, video_caps("NV12", 4, 4))
        equal(buffer.mini_object.refcount, before)
    # The meta contradicts the caps.
    for format, size, planes in (("GRAY8", 4, 1), ("NV12", 3, 2)):
        buffer = buffer_of(numbered(64))
        GstVideo.buffer_add_video_meta(
            buffer, GstVideo.VideoFrameFlags.NONE, GstVideo.VideoFormat.from_string(format), size, size
        )
        raises(BufferError, "video meta", gcf.frame, buffer, video_caps("NV12", 4, 4))


@case()
def functions_of_the_extension():
    native = gcf._gst.native
    if not native:
        raise Skip("without the extension")
    libc = ctypes.CDLL(None)
    length = native.Function(ctypes.cast(libc.strlen, ctypes.c_void_p).value, 1, False, True)
    equal(length(b"five!"), 5)
    find = native.Function(ctypes.cast(libc.strchr, ctypes.c_void_p).value, 2, True, False)
    text = ctypes.create_string_buffer(b"a tensor")
    equal(find(ctypes.addressof(text), ord("t")) - ctypes.addressof(text), 2)
    equal(find(ctypes.addressof(text), ord("z")), None)
    equal(native.bytes_at(ctypes.addressof(text), 3), b"a t")
    equal(native.word_at(ctypes.addressof(text)) & 0xFF, ord("a"))
    for arguments in ((), (1, 2)):
        raises(TypeError, "1 arguments", length, *arguments)
    for wrong in ("text", 1.5, text, [1]):
        raises(TypeError, "", length, wrong)
    raises(ValueError, "0 to 4", native.Function, 1, 5, False, False)
    raises(ValueError, "", native.Function, 0, 1, False, False)
    raises(TypeError, "", native.export, None, 0)


@case()
def letterbox_arithmetic():
    box = gcf.Letterbox(0.5, 0.0, 140.0, 640.0, 360.0, 1280, 720)
    equal(box.to_source([320, 320]), [640.0, 360.0])
    equal(box.to_source([[0, 140, 640, 500], [10, 150, 20, 160]]),
          [[0.0, 0.0, 1280.0, 720.0], [20.0, 20.0, 40.0, 40.0]])
    equal(box.to_source((-5.0, 0.0, 700.0, 639.0), clip=True), (0.0, 0.0, 1280.0, 720.0))
    equal(box.to_source([]), [])
    boxes = np.array([[0, 140, 640, 500], [10, 150, 20, 160]])
    got = box.to_source(boxes)
    equal(got.tolist(), [[0.0, 0.0, 1280.0, 720.0], [20.0, 20.0, 40.0, 40.0]])
    equal(box.to_source(np.zeros((0, 4), "f4")).shape, (0, 4))
    keypoints = np.array([[[0, 0], [320, 320], [640, 640]]], "f4")
    equal(box.to_source(keypoints).tolist(), [[[0, -280], [640, 360], [1280, 1000]]])
    equal(box.to_source(keypoints, clip=True).tolist(), [[[0, 0], [640, 360], [1280, 720]]])
    raises(ValueError, "pairs", box.to_source, [1, 2, 3])
    raises(ValueError, "pairs", box.to_source, np.zeros((2, 5)))
    raises(TypeError, "numbers str", box.to_source, ["a", "b"])


@case()
def letterbox_of_the_element():
    if not Gst.ElementFactory.find("cudaletterbox"):
        raise AssertionError("the element cudaletterbox is not there")
    pipeline = Gst.parse_launch(
        "videotestsrc num-buffers=1 pattern=ball ! video/x-raw,format=RGB,width=320,height=180 "
        "! tee name=t t. ! queue ! appsink name=frame "
        "t. ! queue ! cudaletterbox ! "
        + tensor_caps("float32", "128:96:3:1") + " ! appsink name=tensor"
    )
    pipeline.set_state(Gst.State.PLAYING)
    frame = gcf.frame(pipeline.get_by_name("frame").emit("pull-sample"))
    tensor = gcf.tensor(pipeline.get_by_name("tensor").emit("pull-sample"))
    pipeline.set_state(Gst.State.NULL)
    equal(tensor.shape, (1, 3, 96, 128))
    box = tensor.letterbox
    equal((box.source_width, box.source_height), (320, 180))
    equal((box.left, box.top, box.width, box.height), (0.0, 12.0, 128.0, 72.0))
    equal(box.scale, 0.4)

    def bounds(image):
        y, x = np.nonzero(image > 0.5)
        return np.array([x.min(), y.min(), x.max() + 1, y.max() + 1], float)

    image = np.asarray(tensor)[0, 0]
    inside = image[12:84] - 0
    want = bounds(np.asarray(frame.planes[0])[:, :, 0] / 255)
    got = box.to_source(bounds(inside) + [0, 12, 0, 12])
    assert np.abs(got - want).max() <= 2.5, (got, want)


run()
