"""Runs a segmentation network in LiteRT: prepares its input and turns its output into a mask."""
import dataclasses
import re

import numpy as np

from . import Failure, fetch


@dataclasses.dataclass
class Description:
    """Properties of a model that its file does not contain."""

    low: float = 0.0  #: the input's value for black
    high: float = 1.0  #: the input's value for white
    order: str = "rgb"  #: the order of the input's channels
    fit: str = "stretch"  #: frames are stretched to the input's size, or keep their aspect (letterbox)
    output: int = 0  #: the number of the output with the mask
    channel: int = -1  #: the number of its channel with the mask; -1: the last
    activation: str = "none"  #: the function that turns the output into probabilities
    mirror: bool = True  #: also show the network each frame mirrored


# A mask's edge usually has an error of this many pixels of the network.
MASK_ERROR = 1.5

ACTIVATIONS = {
    "none": lambda values, channel: values[..., channel],
    "sigmoid": lambda values, channel: 1 / (1 + np.exp(-np.clip(values[..., channel], -80, 80))),
    "softmax": lambda values, channel: softmax(values)[..., channel],
}


def softmax(values):
    values = np.exp(values - values.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


class InPipeline:
    """Is a network that GStreamer's tfliteinference runs. It needs FILE.modelinfo next to FILE."""

    #: Names of the input and the output, for the networks that the program fetches.
    NAMES = {"selfie_segmentation.tflite": ("input_1", "activation_10"),
             "selfie_segmentation_landscape.tflite": ("input_1", "segment_back")}

    def __init__(self, file, description, size, threads):
        self.description = description
        self.width, self.height = size
        names = self.NAMES.get(re.sub("-(plain|mirrored)", "", file.name))
        about = file.with_name(file.name + ".modelinfo")
        if names and file.parent == fetch.cache():
            about.write_text("[modelinfo]\nversion=1.0\ngroup-id=live-matte\n\n" + "\n".join(
                f"[{name}]\ndir={direction}\ntype=float32\ndims=1,{self.height},{self.width},{channels}\n{more}\n"
                for name, direction, channels, more in ((names[0], "input", 3, "ranges=0.0,1.0;0.0,1.0;0.0,1.0"),
                                                        (names[1], "output", 1, "id=mask"))))
        elif not about.exists():
            raise Failure(f"--engine gst: there is no {about}, which GStreamer's modelinfo-generator.py writes")
        self.element = f'tfliteinference model-file="{file}" threads={threads}'
        self.caps = f"video/x-raw,format={description.order.upper()},width={self.width},height={self.height}," \
                    "pixel-aspect-ratio=1/1"
        channel = f"mask-channel={description.channel}" if description.channel >= 0 else ""
        self.matte = f"mask=tensor mask-tensor={description.output} {channel} " \
                     f"mask-activation={description.activation} mask-hold-ms=1000 mask-missing=transparent"


class Network:
    """Takes tensors that cudaletterbox makes and returns masks of bytes."""

    def __init__(self, file, description, size=None, threads=1):
        self.description = description
        interpreter = fetch.litert()
        try:
            with fetch.quiet():
                self.interpreter = interpreter(model_path=str(file), num_threads=threads)
                self.prepare(size)
        except (ValueError, RuntimeError) as error:
            raise Failure(f"{file} is no model that LiteRT runs: {error}") from None
        shape = [int(n) for n in self.input["shape"]]
        if len(shape) != 4 or shape[0] != 1 or shape[3] != 3 or min(shape) < 1:
            raise Failure(f"the input of {file} is {'x'.join(map(str, shape))}, "
                          "but it must be 1 x height x width x 3 (--model-size names a size where the file has none)")
        self.height, self.width = shape[1:3]
        outputs = self.interpreter.get_output_details()
        if not 0 <= description.output < len(outputs):
            raise Failure(f"--model-output {description.output}: {file} has the outputs 0 to {len(outputs) - 1}")
        self.output = outputs[description.output]
        # The first run of a network takes longer than the others.
        with fetch.quiet():
            values = self.run(np.zeros((self.height, self.width, 3), self.tensor_type))
        channels = values.shape[-1]
        if not -channels <= description.channel < channels:
            raise Failure(f"--model-channel {description.channel}: the output has the channels 0 to {channels - 1}")

    def prepare(self, size):
        self.input = self.interpreter.get_input_details()[0]
        if size:
            self.interpreter.resize_tensor_input(self.input["index"], [1, size[1], size[0], 3])
        self.interpreter.allocate_tensors()
        self.input = self.interpreter.get_input_details()[0]

    @property
    def tensor_type(self):
        """Type of cudaletterbox's tensors. Networks of integers take quantised bytes."""
        return np.float32 if self.input["dtype"] == np.float32 else np.uint8

    @property
    def letterbox(self):
        """Properties of cudaletterbox and its output caps."""
        about = self.description
        caps = (f"other/tensors,format=static,num_tensors=1,types={np.dtype(self.tensor_type).name},"
                f"dimensions=(string)3:{self.width}:{self.height}:1")
        scale = (about.high - about.low) / 255
        return f"channel-order={about.order} scale={scale!r} mean=<{-about.low!r}>", caps

    def run(self, tensor):
        if self.input["dtype"] == np.int8:
            tensor = (tensor ^ 0x80).view(np.int8)
        self.interpreter.set_tensor(self.input["index"], tensor[np.newaxis])
        self.interpreter.invoke()
        values = self.interpreter.get_tensor(self.output["index"])
        scale, zero = self.output["quantization"]
        if scale:
            values = (values.astype(np.float32) - zero) * np.float32(scale)
        if values.ndim == 3:
            values = values[..., np.newaxis]
        if values.ndim != 4:
            raise Failure(f"--model-output {self.description.output} has {values.ndim} dimensions: no mask")
        return values[0]

    def probabilities(self, tensor):
        return np.clip(ACTIVATIONS[self.description.activation](self.run(tensor), self.description.channel), 0, 1)

    def mask(self, tensor):
        """Returns bytes, 255 for the subject, or None if the network's output has values that are
        no numbers."""
        mask = self.probabilities(tensor)
        if self.description.mirror:
            # A subject that only one of the two masks shows is usually an error.
            mask = np.sqrt(mask * self.probabilities(np.ascontiguousarray(tensor[:, ::-1]))[:, ::-1])
        if not np.isfinite(mask).all():
            return None
        return (mask * 255 + 0.5).astype(np.uint8)


def mask_error(network, width, height):
    """Usual error of the network's mask in pixels of the frame."""
    return min(max(round(MASK_ERROR * max(width / network.width, height / network.height)), 1), 64)
