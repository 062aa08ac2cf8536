"""Puts arrays into buffers of a pipeline."""
from __future__ import annotations

import ctypes
from ctypes import byref, c_int
from typing import Any, Sequence

from . import _dlpack, _frame, _gst, _layout, _release

_FLAGS = _gst.BUFFER_COPY_FLAGS | _gst.BUFFER_COPY_TIMESTAMPS


class _Fresh:
    """Holds a new buffer and unreferences it unless somebody takes it."""

    def __init__(self) -> None:
        self.address = _gst.buffer_new()

    def __del__(self) -> None:
        if self.address:
            _gst.mini_object_unref(self.address)

    def take(self) -> Any:
        address, self.address = self.address, 0
        return _gst.to_python(address)


def _check_plane(index: int, taken: _dlpack.Taken, plane: _layout.Plane) -> None:
    name = f"the array of plane {index}"
    if plane.swapped:
        raise ValueError("big-endian formats cannot be made of arrays")
    if taken.dtype != plane.dtype or taken.shape != plane.shape:
        raise ValueError(
            f"{name} is {taken.shape} of {taken.dtype}: must be {plane.shape} of {plane.dtype}"
        )
    if taken.strides[1:] != plane.inner or taken.strides[0] < plane.row:
        raise ValueError(
            f"{name} has strides of {taken.strides} bytes: rows may be apart, but what is in a row "
            f"must be without gaps, with strides of {plane.inner}"
        )


def _check_tensor(taken: _dlpack.Taken, layout: _layout.Tensor) -> None:
    def core(shape: tuple[int, ...]) -> list[int]:
        return [n for n in shape if n != 1]

    if taken.dtype != layout.dtype or core(taken.shape) != core(layout.shape):
        raise ValueError(
            f"the array is {taken.shape} of {taken.dtype}: must be {layout.shape} of {layout.dtype}"
        )
    want = _layout.row_major(taken.shape, _layout.SIZES[taken.dtype])
    if any(n > 1 and s != w for n, s, w in zip(taken.shape, taken.strides, want)):
        raise ValueError("the array of a tensor must be without gaps, its last dimension innermost")


def _add_meta(
    buffer: int, layout: _layout.Video, offsets: Sequence[int], strides: Sequence[int]
) -> None:
    n = _gst.MAX_PLANES
    _gst.buffer_add_video_meta_full(
        buffer, 0, layout.info.finfo.contents.format, layout.width, layout.height,
        len(layout.planes), (ctypes.c_size_t * n)(*offsets), (c_int * n)(*strides),
    )


def _append_host(buffer: int, taken: _dlpack.Taken, size: int, readonly: bool) -> None:
    token = _release.token(_release.Owner(taken))
    memory = _gst.memory_new_wrapped(
        _gst.MEMORY_FLAG_READONLY if readonly else 0, taken.pointer, size, 0, size, token,
        _release.notify,
    )
    _gst.buffer_append_memory(buffer, memory)


def buffer_from(
    array: Any, caps: Any, *, like: Any = None, writable: bool = False
) -> Any:
    """Makes a buffer that uses the memory of an array. No copy is made.

    `array` is from NumPy, CuPy, PyTorch or another library with DLPack or an array interface. For a
    format with several planes it is a sequence of arrays, one for each plane. Shapes and types are
    those that frame() and tensor() give for `caps` (Gst.Caps or a string). Rows of a frame may have
    gaps between them; a tensor must be contiguous. On a GPU, all planes must lie in one allocation,
    in order, with one stride, and start at whole rows of it, as parts of one array do.

    The array is kept until the pipeline has released the buffer. Do not write to it until then. The
    pipeline does not write to it either, and copies what it changes, unless `writable` is True. The
    pipeline waits for the work that still fills an array on a GPU. If the array does not tell its
    stream (version 2 of the array interface), this function waits for all work on the device.

    Timestamps and flags come from `like`: a Gst.Sample, a Gst.Buffer, or a result of frame() or
    tensor().

    Returns a Gst.Buffer, or without PyGObject a ctypes.c_void_p, whose reference the caller must
    release with gst_mini_object_unref(). Memory on a GPU needs GStreamer 1.24; with older versions,
    write to a frame of a Pool instead.

    Raises TypeError if `array` is no array, ValueError if it does not fit the caps or the caps are
    not supported, and RuntimeError for an array on a GPU before GStreamer 1.24.
    """
    own = _layout.caps_of(caps)
    layout = _layout.of_caps(own.address)
    video = layout if isinstance(layout, _layout.Video) else None
    arrays = list(array) if isinstance(array, (list, tuple)) else [array]
    wanted = len(video.planes) if video else 1
    if len(arrays) != wanted:
        what = f"format {video.format}" if video else "a tensor"
        raise ValueError(f"{what} needs {wanted} arrays, one for each plane, not {len(arrays)}")
    times = _frame.buffer_of(like) if like is not None else 0

    def stream_on(device: int) -> int:
        from . import _cuda

        return _cuda.own_stream(device)

    taken = [_dlpack.take(a, stream_on) for a in arrays]
    if len({t.device for t in taken}) != 1:
        raise ValueError("the arrays of a frame's planes must be on one device")
    if isinstance(layout, _layout.Tensor):
        _check_tensor(taken[0], layout)
    else:
        for i, t in enumerate(taken):
            _check_plane(i, t, layout.planes[i])

    fresh = _Fresh()
    if taken[0].device[0] == _dlpack.CUDA:
        from . import _cuda

        _cuda.append_wrapped(fresh.address, taken, layout, writable)
        if video:
            base, stride = taken[0].pointer, taken[0].strides[0]
            _add_meta(fresh.address, video, [t.pointer - base for t in taken], [stride] * wanted)
    elif isinstance(layout, _layout.Tensor):
        _append_host(fresh.address, taken[0], layout.size, taken[0].readonly or not writable)
    else:
        offsets, at = [], 0
        for t, plane in zip(taken, layout.planes):
            size = t.strides[0] * (plane.shape[0] - 1) + plane.row
            offsets.append(at)
            at += size
            _append_host(fresh.address, t, size, t.readonly or not writable)
        _add_meta(fresh.address, layout, offsets, [t.strides[0] for t in taken])
    if times and not _gst.buffer_copy_into(fresh.address, times, _FLAGS, 0, 2**64 - 1):
        raise RuntimeError("the timestamps could not be copied")
    return fresh.take()


