"""Runs pipelines for gst_cuda_filters.batch, in a process of its own.

    python -m gst_cuda_filters.batch.pipeline

reads one request per line from standard input, as JSON, runs its pipeline to the end and answers with
a line on standard output: {"frames": ...} or {"error": ...}. Before that come lines {"moved": FRAMES}
as long as anything moves in the pipeline, at most two per second: where they stop, it hangs. GStreamer
stays loaded, and CUDA ready, from one request to the next; a pipeline that crashes takes no more than
this process with it.

    {"pipeline": DESCRIPTION, "tensors": FOLDER or null, "shard": tensors in a file, "check": bool}

With "check", the pipeline is made, and not run.
"""
from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_uint64, c_void_p
from typing import Any

from .. import _gst, _watch
from .._gst import _core, _glib, declare, load
from .clip import TENSORS

STATE_NULL, STATE_PLAYING = 1, 4
STATE_CHANGE_FAILURE = 0
MESSAGE_EOS, MESSAGE_ERROR = 1 << 0, 1 << 1
PARSE_FATAL_ERRORS = 1
PAD_PROBE_BUFFER = 1 << 4
PAD_PROBE_OK = 1
MILLISECOND = 1_000_000
LOG_LEVEL_CRITICAL, LOG_LEVEL_WARNING = 1 << 3, 1 << 4
# Seconds between two checks whether anything moves.
LOOK = 0.5


class Error(ctypes.Structure):
    _fields_ = [("domain", c_uint), ("code", c_int), ("message", c_char_p)]


class Message(ctypes.Structure):
    _fields_ = [
        ("mini_object", _gst.MiniObject),
        ("type", c_int),
        ("timestamp", c_uint64),
        ("src", c_void_p),
    ]


_app = load("gstapp-1.0")
_parse_launch = declare(
    _core, "gst_parse_launch_full", c_void_p, c_char_p, c_void_p, c_int, POINTER(POINTER(Error))
)
_clear_error = declare(_glib, "g_clear_error", None, POINTER(POINTER(Error)))
_set_state = declare(_core, "gst_element_set_state", c_int, c_void_p, c_int)
_get_bus = declare(_core, "gst_element_get_bus", c_void_p, c_void_p)
_bus_pop = declare(_core, "gst_bus_timed_pop_filtered", c_void_p, c_void_p, c_uint64, c_int)
_parse_error = declare(
    _core, "gst_message_parse_error", None, c_void_p, POINTER(POINTER(Error)), POINTER(c_void_p)
)
_by_name = declare(_core, "gst_bin_get_by_name", c_void_p, c_void_p, c_char_p)
_bin_get_type = declare(_core, "gst_bin_get_type", ctypes.c_size_t)
_iterate_sinks = declare(_core, "gst_bin_iterate_sinks", c_void_p, c_void_p)
_factory_of = declare(_core, "gst_element_get_factory", c_void_p, c_void_p)
_plugin_of = declare(_core, "gst_plugin_feature_get_plugin_name", c_char_p, c_void_p)
_static_pad = declare(_core, "gst_element_get_static_pad", c_void_p, c_void_p, c_char_p)
_app_sink_get_type = declare(_app, "gst_app_sink_get_type", ctypes.c_size_t)
_pull_sample = declare(_app, "gst_app_sink_try_pull_sample", c_void_p, c_void_p, c_uint64)
_is_eos = declare(_app, "gst_app_sink_is_eos", c_int, c_void_p)
_set_from_string = declare(
    _core, "gst_util_set_object_arg", None, c_void_p, c_char_p, c_char_p
)

# The elements of these plugins use a CUDA context, or may.
_CUDA_PLUGINS = {b"cudafilters", b"nvcodec"}

_Log = ctypes.CFUNCTYPE(None, c_char_p, c_int, c_char_p, c_void_p)
_set_log_handler = declare(
    _glib, "g_log_set_handler", c_uint, c_char_p, c_int, _Log, c_void_p
)
_remove_log_handler = declare(_glib, "g_log_remove_handler", None, c_char_p, c_uint)


class Failure(Exception):
    """Says in one line why a pipeline did not come to its end."""


def _text_of(error: Any) -> str:
    text = error.contents.message.decode(errors="replace") if error else "unknown error"
    _clear_error(byref(error))
    return text


def _share_context(pipeline: int) -> bool:
    """Makes a pipeline use the context of the previous pipelines. Making a context takes longer
    than a short clip."""
    try:
        from .. import _cuda

        _cuda.set_primary_context(pipeline, 0)
    except (OSError, AttributeError, RuntimeError):
        return False  # no GPU, or no CUDA in this GStreamer
    return True


def _parse(description: str) -> int:
    """Returns the element that a description makes. Values out of range, for which GLib only warns,
    are errors."""
    error = POINTER(Error)()
    refused: list[str] = []

    @_Log
    def warn(_domain: bytes, _level: int, text: bytes, _data: int) -> None:
        words = text.decode(errors="replace")
        if "out of range" in words:
            refused.append(words)
        else:
            print(words, file=sys.stderr)

    handler = _set_log_handler(b"GLib-GObject", LOG_LEVEL_WARNING | LOG_LEVEL_CRITICAL, warn, None)
    try:
        made = _parse_launch(description.encode(), None, PARSE_FATAL_ERRORS, byref(error))
    finally:
        _remove_log_handler(b"GLib-GObject", handler)
    if not made:
        raise Failure(_text_of(error))
    if refused:
        _gst.object_unref(made)
        raise Failure(refused[0])
    return made


