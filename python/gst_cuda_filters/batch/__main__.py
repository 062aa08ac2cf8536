"""python -m gst_cuda_filters.batch is the same as gst-cuda-filters-batch."""
import sys

from .program import main

sys.exit(main())
