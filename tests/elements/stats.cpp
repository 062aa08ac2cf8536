// Tests the properties stats and stats-interval, and the message about the backend.
#include <cstring>

#include "tests/elements/basefeatures.h"

namespace vf::test {
namespace {

constexpr char kName[] = "application/x-cuda-filter-stats";
constexpr GstClockTime kFrame = 40 * GST_MSECOND;  // video_info() has 25 frames per second

struct Field {
  const char* name;
  GType type;
};

// Lists the fields that an element with these settings adds to the common ones.
struct Own {
  const char* element;
  Settings settings;
  std::vector<Field> fields;
};
const Own kOwn[] = {
    {"cudadenoise", {}, {{"noise-level", G_TYPE_DOUBLE}}},
    {"cudagaussian", {{"sigma", "2"}}, {}},
    {"cudagaussian",
     {{"regions", "roi"}, {"sigma", "2"}},
     {{"regions", G_TYPE_UINT}, {"regions-held", G_TYPE_UINT}}},
    {"cudapixelate",
     {{"regions", "roi"}},
     {{"regions", G_TYPE_UINT}, {"regions-held", G_TYPE_UINT}}},
    {"cudamedian", {{"regions", "roi"}}, {{"regions", G_TYPE_UINT}, {"regions-held", G_TYPE_UINT}}},
    {"cudaguidedmatte", {}, {}},
#if VF_HAVE_GST_ANALYTICS
    {"cudaguidedmatte",
     {{"mask", "tensor"}},
     {{"mask-age", G_TYPE_UINT64}, {"masks-missing", G_TYPE_UINT64}}},
    {"cudaguidedmatte",
     {{"mask", "segmentation"}},
     {{"mask-age", G_TYPE_UINT64}, {"masks-missing", G_TYPE_UINT64}}},
#endif
    {"cudaletterbox", {{"fill-color", "255"}}, {}},
};

using StructurePtr = std::shared_ptr<GstStructure>;
StructurePtr stats_of(GstElement* element) {
  GstStructure* stats = nullptr;
  g_object_get(element, "stats", &stats, nullptr);
  return StructurePtr(stats, gst_structure_free);
}

guint64 number(const StructurePtr& stats, const char* field) {
  guint64 value = G_MAXUINT64;
  gst_structure_get_uint64(stats.get(), field, &value);
  return value;
}
guint small_number(const StructurePtr& stats, const char* field) {
  guint value = G_MAXUINT;
  gst_structure_get_uint(stats.get(), field, &value);
  return value;
}

void check_fields(Case& c, const GstStructure* stats, const std::vector<Field>& own) {
  c.check(gst_structure_has_name(stats, kName), "it is called %s", gst_structure_get_name(stats));
  std::vector<Field> all = {{"backend", G_TYPE_STRING},
                            {"device", G_TYPE_INT},
                            {"frames", G_TYPE_UINT64},
                            {"passed", G_TYPE_UINT64},
                            {"dropped", G_TYPE_UINT64},
                            {"processing-time-mean", G_TYPE_UINT64},
                            {"processing-time-max", G_TYPE_UINT64},
                            {"in-flight", G_TYPE_UINT}};
  all.insert(all.end(), own.begin(), own.end());
  for (const Field& f : all)
    c.check(gst_structure_has_field_typed(stats, f.name, f.type), "no %s of type %s", f.name,
            g_type_name(f.type));
  c.check(gst_structure_n_fields(stats) == int(all.size()), "%d fields, not %zu",
          gst_structure_n_fields(stats), all.size());
}

// A bench that counts its frames.
struct Counter {
  Counter(const Element& e, const Row& row, const Settings& settings)
      : row(row),
        bench(e, row),
        info(video_info(strcmp(e.name, "cudaguidedmatte") ? "I420" : "RGBA", 64, 48)) {
    for (const auto& [name, value] : settings)
      gst_util_set_object_arg(G_OBJECT(bench.element()), name, value);
    if (!strcmp(e.name, "cudaletterbox")) {
      GstCaps* caps = bench.make_caps(video_info("RGB", 32, 32));
      GstStructure* s = gst_caps_get_structure(caps, 0);
      gst_structure_remove_fields(s, "format", "colorimetry", "chroma-site", "interlace-mode",
                                  nullptr);
      gst_harness_set_sink_caps(bench.harness(), caps);
    }
    bench.caps(info);
  }
  void push(bool with_region = false) {
    GstBuffer* frame = gst_buffer_copy(make_frame(row.cuda_caps, info, 1).get());
    GST_BUFFER_PTS(frame) = n++ * kFrame;
    if (with_region) gst_buffer_add_video_region_of_interest_meta(frame, "face", 8, 8, 16, 16);
    gst_harness_push(bench.harness(), frame);
    while (GstBuffer* out = gst_harness_try_pull(bench.harness())) gst_buffer_unref(out);
  }
  StructurePtr stats() { return stats_of(bench.element()); }

