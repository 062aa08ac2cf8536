#!/usr/bin/env python3
"""Runs the Python examples as users do."""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

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
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=400,
    )
    return done.returncode, done.stdout, done.stderr


def succeeds(name, words):
    code, out, errors = example(name)
    assert code == 0 and words in out, (code, out, errors)
    names_a_missing_file(name)


def names_a_missing_file(name):
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


def balls(line, width):
    """Returns the boxes of what has the colour of the ball's box, or of the ball, in each frame."""
    import numpy as np

    frames = np.frombuffer(line, np.uint8).reshape(-1, 120, width, 3).astype(int)
    for frame in frames:
        red, green, blue = frame[..., 0], frame[..., 1], frame[..., 2]
        y, x = np.nonzero((green > 200) & (red < 100) & (blue < 100))
        if not len(x):
            y, x = np.nonzero(green > 128)
        yield np.array([x.min(), y.min(), x.max(), y.max()])


def detects_in_batches(name):
    os.environ["VIEW"] = "fakesink"
    names_a_missing_file(name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VIEW"] = f"video/x-raw,format=RGB ! filesink location={folder}/%d"
        code, _, errors = example(name)
        assert code == 0, (code, errors)
        for i, width in enumerate(range(160, 480, 40)):
            # The box that is drawn is that of the ball, up to one pixel of the network.
            truth = os.path.join(folder, "truth")
            pipeline = Gst.parse_launch(
                f"videotestsrc num-buffers=30 pattern=ball ! video/x-raw,format=I420,width={width},height=120 "
                f"! videoconvert ! video/x-raw,format=RGB ! filesink location={truth}")
            pipeline.set_state(Gst.State.PLAYING)
            pipeline.get_bus().timed_pop_filtered(Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS)
            pipeline.set_state(Gst.State.NULL)
            pairs = []
            for path in (os.path.join(folder, str(i)), truth):
                with open(path, "rb") as file:
                    pairs.append(list(balls(file.read(), width)))
            assert len(pairs[0]) == 30, len(pairs[0])
            for k, (drawn, ball) in enumerate(zip(*pairs)):
                assert abs(drawn - ball).max() <= width / 160 + 1, (i, k, drawn, ball)


@case()
def batches_with_pytorch():
    has("torch", "numpy")
    detects_in_batches("batch_detect.py")


@case()
def batches_with_onnx_runtime():
    has("onnx", "onnxruntime", "numpy")
    detects_in_batches("batch_onnx.py")


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
        capture_output=True, text=True, timeout=400,
    )
    lines = done.stdout.split("\n")[:-1]
    assert done.returncode == 0 and len(lines) == 100, (done.returncode, len(lines), done.stderr)
    assert len(set(lines)) > 50, lines


run()
