"""Describes segmentation networks: what they are shown, and how their output becomes a mask."""
import dataclasses
import pathlib
import re

import numpy as np

from . import Failure, fetch


@dataclasses.dataclass
class Description:
    """Properties of a model that its file does not contain. None stands for the default, which the network itself
    may know (Network.KNOWN)."""

    range: tuple = None  #: the input's values for black and white
    mean: tuple = None  #: mean and standard deviation of the input's channels, from 0 to 1, instead of a range
    std: tuple = None
    order: str = None  #: the order of the input's channels
    fit: str = None  #: frames are stretched to the input's size, or keep their aspect (letterbox)
    output: int = None  #: the number of the output with the mask
    channel: tuple = None  #: the numbers or classes of its channels whose sum is the mask; -1: the last
    classes: tuple = None  #: the names of its channels
    activation: str = None  #: the function that turns the output into probabilities
    mirror: bool = None  #: also show the network each frame mirrored

    def complete(self, known):
        """Returns the description with `known` and the defaults where it says nothing. with_channels() completes what
        is about the output's channels."""
        defaults = {"range": (0.0, 1.0), "order": "rgb", "fit": "stretch", "output": 0, "mirror": False, **known}
        return dataclasses.replace(self, **{name: value for name, value in defaults.items()
                                            if getattr(self, name) is None})

    def with_channels(self, values=None):
        """Returns the description with the channels' numbers and the activation. `values` are an output's, if one
        has been seen."""
        count = None if values is None else values.shape[-1]
        classes = self.classes
        if classes and count not in (None, len(classes)):
            raise Failure(f"--model-classes names {len(classes)} classes, and the output has {count} channels")
        if not classes and count == len(PERSON) and any(isinstance(each, str) for each in self.channel or PERSON):
            classes = PERSON
        chosen = self.channel or (tuple(name for name in classes if name != BACKGROUND) if classes else (-1,))
        unknown = [each for each in chosen if isinstance(each, str) and each not in (classes or ())]
        if unknown:
            raise Failure(f"--model-channel {unknown[0]}: " + (f"the classes are {', '.join(classes)}" if classes else
                          "the output's channels have no names (--model-classes NAME,NAME,...)"))
        channel = tuple(dict.fromkeys(classes.index(each) if isinstance(each, str) else each for each in chosen))
        beyond = [each for each in channel if count and not -count <= each < count]
        if beyond:
            raise Failure(f"--model-channel {beyond[0]}: the output has the channels 0 to {count - 1}")
        activation = self.activation
        if not activation:
            logits = classes and values is not None and not are_shares(values)
            activation = "softmax" if logits else "none"
        return dataclasses.replace(self, channel=channel, classes=classes, activation=activation)


# A mask's edge usually has an error of this many pixels of the network.
MASK_ERROR = 1.5

# The classes of MediaPipe's network for a person's parts, by the names of its documentation.
BACKGROUND = "background"
PERSON = BACKGROUND, "hair", "body-skin", "face-skin", "clothes", "others"


