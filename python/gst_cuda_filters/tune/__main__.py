"""python -m gst_cuda_filters.tune is the same as gst-cuda-filters-tune."""
import sys

from .program import main

sys.argv[0] = "gst-cuda-filters-tune"
sys.exit(main())
