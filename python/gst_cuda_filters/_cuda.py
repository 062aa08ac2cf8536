"""CUDA memory: whose it is, who may still be writing it, and when its consumers are done.

GStreamer allocates in a context of its own (cuCtxCreate); CuPy and PyTorch work in the device's
primary context. Pointers are the same in both, as all contexts of a process share one address space
(docs/python.md says what that needs). Streams and events belong to a context, so each call that
takes one is made in its context; a wait for an event may cross contexts.

A consumer enqueues work and lets go of the array before the work is done. The buffer then goes back
to its pool only when it is: at once where a query says so, else by a thread that waits for it.
"""
from __future__ import annotations

import atexit
import ctypes
import itertools
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from . import _dlpack, _gst
from ._frame import Mapping


class CudaMemory(ctypes.Structure):
    _fields_ = [("memory", _gst.Memory), ("context", c_void_p), ("info", _gst.VideoInfo)]


class _Value(ctypes.Structure):  # GValue
    _fields_ = [("type", c_size_t), ("data", c_size_t * 2)]


_TYPE_UINT = 7 << 2
_NEED_SYNC = 1 << 22
_LEGACY = 1  # the default stream
_PER_THREAD = 2
_SUCCESS = 0
_NOT_READY = 600
_PEER_ACCESS_ALREADY_ENABLED = 704
_EVENT_FLAGS = 1 | 2  # waits without spinning, has no time

_library = _gst.load("gstcuda-1.0")
_context_get_handle = _gst.declare(_library, "gst_cuda_context_get_handle", c_void_p, c_void_p)
_value_init = _gst.declare(_gst._gobject, "g_value_init", c_void_p, POINTER(_Value), c_size_t)
_value_get_uint = _gst.declare(_gst._gobject, "g_value_get_uint", c_uint, POINTER(_Value))
_get_property = _gst.declare(
    _gst._gobject, "g_object_get_property", None, c_void_p, c_char_p, POINTER(_Value)
)
try:
    # From 1.24 on. Before, elements wait for their work before they push.
    _memory_get_stream = _gst.declare(_library, "gst_cuda_memory_get_stream", c_void_p, c_void_p)
    _stream_get_handle = _gst.declare(_library, "gst_cuda_stream_get_handle", c_void_p, c_void_p)
except AttributeError:
    _memory_get_stream = None


class CudaError(RuntimeError):
    """A call of the CUDA driver failed."""


class _Driver:
    """The CUDA driver's functions that are needed here."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        out = POINTER(c_void_p)

        def take(name: str, *arguments: Any) -> Any:
            return _gst.declare(library, name, c_int, *arguments)

        self.error_name = take("cuGetErrorName", c_int, POINTER(c_char_p))
        self.device_get = take("cuDeviceGet", POINTER(c_int), c_int)
        self.primary_retain = take("cuDevicePrimaryCtxRetain", out, c_int)
        self.push = take("cuCtxPushCurrent_v2", c_void_p)
        self.pop = take("cuCtxPopCurrent_v2", out)
        self.synchronize = take("cuCtxSynchronize")
        self.stream_context = take("cuStreamGetCtx", c_void_p, out)
        self.stream_wait = take("cuStreamWaitEvent", c_void_p, c_void_p, c_uint)
        self.event_create = take("cuEventCreate", out, c_uint)
        self.event_destroy = take("cuEventDestroy_v2", c_void_p)
        self.event_query = take("cuEventQuery", c_void_p)
        self.event_record = take("cuEventRecord", c_void_p, c_void_p)
        self.event_synchronize = take("cuEventSynchronize", c_void_p)
        try:
            # All work of a context, from CUDA 12.5 on.
            self.context_record = take("cuCtxRecordEvent", c_void_p, c_void_p)
        except AttributeError:
            self.context_record = None

    def check(self, result: int, what: str) -> None:
        if result != _SUCCESS:
            name = c_char_p()
            self.error_name(result, byref(name))
            raise CudaError(f"{what}: {(name.value or b'error %d' % result).decode()}")


_driver: _Driver | None = None
_primary: dict[int, int] = {}  # contexts by device
_lock = threading.Lock()


def driver() -> _Driver:
    global _driver
    if _driver is None:
        _driver = _Driver()
    return _driver


def primary_context(device: int) -> int:
    """The handle of a device's primary context, which is kept to the end of the process."""
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
    """A context made current for a block."""

    __slots__ = ("handle",)

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __enter__(self) -> None:
        cuda = driver()
        cuda.check(cuda.push(self.handle), "cuCtxPushCurrent")

    def __exit__(self, *_: Any) -> None:
        driver().pop(None)


def video_info(memory: int) -> _gst.VideoInfo:
    """How the memory is laid out. It is the memory's own, and gone with it."""
    return CudaMemory.from_address(memory).info


def device_of_context(context: int) -> int:
    value = _Value()
    _value_init(byref(value), _TYPE_UINT)
    _get_property(context, b"cuda-device-id", byref(value))
    return _value_get_uint(byref(value))


def pending_stream(memory: int) -> int:
    """The stream whose work may still write the memory; 0 if none does."""
    if _memory_get_stream is None:
        return 0
    if not _gst.MiniObject.from_address(memory).flags & _NEED_SYNC:
        return 0
    stream = _memory_get_stream(memory)
    return _stream_get_handle(stream) or 0 if stream else 0


