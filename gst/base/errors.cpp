#include "gst/base/errors.h"

#include <gst/base/gstbasetransform.h>

#include <cstdarg>

GST_DEBUG_CATEGORY_EXTERN(gst_cuda_video_filter_debug);
#define GST_CAT_DEFAULT gst_cuda_video_filter_debug

namespace gstvf {

void post_no_analytics(GstElement* element, const char* settings) {
  GST_ELEMENT_ERROR(element, LIBRARY, SETTINGS,
                    ("%s need a plugin built with GStreamer 1.26 or newer, and its analytics "
                     "library. This one was built with %d.%d.",
                     settings, GST_VERSION_MAJOR, GST_VERSION_MINOR),
                    (nullptr));
}

const char* why_no_analytics(GObject* filter) {
  return gst_pad_has_current_caps(GST_BASE_TRANSFORM_SINK_PAD(filter))
             ? "cannot be that: the plugin was built with a GStreamer older than 1.26"
             : "";
}

void post_error(GstElement* element, const vf::Status& status) {
  switch (status.code()) {
    case vf::Code::ok:
      break;
    case vf::Code::invalid_argument:
      GST_ELEMENT_ERROR(element, LIBRARY, SETTINGS, ("Cannot filter: %s.", status.message()),
                        (nullptr));
      break;
    case vf::Code::unsupported:
      GST_ELEMENT_ERROR(element, LIBRARY, SETTINGS, ("Cannot filter: %s.", status.message()),
                        ("backend=cpu or backend=auto may be able to"));
      break;
    case vf::Code::out_of_memory:
      GST_ELEMENT_ERROR(element, RESOURCE, NO_SPACE_LEFT,
                        ("Out of memory: %s. Smaller frames, fewer queued buffers or backend=cpu "
                         "need less.",
                         status.message()),
                        (nullptr));
      break;
    case vf::Code::no_device:
      GST_ELEMENT_ERROR(element, RESOURCE, NOT_FOUND,
                        ("No usable CUDA device: %s. Use backend=cpu or backend=auto to filter on "
                         "the CPU.",
                         status.message()),
                        (nullptr));
      break;
    case vf::Code::device_error:
      GST_ELEMENT_ERROR(
          element, RESOURCE, FAILED,
          ("CUDA failed: %s. Set the pipeline to READY and to PLAYING to start again.",
           status.message()),
          (nullptr));
      break;
  }
}

std::string printed(const char* format, ...) {
  va_list args;
  va_start(args, format);
  gchar* text = g_strdup_vprintf(format, args);
  va_end(args);
  const std::string result = text;
  g_free(text);
  return result;
}

}  // namespace gstvf
