"""Runs TensorFlow Lite networks in LiteRT."""
import numpy as np

from . import Failure, fetch
from .network import Network, channels_last


class LiteRtNetwork(Network):
    #: Masks of the small networks of this kind err less if a frame is also shown mirrored.
    KNOWN = {"mirror": True}

    def __init__(self, file, description, size, threads):
        self.description = description.complete(self.KNOWN)
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
        # Networks of integers take quantised bytes.
        self.tensor_type = np.float32 if self.input["dtype"] == np.float32 else np.uint8
        self.outputs = self.interpreter.get_output_details()
        # The first run of a network takes longer than the others.
        with fetch.quiet():
            self.check(file, len(self.outputs), lambda: self.run(np.zeros(self.shape, self.tensor_type), False))

    def prepare(self, size):
        self.input = self.interpreter.get_input_details()[0]
        if size:
            self.interpreter.resize_tensor_input(self.input["index"], [1, size[1], size[0], 3])
        self.interpreter.allocate_tensors()
        self.input = self.interpreter.get_input_details()[0]

    def run(self, tensor, mirrored):
        tensor = np.asarray(tensor)
        if self.input["dtype"] == np.int8:
            tensor = (tensor ^ 0x80).view(np.int8)
        self.interpreter.set_tensor(self.input["index"], tensor)
        self.interpreter.invoke()
        output = self.outputs[self.description.output]
        values = self.interpreter.get_tensor(output["index"])
        scale, zero = output["quantization"]
        if scale:
            values = (values.astype(np.float32) - zero) * np.float32(scale)
        found = channels_last(values, False)
        if found is None:
            raise Failure(f"--model-output {self.description.output} is {'x'.join(map(str, values.shape))}: no mask")
        return found
