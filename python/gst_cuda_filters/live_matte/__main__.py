"""python -m gst_cuda_filters.live_matte is the same as gst-cuda-live-matte."""
import sys

from .program import main

sys.argv[0] = "gst-cuda-live-matte"
main()