  const Row& row;
  Bench bench;
  GstVideoInfo info;
  GstClockTime n = 0;
};

void count_case(Suite& s, const Element& e, const Row& row, const Own& own) {
  std::string name = std::string(e.name) + "/stats/";
  for (const auto& [property, value] : own.settings)
    name += std::string(property) + "=" + value + " ";
  s.run(name + row.name, [&](Case& c) {
    if (!usable(c, row)) return;
    Counter p(e, row, own.settings);
    const bool can_switch =
        g_object_class_find_property(G_OBJECT_GET_CLASS(p.bench.element()), "enabled");
    const bool cuda = !strcmp(row.backend, "cuda");
    for (int i = 0; i < 5; i++) p.push();
    if (can_switch) g_object_set(p.bench.element(), "enabled", FALSE, nullptr);
    for (int i = 0; i < 3 * can_switch; i++) p.push();
    StructurePtr stats = p.stats();
    check_fields(c, stats.get(), own.fields);
    int device = -2;
    gst_structure_get_int(stats.get(), "device", &device);
    const char* backend = gst_structure_get_string(stats.get(), "backend");
    c.check(backend && !strcmp(backend, row.backend) && (cuda ? device >= 0 : device == -1),
            "backend %s, device %d", backend ? backend : "null", device);
    c.check(number(stats, "frames") == 5 + 3 * guint64(can_switch) &&
                number(stats, "passed") == 3 * guint64(can_switch) && number(stats, "dropped") == 0,
            "%s", gst_structure_get_name(stats.get()));
    c.check(small_number(stats, "in-flight") == 0, "frames in flight");
    // The GPU's time of a frame is known when a later frame comes.
    if (can_switch) g_object_set(p.bench.element(), "enabled", TRUE, nullptr);
    for (int i = 0; i < 1000 && number(stats, "processing-time-mean") == 0; i++) {
      p.push();
      stats = p.stats();
    }
    const guint64 mean = number(stats, "processing-time-mean"),
                  max = number(stats, "processing-time-max");
    // A unit other than nanoseconds would show as more than ten seconds.
    c.check(mean > 0 && max >= mean && max < 10 * GST_SECOND,
            "mean %" G_GUINT64_FORMAT ", maximum %" G_GUINT64_FORMAT, mean, max);
    gst_element_set_state(p.bench.element(), GST_STATE_READY);
    gst_element_set_state(p.bench.element(), GST_STATE_PLAYING);
    stats = p.stats();
    c.check(number(stats, "frames") == 0 && number(stats, "processing-time-max") == 0,
            "a restart does not reset it");
  });
}

void common_stats_cases(Suite& s, const Element& e) {
  const std::string at = std::string(e.name) + "/stats/";
  s.run(at + "dropped frames", [&](Case& c) {
    Counter p(e, kRows[0], {});
    p.push();
    // Frames up to the tenth are too late.
    gst_harness_push_upstream_event(p.bench.harness(),
                                    gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 1, 0, 10 * kFrame));
    for (int i = 0; i < 13; i++) p.push();
    const StructurePtr stats = p.stats();
    c.check(number(stats, "dropped") == 10 && number(stats, "frames") == 4, "%d dropped, %d frames",
            int(number(stats, "dropped")), int(number(stats, "frames")));
  });

  s.run(at + "messages", [&](Case& c) {
    Counter p(e, kRows[0], {});
    GstBus* bus = GST_ELEMENT_BUS(p.bench.element());
    const auto messages = [bus] {
      int count = 0;
      while (GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT)) {
        count += gst_structure_has_name(gst_message_get_structure(message), kName);
        gst_message_unref(message);
      }
      return count;
    };
    p.push();
    c.check(messages() == 0, "a message with stats-interval=0");
    g_object_set(p.bench.element(), "stats-interval", 20, nullptr);
    const gint64 begin = g_get_monotonic_time();
    for (int i = 0; i < 50 || g_get_monotonic_time() - begin < 210 * G_TIME_SPAN_MILLISECOND; i++)
      p.push();
    const gint64 most = (g_get_monotonic_time() - begin) / (20 * G_TIME_SPAN_MILLISECOND) + 1;
    const int count = messages();
    c.check(count >= 1 && count <= most, "%d messages, at most %d", count, int(most));
  });

  for (const char* backend : {"cpu", "auto", "cuda"}) {
    s.run(at + "the message about the backend, " + backend, [&, backend](Case& c) {
      const bool device = cuda_context();
      if (!strcmp(backend, "cuda") && !device) return c.skip("no device");
      const Row row = {backend, false, backend};
      Counter p(e, row, {});
      GstMessage* message =
          gst_bus_pop_filtered(GST_ELEMENT_BUS(p.bench.element()), GST_MESSAGE_INFO);
      if (!message) return c.fail("no message");
      const GstStructure* details = nullptr;
      gst_message_parse_info_details(message, &details);
      int number = -2;
      const char* name = details ? gst_structure_get_string(details, "backend") : nullptr;
      if (details) gst_structure_get_int(details, "device", &number);
      const bool cuda = strcmp(backend, "cpu") && device;
      c.check(name && !strcmp(name, cuda ? "cuda" : "cpu") && (cuda ? number >= 0 : number == -1),
              "backend %s, device %d", name ? name : "none", number);
      gst_message_unref(message);
      c.check(p.bench.message(GST_MESSAGE_INFO).empty(), "a second message");
    });
  }
}