# Events that are used again, by context. A list's pop and append need no lock.
_events: dict[int, list[int]] = {}


def _take_event(context: int) -> int:
    """An event of the context, which is current."""
    free = _events.setdefault(context, [])
    try:
        return free.pop()
    except IndexError:
        event = c_void_p()
        cuda = driver()
        cuda.check(cuda.event_create(byref(event), _EVENT_FLAGS), "cuEventCreate")
        return event.value or 0


class _Waiter:
    """A thread that gives buffers back when the work of their consumers is done."""

    def __init__(self) -> None:
        self._queue = _gst.queue_new()
        self._jobs: dict[int, Any] = {}
        self._keys = itertools.count(2)
        self._thread: threading.Thread | None = None
        self._ended = False

    def start(self) -> None:
        with _lock:
            if self._thread is None and not self._ended:
                self._thread = threading.Thread(
                    target=self._run, name="gst_cuda_filters", daemon=True
                )
                self._thread.start()
                atexit.register(self.end)

    def put(self, waits: list[tuple[int, int]], buffer: int) -> None:
        """May be called in the middle of anything: it takes no lock of Python's."""
        if self._ended:
            self._work(waits, buffer)
            return
        key = next(self._keys)
        self._jobs[key] = waits, buffer
        _gst.queue_push(self._queue, key)

    def _run(self) -> None:
        while True:
            key = _gst.queue_pop(self._queue)
            if key == 1:
                return
            self._work(*self._jobs.pop(key))

    @staticmethod
    def _work(waits: list[tuple[int, int]], buffer: int) -> None:
        cuda = driver()
        for context, event in waits:
            if event:
                cuda.event_synchronize(event)
                _events[context].append(event)
            elif cuda.push(context) == _SUCCESS:
                cuda.synchronize()
                cuda.pop(None)
        _gst.mini_object_unref(buffer)

    def end(self) -> None:
        """At exit. What comes later is waited for where it comes."""
        self._ended = True
        if self._thread is not None:
            _gst.queue_push(self._queue, 1)
            # Work that never ends must not keep the process.
            self._thread.join(5)


_waiter = _Waiter()


def _ignore(_: int) -> None:
    pass


class CudaMapping(Mapping):
    """A mapped buffer of one CUDA memory."""

    __slots__ = ("memory", "users", "_device")

    memory: int
    # Where the work of consumers is: contexts, with a stream or 0 for all of it. Sets are added to
    # in one step.
    users: set[tuple[int, int]]

    def __init__(self, buffer: int, memory: int, readonly: bool = True) -> None:
        super().__init__(buffer, readonly)
        self.memory = memory
        self.users = set()
        self._device: int | None = None

    def __del__(self) -> None:
        waits = self._waits() if self.users else None
        if not waits:
            self.unmap()
            return
        # On the device, a mapping is no more than its address. What counts is the reference.
        self.unmap(unref=_ignore)
        _waiter.put(waits, self.buffer)

    def _waits(self) -> list[tuple[int, int]]:
        """What is left of the consumers' work: contexts, and an event or 0 for all that is there."""
        cuda = driver()
        waits = []
        for context, stream in self.users:
            if cuda.push(context) != _SUCCESS:
                continue  # the context is gone, and its work with it
            try:
                event = _take_event(context)
                if stream:
                    result = cuda.event_record(event, stream)
                elif cuda.context_record:
                    result = cuda.context_record(context, event)
                else:
                    result = -1
                if result == _SUCCESS and cuda.event_query(event) == _NOT_READY:
                    waits.append((context, event))
                    continue
                _events[context].append(event)
                if result != _SUCCESS:
                    waits.append((context, 0))
            except CudaError:
                waits.append((context, 0))
            finally:
                cuda.pop(None)
        return waits

    @property
    def device(self) -> tuple[int, int]:
        if self.host:
            return _dlpack.CPU, 0
        if self._device is None:
            self._device = device_of_context(CudaMemory.from_address(self.memory).context)
        return _dlpack.CUDA, self._device

    @property
    def stream(self) -> int:
        return 0 if self.host else pending_stream(self.memory)

    def add_user(self, stream: int | None) -> None:
        """A consumer that works on `stream`, which shall wait for the memory; None: on any."""
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
            # The consumer may have destroyed the stream when the array is gone, so it is the work
            # of its whole context that counts.
            out = c_void_p()
            cuda.check(cuda.stream_context(stream, byref(out)), "cuStreamGetCtx")
            context = out.value or primary
        _waiter.start()
        self.users.add((context, known))
        if stream is None or stream == -1:
            return
        pending = self.stream
        if pending and pending != stream:
            own = _context_get_handle(CudaMemory.from_address(self.memory).context)
            with Current(own):
                event = _take_event(own)
                try:
                    cuda.check(cuda.event_record(event, pending), "cuEventRecord")
                except CudaError:
                    _events[own].append(event)
                    raise
            with Current(context):
                result = cuda.stream_wait(stream, event, 0)
            # What was enqueued to wait for the event keeps it as it was.
            _events[own].append(event)
            cuda.check(result, "cuStreamWaitEvent")
