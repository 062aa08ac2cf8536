// Tests property values that cannot be used. While frames arrive, such a value never ends the
// stream: the current value stays, and one warning message says so. Before the first frame, the
// value is one error.

#include <gst/base/gstbasetransform.h>
#include <gst/controller/gstdirectcontrolbinding.h>
#include <gst/controller/gstinterpolationcontrolsource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "gst/base/analytics.h"
#include "tests/elements/harness.h"

namespace vf::test {
namespace {

struct Unusable {
  const char* element;
  const char* property;
  const char* value;
  const char* allowed;  // contained in the message's details
  Settings fixed = {};
  const char* format = "I420";
  const char* behind = nullptr;
  const char* named = nullptr;  // the property that the message names, if it is another one
};

constexpr char kTensor[] =
    "other/tensors,format=static,num_tensors=1,types=float32,dimensions=32:32:3:1";
constexpr char kStates[] = "NULL and READY";

const Unusable kUnusable[] = {
    {"cudagaussian", "sigma", "90", "0 to 85, unless kernel-size is set"},
    {"cudagaussian", "sigma", "1e300", "0 to 85, unless kernel-size is set"},
    {"cudagaussian", "sigma", "64", "0 to 63.75", {}, "I420_10LE"},
    {"cudagaussian", "sigma", "90", "0 to 85", {{"regions", "roi"}}},
    {"cudagaussian", "sigma-y", "90", "0 to 85"},
    {"cudagaussian", "sigma-y", "-0.5", "-1, or 0 or more"},
    {"cudagaussian", "kernel-size", "4", "0 or odd"},
    {"cudagaussian", "kernel-size-y", "4", "0 or odd"},
    {"cudagaussian", "kernel-size", "0", "sigma is 90", {{"sigma", "90"}, {"kernel-size", "511"}}},
    {"cudagaussian", "sigma", "90", "0 to 85", {{"sigma", "0"}}},
    {"cudagaussian", "planes", "luma", "sigma is 90", {{"sigma", "90"}, {"planes", "alpha"}}},
    {"cudagaussian", "areas", "ten", "a box, x,y,width,height, or a polygon of 3 to 64 corners"},
    {"cudagaussian", "areas", "10,20,30", "a box, x,y,width,height"},
    {"cudagaussian", "areas", "1,2,3,4x", "a box, x,y,width,height"},
    {"cudagaussian", "areas", "1,2,3,4 5,6,7,8", "a box, x,y,width,height"},
    {"cudagaussian", "areas", "1,2 3,4", "a polygon of 3"},
    {"cudagaussian", "areas", "nan,0,9,9", "a box, x,y,width,height"},
    {"cudagaussian", "areas", "1e7,0,9,9", "a box, x,y,width,height"},
    {"cudapixelate", "areas", "0,0,9,9;5%,5%,9,9%", "all pixels or all shares"},
    {"cudamedian", "areas", "5,5,0,9", "more than 0"},
    {"cudamedian", "areas", "5,5 10,10 20,20", "on more than one line"},
    {"cudamedian", "size", "4", "odd, 1 to 255"},
    {"cudamedian", "size-y", "4", "0 or odd, 0 to 255"},
    {"cudadenoise", "noise", "-0.5", "-1, or 0 to 100"},
    {"cudaguidedmatte", "mask", "alpha", "chroma-key", {{"mask", "chroma-key"}}},
    {"cudaletterbox", "mean", "1,2", "one number, or three"},
    {"cudaletterbox", "std", "0", "not 0"},
    {"cudaletterbox", "scale", "0", "not 0"},
    {"cudaletterbox", "scale", "1e-38", "1e-30 to 1e30", {}, "I420", kTensor},
    {"cudaletterbox", "std", "1e35", "1e-30 to 1e30", {}, "I420", kTensor},
    {"cudaletterbox", "mean", "1e35", "1e30 times scale", {}, "I420", kTensor},
    {"cudaletterbox", "keep-original", "true", kStates},
};

// The plugin is built without GStreamer's analytics library.
const Unusable kNeedAnalytics[] = {
    {"cudagaussian", "regions", "analytics", "older than 1.26"},
    {"cudamedian", "regions", "segmentation", "older than 1.26"},
    {"cudapixelate", "regions", "analytics", "older than 1.26"},
    {"cudaguidedmatte", "mask", "segmentation", "older than 1.26", {}, "RGBA"},
    {"cudaguidedmatte", "mask", "tensor", "older than 1.26", {}, "RGBA"},
};

// These properties of all elements are read when they start.
const Unusable kAtStart[] = {
    {nullptr, "backend", "auto", kStates},
    {nullptr, "cuda-device-id", "1", kStates},
    {nullptr, "async-depth", "3", kStates},
};

std::string string_of(const GValue* value) {
  gchar* text = value ? gst_value_serialize(value) : nullptr;
  const std::string result = text ? text : "";
  g_free(text);
  return result;
}

std::string read(GstElement* element, const char* property) {
  GValue value = G_VALUE_INIT;
  g_object_get_property(G_OBJECT(element), property, &value);
  const std::string result = string_of(&value);
  g_value_unset(&value);
  return result;
}

// Counts the warnings, or errors, of a bus, and holds the details of the first.
struct Heard {
  int count = 0;
  std::string text, property, value, allowed;
  bool range = false, names_choice = true;  // the value of an enum or of flags is its name
  double maximum = 0;
};
struct Messages {
  Heard warnings, errors;
};

void read_details(const GstStructure* details, Heard* heard) {
  const char* property = gst_structure_get_string(details, "property");
  const char* allowed = gst_structure_get_string(details, "allowed");
  heard->property =
      property && gst_structure_get_string(details, "reason") == std::string("setting") ? property
                                                                                        : "";
  heard->allowed = allowed ? allowed : "";
  const GValue* value = gst_structure_get_value(details, "value");
  heard->value = string_of(value);
  heard->names_choice = !value || !(G_VALUE_HOLDS_ENUM(value) || G_VALUE_HOLDS_FLAGS(value));
  heard->range =
      gst_structure_has_field(details, "minimum") && gst_structure_has_field(details, "maximum");
  gst_structure_get_double(details, "maximum", &heard->maximum);
}

Messages hear(GstElement* element) {
  Messages all;
  while (GstMessage* message = gst_bus_pop(GST_ELEMENT_BUS(element))) {
    GError* error = nullptr;
    const GstStructure* details = nullptr;
    Heard* heard = nullptr;
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING) {
      heard = &all.warnings;
      gst_message_parse_warning(message, &error, nullptr);
      gst_message_parse_warning_details(message, &details);
    } else if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
      heard = &all.errors;
      gst_message_parse_error(message, &error, nullptr);
      gst_message_parse_error_details(message, &details);
    }
    if (heard && heard->count++ == 0) {
      heard->text = error->message;
      if (details) read_details(details, heard);
    }
    g_clear_error(&error);
    gst_message_unref(message);
  }
  return all;
}

