"""Tests live-matte with ONNX networks made here, also with those that have the interface of published ones."""
import contextlib
import io
import os
import subprocess
import sys

import numpy as np
from common import FOLDER, PROGRAM, Gst, grays, live_matte, program, run_program
from harness import Skip, case
from models import CLASSES, COLORS, HEIGHT, SIX, SIZE, WIDTH, classes, quarters, sigmoid
from gst_cuda_filters.live_matte import Failure, fetch, network, source

ON_GPU = "The network runs on the GPU."
IMAGE, OPEN = [1, 3, HEIGHT, WIDTH], ["batch_size", 3, "height", "width"]


def onnx():
    try:
        fetch.onnxruntime()
        return fetch.package("onnx", "onnx>=1.15,<1.18")
    except Failure as why:
        raise Skip(str(why).splitlines()[0]) from None


class Graph:
    """Makes a network's file."""

    def __init__(self, name, kind="FLOAT"):
        self.name, self.onnx = name, onnx()
        self.kind = getattr(self.onnx.TensorProto, kind)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []

    def value(self, name, shape, kind=None):
        return self.onnx.helper.make_tensor_value_info(name, kind or self.kind, shape)

    def take(self, name, shape, kind=None):
        self.inputs.append(self.value(name, shape, kind))
        return name

    def give(self, name, shape, kind=None):
        self.outputs.append(self.value(name, shape, kind))

    def const(self, values, kind=None):
        name = f"w{len(self.weights)}"
        array = np.asarray(values, self.onnx.helper.tensor_dtype_to_np_dtype(kind or self.kind))
        self.weights.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def apply(self, operator, *inputs, to=None, **attributes):
        to = to or f"n{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [to], **attributes))
        return to

    def conv(self, image, weights, bias=0.0, to=None):
        """Mixes the channels of an image."""
        weights = np.array(weights, float).reshape(-1, 3, 1, 1)
        return self.apply("Conv", image, self.const(weights), self.const([bias] * len(weights)), to=to)

    def file(self):
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, "made", self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        file = FOLDER / f"{self.name}.onnx"
        self.onnx.save(model, str(file))
        return file


def plain(kind="FLOAT", name="plain"):
    """The first output is the image, and the second one is the green of it."""
    it = Graph(name, kind)
    it.take("x", IMAGE)
    it.conv("x", np.eye(3), to="y")
    it.conv("x", [0, 1, 0], to="green")
    it.give("y", IMAGE)
    it.give("green", [1, 1, HEIGHT, WIDTH])
    return it.file()


def channels_last():
    """The output is a part of the image, and has no dimension for channels."""
    it = Graph("last")
    it.take("x", [1, HEIGHT, WIDTH, 3])
    first = it.apply("Transpose", "x", perm=[0, 3, 1, 2])
    blue = it.conv(first, [0, 0, 1])
    it.apply("Squeeze", blue, it.const([1], it.onnx.TensorProto.INT64), to="y")
    it.give("y", [1, HEIGHT, WIDTH])
    return it.file()


def of_bytes():
    it = Graph("bytes", "UINT8")
    it.take("x", IMAGE)
    floats = it.apply("Cast", "x", to="floats", **{})
    it.nodes[-1].attribute.append(it.onnx.helper.make_attribute("to", it.onnx.TensorProto.FLOAT))
    it.kind = it.onnx.TensorProto.FLOAT
    it.conv(floats, [0, 0, 1 / 255], to="y")
    it.give("y", [1, 1, HEIGHT, WIDTH])
    return it.file()


def several():
    """Of several outputs, the name says which is the mask."""
    it = Graph("several")
    it.take("x", IMAGE)
    it.conv("x", [1, 0, 0], to="edges")
    it.conv("x", [0, 0, 1], to="alpha")
    for name in "edges", "alpha":
        it.give(name, [1, 1, HEIGHT, WIDTH])
    return it.file()


def modnet():
    """Has the documented interface of MODNet: values from -1 to 1. The mask is blue, from 0 to 1."""
    it = Graph("modnet")
    it.take("input", OPEN)
    it.conv("input", [0, 0, 0.5], 0.5, to="output")
    it.give("output", ["batch_size", 1, "height", "width"])
    return it.file()


