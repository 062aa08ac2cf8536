"""Handles CUDA memory: its context, its pending writes, and the work of its consumers.

GStreamer allocates in its own context (cuCtxCreate), while CuPy and PyTorch work in the device's
primary context. Pointers are the same in both, because all contexts of a process share one address
space (lab/python.md says what that needs). Streams and events belong to a context, so each call
that takes one is made in its context. A wait for an event may cross contexts.

A consumer enqueues work and releases the array before the work is done. The buffer must return to
its pool only after the work: at once if a query says that it is done, or else by a thread that
waits.
"""
from __future__ import annotations

import ctypes
import functools
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from . import _dlpack, _gst, _layout, _release
from ._mapping import Mapping


class CudaMemory(ctypes.Structure):
    _fields_ = [("memory", _gst.Memory), ("context", c_void_p), ("info", _gst.VideoInfo)]


INFO_OFFSET: int = CudaMemory.info.offset
_CONTEXT_OFFSET: int = CudaMemory.context.offset
_FLAGS_OFFSET: int = _gst.MiniObject.flags.offset


class _Value(ctypes.Structure):  # GValue
    _fields_ = [("type", c_size_t), ("data", c_size_t * 2)]


_TYPE_UINT = 7 << 2
_NEED_SYNC = 1 << 22
_LEGACY = 1  # the default stream
_PER_THREAD = 2
_SUCCESS = 0
_NOT_READY = 600
_EVENT_FLAGS = 1 | 2  # waits without spinning, has no time

_get_data = _gst.quick(
    _gst.declare(
        _gst.keeping_lock(_gst._gobject), "g_object_get_qdata", c_void_p, c_void_p, c_uint
    )
)
_set_data = _gst.declare(_gst._gobject, "g_object_set_qdata", None, c_void_p, c_uint, c_void_p)
_device_key: int = _gst.declare(_gst._glib, "g_quark_from_string", c_uint, c_char_p)(
    b"gst-cuda-filters-python-device"
)

_library = _gst.load("gstcuda-1.0")
_context_get_handle = _gst.declare(_library, "gst_cuda_context_get_handle", c_void_p, c_void_p)
_value_init = _gst.declare(_gst._gobject, "g_value_init", c_void_p, POINTER(_Value), c_size_t)
_value_get_uint = _gst.declare(_gst._gobject, "g_value_get_uint", c_uint, POINTER(_Value))
_get_property = _gst.declare(
    _gst._gobject, "g_object_get_property", None, c_void_p, c_char_p, POINTER(_Value)
)
_load_library = _gst.declare(_library, "gst_cuda_load_library", c_int)
_memory_init_once = _gst.declare(_library, "gst_cuda_memory_init_once", None)
_context_new_wrapped = _gst.declare(
    _library, "gst_cuda_context_new_wrapped", c_void_p, c_void_p, c_int
)
_context_message = _gst.declare(_library, "gst_context_new_cuda_context", c_void_p, c_void_p)
pool_new = _gst.declare(_library, "gst_cuda_buffer_pool_new", c_void_p, c_void_p)
try:
    # Exists from 1.24 on. Elements of older versions wait for their work before they push.
    _memory_get_stream = _gst.quick(
        _gst.declare(_library, "gst_cuda_memory_get_stream", c_void_p, c_void_p)
    )
    _stream_get_handle = _gst.quick(
        _gst.declare(_library, "gst_cuda_stream_get_handle", c_void_p, c_void_p)
    )
    _stream_new = _gst.declare(_library, "gst_cuda_stream_new", c_void_p, c_void_p)
    _alloc_wrapped = _gst.declare(
        _library, "gst_cuda_allocator_alloc_wrapped", c_void_p, c_void_p, c_void_p, c_void_p,
        POINTER(_gst.VideoInfo), c_size_t, c_void_p, c_void_p,
    )
except AttributeError:
    _memory_get_stream = None


class CudaError(RuntimeError):
    """Raised if a call of the CUDA driver fails."""


