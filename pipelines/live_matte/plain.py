"""Models of MediaPipe for any TensorFlow Lite: their own operator becomes a built-in one that does the same.

MediaPipe's networks enlarge by Convolution2DTransposeBias, which LiteRT knows and distributions'
TensorFlow Lite does not. TRANSPOSE_CONV with a bias is the same, with its size given as a tensor.
"""
import struct

from . import Failure, fetch

OPERATOR = b"Convolution2DTransposeBias"


def plain(file):
    """The path of such a model, made of `file` at first use."""
    data = file.read_bytes()
    if OPERATOR not in data:
        return file
    made = fetch.cache() / f"{file.stem}-plain.tflite"
    if not made.exists():
        fetch.litert()
        try:
            import flatbuffers
            from ai_edge_litert import schema_py_generated as schema
        except ImportError as error:
            raise Failure(f"{file} has operators of MediaPipe, and what rewrites them is missing: {error}") from None
        model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
        rewrite(model, schema)
        builder = flatbuffers.Builder(len(data))
        builder.Finish(model.Pack(builder), b"TFL3")
        part = made.with_suffix(".part")
        part.write_bytes(builder.Output())
        part.replace(made)
    return made


def rewrite(model, schema):
    codes = [i for i, code in enumerate(model.operatorCodes) if code.customCode == OPERATOR]
    for i in codes:
        code = model.operatorCodes[i]
        code.customCode = None
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.TRANSPOSE_CONV
        code.version = 3  # with a bias
    for graph in model.subgraphs:
        for operator in graph.operators:
            if operator.opcodeIndex not in codes:
                continue
            image, weights, bias = operator.inputs
            padding, across, down = struct.unpack("<3i", bytes(operator.customOptions)[:12])
            size = schema.BufferT()
            size.data = list(struct.pack("<4i", *graph.tensors[operator.outputs[0]].shape))
            model.buffers.append(size)
            tensor = schema.TensorT()
            tensor.name = b"size of " + graph.tensors[operator.outputs[0]].name
            tensor.shape, tensor.type, tensor.buffer = [4], schema.TensorType.INT32, len(model.buffers) - 1
            graph.tensors.append(tensor)
            operator.inputs = [len(graph.tensors) - 1, weights, image, bias]
            options = schema.TransposeConvOptionsT()
            # TensorFlow Lite counts its paddings from 1 in options of its own, and from 0 in the file.
            options.padding, options.strideW, options.strideH = padding - 1, across, down
            operator.builtinOptionsType = schema.BuiltinOptions.TransposeConvOptions
            operator.builtinOptions, operator.customOptions = options, None
