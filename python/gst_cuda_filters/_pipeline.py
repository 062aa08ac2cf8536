"""Plays pipelines with a network in Python, and draws what it finds."""
from __future__ import annotations

import contextlib
import ctypes
import traceback
from typing import Any, Callable, NamedTuple

from . import _batch, _frame, _gst


class Box(NamedTuple):
    """Describes what a detector found in a frame."""

    left: int  #: in pixels of the frame, as the others
    top: int
    right: int
    bottom: int
    label: str
    score: float | None  #: confidence of the detector, or None


def _gi() -> tuple[Any, Any]:
    """Returns PyGObject's Gst and GstVideo."""
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstVideo", "1.0")
    from gi.repository import Gst, GstVideo

    Gst.init(None)
    return Gst, GstVideo


def boxes_of(sample: Any) -> list[Box]:
    """Returns the boxes that are on a frame, such as Row.attach() adds: the regions of interest.

    `sample` is a Gst.Sample, Gst.Buffer or a result of frame() or tensor(), or the address of one of
    the first two as ctypes.c_void_p.
    """
    buffer, state = _frame.buffer_of(sample), ctypes.c_void_p()
    boxes = []
    while meta := _gst.buffer_iterate_meta(buffer, ctypes.byref(state), _gst.ROI_META_TYPE):
        roi, score = _gst.RoiMeta.from_address(meta), None
        if detection := _gst.roi_get_param(meta, b"detection"):
            with contextlib.suppress(KeyError):
                score = _gst.structure_get_double(detection, b"confidence")
        label = (_gst.quark_to_string(roi.type) or b"").decode(errors="replace")
        boxes.append(Box(roi.x, roi.y, roi.x + roi.w, roi.y + roi.h, label, score))
    return boxes


def draw_boxes(overlay: Any, color: int = 0xFF00FF00, width: int = 2) -> None:
    """Draws the boxes of each frame that passes an element overlaycomposition.

    `color` is 0xAARRGGBB, and `width` is that of the lines in pixels. Needs PyGObject with GstVideo.
    """
    Gst, GstVideo = _gi()
    pixel = Gst.Buffer.new_wrapped(color.to_bytes(4, "little"))
    GstVideo.buffer_add_video_meta(pixel, 0, GstVideo.VideoFormat.BGRA, 1, 1)

    def draw(_: Any, sample: Any) -> Any:
        composition = GstVideo.VideoOverlayComposition.new(None)
        for box in boxes_of(sample):
            w, h = box.right - box.left, box.bottom - box.top
            for x, y, line_w, line_h in ((0, 0, w, width), (0, h - width, w, width),
                                         (0, 0, width, h), (w - width, 0, width, h)):
                composition.add_rectangle(GstVideo.VideoOverlayRectangle.new_raw(
                    pixel, box.left + x, box.top + y, line_w, line_h,
                    GstVideo.VideoOverlayFormatFlags.NONE))
        return composition

    overlay.connect("draw", draw)


def on_batch(element: Any, function: Callable[[_batch.Batch], Any]) -> None:
    """Calls a function with each batch that leaves an element, such as cudaletterboxbatch.

    The function may attach boxes to the rows. It runs in the streaming thread, and the next batch
    waits for it. If it raises an exception, that is printed, the batch is dropped, and the element
    posts an error message. Import PyTorch before the pipeline plays: if the function is the
    first to import it, PyTorch keeps the state of a thread that Python forgets after the call, and
    may crash.

    Needs PyGObject.
    """
    Gst, _ = _gi()

    def passes(pad: Any, info: Any) -> Any:
        try:
            function(_batch.batch_of(info.get_buffer(), pad.get_current_caps()))
            return Gst.PadProbeReturn.OK
        except Exception as error:
            traceback.print_exc()
            element.message_full(
                Gst.MessageType.ERROR, Gst.library_error_quark(), Gst.LibraryError.FAILED,
                f"{type(error).__name__}: {error}", None, __file__, "on_batch", 0)
            return Gst.PadProbeReturn.DROP

    element.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, passes)


def play(pipeline: Any, network: Callable[[_batch.Batch], Any] | None = None, *,
         draw: bool = False) -> None:
    """Plays a pipeline to its end, or until Ctrl-C.

    `pipeline` is a Gst.Pipeline, or a line as for gst-launch-1.0. `network` is called as on_batch()
    says, with the batches of each cudaletterboxbatch in the pipeline. With `draw`, each
    overlaycomposition in the pipeline draws the boxes of its frames. Needs PyGObject.

    Raises GLib.Error for a line that cannot be parsed, and RuntimeError with the text of the first
    error message.
    """
    Gst, _ = _gi()
    if isinstance(pipeline, str):
        pipeline = Gst.parse_launch(pipeline)
    elements = pipeline.iterate_all_by_element_factory_name
    if network:
        elements("cudaletterboxbatch").foreach(lambda batcher: on_batch(batcher, network))
    if draw:
        elements("overlaycomposition").foreach(draw_boxes)
    bus, message = pipeline.get_bus(), None
    try:
        pipeline.set_state(Gst.State.PLAYING)
        while not message:  # Python sees Ctrl-C between the calls only
            message = bus.timed_pop_filtered(
                Gst.SECOND // 10, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    finally:
        pipeline.set_state(Gst.State.NULL)
    if message.type == Gst.MessageType.ERROR:
        error, details = message.parse_error()
        raise RuntimeError(f"{message.src.get_path_string()}: {error.message} ({details})")
