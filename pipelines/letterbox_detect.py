#!/usr/bin/env python3
"""Runs a detector from camera to boxes: cudaletterbox, a network, and boxes in the source's pixels.

    GST_PLUGIN_PATH=build/gst pipelines/letterbox_detect.py [--element] [CLIP [IMAGE.png]]
    pipelines/letterbox_detect.py --model FILE.onnx

The network finds bright pixels. It is one convolution, whose file this script writes itself, so
that there is nothing to download. Replace it by a real network and decode its boxes where this
one's are decoded. Without a clip, a flying ball is detected, and the boxes are checked.

The network runs in OpenCV's dnn module on the tensors of cudaletterbox. With --element it runs in
GStreamer's own onnxinference (1.26), which takes RGB frames and attaches its results as a
GstTensorMeta. The image shows the last frame of the source with its boxes.

Needs python3-gi, python3-numpy, python3-opencv; --element also gir1.2-gst-plugins-bad-1.0.
"""
import pathlib
import sys
import tempfile

import cv2
import gi
import numpy as np

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

SIZE = 320  # input size of the network
CELL = 8  # input pixels per output value in each direction
FRAMES = 50
NAME = "brightness"  # name of the network's output


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """Returns a field of a protocol buffer: a number, bytes or a text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def write_model(path):
    """Writes the network as ONNX: sigmoid(convolution(image)), 1 x 3 x SIZE x SIZE to cells."""
    steepness, threshold = 40.0, 0.5
    luma = np.array([0.299, 0.587, 0.114], np.float32)
    weights = np.empty((1, 3, CELL, CELL), np.float32)
    weights[:] = luma[None, :, None, None] * np.float32(steepness / CELL**2)
    bias = np.array([-steepness * threshold], np.float32)

    def tensor(name, array):
        dims = b"".join(field(1, n) for n in array.shape)
        return dims + field(2, 1) + field(8, name) + field(9, array.tobytes())

    def ints(name, *values):
        return field(1, name) + b"".join(field(8, v) for v in values) + field(20, 7)

    def value(name, *shape):
        dims = b"".join(field(1, field(1, n)) for n in shape)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))

    convolution = (
        field(1, "image") + field(1, "weights") + field(1, "bias") + field(2, "sum") + field(4, "Conv")
        + field(5, ints("kernel_shape", CELL, CELL)) + field(5, ints("strides", CELL, CELL))
    )
    sigmoid = field(1, "sum") + field(2, NAME) + field(4, "Sigmoid")
    cells = SIZE // CELL
    graph = (
        field(1, convolution) + field(1, sigmoid) + field(2, "bright")
        + field(5, tensor("weights", weights)) + field(5, tensor("bias", bias))
        + field(11, value("image", 1, 3, SIZE, SIZE)) + field(12, value(NAME, 1, 1, cells, cells))
    )
    # onnxinference needs the outputs' names.
    names = field(1, NAME) + field(2, NAME)
    pathlib.Path(path).write_bytes(
        field(1, 8) + field(7, graph) + field(8, field(2, 11)) + field(14, names)
    )


def boxes_of(cells):
    """Returns boxes left, top, right, bottom in pixels of the network's input."""
    _, _, stats, _ = cv2.connectedComponentsWithStats((cells > 0.5).astype(np.uint8))
    for x, y, w, h, _ in stats[1:]:
        yield x * CELL, y * CELL, (x + w) * CELL, (y + h) * CELL


def to_source(buffer, box):
    """Returns the same box in the pixels that cudaletterbox received."""
    get = buffer.get_custom_meta("GstCudaLetterboxMeta").get_structure().get_value
    fx = get("source-width") / get("content-width")
    fy = get("source-height") / get("content-height")
    left, top, right, bottom = box
    return (
        (left - get("left")) * fx, (top - get("top")) * fy,
        (right - get("left")) * fx, (bottom - get("top")) * fy,
    )


def numbers(buffer, dtype):
    ok, info = buffer.map(Gst.MapFlags.READ)
    if not ok:
        raise RuntimeError("a buffer could not be mapped")
    try:
        return np.frombuffer(info.data, dtype).copy()
    finally:
        buffer.unmap(info)


def image_of(sample):
    caps = sample.get_caps().get_structure(0)
    width, height = caps.get_value("width"), caps.get_value("height")
    stride = (3 * width + 3) // 4 * 4
    rows = numbers(sample.get_buffer(), np.uint8)[: stride * height].reshape(height, stride)
    return np.ascontiguousarray(rows[:, : 3 * width]).reshape(height, width, 3)


