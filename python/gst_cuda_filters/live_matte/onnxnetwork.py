"""Runs ONNX networks in ONNX Runtime, on the GPU if its CUDA provider is installed.

Inputs and outputs are recognised by name and shape: the image, the states that a network hands from frame to frame,
and the mask. Values stay where they are: the input's tensor is bound by its address, and states are kept as
OrtValues on the network's device. Only the mask comes to the host.
"""
import contextlib
import re

import numpy as np

from . import Failure, fetch
from .network import Network, channels_last

TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
CUDA = "CUDAExecutionProvider"
#: The network's work follows that on the legacy default stream, which waits for the tensor. Trying all algorithms for
#: each new shape would take a second and save no time later, and numbers of TF32 would change mattes.
CUDA_OPTIONS = {"user_compute_stream": "1", "cudnn_conv_algo_search": "HEURISTIC", "use_tf32": "0"}
#: The shorter side of frames for networks that take any size. Sides are multiples of STEP, as MODNet needs.
SIDE, STEP = 512, 32
#: RVM is made for pictures that have so many pixels on the longer side after its own reduction.
RVM_SIDE = 512
#: Names of an output that is the mask, if the file has more than one.
MASK_NAMES = "pha", "alpha", "matte", "mask"


def described(values):
    """Returns the names and shapes of inputs or outputs for people."""
    return ", ".join(f"{value.name} ({'x'.join(str(n if n is not None else '?') for n in value.shape)})"
                     for value in values) or "none"


def state_name(name):
    """Returns the output that is the next value of an input that is a state: r1o for r1i, h_out for h_in."""
    return re.sub("in$", "out", name) if name.endswith("in") else re.sub("i$", "o", name)


