"""Runs pipelines for gst_cuda_filters.batch, in a process of its own.

    python -m gst_cuda_filters._pipeline

reads a request a line from standard input, as JSON, runs its pipeline to the end and answers with
a line on standard output: {"frames": ...} or {"error": ...}. GStreamer stays loaded, and CUDA ready,
from one request to the next; a pipeline that crashes takes no more than this process with it.

    {"pipeline": DESCRIPTION, "tensors": FOLDER or null, "shard": tensors in a file}
"""
from __future__ import annotations

import ctypes
import json
import os
import queue
import sys
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_uint64, c_ulong, c_void_p
from typing import Any

from . import _gst
from ._clip import TENSORS
from ._gst import _core, _gobject, declare, load

STATE_NULL, STATE_PLAYING = 1, 4
STATE_CHANGE_FAILURE = 0
MESSAGE_EOS, MESSAGE_ERROR = 1 << 0, 1 << 1
PARSE_FATAL_ERRORS = 1
PAD_PROBE_BUFFER = 1 << 4
PAD_PROBE_OK = 1
MILLISECOND = 1_000_000
ITERATOR_OK = 1


class Error(ctypes.Structure):
    _fields_ = [("domain", c_uint), ("code", c_int), ("message", c_char_p)]


class Message(ctypes.Structure):
    _fields_ = [
        ("mini_object", _gst.MiniObject),
        ("type", c_int),
        ("timestamp", c_uint64),
        ("src", c_void_p),
    ]


class Value(ctypes.Structure):
    _fields_ = [("type", ctypes.c_size_t), ("data", c_uint64 * 2)]


_app = load("gstapp-1.0")
_parse_launch = declare(
    _core, "gst_parse_launch_full", c_void_p, c_char_p, c_void_p, c_int, POINTER(POINTER(Error))
)
_clear_error = declare(_gst._glib, "g_clear_error", None, POINTER(POINTER(Error)))
_set_state = declare(_core, "gst_element_set_state", c_int, c_void_p, c_int)
_get_bus = declare(_core, "gst_element_get_bus", c_void_p, c_void_p)
_bus_pop = declare(_core, "gst_bus_timed_pop_filtered", c_void_p, c_void_p, c_uint64, c_int)
_parse_error = declare(
    _core, "gst_message_parse_error", None, c_void_p, POINTER(POINTER(Error)), POINTER(c_void_p)
)
_path_of = declare(_core, "gst_object_get_path_string", c_void_p, c_void_p)
_by_name = declare(_core, "gst_bin_get_by_name", c_void_p, c_void_p, c_char_p)
_bin_get_type = declare(_core, "gst_bin_get_type", ctypes.c_size_t)
_iterate = declare(_core, "gst_bin_iterate_recurse", c_void_p, c_void_p)
_iterate_sinks = declare(_core, "gst_bin_iterate_sinks", c_void_p, c_void_p)
_next = declare(_core, "gst_iterator_next", c_int, c_void_p, POINTER(Value))
_iterator_free = declare(_core, "gst_iterator_free", None, c_void_p)
_value_object = declare(_gobject, "g_value_get_object", c_void_p, POINTER(Value))
_value_unset = declare(_gobject, "g_value_unset", None, POINTER(Value))
_factory_of = declare(_core, "gst_element_get_factory", c_void_p, c_void_p)
_plugin_of = declare(_core, "gst_plugin_feature_get_plugin_name", c_char_p, c_void_p)
_static_pad = declare(_core, "gst_element_get_static_pad", c_void_p, c_void_p, c_char_p)
_add_probe = declare(
    _core, "gst_pad_add_probe", c_ulong, c_void_p, c_int, c_void_p, c_void_p, c_void_p
)
_app_sink_get_type = declare(_app, "gst_app_sink_get_type", ctypes.c_size_t)
_pull_sample = declare(_app, "gst_app_sink_try_pull_sample", c_void_p, c_void_p, c_uint64)
_is_eos = declare(_app, "gst_app_sink_is_eos", c_int, c_void_p)
_set_from_string = declare(
    _core, "gst_util_set_object_arg", None, c_void_p, c_char_p, c_char_p
)

# Elements of these want a context, or may.
_CUDA_PLUGINS = {b"cudafilters", b"nvcodec"}

_Probe = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)


class Failure(Exception):
    """A pipeline that did not come to its end; says why in one line."""


def _text_of(error: Any) -> str:
    text = error.contents.message.decode(errors="replace") if error else "unknown error"
    _clear_error(byref(error))
    return text


def _share_context(pipeline: int) -> bool:
    """Has a pipeline use the context of the pipelines before it: a new one takes longer than a short clip."""
    try:
        from . import _cuda

        _cuda.set_primary_context(pipeline, 0)
    except (OSError, AttributeError, RuntimeError):
        return False  # no GPU, or no CUDA in this GStreamer
    return True


