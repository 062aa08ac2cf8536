// Presets that come with the elements, from the folder in GST_PRESET_PATH.
#include <glib/gstdio.h>

#include <cstring>

#include "tests/elements/basefeatures.h"

namespace vf::test {
namespace {

struct Preset {
  const char* element;
  const char* name;
  Settings values;  // some of them
};
const Preset kPresets[] = {
    {"cudadenoise", "webcam", {{"temporal", "24"}, {"strength", "1.15"}}},
    {"cudadenoise", "low-light", {{"temporal", "48"}, {"strength", "1.3"}}},
    {"cudadenoise", "film", {{"strength", "1"}, {"spatial", "0.4"}, {"planes", "luma+chroma"}}},
    {"cudaguidedmatte", "webcam", {{"output", "composite"}, {"background", "blur"}}},
    {"cudaguidedmatte",
     "green-screen",
     {{"mask", "chroma-key"}, {"key-color", "45376"}, {"key-tolerance", "0.15"}}},
    {"cudaguidedmatte", "studio", {{"foreground", "estimate"}, {"output", "alpha"}}},
    {"cudagaussian",
     "faces-strict",
     {{"regions", "roi"}, {"on-missing", "all"}, {"sigma-relative", "0.2"}}},
    {"cudagaussian", "faces-soft", {{"region-shape", "ellipse"}, {"on-missing", "hold"}}},
    {"cudapixelate", "faces-strict", {{"regions", "roi"}, {"on-missing", "all"}}},
    {"cudapixelate", "faces-soft", {{"region-shape", "ellipse"}, {"region-feather", "16"}}},
    {"cudaletterbox", "yolo", {{"rule", "ultralytics"}, {"mean", "0"}, {"std", "1"}}},
    {"cudaletterbox",
     "imagenet",
     {{"interpolation", "area"}, {"mean", "0.485,0.456,0.406"}, {"std", "0.229,0.224,0.225"}}},
};

// Properties that presets for faces leave as they are, because no value of them shows a face: these
// choose what is filtered more, or are without effect beside sigma-relative. Labels name the faces.
const char* const kFreeForFaces[] = {"areas",       "region-labels", "look-ahead-ms", "interpolate",
                                     "hold-follow", "border",        "border-color",  "sigma",
                                     "sigma-y",     nullptr};

// Whether a property has the value that a text stands for.
bool has_value(GstElement* element, const char* property, const char* text) {
  GParamSpec* spec = g_object_class_find_property(G_OBJECT_GET_CLASS(element), property);
  GValue want = G_VALUE_INIT, is = G_VALUE_INIT;
  g_value_init(&want, G_PARAM_SPEC_VALUE_TYPE(spec));
  g_object_get_property(G_OBJECT(element), property, &is);
  const bool same = gst_value_deserialize(&want, text) && g_param_values_cmp(spec, &want, &is) == 0;
  g_value_unset(&want);
  g_value_unset(&is);
  return same;
}

}  // namespace

void preset_cases(Suite& s, const Element& e) {
  if (e.not_filter || &e == &regions_element) return;
  const std::string at = std::string(e.name) + "/presets/";
  const auto with_element = [&e](Case& c, auto&& body) {
    GstElement* element = gst_element_factory_make(e.name, nullptr);
    gst_object_ref_sink(element);
    c.check(GST_IS_PRESET(element), "it has no presets");
    if (GST_IS_PRESET(element)) body(element);
    gst_object_unref(element);
  };
  guint count = 0;
  for (const Preset& p : kPresets) {
    if (strcmp(p.element, e.name)) continue;
    count++;
    s.run(at + p.name, [&](Case& c) {
      with_element(c, [&](GstElement* element) {
        c.check(gst_preset_load_preset(GST_PRESET(element), p.name), "it cannot be loaded");
        gchar* comment = nullptr;
        gst_preset_get_meta(GST_PRESET(element), p.name, "comment", &comment);
        c.check(comment && *comment, "it has no comment");
        g_free(comment);
        const std::string line = std::string(e.name) + " @preset=" + p.name;
        GstElement* launched = gst_parse_launch(line.c_str(), nullptr);
        if (!launched) return c.fail("gst-launch refuses it");
        for (const auto& [property, value] : p.values)
          for (GstElement* each : {element, launched})
            c.check(has_value(each, property, value), "%s is not %s", property, value);
        gst_object_unref(launched);
      });
    });
    s.run(at + p.name + ": all that its file says", [&](Case& c) {
      with_element(c, [&](GstElement* element) {
        GKeyFile* file = g_key_file_new();
        const std::string path =
            std::string(g_getenv("GST_PRESET_PATH")) + "/" + G_OBJECT_TYPE_NAME(element) + ".prs";
        c.check(g_key_file_load_from_file(file, path.c_str(), G_KEY_FILE_NONE, nullptr), "no %s",
                path.c_str());
        gst_preset_load_preset(GST_PRESET(element), p.name);
        gchar** names = gst_preset_get_property_names(GST_PRESET(element));
        gchar** keys = g_key_file_get_keys(file, p.name, nullptr, nullptr);
        c.check(keys, "it is not in %s", path.c_str());
        for (gchar** key = keys; key && *key; key++) {
          if (g_str_has_prefix(*key, "_meta/")) continue;
          const bool kept = g_strv_contains(names, *key);
          c.check(kept, "no preset has %s", *key);
          gchar* value = g_key_file_get_value(file, p.name, *key, nullptr);
          c.check(!kept || has_value(element, *key, value), "%s is not %s", *key, value);
          g_free(value);
        }
        // A property that the preset does not set keeps the user's value, which may be too weak.
        for (gchar** name = names; keys && g_str_has_prefix(p.name, "faces-") && *name; name++)
          c.check(g_strv_contains(kFreeForFaces, *name) || g_strv_contains(keys, *name),
                  "%s is not set", *name);
        g_strfreev(keys);
        g_strfreev(names);
        g_key_file_free(file);
      });
    });
  }
  s.run(at + "which there are", [&](Case& c) {
    with_element(c, [&](GstElement* element) {
      gchar** names = gst_preset_get_preset_names(GST_PRESET(element));
      c.check((names ? g_strv_length(names) : 0) == count, "%u presets, not %u",
              names ? g_strv_length(names) : 0, count);
      g_strfreev(names);
      c.check(!gst_preset_load_preset(GST_PRESET(element), "no-such-preset"),
              "an unknown one can be loaded");
    });
  });
  s.run(at + "which properties they keep", [&](Case& c) {
    with_element(c, [&](GstElement* element) {
      gchar** names = gst_preset_get_property_names(GST_PRESET(element));
      c.check(names && g_strv_length(names) >= 2, "fewer than two properties");
      for (const char* name : {"name", "qos", "backend", "cuda-device-id", "async-depth", "enabled",
                               "stats", "stats-interval", "keep-original"})
        c.check(!g_strv_contains(names, name), "%s", name);
      g_strfreev(names);
    });
  });
}

}  // namespace vf::test
