// filters/region_tracker: what is filtered of a frame, from what a detector said of it and of those
// before. filters/region_mask: the rectangles of a mask.
#include "filters/region_tracker.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>

#include "filters/region_mask.h"
#include "filters/region_motion.h"

using namespace vf;

namespace {

int count, failed;

void result(const char* name, const std::string& failure) {
  std::printf("%sok %d - %s\n", failure.empty() ? "" : "not ", ++count, name);
  if (failure.empty()) return;
  failed++;
  std::printf("# %s\n", failure.c_str());
}

using Result = std::vector<Detection>;

Detection at(double x, int64_t id = Detection::kNoId) {
  return {id, make_box(x, 10, 20, 20), {}};
}

Detection numbered(double x, int64_t id) {
  Detection d = at(x, id);
  d.tracked = false;
  return d;
}

// Lists what is filtered: "all", or the left edges of the boxes.
std::string filtered(const RegionTracker& tracker) {
  if (tracker.whole()) return "all";
  std::vector<int> edges;
  for (const RegionBox& b : tracker.boxes()) edges.push_back(int(b.x));
  std::sort(edges.begin(), edges.end());
  std::string text;
  for (const int e : edges) text += (text.empty() ? "" : " ") + std::to_string(e);
  return text;
}

struct Frame {
  int64_t elapsed;
  bool seen;  // by the detector
  Result result;
  const char* want;
};

void run(const char* name, RegionTracker::Settings settings, const std::vector<Frame>& frames) {
  RegionTracker tracker;
  std::string failure;
  for (size_t i = 0; i < frames.size() && failure.empty(); i++) {
    const Frame& f = frames[i];
    tracker.update(f.elapsed, f.seen ? &f.result : nullptr, settings);
    if (filtered(tracker) != f.want)
      failure = "frame " + std::to_string(i) + ": " + filtered(tracker) + ", not " + f.want;
  }
  result(name, failure);
}

// Gives the motion in all boxes of a frame, in pixels, or NaN for a motion in doubt. It is known in
// the next frame.
struct KnownMotion final : BoxMotion {
  bool in(const RegionBox&, double* x, double* y) const override {
    *x = std::isnan(by) ? 0 : by;
    *y = 0;
    return !std::isnan(by);
  }
  int64_t from() const override { return before; }
  int64_t to() const override { return now; }
  double by = 0;
  int64_t before = 0, now = 0;
};

// Frames of which those with a held box are measured, as an element does it: `moves` is what each
// frame has moved since the one before.
void run_following(const char* name, RegionTracker::Settings settings,
                   const std::vector<Frame>& frames, const std::vector<double>& moves) {
  RegionTracker tracker;
  KnownMotion motion;
  std::string failure;
  bool measured = false, known = false;
  for (size_t i = 0; i < frames.size() && failure.empty(); i++) {
    const Frame& f = frames[i];
    tracker.update(f.elapsed, f.seen ? &f.result : nullptr, settings);
    if (tracker.can_follow()) {
      tracker.follow(known ? &motion : nullptr, settings);
      known = measured;
      measured = true;
      motion.before = motion.now;
      motion.now = tracker.time();
      motion.by = moves[i];
    } else {
      measured = known = false;
    }
    if (filtered(tracker) != f.want)
      failure = "frame " + std::to_string(i) + ": " + filtered(tracker) + ", not " + f.want;
  }
  result(name, failure);
}

// Tests the motion in a box of a field of 10 x 10 blocks. In columns 2 to 4 blocks move by `inner`,
// and in others by `outer`, in pixels to the right. `residual` is what their vectors leave of 1000,
// in the first `rows` rows. Other rows have vectors that fit.
void in_field(const char* name, const RegionBox& box, int inner, int outer, int residual,
              const char* want, int rows = 10) {
  constexpr int kBlocks = 10, kSize = kBlocks * kMotionBlock;
  std::vector<MotionVector> field;
  for (int i = 0; i < kBlocks * kBlocks; i++) {
    const int by = i % kBlocks >= 2 && i % kBlocks <= 4 ? inner : outer;
    const int left = i / kBlocks < rows ? residual : 100;
    field.push_back({int16_t(-by * kMotionUnits), 0, uint16_t(by ? left : 1000), 1000});
  }
  double x = 0, y = 0;
  const bool sure = motion_in(field.data(), kSize, kSize, box, &x, &y);
  const std::string got = sure ? std::to_string(int(x)) : "in doubt";
  result((std::string("motion of ") + name).c_str(), got == want ? "" : got + ", not " + want);
}

// A texture moves by 4 pixels to the right from frame to frame. Memory and motion come only with
// frames that are measured.
void measured_motion() {
  std::unique_ptr<Queue> queue;
  Status status = make_queue({}, &queue);
  const Layout layout = packed_layout(Type::u8, 1, 128, 96);
  ColorFormat color;
  color.role[0][0] = Role::y;
  RegionMotion motion(*queue, layout, color);
  std::vector<uint8_t> pixels(size_t(128) * 96);
  Image image;
  image.layout = layout;
  image.data[0] = pixels.data();
  image.stride[0] = 128;
  std::string got;
  for (int frame = 0; frame < 6 && status.ok(); frame++) {
    if (frame == 3) motion.forget();
    for (int i = 0; i < 128 * 96; i++) {
      const double px = i % 128 - 4.0 * frame, py = i / 128;
      pixels[size_t(i)] =
          uint8_t(128 + 50 * std::sin(px * 0.13) + 40 * std::sin(py * 0.4 + px * 0.2));
    }
    motion.prepare();
    status = motion.measure(image, frame, {make_box(40, 30, 40, 40)});
    double x = 0, y = 0;
    got += !motion.wait()                                ? " -"
           : motion.in(make_box(40, 30, 40, 40), &x, &y) ? " " + std::to_string(int(std::lround(x)))
                                                         : " ?";
  }
  result("measured motion", status.ok() && got == " - 4 4 - 4 4" ? "" : got + status.message());
  color.role[0][0] = Role::a;
  result("no motion without luma",
         RegionMotion::can_measure(layout, color) ? "it is measured" : "");
}

// Frames that wait: each leaves when the one that arrives comes `look_ahead` later, or at the end.
void run_ahead(const char* name, RegionTracker::Settings settings,
               const std::vector<Frame>& frames) {
  RegionTracker tracker;
  std::string failure;
  std::vector<int64_t> times;
  size_t left = 0;
  const auto leave = [&] {
    tracker.leave(settings);
    const std::string got = filtered(tracker);
    if (got != frames[left].want && failure.empty())
      failure = "frame " + std::to_string(left) + ": " + got + ", not " + frames[left].want;
    left++;
  };
  for (const Frame& f : frames) {
    times.push_back((times.empty() ? 0 : times.back()) + f.elapsed);
    tracker.arrive(f.elapsed, f.seen ? &f.result : nullptr, settings);
    while (left < times.size() && times[left] + settings.look_ahead <= times.back()) leave();
  }
  while (left < times.size()) leave();
  result(name, failure);
}

// Objects go in and out of a frame of 400 x 100 pixels, are missed, and move in doubt. No box
// leaves the frame: its centre stays inside, and all of one that follows.
void stays_in_frame() {
  constexpr int64_t kFrame = 40000000;
  constexpr int kFrames = 40, kSize = 20;
  std::mt19937 random(1);
  const auto any = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  std::string failure;
  size_t checked = 0, followed = 0;
  for (int run = 0; run < 400; run++) {
    const int64_t ahead = run % 2 ? 8 * kFrame : 0;
    const RegionTracker::Settings s = {
        10 * kFrame, OnMissing::pass, ahead, run % 3 > 0, 0.3, 400, 100, true};
    RegionTracker tracker;
    KnownMotion motion;
    bool known = false;
    double x = any(-100, 400);
    const double speed = any(-15, 15), y = any(0, 80);
    for (int i = 0; i < kFrames; i++) {
      const double left = std::max(x, 0.0), right = std::min(x + kSize, 400.0);
      Result found;
      if (right > left && any(0, 1) < 0.5)
        found = {{run % 5 ? Detection::kNoId : 3, make_box(left, y, right - left, kSize), {}}};
      x += speed;
      tracker.arrive(kFrame, &found, s);
      if (i * kFrame < ahead) continue;
      tracker.leave(s);
      for (const RegionBox& b : tracker.boxes()) {
        const double at = b.x + b.width / 2;
        checked++;
        if (at < -1e-9 || at > 400 + 1e-9)
          failure = "in run " + std::to_string(run) + ", a box at " + std::to_string(at);
      }
      if (!tracker.can_follow()) {
        known = false;
        continue;
      }
      tracker.follow(known ? &motion : nullptr, s);
      motion.before = motion.now;
      motion.now = tracker.time();
      motion.by = any(0, 1) < 0.2 ? NAN : any(-20, 20);
      known = motion.before == motion.now - kFrame;
      for (const RegionBox& b : tracker.followed()) {
        followed++;
        if (b.x < -1e-9 || b.x + b.width > 400 + 1e-9)
          failure =
              "in run " + std::to_string(run) + ", one that follows at " + std::to_string(b.x);
      }
    }
  }
  if (checked < 1000 || followed < 1000) failure = "too few boxes";
  result("no box leaves the frame", failure);
}

// Rows of a mask: what its rectangles cover, and how many there are.
void covers(const char* name, const std::vector<std::string>& rows, size_t most, size_t want,
            bool exact) {
  RegionMask mask;
  mask.width = int(rows[0].size());
  mask.height = int(rows.size());
  mask.stride = mask.width;
  std::string marked;
  for (const std::string& row : rows)
    for (const char c : row) marked += c == '#' ? char(255) : char(0);
  mask.marked = reinterpret_cast<const uint8_t*>(marked.data());
  mask.x = 100;
  mask.y = -40;
  mask.view_width = 4 * mask.width;
  mask.view_height = 2 * mask.height;
  Detection d;
  cover_mask(mask, most, &d);
  std::string failure;
  if (d.parts.size() > most || (want && d.parts.size() != want))
    failure = std::to_string(d.parts.size()) + " rectangles";
  for (int y = 0; y < mask.height; y++)
    for (int x = 0; x < mask.width; x++) {
      const double px = 100 + 4 * x + 1, py = -40 + 2 * y + 1;
      int times = 0;
      for (const RegionBox& b : d.parts)
        times += px > b.x && px < b.x + b.width && py > b.y && py < b.y + b.height;
      const bool is = marked[size_t(y) * mask.width + x];
      if ((is && times == 0) || times > 1 || (exact && !is && times))
        failure = "pixel " + std::to_string(x) + "," + std::to_string(y) + " is covered " +
                  std::to_string(times) + " times";
    }
  for (const RegionBox& b : d.parts)
    if (b.object_x != d.box.x || b.object_width != d.box.width || b.x < d.box.x ||
        b.x + b.width > 100 + mask.view_width || b.y + b.height > -40 + mask.view_height)
      failure = "a rectangle is not the object's";
  result(name, failure);
}

}  // namespace

