"""Measures time and memory of a network of RVM's architecture: rvm.py [SIZE...], for instance rvm.py 1920x1080.

The network has the layers of RVM with MobileNetV3, the interface of its published file, and random weights. So times
and memory are those of RVM, and masks mean nothing. rvm.py FILE.onnx writes the file only.
"""
import multiprocessing
import pathlib
import resource
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
arguments, sys.argv[1:] = sys.argv[1:], []
sys.path[:0] = [str(ROOT / "tests" / "live"), str(ROOT / "tests" / "python")]

import numpy as np  # noqa: E402
import onnxmodels  # noqa: E402
from gst_cuda_filters.live_matte import network  # noqa: E402

# Kernel, channels inside and after, whether it weighs channels, whether it uses hard swish, stride, dilation.
BLOCKS = [(3, 16, 16, 0, 0, 1, 1), (3, 64, 24, 0, 0, 2, 1), (3, 72, 24, 0, 0, 1, 1), (5, 72, 40, 1, 0, 2, 1),
          (5, 120, 40, 1, 0, 1, 1), (5, 120, 40, 1, 0, 1, 1), (3, 240, 80, 0, 1, 2, 1), (3, 200, 80, 0, 1, 1, 1),
          (3, 184, 80, 0, 1, 1, 1), (3, 184, 80, 0, 1, 1, 1), (3, 480, 112, 1, 1, 1, 1), (3, 672, 112, 1, 1, 1, 1),
          (5, 672, 160, 1, 1, 1, 2), (5, 960, 160, 1, 1, 1, 2), (5, 960, 160, 1, 1, 1, 2)]
STATES = 16, 20, 40, 64


