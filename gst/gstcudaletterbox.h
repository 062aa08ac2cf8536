// The element cudaletterbox.
#pragma once

#include "gst/base/gstcudavideofilter.h"

G_BEGIN_DECLS
#define GST_TYPE_CUDA_LETTERBOX (gst_cuda_letterbox_get_type())
GType gst_cuda_letterbox_get_type(void);
GST_ELEMENT_REGISTER_DECLARE(cudaletterbox)
G_END_DECLS
