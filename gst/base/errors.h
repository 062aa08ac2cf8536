// Turns errors of the filter library into error messages of elements, and makes the texts of
// messages.
#pragma once

#include <gst/gst.h>

#include <string>

#include "filters/status.h"

namespace gstvf {

// Makes the details of a message that is not about a setting. All errors and warnings have the
// field `reason`: "setting", "caps", "frame", "mask", "passthrough", "memory" or "device".
GstStructure* reason_details(const char* reason);
// Makes the details of a message about a setting: `reason`, `property` (string), `value` (in the
// property's type; enums and flags as a string), `allowed` (string) and, if the property has a
// range of numbers, `minimum` and `maximum`. `allowed` may be the text of a refusal: the part
// behind its last "must be" or "Use" is taken.
GstStructure* setting_details(const GParamSpec* spec, const GValue* value,
                              const std::string& allowed);
// Makes the same details with the current value of a property of an element or a pad.
GstStructure* setting_details(gpointer object, const char* property, const std::string& allowed);
// Prints the value of a property for messages: "4", "reflect-101", "luma+chroma".
std::string setting_text(const GParamSpec* spec, const GValue* value);
// Returns the property that a text of the filter library is about: the text begins with its name.
// Returns null if `object` has no such property.
GParamSpec* property_named_by(gpointer object, const char* text);

// Warns that a property keeps the value `former`, because `why` ("size=4 is not allowed: it must be
// odd"). Posts a warning message, or logs a GLib warning if the element has no bus that an
// application could read. For a property of a pad, `pad` names the pad, which the details then have
// as the field `pad`. Takes no lock of the element while it posts. Any thread may call it.
void post_setting_kept(GstElement* element, const GParamSpec* spec, const GValue* value,
                       const GValue* former, const std::string& why, const char* pad = nullptr);

// Posts another warning message about a property, with its current value in the details. If there
// is a `pad`, the property is the pad's, and the details have its name.
void post_setting_warning(GstElement* element, const char* property, const char* text,
                          const char* allowed, GstPad* pad = nullptr);

// Holds an error message without its element. The strings are GLib's, since std::string would throw
// when there is no memory left.
struct ErrorText {
  GQuark domain = 0;
  gint code = 0;
  gchar *text = nullptr, *debug = nullptr;  // owned; debug may be null
  GstStructure* details = nullptr;          // owned; may be null
};
// Says what went wrong and what the user can do. The text is null if the status is ok.
ErrorText error_text(GstElement* element, const vf::Status& status);
// Says that `settings`, which are values of `property`, need GStreamer's analytics library, and
// that this build is without it.
ErrorText no_analytics(GstElement* element, const char* property, const char* settings);
// Posts the error and frees it, or only frees it. Any thread may call them.
void post_error(GstElement* element, ErrorText error);
void clear_error(ErrorText error);
// Posts nothing if the status is ok.
void post_error(GstElement* element, const vf::Status& status);
// Says why `filter`, a GstBaseTransform, refuses a setting that needs the analytics library.
// Returns an empty string before there are caps: set_caps posts an error then.
const char* why_no_analytics(GObject* filter);

// Formats like printf.
std::string printed(const char* format, ...) G_GNUC_PRINTF(1, 2);

}  // namespace gstvf
