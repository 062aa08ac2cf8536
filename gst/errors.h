// Errors of the filter library as error messages of elements.
#pragma once

#include <gst/gst.h>

#include "filters/status.h"

namespace gstvf {

// Posts an error message that says what went wrong and what the user can do; nothing for ok.
// Any thread.
void post_error(GstElement* element, const vf::Status& status);

}  // namespace gstvf