class OnnxNetwork(Network):
    def __init__(self, file, description, size, threads, backend="auto"):
        self.runtime = fetch.onnxruntime()
        self.session = self.make_session(file, threads, backend)
        self.device = "cuda" if CUDA in self.session.get_providers() else "cpu"
        self.inputs, self.outputs = self.session.get_inputs(), self.session.get_outputs()
        self.find_inputs(file)
        self.description = description.complete(self.known())
        self.on_device = self.device == "cuda" and not self.description.mirror
        self.find_size(file, size)
        self.restart()
        self.mask_name = self.outputs[min(self.description.output, len(self.outputs) - 1)].name
        self.check(file, len(self.outputs), lambda: self.first_run(file, threads, self.place(backend)))
        self.restart()

    def place(self, backend):
        """Returns where the network runs, and why not on the GPU."""
        if self.device == "cuda":
            return "GPU"
        if backend == "cpu":
            return "CPU"
        return "CPU, because " + ("ONNX Runtime's CUDA provider does not start here"
                                  if CUDA in self.runtime.get_available_providers() else
                                  "this ONNX Runtime has no CUDA provider (onnxruntime-gpu has one)")

    def make_session(self, file, threads, backend):
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        providers = ["CPUExecutionProvider"]
        if CUDA in self.runtime.get_available_providers() and backend != "cpu":
            providers.insert(0, (CUDA, CUDA_OPTIONS))
            if hasattr(self.runtime, "preload_dlls"):
                # CUDA's libraries may come from wheels. If one is missing, that is printed, and the
                # CPU is used.
                with contextlib.redirect_stdout(None):
                    self.runtime.preload_dlls()
        try:
            # A provider that does not start is told on the standard output, too.
            with fetch.quiet(), contextlib.redirect_stdout(None):
                return self.runtime.InferenceSession(str(file), options, providers=providers)
        except Exception as error:  # the library has a class for each of its errors
            raise Failure(f"{file} is no model that ONNX Runtime runs: {str(error).splitlines()[0]}") from None

    def unknown(self, file, why):
        return Failure(f"{file} has {why}. Its inputs are {described(self.inputs)}, and its outputs "
                       f"{described(self.outputs)}. The program takes one image of 3 channels, states such as r1i with "
                       "an output r1o, and downsample_ratio. --model-output N and --model-channel N choose the mask, "
                       "and --model-size WxH the size of an image that has none")

    def find_inputs(self, file):
        """Finds the image among the inputs, and the outputs that are states."""
        names = [output.name for output in self.outputs]
        self.states = {each.name: state_name(each.name) for each in self.inputs
                       if state_name(each.name) != each.name and state_name(each.name) in names}
        self.ratio = next((each.name for each in self.inputs if each.name == "downsample_ratio"), None)
        images = [each for each in self.inputs if each.name not in (*self.states, self.ratio)]
        self.image = images[0] if len(images) == 1 else None
        shape = self.image.shape if self.image else []
        if len(shape) != 4 or self.image.type not in TYPES or shape[0] not in (1, None) and isinstance(shape[0], int) \
                or 3 not in (shape[1], shape[3]):
            raise self.unknown(file, "no input, or more than one, that can be the image")
        self.channels_first = shape[1] == 3
        self.tensor_type = TYPES[self.image.type]
        self.mask_names = [each.name for each in self.outputs if len(each.shape) in (3, 4)
                           and each.name not in self.states.values()]
        if not self.mask_names:
            raise self.unknown(file, "no output that can be a mask")

    def known(self):
        """Returns what is known of published networks, which are recognised by their documented interface."""
        if self.image.shape[1:] == [3, "height", "width"] and [each.name for each in self.inputs] == ["input"] and \
                [each.name for each in self.outputs] == ["output"]:
            return {"range": (-1.0, 1.0)}  # MODNet
        named = next((name for name in MASK_NAMES if name in self.mask_names), self.mask_names[0])
        return {"output": [each.name for each in self.outputs].index(named)}

    def find_size(self, file, size):
        rows, columns = self.image.shape[2:] if self.channels_first else self.image.shape[1:3]
        self.open = not isinstance(rows, int) and not isinstance(columns, int) and not size
        if isinstance(rows, int) and isinstance(columns, int):
            if size and size != (columns, rows):
                raise Failure(f"--model-size {size[0]}x{size[1]}: {file} takes {columns}x{rows} only")
            size = columns, rows
        elif not self.open and not size:
            raise Failure(f"{file} names only one side of its image: --model-size WxH names both")
        self.width, self.height = size or (SIDE, SIDE)

    def fit(self, width, height):
        if not self.open:
            return
        if self.ratio and self.on_device:
            # RVM reduces frames by itself, and refines its mask on the whole frame.
            self.width, self.height = width, height
            return
        scale = SIDE / min(width, height)
        self.width, self.height = (max(round(side * scale / STEP), 1) * STEP for side in (width, height))

    def first_run(self, file, threads, place):
        """Returns the output for a black image. A network that fails on the GPU runs on the CPU."""
        try:
            with fetch.quiet():
                values = self.run(np.zeros(self.shape, self.tensor_type), False)
        except Failure:
            raise
        except Exception as error:  # the library has a class for each of its errors
            why = str(error).splitlines()[0]
            if self.device == "cpu":
                raise Failure(f"{file} does not run on an image of {self.width}x{self.height} pixels (--model-size WxH): "
                              f"{why}") from None
            # Only a run shows whether cuDNN is there and the memory suffices.
            self.session, self.device, self.on_device = self.make_session(file, threads, "cpu"), "cpu", False
            self.restart()
            return self.first_run(file, threads, f"CPU, because it fails on the GPU: {why}")
        fetch.say(f"The network runs on the {place}.")
        return values

    def restart(self):
        self.kept = [{}, {}]
        self.kept_shape = None

    def begin(self, name):
        """Returns the state before the first frame: zeros, of size 1 where the file names no size."""
        about = next(each for each in self.inputs if each.name == name)
        shape = [n if isinstance(n, int) else 1 for n in about.shape]
        return self.runtime.OrtValue.ortvalue_from_numpy(np.zeros(shape, TYPES.get(about.type, np.float32)), self.device, 0)

    def run(self, tensor, mirrored):
        if tensor.shape != self.kept_shape:
            self.restart()
            self.kept_shape = tensor.shape
        binding = self.session.io_binding()
        place, number = "cpu", 0
        if isinstance(tensor, np.ndarray) or tensor.device == "cpu":
            tensor = np.ascontiguousarray(tensor)
            pointer = tensor.ctypes.data
        else:
            place, _, number = tensor.device.partition(":")
            # The legacy default stream waits for the tensor, and the tensor for that stream.
            tensor.__dlpack__(stream=1)
            pointer = tensor.pointer
        binding.bind_input(self.image.name, place, int(number), self.tensor_type, list(tensor.shape), pointer)
        kept = self.kept[mirrored]
        for name in self.states:
            binding.bind_ortvalue_input(name, kept.get(name) or self.begin(name))
        if self.ratio:
            side = max(self.size_of(tensor.shape))
            binding.bind_cpu_input(self.ratio, np.array([min(1.0, RVM_SIDE / side)], np.float32))
        binding.bind_output(self.mask_name, "cpu")
        for name in self.states.values():
            binding.bind_output(name, self.device, 0)
        self.session.run_with_iobinding(binding)
        mask, *states = binding.get_outputs()
        self.kept[mirrored] = dict(zip(self.states, states))
        return self.planes(mask.numpy())

    def planes(self, values):
        """Returns an output as height x width x channels."""
        found = channels_last(values.astype(np.float32, copy=False), self.channels_first)
        if found is not None:
            return found
        raise Failure(f"the output {self.mask_name} has the shape {'x'.join(map(str, values.shape))}, which is no mask: "
                      f"the outputs are {described(self.outputs)} (--model-output N chooses one)")