class _Driver:
    """Holds the CUDA driver's functions that are needed here."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        out = POINTER(c_void_p)

        def take(name: str, *arguments: Any) -> Any:
            return _gst.declare(library, name, c_int, *arguments)

        self.init = take("cuInit", c_uint)
        self.error_name = take("cuGetErrorName", c_int, POINTER(c_char_p))
        self.device_get = take("cuDeviceGet", POINTER(c_int), c_int)
        self.primary_retain = take("cuDevicePrimaryCtxRetain", out, c_int)
        self.push = take("cuCtxPushCurrent_v2", c_void_p)
        self.pop = take("cuCtxPopCurrent_v2", out)
        self.synchronize = take("cuCtxSynchronize")
        self.pointer_attribute = take("cuPointerGetAttribute", c_void_p, c_int, c_size_t)
        self.stream_synchronize = take("cuStreamSynchronize", c_void_p)
        self.stream_context = take("cuStreamGetCtx", c_void_p, out)
        self.stream_wait = take("cuStreamWaitEvent", c_void_p, c_void_p, c_uint)
        self.event_create = take("cuEventCreate", out, c_uint)
        self.event_destroy = take("cuEventDestroy_v2", c_void_p)
        self.event_query = _gst.quick(take("cuEventQuery", c_void_p), waits=True)
        self.event_record = _gst.quick(take("cuEventRecord", c_void_p, c_void_p), waits=True)
        self.event_synchronize = take("cuEventSynchronize", c_void_p)
        try:
            # Records all work of a context; exists from CUDA 12.5 on.
            self.context_record = _gst.quick(
                take("cuCtxRecordEvent", c_void_p, c_void_p), waits=True
            )
        except AttributeError:
            self.context_record = None

    def check(self, result: int, what: str) -> None:
        if result != _SUCCESS:
            name = c_char_p()
            self.error_name(result, byref(name))
            raise CudaError(f"{what}: {(name.value or b'error %d' % result).decode()}")


_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL

# The key is the device. An entry is made once the thread that waits for users has started.
_legacy_users: dict[int, tuple[int, int]] = {}
_driver: _Driver | None = None
_primary: dict[int, int] = {}  # contexts by device
_lock = threading.Lock()


def driver() -> _Driver:
    global _driver
    if _driver is None:
        _driver = _Driver()
    return _driver


def primary_context(device: int) -> int:
    """Returns the handle of a device's primary context, which is kept until the process ends."""
    handle = _primary.get(device)
    if handle is None:
        cuda = driver()
        number, context = c_int(), c_void_p()
        with _lock:
            cuda.check(cuda.device_get(byref(number), device), "cuDeviceGet")
            cuda.check(cuda.primary_retain(byref(context), number), "cuDevicePrimaryCtxRetain")
            handle = _primary.setdefault(device, context.value or 0)
    return handle


class Current:
    """Makes a context current for a block."""

    __slots__ = ("handle",)

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __enter__(self) -> None:
        cuda = driver()
        cuda.check(cuda.push(self.handle), "cuCtxPushCurrent")

    def __exit__(self, *_: Any) -> None:
        driver().pop(None)


def video_info(memory: int) -> _gst.VideoInfo:
    """Returns the layout of the memory. It belongs to the memory and vanishes with it."""
    return CudaMemory.from_address(memory).info


def device_of_context(context: int) -> int:
    known = _get_data(context, _device_key)
    if not known:
        value = _Value()
        _value_init(byref(value), _TYPE_UINT)
        _get_property(context, b"cuda-device-id", byref(value))
        known = _value_get_uint(byref(value)) + 1
        _set_data(context, _device_key, known)
    return known - 1


def pending_stream(memory: int) -> int:
    """Returns the stream whose work may still write the memory, or 0."""
    if _memory_get_stream is None:
        return 0
    if not _gst.word_at(memory + _FLAGS_OFFSET) & _NEED_SYNC:
        return 0
    stream = _memory_get_stream(memory)
    return _stream_get_handle(stream) or 0 if stream else 0


# Events are reused, by context. A list's pop and append need no lock.
_events: dict[int, list[int]] = {}


def _take_event(context: int) -> int:
    """Returns an event of the context, which must be current."""
    free = _events.setdefault(context, [])
    try:
        return free.pop()
    except IndexError:
        event = c_void_p()
        cuda = driver()
        cuda.check(cuda.event_create(byref(event), _EVENT_FLAGS), "cuEventCreate")
        return event.value or 0


def _wait(waits: list[tuple[int, int]]) -> None:
    cuda = driver()
    for context, event in waits:
        if cuda.push(context) == _SUCCESS:
            if event:
                cuda.event_synchronize(event)
                _events[context].append(event)
            else:
                cuda.synchronize()
            cuda.pop(None)


def _finish(waits: list[tuple[int, int]], buffer: int) -> None:
    """Releases a buffer when the work of its consumers is done."""
    _wait(waits)
    _gst.mini_object_unref(buffer)


def _ignore(_: int) -> None:
    pass


