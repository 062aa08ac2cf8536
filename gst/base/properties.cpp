#include "gst/base/properties.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "gst/base/errors.h"
#include "gst/base/videofilterprivate.h"

namespace gstvf {
namespace {

GQuark property_quark() {
  static const GQuark quark = g_quark_from_static_string("gstvf-property");
  return quark;
}

const Property& property_of(GParamSpec* spec) {
  return *static_cast<const Property*>(g_param_spec_get_qdata(spec, property_quark()));
}

// Returns the state of a filter, or null for other objects.
GstCudaVideoFilterPrivate* filter_of(GObject* object) {
  return GST_IS_CUDA_VIDEO_FILTER(object) ? GST_CUDA_VIDEO_FILTER(object)->priv : nullptr;
}

// Tells whether the element runs with the properties that it read when it started.
bool in_use(GObject* object) {
  if (const auto* filter = filter_of(object)) return filter->uses_start_settings;
  return GST_STATE(object) > GST_STATE_READY || GST_STATE_NEXT(object) > GST_STATE_READY;
}

// Warns that a value was refused. A pad's warning comes from its element.
void tell_user(GObject* object, const GParamSpec* spec, const GValue* value, const GValue* former,
               const std::string& why) {
  g_autoptr(GstElement) element = GST_IS_PAD(object) ? gst_pad_get_parent_element(GST_PAD(object))
                                                     : GST_ELEMENT(gst_object_ref(object));
  if (!element) return g_warning("%s: %s", GST_OBJECT_NAME(object), why.c_str());
  post_setting_kept(element, spec, value, former, why,
                    GST_IS_PAD(object) ? GST_OBJECT_NAME(object) : nullptr);
}

void set_property(GObject* object, guint, const GValue* value, GParamSpec* spec) {
  const Property& property = property_of(spec);
  std::string why;
  if (property.check) why = property.check(value);
  if (why.empty() && property.options.refusal) why = property.options.refusal(object, value);
  g_auto(GValue) former = G_VALUE_INIT;
  g_value_init(&former, G_PARAM_SPEC_VALUE_TYPE(spec));
  GstCudaVideoFilterPrivate* const filter = filter_of(object);
  const bool is_live = filter && (spec->flags & GST_PARAM_MUTABLE_PLAYING);
  const bool controlled = filter && filter->controlled == g_thread_self();
  bool changed = false, says = false;
  {
    std::unique_lock<std::recursive_mutex> setting;
    if (filter) setting = std::unique_lock(filter->setting);
    const ObjectLock lock(object);
    property.get(object, &former);
    const bool starts = spec->flags & GST_PARAM_MUTABLE_READY;
    if (!why.empty()) {
      why = printed("%s=%s %s", spec->name, setting_text(spec, value).c_str(), why.c_str());
    } else if (starts && in_use(object) && g_param_values_cmp(spec, value, &former) != 0) {
      why = printed("%s can only be set in the states NULL and READY", spec->name);
    } else {
      changed = property.set(object, value);
      if (changed && is_live && filter->running) filter->live.changed(spec, former, controlled);
    }
    says = !why.empty() && (!filter || filter->live.should_say(spec, controlled));
  }
  if (says) tell_user(object, spec, value, &former, why);
  if (changed && property.options.changed) property.options.changed(object);
  if (changed && is_live) filter->settings_changed = true;
}

void get_property(GObject* object, guint, GValue* value, GParamSpec* spec) {
  const ObjectLock lock(object);
  property_of(spec).get(object, value);
}

// A preset leaves these out. They choose where an element runs and what its application gets, but
// not how pictures look.
constexpr const gchar* kNotKept[] = {"async-depth",    "backend", "cuda-device-id", "enabled",
                                     "keep-original",  "name",    "parent",         "qos",
                                     "stats-interval", nullptr};

gchar** (*all_names)(GstPreset*) = nullptr;

gchar** names_to_keep(GstPreset* preset) {
  gchar** names = all_names(preset);
  gchar** end = names;
  while (end && *end) end++;
  gchar** const kept = std::remove_if(names, end, [](gchar* name) {
    const bool leaves = g_strv_contains(kNotKept, name);
    if (leaves) g_free(name);
    return leaves;
  });
  if (names) *kept = nullptr;
  return names;
}

}  // namespace

void put_back(GObject* object, GParamSpec* spec, const GValue* former, GValue* value) {
  const Property& property = property_of(spec);
  property.get(object, value);
  property.set(object, former);
}

void tell_element(GObject* object, GParamSpec* spec) {
  const Property& property = property_of(spec);
  if (property.options.changed) property.options.changed(object);
}

void install_property(GObjectClass* klass, GParamSpec* spec, Property* property) {
  klass->set_property = set_property;
  klass->get_property = get_property;
  g_param_spec_set_qdata_full(spec, property_quark(), property,
                              [](gpointer p) { delete static_cast<Property*>(p); });
  // GObject wants a number above 0 and lists properties in the order of their numbers.
  static guint id = 0;
  g_object_class_install_property(klass, ++id, spec);
}

template <class Value>
static GType type_of_rows(const char* name, const std::vector<EnumRow>& rows,
                          GType (*make)(const gchar*, const Value*)) {
  if (const GType type = g_type_from_name(name)) return type;
  // The array ends with zeros. GType keeps it as long as the process runs.
  Value* values = g_new0(Value, rows.size() + 1);
  std::transform(rows.begin(), rows.end(), values, [](const EnumRow& r) {
    return Value{decltype(Value::value)(r.value), r.description, r.nick};
  });
  const GType type = make(name, values);
  gst_type_mark_as_plugin_api(type, GstPluginAPIFlags(0));
  return type;
}

GType enum_type(const char* name, const std::vector<EnumRow>& rows) {
  return type_of_rows<GEnumValue>(name, rows, g_enum_register_static);
}

GType flags_type(const char* name, const std::vector<EnumRow>& rows) {
  return type_of_rows<GFlagsValue>(name, rows, g_flags_register_static);
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

GParamSpec* choice_spec(const char* name, const char* nick, const char* blurb, GParamFlags flags,
                        GType type, guint value) {
  return G_TYPE_IS_FLAGS(type) ? g_param_spec_flags(name, nick, blurb, type, value, flags)
                               : g_param_spec_enum(name, nick, blurb, type, int(value), flags);
}

static std::string number_form(const char* must_be, double min, double max) {
  const std::string range = max < DBL_MAX ? printed("%g to %g", min, max)
                            : must_be     ? ""
                                          : printed("%g or more", min);
  if (!must_be) return range;
  // Some rules name the range themselves.
  return range.empty() || strstr(must_be, " to ") ? must_be : must_be + (", " + range);
}

std::string number_refusal(const char* must_be, double min, double max) {
  return "is not allowed: it must be " + number_form(must_be, min, max);
}

std::string numbers_refusal(const Numbers& numbers, const vf::Limits<double>& limits) {
  constexpr char form[] =
      "it must be one number, or three with commas between them, as in 0.485,0.456,0.406";
  if (numbers.count != 1 && numbers.count != 3)
    return printed("has %u numbers: %s", numbers.count, form);
  for (guint i = 0; i < numbers.count; i++) {
    if (std::isnan(numbers.value[i])) return printed("is not made of numbers: %s", form);
    if (!limits.allow(numbers.value[i]))
      return "is not allowed: each number must be " +
             number_form(limits.must_be, limits.min, limits.max);
  }
  return {};
}

void init_presets(gpointer iface, gpointer) {
  auto* presets = static_cast<GstPresetInterface*>(iface);
  all_names = presets->get_property_names;
  presets->get_property_names = names_to_keep;
}

}  // namespace gstvf
