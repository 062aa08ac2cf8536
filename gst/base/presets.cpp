#include "gst/base/presets.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace gstvf {
namespace {

// A preset leaves these out. They choose where an element runs and what its application gets, but
// not how pictures look.
constexpr const char* kNotKept[] = {"async-depth", "backend",       "cuda-device-id",
                                    "enabled",     "keep-original", "name",
                                    "parent",      "qos",           "stats-interval"};

gchar** (*all_names)(GstPreset*) = nullptr;

gchar** names_to_keep(GstPreset* preset) {
  gchar** names = all_names(preset);
  gchar** end = names;
  while (end && *end) end++;
  gchar** const kept = std::remove_if(names, end, [](gchar* name) {
    const bool leaves = std::any_of(std::begin(kNotKept), std::end(kNotKept),
                                    [name](const char* n) { return !strcmp(n, name); });
    if (leaves) g_free(name);
    return leaves;
  });
  if (names) *kept = nullptr;
  return names;
}

}  // namespace

void init_presets(gpointer iface, gpointer) {
  auto* presets = static_cast<GstPresetInterface*>(iface);
  all_names = presets->get_property_names;
  presets->get_property_names = names_to_keep;
}

}  // namespace gstvf
