"""Tests live-matte with networks made here: what the options say about a model, and what its file
says."""
import numpy as np
from common import FOLDER, MISSING, grays, live_matte, make
from harness import Skip, case, equal, raises
from gst_cuda_filters.live_matte import Failure, fetch
from gst_cuda_filters.live_matte.masks import Enlarger
from gst_cuda_filters.live_matte.network import Description, InPipeline, as_bytes

WIDTH, HEIGHT = 64, 48  # input size of the networks
SIZE = 320, 180  # size of the frame
# The colours of the frame's quarters, from the upper left one on: red, green, blue.
COLORS = np.array([(204, 102, 51), (51, 204, 102), (102, 51, 204), (230, 230, 26)])
# The logits of six classes are these multiples of red, green and blue.
CLASSES = np.array([(4, 0, 0), (0, 4, 0), (0, 0, 4), (3, 2, 0), (0, 2, 3), (-2, 0, 2)])


def network(kind):
    """Makes a network whose first output is its input, and whose second output is the green of it.
    `kind` is the type of both in the file, or `open`, and then the file names no size. The output of `classes` is the
    logits of six classes."""
    if MISSING:
        raise Skip(MISSING)
    fetch.litert()
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.subgraphs, model.buffers = 3, [graph], [schema.BufferT()]
    model.operatorCodes = []
    graph.tensors, graph.operators, graph.name = [], [], b"main"
    kind_of_bytes = {"uint8": (schema.TensorType.UINT8, 0), "int8": (schema.TensorType.INT8, -128)}.get(kind)

    def tensor(shape, data=None, coded=False):
        it = schema.TensorT()
        it.name, it.shape, it.type = b"%d" % len(graph.tensors), shape, schema.TensorType.FLOAT32
        if coded and kind_of_bytes:
            it.type, zero = kind_of_bytes
            it.quantization = schema.QuantizationParametersT(scale=[1 / 255], zeroPoint=[zero])
        if data is not None:
            model.buffers.append(schema.BufferT(data=list(np.array(data, "<f4").tobytes())))
            it.buffer = len(model.buffers) - 1
        elif kind == "open":
            it.shape, it.shapeSignature = [1, 1, 1, shape[3]], [1, -1, -1, shape[3]]
        graph.tensors.append(it)
        return len(graph.tensors) - 1

    def apply(operator, inputs, output, options=None):
        code = schema.OperatorCodeT(builtinCode=operator, deprecatedBuiltinCode=operator)
        model.operatorCodes.append(code)
        it = schema.OperatorT(opcodeIndex=len(model.operatorCodes) - 1, inputs=inputs, outputs=[output])
        if options:
            it.builtinOptionsType, it.builtinOptions = schema.BuiltinOptions.Conv2DOptions, options
        graph.operators.append(it)
        return output

    def output(source, weights):
        channels = len(weights)
        shape = [1, HEIGHT, WIDTH, channels]
        numbers = [source, tensor([channels, 1, 1, 3], weights), tensor([channels], [0] * channels)]
        result = apply(schema.BuiltinOperator.CONV_2D, numbers, tensor(shape), schema.Conv2DOptionsT(
            padding=schema.Padding.VALID, strideW=1, strideH=1))
        if kind_of_bytes:
            result = apply(schema.BuiltinOperator.QUANTIZE, [result], tensor(shape, coded=True))
        return result

    shape = [1, HEIGHT, WIDTH, 3]
    graph.inputs = [tensor(shape, coded=True)]
    source = graph.inputs[0]
    if kind_of_bytes:
        source = apply(schema.BuiltinOperator.DEQUANTIZE, [source], tensor(shape))
    made = [CLASSES] if kind == "classes" else [np.eye(3), [[0, 1, 0]]]
    graph.outputs = [output(source, weights) for weights in made]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    file = FOLDER / f"{kind}.tflite"
    file.write_bytes(builder.Output())
    return file


