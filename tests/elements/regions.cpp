// Tests the regions of the elements that filter each plane: the regions that metas name, those that
// are held, and the frames that no detector has seen.
#include "filters/regions.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "filters/region_areas.h"
#include "gst/base/analytics.h"
#include "tests/elements/lookahead.h"
#include "tests/elements/planesettings.h"
#include "tests/regions.h"

namespace vf::test {

extern const Element gaussian_element, median_element, pixelate_element;

namespace {

struct Box {
  guint x, y, width, height;
  const char* label = "face";
  gint id = 0;
};
using Boxes = std::vector<Box>;

// Describes an element with settings whose effect is visible.
struct Subject {
  const char* element;
  test::Settings settings;
  RegionFilter filter;
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = [] {
    RegionGaussian blur;
    blur.sigma_relative = 0.15;
    RegionMedian median;
    median.params.size = 9;
    return std::vector<Subject>{
        {"cudagaussian", {{"sigma-relative", "0.15"}}, blur},
        {"cudamedian", {{"size", "9"}}, median},
        {"cudapixelate", {}, RegionPixelate()},
    };
  }();
  return all;
}

const Element& element_of(const Subject& s) {
  for (const Element* e : {&gaussian_element, &median_element, &pixelate_element})
    if (!strcmp(e->name, s.element)) return *e;
  return gaussian_element;
}

void add_boxes(GstBuffer* buffer, const Boxes& boxes) {
  for (const Box& b : boxes)
    gst_buffer_add_video_region_of_interest_meta(buffer, b.label, b.x, b.y, b.width, b.height)->id =
        b.id;
}

// Filters a frame with the library, in these boxes or everywhere.
Make wanted(const Subject& s, const RegionParams& params, const std::vector<RegionBox>& b,
            bool whole = false) {
  return [=](Queue& queue, const gstvf::Format& format, Placement placement,
             std::unique_ptr<Plan>* out) -> Status {
    std::unique_ptr<RegionsPlan> plan;
    VF_TRY(make_regions(queue, format.layout, params, s.filter, placement, &plan));
    if (whole)
      plan->set_whole();
    else
      VF_TRY(plan->set_boxes(b.data(), b.size()));
    *out = std::move(plan);
    return {};
  };
}

Make wanted(const Subject& s, const RegionParams& params, const Boxes& boxes, bool whole = false) {
  std::vector<RegionBox> b;
  for (const Box& box : boxes) b.push_back(make_box(box.x, box.y, box.width, box.height));
  return wanted(s, params, b, whole);
}
Make wanted(const Subject& s, const std::vector<RegionBox>& boxes) {
  return wanted(s, {}, boxes);
}

// Runs an element that filters regions, and makes frames for it.
class Player {
 public:
  Player(Case& c, const Subject& s, const Row& row, const GstVideoInfo& info,
         const test::Settings& settings = {})
      : case_(c), subject_(s), row_(row), info_(info), bench_(element_of(s), row) {
    gst_util_set_object_arg(G_OBJECT(element()), "regions", "roi");
    // These frames are noise. The cases of lookahead.cpp have pictures that regions follow.
    gst_util_set_object_arg(G_OBJECT(element()), "hold-follow", "false");
    for (const auto* list : {&s.settings, &settings})
      for (const auto& [name, value] : *list)
        gst_util_set_object_arg(G_OBJECT(element()), name, value);
    bench_.caps(info);
  }
  GstElement* element() const { return bench_.element(); }

  // Pushes a frame with `boxes` at `time`, and expects what the library makes of it.
  void expect(const Boxes& boxes, const Make& make, GstClockTime time = 0, bool fields = false) {
    expect([&](GstBuffer* b) { add_boxes(b, boxes); }, make, time, fields);
  }
  // Attaches metas of any kind.
  void expect(const std::function<void(GstBuffer*)>& add, const Make& make, GstClockTime time = 0,
              bool fields = false) {
    if (!case_.ok()) return;
    const BufferPtr in = make_frame(row_.cuda_caps, info_, ++seed_);
    add(in.get());
    GST_BUFFER_PTS(in.get()) = time;
    const BufferPtr before = packed_copy(info_, in.get());
    BufferPtr want;
    case_.check(filter_directly(make, row_.library_backend(), info_, before.get(), fields, &want),
                "the library, called directly");
    const BufferPtr out = bench_.push(in);
    if (!case_.ok()) return;
    if (!out)
      return case_.fail("flow %s: %s", gst_flow_get_name(bench_.flow()),
                        bench_.message(GST_MESSAGE_ERROR).c_str());
    const std::string d = difference(info_, out.get(), want.get(), 0);
    case_.check(d.empty(), "%s %s at %" G_GUINT64_FORMAT " ms: %s", subject_.element,
                info_.finfo->name, time / GST_MSECOND, d.c_str());
    // `in` is still held here.
    const std::string changed = difference(info_, in.get(), before.get(), 0);
    case_.check(changed.empty(), "the other holder's buffer changed: %s", changed.c_str());
  }
  void expect(const Boxes& boxes, const RegionParams& params, const Boxes& filtered,
              GstClockTime time = 0) {
    expect(boxes, wanted(subject_, params, filtered), time);
  }
  void expect_whole(const Boxes& boxes, GstClockTime time) {
    expect(boxes, wanted(subject_, {}, Boxes(), true), time);
  }
  // Pushes a frame and expects it unchanged.
  void expect_clear(GstClockTime time) { expect({}, RegionParams(), {}, time); }