class Pool:
    """Gives frames to write to, in memory that is reused.

    The frames lie where the frame `like` (a Gst.Sample, Gst.Buffer or Frame) does: in CUDA memory
    of its context, or in system memory. `caps` (Gst.Caps or a string) are of raw video. At most
    `most` frames are in use at a time; 0 means no limit.

        out = pool.frame()
        kernel(cupy.from_dlpack(out.planes[0]))
        appsrc.emit("push-buffer", out.to_buffer(like=sample))

    Raises ValueError for other caps, and RuntimeError if the memory cannot be allocated.
    """

    def __init__(self, caps: Any, *, like: Any, most: int = 0) -> None:
        self._pool = 0
        own = _layout.caps_of(caps)
        self._layout = _layout.of_caps(own.address)
        if not isinstance(self._layout, _layout.Video):
            raise ValueError("the caps of a Pool must be of raw video")
        memory = _frame.cuda_memory(_frame.buffer_of(like))
        if memory:
            from . import _cuda

            own = _layout.OwnedCaps(_gst.caps_copy(own.address))
            _gst.caps_set_features_simple(
                own.address, _gst.caps_features_from_string(b"memory:CUDAMemory")
            )
            self._pool = _cuda.pool_new(_cuda.CudaMemory.from_address(memory).context)
        else:
            self._pool = _gst.video_buffer_pool_new()
        config = _gst.pool_get_config(self._pool)
        _gst.pool_config_set_params(config, own.address, self._layout.info.size, 0, most)
        _gst.pool_config_add_option(config, b"GstBufferPoolOptionVideoMeta")
        if not _gst.pool_set_config(self._pool, config) or not _gst.pool_set_active(self._pool, 1):
            raise RuntimeError(f"no frames of {_gst.caps_to_string(own.address)} can be had")

    def __del__(
        self, set_active: Any = _gst.pool_set_active, unref: Any = _gst.object_unref
    ) -> None:
        if self._pool:
            set_active(self._pool, 0)
            unref(self._pool)

    def frame(self) -> _frame.Frame:
        """Returns a frame whose planes can be written to. Waits if `most` frames are in use.

        Its content is undefined, for example an earlier frame. Raises RuntimeError if no memory is
        left.
        """
        out = ctypes.c_void_p()
        if _gst.pool_acquire(self._pool, byref(out), None) != 0 or not out.value:
            raise RuntimeError("a pool has no memory for another frame")
        return _frame.make_frame(out.value, self._layout, readonly=False)


def use_primary_context(element: Any, device: int = 0) -> None:
    """Makes a pipeline or an element use the primary context of a CUDA device.

    CuPy and PyTorch work in that context. Otherwise GStreamer makes its own context, which takes
    some hundred MB more on the device, and the GPU switches between the work of both contexts. Call
    this before the state changes to READY.

    `element` is a Gst.Element or Gst.Pipeline, or the address of one as ctypes.c_void_p.

    Raises TypeError for other objects, and CudaError, a RuntimeError, if the device cannot be used.
    """
    address = _gst.element_of(element)
    from . import _cuda

    _cuda.set_primary_context(address, device)