def quarters():
    """Makes a clip that shows COLORS."""
    frame = COLORS.reshape(2, 2, 3).repeat(SIZE[1] // 2, axis=0).repeat(SIZE[0] // 2, axis=1).astype(np.uint8)
    raw, file = FOLDER / "frames.raw", FOLDER / "quarters.avi"
    raw.write_bytes(frame.tobytes() * 4)
    make(f"filesrc location={raw} ! rawvideoparse format=rgb width={SIZE[0]} height={SIZE[1]} framerate=20/1 "
         f"! videoconvert ! video/x-raw,format=YUY2 ! avimux ! filesink location={file}")
    return file


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)


def classes(x, *chosen):
    """Returns the sum of the chosen classes' shares."""
    return softmax(x @ CLASSES.T)[:, chosen].sum(axis=-1)


# Each name has options of a network with six classes, and the mask of colours from 0 to 1.
SIX = {
    "a person's classes": ("", lambda x: classes(x, 1, 2, 3, 4, 5)),
    "one class": ("--model-channel hair", lambda x: classes(x, 1)),
    "two classes": ("--model-channel clothes,hair", lambda x: classes(x, 1, 4)),
    "a class and a channel": ("--model-channel face-skin,1,3", lambda x: classes(x, 1, 3)),
    "channels": ("--model-channel 0,2 --model-activation softmax", lambda x: classes(x, 0, 2)),
    "other names": ("--model-classes sky,background,cat,dog,bus,tree", lambda x: classes(x, 0, 2, 3, 4, 5)),
    "one of other names": ("--model-classes sky,background,cat,dog,bus,tree --model-channel dog", lambda x: classes(x, 3)),
}


# Each name has the file's kind, options, and the mask of colours from 0 to 1.
OPTIONS = {
    "none": ("float32", "", lambda x: x[:, 2]),
    "channel": ("float32", "--model-channel 0", lambda x: x[:, 0]),
    "output": ("float32", "--model-output 1", lambda x: x[:, 1]),
    "order": ("float32", "--model-order bgr", lambda x: x[:, 0]),
    "range": ("float32", "--model-range -1,1", lambda x: np.maximum(2 * x[:, 2] - 1, 0)),
    "a range upside down": ("float32", "--model-range 1,0 --model-channel 0", lambda x: 1 - x[:, 0]),
    "sigmoid": ("float32", "--model-activation sigmoid --model-range=-4,4", lambda x: sigmoid(8 * x - 4)[:, 2]),
    "softmax": ("float32", "--model-activation softmax --model-range 0,4", lambda x: softmax(4 * x)[:, 2]),
    "letterbox": ("float32", "--model-fit letterbox", lambda x: x[:, 2]),
    "not mirrored": ("float32", "--no-model-mirror", lambda x: x[:, 2]),
    "size": ("open", "--model-size 96x80", lambda x: x[:, 2]),
    "bytes": ("uint8", "--model-channel 0", lambda x: x[:, 0]),
    "signed bytes": ("int8", "--model-fit letterbox", lambda x: x[:, 2]),
    "sums": ("float32", "--model-channel 0,2", lambda x: np.minimum(x[:, 0] + x[:, 2], 1)),
    "sums of the last": ("float32", "--model-channel -1,0", lambda x: np.minimum(x[:, 0] + x[:, 2], 1)),
    "a sum of sigmoids": ("float32", "--model-channel 0,1 --model-activation sigmoid --model-range=-9,0",
                          lambda x: np.minimum(sigmoid(9 * x - 9)[:, :2].sum(axis=-1), 1)),
    **{name: ("classes", *about) for name, about in SIX.items()},
}