bool same_bytes(const BufferPtr& a, const BufferPtr& b) {
  GstMapInfo map;
  if (!a || !b || !gst_buffer_map(a.get(), &map, GST_MAP_READ)) return false;
  const bool same = gst_buffer_get_size(b.get()) == map.size &&
                    gst_buffer_memcmp(b.get(), 0, map.data, map.size) == 0;
  gst_buffer_unmap(a.get(), &map);
  return same;
}

// Holds a playing element with its settings.
struct Playing {
  Playing(const Element& e, const Settings& settings, const char* format, const char* behind,
          const Row& row = kRows[0])
      : bench(e, row), info(video_info(format, 64, 48)) {
    for (const auto& [name, value] : settings)
      gst_util_set_object_arg(G_OBJECT(bench.element()), name, value);
    if (behind) gst_harness_set_sink_caps_str(bench.harness(), behind);
    bench.caps(info);
  }
  BufferPtr push() { return bench.push(own(gst_buffer_copy(make_frame(false, info, 1).get()))); }
  GstElement* element() { return bench.element(); }

  Bench bench;
  GstVideoInfo info;
};

const char* format_of(const Element& e) {
  return strcmp(e.name, "cudaguidedmatte") ? "I420" : "RGBA";
}

void unusable_case(Suite& s, const Element& e, const Unusable& u) {
  std::string name = std::string(e.name) + "/unusable/" + u.property + "=" + u.value;
  for (const auto& [property, value] : u.fixed) name += std::string(" ") + property + "=" + value;
  s.run(name + " " + u.format, [&](Case& c) {
    Playing p(e, u.fixed, u.format, u.behind);
    const BufferPtr want = p.push();
    if (!want) return c.fail("nothing came out");
    const std::string former = read(p.element(), u.property);
    int notified = 0;
    const std::string signal = std::string("notify::") + u.property;
    g_signal_connect(p.element(), signal.c_str(),
                     G_CALLBACK(+[](GObject*, GParamSpec*, int* count) { ++*count; }), &notified);
    for (int round = 1; round <= 2 && c.ok(); round++) {
      notified = 0;
      gst_util_set_object_arg(G_OBJECT(p.element()), u.property, u.value);
      const BufferPtr out = p.push();
      const GstFlowReturn flow = p.bench.flow();
      c.check(read(p.element(), u.property) == former, "it reads %s, not %s",
              read(p.element(), u.property).c_str(), former.c_str());
      c.check(same_bytes(out, want) || !strcmp(e.name, "cudadenoise"),
              "the frame is not as with the former value");
      c.check(notified > 0, "no notify signal");
      c.check(p.push() != nullptr, "it does not go on");
      const auto [heard, errors] = hear(p.element());
      c.check(flow == GST_FLOW_OK && errors.count == 0, "flow %s, %s", gst_flow_get_name(flow),
              errors.text.c_str());
      c.check(heard.count == 1 && heard.property == (u.named ? u.named : u.property),
              "%d warnings, of %s: %s", heard.count, heard.property.c_str(), heard.text.c_str());
      c.check(heard.names_choice, "the value is an enum or flags, and not their name");
      c.check(heard.allowed.find(u.allowed) != std::string::npos && !heard.value.empty(),
              "allowed is \"%s\", value \"%s\"", heard.allowed.c_str(), heard.value.c_str());
    }
  });
}

