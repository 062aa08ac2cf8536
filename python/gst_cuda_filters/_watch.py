"""Tells whether anything moves in a pipeline, and whether anything still can.

decodebin drops the error of an element that it is still adding, for example a demuxer of a damaged
file. Such a pipeline neither ends nor fails: its threads have ended, but no message says so.
"""
from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_uint64, c_ulong, c_void_p
from typing import Any

from . import _gst
from ._gst import _core, _glib, _gobject, declare

ITERATOR_OK, ITERATOR_RESYNC = 1, 2
TASK_STARTED, TASK_PAUSED = 0, 2
PAD_SRC = 1
PROBE_BUFFERS = 1 << 4 | 1 << 5  # single buffers and lists, pushed and pulled
PROBE_REMOVE = 2
# Seconds without a running thread after which a bin counts as stopped. While decodebin adds the
# next element, no thread runs for an instant.
SETTLED = 2.0


class Value(ctypes.Structure):
    _fields_ = [("type", ctypes.c_size_t), ("data", c_uint64 * 2)]


Probe = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)

add_probe = declare(_core, "gst_pad_add_probe", c_ulong, c_void_p, c_int, c_void_p, c_void_p, c_void_p)
iterate_recurse = declare(_core, "gst_bin_iterate_recurse", c_void_p, c_void_p)
_iterate_pads = declare(_core, "gst_element_iterate_pads", c_void_p, c_void_p)
_next = declare(_core, "gst_iterator_next", c_int, c_void_p, POINTER(Value))
_resync = declare(_core, "gst_iterator_resync", None, c_void_p)
_iterator_free = declare(_core, "gst_iterator_free", None, c_void_p)
_value_object = declare(_gobject, "g_value_get_object", c_void_p, POINTER(Value))
_value_unset = declare(_gobject, "g_value_unset", None, POINTER(Value))
_direction_of = declare(_core, "gst_pad_get_direction", c_int, c_void_p)
_task_state = declare(_core, "gst_pad_get_task_state", c_int, c_void_p)
_name_of = declare(_core, "gst_object_get_name", c_void_p, c_void_p)
_quark = declare(_glib, "g_quark_from_static_string", c_uint, c_char_p)
_set_qdata = declare(_gobject, "g_object_set_qdata", None, c_void_p, c_uint, c_void_p)
_get_qdata = declare(_gobject, "g_object_get_qdata", c_void_p, c_void_p, c_uint)

_MARK = b"gst-cuda-filters-watched"


def each(iterator: int) -> Iterator[int]:
    """Yields the objects of a GstIterator and frees it. Some come twice if the bin changes
    meanwhile."""
    value = Value()
    try:
        while (result := _next(iterator, byref(value))) in (ITERATOR_OK, ITERATOR_RESYNC):
            if result == ITERATOR_RESYNC:
                _resync(iterator)
                continue
            try:
                yield _value_object(byref(value))
            finally:
                _value_unset(byref(value))
    finally:
        _iterator_free(iterator)


def name_of(thing: int) -> str:
    text = _name_of(thing)
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        _gst.free(text)


class Watch:
    """Watches a bin, given as its address or PyGObject's object. Ask it about once per second."""

    def __init__(self, watched: Any) -> None:
        self._bin = watched if isinstance(watched, int) else _gst.element_of(watched)
        self._mark = _quark(_MARK)
        self._callback = Probe(self._passed)
        self._moved = False
        self._stopped_since: float | None = None

    def _passed(self, pad: int, _info: int, _data: int) -> int:
        self._moved = True
        _set_qdata(pad, self._mark, None)
        return PROBE_REMOVE

    def moved(self) -> bool:
        """Returns whether a buffer came through any pad since the previous call.

        Each pad gets a probe that removes itself with the first buffer, so that later buffers cost
        nothing.
        """
        moved, self._moved = self._moved, False
        for element in each(iterate_recurse(self._bin)):
            for pad in each(_iterate_pads(element)):
                if _direction_of(pad) == PAD_SRC and not _get_qdata(pad, self._mark):
                    _set_qdata(pad, self._mark, 1)
                    add_probe(pad, PROBE_BUFFERS, ctypes.cast(self._callback, c_void_p), None, None)
        return moved

    def stopped(self) -> str:
        """Returns the newest element whose thread has ended if no thread runs any more, and
        otherwise an empty text."""
        ended: list[str] = []
        for element in each(iterate_recurse(self._bin)):
            for pad in each(_iterate_pads(element)):
                state = _task_state(pad)
                if state == TASK_STARTED:
                    self._stopped_since = None
                    return ""
                if state == TASK_PAUSED:
                    ended.append(name_of(element))
        now = time.monotonic()
        if not ended:
            self._stopped_since = None
        elif self._stopped_since is None:
            self._stopped_since = now
        elif now - self._stopped_since >= SETTLED:
            return ended[0]  # bins list the newest first
        return ""
