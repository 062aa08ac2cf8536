#!/usr/bin/env python3
"""Regions from a detector of one's own, in Python: what it finds is pixelated, and nothing else.

    pipelines/regions.py [CLIP [OUT.png]]

A pad probe looks at each frame and adds a GstVideoRegionOfInterestMeta for what it finds; cudapixelate
filters these regions. The detector here finds what is brightest: a ball that flies through the picture
where no clip is named. With on-missing=all, a frame in which it finds nothing is filtered whole.

Needs python3-gi, with gir1.2-gst-plugins-base-1.0.
"""
import pathlib
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstVideo", "1.0")
from gi.repository import Gst, GstVideo  # noqa: E402

FRAMES = 50
BRIGHT = 200


def detect(luma, width, height, stride):
    """The box of all bright pixels: (x, y, width, height), or None."""
    rows = [
        (y, [x for x in range(width) if luma[y * stride + x] > BRIGHT]) for y in range(0, height, 2)
    ]
    rows = [(y, xs) for y, xs in rows if xs]
    if not rows:
        return None
    left, right = min(xs[0] for _, xs in rows), max(xs[-1] for _, xs in rows)
    return left, rows[0][0], right - left + 1, rows[-1][0] - rows[0][0] + 2


def on_frame(pad, info, boxes):
    # To add a meta, the buffer must be writable: a probe's is where nobody else holds it.
    buffer = info.get_buffer()
    video = GstVideo.VideoInfo.new_from_caps(pad.get_current_caps())
    ok, mapped = buffer.map(Gst.MapFlags.READ)
    if ok:
        box = detect(mapped.data, video.width, video.height, video.stride[0])
        buffer.unmap(mapped)
        if box:
            GstVideo.buffer_add_video_region_of_interest_meta(buffer, "ball", *box)
            boxes.append(box)
    return Gst.PadProbeReturn.OK


def main():
    if len(sys.argv) > 3:
        sys.exit(__doc__)
    Gst.init(None)
    clip = sys.argv[1] if len(sys.argv) > 1 else None
    source = f"uridecodebin uri={pathlib.Path(clip).resolve().as_uri()}" if clip else (
        f"videotestsrc pattern=ball num-buffers={FRAMES} ! video/x-raw,width=160,height=120"
    )
    out = f"pngenc snapshot=true ! filesink async=false location={sys.argv[2]}" if len(sys.argv) > 2 else (
        "fakesink sync=false"
    )
    pipeline = Gst.parse_launch(
        f"{source} ! videoconvert ! video/x-raw,format=I420 ! identity name=detector eos-after={FRAMES + 1} "
        "! cudapixelate regions=roi region-labels=ball region-expand=0.2 on-missing=all "
        f"! videoconvert ! {out}"
    )
    boxes = []
    detector = pipeline.get_by_name("detector")
    detector.get_static_pad("src").add_probe(Gst.PadProbeType.BUFFER, on_frame, boxes)
    pipeline.set_state(Gst.State.PLAYING)
    message = pipeline.get_bus().timed_pop_filtered(
        60 * Gst.SECOND, Gst.MessageType.ERROR | Gst.MessageType.EOS
    )
    pipeline.set_state(Gst.State.NULL)
    if not message or message.type == Gst.MessageType.ERROR:
        sys.exit(message.parse_error()[0].message if message else "the pipeline stands still")
    print(f"{len(boxes)} regions")


if __name__ == "__main__":
    main()