def softmax(values):
    values = np.exp(values - values.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


ACTIVATIONS = {
    "none": lambda values: values,
    "sigmoid": lambda values: 1 / (1 + np.exp(-np.clip(values, -80, 80))),
    "softmax": softmax,
}


def are_shares(values):
    """Returns whether the classes' values are shares of 1, and not logits."""
    return values.min() > -0.01 and np.abs(values.sum(axis=-1) - 1).max() < 0.05


def channels_last(values, first):
    """Returns an output as height x width x channels, or None if it is no picture. Of a picture's sides, the shortest
    one is the channels'. `first` says where they are in a cube."""
    if values.ndim not in (3, 4) or values.shape[0] != 1:
        return None
    values = values[0]
    if values.ndim == 2:
        return values[..., np.newaxis]
    if values.shape[0] != values.shape[2]:
        first = values.shape[0] < values.shape[2]
    return values.transpose(1, 2, 0) if first else values


def load(file, description, size, threads, backend="auto"):
    """Opens a network's file with the library that runs it."""
    if pathlib.Path(file).suffix.lower() == ".onnx":
        from .onnxnetwork import OnnxNetwork
        return OnnxNetwork(file, description, size, threads, backend)
    from .litert import LiteRtNetwork
    return LiteRtNetwork(file, description, size, threads)


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
        description = description.with_channels()
        channel = f'mask-label={",".join(map(str, description.channel))}' if min(description.channel) >= 0 else ""
        self.matte = f"mask=tensor mask-tensor={description.output} {channel} " \
                     f"mask-activation={description.activation} mask-hold-ms=1000 mask-missing=transparent"

    def fit(self, width, height):
        """Its size is fixed."""


class Network:
    """Takes tensors that cudaletterbox makes and returns masks of bytes. Each library has a subclass."""

    tensor_type = np.float32  #: element type of cudaletterbox's tensors
    channels_first = False  #: whether tensors are 3 x height x width, or height x width x 3
    on_device = False  #: whether tensors stay in CUDA memory
    open = False  #: whether the network takes frames of any size, so that fit() chooses width and height
    width = height = 0

    def check(self, file, outputs, values):
        """Checks the number of the output, and finds its channels. `values` are of a first run."""
        about = self.description
        if not 0 <= about.output < outputs:
            raise Failure(f"--model-output {about.output}: {file} has the outputs 0 to {outputs - 1}")
        about = self.description = about.with_channels(values())
        if about.classes:
            fetch.say(f"The network's classes are {', '.join(about.classes)}, and the subject is "
                      f"{' + '.join(about.classes[each] for each in about.channel)}.")

    def fit(self, width, height):
        """Chooses the input's size for frames of this size, if it is open."""

    def takes(self, shape):
        """Returns whether a tensor of this shape is meant for the network."""
        return self.open or tuple(shape) == self.shape

    def size_of(self, shape):
        """Returns width and height of a tensor."""
        return (shape[3], shape[2]) if self.channels_first else (shape[2], shape[1])

    @property
    def shape(self):
        return (1, 3, self.height, self.width) if self.channels_first else (1, self.height, self.width, 3)

    @property
    def letterbox(self):
        """Properties of cudaletterbox and its output caps."""
        about = self.description
        memory = "(memory:CUDAMemory)" if self.on_device else ""
        dimensions = ":".join(map(str, reversed(self.shape)))
        caps = (f"other/tensors{memory},format=static,num_tensors=1,types={np.dtype(self.tensor_type).name},"
                f"dimensions=(string){dimensions}")
        if about.mean or about.std:
            mean, std = about.mean or (0.0,) * 3, about.std or (1.0,) * 3
            values = f"scale={1 / 255!r} mean=<{','.join(map(repr, mean))}> std=<{','.join(map(repr, std))}>"
        else:
            low, high = about.range
            values = f"scale={(high - low) / 255!r} mean=<{-low!r}>"
        return f"channel-order={about.order} {values}", caps

    def run(self, tensor, mirrored):
        """Returns the output as an array of height x width x channels. `mirrored` says which of the two ways to
        look at the frame this is."""
        raise NotImplementedError

    def restart(self):
        """Forgets the earlier frames."""

    def shares(self, tensor, mirrored):
        """Returns the subject's probabilities, which may lie a little outside of 0 to 1."""
        values = ACTIVATIONS[self.description.activation](self.run(tensor, mirrored))
        first, *others = self.description.channel
        return values[..., [first, *others]].sum(axis=-1) if others else values[..., first]

    def mask(self, tensor):
        """Returns bytes, 255 for the subject, or None if the network's output has values that are
        no numbers."""
        mask = self.shares(tensor, False)
        if self.description.mirror:
            columns = (..., slice(None, None, -1)) if self.channels_first else (..., slice(None, None, -1), slice(None))
            turned = np.ascontiguousarray(np.asarray(tensor)[columns])
            # A subject that only one of the two masks shows is usually an error.
            mask = np.sqrt(np.clip(mask, 0, 1) * np.clip(self.shares(turned, True)[:, ::-1], 0, 1))
        return as_bytes(mask)


def as_bytes(mask):
    """Returns a mask of numbers from 0 to 1 as bytes, or None if some are no numbers."""
    made = np.empty(mask.shape, np.uint8)
    rows = max(65536 // mask.shape[1], 1)  # so many fit the processor's cache
    for i in range(0, len(mask), rows):
        part = np.clip(mask[i:i + rows], 0, 1)
        if np.isnan(part).any():
            return None
        part *= 255
        part += 0.5
        made[i:i + rows] = part
    return made


def mask_error(network, width, height):
    """Usual error of the network's mask in pixels of the frame."""
    return min(max(round(MASK_ERROR * max(width / network.width, height / network.height)), 1), 64)