def _query(context: int, stream: int, event: int) -> int:
    """Records an event for the pending work of a stream, or of the whole context if `stream` is 0.

    Returns 0 if the work is done and CUDA_ERROR_NOT_READY if the event must be waited for. Returns
    another error if the context is not current or CUDA has no such events.
    """
    cuda = driver()
    if stream:
        result = cuda.event_record(event, stream)
    elif cuda.context_record:
        result = cuda.context_record(context, event)
    else:
        return -1
    return cuda.event_query(event) if result == _SUCCESS else result


class CudaMapping(Mapping):
    """Maps a buffer that consists of one CUDA memory."""

    __slots__ = ("memory", "users", "_device")

    memory: int
    _device: int | None
    # Holds the consumers' work as pairs of a context and a stream, or 0 for all streams. Adding to
    # a set is one step.
    users: set[tuple[int, int]]

    def __init__(self, buffer: int, memory: int, readonly: bool = True) -> None:
        super().__init__(buffer, readonly)
        self.memory = memory
        self.users = set()
        self._device = None

    def __del__(self) -> None:
        waits = self._waits() if self.users else None
        if not waits:
            self.unmap()
            return
        # In device memory, unmapping does nothing that the work needs. Only the reference must
        # wait.
        self.unmap(unref=_ignore)
        _release.put(functools.partial(_finish, waits, self.buffer))

    def _waits(self) -> list[tuple[int, int]]:
        """Returns the consumers' unfinished work as pairs of a context and an event, or 0 to wait
        for the whole context."""
        cuda = driver()
        waits = []
        for context, stream in self.users:
            free = _events.get(context)
            event = free.pop() if free else 0
            # Usually the context is current already. If another one is, the call fails.
            result = _query(context, stream, event) if event else -1
            if result not in (_SUCCESS, _NOT_READY):
                if cuda.push(context) != _SUCCESS:
                    continue  # the context is gone, and its work with it
                try:
                    event = event or _take_event(context)
                    result = _query(context, stream, event)
                except CudaError:
                    pass
                finally:
                    cuda.pop(None)
            if result == _NOT_READY:
                waits.append((context, event))
                continue
            if event:
                _events[context].append(event)
            if result != _SUCCESS:
                waits.append((context, 0))
        return waits

    def wait(self) -> None:
        if self.users:
            _wait(self._waits())
            self.users.clear()

    @property
    def device(self) -> tuple[int, int]:
        if self.host:
            return _dlpack.CPU, 0
        if self._device is None:
            self._device = device_of_context(_gst.word_at(self.memory + _CONTEXT_OFFSET))
        return _dlpack.CUDA, self._device

    @property
    def stream(self) -> int:
        return 0 if self.host else pending_stream(self.memory)

    def add_user(self, stream: int | None) -> None:
        """Adds a consumer that works on `stream`, and makes that stream wait for the memory. None:
        any stream."""
        if stream == _LEGACY and not self.host and not self.stream:
            # This is the common case.
            user = _legacy_users.get(self.device[1])
            if user:
                self.users.add(user)
                return
        cuda = driver()
        primary = primary_context(self.device[1])
        context, known = primary, 0
        if stream is None or stream == -1 or stream == _PER_THREAD:
            pass
        elif stream == _LEGACY:
            known = _LEGACY
        elif stream <= 0:
            raise ValueError(f"no stream of CUDA has the number {stream}")
        else:
            # The consumer may have destroyed the stream by the time the array is released, so the
            # work of its whole context counts.
            out = c_void_p()
            cuda.check(cuda.stream_context(stream, byref(out)), "cuStreamGetCtx")
            context = out.value or primary
        _release.start()
        self.users.add((context, known))
        if known:
            _legacy_users[self.device[1]] = (context, known)
        if stream is None or stream == -1:
            return
        pending = self.stream
        if pending and pending != stream:
            own = _context_get_handle(_gst.word_at(self.memory + _CONTEXT_OFFSET))
            with Current(own):
                event = _take_event(own)
                try:
                    cuda.check(cuda.event_record(event, pending), "cuEventRecord")
                except CudaError:
                    _events[own].append(event)
                    raise
            with Current(context):
                result = cuda.stream_wait(stream, event, 0)
            # Recording the event again does not affect work that waits for it already.
            _events[own].append(event)
            cuda.check(result, "cuStreamWaitEvent")


# Holds this package's own streams, and the GstCudaContext objects of their primary contexts.
_own: dict[int, tuple[int, int]] = {}


