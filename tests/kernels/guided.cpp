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
         const GuidedParams& params, Pattern pattern, Geometry geometry = {},
         const CoarseMask* mask = nullptr) {
  context.check(text("guided %s %s %s", from.name, name.c_str(), name_of(pattern)), from.layout,
                to.layout, pattern, geometry, guided_contract(from.layout, params),
                from.layout == to.layout,
                [&](Queue& queue, Placement placement, std::unique_ptr<Plan>* plan) {
                  std::unique_ptr<GuidedPlan> made;
                  VF_TRY(make_guided(queue, from.layout, from.channels, to.layout, to.channels,
                                     params, placement, &made));
                  if (mask) VF_TRY(made->set_mask(*mask));
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

// Makes a plan for frames of `picture` that takes over from *plan, if there is one.
Status make_again(Queue& queue, const Picture& picture, const GuidedParams& params,
                  std::unique_ptr<GuidedPlan>* plan) {
  std::unique_ptr<GuidedPlan> made;
  VF_TRY(make_guided(queue, picture.layout, picture.channels, picture.layout, picture.channels,
                     params, Placement::separate, &made));
  if (*plan) made->take_over(**plan);
  *plan = std::move(made);
  return {};
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
      return make_again(queue, picture, params, out);
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
  for (const int v : {-1, 65})
    expect("mask-error", p, p, with([&](GuidedParams& g) { g.mask_error = v; }));
  for (const double v : {-0.1, 4.1, double(NAN)})
    expect("mask-trust", p, p, with([&](GuidedParams& g) { g.mask_trust = v; }));
  for (const int v : {15, 257})
    expect("color-reach", p, p, with([&](GuidedParams& g) { g.color_reach = v; }));
  for (const double v : {0.0, 1.1, double(NAN)})
    expect("color-sigma", p, p, with([&](GuidedParams& g) { g.color_sigma = v; }));
  for (const int v : {0, 17})
    expect("subsample", p, p, with([&](GuidedParams& g) { g.subsample = v; }));
  for (const double v : {0.5, 1.0, 1.9, 257.0, double(NAN)})
    expect("background-sigma", p, p, with([&](GuidedParams& g) { g.background_sigma = v; }));
  for (const double v : {-0.1, 1.1, double(NAN)}) {
    expect("key-tolerance", p, p, with([&](GuidedParams& g) { g.key_tolerance = v; }));
    expect("key-softness", p, p, with([&](GuidedParams& g) { g.key_softness = v; }));
    expect("despill", p, p, with([&](GuidedParams& g) { g.despill = v; }));
    expect("temporal", p, p, with([&](GuidedParams& g) { g.temporal = v; }));
  }
  const Picture gray = apart(Type::u8, 1, 40, 30);
  Picture opaque = p;
  opaque.channels.alpha = {};
  for (const MatteOutput output :
       {MatteOutput::alpha, MatteOutput::premultiplied, MatteOutput::matte})
    expect("no alpha", p, opaque, with([&](GuidedParams& g) { g.output = output; }));
  opaque.channels.colors = 0;
  expect("no alpha", p, opaque, with([](GuidedParams& g) { g.output = MatteOutput::composite; }));
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
    for (const int error : {0, 1, 5, 18, 40, 64})
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
  // Frames aligned as the joined launch of means and result wants them, with parts of its blocks.
  for (const auto& [w, h] : {std::pair{4, 5}, {36, 131}, {132, 35}, {260, 66}})
    for (const Picture& picture :
         {rgba(Type::u8, w, h), packed("ARGB", Type::u8, w, h, 1, 2, 3, 0)})
      one(context, text("u8 colors aligned %dx%d", w, h), picture, picture, params(18),
          Pattern::texture);
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

// foreground=estimate and background=blur.
void layers_cases(Context& context) {
  const auto params = [](MatteRefine refine, int subsample, MatteOutput output, double sigma = 20) {
    GuidedParams p = params_of(0, subsample);
    p.refine = refine;
    p.output = output;
    p.foreground = MatteForeground::estimate;
    p.backdrop = MatteBackground::blur;
    p.background_sigma = sigma;
    return p;
  };
  constexpr MatteRefine refines[] = {MatteRefine::guided, MatteRefine::colors};
  constexpr MatteOutput outputs[] = {MatteOutput::alpha, MatteOutput::premultiplied,
                                     MatteOutput::composite};
  constexpr Type types[] = {Type::u8, Type::u16, Type::f32};
  for (const Type type : types)
    for (const MatteRefine refine : refines)
      for (const MatteOutput output : outputs)
        for (const Pattern pattern : kAllPatterns) {
          const GuidedParams p = params(refine, 4, output);
          const std::string name =
              text("%s layers refine %d output %d", name_of(type), int(refine), int(output));
          one(context, name, rgba(type, 203, 91), rgba(type, 203, 91), p, pattern);
          if (output == MatteOutput::composite)
            one(context, name, apart(type, 1, 203, 91), apart(type, 1, 203, 91), p, pattern);
        }
  // Each sampling of the blur, from its limits on, and frames of parts of cells.
  for (const double sigma : {2.0, 2.5, 4.0, 7.9, 8.0, 16.4, 16.6, 20.0, 33.0, 66.0, 132.0, 256.0})
    for (const auto& [w, h] : {std::pair{203, 91}, {1, 1}, {5, 70}, {130, 3}, {640, 360}})
      one(context, text("layers sigma %g %dx%d", sigma, w, h), rgba(Type::u8, w, h),
          rgba(Type::u8, w, h), params(MatteRefine::colors, 4, MatteOutput::composite, sigma),
          Pattern::texture);
  const std::pair<int, int> shapes[] = {{1, 1},    {1, 50},   {50, 1},   {2, 3},
                                        {7, 5},    {32, 32},  {33, 31},  {65, 129},
                                        {131, 67}, {257, 33}, {640, 37}, {129, 65}};
  for (const Type type : types)
    for (const auto& [w, h] : shapes)
      for (const int s : {1, 2, 3, 4, 7, 8, 16})
        for (const MatteRefine refine : refines)
          one(context,
              text("%s layers %dx%d refine %d subsample %d", name_of(type), w, h, int(refine), s),
              rgba(type, w, h), rgba(type, w, h), params(refine, s, outputs[(w + s) % 3], 10),
              Pattern::texture);
  // Each alone, orders, planes, masks and outputs.
  for (const auto& [w, h] : {std::pair{160, 74}, {159, 75}}) {
    Picture a420_10 = planar("A420_10", Type::u16, w, h, 1, 1);
    a420_10.layout.max_value = 1023;
    const Picture pictures[] = {rgba(Type::u8, w, h),
                                packed("BGRA", Type::u8, w, h, 2, 1, 0, 3),
                                packed("odd order", Type::u8, w, h, 3, 0, 2, 1),
                                packed("ARGB64", Type::u16, w, h, 1, 2, 3, 0),
                                rgba(Type::f32, w, h),
                                planar("GBRA", Type::u8, w, h, 0, 0),
                                planar("A420", Type::u8, w, h, 1, 1),
                                planar("A422", Type::u8, w, h, 1, 0),
                                planar("A410", Type::u8, w, h, 2, 2),
                                a420_10,
                                apart(Type::u8, 3, w, h)};
    for (const Picture& picture : pictures)
      for (const MatteMask mask : {MatteMask::alpha, MatteMask::chroma_key})
        for (const MatteOutput output : outputs)
          for (int layers = 0; layers < 2; layers++) {
            GuidedParams p = params(MatteRefine::automatic, w % 2 ? 4 : 2, output);
            if (layers && output != MatteOutput::composite) continue;
            if (layers)
              p.foreground = MatteForeground::keep;
            else
              p.backdrop = MatteBackground::color;
            p.mask = mask;
            p.despill = mask == MatteMask::chroma_key ? 0.8 : 0;
            p.key_softness = 0.4;
            p.background[0] = 0.9;
            p.background_alpha = 0.5;
            if (picture.layout.planes == 4 && picture.layout.plane[1].sub_x) use_ycbcr(&p);
            one(context,
                text("%s %dx%d %s output %d", layers ? "blur" : "estimate", w, h,
                     mask == MatteMask::alpha ? "alpha" : "key", int(output)),
                picture, picture, p, Pattern::texture);
          }
    for (const MatteOutput output : outputs) {
      GuidedParams p = params(MatteRefine::automatic, 4, output);
      p.mask = MatteMask::chroma_key;
      p.key_softness = 0.4;
      use_ycbcr(&p);
      convert_to_rgb(&p);
      one(context, text("layers %dx%d key to RGB output %d", w, h, int(output)),
          ycbcr("NV12", Type::u8, w, h, 1, 1, true), packed("ARGB", Type::u8, w, h, 1, 2, 3, 0), p,
          Pattern::texture);
    }
  }
  // An automatic mask error.
  for (const Type type : types)
    for (const MatteOutput output : outputs)
      for (const int s : {1, 4, 8}) {
        GuidedParams p = params(MatteRefine::colors, s, output);
        p.mask_error = 0;
        one(context,
            text("%s layers mask-error 0 output %d subsample %d", name_of(type), int(output), s),
            rgba(type, 203, 91), rgba(type, 203, 91), p, Pattern::texture);
      }
  for (const Geometry geometry : {Geometry{1, 0}, Geometry{5, 4}, Geometry{12, 8}, Geometry{16, 3}})
    for (const int s : {1, 4, 8})
      one(context,
          text("layers padding %d offset %d subsample %d", geometry.stride_padding, geometry.offset,
               s),
          rgba(Type::u8, 212, 43), rgba(Type::u8, 212, 43),
          params(MatteRefine::colors, s, MatteOutput::composite), Pattern::texture, geometry);
  for (const MatteOutput output : outputs)
    one(context, text("layers 1280x720 output %d", int(output)), rgba(Type::u8, 1280, 720),
        rgba(Type::u8, 1280, 720), params(MatteRefine::colors, 4, output), Pattern::texture);
}

// The subject's colours do not reach the blurred background, whatever sigma is and wherever its
// edge lies among the samples: a black disc with a soft edge before white, or a white one before
// black.
void blur_beside_subject(Context& context) {
  for (const double sigma :
       {2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.9, 8.0, 10.0, 16.4, 16.6, 20.0, 80.0}) {
    const std::string name = text("guided blur beside the subject, sigma %g", sigma);
    if (!context.wants(name)) continue;
    const auto run = [&]() -> std::string {
      Device& device = context.device();
      for (int i = 0; i < 32; i++) {
        const bool white = i & 1, colors = i & 2;
        const double soft = i & 4 ? 3 : 1, at = 64 + i / 8, radius = 30 + 0.6 * i;
        const Picture picture = rgba(Type::u8, 130, 125);
        Frame src(picture.layout), matte(picture.layout), got(picture.layout);
        const auto share = [&](int x, int y) {
          return std::clamp((radius - std::hypot(x - at, y - at)) / soft + 0.5, 0.0, 1.0);
        };
        for (int y = 0; y < 125; y++)
          for (int x = 0; x < 130; x++) {
            const double a = share(x, y), v = std::floor(255 * (white ? a : 1 - a) + 0.5);
            for (int c = 0; c < 3; c++) src.set(0, x, y, c, v);
            src.set(0, x, y, 3, std::floor(255 * a + 0.5));
          }
        GuidedParams p = params_of(0, 4);
        p.refine = colors ? MatteRefine::colors : MatteRefine::guided;
        p.backdrop = MatteBackground::blur;
        p.background_sigma = sigma;
        for (Frame* frame : {&matte, &got}) {
          p.output = frame == &got ? MatteOutput::composite : MatteOutput::alpha;
          std::unique_ptr<GuidedPlan> plan;
          if (Status s =
                  make_guided(device.queue(), picture.layout, picture.channels, picture.layout,
                              picture.channels, p, Placement::separate, &plan);
              !s.ok())
            return s.message();
          const Image in = device.upload(src), out = device.upload(*frame);
          if (Status s = plan->run(in, out); !s.ok()) return s.message();
          if (Status s = device.queue().sync(); !s.ok()) return s.message();
          device.download(out, frame);
        }
        int seen = 0;
        for (int y = 0; y < 125; y++)
          for (int x = 0; x < 130; x++) {
            if (share(x, y) > 0 || matte.get(0, x, y, 3) > 0) continue;
            seen++;
            const double want = white ? 0 : 255, is = got.get(0, x, y, 1);
            if (std::abs(is - want) > 1)
              return text("%s subject, softness %g, refine %d: %d,%d is %g: must be %g",
                          white ? "white" : "black", soft, int(p.refine), x, y, is, want);
          }
        if (seen < 1000) return "there is no background";
        device.release_all();
      }
      return {};
    };
    const std::string failure = run();
    context.device().release_all();
    context.result(name, failure);
  }
}

// A mask beside the frame, with its own pixels: a soft disc over noise at its edge.
class Beside {
 public:
  void add(Random& random, int width, int height, const MaskRectangle& image,
           const MaskRectangle& counts) {
    const int stride = width + random.between(0, 5);
    std::vector<uint8_t> data(size_t(stride) * height);
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) {
        const double d = std::hypot((x + 0.5) / width - 0.5, (y + 0.5) / height - 0.5);
        const double v = 0.5 + 4 * (0.3 - d) + 0.3 * (random.unit() - 0.5);
        data[size_t(y) * stride + x] = uint8_t(255 * std::clamp(v, 0.0, 1.0));
      }
    data_.push_back(std::move(data));
    parts_.push_back({data_.back().data(), stride, width, height, image, counts});
  }
  CoarseMask mask(uint64_t id = 0) const { return {parts_.data(), int(parts_.size()), id}; }

 private:
  std::vector<std::vector<uint8_t>> data_;
  std::vector<MaskPart> parts_;
};

MaskRectangle whole(int width, int height) {
  return {0, 0, double(width), double(height)};
}

GuidedParams external_params(MatteRefine refine, int subsample, int radius) {
  GuidedParams p = params_of(radius, subsample);
  p.mask = MatteMask::external;
  p.refine = refine;
  return p;
}

// A mask that leaves `band` of the samples to the colours at mask-error 18, in frames of RGBA.
enum class Band { none, some, all };
void shape_mask(Band band, Frame* frame) {
  const PlaneLayout& plane = frame->layout().plane[0];
  for (int y = 0; y < plane.height; y++)
    for (int x = 0; x < plane.width; x++) {
      // Stripes: of their edges, 72 pixels are in the band.
      const bool subject = band == Band::all    ? x / 64 % 2
                           : band == Band::some ? (x + 240) / 480 % 2
                                                : false;
      frame->set(0, x, y, 3, subject ? 255 : 0);
    }
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
      if (params.mask == MatteMask::external) {
        // As large as networks' are.
        Random random(1);
        Beside beside;
        const MaskRectangle frame = whole(dst.plane[0].width, dst.plane[0].height);
        beside.add(random, 256, 256, frame, frame);
        VF_TRY(made->set_mask(beside.mask()));
      }
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
  for (const int height : {1080, 2160})
    for (const Band band : {Band::none, Band::some, Band::all}) {
      GuidedParams p = params_of(0, 4);
      p.refine = MatteRefine::colors;
      const Picture picture = rgba(Type::u8, height * 16 / 9, height);
      timed(height == 1080 ? "1080p RGBA" : "2160p RGBA", picture, picture, p,
            band == Band::none   ? " colors, no band"
            : band == Band::some ? " colors, 15 % in the band"
                                 : " colors, all in the band",
            [&](TimedCase& row) {
              row.cpu = row.quick = height == 1080;
              row.shape = [band](Frame* frame) { shape_mask(band, frame); };
            });
    }
  for (const int height : {1080, 2160})
    for (int layers = 0; layers < 4; layers++) {
      GuidedParams p = params_of(0, 4);
      p.refine = MatteRefine::colors;
      if (layers != 3)
        p.foreground = layers < 2 ? MatteForeground::estimate : MatteForeground::keep;
      if (layers) p.output = MatteOutput::composite;
      if (layers == 1 || layers == 2) p.backdrop = MatteBackground::blur;
      const char* const notes[] = {" colors, estimate", " colors, estimate, blur", " colors, blur",
                                   " colors, composite"};
      const Picture picture = rgba(Type::u8, height * 16 / 9, height);
      timed(height == 1080 ? "1080p RGBA" : "2160p RGBA", picture, picture, p, notes[layers],
            [&](TimedCase& row) {
              row.cpu = row.quick = height == 1080 && layers < 2;
              row.shape = [](Frame* frame) { shape_mask(Band::some, frame); };
            });
    }
  GuidedParams steady = params_of(0, 4);
  steady.refine = MatteRefine::colors;
  steady.temporal = 0.95;
  timed("1080p RGBA", picture, picture, steady, " colors, temporal", [](TimedCase& row) {
    row.cpu = true;
    row.shape = [](Frame* frame) { shape_mask(Band::some, frame); };
  });
  for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors}) {
    const bool colors = refine == MatteRefine::colors;
    GuidedParams p = external_params(refine, 4, colors ? 0 : 32);
    const char* const note = colors ? " colors beside" : " beside";
    timed("1080p RGBA", picture, picture, p, note, [&](TimedCase& row) { row.cpu = colors; });
    use_ycbcr(&p);
    convert_to_rgb(&p);
    if (colors)
      timed("1080p NV12 to RGBA", ycbcr("NV12", Type::u8, 1920, 1080, 1, 1, true), picture, p, note,
            [](TimedCase&) {});
    if (!colors) continue;
    const Picture nv12 = ycbcr("NV12", Type::u8, 1920, 1080, 1, 1, true);
    p = external_params(refine, 4, 0);
    use_ycbcr(&p);
    p.output = MatteOutput::composite;
    same("1080p NV12", nv12, p, " colors beside, composite", false);
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
  // A gray key has no hue, so there is nothing to take out.
  GuidedParams gray = params_of(8, 1);
  gray.mask = MatteMask::chroma_key;
  gray.output = MatteOutput::composite;
  gray.despill = 1;
  for (double& v : gray.key_color) v = 0.5;
  one(context, "gray key with despill", rgba(Type::u8, 64, 48), rgba(Type::u8, 64, 48), gray,
      Pattern::texture);
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

Picture rgb_of(const char* name, Type type, int w, int h, int step) {
  Picture p{name, packed_layout(type, 3, w, h), {}};
  p.layout.plane[0].step = step;
  p.channels.alpha = {};
  return p;
}

// Composites into formats without alpha.
void opaque_cases(Context& context) {
  const auto check = [&](const std::string& name, const Picture& from, const Picture& to,
                         GuidedParams p, bool yuv, Geometry geometry = {}) {
    p.output = MatteOutput::composite;
    p.background[0] = 0.9;
    p.background[2] = 0.4;
    p.background_alpha = 0.5;  // which the destination has no place for
    if (yuv) use_ycbcr(&p);
    const std::string all = text("opaque to %s %dx%d %s", to.name, from.layout.plane[0].width,
                                 from.layout.plane[0].height, name.c_str());
    if (p.mask != MatteMask::external)
      return one(context, all, from, to, p, Pattern::texture, geometry);
    Random random = context.random(all);
    Beside beside;
    const MaskRectangle frame = whole(from.layout.plane[0].width, from.layout.plane[0].height);
    beside.add(random, 40, 30, frame, frame);
    const CoarseMask mask = beside.mask();
    one(context, all, from, to, p, Pattern::texture, geometry, &mask);
  };
  const auto params = [](MatteRefine refine, MatteMask mask, int subsample) {
    GuidedParams p = params_of(refine == MatteRefine::colors ? 0 : 12, subsample, 1e-3);
    p.refine = refine;
    p.mask = mask;
    p.key_softness = 0.4;
    if (mask == MatteMask::chroma_key) p.despill = 0.8;
    return p;
  };
  for (const auto& [w, h] : {std::pair{160, 74}, {159, 75}, {1, 1}, {2, 3}}) {
    Picture p010 = ycbcr("P010", Type::u16, w, h, 1, 1, true);
    p010.layout.shift = 6;
    p010.layout.max_value = 1023;
    Picture yuy2 = ycbcr("YUY2", Type::u8, w, h, 1, 0, false);
    yuy2.layout.plane[0].step = 2;
    yuy2.layout.plane[1].step = yuy2.layout.plane[2].step = 4;
    const Picture yuv[] = {ycbcr("NV12", Type::u8, w, h, 1, 1, true),
                           ycbcr("I420", Type::u8, w, h, 1, 1, false),
                           ycbcr("NV16", Type::u8, w, h, 1, 0, true),
                           ycbcr("Y41B", Type::u8, w, h, 2, 0, false),
                           ycbcr("YUV9", Type::u8, w, h, 2, 2, false),
                           ycbcr("Y444", Type::u8, w, h, 0, 0, false),
                           ycbcr("NV12 of floats", Type::f32, w, h, 1, 1, true),
                           p010,
                           yuy2};
    const Picture rgb[] = {rgb_of("RGB", Type::u8, w, h, 0),
                           rgb_of("RGB in fours", Type::u8, w, h, 4),
                           rgb_of("RGB48", Type::u16, w, h, 0)};
    for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors})
      for (const MatteMask mask : {MatteMask::chroma_key, MatteMask::external})
        for (int layers = 0; layers < 4; layers++) {
          GuidedParams p = params(refine, mask, w % 2 ? 4 : 2);
          if (layers & 1) p.foreground = MatteForeground::estimate;
          if (layers & 2) p.backdrop = MatteBackground::blur;
          p.background_sigma = 10;
          const std::string name =
              text("refine %d mask %d layers %d", int(refine), int(mask), layers);
          for (const Picture& picture : yuv) check(name, picture, picture, p, true);
          for (const Picture& picture : rgb) check(name, picture, picture, p, false);
          check(name + " from NV12", yuv[0], yuv[1], p, true);
          check(name + " from RGBA", rgba(Type::u8, w, h), rgb[0], p, false);
          p.mask = MatteMask::alpha;
          check(name + " from A420", planar("A420", Type::u8, w, h, 1, 1), yuv[0], p, true);
          check(name + " from RGBA", rgba(Type::u8, w, h), rgb[0], p, false);
          p.mask = mask;
          use_ycbcr(&p);
          convert_to_rgb(&p);
          check(name + " from NV12", yuv[0], rgb[0], p, true);
        }
  }
  for (const Geometry geometry : {Geometry{1, 0}, Geometry{5, 4}, Geometry{16, 3}})
    check(text("padding %d offset %d", geometry.stride_padding, geometry.offset),
          ycbcr("NV12", Type::u8, 211, 43, 1, 1, true),
          ycbcr("NV12", Type::u8, 211, 43, 1, 1, true),
          params(MatteRefine::colors, MatteMask::chroma_key, 4), true, geometry);
}

// The chroma of a composite of subsampled planes is the mean of that of its pixels.
void chroma_of_composites(Context& context) {
  for (const auto& [sub_x, sub_y] : {std::pair{1, 1}, {1, 0}, {2, 2}}) {
    const std::string name =
        text("guided chroma of a composite, subsampled by %d, %d", sub_x, sub_y);
    if (!context.wants(name)) continue;
    const int w = 151, h = 77;
    const Picture from = ycbcr("small chroma", Type::f32, w, h, sub_x, sub_y, false),
                  full = ycbcr("full chroma", Type::f32, w, h, 0, 0, false);
    GuidedParams p = params_of(6, 2);
    p.mask = MatteMask::chroma_key;
    p.key_softness = 0.3;
    p.output = MatteOutput::composite;
    use_ycbcr(&p);
    Random random = context.random(name);
    Frame src(from.layout), small(from.layout), large(full.layout);
    src.fill(Pattern::texture, random);
    const auto run = [&]() -> std::string {
      Device& device = context.device();
      for (const auto& [picture, frame] : {std::pair{&from, &small}, {&full, &large}}) {
        std::unique_ptr<GuidedPlan> plan;
        if (Status s = make_guided(device.queue(), from.layout, from.channels, picture->layout,
                                   picture->channels, p, Placement::separate, &plan);
            !s.ok())
          return s.message();
        const Image in = device.upload(src), out = device.upload(*frame);
        if (Status s = plan->run(in, out); !s.ok()) return s.message();
        if (Status s = device.queue().sync(); !s.ok()) return s.message();
        device.download(out, frame);
      }
      double change = 0;  // of the chroma, so that there is something to see
      for (int c = 1; c < 3; c++)
        for (int y = 0; y < from.layout.plane[c].height; y++)
          for (int x = 0; x < from.layout.plane[c].width; x++) {
            double sum = 0;
            int n = 0;
            for (int j = y << sub_y; j < std::min(h, (y + 1) << sub_y); j++)
              for (int i = x << sub_x; i < std::min(w, (x + 1) << sub_x); i++, n++)
                sum += large.get(c, i, j, 0);
            const double is = small.get(c, x, y, 0);
            change = std::max(change, std::abs(is - src.get(c, x, y, 0)));
            if (std::abs(sum / n - is) > 1e-4)
              return text("plane %d at %d,%d is %g: must be %g", c, x, y, is, sum / n);
          }
      return change > 0.05 ? "" : "the composite changes nothing";
    };
    const std::string failure = run();
    context.device().release_all();
    context.result(name, failure);
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

// Masks of every size and place, in the frames that a mask can be beside.
void external_cases(Context& context) {
  const auto check = [&](const std::string& name, const Picture& from, const Picture& to,
                         const GuidedParams& p, auto&& fill) {
    const std::string all =
        text("external %s%s", p.refine == MatteRefine::colors ? "colors " : "", name.c_str());
    Random random = context.random(all);
    Beside beside;
    fill(beside, random);
    const CoarseMask mask = beside.mask();
    one(context, all, from, to, p, Pattern::texture, {}, &mask);
  };
  const std::pair<int, int> sizes[] = {{1, 1},   {1, 9},     {7, 1},     {3, 2},    {32, 18},
                                       {31, 33}, {256, 144}, {301, 203}, {407, 611}};
  const std::pair<int, int> frames[] = {{1, 1}, {2, 3}, {97, 1}, {131, 67}, {160, 90}};
  for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors})
    for (const Type type : {Type::u8, Type::u16, Type::f32})
      for (const auto& [w, h] : frames)
        for (const auto& [mw, mh] : sizes)
          for (const int s : {1, 3, 4}) {
            if (s != 4 && mw != 31 && mw != 407) continue;
            check(text("%s %dx%d mask %dx%d subsample %d", name_of(type), w, h, mw, mh, s),
                  rgba(type, w, h), rgba(type, w, h), external_params(refine, s, 12),
                  [&, w = w, h = h, mw = mw, mh = mh](Beside& beside, Random& random) {
                    beside.add(random, mw, mh, whole(w, h), whole(w, h));
                  });
          }
  // Borders round the picture in the mask, at either side; objects, some of them past the edge;
  // many; none; one that does not touch the frame; a part of a pixel.
  const int w = 159, h = 75;
  struct Place {
    const char* name;
    std::vector<MaskRectangle> image, counts;
  };
  const MaskRectangle all = whole(w, h);
  std::vector<MaskRectangle> many;
  for (int i = 0; i < CoarseMask::kMaxParts; i++)
    many.push_back({i * 2.5 - 8, i * 1.2 - 6, i * 2.5 + 9, i * 1.2 + 17});
  const Place places[] = {
      {"borders above and below", {{0, -42, w, h + 42}}, {all}},
      {"a border below", {{0, 0, w, h + 84.25}}, {all}},
      {"borders left and right", {{-20.3, 0, w + 20.6, h}}, {all}},
      {"a border at the right", {{0, 0, w + 41.5, h}}, {all}},
      {"a crop of a larger frame", {{-333.5, -12, 900, 400}}, {all}},
      {"an object", {{30, 20, 71, 66}}, {{30, 20, 71, 66}}},
      {"objects past the edge",
       {{-20, -30, 41, 36}, {120, 50, 190, 100}, {60, 30, 61, 31}},
       {{-20, -30, 41, 36}, {120, 50, 190, 100}, {60, 30, 61, 31}}},
      {"objects upon each other", {{10, 5, 90, 60}, {40, 20, 130, 70}}, {{10, 5, 90, 60}, all}},
      {"many objects", many, many},
      {"nothing", {}, {}},
      {"nothing in the frame",
       {{-90, 0, 0, h}, {w, 0, 2 * w, h}},
       {{-90, 0, 0, h}, {w, 0, 2 * w, h}}},
      {"a thin strip", {{-1000, -1000, 3000, 3000}}, {{20.6, 10.4, 20.9, 70.2}}},
  };
  for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors})
    for (const Place& place : places)
      for (const auto& [mw, mh] : {std::pair{48, 27}, {33, 64}})
        check(text("%s mask %dx%d", place.name, mw, mh), rgba(Type::u8, w, h), rgba(Type::u8, w, h),
              external_params(refine, 4, 12),
              [&, mw = mw, mh = mh](Beside& beside, Random& random) {
                for (size_t i = 0; i < place.image.size(); i++)
                  beside.add(random, mw, mh, place.image[i], place.counts[i]);
              });
  // Orders, planes, outputs, conversions.
  for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors})
    for (int output = 0; output < 4; output++)
      for (const int s : {1, 4}) {
        GuidedParams p = external_params(refine, s, 9);
        p.output = MatteOutput(output);
        const auto fill = [&](Beside& beside, Random& random) {
          beside.add(random, 40, 30, {0, -20, w, h + 22}, whole(w, h));
        };
        const std::string name = text("output %d subsample %d", output, s);
        Picture a420_10 = planar("A420_10", Type::u16, w, h, 1, 1);
        a420_10.layout.max_value = 1023;
        Picture top10 = packed("RGBA_10", Type::u16, w, h, 0, 1, 2, 3);
        top10.layout.shift = 6;
        top10.layout.max_value = 1023;
        for (const Picture& picture :
             {packed("odd order", Type::u8, w, h, 3, 0, 2, 1), planar("GBRA", Type::u8, w, h, 0, 0),
              packed("ARGB64", Type::u16, w, h, 1, 2, 3, 0), a420_10, top10})
          check(name, picture, picture, p, fill);
        check(name + " to ARGB", rgba(Type::u8, w, h), packed("ARGB", Type::u8, w, h, 1, 2, 3, 0),
              p, fill);
        Picture rgb{"RGB", packed_layout(Type::u8, 3, w, h), {}};
        rgb.channels.alpha = {};
        check(name + " to RGBA", rgb, rgba(Type::u8, w, h), p, fill);
        if (refine == MatteRefine::guided)
          check(name, apart(Type::u8, 1, w, h), apart(Type::u8, 1, w, h), p, fill);
        use_ycbcr(&p);
        check(name, planar("A420", Type::u8, w, h, 1, 1), planar("A420", Type::u8, w, h, 1, 1), p,
              fill);
        check(name + " to A420", ycbcr("NV12", Type::u8, w, h, 1, 1, true),
              planar("A420", Type::u8, w, h, 1, 1), p, fill);
        convert_to_rgb(&p);
        check(name + " to RGBA", ycbcr("NV12", Type::u8, w, h, 1, 1, true), rgba(Type::u8, w, h), p,
              fill);
      }
  // Layers from such masks, and an automatic mask error.
  for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors})
    for (const int error : {0, 18})
      for (const int layers : {1, 2, 3})
        for (const int s : {1, 4}) {
          if (error == 0 && refine == MatteRefine::guided) continue;
          GuidedParams p = external_params(refine, s, 0);
          p.mask_error = error;
          p.output = layers & 2 ? MatteOutput::composite : MatteOutput::alpha;
          if (layers & 1) p.foreground = MatteForeground::estimate;
          if (layers & 2) p.backdrop = MatteBackground::blur;
          p.background_sigma = 10;
          const auto fill = [&](Beside& beside, Random& random) {
            beside.add(random, 40, 30, {0, -20, w, h + 22}, whole(w, h));
          };
          const std::string name = text("mask-error %d layers %d subsample %d", error, layers, s);
          for (const Picture& picture :
               {rgba(Type::u8, w, h), packed("ARGB64", Type::u16, w, h, 1, 2, 3, 0),
                rgba(Type::f32, w, h), planar("GBRA", Type::u8, w, h, 0, 0)})
            check(name, picture, picture, p, fill);
          use_ycbcr(&p);
          check(name, planar("A420", Type::u8, w, h, 1, 1), planar("A420", Type::u8, w, h, 1, 1), p,
                fill);
          convert_to_rgb(&p);
          check(name + " to RGBA", ycbcr("NV12", Type::u8, w, h, 1, 1, true), rgba(Type::u8, w, h),
                p, fill);
        }
}

