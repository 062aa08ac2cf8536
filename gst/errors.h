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
// Why such a setting is refused while frames come.
constexpr char kNoAnalytics[] =
    "cannot be that: the plugin was built with a GStreamer older than 1.26";

// As printf.
std::string printed(const char* format, ...) G_GNUC_PRINTF(1, 2);

}  // namespace gstvf
