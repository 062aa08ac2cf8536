#!/usr/bin/env python3
"""Starts gst_cuda_filters.live_matte from the source tree. docs/replace-backgrounds.md describes it."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from gst_cuda_filters.live_matte.program import main  # noqa: E402

main(ROOT / "build" / "gst")
