// The element cudagaussian.
#pragma once

#include "gst/base/gstcudavideofilter.h"

G_BEGIN_DECLS
#define GST_TYPE_CUDA_GAUSSIAN (gst_cuda_gaussian_get_type())
GType gst_cuda_gaussian_get_type(void);
GST_ELEMENT_REGISTER_DECLARE(cudagaussian)
G_END_DECLS
