#include "filters/guided.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/guided.h"
#include "tests/kernels/harness.h"

namespace vf::test {
namespace {

struct Picture {
  const char* name;
  Layout layout;
  MatteChannels channels;
};

Picture packed(const char* name, Type type, int w, int h, int r, int g, int b, int a) {
  Picture p{name, packed_layout(type, 4, w, h), {}};
  p.channels.color[0] = {0, r};
  p.channels.color[1] = {0, g};
  p.channels.color[2] = {0, b};
  p.channels.alpha = {0, a};
  return p;
}
Picture rgba(Type type, int w, int h) {
  return packed("RGBA", type, w, h, 0, 1, 2, 3);
}

// Planes of one channel each; chroma planes subsampled by 2^sub_x x 2^sub_y.
Picture planar(const char* name, Type type, int w, int h, int sub_x, int sub_y) {
  Picture p{name, {}, {}};
  p.layout.type = type;
  p.layout.planes = 4;
  for (int i = 0; i < 4; i++) {
    PlaneLayout& l = p.layout.plane[i];
    const bool chroma = i == 1 || i == 2;
    l.sub_x = chroma ? sub_x : 0;
    l.sub_y = chroma ? sub_y : 0;
    l.width = (w + (1 << l.sub_x) - 1) >> l.sub_x;
    l.height = (h + (1 << l.sub_y) - 1) >> l.sub_y;
    if (i < 3) p.channels.color[i] = {i, 0};
  }
  p.channels.alpha = {3, 0};
  return p;
}

// A guide of 1 or 3 channels in one plane, the mask in another.
Picture apart(Type type, int colors, int w, int h) {
  Picture p{colors == 3 ? "3+1" : "1+1", packed_layout(type, colors, w, h), {}};
  p.layout.planes = 2;
  p.layout.plane[1] = {w, h};
  p.channels.colors = colors;
  p.channels.alpha = {1, 0};
  return p;
}

// The matte alone.
Picture matte(Type type, int w, int h) {
  Picture p{"matte", packed_layout(type, 1, w, h), {}};
  p.channels.colors = 0;
  p.channels.alpha = {0, 0};
  return p;
}

void one(Context& context, const std::string& name, const Picture& from, const Picture& to,
         const GuidedParams& params, Pattern pattern, Geometry geometry = {}) {
  context.check(text("guided %s %s %s", from.name, name.c_str(), name_of(pattern)), from.layout,
                to.layout, pattern, geometry, guided_contract(from.layout, params),
                from.layout == to.layout,
                [&](Queue& queue, Placement placement, std::unique_ptr<Plan>* plan) {
                  std::unique_ptr<GuidedPlan> made;
                  VF_TRY(make_guided(queue, from.layout, from.channels, to.layout, to.channels,
                                     params, placement, &made));
                  *plan = std::move(made);
                  return Status();
                });
}

GuidedParams params_of(int radius, int subsample, double epsilon = 1e-4) {
  GuidedParams p;
  p.refine = MatteRefine::guided;
  p.radius = radius;
  p.subsample = subsample;
  p.epsilon = epsilon;
  return p;
}

// YCbCr of limited range in 8 bits, as GStreamer's caps say it by default.
void use_ycbcr(GuidedParams* p) {
  const double c = 255.0 / 224;
  const double matrix[3][3] = {{255.0 / 219, 0, 0}, {0, c, 0}, {0, 0, c}};
  std::memcpy(p->to_ycbcr, matrix, sizeof matrix);
  const double black[3] = {16 / 255.0, 128 / 255.0, 128 / 255.0};
  const double white[3] = {235 / 255.0, 128 / 255.0, 128 / 255.0};
  const double green[3] = {173 / 255.0, 42 / 255.0, 26 / 255.0};
  const double blue[3] = {32 / 255.0, 240 / 255.0, 118 / 255.0};
  std::copy_n(black, 3, p->black);
  std::copy_n(white, 3, p->white);
  std::copy_n(green, 3, p->key_color);
  std::copy_n(blue, 3, p->background);
}

// Without alpha: three planes, or two of which the second has both chroma components.
Picture ycbcr(const char* name, Type type, int w, int h, int sub_x, int sub_y, bool semi) {
  Picture p = planar(name, type, w, h, sub_x, sub_y);
  p.layout.planes = semi ? 2 : 3;
  if (semi) {
    p.layout.plane[1].channels = 2;
    p.channels.color[2] = {1, 1};
  }
  p.channels.alpha = {};
  return p;
}

// A clip whose background stands still under noise while a disc moves, with a mask that flickers.
void draw(Frame* frame, const MatteChannels& m, int t, Random& random) {
  const Layout& l = frame->layout();
  const double full = l.type == Type::u8 ? 255 : l.type == Type::u16 ? 65535 : 1;
  const PlaneLayout& p = l.plane[0];
  for (int y = 0; y < p.height; y++)
    for (int x = 0; x < p.width; x++) {
      const bool in = std::hypot(x - 20 - 6 * t, y - p.height / 2) < 14;
      const double noise = 0.02 * random.unit();
      for (int c = 0; c < 3; c++) {
        const double v = in ? 0.8 - 0.2 * c : 0.3 + 0.1 * std::sin(0.2 * x + c);
        frame->set(0, x, y, m.color[c].channel,
                   l.type == Type::f32 ? v + noise : std::floor((v + noise) * full));
      }
      frame->set(0, x, y, m.alpha.channel, in != (random.between(0, 9) == 0) ? full : 0);
    }
}

void temporal(Context& context, MatteRefine refine, Type type, int subsample, double strength) {
  const std::string name =
      text("guided temporal %s%s subsample %d strength %g",
           refine == MatteRefine::colors ? "colors " : "", name_of(type), subsample, strength);
  if (!context.wants(name)) return;
  Random random = context.random(name);
  const Picture picture = rgba(type, 203, 81);
  GuidedParams params = params_of(12, subsample);
  params.temporal = strength;
  params.refine = refine;
  auto run = [&]() -> std::string {
    std::unique_ptr<Queue> reference;
    QueueOptions options;
    options.backend = Backend::reference;
    std::unique_ptr<GuidedPlan> plan, want_plan;
    const auto make = [&](Queue& queue, std::unique_ptr<GuidedPlan>* out) {
      std::unique_ptr<GuidedPlan> made;
      VF_TRY(make_guided(queue, picture.layout, picture.channels, picture.layout, picture.channels,
                         params, Placement::separate, &made));
      if (*out) made->take_over(**out);
      *out = std::move(made);
      return Status();
    };
    if (Status s = make_queue(options, &reference); !s.ok()) return s.message();
    if (Status s = make(*reference, &want_plan); !s.ok()) return s.message();
    if (Status s = make(context.device().queue(), &plan); !s.ok()) return s.message();
    for (int t = 0; t < 9; t++) {
      if (t == 2 || t == 3 || t == 7) {  // what is remembered goes on, then does not fit
        params.epsilon *= 3;
        params.radius += 4;
        params.output = t == 2 ? MatteOutput::premultiplied : MatteOutput::alpha;
        if (t == 7) params.subsample++;
        if (Status s = make(*reference, &want_plan); !s.ok()) return s.message();
        if (Status s = make(context.device().queue(), &plan); !s.ok()) return s.message();
      }
      if (t == 5) {  // a cut: both must forget
        plan->reset();
        want_plan->reset();
      }
      Frame src(picture.layout), want(picture.layout), got(picture.layout);
      draw(&src, picture.channels, t, random);
      if (Status s = want_plan->run(src.image(), want.image()); !s.ok()) return s.message();
      const Image in = context.device().upload(src), out = context.device().upload(got);
      if (Status s = plan->run(in, out); !s.ok()) return s.message();
      if (Status s = context.device().queue().sync(); !s.ok()) return s.message();
      context.device().download(out, &got);
      if (std::string d = difference(got, want, guided_contract(picture.layout, params));
          !d.empty())
        return text("frame %d: ", t) + d;
    }
    return {};
  };
  const std::string failure = run();
  context.device().release_all();
  context.result(name, failure);
}

// Each value out of range is refused with a message that names it.
void refused(Context& context) {
  const auto expect = [&](const char* word, const Picture& from, const Picture& to,
                          const GuidedParams& p, Placement placement = Placement::separate) {
    std::unique_ptr<GuidedPlan> plan;
    context.refused(text("guided refuses %s", word),
                    make_guided(context.device().queue(), from.layout, from.channels, to.layout,
                                to.channels, p, placement, &plan),
                    word);
  };
  const Picture p = rgba(Type::u8, 40, 30);
  const auto with = [](auto&& change) {
    GuidedParams g;
    change(g);
    return g;
  };
  for (const int v : {-1, -5, 513})
    expect("radius", p, p, with([&](GuidedParams& g) { g.radius = v; }));
  for (const double v : {0.0, 1e-9, 1.5, double(NAN)})
    expect("epsilon", p, p, with([&](GuidedParams& g) { g.epsilon = v; }));
  for (const int v : {0, 65})
    expect("mask-error", p, p, with([&](GuidedParams& g) { g.mask_error = v; }));
  for (const double v : {-0.1, 4.1, double(NAN)})
    expect("mask-trust", p, p, with([&](GuidedParams& g) { g.mask_trust = v; }));
  for (const int v : {15, 257})
    expect("color-reach", p, p, with([&](GuidedParams& g) { g.color_reach = v; }));
  for (const double v : {0.0, 1.1, double(NAN)})
    expect("color-sigma", p, p, with([&](GuidedParams& g) { g.color_sigma = v; }));
  for (const int v : {0, 17})
    expect("subsample", p, p, with([&](GuidedParams& g) { g.subsample = v; }));
  for (const double v : {-0.1, 1.1, double(NAN)}) {
    expect("key-tolerance", p, p, with([&](GuidedParams& g) { g.key_tolerance = v; }));
    expect("key-softness", p, p, with([&](GuidedParams& g) { g.key_softness = v; }));
    expect("despill", p, p, with([&](GuidedParams& g) { g.despill = v; }));
    expect("temporal", p, p, with([&](GuidedParams& g) { g.temporal = v; }));
  }
  expect("hue", p, p, with([](GuidedParams& g) {
           g.despill = 1;
           for (double& v : g.key_color) v = 0.5;
         }));
  const Picture gray = apart(Type::u8, 1, 40, 30);
  expect("chroma-key", gray, gray, with([](GuidedParams& g) { g.mask = MatteMask::chroma_key; }));
  expect("despill", gray, gray, with([](GuidedParams& g) { g.despill = 0.5; }));
  Picture bad = p;
  bad.channels.alpha = {};
  expect("alpha", bad, p, {});
  bad = p;
  bad.channels.color[2] = {0, 4};
  expect("colour", bad, p, {});
  bad = p;
  bad.channels.color[2] = {0, 1};
  expect("twice", bad, p, {});
  bad = p;
  bad.channels.colors = 2;
  expect("guide", bad, p, {});
  expect("type", rgba(Type::s16, 40, 30), rgba(Type::s16, 40, 30), {});
  expect("types", p, rgba(Type::u16, 40, 30), {});
  expect("40x30", p, rgba(Type::u8, 41, 30), {});
  bad = planar("A420", Type::u8, 40, 30, 1, 1);
  std::swap(bad.channels.alpha, bad.channels.color[1]);
  expect("subsampled", bad, bad, {});
  GuidedParams turned;
  turned.convert[0][1] = 0.5;
  const Picture a420 = planar("A420", Type::u8, 40, 30, 1, 1);
  expect("not subsampled", p, a420, turned);
  expect("conversion", gray, gray, turned);
  turned.convert[2][3] = NAN;
  expect("colour 2", p, p, turned);
  Picture packed3 = p;
  packed3.layout = packed_layout(Type::u8, 3, 40, 30);
  GuidedParams key;
  key.mask = MatteMask::chroma_key;
  expect("in place", packed3, p, key, Placement::in_place);
}

// refine=colors.
void colors_cases(Context& context) {
  const Type types[] = {Type::u8, Type::u16, Type::f32};
  const auto params = [](int mask_error, int subsample = 4, int radius = 0) {
    GuidedParams p = params_of(radius, subsample);
    p.refine = MatteRefine::colors;
    p.mask_error = mask_error;
    return p;
  };
  for (const Type type : types)
    for (const int error : {1, 5, 18, 40, 64})
      for (const Pattern pattern : kAllPatterns) {
        const GuidedParams p = params(error);
        const std::string name = text("%s colors mask-error %d", name_of(type), error);
        one(context, name, rgba(type, 203, 91), rgba(type, 203, 91), p, pattern);
        if (error == 18)
          one(context, name, apart(type, 1, 203, 91), apart(type, 1, 203, 91), p, pattern);
      }
  // Parts of samples and cells, and each way to subsample.
  const std::pair<int, int> shapes[] = {{1, 1},    {1, 50},   {50, 1},   {2, 3},
                                        {7, 5},    {32, 32},  {33, 31},  {65, 129},
                                        {131, 67}, {257, 33}, {640, 37}, {97, 300}};
  for (const Type type : types)
    for (const auto& [w, h] : shapes)
      for (const int s : {1, 2, 3, 4, 7, 8, 16})
        for (const int radius : {0, 40}) {
          if (radius && s != 4 && s != 1) continue;
          one(context,
              text("%s colors %dx%d radius %d subsample %d", name_of(type), w, h, radius, s),
              rgba(type, w, h), rgba(type, w, h), params(18, s, radius), Pattern::texture);
        }
  // The vote's own settings.
  for (const int reach : {16, 47, 150, 256})
    for (const double sigma : {0.002, 0.03, 0.5}) {
      GuidedParams p = params(24);
      p.color_reach = reach;
      p.color_sigma = sigma;
      p.mask_trust = reach == 16 ? 0 : reach == 256 ? 4 : 0.5;
      one(context,
          text("colors color-reach %d color-sigma %g mask-trust %g", reach, sigma, p.mask_trust),
          rgba(Type::u8, 301, 203), rgba(Type::u8, 301, 203), p, Pattern::texture);
    }
  // Orders, planes, masks and outputs.
  for (const auto& [w, h] : {std::pair{158, 74}, {159, 75}}) {
    Picture top10 = packed("RGBA_10", Type::u16, w, h, 0, 1, 2, 3);
    top10.layout.shift = 6;
    top10.layout.max_value = 1023;
    Picture a420_10 = planar("A420_10", Type::u16, w, h, 1, 1);
    a420_10.layout.max_value = 1023;
    const Picture pictures[] = {rgba(Type::u8, w, h),
                                packed("ARGB", Type::u8, w, h, 1, 2, 3, 0),
                                packed("odd order", Type::u8, w, h, 3, 0, 2, 1),
                                packed("ARGB64", Type::u16, w, h, 1, 2, 3, 0),
                                rgba(Type::f32, w, h),
                                planar("GBRA", Type::u8, w, h, 0, 0),
                                planar("A420", Type::u8, w, h, 1, 1),
                                planar("A410", Type::u8, w, h, 2, 2),
                                a420_10,
                                top10,
                                apart(Type::u8, 3, w, h)};
    for (const Picture& picture : pictures)
      for (const MatteMask mask : {MatteMask::alpha, MatteMask::chroma_key})
        for (int output = 0; output < 4; output++) {
          GuidedParams p = params(18, w % 2 ? 4 : 2);
          p.mask = mask;
          p.output = MatteOutput(output);
          p.despill = mask == MatteMask::chroma_key ? 0.8 : 0;
          p.key_softness = 0.4;
          p.background[0] = 0.9;
          if (w % 2) p.background_alpha = 0.5;
          if (picture.layout.planes == 4 && picture.layout.plane[1].sub_x) use_ycbcr(&p);
          one(context,
              text("colors %dx%d %s output %d", w, h, mask == MatteMask::alpha ? "alpha" : "key",
                   output),
              picture, picture, p, Pattern::texture);
        }
    GuidedParams p = params(18);
    p.mask = MatteMask::chroma_key;
    p.key_softness = 0.4;
    use_ycbcr(&p);
    convert_to_rgb(&p);
    one(context, text("colors %dx%d key to RGB", w, h), ycbcr("NV12", Type::u8, w, h, 1, 1, true),
        packed("ARGB", Type::u8, w, h, 1, 2, 3, 0), p, Pattern::texture);
  }
  for (const Geometry geometry : {Geometry{1, 0}, Geometry{5, 4}, Geometry{12, 8}, Geometry{16, 3}})
    for (const int s : {1, 4, 8})
      one(context,
          text("colors padding %d offset %d subsample %d", geometry.stride_padding, geometry.offset,
               s),
          rgba(Type::u8, 211, 43), rgba(Type::u8, 211, 43), params(18, s), Pattern::texture,
          geometry);
  one(context, "colors 1280x720", rgba(Type::u8, 1280, 720), rgba(Type::u8, 1280, 720), params(18),
      Pattern::texture);
}

// What is timed, too.
void timed_cases(Context& context) {
  const auto timed = [&](const char* frame, const Picture& from, const Picture& to,
                         const GuidedParams& params, const char* note, auto&& change) {
    TimedCase row;
    row.frame = frame;
    row.parameters = text("r%d s%d%s", params.radius, params.subsample, note);
    row.src = from.layout;
    row.dst = to.layout;
    row.tolerance = guided_contract(from.layout, params);
    row.in_place = from.layout == to.layout;
    row.make = [params, in = from.channels, out = to.channels](
                   Queue& queue, const Layout& src, const Layout& dst, Placement placement,
                   std::unique_ptr<Plan>* plan) {
      std::unique_ptr<GuidedPlan> made;
      VF_TRY(make_guided(queue, src, in, dst, out, params, placement, &made));
      *plan = std::move(made);
      return Status();
    };
    if (params.temporal > 0)
      row.forget = [](Plan& plan) { static_cast<GuidedPlan&>(plan).reset(); };
    row.params = params;
    change(row);
    context.timed(row);
  };
  const auto same = [&](const char* frame, const Picture& picture, const GuidedParams& params,
                        const char* note, bool quick) {
    timed(frame, picture, picture, params, note, [&](TimedCase& row) { row.quick = quick; });
  };
  for (const int height : {1080, 2160})
    for (const int s : {1, 4, 8})
      for (const int r : {16, 60}) {
        const Picture picture = rgba(Type::u8, height * 16 / 9, height);
        timed(height == 1080 ? "1080p RGBA" : "2160p RGBA", picture, picture, params_of(r, s), "",
              [&](TimedCase& row) {
                row.cpu = height == 1080;
                row.quick = row.cpu && s == 4;
              });
      }

  // What else there is, at the element's defaults, and without subsampling.
  const Picture picture = rgba(Type::u8, 1920, 1080);
  for (const int height : {1080, 2160}) {
    GuidedParams p = params_of(0, 4);
    p.refine = MatteRefine::colors;
    const Picture picture = rgba(Type::u8, height * 16 / 9, height);
    timed(height == 1080 ? "1080p RGBA" : "2160p RGBA", picture, picture, p, " colors",
          [&](TimedCase& row) { row.cpu = row.quick = height == 1080; });
  }
  GuidedParams p = params_of(32, 4);
  for (const int s : {4, 1})
    timed("1080p RGBA", picture, picture, params_of(32, s), "", [&](TimedCase& row) {
      row.element = text("cudaguidedmatte refine=guided radius=32 subsample=%d", s);
    });
  p.temporal = 0.8;
  same("1080p RGBA", picture, p, " temporal", false);
  p.temporal = 0;
  p.mask = MatteMask::chroma_key;
  p.despill = 1;
  p.output = MatteOutput::composite;
  same("1080p RGBA", picture, p, " key over", true);
  p = params_of(32, 4);
  same("1080p ARGB64", packed("ARGB", Type::u16, 1920, 1080, 1, 2, 3, 0), p, "", false);
  same("1080p A420", planar("A420", Type::u8, 1920, 1080, 1, 1), p, "", false);
  same("1080p GBRA", planar("GBRA", Type::u8, 1920, 1080, 0, 0), p, "", false);
  // A guide of three floats and a mask beside it, the matte alone out: what other libraries take.
  for (const int s : {1, 4})
    timed("1080p 3+1", apart(Type::f32, 3, 1920, 1080), matte(Type::f32, 1920, 1080),
          params_of(16, s), "", [](TimedCase& row) { row.cpu = true; });
}

constexpr Type kTypes[] = {Type::u8, Type::u16, Type::f32};

void pattern_cases(Context& context) {
  // Every type and guide over each pattern, with epsilon over its useful range.
  for (const Type type : kTypes)
    for (const double epsilon : {1e-6, 1e-4, 1e-2})
      for (const Pattern pattern : kAllPatterns)
        for (const int s : {1, 4}) {
          const GuidedParams p = params_of(s == 1 ? 5 : 14, s, epsilon);
          const std::string name =
              text("%s radius %d subsample %d epsilon %g", name_of(type), p.radius, s, epsilon);
          one(context, name, rgba(type, 203, 91), rgba(type, 203, 91), p, pattern);
          one(context, name, apart(type, 1, 203, 91), apart(type, 1, 203, 91), p, pattern);
        }
}

void shape_cases(Context& context) {
  // Frames of one pixel, of less than a sample, and of more than a tile, at each way to subsample.
  const std::pair<int, int> shapes[] = {{1, 1},    {1, 50},   {50, 1},   {2, 3},
                                        {7, 5},    {16, 16},  {17, 9},   {65, 17},
                                        {131, 67}, {257, 33}, {640, 37}, {1030, 61}};
  for (const Type type : kTypes)
    for (const auto& [w, h] : shapes)
      for (const int s : {1, 2, 3, 4, 5, 8, 16})
        for (const int radius : {1, 16, 60}) {
          if (w * h > 20000 && radius == 16 && s != 4) continue;
          one(context, text("%s %dx%d radius %d subsample %d", name_of(type), w, h, radius, s),
              rgba(type, w, h), rgba(type, w, h), params_of(radius, s), Pattern::texture);
        }
  // Taller than a strip, and windows that need more than 32 bits, or more than a block's width.
  one(context, "u8 120x700 radius 40", rgba(Type::u8, 120, 700), rgba(Type::u8, 120, 700),
      params_of(40, 1), Pattern::noise);
  one(context, "u8 400x500 radius 60 subsample 2", rgba(Type::u8, 400, 500),
      rgba(Type::u8, 400, 500), params_of(60, 2), Pattern::texture);
  one(context, "u8 401x300 radius 128", rgba(Type::u8, 401, 300), rgba(Type::u8, 401, 300),
      params_of(128, 1, 1e-6), Pattern::extremes);
  one(context, "u8 301x290 radius 129", rgba(Type::u8, 301, 290), rgba(Type::u8, 301, 290),
      params_of(129, 1, 1e-6), Pattern::extremes);
  one(context, "u8 1203x23 radius 512", rgba(Type::u8, 1203, 23), rgba(Type::u8, 1203, 23),
      params_of(512, 1), Pattern::texture);
  one(context, "u8 1203x62 radius 500 subsample 2", rgba(Type::u8, 1203, 62),
      rgba(Type::u8, 1203, 62), params_of(500, 2), Pattern::texture);
  one(context, "u16 1203x23 radius 512", rgba(Type::u16, 1203, 23), rgba(Type::u16, 1203, 23),
      params_of(512, 1), Pattern::noise);
  one(context, "f32 301x290 radius 140", rgba(Type::f32, 301, 290), rgba(Type::f32, 301, 290),
      params_of(140, 1), Pattern::texture);
  one(context, "f32 900x40 radius 300 subsample 3", rgba(Type::f32, 900, 40),
      rgba(Type::f32, 900, 40), params_of(300, 3), Pattern::noise);
}

// Orders of channels and planes, subsampled chroma, unused bits; all outputs, both masks.
void layout_cases(Context& context) {
  for (const auto& [w, h] : {std::pair{158, 74}, {159, 75}}) {
    Picture a420_10 = planar("A420_10", Type::u16, w, h, 1, 1);
    a420_10.layout.max_value = 1023;
    Picture top10 = packed("RGBA_10", Type::u16, w, h, 0, 1, 2, 3);
    top10.layout.shift = 6;
    top10.layout.max_value = 1023;
    const Picture pictures[] = {rgba(Type::u8, w, h),
                                packed("BGRA", Type::u8, w, h, 2, 1, 0, 3),
                                packed("ARGB", Type::u8, w, h, 1, 2, 3, 0),
                                packed("ABGR", Type::u8, w, h, 3, 2, 1, 0),
                                packed("VUYA", Type::u8, w, h, 2, 1, 0, 3),
                                packed("odd order", Type::u8, w, h, 3, 0, 2, 1),
                                packed("ARGB64", Type::u16, w, h, 1, 2, 3, 0),
                                rgba(Type::f32, w, h),
                                planar("GBRA", Type::u8, w, h, 0, 0),
                                planar("A420", Type::u8, w, h, 1, 1),
                                planar("A422", Type::u8, w, h, 1, 0),
                                planar("A410", Type::u8, w, h, 2, 2),
                                a420_10,
                                top10,
                                apart(Type::u8, 3, w, h),
                                apart(Type::f32, 3, w, h)};
    for (const Picture& picture : pictures)
      for (const MatteMask mask : {MatteMask::alpha, MatteMask::chroma_key})
        for (int output = 0; output < 4; output++) {
          GuidedParams p = params_of(12, w % 2 ? 4 : 1, 1e-3);
          p.mask = mask;
          p.output = MatteOutput(output);
          p.despill = mask == MatteMask::chroma_key ? 0.8 : output == 1 ? 0.5 : 0;
          if (output % 2) p.key_softness = 0.4;
          if (output == 3) p.background[0] = 0.9, p.background[2] = 0.4;
          if (output == 3 && w % 2) p.background_alpha = 0.5;
          if (picture.layout.planes == 4 && picture.layout.plane[1].sub_x) use_ycbcr(&p);
          one(context,
              text("%dx%d %s output %d", w, h, mask == MatteMask::alpha ? "alpha" : "key", output),
              picture, picture, p, mask == MatteMask::alpha ? Pattern::texture : Pattern::noise);
        }
  }
}

// The matte alone; colours without alpha in, with alpha out; other orders out.
void output_cases(Context& context) {
  for (const Type type : kTypes)
    for (const int s : {1, 4}) {
      const GuidedParams p = params_of(10, s);
      const Picture alone = matte(type, 150, 70);
      one(context, text("%s to matte subsample %d", name_of(type), s), rgba(type, 150, 70), alone,
          p, Pattern::texture);
      one(context, text("%s to matte subsample %d", name_of(type), s), apart(type, 1, 150, 70),
          alone, p, Pattern::texture);
      one(context, text("%s to ARGB subsample %d", name_of(type), s), rgba(type, 150, 70),
          packed("ARGB", type, 150, 70, 1, 2, 3, 0), p, Pattern::texture);
      GuidedParams key = p;
      key.mask = MatteMask::chroma_key;
      key.key_softness = 0;
      Picture rgb{"RGB", packed_layout(type, 3, 150, 70), {}};
      one(context, text("%s key to RGBA subsample %d", name_of(type), s), rgb, rgba(type, 150, 70),
          key, Pattern::texture);
      Picture rgbx = rgb;
      rgbx.layout.plane[0].step = 4;
      rgbx.name = "RGBx";
      one(context, text("%s key to RGBA subsample %d", name_of(type), s), rgbx, rgba(type, 150, 70),
          key, Pattern::texture);
    }
}

// YCbCr in, RGB out.
void ycbcr_to_rgb_cases(Context& context) {
  for (const Type type : kTypes)
    for (const auto& [w, h] : {std::pair{158, 74}, {159, 75}})
      for (int output = 0; output < 4; output++) {
        GuidedParams p = params_of(12, output % 2 ? 4 : 1, 1e-3);
        p.mask = MatteMask::chroma_key;
        p.key_softness = 0.4;
        p.output = MatteOutput(output);
        p.despill = 0.3 * output;
        p.background_alpha = w % 2 ? 0.5 : 1;
        use_ycbcr(&p);
        convert_to_rgb(&p);
        const std::string name = text("%s key to RGB %dx%d output %d", name_of(type), w, h, output);
        const Picture sources[] = {
            ycbcr("NV12", type, w, h, 1, 1, true), ycbcr("I420", type, w, h, 1, 1, false),
            ycbcr("Y42B", type, w, h, 1, 0, false), ycbcr("Y444", type, w, h, 0, 0, false)};
        for (const Picture& from : sources) {
          one(context, name + " packed", from, packed("ARGB", type, w, h, 1, 2, 3, 0), p,
              Pattern::noise);
          one(context, name + " planar", from, planar("GBRA", type, w, h, 0, 0), p,
              Pattern::texture);
        }
      }
}

// Rows that are not aligned, planes that start anywhere.
void alignment_cases(Context& context) {
  for (const Type type : kTypes)
    for (const Geometry geometry :
         {Geometry{1, 0}, Geometry{5, 4}, Geometry{12, 8}, Geometry{16, 3}})
      for (const int s : {1, 2, 4, 8})
        one(context,
            text("%s padding %d offset %d subsample %d", name_of(type), geometry.stride_padding,
                 geometry.offset, s),
            rgba(type, 211, 43), rgba(type, 211, 43), params_of(16, s), Pattern::texture, geometry);
}

void temporal_cases(Context& context) {
  for (const Type type : kTypes)
    for (const int s : {1, 4})
      for (const double strength : {0.8, 1.0})
        for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors})
          temporal(context, refine, type, s, strength);
}

}  // namespace

void guided_cases(Context& context) {
  refused(context);
  timed_cases(context);
  pattern_cases(context);
  shape_cases(context);
  layout_cases(context);
  output_cases(context);
  ycbcr_to_rgb_cases(context);
  alignment_cases(context);
  temporal_cases(context);
  colors_cases(context);
}

}  // namespace vf::test
