// The element cudamedian.
#pragma once

#include "gst/base/gstcudavideofilter.h"

G_BEGIN_DECLS
#define GST_TYPE_CUDA_MEDIAN (gst_cuda_median_get_type())
GType gst_cuda_median_get_type(void);
GST_ELEMENT_REGISTER_DECLARE(cudamedian)
G_END_DECLS
