// The element cudaguidedmatte.
#pragma once

#include "gst/base/gstcudavideofilter.h"

G_BEGIN_DECLS
#define GST_TYPE_CUDA_GUIDED_MATTE (gst_cuda_guided_matte_get_type())
GType gst_cuda_guided_matte_get_type(void);
GST_ELEMENT_REGISTER_DECLARE(cudaguidedmatte)
G_END_DECLS