// Sets random values of random properties before every frame.
void random_case(Suite& s, const Element& e, const char* format, const Settings& settings) {
  s.run(std::string(e.name) + "/unusable/all properties at random, " + format, [=, &e](Case& c) {
    GRand* rand = g_rand_new_with_seed(guint32(c.options().seed));
    Playing p(e, settings, format, e.out_caps);
    c.check(p.push() != nullptr, "nothing came out");
    guint count = 0;
    GParamSpec** specs = g_object_class_list_properties(G_OBJECT_GET_CLASS(p.element()), &count);
    std::string last;
    for (int i = 0; i < 4 * c.options().changes && c.ok(); i++) {
      GParamSpec* spec = specs[g_rand_int_range(rand, 0, gint32(count))];
      if (!(spec->flags & G_PARAM_WRITABLE) || !strcmp(spec->name, "name") ||
          !strcmp(spec->name, "parent") || !strcmp(spec->name, "qos"))
        continue;
      const double at = g_rand_int_range(rand, 0, 4) ? std::pow(g_rand_double(rand), 4)
                                                     : g_rand_int_range(rand, 0, 2);
      const auto between = [&](double min, double max) { return min + at * (max - min); };
      GValue value = G_VALUE_INIT;
      g_value_init(&value, G_PARAM_SPEC_VALUE_TYPE(spec));
      if (G_IS_PARAM_SPEC_INT(spec))
        g_value_set_int(
            &value, int(between(G_PARAM_SPEC_INT(spec)->minimum, G_PARAM_SPEC_INT(spec)->maximum)));
      else if (G_IS_PARAM_SPEC_UINT(spec))
        g_value_set_uint(
            &value,
            std::min(G_PARAM_SPEC_UINT(spec)->maximum,
                     guint(g_rand_int_range(rand, 0, 2) ? 0x808080 : between(0, 0xffffff))));
      else if (G_IS_PARAM_SPEC_DOUBLE(spec))
        g_value_set_double(&value, between(std::max(G_PARAM_SPEC_DOUBLE(spec)->minimum, -1e3),
                                           std::min(G_PARAM_SPEC_DOUBLE(spec)->maximum, 1e3)));
      else if (G_IS_PARAM_SPEC_BOOLEAN(spec))
        g_value_set_boolean(&value, at > 0.5);
      else if (G_IS_PARAM_SPEC_ENUM(spec))
        g_value_set_enum(&value,
                         G_PARAM_SPEC_ENUM(spec)
                             ->enum_class
                             ->values[g_rand_int_range(
                                 rand, 0, gint32(G_PARAM_SPEC_ENUM(spec)->enum_class->n_values))]
                             .value);
      else if (G_IS_PARAM_SPEC_FLAGS(spec))
        g_value_set_flags(&value, guint(g_rand_int_range(rand, 0, 8)));
      else
        g_value_set_static_string(&value, at > 0.5 ? "1e-38" : at > 0.2 ? "1,2" : "5");
      g_object_set_property(G_OBJECT(p.element()), spec->name, &value);
      g_value_unset(&value);
      last = std::string(spec->name) + "=" + read(p.element(), spec->name);
      // Now and then two properties change at once.
      if (g_rand_int_range(rand, 0, 3) == 0) continue;
      gst_harness_push(p.bench.harness(),
                       gst_buffer_copy(make_frame(false, p.info, guint32(i % 4)).get()));
      while (GstBuffer* out = gst_harness_try_pull(p.bench.harness())) gst_buffer_unref(out);
      const Heard heard = hear(p.element()).errors;
      c.check(heard.count == 0, "after %s: %s", last.c_str(), heard.text.c_str());
    }
    g_free(specs);
    g_rand_free(rand);
  });
}

