#!/usr/bin/env python3
"""Filters with a CUDA kernel written in Python, in the middle of a pipeline. Frames stay on the
GPU.

    PYTHONPATH=python pipelines/python_cupy.py [CLIP]

CuPy compiles the kernel. The kernel reads a frame where the pipeline has it and writes to a frame
of a pool, which goes on to the next element. Nothing is copied, and only the end of the kernel is
waited for. Without a clip, the output is checked.

Needs python3-gi, python3-numpy, CuPy and a GPU.
"""
import pathlib
import sys

import cupy
import numpy as np

import gst_cuda_filters as gcf

FRAMES = 50

# Tones above the middle are inverted, as on overexposed film.
solarize = cupy.ElementwiseKernel("uint8 x", "uint8 y", "y = x > 127 ? 255 - x : x", "solarize")


def filter_frame(sample, pool):
    """Filters a frame into a new buffer."""
    frame, out = gcf.frame(sample), pool.frame()
    for x, y in zip(frame.planes, out.planes):
        solarize(cupy.from_dlpack(x), cupy.from_dlpack(y))
    return out.to_buffer(like=sample)


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
    source = f"videotestsrc num-buffers={FRAMES} ! video/x-raw,width=640,height=360"
    if len(sys.argv) > 1:
        source = f"uridecodebin uri={pathlib.Path(sys.argv[1]).resolve().as_uri()}"
    pipeline = Gst.parse_launch(
        f"{source} ! videoconvert ! video/x-raw,format=RGBA ! cudaupload "
        "! video/x-raw(memory:CUDAMemory) ! appsink name=frames sync=false max-buffers=4 "
        "appsrc name=filtered format=time max-buffers=4 block=true "
        "! cudadownload ! video/x-raw ! appsink name=result sync=false async=false"
    )
    gcf.use_primary_context(pipeline)
    frames, filtered = pipeline.get_by_name("frames"), pipeline.get_by_name("filtered")
    result = pipeline.get_by_name("result")
    pipeline.set_state(Gst.State.PLAYING)
    count = 0
    pool = None
    while count < FRAMES and (sample := pull(pipeline, frames)):
        if pool is None:
            filtered.props.caps = sample.get_caps()
            pool = gcf.Pool(sample.get_caps(), like=sample, most=8)
        filtered.emit("push-buffer", filter_frame(sample, pool))
        came = pull(pipeline, result)
        if not came:
            break
        check(gcf.frame(sample, host=True), gcf.frame(came, host=True))
        count += 1
    filtered.emit("end-of-stream")
    pipeline.set_state(Gst.State.NULL)
    if not count:
        sys.exit("there were no frames")
    print(f"{count} frames")


def check(before, after):
    """Computes the same in NumPy."""
    for x, y in zip(before.planes, after.planes):
        x = np.asarray(x)
        if not np.array_equal(np.where(x > 127, 255 - x, x), y):
            sys.exit("what came out is not what the kernel should have made")


if __name__ == "__main__":
    main()