class OpenCV:
    """Runs the network on the tensors that come out of the pipeline."""

    def __init__(self, model):
        self.net = cv2.dnn.readNetFromONNX(str(model))
        self.line = f"other/tensors,format=static,num_tensors=1,types=float32,dimensions=(string){SIZE}:{SIZE}:3:1"

    def run(self, buffer):
        self.net.setInput(numbers(buffer, np.float32).reshape(1, 3, SIZE, SIZE))
        return self.net.forward()[0, 0]


class OnnxInference:
    """Runs the network in the pipeline."""

    def __init__(self, model):
        gi.require_version("GstAnalytics", "1.0")
        from gi.repository import GstAnalytics

        self.tensor_meta = GstAnalytics.buffer_get_tensor_meta
        self.line = (
            f"video/x-raw,format=RGB,width={SIZE},height={SIZE},pixel-aspect-ratio=1/1 "
            f'! onnxinference model-file="{model}" '
        )
        if Gst.ElementFactory.make("onnxinference", None).find_property("input-image-format"):
            self.line += "input-image-format=chw input-tensor-scale=255"
        else:  # from 1.28 on, a file next to the model describes its inputs and outputs
            cells = SIZE // CELL
            model.with_name(model.name + ".modelinfo").write_text(
                "[modelinfo]\nversion=1.0\ngroup-id=bright\n\n"
                f"[image]\ndir=input\ntype=float32\ndims=1,3,{SIZE},{SIZE}\nranges=0.0,1.0;0.0,1.0;0.0,1.0\n\n"
                f"[{NAME}]\ndir=output\ntype=float32\ndims=1,1,{cells},{cells}\nid={NAME}\n")

    def run(self, buffer):
        meta = self.tensor_meta(buffer)
        if not meta:
            raise RuntimeError("onnxinference left no tensors")
        return numbers(meta.get(0).data, np.float32).reshape(SIZE // CELL, SIZE // CELL)


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0] == "--model":
        write_model(arguments[1])
        return
    network = OpenCV
    if arguments[:1] == ["--element"]:
        network = OnnxInference
        del arguments[0]
    if len(arguments) > 2 or any(a.startswith("-") for a in arguments):
        sys.exit(__doc__)
    Gst.init(None)
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "bright.onnx"
        write_model(model)
        detect(network(model), *arguments)


def detect(network, clip=None, image_file=None):
    source = "videotestsrc pattern=ball num-buffers=%d ! video/x-raw,width=640,height=360" % FRAMES
    if clip:
        source = f"uridecodebin uri={pathlib.Path(clip).resolve().as_uri()}"
    pipeline = Gst.parse_launch(
        f"{source} ! videoconvert ! video/x-raw,format=RGB ! tee name=frames "
        "frames. ! queue ! appsink name=source sync=false max-buffers=4 "
        f"frames. ! queue ! cudaletterbox ! {network.line} ! appsink name=results sync=false max-buffers=4"
    )
    sinks = [pipeline.get_by_name(name) for name in ("source", "results")]
    pipeline.set_state(Gst.State.PLAYING)
    frames = found = 0
    image = None
    while frames < FRAMES:
        samples = [sink.emit("pull-sample") for sink in sinks]
        if None in samples:
            break
        image = image_of(samples[0])
        result = samples[1].get_buffer()
        boxes = [to_source(result, box) for box in boxes_of(network.run(result))]
        frames += 1
        found += len(boxes)
        if not clip:
            check(image, boxes)
        for left, top, right, bottom in boxes:
            cv2.rectangle(image, (round(left), round(top)), (round(right), round(bottom)), (255, 64, 0), 2)
    message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
    pipeline.set_state(Gst.State.NULL)
    if message:
        sys.exit(message.parse_error()[0].message)
    if not frames:
        sys.exit("there were no frames")
    print(f"{found} boxes in {frames} frames")
    if image_file:
        cv2.imwrite(image_file, image[:, :, ::-1])
        print(f"made {image_file}")


def check(image, boxes):
    """Checks that the ball is in one box, which is at most a cell larger on each side."""
    y, x = np.nonzero(image.max(axis=2) > 127)
    ball = x.min(), y.min(), x.max() + 1, y.max() + 1
    slack = CELL * max(image.shape[:2]) / SIZE
    if len(boxes) != 1 or any(abs(a - b) > slack for a, b in zip(boxes[0], ball)):
        sys.exit(f"the ball is at {ball}, but the boxes are {boxes}")


if __name__ == "__main__":
    main()