// Only the element decides whether it is in passthrough.
void passthrough_case(Suite& s, const Element& e, const char* format, const Settings& settings) {
  s.run(std::string(e.name) + "/unusable/passthrough by the application, " + format, [=](Case& c) {
    Playing p(e, settings, format, e.out_caps);
    auto* trans = GST_BASE_TRANSFORM(p.element());
    const BufferPtr want = p.push();
    if (!want) return c.fail("nothing came out");
    for (int i = 0; i < 4 && c.ok(); i++) {
      const gboolean on = i % 2 == 0;
      gst_base_transform_set_passthrough(trans, on);
      if (i >= 2) gst_base_transform_set_in_place(trans, on);
      const BufferPtr out = p.push();
      c.check(same_bytes(out, want) || !strcmp(e.name, "cudadenoise"),
              "set %d: not the frame of before", i);
      c.check(out && gst_buffer_get_size(out.get()) == gst_buffer_get_size(want.get()),
              "set %d: another size", i);
    }
    const Heard heard = hear(p.element()).warnings;
    c.check(heard.count == 1 && heard.text.find("passthrough") != std::string::npos,
            "%d warnings: %s", heard.count, heard.text.c_str());
  });
}

// Expects one error with its details, whatever is pushed after it.
void start_case(Suite& s, const Element& e, const Unusable& u) {
  s.run(std::string(e.name) + "/unusable/at the start, " + u.property + "=" + u.value,
        [&](Case& c) {
          if (!strcmp(u.value, "analytics") && gstvf::kHasAnalytics)
            return c.skip("built with GStreamer's analytics library");
          Settings settings = u.fixed;
          settings.push_back({u.property, u.value});
          Playing p(e, settings, u.format, u.behind);
          for (int i = 0; i < (u.named ? 5 : 1); i++)
            c.check(p.push() == nullptr, "a frame came out");
          const Heard heard = hear(p.element()).errors;
          c.check(heard.count == 1 && heard.property == u.property &&
                      heard.allowed.find(u.allowed) != std::string::npos && !heard.value.empty(),
                  "%d errors, of %s=%s, allowed \"%s\": %s", heard.count, heard.property.c_str(),
                  heard.value.c_str(), heard.allowed.c_str(), heard.text.c_str());
        });
}

