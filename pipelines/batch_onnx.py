#!/usr/bin/env python3
"""Does what batch_detect.py does, with ONNX Runtime on the CPU as the detector.

    GST_PLUGIN_PATH=build/gst PYTHONPATH=python pipelines/batch_onnx.py [FILE...]

The network is written below. To use one of a file, give its name to InferenceSession.

Needs python3-gi, NumPy, onnx and onnxruntime.
"""
import sys

import batch_detect
import numpy as np
import onnx.parser
import onnxruntime

BALL = """<ir_version: 8, opset_import: ["": 18]>
ball (float[N,3,H,W] images) => (int64[N,4] boxes, float[N] found) {
  half = Constant <value_float: float = 0.5> ()
  one = Constant <value_ints: ints = [1]> ()
  two = Constant <value_ints: ints = [2]> ()
  brightest = ReduceMax <keepdims: int = 0> (images, one)
  is_bright = Greater (brightest, half)
  bright = Cast <to: int = 1> (is_bright)
  columns = ReduceMax <keepdims: int = 0> (bright, one)
  rows = ReduceMax <keepdims: int = 0> (bright, two)
  left = ArgMax <axis: int = 1> (columns)
  top = ArgMax <axis: int = 1> (rows)
  last_column = ArgMax <axis: int = 1, select_last_index: int = 1> (columns)
  last_row = ArgMax <axis: int = 1, select_last_index: int = 1> (rows)
  right = Add (last_column, one)
  bottom = Add (last_row, one)
  boxes = Concat <axis: int = 1> (left, top, right, bottom)
  found = ReduceMax <keepdims: int = 0> (rows, one)
}"""

session = onnxruntime.InferenceSession(onnx.parser.parse_model(BALL).SerializeToString(),
                                       providers=["CPUExecutionProvider"])


def detect(tensor):
    boxes, found = session.run(None, {"images": np.asarray(tensor)})
    return [[box] if seen else [] for box, seen in zip(boxes, found)]


batch_detect.main(sys.argv[1:], detect)
