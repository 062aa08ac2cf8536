"""Keeps buffers mapped while arrays use their memory."""
from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_void_p
from typing import Any

from . import _dlpack, _gst


class Mapping:
    """Keeps a buffer, and its mapping, for as long as this object lives.

    A mapping for writing takes over the reference to the buffer, which must be the only one.
    """

    __slots__ = ("buffer", "infos", "meta", "host", "readonly")

    buffer: int  # with a reference of this object
    infos: tuple[_gst.MapInfo, ...]  # one per plane of `meta`, or one in all if that is 0
    meta: int
    host: bool
    readonly: bool

    def __init__(self, buffer: int, readonly: bool = True) -> None:
        self.buffer = _gst.mini_object_ref(buffer) if readonly else buffer
        self.meta = 0
        self.infos = ()
        self.host = True
        self.readonly = readonly

    def __del__(self) -> None:
        self.unmap()

    def unmap(
        self,
        buffer_unmap: Any = _gst.buffer_unmap,
        plane_unmap: Any = _gst.video_meta_unmap,
        unref: Any = _gst.mini_object_unref,
        reference: Any = ctypes.addressof,
    ) -> None:
        """Releases the buffer. Uses no name of this module, because those may be gone at exit."""
        if self.meta:
            for i, info in enumerate(self.infos):
                plane_unmap(self.meta, i, reference(info))
        else:
            for info in self.infos:
                buffer_unmap(self.buffer, reference(info))
        unref(self.buffer)

    @property
    def device(self) -> tuple[int, int]:
        """Type and number of the device in DLPack's terms."""
        return _dlpack.CPU, 0

    @property
    def stream(self) -> int:
        """CUDA stream that may still be writing the memory, or 0."""
        return 0

    def wait(self) -> None:
        """Waits for the work of consumers."""

    def finish(self) -> None:
        """Waits for work that writes the memory, and unmaps it. The buffer is kept."""
        self.wait()
        self.unmap(unref=lambda _: None)
        self.infos = ()
        self.readonly = True

    def add_user(self, stream: int | None) -> None:
        """Adds a consumer that works on a CUDA stream, or on any stream for None."""
        if stream is not None:
            raise ValueError("the array is in system memory: stream must be None")

    def _flags(self) -> int:
        flags = _gst.MAP_READ if self.readonly else _gst.MAP_READ | _gst.MAP_WRITE
        return flags if self.host else flags | _gst.MAP_CUDA

    def map(self) -> int:
        """Maps the whole buffer. Returns the address."""
        info = _gst.MapInfo()
        if not _gst.buffer_map(self.buffer, ctypes.addressof(info), self._flags()):
            raise BufferError(
                f"a buffer could not be mapped for {'reading' if self.readonly else 'writing'} in "
                f"{'host' if self.host else 'CUDA'} memory"
            )
        self.infos = (info,)
        return info.data or 0

    def map_planes(self, meta: int, count: int) -> tuple[list[int], list[int]]:
        """Maps the planes of a GstVideoMeta. Returns their addresses and strides."""
        infos = tuple(_gst.MapInfo() for _ in range(count))
        flags = self._flags()
        data, strides = [], []
        pointer, stride = c_void_p(), c_int()
        for i in range(count):
            if not _gst.video_meta_map(
                meta, i, byref(infos[i]), byref(pointer), byref(stride), flags
            ):
                for j in range(i):
                    _gst.video_meta_unmap(meta, j, byref(infos[j]))
                raise BufferError(f"plane {i} of a buffer could not be mapped in host memory")
            data.append(pointer.value or 0)
            strides.append(stride.value)
        self.infos = infos
        self.meta = meta
        return data, strides
