"""Runs a thread that releases objects once others are done with them.

The others are the GPU, whose work this thread waits for, and GStreamer, which may free a memory
that wraps an array in any of its threads. Such a thread must not need the interpreter: it runs only
C functions, which put a word into a queue.
"""
from __future__ import annotations

import atexit
import itertools
import threading
from typing import Any, Callable

from . import _gst

_END = 1
_CLOSURE_SIZE = 64  # at least the size of a GClosure

_queue: int = _gst.queue_new()
# Holds the calls to make, by a number or by the address of a closure. Entries are added and taken
# in one step each. This needs no lock, so it can happen in the middle of anything.
_jobs: dict[int, Callable[[], None]] = {}
_numbers = itertools.count(3, 2)  # no address is odd
_thread: threading.Thread | None = None
_lock = threading.Lock()
_ended = False


class Owner:
    """Is a job that waits and then releases what it keeps."""

    __slots__ = ("_kept", "_wait")

    def __init__(self, kept: Any, wait: Callable[[], None] | None = None) -> None:
        self._kept = kept
        self._wait = wait

    def __call__(self) -> None:
        if self._wait:
            self._wait()
        self._kept = None


def start() -> None:
    """Starts the thread. Call this before the other functions, and not from a destructor."""
    global _thread
    if _thread is not None:
        return
    with _lock:
        if _thread is None and not _ended:
            thread = threading.Thread(target=_run, name="gst_cuda_filters", daemon=True)
            thread.start()
            _thread = thread


def put(job: Callable[[], None]) -> None:
    """Lets the thread call `job`, or calls it at once when the process ends. Destructors may use
    this."""
    if _ended or _thread is None:
        job()
        return
    number = next(_numbers)
    _jobs[number] = job
    _gst.queue_push(_queue, number)


def token(job: Callable[[], None]) -> int:
    """Returns user data for the GDestroyNotify `notify`, which lets the thread call `job`."""
    start()
    # It is kept until the thread has seen it, so that no other object gets its address.
    closure: int = _gst.closure_ref(_gst.closure_new(_CLOSURE_SIZE, None))
    _gst.closure_sink(closure)
    _gst.closure_add_invalidate_notifier(closure, _queue, _gst.queue_push_address)
    _jobs[closure] = job
    return closure


notify = _gst.closure_invalidate_address


def cancel(closure: int) -> None:
    """Forgets a token that nobody has."""
    if _jobs.pop(closure, None) is not None:
        _gst.closure_unref(closure)


def _run() -> None:
    while True:
        key = _gst.queue_pop(_queue)
        if key == _END:
            return
        job: Any = _jobs.pop(key)
        if not key & 1:
            _gst.closure_unref(key)
        job()
        # The object that the job kept is released now, not with the next job.
        del job


def _end() -> None:
    global _ended
    _ended = True
    if _thread is not None:
        _gst.queue_push(_queue, _END)
        # Work that never ends must not keep the process alive.
        _thread.join(5)


atexit.register(_end)
