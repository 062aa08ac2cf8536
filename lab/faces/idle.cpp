// Measures what look-ahead-ms and hold-follow cost where nothing is held: the processor time of a
// frame, of all threads on the CPU, in turn with and without them, so that all of them suffer
// alike from what else the machine does.
//
//   idle [FRAMES]      (2000)
#include <gst/check/gstharness.h>
#include <gst/video/video.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

namespace {

double cpu_time() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e6 + double(t.tv_nsec) * 1e-3;
}

struct Setting {
  const char* name;
  const char* launch;
  bool found, held;  // whether frames have a face, and whether every fourth one has none
};

constexpr Setting kSettings[] = {
    {"nothing found", "hold-follow=false", false, false},
    {"nothing found, hold-follow", "hold-follow=true", false, false},
    {"nothing found, hold-follow, look-ahead-ms=500", "hold-follow=true look-ahead-ms=500", false,
     false},
    {"8 found", "hold-follow=false", true, false},
    {"8 found, hold-follow", "hold-follow=true", true, false},
    {"8 found, hold-follow, look-ahead-ms=500", "hold-follow=true look-ahead-ms=500", true, false},
    {"8 held in every fourth frame", "hold-follow=false", true, true},
    {"8 held in every fourth frame, hold-follow", "hold-follow=true", true, true},
};

class Player {
 public:
  explicit Player(const Setting& s) : setting_(s) {
    gst_video_info_set_format(&info_, GST_VIDEO_FORMAT_NV12, 1280, 720);
    info_.fps_n = 25, info_.fps_d = 1;
    gchar* launch = g_strdup_printf("cudapixelate backend=cpu regions=roi qos=false %s", s.launch);
    harness_ = gst_harness_new_parse(launch);
    g_free(launch);
    gst_harness_set_drop_buffers(harness_, TRUE);
    gst_harness_set_src_caps(harness_, gst_video_info_to_caps(&info_));
    pixels_ = gst_buffer_new_allocate(nullptr, info_.size, nullptr);
    gst_buffer_memset(pixels_, 0, 90, info_.size);
  }
  ~Player() {
    for (GstBuffer* b : ready_) gst_clear_buffer(&b);
    gst_buffer_unref(pixels_);
    gst_harness_teardown(harness_);
  }
  // Returns the microseconds that a frame takes.
  double push(int frame) {
    GstBuffer* buffer = gst_buffer_copy_deep(pixels_);
    std::swap(buffer, ready_[frame % kReady]);
    if (!buffer) return 0;
    GST_BUFFER_PTS(buffer) = GstClockTime(frame) * 40 * GST_MSECOND;
    GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
    for (guint i = 0; i < 8 && setting_.found && (!setting_.held || frame % 4); i++)
      gst_buffer_add_video_region_of_interest_meta(buffer, "face", 20 + 150 * i, 100, 24, 24);
    const double start = cpu_time();
    gst_harness_push(harness_, buffer);
    return cpu_time() - start;
  }

 private:
  const Setting& setting_;
  GstVideoInfo info_;
  GstHarness* harness_;
  GstBuffer* pixels_;
  // Frames are made so long before they are pushed, so that none is in a cache.
  static constexpr int kReady = 16;
  GstBuffer* ready_[kReady] = {};
};

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  const int frames = argc > 1 ? atoi(argv[1]) : 2000;
  std::vector<Player*> players;
  for (const Setting& s : kSettings) players.push_back(new Player(s));
  std::vector<std::vector<double>> times(players.size());
  for (int i = 0; i < frames; i++)
    for (size_t p = 0; p < players.size(); p++) {
      const double time = players[p]->push(i);
      if (i >= frames / 10) times[p].push_back(time);
    }
  std::printf("%-50s %10s %10s %10s\n", "CPU time of a frame of 720p NV12, us", "quartile",
              "median", "mean");
  for (size_t p = 0; p < players.size(); p++) {
    std::vector<double>& t = times[p];
    std::sort(t.begin(), t.end());
    double sum = 0;
    for (const double v : t) sum += v;
    std::printf("%-50s %10.1f %10.1f %10.1f\n", kSettings[p].name, t[t.size() / 4], t[t.size() / 2],
                sum / double(t.size()));
    delete players[p];
  }
}