class Pipeline:
    """Runs a pipeline from a description; close() takes it down. Calls `moved` while anything moves
    in it."""

    def __init__(self, description: str, moved: Callable[[int], None] = lambda frames: None) -> None:
        self._bin = _parse(description)
        if not _gst.type_is_a(self._bin, _bin_get_type()):
            _gst.object_unref(self._bin)
            raise Failure("the description is of one element: must be of a pipeline")
        self._bus = _get_bus(self._bin)
        self._watch = _watch.Watch(self._bin)
        self._moved = moved
        self._next_look = 0.0
        elements = _watch.each(_watch.iterate_recurse(self._bin))
        plugins = {_plugin_of(factory) for factory in map(_factory_of, elements) if factory}
        self.shares_context = bool(plugins & _CUDA_PLUGINS) and _share_context(self._bin)
        self.frames = 0
        self._probe = _watch.Probe(self._count)
        self._count_frames()

    def _count(self, _pad: int, _info: int, _data: int) -> int:
        self.frames += 1
        return PAD_PROBE_OK

    def _count_frames(self) -> None:
        """Counts the buffers that enter the first of this project's filters; without a filter, the sinks."""

        def is_filter(element: int) -> bool:
            factory = _factory_of(element)
            return bool(factory) and _plugin_of(factory) == b"cudafilters"

        # Bins list the newest element first, so the first filter of the pipeline comes last.
        filters = list(filter(is_filter, _watch.each(_watch.iterate_recurse(self._bin))))
        for element in filters[-1:] or _watch.each(_iterate_sinks(self._bin)):
            if pad := _static_pad(element, b"sink"):
                _watch.add_probe(pad, PAD_PROBE_BUFFER, ctypes.cast(self._probe, c_void_p), None, None)
                _gst.object_unref(pad)

    def _look(self) -> None:
        """Calls `moved` if anything has moved; raises Failure if nothing will ever move again."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK
        if self._watch.moved():
            self._moved(self.frames)
        elif stopped := self._watch.stopped():
            raise Failure(
                f"{stopped} stopped without an error or an end: the clip is damaged, or it has no "
                "stream that the pipeline takes"
            )

    def _next_message(self, nanoseconds: int) -> bool:
        """Returns whether the pipeline has ended; raises Failure for its error."""
        message = _bus_pop(self._bus, nanoseconds, MESSAGE_EOS | MESSAGE_ERROR)
        if not message:
            self._look()
            return False
        try:
            read = Message.from_address(message)
            if read.type == MESSAGE_EOS:
                return True
            error, debug = POINTER(Error)(), c_void_p()
            _parse_error(message, byref(error), byref(debug))
            _gst.free(debug)
            raise Failure(f"{_watch.name_of(read.src)}: {_text_of(error)}")
        finally:
            _gst.mini_object_unref(message)

    def _tensor_sink(self) -> int:
        """Returns the appsink that receives the tensors, with a reference for the caller."""
        sink = _by_name(self._bin, TENSORS.encode())
        if sink and _gst.type_is_a(sink, _app_sink_get_type()):
            return sink
        if sink:
            _gst.object_unref(sink)
        raise Failure(f"the pipeline has no appsink of the name {TENSORS}")

    def check(self, tensors: bool) -> None:
        if tensors:
            _gst.object_unref(self._tensor_sink())

    def run(self, folder: str | None, shard: int) -> None:
        sink = self._tensor_sink() if folder else None
        try:
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

        from .._frame import tensor

        os.makedirs(folder, exist_ok=True)
        batch: list[Any] = []
        written = 0

        def write() -> None:
            nonlocal written
            sizes = {array.shape for array in batch}
            if len(sizes) > 1:
                raise Failure(f"{TENSORS}: tensors of one file have different sizes, as {sorted(sizes)[:2]}")
            numpy.save(os.path.join(folder, f"{written:05d}.npy"), numpy.stack(batch))
            written += 1
            batch.clear()
            self._moved(self.frames)

        while True:
            sample = _pull_sample(sink, 100 * MILLISECOND)
            if sample:
                try:
                    array = tensor(c_void_p(sample), host=True)
                    # A tensor of one image has a first dimension of 1. A shard's first dimension counts images.
                    taken = numpy.array(array, copy=True)
                    batch.append(taken[0] if taken.ndim == 4 and taken.shape[0] == 1 else taken)
                    del array
                except (ValueError, BufferError) as error:
                    raise Failure(f"{TENSORS}: {error}") from None
                finally:
                    _gst.mini_object_unref(sample)
                if len(batch) == shard:
                    write()
                self._look()
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


def run(request: dict[str, Any], moved: Callable[[int], None]) -> dict[str, Any]:
    shared = False
    try:
        pipeline = Pipeline(request["pipeline"], moved)
        try:
            if request.get("check"):
                pipeline.check(bool(request["tensors"]))
                return {"frames": 0}
            shared = pipeline.shares_context
            pipeline.run(request["tensors"], request["shard"])
            return {"frames": pipeline.frames}
        finally:
            pipeline.close()
    except (Failure, OSError) as failure:
        # The failure may have damaged the GPU's context, so no other clip gets it.
        return {"error": str(failure), "last": shared}


def main() -> None:
    # Ctrl-C in a terminal reaches this process, too. Whoever asked decides when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Libraries may print on standard output, so answers go to a copy that only this module writes to.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            requests.put(line)
        # The process that asked has ended, maybe killed, and nobody wants the result.
        os._exit(0)

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")

    threading.Thread(target=read, daemon=True).start()
    while True:
        say(run(json.loads(requests.get()), lambda frames: say({"moved": frames})))


if __name__ == "__main__":
    main()
