// Tests the base class with an element that records every call it gets: when plans are made and
// reset, what each frame passes on, and what comes out when.
#include <cstring>
#include <tuple>
#include <utility>

#include "gst/base/livesettings.h"
#include "gst/base/properties.h"
#include "tests/elements/harness.h"

using namespace vf::test;

namespace {
struct TellerSettings {
  int value = 0;  // a plan can be made with 0 to 9
};
}  // namespace

// Copies frames and records its calls. Its plan counts the frames that it remembers.
typedef struct _Teller {
  GstCudaVideoFilter parent;
  std::string* told;  // written by the streaming thread
  gboolean identity, forgets;
  const char* fails;  // the error that prepare_frame returns, or null for success
  TellerSettings settings;
  // If they are 0 or more, is_identity and make_plan set `value` to these before they read it, as
  // another thread may at that moment.
  int set_in_identity, set_in_plan;
} Teller;
typedef struct _TellerClass {
  GstCudaVideoFilterClass parent_class;
} TellerClass;

static GType teller_get_type(void);
G_DEFINE_TYPE(Teller, teller, GST_TYPE_CUDA_VIDEO_FILTER)

static Teller* teller(gpointer element) {
  return reinterpret_cast<Teller*>(element);
}

static void tell(Teller* self, const std::string& text) {
  if (!self->told->empty()) *self->told += ' ';
  *self->told += text;
}

static void set_once(Teller* self, int* value) {
  const int now = std::exchange(*value, -1);
  if (now >= 0) g_object_set(self, "value", now, nullptr);
}

namespace {

constexpr GstClockTime kFrame = 40 * GST_MSECOND;  // one frame at video_info's 25 frames per second

std::string number_of(GstBuffer* buffer) {
  return std::to_string(GST_BUFFER_PTS(buffer) / kFrame);
}

class CountingPlan : public vf::Plan {
 public:
  CountingPlan(vf::Queue& queue, const vf::Layout& in, const vf::Layout& out,
               vf::Placement placement)
      : Plan(queue, in, out, placement) {}
  int remembered = 0;
  bool prepared = false;

 private:
  vf::Status enqueue(const vf::Image& src, const vf::Image& dst) override {
    if (!prepared) return vf::Status::error(vf::Code::invalid_argument, "not prepared");
    prepared = false;
    remembered++;
    return src.data[0] == dst.data[0] ? vf::Status() : queue_.copy(src, dst);
  }
};

vf::Status make_plan(GstCudaVideoFilter* filter, vf::Queue& queue, const gstvf::Format& in,
                     const gstvf::Format& out, vf::Placement placement,
                     std::unique_ptr<vf::Plan>* plan) {
  set_once(teller(filter), &teller(filter)->set_in_plan);
  const int value = gstvf::locked(filter, teller(filter)->settings.value);
  if (value > 9)
    return vf::Status::error(vf::Code::invalid_argument, "value is %d: must be 0 to 9", value);
  auto next = std::make_unique<CountingPlan>(queue, in.layout, out.layout, placement);
  if (*plan) next->remembered = static_cast<CountingPlan*>(plan->get())->remembered;
  tell(teller(filter), *plan ? "renewed" : "made");
  *plan = std::move(next);
  return {};
}

// Records "7:2" for frame 7 of a plan that remembers two frames.
vf::Status prepare_frame(GstCudaVideoFilter* filter, GstBuffer* in, gstvf::Rows rows,
                         vf::Plan& plan) {
  Teller* self = teller(filter);
  if (self->fails) return vf::Status::error(vf::Code::invalid_argument, "%s", self->fails);
  auto& counting = static_cast<CountingPlan&>(plan);
  counting.prepared = true;
  const char* const part[] = {"", "top", "bottom"};
  std::string text = number_of(in) + part[int(rows)] + ":" + std::to_string(counting.remembered);
  if (const auto* roi = gst_buffer_get_video_region_of_interest_meta(in))
    text += "@" + std::to_string(roi->x);
  tell(self, text);
  return {};
}

void finish_frame(GstCudaVideoFilter* filter, GstBuffer* out) {
  const bool free = gst_buffer_is_writable(out) && gst_buffer_is_all_memory_writable(out);
  tell(teller(filter), (free ? "done" : "held") + number_of(out));
}

}  // namespace

static void teller_init(Teller* self) {
  self->told = new std::string;
  self->set_in_identity = self->set_in_plan = -1;
}

static void teller_finalize(GObject* object) {
  delete teller(object)->told;
  G_OBJECT_CLASS(teller_parent_class)->finalize(object);
}

