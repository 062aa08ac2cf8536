// The element cudafoo.
#pragma once

#include "gst/base/gstcudavideofilter.h"

G_BEGIN_DECLS
#define GST_TYPE_CUDA_FOO (gst_cuda_foo_get_type())
GType gst_cuda_foo_get_type(void);
GST_ELEMENT_REGISTER_DECLARE(cudafoo)
G_END_DECLS
