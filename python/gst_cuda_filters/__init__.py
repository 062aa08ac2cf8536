"""Gives the video frames and tensors of GStreamer pipelines as arrays, without a copy.

    import gst_cuda_filters as gcf

    sample = appsink.emit("pull-sample")
    batch = torch.from_dlpack(gcf.tensor(sample))      # on the GPU, if the pipeline is there
    luma = numpy.asarray(gcf.frame(sample).planes[0])  # or in system memory

Needs only GStreamer 1.22 or newer and Python 3.9 or newer. Samples and buffers are PyGObject's,
without its overrides for GStreamer, or addresses as ctypes.c_void_p.

A wheel also contains GStreamer's plugin: once the package is imported, GStreamer finds the elements
in this process. For other programs, see python -m gst_cuda_filters --help.
"""
from . import _plugin
from ._batch import Batch, Row, batch_of
from ._buffer import Pool, buffer_from, use_primary_context
from ._frame import Array, Frame, Letterbox, Tensor, frame, tensor
from ._pipeline import Box, boxes_of, draw_boxes, on_batch, play

__all__ = [
    "Array",
    "Batch",
    "Box",
    "Frame",
    "Letterbox",
    "Pool",
    "Row",
    "Tensor",
    "batch_of",
    "boxes_of",
    "buffer_from",
    "draw_boxes",
    "frame",
    "on_batch",
    "play",
    "tensor",
    "use_primary_context",
]

_plugin.use()
