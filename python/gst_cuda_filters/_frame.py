"""Gives frames and tensors of a pipeline as arrays."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

from . import _dlpack, _gst, _layout
from ._mapping import Mapping

_CUDA_MEMORY = b"gst.cuda.memory"
_TYPESTR = {"uint8": "|u1", "uint16": "<u2", "float16": "<f2", "float32": "<f4"}
_META = b"GstCudaLetterboxMeta"


# Limits the mappings of one memory at a time.
_MOST_MAPS = 200

_cuda_module: Any = None


def _cuda() -> Any:
    """Returns the module that needs GStreamer's CUDA library, which is loaded once there is CUDA
    memory."""
    global _cuda_module
    if _cuda_module is None:
        from . import _cuda as module

        _cuda_module = module
    return _cuda_module


class Letterbox(NamedTuple):
    """Describes where cudaletterbox put its source's picture in the frame or tensor that it made.
    """

    scale: float  #: output pixels for one pixel of the source, before rounding to whole pixels
    left: float  #: output pixels left of the picture
    top: float  #: output pixels above the picture
    width: float  #: size of the picture in output pixels
    height: float  #: size of the picture in output pixels
    source_width: int  #: size of the source in pixels
    source_height: int  #: size of the source in pixels

    def to_source(self, boxes: Any, clip: bool = False) -> Any:
        """Takes boxes or points from the output's pixels to the source's.

        `boxes` has pairs of x and y along its last dimension: (n, 4) for boxes left, top, right,
        bottom, (n, 2) for points, (n, 17, 2) for keypoints, and so on. It is an array of NumPy,
        CuPy, PyTorch or another library with stack() and clip(), or numbers in lists. What comes
        back is new, of the same kind and shape; integers become floating-point numbers.

        With `clip`, what lies in the padding is moved to the source's nearest edge.

        Raises ValueError where the last dimension is odd.
        """
        fx = self.source_width / self.width
        fy = self.source_height / self.height
        if isinstance(boxes, (list, tuple)):
            if not boxes or isinstance(boxes[0], (list, tuple)):
                return type(boxes)(self.to_source(box, clip) for box in boxes)
            if len(boxes) % 2:
                raise ValueError(f"boxes must have pairs of x and y, not {len(boxes)} numbers")
            if isinstance(boxes[0], (int, float)):
                out = []
                for i, value in enumerate(boxes):
                    value = (value - self.top) * fy if i % 2 else (value - self.left) * fx
                    most = self.source_height if i % 2 else self.source_width
                    out.append(min(max(value, 0.0), float(most)) if clip else value)
                return type(boxes)(out)
            raise TypeError(f"boxes must be numbers, not {type(boxes[0]).__name__}")
        shape = tuple(boxes.shape)
        if not shape or shape[-1] % 2:
            raise ValueError(f"boxes must have pairs of x and y, not the shape {shape}")
        library = sys.modules[type(boxes).__module__.partition(".")[0]]
        x = (boxes[..., 0::2] - self.left) * fx
        y = (boxes[..., 1::2] - self.top) * fy
        if clip:
            x = library.clip(x, 0, self.source_width)
            y = library.clip(y, 0, self.source_height)
        return library.stack((x, y), -1).reshape(shape)


class Array:
    """Gives the memory of a buffer as an array through the array interfaces. No copy is made.

    On a GPU it has `__cuda_array_interface__` (version 3) and `__dlpack__`, and in system memory
    `__array_interface__` and `__dlpack__`. So `cupy.from_dlpack(a)`, `torch.from_dlpack(a)` and
    `numpy.asarray(a)` are arrays of these libraries that use the pipeline's own memory. The buffer
    stays mapped, and does not return to its pool, until this object and all arrays made from it are
    gone, in whatever thread that happens.

    The memory belongs to the pipeline, and other elements may read it at the same time. Do not
    write to it unless `readonly` is False. NumPy refuses to write to it; PyTorch and CuPy do not.
    """

    __slots__ = ("_mapping", "pointer", "_shape", "__weakref__")

    pointer: int  #: address of the first element, on the array's own device

    def __init__(self, mapping: Mapping, pointer: int, shape: _layout.Shape) -> None:
        self._mapping = mapping
        self.pointer = pointer
        self._shape = shape

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in bytes."""
        return self._shape.strides

    @property
    def dtype(self) -> str:
        """"uint8", "uint16", "float16" or "float32"."""
        return self._shape.dtype

    @property
    def ndim(self) -> int:
        return len(self._shape.shape)

    @property
    def itemsize(self) -> int:
        """Size of an element in bytes."""
        return self._shape.itemsize

    @property
    def readonly(self) -> bool:
        return self._mapping.readonly

    @property
    def device(self) -> str:
        """"cpu", or "cuda:" and the number of the device that the memory is on."""
        kind, number = self._mapping.device
        return "cpu" if kind == _dlpack.CPU else f"cuda:{number}"

    @property
    def stream(self) -> int | None:
        """CUDA stream that may still be writing the memory, or None.

        Always None before GStreamer 1.24, whose elements wait for their work before they push.
        """
        return self._mapping.stream or None

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"<{type(self).__name__} {shape} {self.dtype} on {self.device}>"

    def _interface(self, stream: bool) -> dict[str, Any]:
        shape = self._shape
        typestr = _TYPESTR[shape.dtype]
        interface = {
            "shape": shape.shape,
            "typestr": typestr.replace("<", ">") if shape.swapped else typestr,
            "data": (self.pointer, self.readonly),
            "strides": None if shape.dense else shape.strides,
            "version": 3,
        }
        if stream:
            interface["stream"] = self.stream
        return interface

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if not self._mapping.host:
            raise AttributeError(
                "the array is in CUDA memory: use its __dlpack__ or __cuda_array_interface__, or "
                "map it with host=True"
            )
        return self._interface(stream=False)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """NumPy asks this if there is no array interface, and would otherwise make an array of one
        object."""
        raise TypeError(
            "the array is in CUDA memory: take it with CuPy or PyTorch, or map it with host=True"
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._mapping.host:
            raise AttributeError("the array is in system memory")
        self._mapping.add_user(None)
        return self._interface(stream=True)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Device type (1 CPU, 2 CUDA) and number."""
        return self._mapping.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Returns a capsule for from_dlpack() of an array library.

        On a GPU, the consumer's `stream` waits for the work that still writes the memory; the host
        does not wait. 1 or None is the legacy default stream, 2 the default stream of the calling
        thread, and with -1 no stream waits. A consumer with `max_version` of at least 1.0 learns
        that the memory is read-only.

        Raises BufferError for another device, for a copy, or for a layout that DLPack does not
        have, and ValueError for a stream in system memory.
        """
        mapping = self._mapping
        device = mapping.device
        if dl_device is not None and tuple(dl_device) != device:
            raise BufferError(f"the array is on device {device} and stays there, not {dl_device}")
        if copy:
            raise BufferError("the array is given without a copy only")
        if self._shape.dlpack:
            raise BufferError(self._shape.dlpack)
        mapping.add_user(1 if stream is None and not mapping.host else stream)
        return _dlpack.export(
            mapping, self.pointer, self._shape, device, mapping.readonly,
            max_version is not None and max_version[0] >= 1,
        )


def letterbox_of(buffer: int) -> Letterbox | None:
    """Returns the content of a buffer's GstCudaLetterboxMeta, or None."""
    # GStreamer warns about names of metas that nobody registered.
    if not _gst.meta_get_info(_META):
        return None
    meta = _gst.buffer_get_custom_meta(buffer, _META)
    if not meta:
        return None
    structure = _gst.custom_meta_get_structure(meta)
    double, integer = _gst.structure_get_double, _gst.structure_get_int
    return Letterbox(
        double(structure, b"scale"),
        double(structure, b"left"),
        double(structure, b"top"),
        double(structure, b"content-width"),
        double(structure, b"content-height"),
        integer(structure, b"source-width"),
        integer(structure, b"source-height"),
    )


class _OnBuffer:
    """Holds what frames and tensors have in common."""

    __slots__ = ()
    _mapping: Mapping

    def _time(self, name: str) -> int | None:
        value = getattr(_gst.Buffer.from_address(self._mapping.buffer), name)
        return None if value == _gst.CLOCK_TIME_NONE else value

    @property
    def pts(self) -> int | None:
        """Presentation time of the buffer in nanoseconds, or None."""
        return self._time("pts")

    @property
    def duration(self) -> int | None:
        """Duration of the buffer in nanoseconds, or None."""
        return self._time("duration")

    def to_buffer(self, *, like: Any = None) -> Any:
        """Returns the buffer of a filled frame that came from a Pool, to be pushed.

        Waits for the work on a GPU that fills it. Timestamps and flags come from `like`: a
        Gst.Sample, a Gst.Buffer, or a result of frame() or tensor(). Do not write to arrays of this
        frame afterwards.

        Returns a Gst.Buffer, or without PyGObject a ctypes.c_void_p, whose reference the caller
        must release with gst_mini_object_unref(). Raises ValueError for a frame that is read-only
        or was given away already.
        """
        mapping = self._mapping
        if mapping.readonly:
            raise ValueError("the frame is not for writing: only one of a Pool becomes a buffer")
        times = buffer_of(like) if like is not None else 0
        mapping.finish()
        copied = _gst.BUFFER_COPY_FLAGS | _gst.BUFFER_COPY_TIMESTAMPS
        if times and not _gst.buffer_copy_into(mapping.buffer, times, copied, 0, 2**64 - 1):
            raise RuntimeError("the timestamps could not be copied")
        return _gst.to_python(_gst.mini_object_ref(mapping.buffer))

    @property
    def letterbox(self) -> Letterbox | None:
        """Content of the buffer's GstCudaLetterboxMeta, or None."""
        return letterbox_of(self._mapping.buffer)


class Tensor(Array, _OnBuffer):
    """Holds a tensor, as tensor() returns it."""

    __slots__ = ()


class Frame(_OnBuffer):
    """Holds a video frame, as frame() returns it."""

    __slots__ = ("_mapping", "_layout", "_base", "_places", "_planes", "__weakref__")

    def __init__(
        self, mapping: Mapping, layout: _layout.Video, base: int,
        places: tuple[tuple[int, _layout.Shape], ...],
    ) -> None:
        self._mapping = mapping
        self._layout = layout
        self._base = base
        self._places = places
        self._planes: tuple[Array, ...] | None = None

    @property
    def format(self) -> str:
        """GStreamer's name of the format, for example "NV12"."""
        return self._layout.format

    @property
    def width(self) -> int:
        """Width in pixels."""
        return self._layout.width

    @property
    def height(self) -> int:
        """Height in pixels."""
        return self._layout.height

    @property
    def planes(self) -> tuple[Array, ...]:
        """One array for each plane."""
        planes = self._planes
        if planes is None:
            mapping, base = self._mapping, self._base
            planes = tuple(Array(mapping, base + at, shape) for at, shape in self._places)
            self._planes = planes
        return planes

    @property
    def device(self) -> str:
        """"cpu", or "cuda:" and the number of the device that the memory is on."""
        return self.planes[0].device

    @property
    def stream(self) -> int | None:
        """See Array.stream."""
        return self.planes[0].stream

    @property
    def readonly(self) -> bool:
        return self._mapping.readonly

    def __repr__(self) -> str:
        return f"<Frame {self.format} {self.width}x{self.height} on {self.device}>"


def open_buffer(obj: Any, caps: Any) -> tuple[int, Any, Any]:
    """Returns the address of a buffer, its layout, and an object that keeps both alive for now."""
    address = _gst.address_of(obj)
    kind = _gst.type_of(address) if address else 0
    if kind == _gst.SAMPLE_TYPE:
        buffer = _gst.sample_get_buffer(address)
        if not buffer:
            raise ValueError("the sample has no buffer")
        if caps is None:
            of_sample = _gst.sample_get_caps(address)
            if not of_sample:
                raise ValueError("the sample has no caps: name them with caps=")
            return buffer, _layout.of_caps(of_sample), obj
    elif kind == _gst.BUFFER_TYPE:
        buffer = address
        if caps is None:
            raise ValueError("a buffer does not know its caps: name them with caps=")
    else:
        raise TypeError(
            "must be a Gst.Sample or Gst.Buffer, or the address of one as ctypes.c_void_p, not "
            f"{type(obj).__name__}"
        )
    own = _layout.caps_of(caps)
    return buffer, _layout.of_caps(own.address), (obj, own)


def buffer_of(like: Any) -> int:
    """Returns the address of the buffer that `like` is or contains."""
    if isinstance(like, (Frame, Tensor)):
        return like._mapping.buffer
    address = _gst.address_of(like)
    kind = _gst.type_of(address) if address else 0
    if kind == _gst.SAMPLE_TYPE:
        address = _gst.sample_get_buffer(address)
        if not address:
            raise ValueError("the sample has no buffer")
    elif kind != _gst.BUFFER_TYPE:
        raise TypeError(
            f"like must be a Gst.Sample, Gst.Buffer, Frame or Tensor, not {type(like).__name__}"
        )
    return address


def cuda_memory(buffer: int) -> int:
    """Returns the CUDA memory of a buffer that has no other memory, and otherwise 0."""
    if _gst.buffer_n_memory(buffer) != 1:
        return 0
    memory = _gst.buffer_peek_memory(buffer, 0)
    return memory if _gst.memory_is_type(memory, _CUDA_MEMORY) else 0


def _mapping_of(buffer: int, host: bool, readonly: bool) -> tuple[Mapping, int]:
    """Returns a Mapping that is not mapped yet, and the buffer's CUDA memory, or 0."""
    if _gst.buffer_n_memory(buffer) == 1:
        memory = _gst.buffer_peek_memory(buffer, 0)
        # GStreamer does not check its counter for overflow.
        if _gst.times_mapped(memory) > _MOST_MAPS:
            raise BufferError(f"a buffer is mapped more than {_MOST_MAPS} times")
        # The memory decides, because caps do not tell.
        if _gst.memory_is_type(memory, _CUDA_MEMORY):
            mapping = _cuda().CudaMapping(buffer, memory, readonly)
            mapping.host = host
            return mapping, memory
    return Mapping(buffer, readonly), 0


def make_tensor(buffer: int, layout: Any, host: bool = False, readonly: bool = True) -> Tensor:
    if not isinstance(layout, _layout.Tensor):
        raise ValueError("the caps are of video: use frame()")
    mapping, _ = _mapping_of(buffer, host, readonly)
    data = mapping.map()
    size = mapping.infos[0].size
    if size < layout.size:
        raise BufferError(
            f"a buffer is too small: the tensor has {layout.size} bytes, the memory {size}"
        )
    return Tensor(mapping, data, layout.array)


# This part of a GstVideoMeta describes the frame: from its format to the last stride.
_META_START = _gst.VideoMeta.format.offset
_META_LENGTH = _gst.VideoMeta.stride.offset + _gst.VideoMeta.stride.size - _META_START
_INFO_LENGTH = ctypes.sizeof(_gst.VideoInfo)
_MOST_PLACES = 64


def make_frame(buffer: int, layout: Any, host: bool = False, readonly: bool = True) -> Frame:
    if not isinstance(layout, _layout.Video):
        raise ValueError("the caps are of a tensor: use tensor()")
    mapping, cuda = _mapping_of(buffer, host, readonly)
    meta = _gst.buffer_get_video_meta(buffer)
    if meta and not cuda:
        _check_meta(meta, layout)
        data, strides = _map_planes(mapping, meta, layout)
        base = min(data)
        ends = [m.data + m.size for m in mapping.infos]
        return Frame(
            mapping, layout, base, _places(buffer, meta, layout, base, data, strides, ends)
        )
    if cuda and host:
        _check_download(cuda, meta, layout)
    base = mapping.map()
    # All buffers of a pool have the same description of their planes.
    said = b""
    if meta:
        said = _gst.bytes_at(meta + _META_START, _META_LENGTH)
    elif cuda:
        said = _gst.bytes_at(cuda + _cuda().INFO_OFFSET, _INFO_LENGTH)
    key = said, mapping.infos[0].size
    places = layout.places.get(key)
    if places is None:
        source: Any = layout.info
        if meta:
            source = _check_meta(meta, layout)
        elif cuda:
            # Strides and offsets are the allocator's, not the caps'.
            source = _check_info(_cuda().video_info(cuda), layout)
        data = [base + offset for offset in source.offset[: len(layout.planes)]]
        ends = [base + key[1]] * len(data)
        places = _places(buffer, meta, layout, base, data, source.stride, ends)
        # The key does not include a crop, so cropped frames are not stored.
        if source.width == layout.width and source.height == layout.height:
            if len(layout.places) >= _MOST_PLACES:
                layout.places.clear()
            layout.places[key] = places
    return Frame(mapping, layout, base, places)


def _check_meta(address: int, layout: _layout.Video) -> Any:
    meta = _gst.VideoMeta.from_address(address)
    if (
        meta.format != layout.info.finfo.contents.format
        or meta.n_planes != len(layout.planes)
        or meta.width < layout.width
        or meta.height < layout.height
    ):
        raise BufferError(
            f"the buffer's video meta has {meta.n_planes} planes of {meta.width}x{meta.height} "
            f"in format {meta.format}, but its caps say {layout.format} "
            f"{layout.width}x{layout.height}"
        )
    return meta


def _check_info(info: Any, layout: _layout.Video) -> Any:
    if (
        info.finfo.contents.format != layout.info.finfo.contents.format
        or info.width < layout.width
        or info.height < layout.height
    ):
        raise BufferError(
            f"the buffer's CUDA memory is {info.finfo.contents.name.decode()} "
            f"{info.width}x{info.height}, but its caps say {layout.format} "
            f"{layout.width}x{layout.height}"
        )
    return info


def _map_planes(
    mapping: Mapping, address: int, layout: _layout.Video
) -> tuple[list[int], list[int]]:
    meta = _gst.VideoMeta.from_address(address)
    size = _gst.buffer_get_size(mapping.buffer)
    count = len(layout.planes)
    for i, offset in enumerate(meta.offset[:count]):
        if offset >= size:
            raise BufferError(
                f"a buffer is too small: plane {i} starts at byte {offset}, the memory has {size}"
            )
    return mapping.map_planes(address, count)


def _places(
    buffer: int, meta: int, layout: _layout.Video, base: int, data: list[int], strides: Any,
    ends: list[int],
) -> tuple[tuple[int, _layout.Shape], ...]:
    """Returns where each plane begins, relative to `base`, and its shape."""
    x, y = _crop(buffer, meta, layout) if meta else (0, 0)
    places = []
    for i, plane in enumerate(layout.planes):
        stride = strides[i]
        if stride < plane.row:
            raise BufferError(
                f"plane {i} of a buffer has a stride of {stride} bytes: must be {plane.row} or more"
            )
        start = data[i] + (y >> plane.sub_y) * stride + (x >> plane.sub_x) * plane.pixel
        last = start + stride * (plane.shape[0] - 1) + plane.row
        if last > ends[i]:
            raise BufferError(
                f"a buffer is too small: {layout.format} {layout.width}x{layout.height} with these "
                f"strides needs {last - ends[i]} bytes more for plane {i}"
            )
        places.append((start - base, layout.shape_of(i, stride)))
    return tuple(places)


def _crop(buffer: int, address: int, layout: _layout.Video) -> tuple[int, int]:
    """Returns where the part of a frame begins that the caps describe, in whole chroma samples."""
    meta = _gst.VideoMeta.from_address(address)
    if meta.width <= layout.width and meta.height <= layout.height:
        return 0, 0
    address = _gst.buffer_get_meta(buffer, _gst.CROP_META_TYPE)
    if not address:
        return 0, 0
    crop = _gst.VideoCropMeta.from_address(address)
    if (
        (crop.width, crop.height) != (layout.width, layout.height)
        or crop.x > meta.width - crop.width
        or crop.y > meta.height - crop.height
    ):
        return 0, 0
    sub_x = max(plane.sub_x for plane in layout.planes)
    sub_y = max(plane.sub_y for plane in layout.planes)
    return crop.x >> sub_x << sub_x, crop.y >> sub_y << sub_y


def _check_download(memory: int, meta: int, layout: _layout.Video) -> None:
    """Refuses frames that GStreamer cannot copy to the host completely."""
    info: Any = _gst.VideoMeta.from_address(meta) if meta else _cuda().video_info(memory)
    m = _gst.Memory.from_address(memory)
    if m.size != m.maxsize:
        raise BufferError(
            f"a buffer has {m.size} of the {m.maxsize} bytes of its CUDA memory: GStreamer brings "
            "only whole ones to the host"
        )
    for i in range(len(layout.planes)):
        if info.stride[i] > 0 and info.offset[i] % info.stride[i]:
            raise BufferError(
                f"GStreamer before 1.24.4 loses a part of {layout.format} frames of this height "
                f"({layout.height}) on the way from CUDA to host memory"
            )


def tensor(sample: Any, caps: Any = None, *, host: bool = False) -> Tensor:
    """Returns the tensor in a buffer, such as cudaletterbox makes, as an array. No copy is made.

    `sample` is a Gst.Sample, or a Gst.Buffer with its `caps` (Gst.Caps or a string), or the address
    of either as ctypes.c_void_p. The caps are other/tensors with one tensor of float32, float16 or
    uint8.

    The array has the dimensions of the caps, outermost first: dimensions=640:480:3:1 gives the
    shape (1, 3, 480, 640). It is in CUDA memory if the buffer is, unless `host` asks for a copy in
    system memory, which GStreamer makes.

    Raises TypeError for other objects, ValueError for other caps, and BufferError for a buffer that
    cannot be mapped or is too small.
    """
    buffer, layout, _keep = open_buffer(sample, caps)
    return make_tensor(buffer, layout, host)


def frame(sample: Any, caps: Any = None, *, host: bool = False) -> Frame:
    """Returns the video frame in a buffer, as one array for each plane. No copy is made.

    `sample` is a Gst.Sample, or a Gst.Buffer with its `caps` (Gst.Caps or a string), or the address
    of either as ctypes.c_void_p. The caps are video/x-raw.

    A plane has the shape (rows, columns), or (rows, columns, channels) if it has several channels,
    in the order of the memory. NV12 is (height, width) and (height/2, width/2, 2), rounded up; RGBx
    is (height, width, 4). Elements are uint8, or uint16 if a sample has more than 8 bits, with the
    bits as in memory (P010's 10 bits are the high ones). Formats in which pixels share samples
    (YUY2) or samples share bytes (RGB16) are given as rows of bytes. The strides are the buffer's
    own.

    The planes are in CUDA memory if the buffer is, unless `host` asks for a copy in system memory,
    which GStreamer makes.

    Raises TypeError for other objects, ValueError for other caps and for tiled and paletted
    formats, and BufferError for a buffer that cannot be mapped or is too small.
    """
    buffer, layout, _keep = open_buffer(sample, caps)
    return make_frame(buffer, layout, host)