static void teller_class_init(TellerClass* klass) {
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);
  G_OBJECT_CLASS(klass)->finalize = teller_finalize;
  gstvf::install_properties<TellerSettings>(
      G_OBJECT_CLASS(klass), [](GObject* object) { return &teller(object)->settings; },
      {{"value", "Value", &TellerSettings::value, vf::Limits<int>{0, 99}, "A number"}});
  gstvf::describe_filter(GST_ELEMENT_CLASS(klass), "Teller", "Tells what it is asked for");
  filter_class->stateful = TRUE;
  filter_class->forgets_at_discont = [](GstCudaVideoFilter* filter) {
    return teller(filter)->forgets;
  };
  filter_class->is_identity = [](GstCudaVideoFilter* filter, const gstvf::Format&,
                                 const gstvf::Format&) {
    set_once(teller(filter), &teller(filter)->set_in_identity);
    return teller(filter)->identity;
  };
  filter_class->make_plan = make_plan;
  filter_class->prepare_frame = prepare_frame;
  filter_class->finish_frame = finish_frame;
}

namespace {

const Element kTeller = {"teller"};

struct Rig {
  explicit Rig(const Row& row) : bench(kTeller, row), info(video_info("I420", 32, 16)) {
    bench.caps(info);
  }
  Rig(const Rig&) = delete;
  Teller* element() const { return teller(bench.element()); }
  void caps(const GstVideoInfo& next) {
    info = next;
    bench.caps(info);
  }
  BufferPtr frame(int number) {
    const BufferPtr buffer = make_frame(false, info, guint32(number));
    GST_BUFFER_PTS(buffer.get()) = number * kFrame;
    GST_BUFFER_DURATION(buffer.get()) = kFrame;
    return buffer;
  }
  BufferPtr push(int number, int flags = 0) {
    const BufferPtr buffer = frame(number);
    GST_BUFFER_FLAG_SET(buffer.get(), flags);
    return bench.push(buffer);
  }
  void event(GstEvent* event) { gst_harness_push_event(bench.harness(), event); }
  void upstream(GstEvent* event) { gst_harness_push_upstream_event(bench.harness(), event); }
  void flush() {
    event(gst_event_new_flush_start());
    event(gst_event_new_flush_stop(TRUE));
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    event(gst_event_new_segment(&segment));
  }
  // Compares the calls since the previous expect().
  void expect(Case& c, const char* what, const char* text) {
    c.check(*element()->told == text, "%s: \"%s\", not \"%s\"", what, element()->told->c_str(),
            text);
    element()->told->clear();
  }