// New masks while frames before are still on their way: each frame has the one that was set before
// it, plans that take over go on with it, and what is refused changes nothing.
void mask_sequence(Context& context, MatteRefine refine) {
  const std::string name = text("guided external%s masks one after the other",
                                refine == MatteRefine::colors ? " colors" : "");
  if (!context.wants(name)) return;
  Random random = context.random(name);
  const int w = 97, h = 61, count = 14;
  const Picture picture = rgba(Type::u8, w, h);
  GuidedParams params = external_params(refine, 4, 8);
  auto run = [&]() -> std::string {
    std::unique_ptr<Queue> reference;
    QueueOptions options;
    options.backend = Backend::reference;
    if (Status s = make_queue(options, &reference); !s.ok()) return s.message();
    std::unique_ptr<GuidedPlan> plan, want_plan;
    const auto make = [&](Queue& queue, std::unique_ptr<GuidedPlan>* out) {
      return make_again(queue, picture, params, out);
    };
    std::vector<Image> out;
    std::vector<Frame> want;
    for (int t = 0; t < count; t++) {
      if (t == 0 || t == 5 || t == 6) {
        params.epsilon *= 2;
        if (Status s = make(*reference, &want_plan); !s.ok()) return s.message();
        if (Status s = make(context.device().queue(), &plan); !s.ok()) return s.message();
      }
      // The mask stays at 5 and 9: by taking over, and by its number. It grows and shrinks.
      if (t != 5) {
        Beside beside;
        const int size = t == 9 ? 30 : 10 + 37 * (t % 4);
        for (int i = 0; i < t % 3 + (t != 3); i++)
          beside.add(random, size, size + i, {-3.0 * t, 0, w + 2.0 * i, h + 1.0 * t}, whole(w, h));
        const CoarseMask mask = beside.mask(t == 8 || t == 9 ? 7 : t == 12 ? 0 : 100 + t);
        if (Status s = plan->set_mask(mask); !s.ok()) return s.message();
        if (t != 9)
          if (Status s = want_plan->set_mask(mask); !s.ok()) return s.message();
        MaskPart bad = {};
        if (plan->set_mask({&bad, 1, 999}).ok()) return "a part without pixels is taken";
      }
      Frame src(picture.layout), got(picture.layout);
      want.emplace_back(picture.layout);
      src.fill(Pattern::texture, random);
      if (Status s = want_plan->run(src.image(), want.back().image()); !s.ok()) return s.message();
      const Image in = context.device().upload(src);
      out.push_back(context.device().upload(got));
      if (Status s = plan->run(in, out.back()); !s.ok()) return s.message();
    }
    if (Status s = context.device().queue().sync(); !s.ok()) return s.message();
    for (int t = 0; t < count; t++) {
      Frame got(picture.layout);
      context.device().download(out[t], &got);
      if (std::string d = difference(got, want[t], guided_contract(picture.layout, params));
          !d.empty())
        return text("frame %d: ", t) + d;
    }
    return {};
  };
  const std::string failure = run();
  context.device().release_all();
  context.result(name, failure);
}

