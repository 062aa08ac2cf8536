// Errors of the filter library as error messages of elements, and texts for messages.
#pragma once

#include <gst/gst.h>

#include <string>

#include "filters/status.h"

namespace gstvf {

// Messages about a setting have these details: `property` (string), `value` (of the property's
// type; enums and flags as a string), `allowed` (string) and, where numbers have a range, `minimum`
// and `maximum`. `allowed` may be a text of a refusal: what it says behind "must be" is taken.
GstStructure* setting_details(const GParamSpec* spec, const GValue* value,
                              const std::string& allowed);
// The same with the value that the property has now.
GstStructure* setting_details(GstElement* element, const char* property,
                              const std::string& allowed);
// The property that a text of the filter library is about: its name is the first word. Null where
// that is no property of `object`.
GParamSpec* property_named_by(gpointer object, const char* text);

// Says that a property keeps the value `former`, because `why` ("size is 4: must be odd"): in a
// warning message or, where no bus would take it to the application, as a warning of GLib. Takes no
// lock of the element while it posts. Any thread.
void post_setting_kept(GstElement* element, const GParamSpec* spec, const GValue* value,
                       const GValue* former, const std::string& why);

// Says something else of a property, in a warning message with its value.
void post_setting_warning(GstElement* element, const char* property, const char* text,
                          const char* allowed);

// An error message that is complete but for its element. Made with GLib's memory: it may say that
// there is none left.
struct ErrorText {
  GQuark domain = 0;
  gint code = 0;
  gchar *text = nullptr, *debug = nullptr;  // owned; debug may be null
  GstStructure* details = nullptr;          // owned; may be null
};
// What went wrong and what the user can do. Its text is null for ok.
ErrorText error_text(GstElement* element, const vf::Status& status);
// That `settings`, values of `property`, need what GStreamer's analytics library has, which this
// build is without.
ErrorText no_analytics(GstElement* element, const char* property, const char* settings);
// Post it, or not, and free it. Any thread.
void post_error(GstElement* element, ErrorText error);
void clear_error(ErrorText error);
// Nothing for ok.
void post_error(GstElement* element, const vf::Status& status);
// Why `filter`, a GstBaseTransform, refuses such a setting while frames come; empty before.
const char* why_no_analytics(GObject* filter);

// As printf.
std::string printed(const char* format, ...) G_GNUC_PRINTF(1, 2);

}  // namespace gstvf