const Unusable kStarts[] = {
    {"cudagaussian", "sigma", "90", "0 to 85"},
    // The error is found in set_caps, which repeats with each frame.
    {"cudamedian", "regions", "analytics", "not", {}, "I420", nullptr, "regions"},
    {"cudaguidedmatte", "mask", "alpha", "chroma-key", {}, "I420", nullptr, "mask"},
};

void controller_case(Suite& s, const Element& e, const char* property, double step,
                     const Settings& fixed) {
  s.run(std::string(e.name) + "/unusable/a controller ramps " + property, [=](Case& c) {
    Playing p(e, fixed, "I420", nullptr);
    GstControlSource* source = gst_interpolation_control_source_new();
    g_object_set(source, "mode", GST_INTERPOLATION_MODE_NONE, nullptr);
    gst_object_add_control_binding(
        GST_OBJECT(p.element()),
        gst_direct_control_binding_new_absolute(GST_OBJECT(p.element()), property, source));
    for (int i = 0; i < 60 && c.ok(); i++) {
      const GstClockTime time = GstClockTime(i) * 40 * GST_MSECOND;
      gst_timed_value_control_source_set(GST_TIMED_VALUE_CONTROL_SOURCE(source), time,
                                         1 + step * i);
      GstBuffer* in = gst_buffer_copy(make_frame(false, p.info, 1).get());
      GST_BUFFER_PTS(in) = time;
      const BufferPtr out = p.bench.push(in);
      c.check(out != nullptr, "frame %d: flow %s", i, gst_flow_get_name(p.bench.flow()));
    }
    const Heard heard = hear(p.element()).warnings;
    c.check(heard.count == 1 && heard.property == property, "%d warnings, the first of %s",
            heard.count, heard.property.c_str());
    gst_object_unref(source);
  });
}

