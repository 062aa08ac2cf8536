#!/usr/bin/env python3
"""Tests cudaletterboxrestore behind GStreamer's onnxinference and decoder (1.28). The detector's
answer is known: it finds the box around bright pixels."""
import os
import struct
import tempfile

from harness import case, equal, load_gst, run, skip_all

Gst = load_gst()
try:
    import gi
    import numpy as np

    gi.require_version("GstAnalytics", "1.0")
    from gi.repository import GstAnalytics
except (ImportError, ValueError) as error:
    skip_all(str(error))
for element in ("onnxinference", "yolov8tensordec", "tensordecodebin"):
    if not Gst.ElementFactory.find(element):
        skip_all(f"no {element}: GStreamer 1.28 has it")
if not Gst.ElementFactory.find("cudaletterboxrestore"):
    raise AssertionError("the element cudaletterboxrestore is not there")

SIZE = 320
FLOAT, INT64 = 1, 7


def number(n):
    """Returns a number as a varint."""
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(tag, value):
    """Returns a field of a protocol buffer."""
    if isinstance(value, int):
        return number(tag << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(tag << 3 | 2) + number(len(value)) + value


def node(kind, inputs, output, **attributes):
    """Returns an ONNX node. Attributes are integers or lists of them."""
    out = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind)
    for name, value in attributes.items():
        if isinstance(value, int):
            out += field(5, field(1, name) + field(3, value) + field(20, 2))
        else:
            out += field(5, field(1, name) + b"".join(field(8, v) for v in value) + field(20, 7))
    return field(1, out)


def constant(name, kind, dims, values):
    data = struct.pack(f"<{len(values)}{'f' if kind == FLOAT else 'q'}", *values)
    return field(5, b"".join(field(1, n) for n in dims) + field(2, kind) + field(8, name) + field(9, data))


def described(tag, name, dims):
    shape = b"".join(field(1, field(1, n)) for n in dims)
    return field(tag, field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, shape))))


def write_detector(path):
    """Writes a network with YOLOv8's output for one candidate of one class: centre, size,
    confidence.

    The first and the last row and column with bright pixels are found as maxima of their numbers,
    counted from both ends.
    """
    along = {"x": (3, 2), "y": (2, 3)}  # the dimension, and the other one
    graph = node("ReduceMax", ["image"], "most", axes=[1], keepdims=1)
    graph += node("Greater", ["most", "half"], "bright") + node("Cast", ["bright"], "seen", to=FLOAT)
    for a, (own, other) in along.items():
        dims = [1, 1, 1, SIZE] if a == "x" else [1, 1, SIZE, 1]
        graph += constant(f"up_{a}", FLOAT, dims, range(1, SIZE + 1))
        graph += constant(f"down_{a}", FLOAT, dims, range(SIZE, 0, -1))
        graph += node("ReduceMax", ["seen"], f"line_{a}", axes=[other], keepdims=1)
        for way in ("up", "down"):
            graph += node("Mul", [f"line_{a}", f"{way}_{a}"], f"{way}s_{a}")
            graph += node("ReduceMax", [f"{way}s_{a}"], f"{way}_most_{a}", axes=[own], keepdims=1)
        # The maximum of the upward numbers is the last one's end. The maximum of the downward
        # numbers tells where the first begins.
        graph += node("Sub", ["size", f"down_most_{a}"], f"first_{a}")
        graph += node("Sub", [f"up_most_{a}", f"first_{a}"], f"size_{a}")
        graph += node("Add", [f"up_most_{a}", f"first_{a}"], f"sum_{a}")
        graph += node("Mul", [f"sum_{a}", "half"], f"centre_{a}")
    graph += node("ReduceMax", ["seen"], "confidence", axes=[1, 2, 3], keepdims=1)
    graph += node("Concat", ["centre_x", "centre_y", "size_x", "size_y", "confidence"], "all", axis=1)
    graph += node("Reshape", ["all", "shape"], "boxes")
    graph += field(2, "bright")
    graph += constant("half", FLOAT, [1], [0.5]) + constant("size", FLOAT, [1], [SIZE])
    graph += constant("shape", INT64, [3], [1, 5, 1])
    graph += described(11, "image", [1, 3, SIZE, SIZE]) + described(12, "boxes", [1, 5, 1])
    with open(path, "wb") as model:
        model.write(field(1, 8) + field(7, graph) + field(8, field(2, 11)))
    with open(path + ".modelinfo", "w") as info:
        info.write(
            "[modelinfo]\nversion=1.0\ngroup-id=yolo-v8-out\n"
            f"[image]\nid=image\ntype=float32\ndims=1,3,{SIZE},{SIZE}\ndir=input\nranges=0.0,1.0\n"
            "[boxes]\nid=yolo-v8-out\ntype=float32\ndims=1,5,1\ndims-order=col-major\ndir=output\n"
        )


folder = tempfile.TemporaryDirectory()
MODEL = os.path.join(folder.name, "bright.onnx")
write_detector(MODEL)


def luma(sample):
    caps = sample.get_caps().get_structure(0)
    width, height = caps.get_value("width"), caps.get_value("height")
    ok, info = sample.get_buffer().map(Gst.MapFlags.READ)
    assert ok
    stride = (width + 3) // 4 * 4
    rows = np.frombuffer(info.data, np.uint8)[: stride * height].reshape(height, stride).copy()
    sample.get_buffer().unmap(info)
    return rows[:, :width].astype(int)