void refused_masks(Context& context) {
  const Picture p = rgba(Type::u8, 40, 30);
  GuidedParams params = external_params(MatteRefine::guided, 4, 8);
  std::unique_ptr<GuidedPlan> plan;
  if (Status s = make_guided(context.device().queue(), p.layout, p.channels, p.layout, p.channels,
                             params, Placement::separate, &plan);
      !s.ok())
    return context.result("guided external plan", s.message());
  const std::vector<uint8_t> data(64 * 64);
  const MaskPart good = {data.data(), 64, 64, 64, whole(40, 30), whole(40, 30)};
  const auto expect = [&](const char* word, auto&& change) {
    MaskPart part = good;
    change(part);
    context.refused(text("guided external refuses %s", word), plan->set_mask({&part, 1, 0}), word);
  };
  for (const int v : {0, -1, 8193, 100000}) {
    expect("width", [&](MaskPart& m) { m.width = v; });
    expect("height", [&](MaskPart& m) { m.height = v; });
  }
  expect("stride", [](MaskPart& m) { m.stride = 63; });
  expect("stride", [](MaskPart& m) { m.data = nullptr; });
  for (const double v : {double(NAN), double(INFINITY), 0.0, -1.0, 1e-9})
    expect("left and right", [&](MaskPart& m) { m.image.right = v; });
  for (const double v : {double(NAN), -double(INFINITY), 30.0})
    expect("top and bottom", [&](MaskPart& m) { m.image.top = v; });
  expect("left and right", [](MaskPart& m) { m.counts.left = NAN; });
  const std::vector<MaskPart> many(CoarseMask::kMaxParts + 1, good);
  context.refused("guided external refuses 65 parts", plan->set_mask({many.data(), 65, 0}),
                  "parts");
  context.refused("guided external refuses -1 parts", plan->set_mask({many.data(), -1, 0}),
                  "parts");
  MaskPart large[3] = {good, good, good};
  for (MaskPart& m : large) {
    m.width = m.height = MaskPart::kSize.max;
    m.stride = m.width;
  }
  context.refused("guided external refuses many bytes", plan->set_mask({large, 3, 0}), "bytes");
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
  opaque_cases(context);
  chroma_of_composites(context);
  alignment_cases(context);
  temporal_cases(context);
  colors_cases(context);
  layers_cases(context);
  blur_beside_subject(context);
  external_cases(context);
  mask_sequence(context, MatteRefine::guided);
  mask_sequence(context, MatteRefine::colors);
  refused_masks(context);
}

}  // namespace vf::test