class Pipeline:
    """A pipeline from a description; close() takes it down."""

    def __init__(self, description: str) -> None:
        error = POINTER(Error)()
        self._bin = _parse_launch(description.encode(), None, PARSE_FATAL_ERRORS, byref(error))
        if not self._bin:
            raise Failure(_text_of(error))
        if not _gst.type_is_a(self._bin, _bin_get_type()):
            _gst.object_unref(self._bin)
            raise Failure("the description is of one element: must be of a pipeline")
        self._bus = _get_bus(self._bin)
        plugins = {_plugin_of(factory) for factory in map(_factory_of, self._each(_iterate)) if factory}
        self.shares_context = bool(plugins & _CUDA_PLUGINS) and _share_context(self._bin)
        self.frames = 0
        self._probe = _Probe(self._count)
        self._count_frames()

    def _each(self, iterate: Any) -> list[int]:
        elements, value, iterator = [], Value(), iterate(self._bin)
        while _next(iterator, byref(value)) == ITERATOR_OK:
            elements.append(_value_object(byref(value)))
            _value_unset(byref(value))
        _iterator_free(iterator)
        return elements

    def _count(self, _pad: int, _info: int, _data: int) -> int:
        self.frames += 1
        return PAD_PROBE_OK

    def _count_frames(self) -> None:
        """What enters the first of this project's filters counts; without one, what sinks take."""

        def is_filter(element: int) -> bool:
            factory = _factory_of(element)
            return bool(factory) and _plugin_of(factory) == b"cudafilters"

        # The newest element, and so the one furthest behind, is first.
        filters = [element for element in self._each(_iterate) if is_filter(element)]
        for element in filters[-1:] or self._each(_iterate_sinks):
            if pad := _static_pad(element, b"sink"):
                _add_probe(pad, PAD_PROBE_BUFFER, ctypes.cast(self._probe, c_void_p), None, None)
                _gst.object_unref(pad)

    def _next_message(self, nanoseconds: int) -> bool:
        """Whether the pipeline's end has come; raises Failure for its error."""
        message = _bus_pop(self._bus, nanoseconds, MESSAGE_EOS | MESSAGE_ERROR)
        if not message:
            return False
        try:
            read = Message.from_address(message)
            if read.type == MESSAGE_EOS:
                return True
            error, debug = POINTER(Error)(), c_void_p()
            _parse_error(message, byref(error), byref(debug))
            _gst.free(debug)
            path = _path_of(read.src)
            name = ctypes.string_at(path).decode().rpartition("/")[2]
            _gst.free(path)
            raise Failure(f"{name}: {_text_of(error)}")
        finally:
            _gst.mini_object_unref(message)

    def run(self, folder: str | None, shard: int) -> None:
        sink = _by_name(self._bin, TENSORS.encode()) if folder else None
        try:
            if folder and not (sink and _gst.type_is_a(sink, _app_sink_get_type())):
                raise Failure(f"the pipeline has no appsink of the name {TENSORS}")
            if sink:
                _set_from_string(sink, b"sync", b"false")
                _set_from_string(sink, b"max-buffers", b"8")
            if _set_state(self._bin, STATE_PLAYING) == STATE_CHANGE_FAILURE:
                self._next_message(0)
                raise Failure("the pipeline cannot start")
            if sink and folder is not None:
                self._write_tensors(sink, folder, shard)
            while not self._next_message(100 * MILLISECOND):
                pass
            if not self.frames:
                raise Failure("no frame came through the pipeline")
        finally:
            if sink:
                _gst.object_unref(sink)

    def _write_tensors(self, sink: int, folder: str, shard: int) -> None:
        import numpy

        from ._frame import tensor

        os.makedirs(folder, exist_ok=True)
        batch: list[Any] = []
        written = 0

        def write() -> None:
            nonlocal written
            numpy.save(os.path.join(folder, f"{written:05d}.npy"), numpy.stack(batch))
            written += 1
            batch.clear()

        while True:
            sample = _pull_sample(sink, 100 * MILLISECOND)
            if sample:
                try:
                    array = tensor(c_void_p(sample), host=True)
                    # A tensor of one image has a dimension for it; a shard's first one counts them.
                    taken = numpy.array(array, copy=True)
                    batch.append(taken[0] if taken.ndim == 4 and taken.shape[0] == 1 else taken)
                    del array
                except (ValueError, BufferError) as error:
                    raise Failure(f"{TENSORS}: {error}") from None
                finally:
                    _gst.mini_object_unref(sample)
                if len(batch) == shard:
                    write()
            elif _is_eos(sink):
                break
            else:
                self._next_message(0)
        if batch:
            write()

    def close(self) -> None:
        _set_state(self._bin, STATE_NULL)
        _gst.object_unref(self._bus)
        _gst.object_unref(self._bin)


def run(request: dict[str, Any]) -> dict[str, Any]:
    shared = False
    try:
        pipeline = Pipeline(request["pipeline"])
        try:
            shared = pipeline.shares_context
            pipeline.run(request["tensors"], request["shard"])
            return {"frames": pipeline.frames}
        finally:
            pipeline.close()
    except (Failure, OSError) as failure:
        # What has failed on a GPU may be its context, which no other clip shall get.
        return {"error": str(failure), "last": shared}


def main() -> None:
    # Libraries print what they like on standard output; answers go where only this module writes.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            requests.put(line)
        # Whoever asks is gone, maybe killed: nobody wants the result.
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        answer = run(json.loads(requests.get()))
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
