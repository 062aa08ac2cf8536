#!/usr/bin/env python3
"""Starts gst_cuda_filters.tune from the source tree. docs/tune.md describes it."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from gst_cuda_filters.tune.program import main  # noqa: E402

main(ROOT / "build" / "gst", ROOT / "gst" / "presets")