class Rvm(onnxmodels.Graph):
    def __init__(self):
        super().__init__("rvm")
        self.random = np.random.default_rng(1)
        self.integers = self.onnx.TensorProto.INT64

    def ints(self, values):
        return self.const(values, self.integers)

    def layer(self, x, before, after, kernel=1, stride=1, dilation=1, groups=1, then=None, bias=True):
        """A convolution; batch normalisation is folded into it."""
        shape = after, before // groups, kernel, kernel
        inputs = [x, self.const(self.random.normal(0, (before // groups * kernel * kernel) ** -0.5, shape))]
        inputs += [self.const(np.zeros(after))] if bias else []
        x = self.apply("Conv", *inputs, strides=[stride] * 2, dilations=[dilation] * 2, group=groups,
                       pads=[(kernel - 1) // 2 * dilation] * 4)
        return self.apply(then, x) if then and then != "HardSwish" else self.swish(x) if then else x

    def swish(self, x):
        return self.apply("Mul", x, self.apply("HardSigmoid", x, alpha=1 / 6, beta=0.5))

    def weighed(self, x, channels):
        few = (channels // 4 + 4) // 8 * 8
        share = self.layer(self.apply("GlobalAveragePool", x), channels, few, then="Relu")
        return self.apply("Mul", x, self.apply("HardSigmoid", self.layer(share, few, channels), alpha=1 / 6, beta=0.5))

    def encode(self, x):
        mean, std = (np.array(v).reshape(1, 3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        x = self.apply("Div", self.apply("Sub", x, self.const(mean)), self.const(std))
        x, channels, kept = self.layer(x, 3, 16, 3, 2, then="HardSwish"), 16, []
        for i, (kernel, wide, after, weighs, hard, stride, dilation) in enumerate(BLOCKS):
            then, first = "HardSwish" if hard else "Relu", x
            if wide != channels:
                x = self.layer(x, channels, wide, then=then)
            x = self.layer(x, wide, wide, kernel, stride, dilation, wide, then)
            x = self.layer(self.weighed(x, wide) if weighs else x, wide, after)
            if stride == 1 and channels == after:
                x = self.apply("Add", x, first)
            channels = after
            kept += [x] if i in (0, 2, 5) else []
        x = self.layer(x, 160, 960, then="HardSwish")
        share = self.layer(self.apply("GlobalAveragePool", x), 960, 128, then="Sigmoid", bias=False)
        return [*kept, self.apply("Mul", self.layer(x, 960, 128, then="Relu"), share)]

    def resize(self, x, scales=None, sizes=None):
        return self.apply("Resize", x, "", scales or "", *([sizes] if sizes else []), mode="linear",
                          coordinate_transformation_mode="half_pixel")

    def size_of(self, x):
        return self.apply("Slice", self.apply("Shape", x), self.ints([2]), self.ints([4]))

    def doubled(self, x, like):
        x = self.resize(x, self.const([1, 1, 2, 2]))
        return self.apply("Slice", x, self.ints([0, 0]), self.size_of(like), self.ints([2, 3]))

    def split(self, x, channels):
        first, second = f"a{len(self.nodes)}", f"b{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node("Split", [x, self.ints(channels)], [first, second], axis=1))
        return first, second

    def gru(self, x, number):
        """Half of the channels goes through a state."""
        channels = STATES[number - 1]
        a, b = self.split(x, [channels] * 2)
        state = self.apply("Expand", f"r{number}i", self.apply("Shape", b))
        gates = self.layer(self.apply("Concat", b, state, axis=1), 2 * channels, 2 * channels, 3, then="Sigmoid")
        reset, update = self.split(gates, [channels] * 2)
        seen = self.apply("Concat", b, self.apply("Mul", reset, state), axis=1)
        new = self.layer(seen, 2 * channels, channels, 3, then="Tanh")
        change = self.apply("Mul", update, self.apply("Sub", new, state))
        return self.apply("Concat", a, self.apply("Add", state, change, to=f"r{number}o"), axis=1)

    def decode(self, small, features):
        pictures = [small]
        for _ in range(3):
            pictures.append(self.apply("AveragePool", pictures[-1], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1))
        x, channels = self.gru(features[3], 4), 128
        for number, skip, after in ((3, 40, 80), (2, 24, 40), (1, 16, 32)):
            x = self.apply("Concat", self.doubled(x, pictures[number]), features[number - 1], pictures[number], axis=1)
            x = self.gru(self.layer(x, channels + skip + 3, after, 3, then="Relu"), number)
            channels = after
        x = self.apply("Concat", self.doubled(x, small), small, axis=1)
        return self.layer(self.layer(x, 35, 16, 3, then="Relu"), 16, 16, 3, then="Relu")

    def with_mean(self, x):
        return self.apply("Concat", x, self.apply("ReduceMean", x, axes=[1], keepdims=1), axis=1)

    def refine(self, small, hidden):
        def box(x):
            weights = self.const(np.full((4, 1, 3, 3), 1 / 9))
            return self.apply("Conv", x, weights, group=4, pads=[1] * 4)
        base, y = self.with_mean(small), self.layer(hidden, 16, 4)
        mean_x, mean_y = box(base), box(y)
        both = self.apply("Sub", box(self.apply("Mul", base, y)), self.apply("Mul", mean_x, mean_y))
        spread = self.apply("Sub", box(self.apply("Mul", base, base)), self.apply("Mul", mean_x, mean_x))
        a = self.layer(self.apply("Concat", both, spread, hidden, axis=1), 24, 16, then="Relu")
        a = self.layer(self.layer(a, 16, 16, then="Relu"), 16, 4)
        b = self.apply("Sub", mean_y, self.apply("Mul", a, mean_x))
        fine = self.with_mean("src")
        whole = self.apply("Concat", self.ints([1, 4]), self.size_of("src"), axis=0)
        a, b = (self.resize(each, sizes=whole) for each in (a, b))
        return self.split(self.apply("Add", self.apply("Mul", a, fine), b), [3, 1])

    def make(self):
        self.take("src", onnxmodels.OPEN)
        for i in range(1, 5):
            self.take(f"r{i}i", [None] * 4)
        self.take("downsample_ratio", [1])
        small = self.resize("src", self.apply("Concat", self.const([1, 1]), "downsample_ratio", "downsample_ratio", axis=0))
        colors, alpha = self.refine(small, self.decode(small, self.encode(small)))
        zero, one = self.const(0), self.const(1)
        self.apply("Clip", self.apply("Add", colors, "src"), zero, one, to="fgr")
        self.apply("Clip", alpha, zero, one, to="pha")
        self.give("fgr", onnxmodels.OPEN)
        self.give("pha", ["batch_size", 1, "height", "width"])
        for i in range(1, 5):
            self.give(f"r{i}o", [None] * 4)
        return self.file()


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(file, width, height):
    """Returns processor milliseconds per frame and MiB of memory."""
    before = memory()
    net = network.load(file, network.Description(), (width, height), 1)
    tensor = np.random.default_rng(2).random(net.shape, np.float32)
    times = []
    for _ in range(10):
        begun = time.thread_time()
        net.mask(tensor)
        times.append(time.thread_time() - begun)
    return 1000 * np.median(times[2:]), memory() - before


def main():
    file = Rvm().make()
    if arguments and arguments[0].endswith(".onnx"):
        pathlib.Path(arguments[0]).write_bytes(file.read_bytes())
        return
    print(f"{file.stat().st_size / 1e6:.1f} MB\n| size | processor time per frame (ms) | memory (MiB) |\n|---|---|---|")
    for size in arguments or ("512x288", "896x512", "1280x720", "1920x1080"):
        # A process of its own for each, because memory is that of its peak.
        with multiprocessing.get_context("fork").Pool(1) as one:
            took, needs = one.apply(measure, (file, *map(int, size.split("x"))))
        print(f"| {size} | {took:.0f} | {needs:.0f} |", flush=True)


main()
