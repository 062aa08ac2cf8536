// The element cudaletterboxrestore.
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS
#define GST_TYPE_CUDA_LETTERBOX_RESTORE (gst_cuda_letterbox_restore_get_type())
GType gst_cuda_letterbox_restore_get_type(void);
GST_ELEMENT_REGISTER_DECLARE(cudaletterboxrestore)
G_END_DECLS