def rvm(kind="FLOAT"):
    """Has the documented interface of RVM. The first state is the mean of itself and of blue, and the mask is that
    times downsample_ratio. The other states count frames."""
    it = Graph(f"rvm_{kind}", kind)
    it.take("src", OPEN)
    for i in range(1, 5):
        it.take(f"r{i}i", [None] * 4)
    it.take("downsample_ratio", [1], it.onnx.TensorProto.FLOAT)
    blue = it.conv("src", [0, 0, 1])
    before = it.apply("Expand", "r1i", it.apply("Shape", blue))
    it.apply("Mul", it.apply("Add", blue, before), it.const(0.5), to="r1o")
    for i in range(2, 5):
        it.apply("Add", f"r{i}i", it.const(1.0), to=f"r{i}o")
    ratio = it.apply("Cast", "downsample_ratio", to="ratio", **{})
    it.nodes[-1].attribute.append(it.onnx.helper.make_attribute("to", it.kind))
    it.apply("Mul", "r1o", ratio, to="pha")
    it.conv("src", np.eye(3), to="fgr")
    it.give("fgr", OPEN)
    it.give("pha", ["batch_size", 1, "height", "width"])
    for i in range(1, 5):
        it.give(f"r{i}o", [None] * 4)
    return it.file()


def of_classes(last=False, shares=False):
    """The output is six classes, as logits or shares."""
    it = Graph("six")
    it.take("x", IMAGE)
    it.conv("x", CLASSES, to="y" if not last and not shares else "first")
    if shares:
        it.apply("Softmax", "first", axis=1, to="y")
    if last:
        it.apply("Transpose", "first", perm=[0, 2, 3, 1], to="y")
    it.give("y", ["batch", HEIGHT, WIDTH, 6] if last else [1, 6, HEIGHT, WIDTH])
    return it.file()


def no_picture(with_mask=True):
    """The first output is no mask."""
    it = Graph("none")
    it.take("x", IMAGE)
    it.apply("ReduceMean", "x", axes=[2, 3], keepdims=0, to="y")
    it.give("y", [1, 3])
    if with_mask:
        it.conv("x", [0, 0, 1], to="second")
        it.give("second", [1, 1, HEIGHT, WIDTH])
    return it.file()


def means():
    return no_picture(False)


# Each name has what makes the file, options, and the mask of colours from 0 to 1.
OPTIONS = {
    "the first output": (plain, "", lambda x: x[:, 2]),
    "channel": (plain, "--model-channel 0", lambda x: x[:, 0]),
    "output": (plain, "--model-output 1", lambda x: x[:, 1]),
    "order": (plain, "--model-order bgr", lambda x: x[:, 0]),
    "range": (plain, "--model-range -1,1", lambda x: np.maximum(2 * x[:, 2] - 1, 0)),
    "mean and deviation": (plain, "--model-mean 0.1,0,0.05 --model-std 1,1,2", lambda x: np.maximum(x[:, 2] - 0.05, 0) / 2),
    "sigmoid": (plain, "--model-activation sigmoid --model-range=-4,4", lambda x: sigmoid(8 * x - 4)[:, 2]),
    "letterbox": (plain, "--model-fit letterbox", lambda x: x[:, 2]),
    "mirrored": (plain, "--model-mirror", lambda x: x[:, 2]),
    "float16": (lambda: plain("FLOAT16", "half"), "", lambda x: x[:, 2]),
    "bytes": (of_bytes, "", lambda x: x[:, 2]),
    "channels last": (channels_last, "", lambda x: x[:, 2]),
    "a mask with a name": (several, "", lambda x: x[:, 2]),
    "a mask by its shape": (no_picture, "", lambda x: x[:, 2]),
    **{name: (of_classes, *about) for name, about in SIX.items()},
    "classes last": (lambda: of_classes(last=True), "", lambda x: classes(x, 1, 2, 3, 4, 5)),
    "shares of classes": (lambda: of_classes(shares=True), "--model-channel hair,others", lambda x: classes(x, 1, 5)),
    "MODNet": (modnet, "", lambda x: x[:, 2]),
    "MODNet of a size": (modnet, "--model-size 96x64", lambda x: x[:, 2]),
    "RVM": (rvm, "", lambda x: x[:, 2] * 512 / 896),
    "RVM in float16": (lambda: rvm("FLOAT16"), "", lambda x: x[:, 2] * 512 / 896),
    "RVM mirrored": (rvm, "--model-mirror --model-size 320x160", lambda x: x[:, 2]),
}


