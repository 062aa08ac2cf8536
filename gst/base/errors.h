// Errors of the filter library as error messages of elements, and texts for messages.
#pragma once

#include <gst/gst.h>

#include <string>

#include "filters/status.h"

namespace gstvf {

// Posts an error message that says what went wrong and what the user can do; nothing for ok.
// Any thread.
void post_error(GstElement* element, const vf::Status& status);

// Posts that `settings` need what GStreamer's analytics library has, which this build is without.
void post_no_analytics(GstElement* element, const char* settings);
// Why `filter`, a GstBaseTransform, refuses such a setting while frames come; empty before.
const char* why_no_analytics(GObject* filter);

// As printf.
std::string printed(const char* format, ...) G_GNUC_PRINTF(1, 2);

}  // namespace gstvf
