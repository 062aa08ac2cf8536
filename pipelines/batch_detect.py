#!/usr/bin/env python3
"""Finds a ball in many streams with one call per batch, and draws its box on each stream's video.

    GST_PLUGIN_PATH=build/gst PYTHONPATH=python pipelines/batch_detect.py [FILE...]

Without files, eight test pictures of different sizes are the streams. The network is a few lines of
PyTorch that find bright pixels: replace detect() by yours. The videos are shown. VIEW names other
elements for that; %d in it is the number of the stream.

Needs python3-gi and PyTorch.
"""
import os
import sys

import gi

import gst_cuda_filters as gcf

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo  # noqa: E402


def detect(tensor):
    """Returns a box in pixels for each row of N x 3 x H x W, and whether something was found."""
    import torch

    bright = (torch.from_dlpack(tensor) > 0.5).any(1)
    columns, rows = bright.any(1).int(), bright.any(2).int()
    boxes = [f(seen) for f in (lambda s: s.argmax(1), lambda s: s.cumsum(1).argmax(1) + 1) for seen in (columns, rows)]
    return torch.stack(boxes, 1), bright.any(2).any(1)


def draw(overlay, sample, edge):
    """Makes an overlay of the box that is on the frame."""
    composition = GstVideo.VideoOverlayComposition.new(None)
    if box := GstVideo.buffer_get_video_region_of_interest_meta_id(sample.get_buffer(), 0):
        for x, y, w, h in ((0, 0, box.w, 2), (0, box.h - 2, box.w, 2), (0, 0, 2, box.h), (box.w - 2, 0, 2, box.h)):
            composition.add_rectangle(GstVideo.VideoOverlayRectangle.new_raw(
                edge, box.x + x, box.y + y, w, h, GstVideo.VideoOverlayFormatFlags.NONE))
    return composition


def main(files, detect):
    Gst.init(None)
    if missing := [f for f in files if not os.path.exists(f)]:
        sys.exit(f"{missing[0]} was not found")
    sources = [f'filesrc location="{f}" ! decodebin ! videoconvert' for f in files] or [
        f"videotestsrc num-buffers=30 pattern=ball ! video/x-raw,format=I420,width={160 + 40 * i},height=120"
        for i in range(8)]
    view = os.environ.get("VIEW", "autovideosink")
    # The sources stand first, so that decodebin starts after the elements that take its frames.
    line = " ".join(f"{s} ! batch.sink_{i}" for i, s in enumerate(sources))
    line += (" cudaletterboxbatch name=batch max-wait=1000 ! other/tensors,format=static,num_tensors=1,types=float32,"
             f"dimensions=160:160:3:{len(sources)} ! identity name=network signal-handoffs=true ! "
             "cudaletterboxunbatch name=streams ")
    line += " ".join(f"streams.src_{i} ! queue ! overlaycomposition name=draw{i} ! videoconvert ! "
                     + view.replace("%d", str(i)) for i in range(len(sources)))
    pipeline = Gst.parse_launch(line)
    found = []

    def network(identity, buffer):
        batch = gcf.batch_of(buffer, identity.get_static_pad("src").get_current_caps())
        for row, box, seen in zip(batch.rows, *detect(batch.tensor)):
            if row.present and seen:
                row.attach([box], ["ball"])
                found.append(row.stream)

    pipeline.get_by_name("network").connect("handoff", network)
    edge = Gst.Buffer.new_wrapped(bytes([0, 255, 0, 255]))  # one pixel, B, G, R and A
    GstVideo.buffer_add_video_meta(edge, 0, GstVideo.VideoFormat.BGRA, 1, 1)
    for i in range(len(sources)):
        pipeline.get_by_name(f"draw{i}").connect("draw", draw, edge)
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS | Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    if message.type == Gst.MessageType.ERROR:
        sys.exit(message.parse_error()[0].message)
    print(f"{len(found)} boxes in {len(set(found))} streams")


if __name__ == "__main__":
    main(sys.argv[1:], detect)
