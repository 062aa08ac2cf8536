"""The program gst-cuda-live-matte, one idea per file. It takes PyGObject and NumPy."""
import sys

from .._program import Failure, need, running_time

try:
    import numpy  # noqa: F401
except ImportError as error:
    sys.exit(f"{error}. {need('python3-numpy')}")

__all__ = ["Failure", "running_time"]