void gaussian_cases(Suite& s, const Element& e) {
  const std::string at = std::string(e.name) + "/unusable/";
  controller_case(s, e, "sigma", 3, {});
  controller_case(s, e, "kernel-size", 1, {});

  s.run(at + "values that can be used together", [&](Case& c) {
    Playing p(e, {}, "I420", nullptr);
    c.check(p.push() != nullptr, "nothing came out");
    g_object_set(p.element(), "sigma", 90.0, "kernel-size", 511, nullptr);
    c.check(p.push() != nullptr && read(p.element(), "sigma") == "90", "sigma is %s",
            read(p.element(), "sigma").c_str());
    // The unusable value is replaced by the previous one, and the other settings stay.
    g_object_set(p.element(), "border-color", 0x12345678u, "kernel-size", 0, "planes", 1, nullptr);
    c.check(hear(p.element()).warnings.count == 0, "a warning before the frame");
    c.check(p.push() != nullptr, "it does not go on");
    const Heard heard = hear(p.element()).warnings;
    c.check(heard.count > 0 && read(p.element(), "kernel-size") == "511",
            "%d warnings, kernel-size is %s", heard.count,
            read(p.element(), "kernel-size").c_str());
    c.check(read(p.element(), "sigma") == "90", "sigma is %s", read(p.element(), "sigma").c_str());
  });

  s.run(at + "the limits as numbers", [&](Case& c) {
    Playing p(e, {}, "I420", nullptr);
    p.push();
    g_object_set(p.element(), "sigma", 90.0, nullptr);
    p.push();
    const Heard heard = hear(p.element()).warnings;
    c.check(heard.range && heard.maximum == 85 && heard.value == "90", "up to %g, value %s",
            heard.maximum, heard.value.c_str());
  });

  s.run(at + "before caps, and after new ones", [&](Case& c) {
    Playing p(e, {{"sigma", "80"}}, "I420", nullptr);
    // Nothing has come out yet, so this is an error and the value stays as it was set.
    g_object_set(p.element(), "sigma", 90.0, nullptr);
    c.check(p.push() == nullptr && read(p.element(), "sigma") == "90", "no error");
    Heard heard = hear(p.element()).errors;
    c.check(heard.count == 1 && heard.property == "sigma", "%d errors", heard.count);
    g_object_set(p.element(), "sigma", 80.0, nullptr);
    c.check(p.push() != nullptr, "it does not go on");
    // If no plan can be made for new caps, that is an error of the caps.
    p.info = video_info("I420_10LE", 64, 48);
    p.bench.caps(p.info);
    c.check(p.push() == nullptr, "a frame came out");
    const Messages after = hear(p.element());
    heard = after.errors;
    c.check(heard.count == 1 && heard.property == "sigma" && heard.allowed.find("63.75") == 5,
            "%d errors: %s", heard.count, heard.allowed.c_str());
    c.check(after.warnings.count == 0, "a warning besides");
  });

  for (const double third : {2.0, 91.0})
    s.run(at + "by another thread at any time, sigma=90 and " + std::to_string(int(third)),
          [&](Case& c) {
            Playing p(e, {}, "I420", nullptr);
            c.check(p.push() != nullptr, "nothing came out");
            std::atomic<bool> done{false};
            std::thread other([&] {
              for (int i = 0; !done; i++) {
                g_object_set(p.element(), "sigma", i % 3 ? 90.0 : third, nullptr);
                if (i % 2) g_object_set(p.element(), "kernel-size", i % 4 ? 0 : 511, nullptr);
                std::this_thread::yield();
              }
            });
            for (int i = 0; i < 4 * c.options().changes && c.ok(); i++) {
              const BufferPtr out = p.push();
              const Heard errors = hear(p.element()).errors;
              c.check(out && errors.count == 0, "frame %d: flow %s, %s", i,
                      gst_flow_get_name(p.bench.flow()), errors.text.c_str());
            }
            done = true;
            other.join();
          });
}

void matte_cases(Suite& s, const Element& e) {
  const std::string at = std::string(e.name) + "/unusable/";
  passthrough_case(s, e, "I420", {{"mask", "chroma-key"}});
  random_case(s, e, "I420", {{"mask", "chroma-key"}});

  s.run(at + "mask=alpha when caps without alpha come", [&](Case& c) {
    Playing p(e, {}, "A420", nullptr);
    c.check(p.push() != nullptr, "nothing came out");
    p.info = video_info("I420", 64, 48);
    p.bench.caps(p.info);
    for (int i = 0; i < 3; i++) c.check(p.push() == nullptr, "a frame came out");
    const Heard heard = hear(p.element()).errors;
    c.check(heard.count == 1 && heard.property == "mask" && heard.value == "alpha", "%d errors: %s",
            heard.count, heard.text.c_str());
  });

  for (const char* mask : {"alpha", "chroma-key"})
    for (const char* output : {"alpha", "matte"})
      s.run(at + "a gray key with despill, mask=" + mask + " output=" + output, [=, &e](Case& c) {
        Playing plain(e, {{"mask", mask}, {"output", output}, {"key-color", "8421504"}}, "RGBA",
                      nullptr);
        const BufferPtr want = plain.push();
        Playing p(e, {{"mask", mask}, {"output", output}}, "RGBA", nullptr);
        c.check(p.push() != nullptr, "nothing came out");
        g_object_set(p.element(), "key-color", 0x808080, "despill", 1.0, nullptr);
        // A gray background has no hue to remove.
        const BufferPtr out = p.push();
        c.check(same_bytes(out, want), "not as without despill; flow %s",
                gst_flow_get_name(p.bench.flow()));
        p.push();
        const bool matters = !strcmp(mask, "chroma-key") && !strcmp(output, "alpha");
        const Heard heard = hear(p.element()).warnings;
        c.check(heard.count == int(matters), "%d warnings: %s", heard.count, heard.text.c_str());
        c.check(!matters || heard.property == "key-color", "it is of %s", heard.property.c_str());
      });
}