  Bench bench;
  GstVideoInfo info;
};

void state_cases(Suite& s, const Row& row) {
  const std::string at = std::string("base/") + row.name + "/";
  const auto run = [&](const char* name, const std::function<void(Case&, Rig&)>& body) {
    s.run(at + name, [&](Case& c) {
      if (!usable(c, row)) return;
      Rig rig(row);
      rig.push(0);
      rig.push(1);
      rig.expect(c, "two frames", "made 0:0 done0 1:1 done1");
      body(c, rig);
    });
  };

  run("a plan remembers frames when settings change", [](Case& c, Rig& r) {
    gst_cuda_video_filter_settings_changed(GST_CUDA_VIDEO_FILTER(r.element()));
    r.push(2);
    r.push(3);
    r.expect(c, "after it", "renewed 2:2 done2 3:3 done3");
  });

  // The last of these changes cannot be used. Negative values are not set.
  const struct {
    const char* name;
    int before, in_identity, in_plan, after, stays;
  } changes[] = {
      {"before a frame", 90, -1, -1, -1, 0},
      {"while the settings are read", 1, 90, -1, -1, 0},
      {"while a plan is made", 1, -1, 90, -1, 0},
      {"after one that was replaced while a plan was made", 1, 90, 2, 91, 2},
      {"while a plan is made that is no longer needed", -1, -1, 90, -1, 0},
  };
  for (const auto& change : changes)
    run((std::string("an unusable value comes ") + change.name).c_str(), [&](Case& c, Rig& r) {
      if (change.before >= 0) g_object_set(r.element(), "value", change.before, nullptr);
      gst_cuda_video_filter_settings_changed(GST_CUDA_VIDEO_FILTER(r.element()));
      r.element()->set_in_identity = change.in_identity;
      r.element()->set_in_plan = change.in_plan;
      c.check(r.push(2) != nullptr, "frame 2 is lost");
      if (change.after >= 0) g_object_set(r.element(), "value", change.after, nullptr);
      c.check(r.push(3) != nullptr, "frame 3 is lost");
      int value = -1;
      g_object_get(r.element(), "value", &value, nullptr);
      c.check(value == change.stays, "the value is %d, not %d", value, change.stays);
      r.bench.expect_warning(c, "must be 0 to 9");
    });

  run("a plan forgets frames at a flush", [](Case& c, Rig& r) {
    r.flush();
    r.push(2);
    r.expect(c, "after it", "made 2:0 done2");
  });

  run("a plan forgets frames at new caps", [](Case& c, Rig& r) {
    r.caps(video_info("NV12", 20, 10));
    r.push(2);
    r.expect(c, "after it", "made 2:0 done2");
  });

  run("a plan forgets frames at a restart", [](Case& c, Rig& r) {
    gst_element_set_state(r.bench.element(), GST_STATE_READY);
    gst_element_set_state(r.bench.element(), GST_STATE_PLAYING);
    r.caps(r.info);
    r.push(2);
    r.expect(c, "after it", "made 2:0 done2");
  });

  run("a plan forgets frames at DISCONT if it is to", [](Case& c, Rig& r) {
    r.push(2, GST_BUFFER_FLAG_DISCONT);
    r.expect(c, "where it is not to", "2:2 done2");
    r.element()->forgets = TRUE;
    r.push(3);
    r.push(4, GST_BUFFER_FLAG_DISCONT);
    r.expect(c, "where it is to", "3:3 done3 made 4:0 done4");
  });

  run("a plan forgets frames when others passed through", [](Case& c, Rig& r) {
    r.element()->identity = TRUE;
    gst_cuda_video_filter_settings_changed(GST_CUDA_VIDEO_FILTER(r.element()));
    c.check(r.push(2) != nullptr, "nothing passed through");
    r.expect(c, "in passthrough", "");
    r.element()->identity = FALSE;
    gst_cuda_video_filter_settings_changed(GST_CUDA_VIDEO_FILTER(r.element()));
    r.push(3);
    r.expect(c, "after it", "made 3:0 done3");
  });

  run("each field has a plan", [](Case& c, Rig& r) {
    r.caps(video_info("I420", 32, 16, GST_VIDEO_INTERLACE_MODE_INTERLEAVED));
    r.push(2);
    r.push(3);
    r.expect(c, "interleaved", "made made 2top:0 2bottom:0 done2 3top:1 3bottom:1 done3");
    r.caps(video_info("I420", 32, 16, GST_VIDEO_INTERLACE_MODE_MIXED));
    r.push(4);
    r.push(5, GST_VIDEO_BUFFER_FLAG_INTERLACED);
    r.push(6);
    r.expect(c, "mixed", "made 4:0 done4 made made 5top:0 5bottom:0 done5 made 6:0 done6");
  });

  run("a frame that comes too late changes nothing", [](Case& c, Rig& r) {
    // Frames that end before 680 ms, the time of frame 17, are too late.
    r.upstream(
        gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 0.1, 8 * GstClockTimeDiff(kFrame), 1 * kFrame));
    c.check(!r.push(2), "it was not dropped");
    r.expect(c, "dropped", "");
    const BufferPtr next = r.push(20);
    r.expect(c, "the next", "20:2 done20");
    c.check(next && GST_BUFFER_FLAG_IS_SET(next.get(), GST_BUFFER_FLAG_DISCONT),
            "the next is not marked DISCONT");
  });
}

void frame_cases(Suite& s, const Row& row) {
  const std::string at =
      std::string("base/") + row.name + "/depth " + std::to_string(row.async_depth) + "/";

  s.run(at + "each frame is prepared by its own metas, and finished once", [&](Case& c) {
    if (!usable(c, row)) return;
    Rig r(row);
    for (int i = 0; i < 4; i++) {
      const BufferPtr in = r.frame(i);
      gst_buffer_add_video_region_of_interest_meta(in.get(), "face", 10 * i, 0, 4, 4);
      const BufferPtr out = r.bench.push(in);
      c.check(!out == (i < row.async_depth), "after frame %d, %s came out", i,
              out ? "one" : "none");
      if (!out) continue;
      const BufferPtr want = r.frame(i - row.async_depth);
      const std::string d = difference(r.info, out.get(), want.get(), 0);
      c.check(d.empty(), "frame %d: %s", i - row.async_depth, d.c_str());
    }
    r.expect(c, "four frames",
             row.async_depth ? "made 0:0@0 1:1@10 2:2@20 done0 3:3@30 done1"
                             : "made 0:0@0 done0 1:1@10 done1 2:2@20 done2 3:3@30 done3");
    r.event(gst_event_new_eos());
    r.expect(c, "at EOS", row.async_depth ? "done2 done3" : "");
  });

  s.run(at + "frames that threads copy", [&](Case& c) {
    if (!usable(c, row)) return;
    for (const char* format : {"RGBA", "I420"}) {
      Rig r(row);
      r.caps(video_info(format, 1002, 770));
      for (int i = 0; i < 4; i++) {
        const BufferPtr out = r.push(i);
        if (!out) continue;
        const BufferPtr want = r.frame(i - row.async_depth);
        const std::string d = difference(r.info, out.get(), want.get(), 0);
        c.check(d.empty(), "%s, frame %d: %s", format, i - row.async_depth, d.c_str());
      }
    }
  });

  s.run(at + "a frame that cannot be prepared is an error", [&](Case& c) {
    if (!usable(c, row)) return;
    Rig r(row);
    r.push(0);
    r.element()->fails = "no such region";
    r.push(1);
    c.check(r.bench.flow() == GST_FLOW_ERROR, "flow %s", gst_flow_get_name(r.bench.flow()));
    const std::string error = r.bench.message(GST_MESSAGE_ERROR);
    c.check(error.find("no such region") != std::string::npos, "the error is \"%s\"",
            error.c_str());
  });
}

