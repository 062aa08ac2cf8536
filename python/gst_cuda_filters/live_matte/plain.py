"""Rewrites models of MediaPipe for any TensorFlow Lite: replaces their custom operator by an equal
built-in one.

MediaPipe's networks enlarge with Convolution2DTransposeBias, which LiteRT supports but
distributions' TensorFlow Lite does not. TRANSPOSE_CONV with a bias computes the same and takes its
size as a tensor. A model can also be made to mirror its frames itself, for programs that cannot
mirror them.
"""
import copy
import struct

from . import Failure, fetch

OPERATOR = b"Convolution2DTransposeBias"


def plain(file, mirror):
    """Returns the path of such a model, which is made from `file` on first use. With `mirror`, its
    result is the geometric mean of the results for a frame and for the mirrored frame."""
    data = file.read_bytes()
    if OPERATOR not in data and not mirror:
        return file
    made = fetch.cache() / f"{file.stem}-{'mirrored' if mirror else 'plain'}.tflite"
    if not made.exists():
        fetch.litert()
        try:
            import flatbuffers
            from ai_edge_litert import schema_py_generated as schema
        except ImportError as error:
            raise Failure(f"{file} has operators of MediaPipe, and what rewrites them is missing: {error}") from None
        model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
        rewrite(model, schema)
        if mirror:
            add_mirrored(model, schema)
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
            large = graph.tensors[operator.outputs[0]]
            size = add_tensor(model, graph, b"size of " + large.name, [4], schema.TensorType.INT32,
                              struct.pack("<4i", *large.shape))
            operator.inputs = [size, weights, image, bias]
            options = schema.TransposeConvOptionsT()
            # TensorFlow Lite counts its paddings from 1 in options of its own, and from 0 in the file.
            options.padding, options.strideW, options.strideH = padding - 1, across, down
            operator.builtinOptionsType = schema.BuiltinOptions.TransposeConvOptions
            operator.builtinOptions, operator.customOptions = options, None


def add_mirrored(model, schema):
    """Doubles the operators of a network with one input and one output. Both halves share the weights."""
    graph = model.subgraphs[0]
    (source,), (result,) = graph.inputs, graph.outputs
    code = {name: add_code(model, getattr(schema.BuiltinOperator, name)) for name in ("REVERSE_V2", "MUL", "SQRT")}
    axis = add_tensor(model, graph, b"columns", [1], schema.TensorType.INT32, struct.pack("<i", 2))

    def another(index, name):
        return add_tensor(model, graph, name, graph.tensors[index].shape, graph.tensors[index].type)

    def apply(operator, inputs, output, options=None):
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = code[operator], inputs, [output]
        if options:
            made.builtinOptions = options
            made.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__[:-1])
        graph.operators.append(made)
        return output

    twin = {source: another(source, b"mirrored frame")}
    straight = list(graph.operators)
    apply("REVERSE_V2", [source, axis], twin[source], schema.ReverseV2OptionsT())
    for operator in straight:
        for index in operator.outputs:
            twin[index] = another(index, graph.tensors[index].name + b", mirrored")
        mirrored = copy.copy(operator)
        mirrored.inputs = [twin.get(index, index) for index in operator.inputs]
        mirrored.outputs = [twin[index] for index in operator.outputs]
        graph.operators.append(mirrored)
    back = apply("REVERSE_V2", [twin[result], axis], another(result, b"mirrored back"), schema.ReverseV2OptionsT())
    product = apply("MUL", [result, back], another(result, b"product"), schema.MulOptionsT())
    # Users of the model find the result by its name.
    mean = another(result, graph.tensors[result].name)
    graph.tensors[result].name += b", straight"
    graph.outputs = [apply("SQRT", [product], mean)]
    for signature in model.signatureDefs or []:
        for output in signature.outputs:
            output.tensorIndex = mean


def add_code(model, code):
    about = model.operatorCodes[0].__class__()
    about.builtinCode, about.deprecatedBuiltinCode, about.version = code, min(code, 127), 1
    model.operatorCodes.append(about)
    return len(model.operatorCodes) - 1


def add_tensor(model, graph, name, shape, kind, data=None):
    tensor = graph.tensors[0].__class__()
    tensor.name, tensor.shape, tensor.type = name, list(shape), kind
    if data:
        buffer = model.buffers[0].__class__()
        buffer.data = list(data)
        model.buffers.append(buffer)
        tensor.buffer = len(model.buffers) - 1
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1
