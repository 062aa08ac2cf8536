// Compares the denoiser with the reference on sequences of frames, and CUDA with the CPU.
#include "filters/denoise.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "filters/denoise_math.h"
#include "tests/denoise.h"
#include "tests/kernels/harness.h"

namespace vf::test {
namespace {

// Describes a kind of frame. `width` and `height` are the size of luma.
struct Clip {
  std::string name;
  Layout layout;
  ColorFormat color;
  int width = 0, height = 0;
};

Clip clip(const char* name, Type type, int depth, int shift, int w, int h) {
  Clip c;
  c.name = text("%s %d bit %dx%d", name, depth, w, h);
  c.layout.type = type;
  c.layout.shift = shift;
  c.layout.max_value = depth == 8 * size_of(type) ? 0 : (1 << depth) - 1;
  c.width = w;
  c.height = h;
  return c;
}

void add_plane(Clip* c, int sub_x, int sub_y, std::initializer_list<Role> roles, int step = 0) {
  PlaneLayout& p = c->layout.plane[c->layout.planes];
  p.width = (c->width + (1 << sub_x) - 1) >> sub_x;
  p.height = (c->height + (1 << sub_y) - 1) >> sub_y;
  p.channels = int(roles.size());
  p.step = step;
  p.sub_x = sub_x;
  p.sub_y = sub_y;
  std::copy(roles.begin(), roles.end(), c->color.role[c->layout.planes++]);
}

Clip semi_planar(Type type, int depth, int shift, int w, int h, bool swapped = false) {
  Clip c = clip(swapped ? "NV21" : "NV12", type, depth, shift, w, h);
  add_plane(&c, 0, 0, {Role::y});
  if (swapped)
    add_plane(&c, 1, 1, {Role::v, Role::u});
  else
    add_plane(&c, 1, 1, {Role::u, Role::v});
  return c;
}
Clip planar(const char* name, Type type, int depth, int sub_x, int sub_y, int w, int h) {
  Clip c = clip(name, type, depth, 0, w, h);
  add_plane(&c, 0, 0, {Role::y});
  add_plane(&c, sub_x, sub_y, {Role::u});
  add_plane(&c, sub_x, sub_y, {Role::v});
  return c;
}
// Makes a clip like YUY2 whose planes do not share memory.
Clip stepped(Type type, int depth, int shift, int w, int h) {
  Clip c = clip("YUY2", type, depth, shift, w, h);
  add_plane(&c, 0, 0, {Role::y}, 2);
  add_plane(&c, 1, 0, {Role::u}, 4);
  add_plane(&c, 1, 0, {Role::v}, 4);
  return c;
}
Clip packed(const char* name, Type type, int depth, int shift, int w, int h,
            std::initializer_list<Role> roles) {
  Clip c = clip(name, type, depth, shift, w, h);
  add_plane(&c, 0, 0, roles);
  return c;
}

constexpr int kFrames = 8;

// Pixels per frame.
struct Motion {
  double x = 0, y = 0;
};

// Draws a texture that moves with the camera, a bright disc that moves differently, slow
// brightening and noise that depends on the luma. If `uneven` is set, two thirds of the picture have
// little noise, as behind a codec. Alpha and components without a role are random.
void draw(Frame* frame, const ColorFormat& color, int t, double sigma, bool uneven, Motion camera,
          Random& random) {
  const Layout& l = frame->layout();
  const int height = l.plane[0].height << l.plane[0].sub_y;
  const double full = max_code(l);
  for (int p = 0; p < l.planes; p++) {
    const PlaneLayout& plane = l.plane[p];
    // Waves across are computed once for all rows.
    struct Across {
      double slow, fast, sin, cos, chroma[3];
    };
    std::vector<Across> across;
    for (int x = 0; x < plane.width; x++) {
      const double u = x * (1 << plane.sub_x) + camera.x * t;
      across.push_back(
          {std::sin(0.02 * u), std::sin(0.31 * u), std::sin(0.9 * u), std::cos(0.9 * u), {}});
      for (int i = 0; i < 3; i++) across.back().chroma[i] = 0.5 + 0.3 * std::sin(0.01 * u + i);
    }
    for (int y = 0; y < plane.height; y++) {
      const double fy = y * (1 << plane.sub_y), v = fy + camera.y * t, dy = fy - 0.4 * height;
      const double slow = 0.35 * std::cos(0.03 * v), fast = 0.06 * std::sin(0.27 * v);
      const double sin = 0.05 * std::sin(0.7 * v), cos = 0.05 * std::cos(0.7 * v);
      for (int x = 0; x < plane.width; x++) {
        const double fx = x * (1 << plane.sub_x), dx = fx - 20 - 7 * t;
        const Across& a = across[x];
        const bool disc = dx * dx + dy * dy < 0.0625 * height * height;
        const double shade =
            0.5 + a.slow * slow + a.sin * cos + a.cos * sin + a.fast * fast + 0.004 * t;
        for (int c = 0; c < plane.channels; c++) {
          const Role role = color.role[p][c];
          double value = random.unit();
          if (role != Role::none && role != Role::a) {
            const int i = index_of(role);
            const double picture = i && is_chroma(role) ? a.chroma[i] : shade * (1 - 0.15 * i);
            double noise = -6;
            for (int k = 0; k < 12; k++) noise += random.unit();
            if (uneven && (int(fx) / 16 + int(fy) / 16) % 3) noise *= 0.2;
            value = (disc ? 0.8 - 0.2 * i : picture) + noise * sigma / 255 * (0.6 + 0.8 * shade);
          }
          frame->set(p, x, y, c, std::floor(std::clamp(value, 0.0, 1.0) * full + 0.5));
        }
      }
    }
  }
}

// Draws frame `number` of a picture that moves by a pixel and a quarter, with noise of 5 codes. It
// takes a few operations per sample, because the frames that are timed are large.
void draw_moving(Frame* frame, uint64_t number) {
  const Layout& l = frame->layout();
  const double full = max_code(l);
  Random random(number);
  for (int p = 0; p < l.planes; p++) {
    const PlaneLayout& plane = l.plane[p];
    // The picture is a sum of products of two waves across and two waves down.
    const auto waves = [&](int size, int scale, double per_frame, double slow, double fast) {
      std::vector<std::pair<float, float>> out;
      for (int i = 0; i < size; i++) {
        const double at = double(i * (1 << scale)) + per_frame * double(number);
        out.emplace_back(std::sin(slow * at), std::sin(fast * at));
      }
      return out;
    };
    const auto across = waves(plane.width, plane.sub_x, 1.25, 0.031, 0.43);
    const auto down = waves(plane.height, plane.sub_y, -0.75, 0.023, 0.37);
    for (int y = 0; y < plane.height; y++)
      for (int x = 0; x < plane.width; x++)
        for (int c = 0; c < plane.channels; c++) {
          // The sum of four values of 16 bits has a standard deviation of 37837.
          const uint64_t bits = random.next();
          const int noise = int(bits & 0xffff) + int(bits >> 16 & 0xffff) +
                            int(bits >> 32 & 0xffff) + int(bits >> 48) - 2 * 65535;
          const float shade = 0.5f + 0.3f * across[x].first * down[y].first +
                              0.1f * across[x].second * down[y].second;
          const float value = shade + float(noise) * (5.0f / 255 / 37837);
          frame->set(p, x, y, c, std::floor(std::clamp(double(value), 0.0, 1.0) * full + 0.5));
        }
  }
}

// Counts the samples of a sequence that differ from the reference.
struct Distance {
  size_t total = 0, one = 0, more = 0;
  double worst = 0;
};

// Holds a distance for each tile of motion, over all components and frames.
using Distances = std::map<std::pair<int, int>, Distance>;

void add(const Frame& got, const Frame& want, Distances* tiles) {
  const Layout& l = want.layout();
  // Codes of more than 10 bits count as codes of 10 bits, so a difference of less than half of one is
  // none. Otherwise a single vote for the noise level that falls into the next bin, which changes
  // the level by 0.02 % and nearly all samples of 16 bits by some codes, would look like a fault.
  const double unit = std::max(1.0, std::ldexp((max_code(l) + 1.0), -10));
  for (int p = 0; p < l.planes; p++)
    for (int y = 0; y < l.plane[p].height; y++) {
      Distance* d = nullptr;
      for (int x = 0; x < l.plane[p].width; x++) {
        const int left = x << l.plane[p].sub_x;
        if (left % kDenoiseTile == 0)
          d = &(*tiles)[{left / kDenoiseTile, (y << l.plane[p].sub_y) / kDenoiseTile}];
        for (int c = 0; c < l.plane[p].channels; c++) {
          const double by = std::abs(got.get(p, x, y, c) - want.get(p, x, y, c));
          d->total++;
          d->one += by >= 0.5 * unit && by < 1.5 * unit;
          d->more += by >= 1.5 * unit;
          d->worst = std::max(d->worst, by);
        }
      }
    }
}

// Adds up the tiles. With `but_one`, leaves out the tile that differs most, because its vector may
// have rounded the other way.
Distance sum_of(const Distances& tiles, bool but_one) {
  Distance sum;
  const auto left_out =
      std::max_element(tiles.begin(), tiles.end(),
                       [](const auto& a, const auto& b) { return a.second.more < b.second.more; });
  for (auto tile = tiles.begin(); tile != tiles.end(); ++tile) {
    const Distance& d = tile->second;
    sum.total += d.total;
    if (but_one && tile == left_out) continue;
    sum.one += d.one;
    sum.more += d.more;
    sum.worst = std::max(sum.worst, d.worst);
  }
  return sum;
}

Status make_plain(Queue& queue, const Layout& layout, const ColorFormat& color, Placement placement,
                  std::unique_ptr<Plan>* plan, int look_ahead = 0) {
  DenoiseParams params;
  params.look_ahead = look_ahead;
  std::unique_ptr<DenoisePlan> made;
  VF_TRY(make_denoise(queue, layout, color, params, placement, &made));
  *plan = std::move(made);
  return {};
}

struct Sequence {
  DenoiseParams params;
  double sigma = 6;
  bool uneven = false;
  Motion camera;
  int reset_at = -1, change_at = -1;  // frames
  int later = 0;                      // frames that set_later() gives, while there are so many
  Placement placement = Placement::separate;
  Geometry geometry;
};

// Holds the frames of a sequence, and what the reference makes of them.
struct Wanted {
  Status status;
  std::deque<Frame> src, result;
  std::vector<double> level;
};

void run(Context& context, const char* what, const Clip& c, const Sequence& s) {
  const std::string name = text("denoise %s %s", c.name.c_str(), what);
  if (!context.wants(name)) return;
  Random random = context.random(name);
  auto all = [&]() -> std::string {
    // Each frame is filtered by the device, by the reference and, for CUDA, by the CPU.
    std::unique_ptr<Queue> cpu;
    std::unique_ptr<DenoisePlan> plan, cpu_plan;
    DenoiseParams params = s.params;
    params.look_ahead = s.later;
    // Makes the plan for frame t, if it needs another one, and gives it the frames after it.
    const auto prepare = [&](Queue& queue, int t, const std::vector<Image>& later,
                             std::unique_ptr<DenoisePlan>* p) {
      if (t == 0 || t == s.change_at) {
        DenoiseParams now = params;
        if (t == s.change_at) {
          now.strength *= 1.5;
          now.spatial += 0.5;
          now.temporal = std::max(1, now.temporal / 3);
        }
        std::unique_ptr<DenoisePlan> made;
        VF_TRY(make_denoise(queue, c.layout, c.color, now, s.placement, &made));
        if (*p) made->take_over(**p);
        *p = std::move(made);
      }
      if (t == s.reset_at) (*p)->reset();
      return (*p)->set_later(later.data(), int(later.size()));
    };
    const auto later_than = [&](int t, const std::deque<Frame>& frames, auto&& image) {
      std::vector<Image> later;
      for (int i = 1; i <= s.later && t + i < kFrames; i++) later.push_back(image(frames[t + i]));
      return later;
    };
    const auto on_host = [](const Frame& frame) { return frame.image(); };
    const auto all_wanted = [&] {
      auto made = std::make_shared<Wanted>();
      const auto make = [&] {
        QueueOptions options;
        options.backend = Backend::reference;
        std::unique_ptr<Queue> queue;
        std::unique_ptr<DenoisePlan> by;
        VF_TRY(make_queue(options, &queue));
        for (int t = 0; t < kFrames; t++)
          draw(&made->src.emplace_back(c.layout, s.geometry), c.color, t, s.sigma, s.uneven,
               s.camera, random);
        for (int t = 0; t < kFrames; t++) {
          VF_TRY(prepare(*queue, t, later_than(t, made->src, on_host), &by));
          VF_TRY(by->run(made->src[t].image(),
                         made->result.emplace_back(c.layout, s.geometry).image()));
          made->level.push_back(by->noise_level());
        }
        return Status();
      };
      made->status = make();
      return made;
    };
    const auto wanted = context.sequence<Wanted>(name, all_wanted);
    if (!wanted->status.ok()) return wanted->status.message();
    QueueOptions options;
    options.backend = Backend::cpu;
    if (context.backend() == "cuda")
      if (Status st = make_queue(options, &cpu); !st.ok()) return st.message();
    Distances tiles;
    for (int t = 0; t < kFrames; t++) {
      const Frame &src = wanted->src[t], &want = wanted->result[t];
      Frame got(c.layout, s.geometry);
      const auto upload = [&](const Frame& frame) { return context.device().upload(frame); };
      if (Status st =
              prepare(context.device().queue(), t, later_than(t, wanted->src, upload), &plan);
          !st.ok())
        return st.message();
      got.poison();
      const Image in = context.device().upload(src);
      const Image out = s.placement == Placement::in_place ? in : context.device().upload(got);
      if (Status st = plan->run(in, out); !st.ok()) return st.message();
      if (Status st = context.device().queue().sync(); !st.ok()) return st.message();
      context.device().download(out, &got);
      if (s.placement == Placement::separate)
        if (std::string damage = got.guard_damage(); !damage.empty()) return damage;
      if (cpu) {
        Frame same(c.layout, s.geometry);
        if (Status st = prepare(*cpu, t, later_than(t, wanted->src, on_host), &cpu_plan); !st.ok())
          return st.message();
        if (Status st = cpu_plan->run(src.image(), same.image()); !st.ok()) return st.message();
        if (std::string diff = difference(got, same, {}); !diff.empty())
          return text("frame %d is not the CPU's: ", t) + diff;
        if (t > 0 && std::abs(plan->noise_level() - cpu_plan->noise_level()) > 1e-6)
          return text("frame %d: noise level %g, the CPU's is %g", t, plan->noise_level(),
                      cpu_plan->noise_level());
      }
      add(got, want, &tiles);
      context.device().release_all();
      const double level = plan->noise_level(), true_level = wanted->level[t];
      if (std::abs(level - true_level) > 0.01 * true_level)
        return text("frame %d: noise level %g, should be %g", t, level, true_level);
    }
    const bool moves = s.camera.x != 0 || s.camera.y != 0;
    const double by_one = moves ? kDenoiseMovingByOne : kDenoiseByOne;
    const double by_more = moves ? kDenoiseMovingByMore : kDenoiseByMore;
    const auto is_close = [&](const Distance& d) {
      const auto total = double(d.total);
      return double(d.one) <= by_one * total &&
             double(d.more) <= std::max(by_more * total, kDenoiseBlockSamples);
    };
    const Distance d = sum_of(tiles, false);
    if (!is_close(d) && (tiles.size() < kDenoiseTiles || !is_close(sum_of(tiles, true))))
      return text(
          "of %zu samples %zu differ by one (%.3f %%), %zu by more (%.5f %%), at most by %g",
          d.total, d.one, 100.0 * double(d.one) / double(d.total), d.more,
          100.0 * double(d.more) / double(d.total), d.worst);
    return {};
  };
  const std::string failure = all();
  context.device().release_all();
  context.result(name, failure);
}

// Holds the results of filtering a picture with noise.
struct Outcome {
  double level = 0;  // the plan's noise level
  double worst = 0;  // difference of any frame's result from the picture, in codes of the format
  // Standard deviations from the picture before and after the filter, in 8-bit codes, in the first
  // component of the last frame.
  double noise = 0, left = 0;
};

// Returns the value of a picture in 8-bit codes, at (x, y) of luma in frame t.
using Picture = std::function<double(int x, int y, int t)>;

// Plays `frames` frames of a picture with noise of `sigma` codes. Each component is a little darker
// than the previous one. Each picture is shown `shown` times, which may be a fraction.
std::string play(Context& context, const Clip& c, const DenoiseParams& params,
                 const Picture& picture, double sigma, int frames, Random& random, Outcome* out,
                 double shown = 1) {
  std::unique_ptr<DenoisePlan> plan;
  Queue& queue = context.device().queue();
  Status st = make_denoise(queue, c.layout, c.color, params, Placement::separate, &plan);
  if (!st.ok()) return st.message();
  const double code = max_code(c.layout) / 255;
  Frame clean(c.layout, {}), src(c.layout, {});
  const auto draw_noisy = [&](int t) {
    for (int p = 0; p < c.layout.planes; p++) {
      const PlaneLayout& l = c.layout.plane[p];
      for (int y = 0; y < l.height; y++)
        for (int x = 0; x < l.width; x++)
          for (int k = 0; k < l.channels; k++) {
            const double v = picture(x << l.sub_x, y << l.sub_y, t) * (1 - 0.1 * (p + k));
            double noise = -6;
            for (int i = 0; i < 12; i++) noise += random.unit();
            const auto set = [&](Frame* frame, double value) {
              frame->set(p, x, y, k, std::floor(std::clamp(value, 0.0, 255.0) * code + 0.5));
            };
            set(&clean, v);
            set(&src, v + sigma * noise);
          }
    }
  };
  for (int t = 0; t < frames; t++) {
    if (t == 0 || int(t / shown) != int((t - 1) / shown)) draw_noisy(t);
    Frame got(c.layout, {});
    const Image to = context.device().upload(got);
    if (st = plan->run(context.device().upload(src), to); !st.ok()) return st.message();
    if (st = queue.sync(); !st.ok()) return st.message();
    context.device().download(to, &got);
    context.device().release_all();
    double before = 0, mean = 0, after = 0;
    for (int p = 0; p < c.layout.planes; p++) {
      const PlaneLayout& l = c.layout.plane[p];
      for (int y = 0; y < l.height; y++)
        for (int x = 0; x < l.width; x++)
          for (int k = 0; k < l.channels; k++) {
            const double want = clean.get(p, x, y, k), by = got.get(p, x, y, k) - want;
            out->worst = std::max(out->worst, std::abs(by));
            if (p > 0 || k > 0) continue;
            const double in = src.get(p, x, y, k) - want;
            mean += in;
            before += in * in;
            after += by * by;
          }
    }
    const double n = double(c.width) * c.height;
    out->noise = std::sqrt(std::max(before - mean * mean / n, 0.0) / n) / code;
    out->left = std::sqrt(after / n) / code;
  }
  out->level = plan->noise_level();
  return {};
}

// Checks the estimate for noise up to the strongest that `noise` can be set to.
void estimates(Context& context) {
  const Clip nv12 = semi_planar(Type::u8, 8, 0, 256, 128);
  const Clip rgb = packed("RGB", Type::u8, 8, 0, 256, 128, {Role::r, Role::g, Role::b});
  const Clip gray16 = packed("GRAY", Type::u16, 16, 0, 256, 128, {Role::y});
  const auto still = [](int x, int y, int) { return 128 + 16 * std::sin(x / 40.0 + y / 60.0); };
  struct Row {
    Clip clip;
    double sigma;
    double shown = 1;  // times that each picture is shown
  };
  for (const Row& row : {Row{nv12, 1},
                         {nv12, 2},
                         {nv12, 10},
                         {nv12, 25},
                         {nv12, 35},
                         {nv12, 50},
                         {nv12, 100},
                         {rgb, 10},
                         {rgb, 50},
                         {gray16, 10},
                         {gray16, 50},
                         {nv12, 8},
                         {nv12, 8, 2},
                         {nv12, 8, 2.5},
                         {nv12, 8, 3},
                         {nv12, 8, 4},
                         {nv12, 8, 5},
                         {rgb, 8, 4}}) {
    std::string name = text("denoise %s finds sigma %g", row.clip.name.c_str(), row.sigma);
    if (row.shown > 1) name += text(" in pictures shown %g times", row.shown);
    if (!context.wants(name)) continue;
    Random random = context.random(name);
    Outcome o;
    std::string failure =
        play(context, row.clip, {}, still, row.sigma, int(16 * row.shown), random, &o, row.shown);
    const bool repeats = row.shown > 1;
    if (failure.empty() && std::abs(o.level - o.noise) > (repeats ? 0.15 : 0.07) * o.noise)
      failure = text("the noise level is %g, should be %g", o.level, o.noise);
    if (failure.empty() && o.left > (repeats ? 0.3 : 0.12) * row.sigma + 0.3)
      failure = text("%g codes are left of %g", o.left, o.noise);
    context.result(name, failure);
  }
}

// Checks that a still picture without noise counts as clean from its eleventh frame on.
void settles(Context& context) {
  const Clip c = semi_planar(Type::u8, 8, 0, 256, 128);
  const auto textured = [](int x, int y, int) {
    return 128 + 30 * std::sin(1.9 * x) * std::sin(2.3 * y);
  };
  const std::string name = "denoise a still picture without noise is clean from its eleventh frame";
  if (!context.wants(name)) return;
  Random random = context.random(name);
  Outcome tenth, eleventh;
  std::string failure = play(context, c, {}, textured, 0, 10, random, &tenth);
  if (failure.empty()) failure = play(context, c, {}, textured, 0, 11, random, &eleventh);
  if (failure.empty() && (tenth.level < 2 || eleventh.level > 0.23))
    failure = text("the noise level is %g, then %g", tenth.level, eleventh.level);
  context.result(name, failure);
}

// Checks that white stays white where the state or the spatial filter reaches the largest sample.
void stays_white(Context& context) {
  const auto white = [](int, int, int) { return 255.0; };
  const auto edges = [](int x, int y, int t) {
    return 128 + 300 * std::sin(0.25 * x + 0.05 * y + 0.3 * t);
  };
  struct Row {
    const char* what;
    Picture picture;
    double sigma;  // codes of the format
    double spatial;
  };
  for (const Clip& c :
       {semi_planar(Type::u8, 8, 0, 256, 96), semi_planar(Type::u16, 10, 6, 256, 96),
        semi_planar(Type::u16, 12, 4, 256, 96),
        packed("GRAY", Type::u16, 13, 0, 256, 96, {Role::y}),
        packed("GRAY", Type::u16, 14, 0, 256, 96, {Role::y}),
        packed("RGB", Type::u8, 8, 0, 256, 96, {Role::r, Role::g, Role::b})})
    for (const Row& row : {Row{"white", white, 0.19, 4}, {"edges that move", edges, 0, 0}}) {
      const std::string name = text("denoise %s stays white: %s", c.name.c_str(), row.what);
      if (!context.wants(name)) continue;
      Random random = context.random(name);
      DenoiseParams params;
      params.noise = 5;
      params.spatial = row.spatial;
      Outcome o;
      std::string failure = play(context, c, params, row.picture,
                                 255 * row.sigma / max_code(c.layout), 10, random, &o);
      if (failure.empty() && o.worst > 0.5 * max_code(c.layout))
        failure = text("%g codes from the picture", o.worst);
      context.result(name, failure);
    }
}

// Checks that strong differences do not count as noise if the first frame is smooth.
void believes(Context& context) {
  const std::string name = "denoise stripes that move are no strong noise";
  if (!context.wants(name)) return;
  Random random = context.random(name);
  const Clip c = semi_planar(Type::u8, 8, 0, 256, 128);
  const auto stripes = [](int x, int y, int t) {
    return std::sin((x + 1.25 * t) * 0.7) > 0 ? 255.0 : y % 40 < 20 ? 40.0 : 0.0;
  };
  Outcome o;
  std::string failure = play(context, c, {}, stripes, 0, 12, random, &o);
  if (failure.empty() && o.level > 31) failure = text("the noise level is %g", o.level);
  context.result(name, failure);
}

// Checks that constants come out unchanged with any settings, and that ramps of 16 bits do so if no
// noise level is given.
void come_through(Context& context) {
  const auto flat = [](double code) { return [code](int, int, int) { return code; }; };
  struct Row {
    const char* what;
    Picture picture;
    DenoiseParams params;
    double most;  // codes of the format
    bool deep;    // only for 16 bits
  };
  DenoiseParams given, strong;
  given.noise = 5;
  strong.noise = 100;
  strong.strength = strong.spatial = 4;
  const auto ramp = [](double slope_x, double slope_y, double moves) -> Picture {
    return [=](int x, int y, int t) {
      return std::min(20 + slope_x * (x + moves * t) + slope_y * y, 255.0);
    };
  };
  const std::vector<Row> rows = {
      {"constant", flat(77.3), {}, 0, false},
      {"constant, noise=5", flat(77.3), given, 0, false},
      {"constant, strongest", flat(201.7), strong, 0, false},
      {"black, strongest", flat(0), strong, 0, false},
      {"white, strongest", flat(255), strong, 0, false},
      {"steep ramp", ramp(1.7, 0, 0), {}, 1, true},
      {"gentle ramp", ramp(0.031, 0, 0), {}, 1, true},
      {"ramp down", ramp(0, 0.5, 0), {}, 1, true},
      {"slanting ramp", ramp(0.21, 0.07, 0), {}, 1, true},
      {"ramp that moves", ramp(0.25, 0, 1.5), {}, 1, true},
      {"ramp that brightens", ramp(0.25, 0, 0.1), {}, 1, true},
  };
  for (const Clip& c :
       {semi_planar(Type::u8, 8, 0, 128, 96), semi_planar(Type::u16, 10, 6, 128, 96),
        semi_planar(Type::u16, 12, 4, 128, 96), semi_planar(Type::u16, 16, 0, 128, 96),
        packed("GRAY", Type::u16, 16, 0, 129, 95, {Role::y}),
        packed("RGBA", Type::u16, 16, 0, 128, 96, {Role::r, Role::g, Role::b, Role::a}),
        packed("RGB", Type::u8, 8, 0, 128, 96, {Role::r, Role::g, Role::b})}) {
    for (const Row& row : rows) {
      const bool deep = max_code(c.layout) == 65535;
      if (row.deep && !deep) continue;
      const std::string name = text("denoise %s %s comes through", c.name.c_str(), row.what);
      if (!context.wants(name)) continue;
      Random random = context.random(name);
      Outcome o;
      std::string failure = play(context, c, row.params, row.picture, 0, 8, random, &o);
      // Y, Co and Cg of 16 bits are rounded.
      const double most = row.most + (deep && c.color.role[0][0] == Role::r ? 1 : 0);
      if (failure.empty() && o.worst > most)
        failure = text("%g codes from the picture, at most %g are allowed", o.worst, most);
      context.result(name, failure);
    }
  }
}

// Checks that set_later() takes no more frames than the plan was made for, and only frames like its
// own.
void later_frames_refused(Context& context, const Clip& good) {
  DenoiseParams params;
  params.look_ahead = 2;
  std::unique_ptr<DenoisePlan> plan;
  Status st = make_denoise(context.device().queue(), good.layout, good.color, params,
                           Placement::separate, &plan);
  if (!st.ok()) return context.result("denoise takes later frames", st.message());
  const Frame frame(good.layout, {});
  const Image right = context.device().upload(frame);
  const Image frames[3] = {right, right, right};
  context.refused("denoise refuses too many later frames", plan->set_later(frames, 3), "0 to 2");
  Image wrong = right;
  wrong.layout.plane[0].width--;
  context.refused("denoise refuses later frames of another layout", plan->set_later(&wrong, 1),
                  "layout");
  wrong = right;
  wrong.memory = right.memory == Memory::host ? Memory::device : Memory::host;
  context.refused("denoise refuses later frames of another memory", plan->set_later(&wrong, 1),
                  "memory");
  context.device().release_all();
}

// Checks the model of the noise by itself, because the reference has it from the same functions.
void learns(Context& context) {
  const char* const name = "denoise learns the noise of luma by its levels";
  if (!context.wants(name)) return;
  std::string failure;
  const auto expect = [&](const char* what, double got, double want) {
    if (failure.empty() && std::abs(got - want) > 1e-5 * std::abs(want))
      failure = text("%s is %g, should be %g", what, got, want);
  };
  denoise::Votes v = {};
  v.frame_variance = v.frame_median = 10;
  v.total = v.luma_cells = 10000;
  for (const int level : {1, 5}) {
    v.variance[level] = level == 1 ? 12.0f : 6.0f;
    v.votes[level] = v.cells[level] = 5000;
  }
  denoise::Noise n = {};
  denoise::learn_first(v, 64, 10, 1, &n);
  denoise::learn(v, 0, 64, 1, &n);
  const double unit = n.variance[5] / 6;
  expect("a level between two others", n.variance[2], 10.5 * unit);
  expect("a level below the first", n.variance[0], 12 * unit);
  expect("a level above the last", n.variance[7], 6 * unit);

  // Strong noise is believed up to twice the first frame's.
  n = {};
  denoise::learn_first(v, 64, 1000, 1, &n);
  const double first = n.variance[0];
  v.frame_variance = v.frame_median = v.variance[1] = v.variance[5] = 60000;
  denoise::learn(v, 0, 64, 1, &n);
  expect("the strongest noise", n.variance[5], 4 * first);

  // From 40 cells on, a level limits the variance of what is taken for noise.
  v.cells[3] = 39;
  v.cells[4] = 40;
  for (const int bin : {17, 18}) {
    v.texture[3] = v.texture[4] = bin;
    if (bin == 17)
      denoise::learn_first(v, 64, 10, 1, &n);
    else
      denoise::learn(v, 0, 64, 1, &n);
    expect("the limit of 39 cells", n.limit[3], denoise::kVarianceBins - 1);
    expect("the limit of 40 cells", n.limit[4], bin);
  }

  expect("the bin of a variance of 1/512", denoise::variance_bin(1 / 512.0f), 0);
  expect("the bin of a variance of 1/256", denoise::variance_bin(1 / 256.0f), 1);
  expect("the bin of a variance of 1/128", denoise::variance_bin(1 / 128.0f), 1);
  expect("the bin of the largest variance", denoise::variance_bin(1e6f),
         denoise::kVarianceBins - 1);
  context.result(name, failure);
}

// Checks which settings leave frames as they are, so that elements pass them on.
void leaves_frames(Context& context) {
  const struct {
    const char* what;
    double strength, spatial;
    int temporal;
    bool want;
  } rows[] = {{"no strength", 0, 1.5, 24, true},
              {"no filter in space or time", 1, 0, 1, true},
              {"a filter in time", 1, 0, 2, false},
              {"a filter in space", 1, 1.5, 1, false}};
  for (const auto& row : rows) {
    DenoiseParams p;
    p.strength = row.strength;
    p.spatial = row.spatial;
    p.temporal = row.temporal;
    const std::string name =
        text("denoise %s frames with %s", row.want ? "leaves" : "changes", row.what);
    if (context.wants(name)) context.result(name, is_identity(p) == row.want ? "" : "it does not");
  }
}

void refused(Context& context) {
  const Clip good = semi_planar(Type::u8, 8, 0, 40, 30);
  const auto expect = [&](const char* word, const Clip& c, const DenoiseParams& p) {
    std::unique_ptr<DenoisePlan> plan;
    context.refused(
        text("denoise refuses %s", word),
        make_denoise(context.device().queue(), c.layout, c.color, p, Placement::separate, &plan),
        word);
  };
  const auto with = [](auto&& change) {
    DenoiseParams p;
    change(p);
    return p;
  };
  for (const double v : {-2.0, -0.5, 101.0, double(NAN)})
    expect("noise", good, with([&](DenoiseParams& p) { p.noise = v; }));
  for (const double v : {-0.1, 4.1, double(NAN)}) {
    expect("strength", good, with([&](DenoiseParams& p) { p.strength = v; }));
    expect("spatial", good, with([&](DenoiseParams& p) { p.spatial = v; }));
  }
  for (const int v : {0, 65})
    expect("temporal", good, with([&](DenoiseParams& p) { p.temporal = v; }));
  for (const int v : {-1, 9})
    expect("look-ahead", good, with([&](DenoiseParams& p) { p.look_ahead = v; }));
  later_frames_refused(context, good);
  Clip bad = good;
  bad.layout.type = Type::f32;
  expect("type", bad, {});
  bad = good;
  bad.color.role[1][1] = Role::none;
  expect("colours", bad, {});
  bad = good;
  bad.color.role[1][1] = Role::u;
  expect("two components", bad, {});
  bad = good;
  bad.layout.plane[1].width++;
  expect("must be", bad, {});
  bad = good;
  bad.layout.max_value = 63;
  expect("bits", bad, {});
}

}  // namespace

void denoise_cases(Context& context) {
  const Sequence usual;
  std::vector<Clip> clips = {
      semi_planar(Type::u8, 8, 0, 322, 178),
      semi_planar(Type::u8, 8, 0, 201, 99, true),
      semi_planar(Type::u16, 10, 6, 194, 130),
      semi_planar(Type::u16, 12, 4, 130, 64),
      semi_planar(Type::u16, 16, 0, 130, 64),
      planar("I420", Type::u8, 8, 1, 1, 257, 131),
      planar("I420", Type::u16, 10, 1, 1, 131, 67),
      planar("Y42B", Type::u8, 8, 1, 0, 163, 97),
      planar("Y42B", Type::u16, 12, 1, 0, 98, 66),
      planar("Y440", Type::u8, 8, 0, 1, 98, 66),
      planar("Y444", Type::u8, 8, 0, 0, 161, 97),
      planar("Y444", Type::u16, 16, 0, 0, 96, 64),
      stepped(Type::u8, 8, 0, 131, 66),
      stepped(Type::u16, 10, 6, 66, 34),
      packed("AYUV", Type::u8, 8, 0, 130, 66, {Role::a, Role::y, Role::u, Role::v}),
      packed("GRAY", Type::u8, 8, 0, 205, 131, {Role::y}),
      packed("GRAY", Type::u16, 16, 0, 98, 66, {Role::y}),
      packed("GRAY", Type::u16, 10, 0, 98, 66, {Role::y}),
      packed("RGB", Type::u8, 8, 0, 129, 67, {Role::r, Role::g, Role::b}),
      packed("BGRx", Type::u8, 8, 0, 130, 66, {Role::b, Role::g, Role::r, Role::none}),
      packed("RGBA", Type::u8, 8, 0, 193, 131, {Role::r, Role::g, Role::b, Role::a}),
      packed("ARGB", Type::u16, 16, 0, 98, 66, {Role::a, Role::r, Role::g, Role::b}),
  };
  Clip gbr = clip("GBR", Type::u8, 8, 0, 130, 66);
  for (const Role role : {Role::g, Role::b, Role::r}) add_plane(&gbr, 0, 0, {role});
  clips.push_back(gbr);
  Clip gbr10 = clip("GBR", Type::u16, 10, 0, 98, 66);
  for (const Role role : {Role::g, Role::b, Role::r, Role::a}) add_plane(&gbr10, 0, 0, {role});
  clips.push_back(gbr10);
  // These frames consist of whole blocks, and contain whole tiles.
  clips.push_back(planar("I420", Type::u8, 8, 1, 1, 258, 134));
  clips.push_back(planar("I420", Type::u16, 10, 1, 1, 132, 70));
  clips.push_back(semi_planar(Type::u8, 8, 0, 256, 72, true));
  clips.push_back(packed("ARGB", Type::u8, 8, 0, 256, 72, {Role::a, Role::r, Role::g, Role::b}));
  Sequence moving;
  moving.camera = {1.25, -0.75};  // whole quarters: far from where a vector tips
  for (const Clip& c : clips) {
    run(context, "usual", c, usual);
    run(context, "moving", c, moving);
  }

  const Clip nv12 = clips[0], rgba = clips[20], p010 = clips[2], y42b = clips[7];
  const auto with = [&](auto&& change) {
    Sequence s;
    change(s);
    return s;
  };
  for (const Clip& c : {nv12, rgba, p010, y42b}) {
    run(context, "reset", c, with([](Sequence& s) { s.reset_at = 4; }));
    run(context, "change", c, with([](Sequence& s) { s.change_at = 3; }));
    run(context, "fast", c, with([](Sequence& s) { s.camera = {-5.25, 4}; }));
    run(context, "moving and reset", c, with([](Sequence& s) {
          s.camera = {2.5, 0.25};
          s.reset_at = 4;
        }));
    run(context, "moving and change", c, with([](Sequence& s) {
          s.camera = {-0.5, 1};
          s.change_at = 3;
        }));
    run(context, "looking ahead", c, with([](Sequence& s) { s.later = 2; }));
    run(context, "moving and looking ahead", c, with([](Sequence& s) {
          s.camera = {1.25, -0.75};
          s.later = 3;
          s.change_at = 4;
        }));
    run(context, "looking ahead in place", c, with([](Sequence& s) {
          s.later = 8;
          s.reset_at = 3;
          s.placement = Placement::in_place;
        }));
    run(context, "in place", c, with([](Sequence& s) { s.placement = Placement::in_place; }));
    run(context, "padded", c, with([](Sequence& s) { s.geometry = {12, 4, false}; }));
    run(context, "tight", c, with([](Sequence& s) { s.geometry.tight = true; }));
    run(context, "odd stride", c, with([](Sequence& s) { s.geometry = {3, 1, false}; }));
    run(context, "spatial only", c, with([](Sequence& s) { s.params.temporal = 1; }));
    run(context, "temporal only", c, with([](Sequence& s) { s.params.spatial = 0; }));
    run(context, "longest", c, with([](Sequence& s) { s.params.temporal = 64; }));
    run(context, "given noise", c, with([](Sequence& s) { s.params.noise = 6; }));
    run(context, "strong", c, with([](Sequence& s) {
          s.params.strength = 4;
          s.params.spatial = 4;
          s.sigma = 30;
        }));
    run(context, "clean", c, with([](Sequence& s) { s.sigma = 0; }));
    run(context, "uneven", c, with([](Sequence& s) { s.uneven = true; }));
    run(context, "uneven, given noise", c, with([](Sequence& s) {
          s.uneven = true;
          s.params.noise = 6;
        }));
    run(context, "moving and uneven", c, with([](Sequence& s) {
          s.uneven = true;
          s.camera = {1.25, -0.75};
          s.later = 1;
        }));
    run(context, "faint", c, with([](Sequence& s) { s.sigma = 0.7; }));
    run(context, "luma alone", c, with([](Sequence& s) {
          for (int p = 1; p < kMaxPlanes; p++) s.params.channels[p] = 0;
        }));
    run(context, "nothing", c,
        with([](Sequence& s) { std::fill_n(s.params.channels, kMaxPlanes, uint8_t(0)); }));
  }
  for (const int w : {1, 2, 3, 5, 16, 33})
    for (const int h : {1, 2, 7}) {
      run(context, "small", semi_planar(Type::u8, 8, 0, w, h), usual);
      run(context, "small",
          packed("RGBA", Type::u8, 8, 0, w, h, {Role::r, Role::g, Role::b, Role::a}), usual);
      run(context, "small, looking ahead", semi_planar(Type::u8, 8, 0, w, h),
          with([](Sequence& s) { s.later = 1; }));
    }
  run(context, "wide", semi_planar(Type::u8, 8, 0, 1283, 34), usual);
  run(context, "high", semi_planar(Type::u8, 8, 0, 34, 1029), usual);
  // These cases are first frames with all patterns, and the frames that are timed.
  for (const Clip& c : {nv12, rgba, p010, y42b, clips[15]})
    for (const Pattern pattern : kAllPatterns)
      context.check(text("denoise %s first %s", c.name.c_str(), name_of(pattern)), c.layout,
                    c.layout, pattern, {}, denoise_contract(), true,
                    [&](Queue& queue, Placement placement, std::unique_ptr<Plan>* plan) {
                      return make_plain(queue, c.layout, c.color, placement, plan);
                    });
  const auto timed = [&](const char* frame, const Clip& c, bool quick, bool cuts = false,
                         int later = 0) {
    TimedCase row;
    row.frame = frame;
    row.parameters = cuts ? "automatic, a cut at each frame" : "automatic";
    if (later) row.parameters += text(", look-ahead %d", later);
    if (!cuts) row.shape = draw_moving;
    row.src = row.dst = c.layout;
    row.tolerance = denoise_contract();
    row.make = [color = c.color, later](Queue& queue, const Layout& layout, const Layout&,
                                        Placement placement, std::unique_ptr<Plan>* plan) {
      return make_plain(queue, layout, color, placement, plan, later);
    };
    row.later = later;
    row.give_later = [](Plan& plan, const Image* frames, int count) {
      return static_cast<DenoisePlan&>(plan).set_later(frames, count);
    };
    row.forget = [](Plan& plan) { static_cast<DenoisePlan&>(plan).reset(); };
    row.quick = quick;
    row.cpu = quick;
    row.element = "cudadenoise";
    context.timed(row);
  };
  timed("1080p NV12", semi_planar(Type::u8, 8, 0, 1920, 1080), true);
  timed("1080p NV12", semi_planar(Type::u8, 8, 0, 1920, 1080), false, true);
  timed("1080p NV12", semi_planar(Type::u8, 8, 0, 1920, 1080), false, false, 2);
  timed("1080p I420", planar("I420", Type::u8, 8, 1, 1, 1920, 1080), false);
  timed("1080p P010", semi_planar(Type::u16, 10, 6, 1920, 1080), false);
  timed("1080p RGBA",
        packed("RGBA", Type::u8, 8, 0, 1920, 1080, {Role::r, Role::g, Role::b, Role::a}), true);
  timed("2160p NV12", semi_planar(Type::u8, 8, 0, 3840, 2160), false);
  timed("2160p NV12", semi_planar(Type::u8, 8, 0, 3840, 2160), false, false, 2);
  timed("2160p I420", planar("I420", Type::u8, 8, 1, 1, 3840, 2160), false);
  timed("2160p P010", semi_planar(Type::u16, 10, 6, 3840, 2160), false);
  timed("2160p RGBA",
        packed("RGBA", Type::u8, 8, 0, 3840, 2160, {Role::r, Role::g, Role::b, Role::a}), false);
  leaves_frames(context);
  learns(context);
  estimates(context);
  settles(context);
  stays_white(context);
  believes(context);
  come_through(context);
  refused(context);
}

}  // namespace vf::test
