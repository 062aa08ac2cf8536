// The element cudadenoise.
#pragma once

#include "gst/base/gstcudavideofilter.h"

G_BEGIN_DECLS
#define GST_TYPE_CUDA_DENOISE (gst_cuda_denoise_get_type())
GType gst_cuda_denoise_get_type(void);
GST_ELEMENT_REGISTER_DECLARE(cudadenoise)
G_END_DECLS