@case(*OPTIONS)
def another_model(name):
    kind, options, wanted = OPTIONS[name]
    made = FOLDER / "mask.mkv"
    live_matte(quarters(), "--model", network(kind), *options.split(), "--background", "mask", "--output", made)
    masks = grays(made)
    assert masks.shape[:3] == (4, SIZE[1], SIZE[0]), masks.shape
    # These points lie near the frame's edges and near the inner ones.
    at = [np.array([8, side // 2 - 8, side // 2 + 8, side - 9]) for side in (SIZE[1], SIZE[0])]
    got = masks.reshape(4, SIZE[1], SIZE[0])[:, at[0]][:, :, at[1]]
    expected = wanted(COLORS / 255).reshape(2, 2).repeat(2, axis=0).repeat(2, axis=1)
    assert np.abs(got - expected).max() < 0.03, (got[-1], expected)


UNUSABLE = {
    "a channel that is none": ("float32", "--model-channel 3", "--model-channel 3: the output has the channels 0 to 2"),
    "an output that is none": ("float32", "--model-output 2", "--model-output 2: has the outputs 0 to 1"),
    "a class that is none": ("classes", "--model-channel hair,hat",
                             "--model-channel hat: classes are background, hair, body-skin, face-skin, clothes, others"),
    "a channel with a name": ("float32", "--model-channel hair", "--model-channel hair: no names --model-classes"),
    "classes for other channels": ("classes", "--model-classes background,person",
                                   "--model-classes names 2 classes, the output has 6 channels"),
    "a class twice": ("classes", "--model-classes cat,dog,cat", "--model-classes: different names"),
    "a channel of several that is none": ("classes", "--model-channel 5,6", "--model-channel 6: the channels 0 to 5"),
    "a range of one value": ("float32", "--model-range 1,1", "--model-range 1,1: two numbers"),
}


@case(*UNUSABLE)
def error_another_model(name):
    kind, options, words = UNUSABLE[name]
    live_matte("test", "--model", network(kind), *options.split(), "--output", "none", fails=words)


@case()
def channels_in_the_pipeline():
    """With --engine gst, cudaguidedmatte adds the channels."""
    file = FOLDER / "in.tflite"
    (FOLDER / "in.tflite.modelinfo").write_text("[modelinfo]")

    def matte(**about):
        line = InPipeline(file, Description(**about).complete({}), (64, 48), 1).matte
        return dict(word.split("=") for word in line.split())

    equal(matte().get("mask-label"), None)
    equal(matte(channel=(1, 4))["mask-label"], "1,4")
    equal(matte(channel=("cat",), classes=("background", "dog", "cat"))["mask-label"], "2")
    both = matte(classes=("background", "dog", "cat"), activation="softmax")
    equal((both["mask-label"], both["mask-activation"]), ("1,2", "softmax"))
    raises(Failure, "--model-channel hair: no names (--model-classes", matte, channel=("hair",))


@case()
def masks_as_bytes():
    """Probabilities are rounded, and a mask with a value that is no number is none."""
    values = np.random.default_rng(1).random((300, 500), np.float32) * 1.2 - 0.1
    values[0, :2] = np.inf, -np.inf
    assert (as_bytes(values) == (np.clip(values, 0, 1) * 255 + 0.5).astype(np.uint8)).all()
    values[-1, -1] = np.nan
    equal(as_bytes(values), None)


@case(("8 columns", 8), ("6 columns", 6))
def a_mask_of_the_frames_size(about):
    """It stays as it is, and has the rows of a frame."""
    columns = about[1]
    mask, enlarge = np.arange(4 * columns, dtype=np.uint8).reshape(4, columns), Enlarger()
    try:
        same, half = (enlarge(mask[:rows], columns, 4).extract_dup(0, 32) for rows in (4, 2))
    finally:
        enlarge.stop()
    assert (np.frombuffer(same, np.uint8).reshape(4, 8)[:, :columns] == mask).all(), same
    assert (np.frombuffer(half, np.uint8).reshape(4, 8)[[0, 3], :columns] == mask[:2]).all(), half
