// The element cudapixelate.
#pragma once

#include "gst/base/gstcudavideofilter.h"

G_BEGIN_DECLS
#define GST_TYPE_CUDA_PIXELATE (gst_cuda_pixelate_get_type())
GType gst_cuda_pixelate_get_type(void);
GST_ELEMENT_REGISTER_DECLARE(cudapixelate)
G_END_DECLS