def bounds(mask):
    y, x = np.nonzero(mask)
    return np.array([x.min(), y.min(), x.max() + 1, y.max() + 1], float)


def boxes_of(buffer):
    meta = GstAnalytics.buffer_get_analytics_relation_meta(buffer)
    boxes = []
    for i in range(GstAnalytics.relation_get_length(meta) if meta else 0):
        ok, mtd = meta.get_od_mtd(i)
        if ok:
            _, x, y, w, h, confidence = mtd.get_location()
            assert confidence > 0.9
            boxes.append(np.array([x, y, x + w, y + h], float))
    return boxes


def pull(pipeline, name):
    sample = pipeline.get_by_name(name).emit("try-pull-sample", 60 * Gst.SECOND)
    if not sample:
        message = pipeline.get_bus().pop_filtered(Gst.MessageType.ERROR)
        raise AssertionError(message.parse_error() if message else f"nothing came out of {name}")
    return sample


# Each row has the size, the pixel aspect ratio, the letterbox's settings and the decoder.
@case(
    ("640x360", 640, 360, 1, "", "yolov8tensordec"),
    ("640x360, decoder found", 640, 360, 1, "", "tensordecodebin"),
    ("201x357", 201, 357, 1, "", "yolov8tensordec"),
    ("201x357 top-left", 201, 357, 1, "align=top-left", "yolov8tensordec"),
    ("640x360 affine", 640, 360, 1, "rule=affine", "yolov8tensordec"),
    ("160x240 pixels of 2:1", 160, 240, 2, "", "yolov8tensordec"),
    ("128x96 not enlarged", 128, 96, 1, "scale-up=false", "yolov8tensordec"),
)
def boxes_on_the_original(row):
    _, width, height, par, settings, decoder = row
    frames = 20
    pipeline = Gst.parse_launch(
        f"videotestsrc pattern=ball num-buffers={frames} ! "
        f"video/x-raw,format=I420,width={width},height={height},pixel-aspect-ratio={par}/1 ! tee name=t "
        "t. ! queue ! appsink name=plain sync=false max-buffers=2 "
        f"t. ! queue ! cudaletterbox backend=cpu keep-original=true {settings} ! "
        f"video/x-raw,format=RGB,width={SIZE},height={SIZE},pixel-aspect-ratio=1/1 ! queue ! "
        f'onnxinference model-file="{MODEL}" ! {decoder} ! cudaletterboxrestore ! tee name=r '
        "r. ! queue ! appsink name=restored sync=false max-buffers=2 "
        "r. ! queue ! videoconvert ! objectdetectionoverlay draw-labels=false "
        "object-detection-outline-color=0xffffffff ! videoconvert ! video/x-raw,format=I420 ! "
        "appsink name=drawn sync=false max-buffers=2"
    )
    pipeline.set_state(Gst.State.PLAYING)
    try:
        for n in range(frames):
            plain, restored, drawn = (pull(pipeline, name) for name in ("plain", "restored", "drawn"))
            equal(restored.get_caps().to_string(), plain.get_caps().to_string())
            equal(restored.get_buffer().pts, plain.get_buffer().pts)
            image = luma(plain)
            assert (luma(restored) == image).all(), "pixels changed"
            (box,) = boxes_of(restored.get_buffer())
            ball = bounds(image > 127)
            # The tolerance is one pixel of the network, because the ball's edge may lie within it,
            # plus rounding.
            pixel = max(1.0, max(width * par, height) / SIZE) / np.array([par, 1.0] * 2)
            assert (np.abs(box - ball) <= pixel + 1.01).all(), (n, box, ball)
            # Only the box's edges are drawn.
            change = np.abs(luma(drawn) - image) > 60
            line = bounds(change)
            assert (np.abs(line - box) <= 4).all(), (n, line, box)
            x0, y0, x1, y1 = (box + [5, 5, -5, -5]).astype(int)
            assert not change[y0:y1, x0:x1].any(), (n, "drawn inside of the box")
    finally:
        pipeline.set_state(Gst.State.NULL)


@case("drop", "restore")
def a_slow_network(dropped):
    frames = 60
    pipeline = Gst.parse_launch(
        f"videotestsrc pattern=ball num-buffers={frames} ! "
        "video/x-raw,format=I420,width=640,height=360 ! cudaletterbox backend=cpu keep-original=true ! "
        f"video/x-raw,format=RGB,width={SIZE},height={SIZE},pixel-aspect-ratio=1/1 ! "
        "queue leaky=downstream max-size-buffers=1 ! identity sleep-time=20000 ! "
        f'onnxinference model-file="{MODEL}" ! yolov8tensordec ! '
        f"cudaletterboxrestore dropped={dropped} max-dropped=0 ! appsink name=s sync=false"
    )
    pipeline.set_state(Gst.State.PLAYING)
    sink = pipeline.get_by_name("s")
    times, seen = [], 0
    while sample := sink.emit("try-pull-sample", 60 * Gst.SECOND):
        buffer = sample.get_buffer()
        times.append(buffer.pts)
        boxes = boxes_of(buffer)
        if boxes:
            seen += 1
            assert (np.abs(boxes[0] - bounds(luma(sample) > 127)) <= 3.01).all()
    pipeline.set_state(Gst.State.NULL)
    equal(times, sorted(times))
    assert 0 < seen < frames, seen
    equal(len(times), frames if dropped == "restore" else seen)


run()