int main() {
  const auto pass = OnMissing::pass;
  run("nothing before the first result", {100, pass}, {{0, false, {}, ""}, {40, true, {}, ""}});
  run("a box that vanishes is held", {100, pass},
      {{0, true, {at(5)}, "5"}, {50, true, {}, "5"}, {50, true, {}, "5"}, {1, true, {}, ""}});
  run("without results too", {100, pass},
      {{0, true, {at(5)}, "5"}, {100, false, {}, "5"}, {1, false, {}, ""}});
  run("seen again, it is as good as new", {100, pass},
      {{0, true, {at(5)}, "5"}, {90, true, {at(5)}, "5"}, {90, true, {}, "5"}, {20, true, {}, ""}});
  run("a box that moves is one", {100, pass},
      {{0, true, {at(5)}, "5"}, {40, true, {at(9)}, "9"}, {40, true, {at(14)}, "14"}});
  run("a jump leaves what was there", {100, pass},
      {{0, true, {at(5)}, "5"}, {40, true, {at(60)}, "5 60"}, {101, true, {at(60)}, "60"}});
  run("an id is followed however far", {100, pass},
      {{0, true, {at(5, 7)}, "5"}, {40, true, {at(300, 7)}, "300"}});
  run("another id is another object", {100, pass},
      {{0, true, {at(5, 7)}, "5"}, {40, true, {at(6, 8)}, "5 6"}});
  run("without an id, overlap counts", {100, pass},
      {{0, true, {at(5, 7)}, "5"}, {40, true, {at(6)}, "6"}});
  run("an id goes before overlap", {100, pass},
      {{0, true, {at(5, 7), at(9, 8)}, "5 9"}, {40, true, {at(5, 8), at(300, 7)}, "5 300"}});
  // A detector may give the ids of these metas anew in each frame.
  run("an id that is not a tracker's is followed", {100, pass},
      {{0, true, {numbered(5, 7)}, "5"}, {40, true, {numbered(300, 7)}, "300"}});
  run("numbered anew, the one that is missed is held", {100, pass},
      {{0, true, {numbered(5, 1), numbered(60, 2)}, "5 60"},
       {40, true, {numbered(61, 1)}, "5 61"}});
  run("an id chooses among boxes that overlap", {100, pass},
      {{0, true, {numbered(5, 1), numbered(9, 2)}, "5 9"}, {40, true, {numbered(8, 1)}, "8 9"}});
  run("numbered anew, overlap counts", {100, pass},
      {{0, true, {numbered(5, 7)}, "5"},
       {40, true, {numbered(6, 8)}, "6"},
       {40, true, {numbered(60, 9)}, "6 60"}});
  run("one box stands for one", {100, pass},
      {{0, true, {at(5), at(8)}, "5 8"}, {40, true, {at(9)}, "5 9"}});
  // Else an eye that is taken for a face would uncover the face.
  run("a small box does not stand for a large one", {100, pass},
      {{0, true, {at(5)}, "5"},
       {40, true, {{Detection::kNoId, make_box(8, 12, 6, 6), {}}}, "5 8"}});
  run("hold without end", {100, OnMissing::hold},
      {{0, false, {}, ""},
       {40, true, {at(5)}, "5"},
       {1000000, false, {}, "5"},
       {50, true, {}, "5"},
       {51, true, {}, ""},
       {40, false, {}, ""}});
  run("all", {100, OnMissing::all},
      {{0, false, {}, "all"},
       {40, true, {at(5)}, "5"},
       {40, false, {}, "all"},
       {40, true, {}, "5"},
       {40, true, {}, ""},
       {40, false, {}, "all"}});
  run("no hold", {0, pass},
      {{0, true, {at(5)}, "5"}, {40, true, {at(60)}, "60"}, {40, true, {}, ""}});
  run("time does not go back", {100, pass},
      {{0, true, {at(5)}, "5"},
       {-1000, false, {}, "5"},
       {100, false, {}, "5"},
       {1, false, {}, ""}});

  RegionTracker::Settings ahead = {100, pass, 100, true, 0, 400, 100};
  run_ahead(
      "found later", ahead,
      {{0, true, {}, "5"}, {50, true, {}, "5"}, {50, true, {at(5)}, "5"}, {101, true, {}, ""}});
  run_ahead("found too late", ahead, {{0, true, {}, ""}, {101, true, {at(5)}, "5"}});
  run_ahead("moved back along its way", ahead,
            {{0, true, {}, "50"}, {50, true, {at(60, 3)}, "60"}, {50, true, {at(70, 3)}, "70"}});
  run_ahead(
      "at the right edge", ahead,
      {{0, true, {}, "390"}, {50, true, {at(370, 3)}, "370"}, {50, true, {at(340, 3)}, "340"}});
  {
    // Detections end at the frame's edge. Their other side says how fast the object is.
    const auto seen = [](double x, double width) {
      return Result{{3, make_box(x, 10, width, 20), {}}};
    };
    run_ahead("comes in from the left", ahead,
              {{0, true, {}, "-7"}, {50, true, seen(0, 18), "0"}, {50, true, seen(0, 25), "0"}});
    run_ahead(
        "comes in from the right", ahead,
        {{0, true, {}, "389"}, {50, true, seen(382, 18), "382"}, {50, true, seen(375, 25), "375"}});
    run_ahead("comes in, and its centre stays at the edge", ahead,
              {{0, true, {}, "-9"}, {50, true, seen(0, 18), "0"}, {50, true, seen(0, 30), "0"}});
  }
  run_ahead("interpolated", ahead,
            {{0, true, {at(5, 3)}, "5"}, {50, true, {}, "20"}, {50, true, {at(35, 3)}, "35"}});
  run_ahead("interpolated without results", ahead,
            {{0, true, {at(5, 3)}, "5"}, {50, false, {}, "20"}, {50, true, {at(35, 3)}, "35"}});
  run_ahead(
      "another object is not between", ahead,
      {{0, true, {at(5, 3)}, "5 35"}, {50, true, {}, "5 35"}, {50, true, {at(35, 4)}, "5 35"}});
  {
    RegionTracker::Settings longer = ahead;
    longer.hold = longer.look_ahead = 200;
    run_ahead("found again where its speed leads to", longer,
              {{0, true, {at(20)}, "20"},
               {50, true, {at(30)}, "30"},
               {50, true, {at(40)}, "40"},
               {50, true, {}, "50"},
               {50, true, {at(60)}, "60"},
               {201, true, {}, ""}});
  }
  run_ahead("missed for longer than it is held", ahead,
            {{0, true, {at(5, 3)}, "5"},
             {50, true, {}, "5"},
             {50, true, {}, "25"},
             {50, true, {}, "35"},
             {50, true, {at(45, 3)}, "45"}});
  {
    // Two results in a short time say little of the speed. The box grows by at most 0.8 times what
    // `grow` says on each side. One whose centre would leave the frame does not grow into it.
    const auto back = [&](const char* name, int second, const char* want) {
      RegionTracker tracker;
      RegionTracker::Settings grown = ahead;
      grown.grow = 0.5;
      grown.hold = grown.look_ahead = 1000000000;
      const Result none, found = {at(10, 3)}, again = {at(second, 3)};
      tracker.arrive(0, &none, grown);
      tracker.arrive(900000000, &found, grown);
      tracker.arrive(40000000, &again, grown);
      tracker.leave(grown);
      std::string got;
      for (const RegionBox& b : tracker.boxes())
        got += std::to_string(int(std::lround(b.x))) + ": " +
               std::to_string(int(std::lround(b.width))) + "x" +
               std::to_string(int(std::lround(b.height)));
      result(name, got == want ? "" : got + ", not " + want);
    };
    back("moved back in doubt, it grows up to a limit", 10, "2: 36x36");
    back("moved back out of the frame, its centre stays at the edge", 30, "-10: 20x36");
  }
  run_ahead("another id in the same place is not moved back", ahead,
            {{0, true, {at(5, 3)}, "5"},
             {50, true, {at(7, 4)}, "5 7"},
             {50, true, {at(9, 4)}, "5 9"},
             {51, true, {at(11, 4)}, "11"}});
  run_ahead("ids that cross leave no doubt", ahead,
            {{0, true, {at(5, 3), at(21, 4)}, "5 21"},
             {50, true, {}, "7 19"},
             {50, true, {at(9, 3), at(17, 4)}, "9 17"}});
  run_ahead("boxes that cross do", ahead,
            {{0, true, {at(5), at(21)}, "5 21"},
             {50, true, {}, "5 7 19 21"},
             {50, true, {at(9), at(17)}, "9 17"}});
  run_ahead("but not for longer than they are held", ahead,
            {{0, true, {at(5), at(21)}, "5 21"},
             {50, true, {}, "5 21"},
             {50, true, {}, "5 7 19 21"},
             {50, true, {}, "8 18"},
             {50, true, {at(9), at(17)}, "9 17"}});
  {
    RegionTracker::Settings longer = ahead;
    longer.hold = 0;
    run_ahead("boxes that cross do for as long as frames wait", longer,
              {{0, true, {at(5), at(21)}, "5 21"},
               {50, true, {}, "5 7 19 21"},
               {50, true, {at(9), at(17)}, "9 17"}});
  }
  stays_in_frame();
  ahead.interpolate = false;
  run_ahead("not interpolated", ahead,
            {{0, true, {at(5, 3)}, "5"}, {50, true, {}, "5 35"}, {50, true, {at(35, 3)}, "35"}});
  ahead = {100, OnMissing::hold, 50, true, 0, 400, 100};
  run_ahead("held without an end, then found", ahead,
            {{0, true, {at(5, 3)}, "5"},
             {500, false, {}, "5"},
             {450, false, {}, "5"},
             {50, true, {at(9, 3)}, "9"}});
  {
    RegionTracker tracker;
    RegionTracker::Settings s = {100, pass, 100, true, 0, 400, 100};
    const Result first = {{3, make_box(0, 0, 30, 10), {make_box(0, 0, 10, 5)}}};
    const Result last = {
        {3, make_box(9, 0, 30, 10), {make_box(9, 0, 10, 5), make_box(29, 5, 9, 5)}}};
    tracker.arrive(0, &first, s);
    tracker.arrive(50, nullptr, s);
    tracker.arrive(50, &last, s);
    tracker.leave(s);
    tracker.leave(s);
    result("between two masks, both", filtered(tracker) == "0 9 29" ? "" : filtered(tracker));
  }

  const RegionBox box = make_box(8, 16, 40, 40);  // its middle is columns 2 to 4 of rows 3 to 5
  in_field("what moves in the middle", box, 3, -1, 100, "3");
  in_field("what stands still there", box, 0, 5, 100, "0");
  in_field("a box over the edge", make_box(-60, 10, 64, 64), 3, -1, 100, "-1");
  in_field("a box outside", make_box(900, 900, 20, 20), 3, -1, 100, "-1");
  in_field("a small box", make_box(27, 20, 2, 2), 3, -1, 100, "3");
  in_field("noise", box, 3, -1, 800, "in doubt");
  in_field("noise above what moves below the middle", box, 3, -1, 800, "in doubt", 5);
  in_field("a box without an end", make_box(0, 0, INFINITY, 20), 3, -1, 100, "in doubt");
  measured_motion();

  // The box has 20 x 20 pixels, in a frame of 400 x 100. Two frames must have been measured.
  RegionTracker::Settings follow = {1000, pass, 0, true, 0, 400, 100, true};
  const double doubt = NAN;
  run_following("held boxes follow", follow,
                {{0, true, {at(50)}, "50"},
                 {40, true, {}, "50"},
                 {40, true, {}, "50"},
                 {40, true, {}, "56"},
                 {40, true, {}, "58"},
                 {40, true, {at(61)}, "61"}},
                {0, 0, 2, 2, 2, 2});
  run_following("at the speed of the results, until the motion is known", follow,
                {{0, true, {at(50)}, "50"},
                 {40, true, {at(60)}, "60"},
                 {40, true, {at(70)}, "70"},
                 {40, true, {}, "80"},
                 {40, true, {}, "90"},
                 {40, true, {}, "85"},
                 {40, true, {}, "90"}},
                {0, 0, 0, 10, 5, 5, 5});
  run_following("that speed ends if the motion is in doubt", follow,
                {{0, true, {at(50)}, "50"},
                 {40, true, {at(60)}, "60"},
                 {40, true, {}, "70"},
                 {40, true, {}, "70"},
                 {40, true, {}, "60 70"},
                 {40, true, {}, "60 70"}},
                {0, 0, doubt, doubt, doubt, doubt});
  run_following(
      "twice as long between frames", follow,
      {{0, true, {at(50)}, "50"}, {40, true, {}, "50"}, {40, true, {}, "50"}, {80, true, {}, "58"}},
      {0, 0, 2, 4});
  run_following("frames without times", follow,
                {{0, true, {at(50)}, "50"},
                 {0, true, {}, "50"},
                 {0, true, {}, "50"},
                 {0, true, {}, "52"},
                 {0, true, {}, "54"}},
                {0, 0, 2, 2, 2});
  run_following("kept at the left edge", follow,
                {{0, true, {at(3)}, "3"},
                 {40, true, {}, "3"},
                 {40, true, {}, "3"},
                 {40, true, {}, "0"},
                 {40, true, {}, "0"}},
                {0, 0, -1.5, -1.5, -1.5});
  run_following(
      "a box over the edge does not come in", follow,
      {{0, true, {at(-5)}, "-5"}, {40, true, {}, "-5"}, {40, true, {}, "-5"}, {40, true, {}, "-5"}},
      {0, 0, -1, -1});
  run("found again where its speed leads to after a while", {1000, pass},
      {{0, true, {at(20)}, "20"},
       {40, true, {at(30)}, "30"},
       {400, true, {at(135)}, "135"},
       {40, true, {}, "135"}});
  run_following("something passes in front: also where the box was", follow,
                {{0, true, {at(50)}, "50"},
                 {40, true, {}, "50"},
                 {40, true, {}, "50"},
                 {40, true, {}, "53"},
                 {40, true, {}, "52 62"},
                 {40, true, {}, "52 67"}},
                {0, 0, 1, 5, 5, 5});
  run_following("in doubt: on with the former speed, and where the box was", follow,
                {{0, true, {at(50)}, "50"},
                 {40, true, {}, "50"},
                 {40, true, {}, "50"},
                 {40, true, {}, "53"},
                 {40, true, {}, "52 54"}},
                {0, 0, 1, doubt, doubt});
  run_following("both of two that cross", follow,
                {{0, true, {at(50, 1), at(70, 2)}, "50 70"},
                 {40, true, {at(60, 1)}, "60 70"},
                 {40, true, {at(70, 1)}, "70 70"}},
                {0, 0, 0});
  follow.follow = false;
  run_following(
      "not without the setting", follow,
      {{0, true, {at(50)}, "50"}, {40, true, {}, "50"}, {40, true, {}, "50"}, {40, true, {}, "50"}},
      {0, 0, 2, 2});
  run_ahead(
      "the best pair comes first, not the first one", ahead,
      {{0, true, {}, "50"}, {50, true, {at(50)}, "46 50"}, {50, true, {at(46), at(50)}, "46 50"}});

  {
    RegionTracker tracker;
    const Detection mask = {
        3, make_box(0, 0, 30, 10), {make_box(0, 0, 10, 5), make_box(8, 5, 22, 5)}};
    const Result with_mask = {mask};
    tracker.update(0, &with_mask, {100, pass});
    result("parts in place of their box", filtered(tracker) == "0 8" ? "" : filtered(tracker));
    tracker.reset();
    const Result none;
    tracker.update(0, &none, {100, pass});
    result("a reset forgets", filtered(tracker).empty() ? "" : filtered(tracker));
    // An object that waits is the same in the next frame, so its box is not moved back again.
    const Result first = {at(50)}, second = {at(54)};
    const RegionTracker::Settings waits = {0, pass, 100, true, 0.5};
    tracker.clear();
    tracker.arrive(0, &first, waits);
    tracker.reset();
    tracker.arrive(50, &second, waits);
    tracker.leave(waits);
    result("a reset keeps what waits", filtered(tracker) == "50" ? "" : filtered(tracker));
    tracker.clear();
    tracker.arrive(50, &second, waits);
    tracker.leave(waits);
    result("frames are forgotten", filtered(tracker) == "54" ? "" : filtered(tracker));
    Result many(100000, at(4));
    tracker.update(0, &many, {100, pass});
    result("no more than can be filtered", tracker.boxes().size() < 10000 ? "" : "all are kept");
  }
  covers("a mask without a mark", {"...", "..."}, 9, 0, true);
  covers("a mask that is one rectangle", {"....", ".##.", ".##."}, 9, 1, true);
  covers("a mask of three", {".##.", "####", "####", "#..#"}, 9, 4, true);
  covers("two that end and begin", {"#.#.#", "#.###", "#...."}, 9, 4, true);
  covers("a mask that is all marked", {"###", "###"}, 1, 1, true);
  std::vector<std::string> checks;
  for (int y = 0; y < 37; y++) {
    checks.emplace_back();
    for (int x = 0; x < 41; x++) checks.back() += (x + y) % 2 ? '#' : '.';
  }
  covers("more than there may be", checks, 20, 0, false);
  covers("one for all", checks, 1, 1, false);

  std::printf("1..%d\n", count);
  return failed ? 1 : 0;
}
