#!/usr/bin/env python3
"""Detects a ball in many streams with one call per batch, and pixelates it in each stream's video.

  pipelines/batch_detect.py [FILE...]

Without files, eight test pictures of different sizes are the streams. The detector is an array
expression, in PyTorch on the device of the tensor if PyTorch is there, and else in NumPy. Replace
`detect` by your network. The videos are shown; SINK=fakesink shows nothing.

    GST_PLUGIN_PATH=build/gst PYTHONPATH=python pipelines/batch_detect.py
"""
import os
import sys

import gi

import gst_cuda_filters as gcf

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

try:
    import torch as arrays

    as_array = arrays.from_dlpack
except ImportError:
    import numpy as arrays

    as_array = arrays.asarray


def detect(tensor):
    """Returns, for each row of N x 3 x H x W, the box of what is brighter than a half, and a score."""
    bright = tensor.amax(1) > 0.5 if hasattr(tensor, "amax") else tensor.max(1) > 0.5
    for row in bright:
        where = arrays.nonzero(row) if arrays.__name__ == "numpy" else arrays.nonzero(row).T
        y, x = where
        yield ([float(x.min()), float(y.min()), float(x.max()) + 1, float(y.max()) + 1]
               if len(x) else None)


def main(files):
    Gst.init(None)
    for file in files:
        if not os.path.exists(file):
            sys.exit(f"{file} was not found")
    count = len(files) or 8
    sources = [f'filesrc location="{f}" ! decodebin ! videoconvert' for f in files] or [
        f"videotestsrc num-buffers=30 pattern=ball ! video/x-raw,format=I420,width={160 + 40 * i},"
        "height=120"
        for i in range(count)]
    sink = os.environ.get("SINK", "autovideosink")
    line = (f"cudaletterboxbatch name=batch max-wait=1000 ! other/tensors,format=static,num_tensors=1,"
            f"types=float32,dimensions=160:160:3:{count} ! identity name=network signal-handoffs=true ! "
            "cudaletterboxunbatch name=streams ")
    line += " ".join(f"{s} ! batch.sink_{i} streams.src_{i} ! queue ! cudapixelate regions=roi "
                     f"! videoconvert ! {sink} name=view_{i}"
                     for i, s in enumerate(sources))
    pipeline = Gst.parse_launch(line)
    found = [0] * count

    def network(identity, buffer):
        batch = gcf.batch_of(buffer, identity.get_static_pad("src").get_current_caps())
        for row, box in zip(batch.rows, detect(as_array(batch.tensor))):
            if row.present and box:
                row.attach([box], ["ball"], [1.0])
                found[row.stream] += 1

    pipeline.get_by_name("network").connect("handoff", network)
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(
        Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    if message.type == Gst.MessageType.ERROR:
        sys.exit(message.parse_error()[0].message)
    print(f"{sum(found)} boxes in {count} streams")


if __name__ == "__main__":
    main(sys.argv[1:])
