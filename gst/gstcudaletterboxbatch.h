// The element cudaletterboxbatch.
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS
#define GST_TYPE_CUDA_LETTERBOX_BATCH (gst_cuda_letterbox_batch_get_type())
GType gst_cuda_letterbox_batch_get_type(void);
GST_ELEMENT_REGISTER_DECLARE(cudaletterboxbatch)
G_END_DECLS