void in_flight_case(Suite& s, const Element& e) {
  s.run(std::string(e.name) + "/stats/frames in flight", [&](Case& c) {
    const Row row = {"system-cuda", false, "cuda", 3};
    if (!usable(c, row)) return;
    Counter p(e, row, {});
    for (guint i = 1; i < 6; i++) {
      p.push();
      const guint flying = small_number(p.stats(), "in-flight");
      c.check(flying == std::min(i, 3u), "%u of %u", flying, i);
    }
    p.push();
    const StructurePtr stats = p.stats();
    c.check(number(stats, "processing-time-mean") > 0, "no times");
  });
}

void timed_frames_case(Suite& s, const Element& e) {
  s.run(std::string(e.name) + "/stats/a GPU times one frame in 16", [&](Case& c) {
    const Row row = {"system-cuda", false, "cuda"};
    if (!usable(c, row)) return;
    Counter p(e, row, {});
    // All of the first 16 are timed. The last of their times come in with the next timed frame.
    for (int i = 0; i < 32; i++) p.push();
    const int rounds = 10;
    int changes = 0;
    guint64 before = number(p.stats(), "processing-time-mean");
    c.check(before > 0, "no times");
    for (int i = 0; i < 16 * rounds; i++) {
      p.push();
      const guint64 mean = number(p.stats(), "processing-time-mean");
      changes += mean != before;
      before = mean;
    }
    c.check(changes >= 1 && changes <= rounds, "the mean changes in %d of %d frames", changes,
            16 * rounds);
  });
}

#if VF_HAVE_GST_ANALYTICS
// The cases of masks have the frames whose masks come (tests/elements/guidedmasks.cpp).
void missing_masks_case(Suite& s, const Element& e, const char* mask) {
  s.run(std::string(e.name) + "/stats/no masks come, mask=" + mask, [&](Case& c) {
    Counter p(e, kRows[0], {{"mask", mask}});
    const auto are = [&](guint64 missing) {
      const StructurePtr stats = p.stats();
      c.check(number(stats, "masks-missing") == missing && number(stats, "mask-age") == 0,
              "%" G_GUINT64_FORMAT " missing, not %" G_GUINT64_FORMAT ", age %" G_GUINT64_FORMAT,
              number(stats, "masks-missing"), missing, number(stats, "mask-age"));
    };
    are(0);
    for (guint64 i = 1; i <= 3; i++) {
      p.push();
      are(i);
    }
    g_object_set(p.bench.element(), "enabled", FALSE, nullptr);
    p.push();
    are(3);
    g_object_set(p.bench.element(), "enabled", TRUE, nullptr);
    p.push();
    are(4);
    gst_element_set_state(p.bench.element(), GST_STATE_READY);
    gst_element_set_state(p.bench.element(), GST_STATE_PLAYING);
    are(0);
  });
}
#endif

void regions_case(Suite& s, const Element& e) {
  s.run(std::string(e.name) + "/stats/regions found and held", [&](Case& c) {
    Counter p(e, kRows[0], {{"regions", "roi"}, {"sigma", "2"}, {"hold-ms", "100"}});
    const auto are = [&](guint regions, guint held) {
      const StructurePtr stats = p.stats();
      c.check(
          small_number(stats, "regions") == regions && small_number(stats, "regions-held") == held,
          "%u regions and %u held, not %u and %u", small_number(stats, "regions"),
          small_number(stats, "regions-held"), regions, held);
    };
    p.push();
    are(0, 0);
    p.push(true);
    are(1, 0);
    p.push();
    are(1, 1);
    for (int i = 0; i < 5; i++) p.push();
    are(0, 0);
  });
}

}  // namespace

void stats_cases(Suite& s, const Element& e) {
  if (e.not_filter || &e == &regions_element) return;
  for (const Own& own : kOwn)
    if (!strcmp(own.element, e.name))
      for (const Row& row : kRows) count_case(s, e, row, own);
  common_stats_cases(s, e);
  if (!strcmp(e.name, "cudadenoise")) in_flight_case(s, e);
  if (!strcmp(e.name, "cudagaussian")) timed_frames_case(s, e);
  if (!strcmp(e.name, "cudagaussian")) regions_case(s, e);
#if VF_HAVE_GST_ANALYTICS
  if (!strcmp(e.name, "cudaguidedmatte"))
    for (const char* mask : {"tensor", "segmentation"}) missing_masks_case(s, e, mask);
#endif
}

}  // namespace vf::test