  void resize(const GstVideoInfo& info) {
    info_ = info;
    bench_.caps(info);
  }

  Bench& bench() { return bench_; }

 private:
  Case& case_;
  const Subject& subject_;
  const Row& row_;
  GstVideoInfo info_;
  Bench bench_;
  guint32 seed_ = 0;
};

constexpr GstClockTime ms = GST_MSECOND;
const Boxes kFaces = {{12, 8, 20, 18}, {40, 5, 50, 30}};

void box_cases(Suite& s, const Subject& subject) {
  const std::string at = std::string(subject.element) + "/regions/";
  for (const Row& row : kRows) {
    s.run(at + row.name + "/boxes", [&](Case& c) {
      if (!usable(c, row)) return;
      for (const char* format : {"I420", "NV12", "RGBA", "P010_10LE", "YUY2", "GRAY8"}) {
        if (row.cuda_caps && (!strcmp(format, "YUY2") || !strcmp(format, "GRAY8"))) continue;
        Player p(c, subject, row, video_info(format, 90, 62));
        p.expect(kFaces, RegionParams(), kFaces);
        p.expect({}, RegionParams(), kFaces, 40 * ms);
      }
    });
    s.run(at + row.name + "/interlaced", [&](Case& c) {
      if (!usable(c, row)) return;
      const GstVideoInfo info = video_info("I420", 90, 64, GST_VIDEO_INTERLACE_MODE_INTERLEAVED);
      Player p(c, subject, row, info);
      std::vector<RegionBox> halves;
      for (const Box& b : kFaces)
        halves.push_back(make_box(b.x, b.y / 2.0, b.width, b.height / 2.0));
      p.expect(
          kFaces,
          [&](Queue& queue, const gstvf::Format& format, Placement placement,
              std::unique_ptr<Plan>* out) -> Status {
            std::unique_ptr<RegionsPlan> plan;
            VF_TRY(make_regions(queue, format.layout, {}, subject.filter, placement, &plan));
            VF_TRY(plan->set_boxes(halves.data(), halves.size()));
            *out = std::move(plan);
            return {};
          },
          0, true);
    });
  }

  s.run(at + "nothing else changes", [&](Case& c) {
    const GstVideoInfo info = video_info("I420", 90, 62);
    Player p(c, subject, kRows[0], info, {{"region-expand", "0"}});
    const BufferPtr in = make_frame(false, info, 7);
    const BufferPtr before = packed_copy(info, in.get());
    add_boxes(in.get(), {{11, 9, 21, 17}});
    const BufferPtr out = p.bench().push(in);
    if (!out) return c.fail("nothing came out");
    GstVideoFrame was, is;
    gst_video_frame_map(&was, &info, before.get(), GST_MAP_READ);
    gst_video_frame_map(&is, &info, out.get(), GST_MAP_READ);
    int changed = 0;
    for (int n = 0; n < 3; n++) {
      const int sub = n ? 2 : 1;
      for (int y = 0; y < 62 / sub; y++)
        for (int x = 0; x < 90 / sub; x++) {
          // The box covers pixels 11 to 31 and 9 to 25, and the chroma of each of them.
          const bool inside = x >= 11 / sub && x <= 31 / sub && y >= 9 / sub && y <= 25 / sub;
          const bool same = get_component(was, n, x, y) == get_component(is, n, x, y);
          c.check(inside || same, "component %d changed at %d,%d", n, x, y);
          changed += inside && !same;
        }
    }
    gst_video_frame_unmap(&was);
    gst_video_frame_unmap(&is);
    c.check(changed > 400, "only %d samples changed", changed);
  });

  s.run(at + "settings", [&](Case& c) {
    const GstVideoInfo info = video_info("I420", 90, 62);
    const auto with = [&](const test::Settings& settings, const RegionParams& params) {
      Player(c, subject, kRows[0], info, settings).expect(kFaces, params, kFaces);
    };
    RegionParams p;
    p.expand = 0.4;
    with({{"region-expand", "0.4"}}, p);
    p = {};
    p.shape = RegionShape::ellipse;
    with({{"region-shape", "ellipse"}}, p);
    p.feather = 6;
    with({{"region-shape", "ellipse"}, {"region-feather", "6"}}, p);
    p.invert = true;
    with({{"region-shape", "ellipse"}, {"region-feather", "6"}, {"region-invert", "true"}}, p);
    c.expect_warning("region-expand");
    Player refused(c, subject, kRows[0], info);
    g_object_set(refused.element(), "region-expand", 5.0, nullptr);
  });

  s.run(at + "labels", [&](Case& c) {
    const GstVideoInfo info = video_info("I420", 90, 62);
    const Boxes boxes = {{3, 3, 20, 20, "face"}, {30, 3, 20, 20, "plate"}, {60, 3, 20, 20, "cat"}};
    const auto with = [&](const char* labels, const Boxes& filtered) {
      Player(c, subject, kRows[0], info, {{"region-labels", labels}})
          .expect(boxes, RegionParams(), filtered);
    };
    with("", boxes);
    with(" , ", boxes);
    with("face", {boxes[0]});
    with("cat, face ,dog", {boxes[0], boxes[2]});
    with("fac", {});
    with("Face", {});
  });

  s.run(at + "labels with commas", [&](Case& c) {
    const GstVideoInfo info = video_info("I420", 90, 62);
    const Boxes boxes = {
        {3, 3, 20, 20, "Doe, Jane"}, {30, 3, 20, 20, "Doe"}, {60, 3, 20, 20, "a\\b"}};
    const auto with = [&](const char* labels, const Boxes& filtered) {
      Player p(c, subject, kRows[0], info);
      g_object_set(p.element(), "region-labels", labels, nullptr);
      p.expect(boxes, RegionParams(), filtered);
    };
    with("Doe, Jane", {boxes[1]});
    with(" Doe\\, Jane ", {boxes[0]});
    with("Doe\\, Jane,Doe", {boxes[0], boxes[1]});
    with("a\\b", {boxes[2]});
    with("cat\\\\,a\\\\b", {boxes[2]});
    with("\\,", {});
    with("Doe\\", {});
  });
}

void time_cases(Suite& s, const Subject& subject) {
  const std::string at = std::string(subject.element) + "/regions/";
  const GstVideoInfo info = video_info("I420", 90, 62);
  const Row& row = kRows[0];

  // The detector misses a face now and then, and later loses it for good.
  s.run(at + "hold covers a gap, and ends", [&](Case& c) {
    Player p(c, subject, row, info);
    p.expect_clear(0);
    p.expect(kFaces, RegionParams(), kFaces, 40 * ms);
    for (GstClockTime t = 80; t <= 540; t += 20) p.expect({}, RegionParams(), kFaces, t * ms);
    p.expect_clear(541 * ms);
    p.expect(kFaces, RegionParams(), kFaces, 600 * ms);
    // One face is found elsewhere, and the other is not found any more.
    const Boxes moved = {{14, 9, 20, 18}};
    p.expect(moved, RegionParams(), {moved[0], kFaces[1]}, 640 * ms);
    p.expect(moved, RegionParams(), {moved[0], kFaces[1]}, 1100 * ms);
    p.expect(moved, RegionParams(), moved, 1101 * ms);
  });

  s.run(at + "hold-ms", [&](Case& c) {
    Player p(c, subject, row, info, {{"hold-ms", "0"}});
    p.expect(kFaces, RegionParams(), kFaces, 0);
    p.expect_clear(20 * ms);
    p.expect(kFaces, RegionParams(), kFaces, 40 * ms);
    g_object_set(p.element(), "hold-ms", 100, nullptr);
    p.expect({}, RegionParams(), kFaces, 140 * ms);
    p.expect_clear(141 * ms);
    // Neither a seek back nor frames without a time end the hold sooner.
    p.expect(kFaces, RegionParams(), kFaces, 1000 * ms);
    p.expect({}, RegionParams(), kFaces, 10 * ms);
    p.expect({}, RegionParams(), kFaces, GST_CLOCK_TIME_NONE);
  });

  // Frames without times are counted at the rate in the caps.
  for (const int rate : {0, 24, 60, 120})
    s.run(at + "hold-ms without times, at " + std::to_string(rate) + " frames a second",
          [&, rate](Case& c) {
            GstVideoInfo timeless = info;
            timeless.fps_n = rate;
            timeless.fps_d = 1;
            Player p(c, subject, row, timeless, {{"hold-ms", "100"}});
            p.expect(kFaces, RegionParams(), kFaces, GST_CLOCK_TIME_NONE);
            for (int i = 0; i < (rate ? rate / 10 : 40); i++)
              p.expect({}, RegionParams(), kFaces, GST_CLOCK_TIME_NONE);
            if (rate) p.expect_clear(GST_CLOCK_TIME_NONE);
          });

  s.run(at + "hold-ms where some frames have no time", [&](Case& c) {
    GstVideoInfo timed = info;
    timed.fps_n = 50;
    timed.fps_d = 1;
    Player p(c, subject, row, timed, {{"hold-ms", "100"}});
    p.expect(kFaces, RegionParams(), kFaces, 0);
    for (const GstClockTime time : {GST_CLOCK_TIME_NONE, 30 * ms, GST_CLOCK_TIME_NONE, 100 * ms})
      p.expect({}, RegionParams(), kFaces, time);
    p.expect_clear(GST_CLOCK_TIME_NONE);
    timed.fps_n = 0;
    Player no_rate(c, subject, row, timed, {{"hold-ms", "100"}});
    no_rate.expect(kFaces, RegionParams(), kFaces, 0);
    for (const GstClockTime time : {GST_CLOCK_TIME_NONE, 90 * ms, GST_CLOCK_TIME_NONE, 100 * ms})
      no_rate.expect({}, RegionParams(), kFaces, time);
    no_rate.expect_clear(101 * ms);
  });

  s.run(at + "a flush forgets", [&](Case& c) {
    for (const char* on_missing : {"pass", "hold"}) {
      Player p(c, subject, row, info, {{"on-missing", on_missing}});
      p.expect(kFaces, RegionParams(), kFaces, 0);
      GstHarness* h = p.bench().harness();
      GstSegment segment;
      gst_segment_init(&segment, GST_FORMAT_TIME);
      gst_harness_push_event(h, gst_event_new_flush_start());
      gst_harness_push_event(h, gst_event_new_flush_stop(TRUE));
      gst_harness_push_event(h, gst_event_new_segment(&segment));
      p.expect_clear(40 * ms);
    }
  });

  s.run(at + "ids of boxes", [&](Case& c) {
    Player p(c, subject, row, info);
    const Boxes first = {{3, 3, 15, 15, "face", 7}, {60, 3, 15, 15, "face", 8}};
    p.expect(first, RegionParams(), first, 0);
    // The face that moved far is the same object, and the other one is held.
    const Boxes moved = {{30, 40, 15, 15, "face", 7}};
    p.expect(moved, RegionParams(), {first[1], moved[0]}, 40 * ms);
    // Another number for the same place is the same object.
    const Boxes numbered = {{31, 41, 15, 15, "face", 9}};
    p.expect(numbered, RegionParams(), {first[1], numbered[0]}, 80 * ms);
  });

  s.run(at + "hold-ms, played backwards", [&](Case& c) {
    Player p(c, subject, row, info, {{"hold-ms", "100"}});
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    segment.rate = -1;
    segment.stop = 2000 * ms;
    c.check(gst_harness_push_event(p.bench().harness(), gst_event_new_segment(&segment)),
            "segment refused");
    p.expect(kFaces, RegionParams(), kFaces, 1000 * ms);
    p.expect({}, RegionParams(), kFaces, 900 * ms);
    p.expect_clear(899 * ms);
  });

  s.run(at + "what this GStreamer cannot find", [&](Case& c) {
    if (gstvf::kHasAnalytics)
      return c.skip("built with GStreamer's analytics library, which has it");
    for (const char* regions : {"analytics", "segmentation"}) {
      Bench b(element_of(subject), row);
      gst_util_set_object_arg(G_OBJECT(b.element()), "regions", regions);
      b.caps(info);
      c.check(!b.push(make_frame(false, info, 1)), "a frame came out unfiltered");
      GQuark domain = 0;
      const std::string text = b.message(GST_MESSAGE_ERROR, &domain);
      c.check(domain == GST_LIBRARY_ERROR && text.find("1.26") != std::string::npos,
              "error of domain %s: \"%s\"", g_quark_to_string(domain), text.c_str());
    }
    Player p(c, subject, row, info);
    p.expect(kFaces, RegionParams(), kFaces);
    gst_util_set_object_arg(G_OBJECT(p.element()), "regions", "analytics");
    p.expect(kFaces, RegionParams(), kFaces, 40 * ms);
  });

  // Objects whose labels are not asked for still count as a result.
  s.run(at + "on-missing=all filters every frame without a result", [&](Case& c) {
    Player p(c, subject, row, info,
             {{"on-missing", "all"}, {"region-labels", "face"}, {"hold-ms", "60"}});
    p.expect_whole({}, 0);
    p.expect(kFaces, RegionParams(), kFaces, 40 * ms);
    for (GstClockTime t = 80; t <= 4000; t += 280) p.expect_whole({}, t * ms);
    p.expect({{0, 0, 9, 9, "cat"}}, RegionParams(), {}, 4040 * ms);
    p.expect_whole({}, 4080 * ms);
  });

  s.run(at + "on-missing=hold keeps the last result", [&](Case& c) {
    Player p(c, subject, row, info, {{"on-missing", "hold"}, {"hold-ms", "60"}});
    p.expect_clear(0);
    p.expect(kFaces, RegionParams(), kFaces, 40 * ms);
    for (GstClockTime t = 80; t <= 90000; t += 8000) p.expect({}, RegionParams(), kFaces, t * ms);
    p.expect({}, RegionParams(), kFaces, 90000 * ms);
    // The detector comes back and finds another object.
    const Boxes moved = {{60, 40, 20, 15}};
    p.expect(moved, RegionParams(), {moved[0], kFaces[0], kFaces[1]}, 90040 * ms);
    p.expect(moved, RegionParams(), moved, 90140 * ms);
  });

  s.run(at + "a new start forgets", [&](Case& c) {
    Player p(c, subject, row, info, {{"on-missing", "hold"}});
    p.expect(kFaces, RegionParams(), kFaces, 0);
    gst_element_set_state(p.element(), GST_STATE_READY);
    gst_element_set_state(p.element(), GST_STATE_PLAYING);
    gst_harness_push_event(p.bench().harness(), gst_event_new_stream_start("again"));
    p.bench().caps(info);
    p.expect_clear(40 * ms);
  });

  s.run(at + "hostile boxes", [&](Case& c) {
    const guint most = G_MAXUINT, half = 1u << 31;
    const Boxes odd[] = {
        {{0, 0, 0, 0}},
        {{most, most, most, most}},
        {{0, 0, most, most}},
        {{half, 0, half, 10}},
        {{half - 1, half - 1, 2, 2}},
        {{89, 61, 1, 1}},
        {{89, 61, most, 1}},
        {{90, 0, 5, 5}},
        {{0, 62, 5, 5}},
        {{5, 5, 0, most}},
        {{1, 1, 1, 1}, {0, 0, most, 1}, {0, 0, 1, most}},
    };
    for (const Boxes& boxes : odd) Player(c, subject, row, info).expect(boxes, {}, boxes);
    Boxes many;
    for (guint i = 0; i < 700; i++)
      many.push_back({i * 7919 % 95, i * 104729 % 66, i % 23, i % 19});
    Player(c, subject, row, info).expect(many, {}, many);
    while (many.size() < 3000) many.push_back(many[many.size() - 700]);
    Player(c, subject, row, info).expect(many, {}, many);
  });
}

// Checks that frames in CUDA memory that nobody else holds are filtered in place.
void in_place_case(Suite& s, const Subject& subject) {
  s.run(std::string(subject.element) + "/regions/cuda/in place where it can be", [&](Case& c) {
    const Row& row = kRows[2];
    if (!usable(c, row)) return;
    const GstVideoInfo info = video_info("NV12", 90, 62);
    for (const bool alone : {true, false}) {
      Player p(c, subject, row, info);
      BufferPtr frame = make_frame(true, info, 1);
      add_boxes(frame.get(), kFaces);
      const BufferPtr before = packed_copy(info, frame.get());
      GstBuffer* in = gst_buffer_ref(frame.get());
      const GstMemory* memory = gst_buffer_peek_memory(in, 0);
      if (alone) frame.reset();
      const BufferPtr out = p.bench().push(in);
      if (!out) return c.fail("nothing came out");
      c.check((gst_buffer_peek_memory(out.get(), 0) == memory) == alone, "%s",
              alone ? "the frame was copied" : "a frame that is held was changed");
      BufferPtr want;
      c.check(filter_directly(wanted(subject, {}, kFaces), Backend::cuda, info, before.get(), false,
                              &want),
              "the library, called directly");
      if (!c.ok()) return;
      const std::string d = difference(info, out.get(), want.get(), 0);
      c.check(d.empty(), "%s", d.c_str());
      int metas = 0;
      gpointer state = nullptr;
      while (gst_buffer_iterate_meta_filtered(out.get(), &state,
                                              GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE))
        metas++;
      c.check(metas == int(kFaces.size()), "%d metas came out", metas);
    }
  });
}

void area_cases(Suite& s, const Subject& subject) {
  const std::string at = std::string(subject.element) + "/regions/areas/";
  const GstVideoInfo info = video_info("I420", 90, 62);
  using Corners = std::vector<RegionArea::Point>;
  const auto covered = [](const std::vector<Corners>& areas) {
    std::vector<RegionBox> boxes;
    for (const Corners& a : areas) cover_area({a}, &boxes);
    return boxes;
  };

  const struct {
    const char* text;
    std::vector<Corners> areas;  // two corners are a box
  } texts[] = {
      {"", {}},
      {" ; ", {}},
      {"10,8,20,30", {{{10, 8}, {30, 38}}}},
      {" -5 , 8.5,\t20, 30.25 ;", {{{-5, 8.5}, {15, 38.75}}}},
      {"50%,25%,50%,50%", {{{45, 15.5}, {90, 46.5}}}},
      {"10,8,1e6,30", {{{10, 8}, {1e6 + 10, 38}}}},
      {"5,5 60,12.5 20,50", {{{5, 5}, {60, 12.5}, {20, 50}}}},
      {"5,5,9,9;10%,10% 90%,50% 50%,100% 20%,60%",
       {{{5, 5}, {14, 14}}, {{9, 6.2}, {81, 31}, {45, 62}, {18, 37.2}}}},
  };
  for (const Row& row : kRows)
    s.run(at + row.name, [&](Case& c) {
      if (!usable(c, row)) return;
      for (const auto& t : texts) {
        Player p(c, subject, row, info, {{"regions", "areas"}, {"region-shape", "ellipse"}});
        gst_util_set_object_arg(G_OBJECT(p.element()), "on-missing", "all");
        g_object_set(p.element(), "areas", t.text, nullptr);
        p.expect(kFaces, wanted(subject, covered(t.areas)));
      }
    });

  s.run(at + "with a detector", [&](Case& c) {
    std::vector<RegionBox> with = covered({{{70, 40}, {85, 60}}}), alone = with;
    for (const Box& b : kFaces) with.push_back(make_box(b.x, b.y, b.width, b.height));
    Player p(c, subject, kRows[0], info, {{"areas", "70,40,15,20"}, {"hold-ms", "0"}});
    p.expect(Boxes(), wanted(subject, alone), 0);
    p.expect(kFaces, wanted(subject, with), 40 * ms);
    p.expect(Boxes(), wanted(subject, alone), 80 * ms);
    // Areas change while frames come.
    g_object_set(p.element(), "areas", "5,5 60,12.5 20,50", nullptr);
    p.expect(Boxes(), wanted(subject, covered({{{5, 5}, {60, 12.5}, {20, 50}}})), 120 * ms);
    g_object_set(p.element(), "areas", nullptr, nullptr);
    p.expect_clear(160 * ms);
  });

  s.run(at + "fields and another size", [&](Case& c) {
    const GstVideoInfo fields = video_info("I420", 90, 64, GST_VIDEO_INTERLACE_MODE_INTERLEAVED);
    Player p(c, subject, kRows[0], fields, {{"regions", "areas"}});
    g_object_set(p.element(), "areas", "50%,25%,50%,50%;5,5 60,12 20,50", nullptr);
    p.expect(Boxes(),
             wanted(subject, covered({{{45, 8}, {90, 24}}, {{5, 2.5}, {60, 6}, {20, 25}}})), 0,
             true);
    p.resize(video_info("I420", 60, 40));
    p.expect(Boxes(),
             wanted(subject, covered({{{30, 10}, {60, 30}}, {{5, 5}, {60, 12}, {20, 50}}})));
  });

  // Areas that stand alone are shown. With a detector they stay filtered.
  s.run(at + "inverted", [&](Case& c) {
    RegionParams inverted;
    inverted.invert = true;
    for (const char* regions : {"areas", "roi"}) {
      std::vector<RegionBox> boxes = covered({{{20, 10}, {52, 33}}});
      boxes[0].always = strcmp(regions, "roi") == 0;
      Player p(c, subject, kRows[0], info, {{"regions", regions}, {"region-invert", "true"}});
      g_object_set(p.element(), "areas", "20,10,32,23", nullptr);
      if (boxes[0].always)
        for (const Box& b : kFaces) boxes.push_back(make_box(b.x, b.y, b.width, b.height));
      p.expect(kFaces, wanted(subject, inverted, boxes));
    }
  });
}

#if VF_HAVE_GST_ANALYTICS

// Adds a detector's object. It gets a tracker's id if the id is not negative.
void add_object(GstBuffer* buffer, const char* label, int x, int y, int w, int h, float angle = 0,
                int id = -1) {
  GstAnalyticsRelationMeta* meta = gst_buffer_get_analytics_relation_meta(buffer);
  if (!meta) meta = gst_buffer_add_analytics_relation_meta(buffer);
  GstAnalyticsMtd object, track;
  gst_analytics_relation_meta_add_oriented_od_mtd(meta, g_quark_from_string(label), x, y, w, h,
                                                  angle, 0.9f, &object);
  if (id < 0) return;
  gst_analytics_relation_meta_add_tracking_mtd(meta, guint64(id), 0, &track);
  gst_analytics_relation_meta_set_relation(meta, GST_ANALYTICS_REL_TYPE_RELATE_TO, object.id,
                                           track.id);
}

// Adds a segmentation of width x height pixels for a part of the frame. `number(x, y)` returns the
// number of a pixel's region.
template <class F>
void add_mask(GstBuffer* buffer, int width, int height, int x, int y, guint w, guint h,
              const F& number) {
  GstBuffer* image = gst_buffer_new_allocate(nullptr, gsize(width) * height, nullptr);
  GstMapInfo map;
  gst_buffer_map(image, &map, GST_MAP_WRITE);
  for (int j = 0; j < height; j++)
    for (int i = 0; i < width; i++) map.data[j * width + i] = guint8(number(i, j));
  gst_buffer_unmap(image, &map);
  // The mask has no padding, unlike GStreamer's default layout.
  gsize offset[GST_VIDEO_MAX_PLANES] = {};
  gint stride[GST_VIDEO_MAX_PLANES] = {width};
  gst_buffer_add_video_meta_full(image, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_GRAY8, width,
                                 height, 1, offset, stride);
  guint ids[] = {0, 1, 7};
  GstAnalyticsMtd mask;
  gst_analytics_relation_meta_add_segmentation_mtd(gst_buffer_add_analytics_relation_meta(buffer),
                                                   image, GST_SEGMENTATION_TYPE_SEMANTIC, 3, ids, x,
                                                   y, w, h, &mask);
}

void analytics_cases(Suite& s, const Subject& subject) {
  const std::string at = std::string(subject.element) + "/regions/";
  const GstVideoInfo info = video_info("I420", 90, 62);
  const Row& row = kRows[0];

  s.run(at + "analytics", [&](Case& c) {
    Player p(c, subject, row, info,
             {{"regions", "analytics"}, {"region-labels", "face"}, {"on-missing", "all"}});
    p.expect_whole({{3, 3, 20, 20}}, 0);  // a meta of another kind
    p.expect(
        [](GstBuffer* b) {
          add_object(b, "face", 10, 10, 30, 20);
          add_object(b, "dog", 50, 10, 30, 20);
          add_object(b, "face", 40, 30, 24, 16, 0.5f);
        },
        wanted(subject, {make_box(10, 10, 30, 20), make_box(40, 30, 24, 16, double(0.5f))}),
        40 * ms);
    // A detector that finds nothing has a result, so earlier objects are held.
    p.expect([](GstBuffer* b) { gst_buffer_add_analytics_relation_meta(b); },
             wanted(subject, {make_box(10, 10, 30, 20), make_box(40, 30, 24, 16, double(0.5f))}),
             80 * ms);
    p.expect([](GstBuffer* b) { gst_buffer_add_analytics_relation_meta(b); }, wanted(subject, {}),
             2000 * ms);
    p.expect_whole({}, 2040 * ms);
  });

  s.run(at + "analytics, by tracking id", [&](Case& c) {
    Player p(c, subject, row, info, {{"regions", "analytics"}});
    p.expect([](GstBuffer* b) { add_object(b, "face", 5, 5, 20, 20, 0, 3); },
             wanted(subject, {make_box(5, 5, 20, 20)}), 0);
    // An object with the same id is the same object even far away.
    p.expect([](GstBuffer* b) { add_object(b, "face", 60, 30, 20, 20, 0, 3); },
             wanted(subject, {make_box(60, 30, 20, 20)}), 40 * ms);
    // An object with another id is another one even at the same place.
    p.expect([](GstBuffer* b) { add_object(b, "face", 58, 30, 20, 20, 0, 4); },
             wanted(subject, {make_box(60, 30, 20, 20), make_box(58, 30, 20, 20)}), 80 * ms);
  });

  s.run(at + "analytics, hostile", [&](Case& c) {
    for (const auto& [x, y, w, h, angle] : {std::tuple{G_MININT, G_MININT, G_MAXINT, G_MAXINT, 0.f},
                                            {G_MAXINT, G_MAXINT, G_MAXINT, G_MAXINT, 1.f},
                                            {-5, -5, G_MAXINT, G_MAXINT, 0.3f},
                                            {10, 10, -4, 10, 0.f},
                                            {10, 10, 20, 20, float(NAN)},
                                            {10, 10, 20, 20, float(INFINITY)},
                                            {10, 10, 20, 20, 1e30f}}) {
      Player p(c, subject, row, info, {{"regions", "analytics"}});
      p.expect([&](GstBuffer* b) { add_object(b, "face", x, y, w, h, angle); },
               wanted(subject, {make_box(x, y, w, h, double(angle))}));
    }
  });

  s.run(at + "segmentation", [&](Case& c) {
    Player p(c, subject, row, info, {{"regions", "segmentation"}, {"on-missing", "all"}});
    p.expect_whole({}, 0);
    // The mask is a cross of 1 in 0, with a tenth of the frame's size.
    const auto cross = [](int x, int y) { return x == 3 || y == 2 ? 1 : 0; };
    const auto part = [](double x, double y, double w, double h) {
      return RegionBox{x, y, w, h, 0, 10, 5, 60, 40};
    };
    p.expect([&](GstBuffer* b) { add_mask(b, 6, 4, 10, 5, 60, 40, cross); },
             wanted(subject, {part(40, 5, 10, 20), part(10, 25, 60, 10), part(40, 35, 10, 10)}),
             40 * ms);
    // The mask is held as one object until another one lies there.
    p.expect([&](GstBuffer* b) { add_mask(b, 6, 4, 10, 5, 60, 40, [](int, int) { return 0; }); },
             wanted(subject, {part(40, 5, 10, 20), part(10, 25, 60, 10), part(40, 35, 10, 10)}),
             80 * ms);
    p.expect([&](GstBuffer* b) { add_mask(b, 6, 4, 10, 5, 60, 40, [](int, int) { return 7; }); },
             wanted(subject, {make_box(10, 5, 60, 40)}), 120 * ms);
  });

  s.run(at + "segmentation, hostile", [&](Case& c) {
    const auto all = [](int, int) { return 1; };
    for (const auto& [x, y, w, h] : {std::tuple{G_MININT, 0, G_MAXUINT, 40u},
                                     {G_MAXINT, G_MAXINT, G_MAXUINT, G_MAXUINT},
                                     {-40, -40, 200u, 200u},
                                     {5, 5, 1u, 1u}}) {
      Player p(c, subject, row, info, {{"regions", "segmentation"}});
      p.expect([&](GstBuffer* b) { add_mask(b, 3, 3, x, y, w, h, all); },
               wanted(subject, {make_box(x, y, w, h)}));
    }
    // A segmentation that cannot be read is not a result.
    Player p(c, subject, row, info, {{"regions", "segmentation"}, {"on-missing", "all"}});
    // From GStreamer 1.30 on, a segmentation without an area is a result that found nothing. With
    // older versions it cannot be read either.
    p.expect([&](GstBuffer* b) { add_mask(b, 3, 3, 0, 0, 0, 0, all); },
             wanted(subject, {}, Boxes(), !gstvf::kSegmentationCanBeEmpty));
    struct Image {
      gsize memory;
      GstVideoFormat format;
      guint width, height;
    };
    for (const Image& i :
         {Image{0, GST_VIDEO_FORMAT_GRAY8, 3, 3}, Image{9, GST_VIDEO_FORMAT_GRAY8, 3, 4},
          Image{9, GST_VIDEO_FORMAT_GRAY8, G_MAXUINT, G_MAXUINT},
          Image{36, GST_VIDEO_FORMAT_RGBx, 3, 3}})
      p.expect(
          [&](GstBuffer* b) {
            guint ids[] = {0, 1};
            GstBuffer* image =
                i.memory ? gst_buffer_new_allocate(nullptr, i.memory, nullptr) : gst_buffer_new();
            const gsize offset[GST_VIDEO_MAX_PLANES] = {};
            const gint stride[GST_VIDEO_MAX_PLANES] = {3};
            GstVideoMeta* meta = gst_buffer_add_video_meta_full(image, GST_VIDEO_FRAME_FLAG_NONE,
                                                                GST_VIDEO_FORMAT_GRAY8, i.width,
                                                                i.height, 1, offset, stride);
            GstAnalyticsMtd mask;
            gst_analytics_relation_meta_add_segmentation_mtd(
                gst_buffer_add_analytics_relation_meta(b), image, GST_SEGMENTATION_TYPE_INSTANCE, 2,
                ids, 0, 0, 9, 9, &mask);
            // GStreamer's library refuses other formats.
            meta->format = i.format;
          },
          wanted(subject, {}, Boxes(), true));
  });
}

#endif

void cases(Suite& s) {
  for (const Subject& subject : subjects()) {
#if VF_HAVE_GST_ANALYTICS
    analytics_cases(s, subject);
#endif
    box_cases(s, subject);
    time_cases(s, subject);
    in_place_case(s, subject);
    area_cases(s, subject);
  }
  look_ahead_cases(s);
  s.run("cudapixelate/regions/block-origin", [&](Case& c) {
    Subject subject = subjects()[2];
    std::get<RegionPixelate>(subject.filter).from_box = true;
    Player(c, subject, kRows[0], video_info("I420", 90, 62), {{"block-origin", "region"}})
        .expect(kFaces, {}, kFaces);
  });
  s.run("cudagaussian/regions/all has no relative sigma", [&](Case& c) {
    const GstVideoInfo info = video_info("I420", 90, 62);
    Bench b(gaussian_element, kRows[0]);
    g_object_set(b.element(), "sigma-relative", 0.5, nullptr);
    b.caps(info);
    expect(c, b, info, make_frame(false, info, 1), maker<make_gaussian>(GaussianParams()));
  });
}

}  // namespace

extern const Element regions_element = [] {
  Element e;
  e.name = "cudagaussian";
  e.own_cases = cases;
  e.not_common = "regions of frames; those of whole frames are in the elements' files";
  const test::Settings regions = {{"regions", "roi"}, {"sigma", "4"}};
  e.changes = {
      {"on-missing", {"pass", "all", "hold"}, regions, {"I420", "RGBA", "NV12", "P010_10LE"}, {}}};
  e.faults = {{{{"regions", "roi"}, {"on-missing", "all"}, {"sigma", "1.3"}},
               {"RGBA", "I420"},
               {"RGBA", "I420"}},
              {{{"regions", "roi"}, {"sigma", "1.3"}},
               {"RGBA", "I420"},
               {"RGBA", "I420"},
               0,
               0,
               overlapping_regions()}};
  return e;
}();

}  // namespace vf::test