@case(*OPTIONS)
def an_onnx_model(name):
    kind, options, wanted = OPTIONS[name]
    made = FOLDER / "mask.mkv"
    said = live_matte(quarters(), "--model", kind(), *options.split(), "--no-skip-still", "--background", "mask",
                      "--output", made)
    masks = grays(made)
    assert masks.shape[:3] == (4, SIZE[1], SIZE[0]), masks.shape
    # These points lie near the frame's edges and near the inner ones.
    at = [np.array([8, side // 2 - 8, side // 2 + 8, side - 9]) for side in (SIZE[1], SIZE[0])]
    got = masks.reshape(4, SIZE[1], SIZE[0])[:, at[0]][:, :, at[1]]
    expected = wanted(COLORS / 255).reshape(2, 2).repeat(2, axis=0).repeat(2, axis=1)
    if "RVM" in name and "--model-size" not in options and ON_GPU in said:
        # It sees the frame in its own size.
        expected *= 896 / 512
    for i, mask in enumerate(got):
        # The state begins with 0, and half of the way is left after each frame.
        share = 1 - 0.5 ** (i + 1) if "RVM" in name else 1
        assert np.abs(mask - share * expected).max() < 0.03, (i, mask, share * expected)


@case("one after the other", "another size", "another shape", "a gap")
def states_start_anew(name):
    """After a discontinuity, the state is that of a first frame."""
    size = "width=160,height=96"
    shown = "videotestsrc num-buffers=3 pattern=solid-color foreground-color=0xff0000ff ! video/x-raw,format=I420,{}," \
            "framerate=20/1"
    if name == "a gap":
        # Two seconds of frames are missing after the third one.
        frames = shown.format(size).replace("num-buffers=3", "num-buffers=46") + " ! identity name=part"
    else:
        other = {"another size": "width=320,height=96", "another shape": "width=96,height=160"}.get(name, size)
        if name == "another shape":
            shown = shown.replace("num-buffers=3", "num-buffers=10")
        frames = f"concat name=all {shown.format(size)} ! all. {shown.format(other)} ! all. all. ! videoconvert"
    seen = []

    def patch(it):
        kept = it.net.mask
        it.net.mask = lambda tensor: seen.append(kept(tensor)) or seen[-1]
        part = it.pipeline.get_by_name("part")
        if part:
            def leave_out(pad, info):
                out = 3 <= info.get_buffer().pts * 20 // Gst.SECOND < 43
                return Gst.PadProbeReturn.DROP if out else Gst.PadProbeReturn.OK
            part.get_static_pad("sink").add_probe(Gst.PadProbeType.BUFFER, leave_out)
    kept, program.source.make = program.source.make, lambda *_: source.Source(frames, False, "frames")
    try:
        it, said = run_program("frames", "--model", rvm(), *([] if name == "another shape" else ["--model-size", "96x64"]),
                               "--no-skip-still", "--background", "color:000000", "--output", "none", "--wait-for-mask",
                               patch=patch)
    finally:
        program.source.make = kept
    got, wanted = np.array([mask.max() / 255 for mask in seen]), np.array([0.5, 0.75, 0.875])
    if name == "another shape":
        # On the CPU, frames of 160 x 96 are shown as 864 x 512. The last ones before the change may have the next one's
        # shape.
        rows, columns = (96, 160) if ON_GPU in said else (512, 864)
        shapes = [seen[i].shape for i in (0, -1)]
        assert len(got) == 20 and shapes == [(rows, columns), (columns, rows)], (len(got), said)
        got, wanted = np.concatenate([got[:3], got[10:13]]), wanted * min(512 / columns, 1)
    assert len(got) == 6 and np.abs(got - np.tile(wanted, 2)).max() < 0.03, (got, said)


def two_images():
    it = Graph("two")
    it.take("image", IMAGE)
    it.take("background", IMAGE)
    it.apply("Sub", "image", "background", to="y")
    it.give("y", IMAGE)
    return it.file()


def words():
    it = Graph("words")
    it.take("tokens", [1, 128])
    it.apply("Identity", "tokens", to="y")
    it.give("y", [1, 128])
    return it.file()


def text():
    onnx()
    file = FOLDER / "text.onnx"
    file.write_text("no network")
    return file


# Each name has what makes the file, options, and words of the message.
UNUSABLE = {
    "text": (text, "", "text.onnx is no model that ONNX Runtime runs"),
    "two images": (two_images, "", "image (1x3x48x64), background (1x3x48x64), y (1x3x48x64) --model-output"),
    "outputs that are no masks": (means, "", "no output that can be a mask y (1x3)"),
    "no image": (words, "", "tokens (1x128) no input, or more than one, that can be the image"),
    "an output that is no mask": (no_picture, "--model-output 0",
                                  "the output y has the shape 1x3, which is no mask second (1x1x48x64)"),
    "a channel that is none": (plain, "--model-channel 3", "--model-channel 3: the output has the channels 0 to 2"),
    "an output that is none": (plain, "--model-output 2", "--model-output 2: has the outputs 0 to 1"),
    "another size": (plain, "--model-size 32x32", "--model-size 32x32: takes 64x48 only"),
    "a range and a mean": (plain, "--model-range 0,1 --model-mean 0,0,0", "--model-range excludes --model-mean"),
    "a mean of two": (plain, "--model-mean 0,1", "--model-mean 0,1: must be three numbers"),
    "a deviation of 0": (plain, "--model-std 1,0,1", "--model-std: 0"),
}


@case(*UNUSABLE)
def error_an_onnx_model(name):
    kind, options, message = UNUSABLE[name]
    live_matte("test", "--model", kind(), *options.split(), "--output", "none", fails=message)


class Provider:
    """Replaces ONNX Runtime with a CUDA provider: it runs sessions on the CPU, and tells what is bound where. A tensor on
    a device has an address there, and its numbers in the host's memory at `tensors[address]`."""

    def __init__(self, starts=True, has=True, runs=True):
        self.real, self.starts, self.has, self.runs = fetch.onnxruntime(), starts, has, runs
        self.tensors, self.bound = {}, []
        self.SessionOptions, self.OrtValue = self.real.SessionOptions, self

    def get_available_providers(self):
        return ["CUDAExecutionProvider"] * self.has + ["CPUExecutionProvider"]

    def InferenceSession(self, file, options, providers):
        self.providers = providers
        if not self.starts:
            print("EP Error")
        return Session(self, self.real.InferenceSession(file, options, providers=["CPUExecutionProvider"]))

    def ortvalue_from_numpy(self, values, device, number):
        self.bound.append(("begin", device, number))
        return self.real.OrtValue.ortvalue_from_numpy(values, "cpu", 0)


class Session:
    def __init__(self, runtime, real):
        self.runtime, self.real = runtime, real
        self.get_inputs, self.get_outputs = real.get_inputs, real.get_outputs
        self.on_device = runtime.has and runtime.starts and len(runtime.providers) > 1

    def get_providers(self):
        return ["CUDAExecutionProvider"] * self.on_device + ["CPUExecutionProvider"]

    def run_with_iobinding(self, binding):
        if self.on_device and not self.runtime.runs:
            raise RuntimeError("cuDNN is missing\nsomewhere")
        self.real.run_with_iobinding(binding.real)

    def io_binding(self):
        return Binding(self.runtime, self.real.io_binding())


class Binding:
    def __init__(self, runtime, real):
        self.runtime, self.real = runtime, real
        self.bind_ortvalue_input, self.bind_cpu_input = real.bind_ortvalue_input, real.bind_cpu_input
        self.get_outputs = real.get_outputs

    def bind_input(self, name, device, number, kind, shape, address):
        self.runtime.bound.append((name, device, number))
        address = self.runtime.tensors[address].ctypes.data if device == "cuda" else address
        self.real.bind_input(name, "cpu", 0, kind, shape, address)

    def bind_output(self, name, device, number=0):
        self.runtime.bound.append((name, device, number))
        self.real.bind_output(name, "cpu")


class OnDevice:
    """Is a tensor as gst_cuda_filters.tensor() gives it for CUDA memory. Its address is none of the host's, and its
    numbers cannot be had as an array."""

    device, pointer = "cuda:1", 64

    def __init__(self, values):
        self.shape, self.streams = values.shape, []

    def __dlpack__(self, stream):
        self.streams.append(stream)


def with_runtime(runtime, make):
    kept, fetch.onnxruntime = fetch.onnxruntime, lambda: runtime
    said, out = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out):
            made = make()
        assert not out.getvalue(), out.getvalue()
        return made, said.getvalue()
    finally:
        fetch.onnxruntime = kept


@case()
def a_tensor_on_the_device_is_bound_by_its_address():
    """With a CUDA provider, the network reads the tensor where it is, states stay there, and only the mask comes to the
    host."""
    file = rvm()
    runtime = Provider()
    net, said = with_runtime(runtime, lambda: network.load(file, network.Description(), (96, 64), 1))
    assert ON_GPU in said, said
    provider, options = runtime.providers[0]
    assert provider == "CUDAExecutionProvider" and options["user_compute_stream"] == "1", runtime.providers
    assert "memory:CUDAMemory" in net.letterbox[1], net.letterbox
    runtime.bound.clear()
    for i in range(2):
        values = np.full(net.shape, 0.5 + 0.25 * i, np.float32)
        tensor = OnDevice(values)
        runtime.tensors[tensor.pointer] = values
        mask = net.mask(tensor)
        # The state is half of what it was, and half of blue.
        assert abs(mask.max() / 255 - (0.25, 0.5)[i]) < 0.01, mask.max()
        # The stream of the tensor goes before the network's.
        assert tensor.streams == [1], tensor.streams
    frame = [("src", "cuda", 1), ("pha", "cpu", 0), *((f"r{i}o", "cuda", 0) for i in range(1, 5))]
    begin = [("begin", "cuda", 0)] * 4
    assert runtime.bound == [frame[0], *begin, *frame[1:], *frame], runtime.bound


@case("no provider", "a provider that does not start", "a provider that does not run", "the CPU is wanted")
def where_an_onnx_network_runs(name):
    """Without a provider that works, the network gets tensors in the host's memory, and the program says why."""
    file = plain()
    runtime = Provider(starts=name.endswith("run"), has=name != "no provider", runs=False)
    backend = "cpu" if "wanted" in name else "auto"
    net, said = with_runtime(runtime, lambda: network.load(file, network.Description(), None, 1, backend))
    why = {"no provider": ", because this ONNX Runtime has no CUDA provider (onnxruntime-gpu has one)",
           "a provider that does not run": ", because it fails on the GPU: cuDNN is missing",
           "the CPU is wanted": ""}.get(name, ", because ONNX Runtime's CUDA provider does not start here")
    assert f"The network runs on the CPU{why}.\n" in said, said
    assert "CUDAMemory" not in net.letterbox[1], net.letterbox
    asked = [each[0] for each in runtime.providers if isinstance(each, tuple)]
    assert asked == ["CUDAExecutionProvider"] * name.endswith("start"), runtime.providers
    runtime.bound.clear()
    mask = net.mask(np.full(net.shape, 0.5, np.float32))
    assert abs(int(mask.max()) - 128) <= 1 and {each[1] for each in runtime.bound} == {"cpu"}, (mask.max(), runtime.bound)


@case("the network", "ONNX Runtime")
def error_no_network_connection(what):
    """If nothing was fetched and pip cannot reach its server, the program prints the reason in one line, and soon."""
    arguments = ["--model", str(plain())] if what == "ONNX Runtime" else []
    # Both share the virtual environment, which takes longest.
    environment = dict(os.environ, XDG_CACHE_HOME=str(FOLDER / "empty"), PIP_INDEX_URL="http://127.0.0.1:9/",
                       PIP_RETRIES="0", PIP_FIND_LINKS="", PIP_TIMEOUT="2")
    done = subprocess.run([sys.executable, PROGRAM, "test", *arguments, "--output", "none"], env=environment,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400)
    assert done.returncode and "Traceback" not in done.stdout, done.stdout
    named = "onnxruntime" if arguments else "The network"
    assert named in done.stdout and "network connection" in done.stdout or "python3-venv" in done.stdout, done.stdout
