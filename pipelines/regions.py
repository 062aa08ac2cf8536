#!/usr/bin/env python3
"""Pixelates what a detector in Python finds, and nothing else.

    pipelines/regions.py [CLIP [OUT.png]]

Each frame of an appsink goes on through an appsrc with a GstVideoRegionOfInterestMeta for each
detection. cudapixelate filters these regions. The detector here finds the brightest pixels, which
are a flying ball if no clip is named. With on-missing=all, a frame without a detection is filtered
whole.

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
    """Returns the box of all bright pixels as (x, y, width, height), or None."""
    rows = [
        (y, [x for x in range(width) if luma[y * stride + x] > BRIGHT]) for y in range(0, height, 2)
    ]
    rows = [(y, xs) for y, xs in rows if xs]
    if not rows:
        return None
    left, right = min(xs[0] for _, xs in rows), max(xs[-1] for _, xs in rows)
    return left, rows[0][0], right - left + 1, rows[-1][0] - rows[0][0] + 2


def with_regions(sample):
    """Returns the sample's buffer with a meta for the detection, and whether there is one."""
    buffer = sample.get_buffer()
    video = GstVideo.VideoInfo.new_from_caps(sample.get_caps())
    ok, mapped = buffer.map(Gst.MapFlags.READ)
    box = detect(mapped.data, video.width, video.height, video.stride[0]) if ok else None
    if ok:
        buffer.unmap(mapped)
    # Only a buffer that nobody else holds can get metas. The copy shares the frame's memory.
    flags = Gst.BufferCopyFlags
    buffer = buffer.copy_region(
        flags.FLAGS | flags.TIMESTAMPS | flags.META | flags.MEMORY, 0, buffer.get_size()
    )
    if box:
        GstVideo.buffer_add_video_region_of_interest_meta(buffer, "ball", *box)
    return buffer, bool(box)


def pull(pipeline, sink):
    """Returns the next sample of an appsink, or None at the end."""
    while not (sample := sink.emit("try-pull-sample", Gst.SECOND // 10)):
        if message := pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR):
            pipeline.set_state(Gst.State.NULL)
            sys.exit(message.parse_error()[0].message)
        if sink.props.eos:
            return None
    return sample


def main():
    if len(sys.argv) > 3:
        sys.exit(__doc__)
    Gst.init(None)
    clip = sys.argv[1] if len(sys.argv) > 1 else None
    source = f"uridecodebin uri={pathlib.Path(clip).resolve().as_uri()}" if clip else (
        f"videotestsrc pattern=ball num-buffers={FRAMES} ! video/x-raw,width=160,height=120"
    )
    out = f"pngenc snapshot=true ! filesink async=false location={sys.argv[2]}" if len(sys.argv) > 2 else (
        "fakesink sync=false async=false"
    )
    pipeline = Gst.parse_launch(
        f"{source} ! videoconvert ! video/x-raw,format=I420 ! appsink name=frames sync=false max-buffers=4 "
        "appsrc name=detected format=time max-buffers=4 block=true "
        "! cudapixelate regions=roi region-labels=ball region-expand=0.2 on-missing=all "
        f"! videoconvert ! {out}"
    )
    frames, detected = pipeline.get_by_name("frames"), pipeline.get_by_name("detected")
    pipeline.set_state(Gst.State.PLAYING)
    regions = 0
    for number in range(FRAMES):
        if not (sample := pull(pipeline, frames)):
            break
        if number == 0:
            detected.props.caps = sample.get_caps()
        buffer, found = with_regions(sample)
        regions += found
        detected.emit("push-buffer", buffer)
    detected.emit("end-of-stream")
    message = pipeline.get_bus().timed_pop_filtered(
        10 * Gst.SECOND, Gst.MessageType.ERROR | Gst.MessageType.EOS
    )
    pipeline.set_state(Gst.State.NULL)
    if message and message.type == Gst.MessageType.ERROR:
        sys.exit(message.parse_error()[0].message)
    print(f"{regions} regions")


if __name__ == "__main__":
    main()
