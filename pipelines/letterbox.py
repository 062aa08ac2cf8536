#!/usr/bin/env python3
"""Decodes a clip, letterboxes it to a tensor with cudaletterbox, and checks the result.

    GST_PLUGIN_PATH=build/gst pipelines/letterbox.py CLIP [IMAGE.png]

Each tensor is compared, number by number, with the result of Ultralytics' LetterBox on the same
frame with cv2. The last one is written as an image, with a box that was drawn in the source's
pixels and moved by the buffer's meta. Needs python3-gi, python3-numpy, python3-opencv.
"""
import pathlib
import sys

import cv2
import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

SIZE = 640
FRAMES = 50


def letterbox(image, size):
    """Does what LetterBox.__call__ of Ultralytics does with its defaults for a fixed size."""
    height, width = image.shape[:2]
    r = min(size / height, size / width)
    new = round(width * r), round(height * r)
    dw, dh = (size - new[0]) / 2, (size - new[1]) / 2
    if (width, height) != new:
        image = cv2.resize(image, new, interpolation=cv2.INTER_LINEAR)
    top, bottom = round(dh - 0.1), round(dh + 0.1)
    left, right = round(dw - 0.1), round(dw + 0.1)
    return cv2.copyMakeBorder(image, top, bottom, left, right, cv2.BORDER_CONSTANT, value=(114,) * 3)


def pull(sink):
    """Returns the next buffer of an appsink and its caps, or None at the end."""
    sample = sink.emit("pull-sample")
    return (sample.get_buffer(), sample.get_caps().get_structure(0)) if sample else None


def numbers(buffer, dtype):
    ok, info = buffer.map(Gst.MapFlags.READ)
    if not ok:
        raise RuntimeError("a buffer could not be mapped")
    try:
        return np.frombuffer(info.data, dtype).copy()
    finally:
        buffer.unmap(info)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    Gst.init(None)
    clip = pathlib.Path(sys.argv[1]).resolve().as_uri()
    pipeline = Gst.parse_launch(
        f"uridecodebin uri={clip} ! videoconvert ! video/x-raw,format=RGB ! tee name=frames "
        "frames. ! queue ! appsink name=source sync=false max-buffers=4 "
        "frames. ! queue ! cudaletterbox ! other/tensors,format=static,num_tensors=1,types=float32,"
        f"dimensions=(string){SIZE}:{SIZE}:3:1 ! appsink name=tensor sync=false max-buffers=4"
    )
    source, tensor = pipeline.get_by_name("source"), pipeline.get_by_name("tensor")
    pipeline.set_state(Gst.State.PLAYING)

    compared = 0
    worst = 0.0
    drawn = None
    while compared < FRAMES:
        frame, network = pull(source), pull(tensor)
        if not frame or not network:
            break
        width, height = frame[1].get_value("width"), frame[1].get_value("height")
        stride = (3 * width + 3) // 4 * 4
        rows = numbers(frame[0], np.uint8)[: stride * height].reshape(height, stride)
        image = rows[:, : 3 * width].reshape(height, width, 3)
        got = numbers(network[0], np.float32).reshape(3, SIZE, SIZE)

        want = letterbox(image, SIZE).transpose(2, 0, 1).astype(np.float32) / np.float32(255)
        worst = max(worst, float(np.abs(got - want).max()))
        compared += 1

        meta = network[0].get_custom_meta("GstCudaLetterboxMeta").get_structure().get_value
        sx, sy = meta("content-width") / meta("source-width"), meta("content-height") / meta("source-height")
        x0, x1 = (round(meta("left") + x * sx) for x in (width // 4, 3 * width // 4))
        y0, y1 = (round(meta("top") + y * sy) for y in (height // 4, 3 * height // 4))
        drawn = np.ascontiguousarray((got.transpose(1, 2, 0)[:, :, ::-1] * 255).round().astype(np.uint8))
        cv2.rectangle(drawn, (x0, y0), (x1, y1), (0, 255, 255), 2)

    message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    if message:
        sys.exit(message.parse_error()[0].message)
    if not compared:
        sys.exit("the clip has no frames")
    print(f"{compared} tensors of {SIZE}x{SIZE}; largest difference from cv2's LetterBox: {worst * 255:.3g} of 255")
    if len(sys.argv) == 3:
        cv2.imwrite(sys.argv[2], drawn)
        print(f"made {sys.argv[2]}")
    if worst * 255 > 1.0001:
        sys.exit("that is more than 1")


if __name__ == "__main__":
    main()
