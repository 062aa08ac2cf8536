#include "gst/base/errors.h"

#include <gst/base/gstbasetransform.h>

#include <cstdarg>
#include <cstring>

#include "gst/base/properties.h"

GST_DEBUG_CATEGORY_EXTERN(gst_cuda_video_filter_debug);
#define GST_CAT_DEFAULT gst_cuda_video_filter_debug

namespace gstvf {
namespace {

// Returns the property's name if the text is about a property.
std::string first_word(const char* text) {
  size_t length = 0;
  while (g_ascii_islower(text[length]) || text[length] == '-') length++;
  return {text, length};
}

// Sets the fields `minimum` and `maximum` for a property of numbers: to the property's own range or,
// if that has no end, to the one in the text `allowed`.
void set_range(GstStructure* details, const GParamSpec* spec, const std::string& allowed) {
  const auto set = [&](GType type, auto min, auto max) {
    gst_structure_set(details, "minimum", type, min, "maximum", type, max, nullptr);
  };
  if (G_IS_PARAM_SPEC_INT(spec))
    set(G_TYPE_INT, G_PARAM_SPEC_INT(spec)->minimum, G_PARAM_SPEC_INT(spec)->maximum);
  if (G_IS_PARAM_SPEC_UINT(spec))
    set(G_TYPE_UINT, G_PARAM_SPEC_UINT(spec)->minimum, G_PARAM_SPEC_UINT(spec)->maximum);
  if (!G_IS_PARAM_SPEC_DOUBLE(spec)) return;
  const GParamSpecDouble* own = G_PARAM_SPEC_DOUBLE(spec);
  if (own->minimum > -G_MAXDOUBLE && own->maximum < G_MAXDOUBLE)
    return set(G_TYPE_DOUBLE, own->minimum, own->maximum);
  // The real range depends on the frames or on other properties.
  char* end = nullptr;
  const double min = g_ascii_strtod(allowed.c_str(), &end);
  if (end == allowed.c_str() || !g_str_has_prefix(end, " to ")) return;
  const char* second = end + strlen(" to ");
  const double max = g_ascii_strtod(second, &end);
  if (end != second) set(G_TYPE_DOUBLE, min, max);
}

// Returns the part of a refusal that says what is allowed, or all of it if it does not say so.
std::string allowed_in(const std::string& refusal) {
  for (const char* marker : {"Use ", "must be "}) {
    const size_t at = refusal.rfind(marker);
    if (at != std::string::npos) return refusal.substr(at + strlen(marker));
  }
  return refusal;
}

void warn(GstElement* element, const char* text, GstStructure* details) {
  gst_element_message_full_with_details(element, GST_MESSAGE_WARNING, GST_LIBRARY_ERROR,
                                        GST_LIBRARY_ERROR_SETTINGS, g_strdup(text), nullptr,
                                        __FILE__, GST_FUNCTION, __LINE__, details);
}

}  // namespace

std::string setting_text(const GParamSpec* spec, const GValue* value) {
  if (G_IS_PARAM_SPEC_ENUM(spec)) {
    const GEnumValue* e =
        g_enum_get_value(G_PARAM_SPEC_ENUM(spec)->enum_class, g_value_get_enum(value));
    return e ? e->value_nick : "?";
  }
  if (G_IS_PARAM_SPEC_FLAGS(spec)) {
    std::string text;
    const GFlagsClass* flags = G_PARAM_SPEC_FLAGS(spec)->flags_class;
    for (guint i = 0; i < flags->n_values; i++)
      if (g_value_get_flags(value) & flags->values[i].value)
        text += (text.empty() ? "" : "+") + std::string(flags->values[i].value_nick);
    return text.empty() ? "none" : text;
  }
  if (G_VALUE_HOLDS_STRING(value)) {
    const char* text = g_value_get_string(value);
    return text && *text ? text : "empty";
  }
  if (G_VALUE_HOLDS_DOUBLE(value)) return printed("%g", g_value_get_double(value));
  g_autofree gchar* text = gst_value_serialize(value);
  return text ? text : "?";
}

GstStructure* reason_details(const char* reason) {
  return gst_structure_new("details", "reason", G_TYPE_STRING, reason, nullptr);
}

GstStructure* setting_details(const GParamSpec* spec, const GValue* value,
                              const std::string& allowed) {
  // If another property is the reason, the user needs the whole text.
  const std::string must_be =
      first_word(allowed.c_str()) == spec->name ? allowed_in(allowed) : allowed;
  GstStructure* details = reason_details("setting");
  gst_structure_set(details, "property", G_TYPE_STRING, spec->name, "allowed", G_TYPE_STRING,
                    must_be.c_str(), nullptr);
  if (G_IS_PARAM_SPEC_ENUM(spec) || G_IS_PARAM_SPEC_FLAGS(spec))
    gst_structure_set(details, "value", G_TYPE_STRING, setting_text(spec, value).c_str(), nullptr);
  else
    gst_structure_set_value(details, "value", value);
  set_range(details, spec, must_be);
  return details;
}

GstStructure* setting_details(gpointer object, const char* property, const std::string& allowed) {
  const GParamSpec* spec = g_object_class_find_property(G_OBJECT_GET_CLASS(object), property);
  if (!spec) return nullptr;
  g_auto(GValue) value = G_VALUE_INIT;
  g_object_get_property(G_OBJECT(object), property, &value);
  return setting_details(spec, &value, allowed);
}

GParamSpec* property_named_by(gpointer object, const char* text) {
  return g_object_class_find_property(G_OBJECT_GET_CLASS(object), first_word(text).c_str());
}

void post_setting_kept(GstElement* element, const GParamSpec* spec, const GValue* value,
                       const GValue* former, const std::string& why, const char* pad) {
  const std::string text =
      printed("%s. %s stays %s.", why.c_str(), spec->name, setting_text(spec, former).c_str());
  const bool heard = under_lock(
      element, [&] { return GST_STATE(element) > GST_STATE_NULL && GST_ELEMENT_BUS(element); });
  if (!heard) return g_warning("%s: %s", GST_OBJECT_NAME(element), text.c_str());
  GstStructure* details = setting_details(spec, value, why);
  if (pad) gst_structure_set(details, "pad", G_TYPE_STRING, pad, nullptr);
  warn(element, text.c_str(), details);
}

void post_setting_warning(GstElement* element, const char* property, const char* text,
                          const char* allowed, GstPad* pad) {
  GstStructure* details =
      setting_details(pad ? gpointer(pad) : gpointer(element), property, allowed);
  if (pad) gst_structure_set(details, "pad", G_TYPE_STRING, GST_PAD_NAME(pad), nullptr);
  warn(element, text, details);
}

const char* why_no_analytics(GObject* filter) {
  return gst_pad_has_current_caps(GST_BASE_TRANSFORM_SINK_PAD(filter))
             ? "is not available: the plugin was built with a GStreamer older than 1.26"
             : "";
}

ErrorText error_text(GstElement* element, const vf::Status& status) {
  const char* why = status.message();
  switch (status.code()) {
    case vf::Code::ok:
      break;
    case vf::Code::invalid_argument:
    case vf::Code::unsupported: {
      const GParamSpec* spec = property_named_by(element, why);
      return {GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
              g_strdup_printf(spec ? "%s." : "Cannot filter: %s.", why),
              status.code() == vf::Code::unsupported
                  ? g_strdup("backend=cpu or backend=auto may work.")
                  : nullptr,
              spec ? setting_details(element, spec->name, why) : reason_details("frame")};
    }
    case vf::Code::out_of_memory:
      return {GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
              g_strdup_printf("Out of memory: %s. Smaller frames, fewer queued buffers or "
                              "backend=cpu need less.",
                              why),
              nullptr, reason_details("memory")};
    case vf::Code::no_device: {
      GstStructure* details = setting_details(element, "backend", "auto or cpu");
      gst_structure_set(details, "reason", G_TYPE_STRING, "device", nullptr);
      return {GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
              g_strdup_printf("No usable CUDA device: %s. Use backend=cpu or backend=auto to "
                              "filter on the CPU.",
                              why),
              nullptr, details};
    }
    case vf::Code::device_error:
      return {GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_FAILED,
              g_strdup_printf("CUDA failed: %s. Set the pipeline to READY and to PLAYING to start "
                              "again.",
                              why),
              nullptr, reason_details("device")};
  }
  return {};
}

ErrorText no_analytics(GstElement* element, const char* property, const char* settings) {
  return {GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
          g_strdup_printf("%s need a plugin built with GStreamer 1.26 or newer, and its analytics "
                          "library. This one was built with %d.%d.",
                          settings, GST_VERSION_MAJOR, GST_VERSION_MINOR),
          nullptr, setting_details(element, property, std::string("not ") + settings)};
}

void post_error(GstElement* element, ErrorText e) {
  gst_element_message_full_with_details(element, GST_MESSAGE_ERROR, e.domain, e.code, e.text,
                                        e.debug, __FILE__, GST_FUNCTION, __LINE__, e.details);
}

void clear_error(ErrorText e) {
  g_free(e.text);
  g_free(e.debug);
  if (e.details) gst_structure_free(e.details);
}

void post_error(GstElement* element, const vf::Status& status) {
  if (!status.ok()) post_error(element, error_text(element, status));
}

std::string printed(const char* format, ...) {
  va_list args;
  va_start(args, format);
  g_autofree gchar* text = g_strdup_vprintf(format, args);
  va_end(args);
  return text;
}

}  // namespace gstvf
