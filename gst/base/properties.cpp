#include "gst/base/properties.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "gst/base/errors.h"

namespace gstvf {
namespace {

GQuark property_quark() {
  static const GQuark quark = g_quark_from_static_string("gstvf-property");
  return quark;
}

GQuark refused_quark() {
  static const GQuark quark = g_quark_from_static_string("gstvf-refused");
  return quark;
}

const Property& property_of(GParamSpec* spec) {
  return *static_cast<const Property*>(g_param_spec_get_qdata(spec, property_quark()));
}

// Says that a property keeps its old value, once until another is refused: a controller would say
// it at every frame.
void refuse(GObject* object, const GParamSpec* spec, const std::string& why) {
  const std::string text = std::string(spec->name) + " " + why;
  GST_OBJECT_LOCK(object);
  const auto* before = static_cast<const char*>(g_object_get_qdata(object, refused_quark()));
  const bool again = before && text == before;
  if (!again) g_object_set_qdata_full(object, refused_quark(), g_strdup(text.c_str()), g_free);
  GST_OBJECT_UNLOCK(object);
  if (!again) g_warning("%s: %s; it stays as it was", GST_OBJECT_NAME(object), text.c_str());
}

void set_property(GObject* object, guint, const GValue* value, GParamSpec* spec) {
  const Property& property = property_of(spec);
  std::string why;
  if (property.check) why = property.check(value);
  if (why.empty() && property.options.refusal) why = property.options.refusal(object, value);
  if (!why.empty()) return refuse(object, spec, why);
  GST_OBJECT_LOCK(object);
  const bool changed = property.set(object, value);
  GST_OBJECT_UNLOCK(object);
  if (!changed) return;
  if (property.options.changed) property.options.changed(object);
  if (spec->flags & GST_PARAM_MUTABLE_PLAYING)
    gst_cuda_video_filter_settings_changed(GST_CUDA_VIDEO_FILTER(object));
}

void get_property(GObject* object, guint, GValue* value, GParamSpec* spec) {
  GST_OBJECT_LOCK(object);
  property_of(spec).get(object, value);
  GST_OBJECT_UNLOCK(object);
}

}  // namespace

void install_property(GObjectClass* klass, GParamSpec* spec, Property* property) {
  klass->set_property = set_property;
  klass->get_property = get_property;
  g_param_spec_set_qdata_full(spec, property_quark(), property,
                              [](gpointer p) { delete static_cast<Property*>(p); });
  // GObject wants a number above 0; properties are listed by it.
  static guint id = 0;
  g_object_class_install_property(klass, ++id, spec);
}

GType enum_type(const char* name, const std::vector<EnumRow>& rows) {
  if (const GType type = g_type_from_name(name)) return type;
  // Ends with zeros; GType keeps it for as long as the process runs.
  GEnumValue* values = g_new0(GEnumValue, rows.size() + 1);
  std::transform(rows.begin(), rows.end(), values, [](const EnumRow& r) {
    return GEnumValue{r.value, r.description, r.nick};
  });
  const GType type = g_enum_register_static(name, values);
  gst_type_mark_as_plugin_api(type, GstPluginAPIFlags(0));
  return type;
}

GType flags_type(const char* name, const std::vector<EnumRow>& rows) {
  if (const GType type = g_type_from_name(name)) return type;
  GFlagsValue* values = g_new0(GFlagsValue, rows.size() + 1);
  std::transform(rows.begin(), rows.end(), values, [](const EnumRow& r) {
    return GFlagsValue{guint(r.value), r.description, r.nick};
  });
  const GType type = g_flags_register_static(name, values);
  gst_type_mark_as_plugin_api(type, GstPluginAPIFlags(0));
  return type;
}

GParamSpec* number_spec(const char* name, const char* nick, const char* blurb, GParamFlags flags,
                        const vf::Limits<int>& limits, int value) {
  return g_param_spec_int(name, nick, blurb, limits.min, limits.max, value, flags);
}

GParamSpec* number_spec(const char* name, const char* nick, const char* blurb, GParamFlags flags,
                        const vf::Limits<guint>& limits, guint value) {
  return g_param_spec_uint(name, nick, blurb, limits.min, limits.max, value, flags);
}

GParamSpec* number_spec(const char* name, const char* nick, const char* blurb, GParamFlags flags,
                        const vf::Limits<double>& limits, double value) {
  return g_param_spec_double(name, nick, blurb, limits.min, limits.max, value, flags);
}

std::string number_refusal(double value, const char* must_be, double min, double max) {
  std::string text = printed("is %g: must be ", value);
  if (must_be) text += must_be;
  // Of a rule alone, nothing is gained by the limits of the type.
  if (max < DBL_MAX) text += printed("%s%g to %g", must_be ? ", " : "", min, max);
  return text;
}

std::string numbers_refusal(const Numbers& numbers, const vf::Limits<double>& limits) {
  const std::string form = "1, or 3 for the three channels, as in 0.485,0.456,0.406";
  if (numbers.count != 1 && numbers.count != 3)
    return printed("has %u numbers: must have ", numbers.count) + form;
  for (guint i = 0; i < numbers.count; i++) {
    if (std::isnan(numbers.value[i])) return "has something that is no number: must have " + form;
    if (!limits.allow(numbers.value[i]))
      return number_refusal(numbers.value[i], limits.must_be, limits.min, limits.max);
  }
  return {};
}

}  // namespace gstvf
