#!/usr/bin/env python3
"""Finds a ball in many streams with one call per batch, and draws its box on each stream's video.

    GST_PLUGIN_PATH=build/gst PYTHONPATH=python pipelines/batch_detect.py [FILE...]

Without files, eight test pictures are the streams. detect() finds bright pixels: put your network there. VIEW names
the elements that show a stream; %d in it is the stream's number. Needs python3-gi and PyTorch.
"""
import os
import sys

import gst_cuda_filters as gcf


def detect(tensor):
    """Returns the boxes in each row: left, top, right and bottom in pixels of the row."""
    places = [torch.nonzero(bright) for bright in (torch.from_dlpack(tensor) > 0.5).any(1)]
    return [[[*p.amin(0).flip(0), *p.amax(0).flip(0) + 1]] if len(p) else [] for p in places]


def main(files, detect):
    sources = [f'filesrc location="{f}" ! decodebin ! videoconvert' for f in files] or [
        f"videotestsrc num-buffers=30 pattern=ball ! video/x-raw,format=I420,width={160 + 40 * i},height=120"
        for i in range(8)]
    view = f"queue ! overlaycomposition ! videoconvert ! {os.environ.get('VIEW', 'autovideosink')}"
    # The sources stand first, so that decodebin starts after the elements that take its frames.
    line = [f"{source} ! batch.sink_{i}" for i, source in enumerate(sources)]
    line += ["cudaletterboxbatch name=batch max-wait=1000 ! other/tensors,format=static,num_tensors=1,types=float32,"
             f"dimensions=160:160:3:{len(sources)} ! cudaletterboxunbatch name=streams"]
    line += [f"streams.src_{i} ! {view.replace('%d', str(i))}" for i in range(len(sources))]
    try:
        gcf.play(" ".join(line), lambda batch: batch.attach(detect(batch.tensor), "ball"), draw=True)
    except RuntimeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    import torch  # batch_onnx.py has its own detector

    main(sys.argv[1:], detect)
