"""Reads from caps how the memory of a buffer is laid out."""
from __future__ import annotations

import ctypes
import struct
from typing import Any, NamedTuple

from . import _gst


class Plane(NamedTuple):
    """Describes a plane of a frame without the stride and offset, which depend on the buffer."""

    shape: tuple[int, ...]  # rows first
    inner: tuple[int, ...]  # strides in bytes of all dimensions but rows
    dtype: str
    swapped: bool  # big-endian
    row: int  # in bytes
    sub_x: int  # log2 of the subsampling
    sub_y: int
    pixel: int  # bytes from one pixel to the next


class Shape:
    """Describes an array except its address. Made once for all buffers of a pool."""

    __slots__ = (
        "shape", "strides", "dtype", "itemsize", "swapped", "dense", "dlpack", "extents", "exports"
    )

    def __init__(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, swapped: bool = False
    ) -> None:
        self.shape = shape
        self.strides = strides  # in bytes
        self.dtype = dtype
        self.itemsize = SIZES[dtype]
        self.swapped = swapped
        self.dense = strides == row_major(shape, self.itemsize)
        # Says why DLPack cannot describe it; empty if it can.
        self.dlpack = ""
        if swapped:
            self.dlpack = "DLPack has no big-endian numbers"
        elif any(stride % self.itemsize for stride in strides):
            self.dlpack = f"DLPack has no strides that are not a multiple of {self.itemsize} bytes"
        # DLPack counts strides in elements.
        extents = (*shape, *(stride // self.itemsize for stride in strides))
        self.extents = struct.pack(f"={len(extents)}q", *extents)
        self.exports: dict[Any, Any] = {}  # DLPack's structures, which are reused


class Video(NamedTuple):
    info: _gst.VideoInfo
    format: str
    width: int
    height: int
    planes: tuple[Plane, ...]
    # These are filled on demand: shapes by plane and stride, and places of all planes by the bytes
    # that describe them.
    shapes: dict[tuple[int, int], Shape]
    places: dict[tuple[bytes, int], tuple[tuple[int, Shape], ...]]

    def shape_of(self, index: int, stride: int) -> Shape:
        shape = self.shapes.get((index, stride))
        if shape is None:
            if len(self.shapes) >= _MOST:
                self.shapes.clear()
            plane = self.planes[index]
            shape = Shape(plane.shape, (stride, *plane.inner), plane.dtype, plane.swapped)
            self.shapes[index, stride] = shape
        return shape


class Tensor(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    size: int  # in bytes
    array: Shape


SIZES = {"uint8": 1, "uint16": 2, "float16": 2, "float32": 4}


def row_major(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Returns the strides in bytes of a contiguous array."""
    strides = []
    for n in reversed(shape):
        strides.append(size)
        size *= n
    return tuple(reversed(strides))


def _plane(f: _gst.VideoFormatInfo, name: str, index: int, width: int, height: int) -> Plane:
    components = [c for c in range(f.n_components) if f.plane[c] == index]
    steps = {f.pixel_stride[c] for c in components}
    depth = max(f.depth[c] + f.shift[c] for c in components)
    size = 1 if depth <= 8 else 2
    first = components[0]
    sub_x, sub_y = f.w_sub[first], f.h_sub[first]
    rows = -(-height >> sub_y)
    step = min(steps)
    whole = (
        len(steps) == 1
        and depth <= 16
        and step % size == 0
        and len({f.poffset[c] for c in components}) == len(components)
        and all((f.w_sub[c], f.h_sub[c]) == (sub_x, sub_y) for c in components)
        and all(f.depth[c] == f.depth[first] for c in components)
    )
    if not whole:
        # If pixels share samples, or samples are not whole bytes, rows are given as bytes.
        row = max(-(-width >> f.w_sub[c]) * f.pixel_stride[c] for c in components)
        return Plane((rows, row), (1,), "uint8", False, row, 0, sub_y, step)
    columns, channels = -(-width >> sub_x), step // size
    shape = (rows, columns) if channels == 1 else (rows, columns, channels)
    inner = row_major(shape, size)[1:]
    dtype = "uint8" if size == 1 else "uint16"
    swapped = size == 2 and name.endswith("BE")
    return Plane(shape, inner, dtype, swapped, columns * step, sub_x, sub_y, step)


def _video(caps: int) -> Video:
    info = _gst.VideoInfo()
    if not _gst.video_info_from_caps(ctypes.byref(info), caps):
        raise ValueError(f"these are no caps of raw video: {_gst.caps_to_string(caps)}")
    f = info.finfo.contents
    name = f.name.decode()
    if f.flags & (_gst.FORMAT_PALETTE | _gst.FORMAT_TILED) or not all(
        f.pixel_stride[c] > 0 for c in range(f.n_components)
    ) or not f.n_components:
        raise ValueError(f"a frame of format {name} is no array: convert it with videoconvert")
    planes = tuple(
        _plane(f, name, index, info.width, info.height) for index in range(f.n_planes)
    )
    return Video(info, name, info.width, info.height, planes, {}, {})


def _tensor(caps: int, structure: int) -> Tensor:
    types = _gst.structure_get_string(structure, b"types")
    dimensions = _gst.structure_get_string(structure, b"dimensions")
    wrong = (
        f"cannot make an array of {_gst.caps_to_string(caps)}: must have one tensor, with types "
        "float32, float16 or uint8, and dimensions as W:H:3:1"
    )
    dtype = types.decode() if types else ""
    if dtype not in ("float32", "float16", "uint8") or not dimensions:
        raise ValueError(wrong)
    try:
        shape = tuple(int(n) for n in reversed(dimensions.decode().split(":")))
    except ValueError:
        raise ValueError(wrong) from None
    if min(shape) < 1:
        raise ValueError(wrong)
    size = SIZES[dtype]
    for n in shape:
        size *= n
    return Tensor(shape, dtype, size, Shape(shape, row_major(shape, SIZES[dtype]), dtype))


# The key is the address of caps, which stays theirs because they are kept alive here.
_known: dict[int, Any] = {}
_MOST = 64


def of_caps(caps: int) -> Video | Tensor:
    """Returns the layout of fixed caps of raw video or of a tensor. Raises ValueError for others.
    """
    layout = _known.get(caps)
    if layout is not None:
        return layout
    if not _gst.caps_is_fixed(caps):
        raise ValueError(f"the caps are not fixed: {_gst.caps_to_string(caps)}")
    structure = _gst.caps_get_structure(caps, 0)
    name = _gst.structure_get_name(structure)
    if name == b"video/x-raw":
        layout = _video(caps)
    elif name == b"other/tensors":
        layout = _tensor(caps, structure)
    else:
        raise ValueError(
            "the caps must be video/x-raw or other/tensors, but are "
            f"{_gst.caps_to_string(caps)}"
        )
    while len(_known) >= _MOST:
        try:
            # This is the oldest entry. Another thread may have removed it.
            oldest = next(iter(_known))
            if _known.pop(oldest, None) is not None:
                _gst.mini_object_unref(oldest)
        except (StopIteration, RuntimeError):
            break
    _gst.mini_object_ref(caps)
    if _known.setdefault(caps, layout) is not layout:
        _gst.mini_object_unref(caps)
    return layout


class OwnedCaps:
    """Holds caps and unreferences them with this object."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __del__(self, unref: Any = _gst.mini_object_unref) -> None:
        unref(self.address)


def caps_of(obj: Any) -> OwnedCaps:
    """Makes caps of a Gst.Caps, a string or a ctypes.c_void_p. Raises TypeError for others."""
    if isinstance(obj, str):
        address = _gst.caps_from_string(obj.encode())
        if not address:
            raise ValueError(f"these are no caps: {obj!r}")
        return OwnedCaps(address)
    address = _gst.address_of(obj)
    if not address or _gst.type_of(address) != _gst.CAPS_TYPE:
        raise TypeError(f"caps must be Gst.Caps or a string, not {type(obj).__name__}")
    return OwnedCaps(_gst.mini_object_ref(address))