void letterbox_cases(Suite& s, const Element& e) {
  s.run(std::string(e.name) + "/unusable/impossible tensor dimensions", [&](Case& c) {
    Playing p(e, {}, "I420",
              "other/tensors,format=static,num_tensors=1,types=float32,dimensions=64:64:2:1");
    for (int i = 0; i < 5; i++) c.check(p.push() == nullptr, "a frame came out");
    const Heard heard = hear(p.element()).errors;
    c.check(heard.count == 1, "%d errors", heard.count);
  });
}

// Properties of elements that are no filters, which are read when they start.
const std::pair<const char*, Settings> kRestorers[] = {
    {"cudaletterboxrestore", {{"dropped", "restore"}, {"max-dropped", "3"}}},
    {"cudaletterboxbatch",
     {{"batch-size", "3"}, {"max-per-stream", "2"}, {"backend", "cpu"}, {"cuda-device-id", "1"}}},
};

void restorer_case(Suite& s, const Element& e, const Settings& settings) {
  s.run(std::string(e.name) + "/unusable/while it runs", [&](Case& c) {
    GstElement* element = gst_element_factory_make(e.name, nullptr);
    gst_object_ref_sink(element);
    GstBus* bus = gst_bus_new();
    gst_element_set_bus(element, bus);
    gst_element_set_state(element, GST_STATE_PLAYING);
    hear(element);
    for (const auto& [property, value] : settings) {
      const std::string former = read(element, property);
      gst_util_set_object_arg(G_OBJECT(element), property, value);
      const Heard heard = hear(element).warnings;
      c.check(heard.count == 1 && heard.property == property && read(element, property) == former,
              "%s=%s: %d warnings, and it reads %s", property, value, heard.count,
              read(element, property).c_str());
    }
    gst_element_set_state(element, GST_STATE_NULL);
    for (const auto& [property, value] : settings) {
      gst_util_set_object_arg(G_OBJECT(element), property, value);
      c.check(read(element, property) == value, "%s cannot be set after it ran", property);
    }
    gst_element_set_bus(element, nullptr);
    gst_object_unref(bus);
    gst_object_unref(element);
  });
}

}  // namespace

void unusable_cases(Suite& s, const Element& e) {
  if (&e == &regions_element) return;  // it is the same element with other settings
  for (const auto& [name, settings] : kRestorers)
    if (!strcmp(name, e.name)) restorer_case(s, e, settings);
  if (e.not_filter) return;
  for (const Unusable& u : kUnusable)
    if (!strcmp(u.element, e.name)) unusable_case(s, e, u);
  for (const Unusable& u : kNeedAnalytics)
    if (!strcmp(u.element, e.name) && !gstvf::kHasAnalytics) unusable_case(s, e, u);
  for (Unusable u : kAtStart) {
    u.format = format_of(e);
    unusable_case(s, e, u);
  }
  for (const Unusable& u : kStarts)
    if (!strcmp(u.element, e.name)) start_case(s, e, u);
  random_case(s, e, format_of(e), {});
  passthrough_case(s, e, format_of(e), {});
  if (!strcmp(e.name, "cudagaussian")) {
    gaussian_cases(s, e);
    passthrough_case(s, e, "NV12", {{"sigma", "0"}});
  }
  if (!strcmp(e.name, "cudaguidedmatte")) matte_cases(s, e);
  if (!strcmp(e.name, "cudaletterbox")) letterbox_cases(s, e);
}

}  // namespace vf::test
