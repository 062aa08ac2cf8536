#!/usr/bin/env python3
"""Runs a PyTorch detector on the tensors of cudaletterbox, without a copy, and maps boxes to the
frame.

    GST_PLUGIN_PATH=build/gst PYTHONPATH=python pipelines/python_torch.py [CLIP]

With a GPU, tensors stay on it, and the network runs there; without one, the same lines work in
system memory. The network is a few lines that find bright pixels, so that there is nothing to
download: replace detect() by a real one. Without a clip, a flying ball is detected, and its boxes
are checked.

Needs python3-gi and PyTorch.
"""
import pathlib
import sys

import torch

import gst_cuda_filters as gcf

SIZE = 320
FRAMES = 50
TENSOR = f"format=static,num_tensors=1,types=float32,dimensions=(string){SIZE}:{SIZE}:3:1"


def detect(images):
    """Returns boxes left, top, right, bottom in pixels of `images`, which are (1, 3, rows,
    columns)."""
    y, x = torch.nonzero(images[0].amax(0) > 0.5, as_tuple=True)
    if not len(x):
        return images.new_zeros((0, 4))
    return torch.stack((x.min(), y.min(), x.max() + 1, y.max() + 1)).float()[None]


def boxes_on_frame(sample):
    """Returns boxes in pixels of the frame that cudaletterbox received."""
    tensor = gcf.tensor(sample)
    boxes = detect(torch.from_dlpack(tensor))
    return tensor.letterbox.to_source(boxes, clip=True)


def pull(pipeline, sink):
    """Returns the next sample of an appsink, or None at the end."""
    from gi.repository import Gst

    while not (sample := sink.emit("try-pull-sample", Gst.SECOND // 10)):
        if message := pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR):
            pipeline.set_state(Gst.State.NULL)
            sys.exit(message.parse_error()[0].message)
        if sink.props.eos:
            return None
    return sample


def main():
    import gi

    gi.require_version("Gst", "1.0")
    from gi.repository import Gst

    if len(sys.argv) > 2:
        sys.exit(__doc__)
    Gst.init(None)
    source = f"videotestsrc pattern=ball num-buffers={FRAMES} ! video/x-raw,width=640,height=360"
    if len(sys.argv) > 1:
        source = f"uridecodebin uri={pathlib.Path(sys.argv[1]).resolve().as_uri()}"
    upload = "cudaupload !" if torch.cuda.is_available() and Gst.ElementFactory.find("cudaupload") else ""
    pipeline = Gst.parse_launch(
        f"{source} ! videoconvert ! video/x-raw,format=I420 ! tee name=t "
        "t. ! queue ! appsink name=frames sync=false max-buffers=4 "
        f"t. ! queue ! {upload} cudaletterbox "
        f"! other/tensors(memory:CUDAMemory),{TENSOR};other/tensors,{TENSOR} "
        "! appsink name=tensors sync=false max-buffers=4"
    )
    if upload:
        # GStreamer and PyTorch share one context.
        gcf.use_primary_context(pipeline)
    frames, tensors = pipeline.get_by_name("frames"), pipeline.get_by_name("tensors")
    pipeline.set_state(Gst.State.PLAYING)
    count = found = 0
    while count < FRAMES:
        frame, sample = pull(pipeline, frames), pull(pipeline, tensors)
        if not frame or not sample:
            break
        boxes = boxes_on_frame(sample).tolist()
        if len(sys.argv) == 1:
            check(gcf.frame(frame), boxes)
        count += 1
        found += len(boxes)
    pipeline.set_state(Gst.State.NULL)
    if not count:
        sys.exit("there were no frames")
    where = gcf.tensor(sample).device if sample else "cpu"
    print(f"{found} boxes in {count} frames, tensors on {where}")


def check(frame, boxes):
    """Checks that the ball is in one box, at most two pixels of the network larger on each side."""
    luma = torch.from_dlpack(frame.planes[0])
    y, x = torch.nonzero(luma > 125, as_tuple=True)
    ball = x.min().item(), y.min().item(), x.max().item() + 1, y.max().item() + 1
    slack = 2 * max(frame.width, frame.height) / SIZE
    if len(boxes) != 1 or any(abs(a - b) > slack for a, b in zip(boxes[0], ball)):
        sys.exit(f"the ball is at {ball}, but the boxes are {boxes}")


if __name__ == "__main__":
    main()
