#!/usr/bin/env python3
"""Runs the Python examples as users do."""
import importlib.util
import os
import re
import subprocess
import sys

from harness import Skip, case, load_gst, run

Gst = load_gst()
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def has(*modules):
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        raise Skip(f"{', '.join(missing)} not there")


def example(name, *arguments):
    path = os.path.join(ROOT, "python")
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "pipelines", name), *arguments],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=100,
    )
    return done.returncode, done.stdout, done.stderr


def succeeds(name, words):
    code, out, errors = example(name)
    assert code == 0 and words in out, (code, out, errors)
    code, out, errors = example(name, "/nonexistent")
    assert code != 0 and "not found" in errors and "Traceback" not in errors, (code, out, errors)


@case()
def numpy_filter():
    has("numpy")
    succeeds("python_numpy.py", "50 frames")


@case()
def regions():
    succeeds("regions.py", "50 regions")


@case()
def pytorch_detector():
    has("torch")
    succeeds("python_torch.py", "50 boxes in 50 frames")


@case()
def batches_of_streams():
    has("numpy")
    os.environ["SINK"] = "fakesink"
    succeeds("batch_detect.py", "240 boxes in 8 streams")


@case()
def cupy_kernel():
    has("cupy", "numpy")
    if not Gst.ElementFactory.find("cudaupload"):
        raise Skip("GStreamer's nvcodec has no elements here: no GPU")
    succeeds("python_cupy.py", "50 frames")


@case()
def lines_of_the_readme():
    has("torch")
    with open(os.path.join(ROOT, "README.md")) as readme:
        (code,) = re.findall(r"^```python\n(.*?)^```", readme.read(), re.M | re.S)
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")},
        capture_output=True, text=True, timeout=100,
    )
    lines = done.stdout.split("\n")[:-1]
    assert done.returncode == 0 and len(lines) == 100, (done.returncode, len(lines), done.stderr)
    assert len(set(lines)) > 50, lines


run()