def gst_primary_context(device: int) -> int:
    """Returns a GstCudaContext for the device's primary context, which is kept until the process
    ends."""
    known = _own.get(device)
    if known:
        return known[0]
    # This must come first, because the library's other calls abort without a driver.
    if not _load_library():
        raise CudaError("the CUDA library (libcuda) could not be loaded; is a driver installed?")
    cuda = driver()
    cuda.check(cuda.init(0), "cuInit")
    _memory_init_once()
    number = c_int()
    cuda.check(cuda.device_get(byref(number), device), f"CUDA device {device}")
    context = _context_new_wrapped(primary_context(device), number)
    if not context:
        raise CudaError(f"GStreamer cannot use the primary context of CUDA device {device}")
    stream = 0
    if _memory_get_stream is not None:
        stream = _stream_new(context) or 0
    return _own.setdefault(device, (context, stream))[0]


def own_stream(device: int) -> int:
    """Returns the handle of the stream on which memory given to pipelines becomes ready."""
    if _memory_get_stream is None:
        major, minor = _gst.runtime_version()
        raise RuntimeError(
            f"this GStreamer ({major}.{minor}) cannot use an array on the GPU as a buffer, which "
            "needs 1.24: write to a frame of a Pool, or give it an array in system memory"
        )
    gst_primary_context(device)
    stream = _own[device][1]
    if not stream:
        raise CudaError(f"no stream could be made on CUDA device {device}")
    return _stream_get_handle(stream)


def device_of_pointer(pointer: int) -> int:
    out = c_int()
    cuda = driver()
    cuda.check(
        cuda.pointer_attribute(byref(out), _DEVICE_ORDINAL, pointer), "cuPointerGetAttribute"
    )
    return out.value


def append_wrapped(
    buffer: int, taken: list[_dlpack.Taken], layout: _layout.Video | _layout.Tensor, writable: bool
) -> None:
    """Appends a memory that uses the arrays of all planes to the buffer."""
    base, stride = taken[0].pointer, taken[0].strides[0]
    info = _gst.VideoInfo()
    if isinstance(layout, _layout.Tensor):
        # CUDA memory can hold only video, so this is a row of RGB, which every version can copy to
        # the host.
        if layout.size >= 1 << 31:
            raise ValueError(f"a tensor of {layout.size} bytes is too large for CUDA memory")
        _gst.video_info_set_format(byref(info), _gst.VIDEO_FORMAT_RGB, (layout.size + 2) // 3, 1)
        info.stride[0] = info.size = layout.size
    else:
        ctypes.pointer(info)[0] = layout.info
        rows = 0
        for i, (t, plane) in enumerate(zip(taken, layout.planes)):
            start = t.pointer - base
            if t.strides[0] != stride or start % stride or start // stride < rows:
                raise ValueError(
                    "planes on a GPU must be in one piece of memory, in their order, with one "
                    f"stride, and start at whole rows: plane {i} starts at byte {start} and has a "
                    f"stride of {t.strides[0]} bytes, the first one {stride}"
                )
            rows = start // stride + plane.shape[0]
            info.offset[i] = start
            info.stride[i] = stride
        info.size = rows * stride
    device = taken[0].device[1]
    if device < 0:
        device = device_of_pointer(base)
    handle = own_stream(device)
    cuda = driver()
    primary = primary_context(device)
    for stream_of_array in {t.stream for t in taken}:
        with Current(primary):
            if stream_of_array is None:
                cuda.check(cuda.synchronize(), "cuCtxSynchronize")
            elif stream_of_array:
                event = _take_event(primary)
                try:
                    cuda.check(cuda.event_record(event, stream_of_array), "cuEventRecord")
                    cuda.check(cuda.stream_wait(handle, event, 0), "cuStreamWaitEvent")
                finally:
                    _events[primary].append(event)

    def wait() -> None:
        # Elements on the same stream release a buffer before their work is done.
        if cuda.push(primary) == _SUCCESS:
            cuda.stream_synchronize(handle)
            cuda.pop(None)

    token = _release.token(_release.Owner(taken, wait))
    context, stream = _own[device]
    memory = _alloc_wrapped(None, context, stream, byref(info), base, token, _release.notify)
    if not memory:
        _release.cancel(token)
        raise CudaError("GStreamer could not wrap the memory of an array")
    flags = _gst.MiniObject.from_address(memory)
    flags.flags |= _NEED_SYNC | (0 if writable else _gst.MEMORY_FLAG_READONLY)
    _gst.buffer_append_memory(buffer, memory)


def set_primary_context(element: int, device: int) -> None:
    message = _context_message(gst_primary_context(device))
    _gst.element_set_context(element, message)
    _gst.mini_object_unref(message)
