"""The page that tunes this plugin's elements in a running pipeline, and the program gst-cuda-filters-tune.

It takes PyGObject and Python's standard library. gst-cuda-live-matte --page serves the same page.
"""
from .._program import Failure

__all__ = ["Failure"]
