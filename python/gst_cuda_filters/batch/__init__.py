"""The program gst-cuda-filters-batch: many clips through one pipeline."""
