// The element cudaletterboxunbatch.
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS
#define GST_TYPE_CUDA_LETTERBOX_UNBATCH (gst_cuda_letterbox_unbatch_get_type())
GType gst_cuda_letterbox_unbatch_get_type(void);
GST_ELEMENT_REGISTER_DECLARE(cudaletterboxunbatch)
G_END_DECLS
