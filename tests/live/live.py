"""Tests gst-cuda-live-matte: live.py PART [CASE...]. live.sh runs it."""
import importlib
import sys

import common  # noqa: F401 - it finds the harness
from harness import run

PARTS = {"program": ["basics", "devices", "files", "outputs", "timing"],
         "networks": ["models", "onnxmodels", "quality"]}

for name in PARTS[sys.argv.pop(1)]:
    importlib.import_module(name)  # for its cases
run()