void place_case(Suite& s) {
  s.run("base/crops that end with the frame, and beyond", [](Case& c) {
    gstvf::Format format;
    gstvf::make_format(video_info("I420", 24, 16), false, &format);
    const BufferPtr frame = own(gst_buffer_new());
    gst_buffer_add_video_meta(frame.get(), GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_I420, 32,
                              24);
    GstVideoCropMeta* crop = gst_buffer_add_video_crop_meta(frame.get());
    crop->width = 24, crop->height = 16;
    for (const auto& [x, y, fits] : {std::tuple{8, 8, true}, {9, 8, false}, {8, 9, false}}) {
      crop->x = guint(x), crop->y = guint(y);
      const gstvf::FramePlace place = gstvf::place_of(format, frame.get());
      c.check(place.cropped == fits, "%d,%d: %s", x, y, fits ? "refused" : "taken");
    }
  });
}

void put_back_case(Suite& s) {
  s.run("base/changes that a failed plan had are put back, and no others", [](Case& c) {
    GParamSpec* const spec = g_param_spec_ref_sink(
        g_param_spec_int("number", nullptr, nullptr, 0, 9, 0, G_PARAM_READWRITE));
    gstvf::LiveSettings live;
    gstvf::PutBack out{};
    bool again = true;
    c.check(!live.take(live.last(), nullptr, &out, &again) && !again, "nothing was changed");
    const guint64 seen = live.last();
    GValue former = G_VALUE_INIT;
    g_value_init(&former, G_TYPE_INT);
    live.changed(spec, former, false);
    c.check(!live.take(seen, nullptr, &out, &again) && again, "the plan did not have the change");
    c.check(live.take(live.last(), nullptr, &out, &again) && !again && out.spec == spec,
            "the change stays");
    c.check(!live.take(live.last(), nullptr, &out, &again) && !again, "it was put back before");
    g_param_spec_unref(spec);
  });
}

void chroma_site_case(Suite& s) {
  s.run("base/places of chroma", [](Case& c) {
    const struct {
      GstVideoChromaSite site;
      bool x, y;  // whether chroma lies on a sample of luma
    } rows[] = {{GST_VIDEO_CHROMA_SITE_UNKNOWN, true, false},
                {GST_VIDEO_CHROMA_SITE_JPEG, false, false},
                {GST_VIDEO_CHROMA_SITE_MPEG2, true, false},
                {GST_VIDEO_CHROMA_SITE_V_COSITED, false, true},
                {GST_VIDEO_CHROMA_SITE_COSITED, true, true}};
    for (const auto& row : rows) {
      GstVideoInfo info = video_info("I420", 24, 16);
      info.chroma_site = row.site;
      gstvf::Format format;
      gstvf::make_format(info, false, &format);
      c.check(format.color.cosited_x == row.x && format.color.cosited_y == row.y,
              "site %d: x %d, y %d", int(row.site), format.color.cosited_x, format.color.cosited_y);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string arg = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (arg == "--seed") {
      options.seed = strtoull(value, nullptr, 10);
    } else if (arg == "--case") {
      options.match = value;
    } else if (arg != "--part" || !read_part(value, &options.part)) {
      fprintf(stderr, "usage: %s [--seed N] [--case SUBSTRING] [--part I/N]\n", argv[0]);
      return 2;
    }
  }
  gst_init(nullptr, nullptr);
  gst_element_register(nullptr, "teller", GST_RANK_NONE, teller_get_type());
  Suite suite(options);
  for (const Row& row : kRows) {
    if (row.cuda_caps) continue;
    state_cases(suite, row);
    frame_cases(suite, row);
  }
  Row deep = kRows[1];
  deep.async_depth = 2;
  frame_cases(suite, deep);
  hand_over_cases(suite);
  place_case(suite);
  put_back_case(suite);
  chroma_site_case(suite);
  return suite.finish();
}
