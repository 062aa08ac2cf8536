#!/usr/bin/env python3
"""Filters with NumPy in the middle of a pipeline. No frame is copied on the way.

    PYTHONPATH=python pipelines/python_numpy.py [CLIP [OUT.png]]

The filter subtracts the previous frame from each frame, so that moving parts are bright. Frames
come from an appsink as arrays and go on through an appsrc as arrays. Without a clip, a ball flies
through the picture, and the output is checked. OUT.png shows the last frame of the output.

Needs python3-gi and python3-numpy.
"""
import pathlib
import sys

import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

import gst_cuda_filters as gcf  # noqa: E402

FRAMES = 50


def motion(now, before):
    """Returns rows and columns of luma."""
    return np.abs(now.astype(np.int16) - before).astype(np.uint8)


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
        f"videotestsrc pattern=ball num-buffers={FRAMES} ! video/x-raw,width=322,height=180"
    )
    out = f"pngenc snapshot=true ! filesink async=false location={sys.argv[2]}" if len(sys.argv) > 2 else (
        "appsink name=result sync=false async=false"
    )
    pipeline = Gst.parse_launch(
        f"{source} ! videoconvert ! video/x-raw,format=GRAY8 "
        "! appsink name=frames sync=false max-buffers=4 "
        f"appsrc name=filtered format=time max-buffers=4 block=true ! videoconvert ! {out}"
    )
    frames, filtered = pipeline.get_by_name("frames"), pipeline.get_by_name("filtered")
    result = pipeline.get_by_name("result")
    pipeline.set_state(Gst.State.PLAYING)

    count = 0
    before = None
    while count < FRAMES and (sample := pull(pipeline, frames)):
        # the pipeline's own memory, which is only read
        luma = np.asarray(gcf.frame(sample).planes[0])
        moved = motion(luma, luma if before is None else before)
        if count == 0:
            filtered.props.caps = sample.get_caps()
        filtered.emit("push-buffer", gcf.buffer_from(moved, sample.get_caps(), like=sample))
        if result:
            check(pull(pipeline, result), sample, moved)
        before = luma
        count += 1
    filtered.emit("end-of-stream")
    # The last frames are still on their way.
    pipeline.get_bus().timed_pop_filtered(
        Gst.SECOND, Gst.MessageType.ERROR | Gst.MessageType.EOS
    )
    pipeline.set_state(Gst.State.NULL)
    if not count:
        sys.exit("there were no frames")
    print(f"{count} frames")


def check(came, sample, moved):
    """Checks that the pushed frames come out, with the time of the frame that each was made from.
    """
    if not came:
        sys.exit("a frame did not come out")
    frame = gcf.frame(came)
    if frame.pts != gcf.frame(sample).pts or not np.array_equal(frame.planes[0], moved):
        sys.exit("another frame came out than was pushed")


if __name__ == "__main__":
    main()
