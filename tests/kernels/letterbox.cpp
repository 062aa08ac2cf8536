#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstring>
#include <set>

#include "tests/kernels/harness.h"
#include "tests/letterbox.h"

namespace vf::test {
namespace {

Role role_of(char c) {
  switch (c) {
    case 'R':
      return Role::r;
    case 'G':
      return Role::g;
    case 'B':
      return Role::b;
    case 'A':
      return Role::a;
    case 'Y':
      return Role::y;
    case 'U':
      return Role::u;
    case 'V':
      return Role::v;
    default:
      return Role::none;
  }
}

struct Kind {
  const char* name;
  const char* planes;  // roles of each plane, with a space between planes
  Type type;
  int depth;  // bits of a component
  int shift;
  int sub_x, sub_y;  // for planes that have only U or V
};
constexpr Kind kKinds[] = {
    {"RGB", "RGB", Type::u8, 8, 0, 0, 0},         {"BGR", "BGR", Type::u8, 8, 0, 0, 0},
    {"RGBA", "RGBA", Type::u8, 8, 0, 0, 0},       {"BGRA", "BGRA", Type::u8, 8, 0, 0, 0},
    {"ARGB", "ARGB", Type::u8, 8, 0, 0, 0},       {"ABGR", "ABGR", Type::u8, 8, 0, 0, 0},
    {"RGBx", "RGBx", Type::u8, 8, 0, 0, 0},       {"xBGR", "xBGR", Type::u8, 8, 0, 0, 0},
    {"RGBP", "R G B", Type::u8, 8, 0, 0, 0},      {"GBRA", "G B R A", Type::u8, 8, 0, 0, 0},
    {"GRAY8", "Y", Type::u8, 8, 0, 0, 0},         {"GRAY16", "Y", Type::u16, 16, 0, 0, 0},
    {"NV12", "Y UV", Type::u8, 8, 0, 1, 1},       {"NV21", "Y VU", Type::u8, 8, 0, 1, 1},
    {"I420", "Y U V", Type::u8, 8, 0, 1, 1},      {"Y42B", "Y U V", Type::u8, 8, 0, 1, 0},
    {"Y41B", "Y U V", Type::u8, 8, 0, 2, 0},      {"Y444", "Y U V", Type::u8, 8, 0, 0, 0},
    {"A420", "Y U V A", Type::u8, 8, 0, 1, 1},    {"AYUV", "AYUV", Type::u8, 8, 0, 0, 0},
    {"I420_10", "Y U V", Type::u16, 10, 0, 1, 1}, {"I422_12", "Y U V", Type::u16, 12, 0, 1, 0},
    {"P010", "Y UV", Type::u16, 10, 6, 1, 1},     {"P016", "Y UV", Type::u16, 16, 0, 1, 1},
    {"Y444_16", "Y U V", Type::u16, 16, 0, 0, 0}, {"ARGB64", "ARGB", Type::u16, 16, 0, 0, 0},
    {"GBR_10", "G B R", Type::u16, 10, 0, 0, 0},
};

const Kind& kind(const char* name) {
  for (const Kind& k : kKinds)
    if (!std::strcmp(k.name, name)) return k;
  std::abort();
}

Picture picture(const Kind& k, int w, int h) {
  Picture p;
  p.layout.type = k.type;
  p.layout.shift = k.shift;
  p.layout.max_value = k.depth == 8 * size_of(k.type) ? 0 : (1 << k.depth) - 1;
  bool yuv = false;
  PlaneLayout* l = &p.layout.plane[0];
  int channel = 0;
  for (const char* c = k.planes;; c++) {
    if (*c == ' ' || !*c) {
      const Role first = p.format.role[p.layout.planes][0];
      const bool chroma = first == Role::u || first == Role::v;
      l->channels = channel;
      l->sub_x = chroma ? k.sub_x : 0;
      l->sub_y = chroma ? k.sub_y : 0;
      l->width = (w + (1 << l->sub_x) - 1) >> l->sub_x;
      l->height = (h + (1 << l->sub_y) - 1) >> l->sub_y;
      p.layout.planes++;
      channel = 0;
      if (!*c) break;
      l = &p.layout.plane[p.layout.planes];
      continue;
    }
    yuv |= *c == 'U';
    p.format.role[p.layout.planes][channel++] = role_of(*c);
  }
  p.format.full_range = !yuv;
  return p;
}

// Returns the layout of YUY2, except that the planes do not share memory.
Picture yuy2(int w, int h) {
  Picture p = picture(kind("Y42B"), w, h);
  p.layout.plane[0].step = 2;
  p.layout.plane[1].step = p.layout.plane[2].step = 4;
  return p;
}

enum class Element { f32, f16, u8 };
const char* name_of(Element e) {
  return e == Element::f32 ? "f32" : e == Element::f16 ? "f16" : "u8";
}

Picture tensor(Element e, bool planar, bool bgr, int w, int h) {
  Kind k = kind(planar ? "RGBP" : "RGB");
  k.planes = planar ? (bgr ? "B G R" : "R G B") : (bgr ? "BGR" : "RGB");
  Picture p = picture(k, w, h);
  p.layout.type = e == Element::f32 ? Type::f32 : e == Element::f16 ? Type::u16 : Type::u8;
  p.format.half_float = e == Element::f16;
  return p;
}

// Returns the tolerance that the header promises for a case.
Tolerance contract(const Picture& src, const Picture& dst, const LetterboxParams& params,
                   Pattern pattern) {
  Tolerance t = letterbox_contract(src, dst, params);
  // Frames without noise give exact halves.
  if (pattern != Pattern::noise && pattern != Pattern::mixed) t.equal = 0;
  return t;
}

void one(Context& context, const std::string& name, const Picture& src, const Picture& dst,
         const LetterboxGeometry& g, const LetterboxParams& params, Pattern pattern,
         Geometry geometry) {
  context.check("letterbox " + name, src.layout, dst.layout, pattern, geometry,
                contract(src, dst, params, pattern), false,
                [&](Queue& queue, Placement, std::unique_ptr<Plan>* plan) {
                  return make_letterbox(queue, src.layout, src.format, dst.layout, dst.format, g,
                                        params, plan);
                });
}

using Make = std::function<Picture(int w, int h)>;
Make of(const char* name) {
  return [name](int w, int h) { return picture(kind(name), w, h); };
}
Make tensor_of(Element e, bool planar = true, bool bgr = false) {
  return [=](int w, int h) { return tensor(e, planar, bgr, w, h); };
}

void sized(Context& context, const std::string& name, const Make& from, int w, int h,
           const Make& to, int target_w, int target_h, const LetterboxParams& params,
           Pattern pattern = Pattern::noise, Geometry geometry = {}) {
  LetterboxGeometry g;
  const std::string full = name + text(" %dx%d to %dx%d %s %s", w, h, target_w, target_h,
                                       name_of(params.rule), name_of(params.interpolation));
  if (Status s = letterbox_geometry(w, h, target_w, target_h, params, &g); !s.ok()) {
    context.result("letterbox " + full, s.message());
    return;
  }
  one(context, full, from(w, h), to(g.width, g.height), g, params, pattern, geometry);
}

constexpr LetterboxRule kRules[] = {LetterboxRule::ultralytics, LetterboxRule::affine};
constexpr Interpolation kInterpolations[] = {Interpolation::bilinear, Interpolation::nearest,
                                             Interpolation::area};

void expect(Context& context, const std::string& name, bool ok, const std::string& detail) {
  context.result("letterbox " + name, ok ? "" : detail);
}

// Compares the picture's place with numbers from LetterBox's Python code.
void geometry_cases(Context& context) {
  const struct {
    int w, h, W, H;
    bool center, up;
    int stride;
    int width, height, left, top, cw, ch;
  } table[] = {
      {1920, 1080, 640, 640, true, true, 0, 640, 640, 0, 140, 640, 360},
      {1920, 1080, 640, 640, true, true, 32, 640, 384, 0, 12, 640, 360},
      {1920, 1080, 640, 640, false, true, 0, 640, 640, 0, 0, 640, 360},
      {1080, 1920, 640, 640, true, true, 0, 640, 640, 140, 0, 360, 640},
      {641, 359, 640, 640, true, true, 0, 640, 640, 0, 141, 640, 358},
      {810, 1080, 640, 640, true, true, 32, 480, 640, 0, 0, 480, 640},
      {500, 375, 640, 640, true, true, 32, 640, 480, 0, 0, 640, 480},
      {5, 300, 64, 64, true, true, 0, 64, 64, 31, 0, 1, 64},
      {100, 50, 640, 640, true, false, 0, 640, 640, 270, 295, 100, 50},
      {1, 1, 640, 640, true, true, 0, 640, 640, 0, 0, 640, 640},
      // 2.5 rounds to 2 and 3.5 to 4. Odd padding puts its last pixel at the right or bottom.
      {4, 10, 10, 6, true, true, 0, 10, 6, 4, 0, 2, 6},
      {16, 5, 8, 8, true, true, 0, 8, 8, 0, 3, 8, 2},
      {16, 7, 8, 8, true, true, 0, 8, 8, 0, 2, 8, 4},
      {3, 3000, 64, 64, true, true, 0, 64, 64, 31, 0, 1, 64},
  };
  for (const auto& c : table) {
    LetterboxParams p;
    p.align = c.center ? LetterboxAlign::center : LetterboxAlign::top_left;
    p.scale_up = c.up;
    p.stride = c.stride;
    LetterboxGeometry g;
    const std::string name = text("geometry %dx%d in %dx%d stride %d %s", c.w, c.h, c.W, c.H,
                                  c.stride, c.center ? "center" : "top-left");
    const Status s = letterbox_geometry(c.w, c.h, c.W, c.H, p, &g);
    expect(context, name,
           s.ok() && g.width == c.width && g.height == c.height && g.left == c.left &&
               g.top == c.top && g.content_width == c.cw && g.content_height == c.ch,
           text("%s got %dx%d with %gx%g at %g, %g", s.message(), g.width, g.height,
                g.content_width, g.content_height, g.left, g.top));
  }
  for (const LetterboxRule rule : kRules)
    for (const auto& [w, h] : {std::pair{1920, 1080}, {641, 359}, {333, 1001}, {20, 30}}) {
      LetterboxParams p;
      p.rule = rule;
      LetterboxGeometry g;
      bool ok = letterbox_geometry(w, h, 640, 512, p, &g).ok();
      double worst = 0, worst_point = 0;
      for (const auto& [x, y] :
           {std::pair{0.0, 0.0}, {0.5 * w, 0.5 * h}, {double(w), double(h)}, {-3.0, 7.25}}) {
        double nx, ny, bx, by;
        g.from_source(x, y, &nx, &ny);
        g.to_source(nx, ny, &bx, &by);
        worst = std::max({worst, std::abs(bx - x), std::abs(by - y)});
        // The usual formula with r and the border is within half a network pixel.
        worst_point = std::max({worst_point, std::abs(nx - (x * g.scale + g.left)),
                                std::abs(ny - (y * g.scale + g.top))});
      }
      // The picture's middle is the destination's middle, up to an odd pixel.
      double mx, my;
      g.from_source(w / 2.0, h / 2.0, &mx, &my);
      ok = ok && worst < 1e-6 && worst_point <= 0.51 && std::abs(mx - 320) <= 0.5 &&
           std::abs(my - 256) <= 0.5;
      expect(context, text("boxes %s %dx%d", name_of(rule), w, h), ok,
             text("round trip off by %g, r by %g, middle at %g, %g", worst, worst_point, mx, my));
    }
  // Pixels are twice as wide as high: a 4:3 picture is stored as 2:3.
  LetterboxParams p;
  p.pixel_aspect = 2;
  for (const LetterboxRule rule : kRules) {
    p.rule = rule;
    LetterboxGeometry g;
    const bool ok = letterbox_geometry(200, 300, 640, 640, p, &g).ok();
    expect(context, text("pixel aspect %s", name_of(rule)),
           ok && std::abs(g.content_width - 640) < 1e-3 &&
               std::abs(g.content_height - 480) < 1e-3 && std::abs(g.top - 80) < 1e-3,
           text("%gx%g at %g", g.content_width, g.content_height, g.top));
  }
}

void error_case(Context& context, const char* name, const Status& s, const char* word) {
  context.refused(text("letterbox refuses %s", name), s, word);
}

void error_cases(Context& context) {
  const auto geometry = [](int w, int h, int W, int H, LetterboxParams p = {}) {
    LetterboxGeometry g;
    return letterbox_geometry(w, h, W, H, p, &g);
  };
  error_case(context, "no source width", geometry(0, 3, 4, 4), "source's width is 0");
  error_case(context, "no target height", geometry(3, 3, 4, -1), "target's height is -1");
  LetterboxParams bad;
  bad.stride = -1;
  error_case(context, "a stride of -1", geometry(3, 3, 4, 4, bad), "stride is -1");
  bad = {};
  bad.pixel_aspect = 0;
  error_case(context, "a pixel aspect of 0", geometry(3, 3, 4, 4, bad), "pixel-aspect is 0");

  const auto make = [&](const std::function<void(Picture*, Picture*, LetterboxGeometry*,
                                                 LetterboxParams*)>& change) {
    Picture src = picture(kind("NV12"), 32, 16), dst = tensor(Element::f32, true, false, 20, 20);
    LetterboxParams p;
    LetterboxGeometry g;
    if (Status s = letterbox_geometry(32, 16, 20, 20, p, &g); !s.ok()) return s;
    change(&src, &dst, &g, &p);
    std::unique_ptr<Plan> plan;
    return make_letterbox(context.device().queue(), src.layout, src.format, dst.layout, dst.format,
                          g, p, &plan);
  };
  using P = Picture*;
  using G = LetterboxGeometry*;
  using L = LetterboxParams*;
  const Status good = make([](P, P, G, L) {});
  expect(context, "accepts what the other cases change", good.ok(), good.message());
  error_case(context, "a std of 0", make([](P, P, G, L p) { p->std[1] = 0; }), "std[1] is 0");
  error_case(context, "a scale of 0", make([](P, P, G, L p) { p->scale = 0; }), "scale is 0");
  error_case(context, "a mean that is no number", make([](P, P, G, L p) { p->mean[2] = NAN; }),
             "mean[2]");
  error_case(context, "another size", make([](P, P d, G, L) { d->layout.plane[1].width = 21; }),
             "plane 1 of the destination is 21x20");
  error_case(context, "another rule", make([](P, P, G, L p) { p->rule = LetterboxRule::affine; }),
             "rule is affine");
  error_case(context, "a role twice", make([](P s, P, G, L) { s->format.role[1][1] = Role::u; }),
             "role u twice");
  error_case(context, "half a colour",
             make([](P s, P, G, L) { s->format.role[1][1] = Role::none; }), "no complete colour");
  error_case(context, "kr of 1", make([](P s, P, G, L) { s->format.kr = 1; }), "kr 1");
  error_case(context, "a float source", make([](P s, P, G, L) { s->layout.type = Type::f32; }),
             "source has f32");
  error_case(context, "signed output", make([](P, P d, G, L) { d->layout.type = Type::s16; }),
             "destination has s16");
  error_case(context, "more codes than a byte has",
             make([](P s, P, G, L) { s->layout.max_value = 256; }), "must be 0 to 255");
  error_case(context, "more codes than the bits above the shift have", make([](P s, P, G, L) {
               *s = picture(kind("P010"), 32, 16);
               s->layout.max_value = 1024;
             }),
             "must be 0 to 1023");
  error_case(context, "half floats in bytes",
             make([](P, P d, G, L) { d->format.half_float = true; }), "float16 in f32");
  error_case(context, "a picture beside the frame", make([](P, P, G g, L) { g->left = 5; }),
             "leaves the destination");
}

// Letterboxes `in` to its own size, so that only colours change.
Status convert(Device& device, const Picture& src, const Picture& dst,
               const LetterboxParams& params, const Frame& in, Frame* out) {
  const int w = src.layout.plane[0].width, h = src.layout.plane[0].height;
  LetterboxGeometry g;
  VF_TRY(letterbox_geometry(w, h, w, h, params, &g));
  std::unique_ptr<Plan> plan;
  VF_TRY(make_letterbox(device.queue(), src.layout, src.format, dst.layout, dst.format, g, params,
                        &plan));
  return run_plan(device, *plan, in, out);
}

// Compares every code value of a tensor of floats, or of subnormal halves, with the formula in
// double precision.
void normalisation_case(Context& context, const char* name, const LetterboxParams& params,
                        double tolerance, Element element = Element::f32) {
  const std::string full = std::string("letterbox normalisation ") + name;
  if (!context.wants(full)) return;
  Picture src = picture(kind("RGB"), 16, 16), dst = tensor(element, true, false, 16, 16);
  Frame in(src.layout), out(dst.layout);
  out.poison();
  for (int y = 0; y < 16; y++)
    for (int x = 0; x < 16; x++)
      for (int c = 0; c < 3; c++) in.set(0, x, y, c, 16 * y + x);
  std::string failure;
  if (Status s = convert(context.device(), src, dst, params, in, &out); !s.ok())
    failure = s.message();
  for (int v = 0; v < 256 && failure.empty(); v++)
    for (int c = 0; c < 3; c++) {
      // The bits of a subnormal half count 2^-24.
      const double got =
          std::ldexp(out.get(c, v % 16, v / 16, 0), element == Element::f16 ? -24 : 0);
      const double want = (v * params.scale - params.mean[c]) / params.std[c];
      const bool ok = tolerance == 0
                          ? float(got) == float(v) / 255.0f
                          : std::abs(got - want) <= tolerance * std::max(1.0, std::abs(want));
      if (!ok) failure = text("code %d of channel %d is %.9g, not %.9g", v, c, got, want);
    }
  context.device().release_all();
  context.result(full, failure);
}

// Checks colours whose codes every table of BT.601, 709 and 2020 lists.
void color_cases(Context& context) {
  struct Matrix {
    const char* name;
    double kr, kb;
  };
  for (const Matrix& m :
       {Matrix{"BT.601", 0.299, 0.114}, {"BT.709", 0.2126, 0.0722}, {"BT.2020", 0.2627, 0.0593}})
    for (const bool full_range : {false, true})
      for (const char* source : {"I420", "NV12", "P010", "AYUV"}) {
        const std::string name =
            text("colours %s %s %s", source, m.name, full_range ? "full" : "limited");
        if (!context.wants("letterbox " + name)) continue;
        std::string failure;
        for (int rgb = 0; rgb < 8 && failure.empty(); rgb++) {
          const double r = rgb & 1, g = rgb >> 1 & 1, b = rgb >> 2 & 1;
          const double luma = m.kr * r + (1 - m.kr - m.kb) * g + m.kb * b;
          const double pb = (b - luma) / (2 * (1 - m.kb)), pr = (r - luma) / (2 * (1 - m.kr));
          Picture src = picture(kind(source), 8, 6);
          src.format.kr = m.kr;
          src.format.kb = m.kb;
          src.format.full_range = full_range;
          const int max = src.layout.max_value ? src.layout.max_value : 255;
          const double unit = (max + 1) / 256.0;
          const double code[3] = {full_range ? luma * max : 16 * unit + 219 * unit * luma,
                                  128 * unit + (full_range ? max : 224 * unit) * pb,
                                  128 * unit + (full_range ? max : 224 * unit) * pr};
          Picture dst = picture(kind("RGB"), 8, 6);
          Frame in(src.layout), out(dst.layout);
          for (int p = 0; p < src.layout.planes; p++)
            for (int y = 0; y < src.layout.plane[p].height; y++)
              for (int x = 0; x < src.layout.plane[p].width; x++)
                for (int c = 0; c < src.layout.plane[p].channels; c++) {
                  const Role role = src.format.role[p][c];
                  const int k = role == Role::y ? 0 : role == Role::u ? 1 : 2;
                  in.set(p, x, y, c,
                         role == Role::a ? max : std::min(std::floor(code[k] + 0.5), double(max)));
                }
          LetterboxParams params;
          if (Status s = convert(context.device(), src, dst, params, in, &out); !s.ok())
            failure = s.message();
          const double want[3] = {255 * r, 255 * g, 255 * b};
          for (int c = 0; c < 3 && failure.empty(); c++)
            if (std::abs(out.get(0, 3, 2, c) - want[c]) > 2)
              failure = text("channel %d of colour %d is %g, not %g", c, rgb, out.get(0, 3, 2, c),
                             want[c]);
          context.device().release_all();
        }
        context.result("letterbox " + name, failure);
      }
}

// Makes `count` pictures at once and one by one, and compares them bit for bit. The rows of the
// pictures are `pitches` bytes apart, in turn, and what one launch makes ends where they change.
std::string batch_failure(Context& context, const Picture& src, const Picture& dst,
                          const LetterboxGeometry& g, const LetterboxParams& params, int count,
                          const std::vector<int>& pitches, Random random) {
  Device& device = context.device();
  std::unique_ptr<Plan> plan;
  if (Status s = make_letterbox(device.queue(), src.layout, src.format, dst.layout, dst.format, g,
                                params, &plan);
      !s.ok())
    return s.message();
  std::vector<Frame> want, got;
  std::vector<Image> from, to;
  for (int i = 0; i < count; i++) {
    Geometry geometry;
    geometry.pitch = pitches[size_t(i) % pitches.size()];
    Frame in(src.layout, geometry);
    in.fill(Pattern::noise, random);
    want.emplace_back(dst.layout);
    got.emplace_back(dst.layout);
    want.back().poison();
    got.back().poison();
    if (Status s = run_plan(device, *plan, in, &want.back()); !s.ok()) return s.message();
    from.push_back(device.upload(in));
    to.push_back(device.upload(got.back()));
  }
  if (Status s = plan->run(from.data(), to.data(), count); !s.ok()) return s.message();
  if (Status s = device.queue().sync(); !s.ok()) return s.message();
  for (int i = 0; i < count; i++) {
    device.download(to[size_t(i)], &got[size_t(i)]);
    std::string why = got[size_t(i)].guard_damage();
    if (why.empty()) why = difference(got[size_t(i)], want[size_t(i)], {});
    if (!why.empty()) return text("picture %d of %d: %s", i, count, why.c_str());
  }
  return {};
}

// Plans that make many pictures at once make the same as for one at a time.
void batch_cases(Context& context) {
  const Make tensors[] = {tensor_of(Element::f32), tensor_of(Element::f32, false),
                          tensor_of(Element::f16), tensor_of(Element::u8, true, true)};
  const char* const tensor_names[] = {"f32 NCHW", "f32 NHWC", "f16 NCHW", "u8 BGR"};
  for (const char* source : {"NV12", "I420", "RGB", "RGBA", "P010", "GRAY8"})
    for (const LetterboxRule rule : kRules)
      for (const Interpolation interpolation : kInterpolations)
        for (int t = 0; t < 4; t++) {
          const std::string name = text("batch of %s to %s %s %s", source, tensor_names[t],
                                        name_of(rule), name_of(interpolation));
          if (!context.wants("letterbox " + name)) continue;
          LetterboxParams params;
          params.rule = rule;
          params.interpolation = interpolation;
          params.std[1] = 0.25;
          std::string failure;
          // 70 pictures are more than two launches make, and are low because they are many. No
          // picture at all is no error.
          struct Row {
            int count, source_height, height;
            std::vector<int> pitches;
          };
          const Row rows[] = {
              {0, 30, 32, {64}}, {1, 30, 32, {64}}, {70, 4, 5, {64}}, {5, 30, 32, {64, 64, 256}}};
          for (const Row& r : rows) {
            LetterboxGeometry g;
            Status s = letterbox_geometry(50, r.source_height, 41, r.height, params, &g);
            if (failure.empty())
              failure = s.ok() ? batch_failure(context, picture(kind(source), 50, r.source_height),
                                               tensors[t](41, r.height), g, params, r.count,
                                               r.pitches, context.random(name))
                               : s.message();
          }
          context.device().release_all();
          context.result("letterbox " + name, failure);
        }
}

// Returns a layout as large as the part of the source that bilinear sampling reads. Rows are
// skipped if a picture shrinks by more than two.
Layout read_part(const Layout& source, const LetterboxGeometry& g) {
  Layout l = source;
  for (int p = 0; p < l.planes; p++) {
    std::set<int> rows;
    PlaneLayout& plane = l.plane[p];
    for (int y = 0; y < g.height; y++) {
      double x_unused, at;
      g.to_source(0, y + 0.5, &x_unused, &at);
      if (at < 0 || at > g.source_height) continue;
      const int low = int(std::floor(at / (1 << plane.sub_y) - 0.5));
      for (const int row : {low, low + 1})
        if (row >= 0 && row < plane.height) rows.insert(row);
    }
    plane.height = std::max(1, int(rows.size()));
  }
  return l;
}

// Adds a timed case: a 16:9 picture is letterboxed to `to`.
void timed_case(Context& context, const char* source, int source_height, const Picture& to,
                const std::string& parameters, const LetterboxParams& params,
                const std::function<void(TimedCase&)>& change) {
  const Picture from = picture(kind(source), source_height * 16 / 9, source_height);
  TimedCase row;
  row.frame = text("%dp %s", source_height, !std::strcmp(source, "GRAY8") ? "gray" : source);
  row.parameters = parameters;
  row.src = from.layout;
  row.dst = to.layout;
  row.tolerance = contract(from, to, params, Pattern::mixed);
  row.make = [params, in = from.format, out = to.format](Queue& queue, const Layout& src,
                                                         const Layout& dst, Placement,
                                                         std::unique_ptr<Plan>* plan) -> Status {
    LetterboxGeometry g;
    VF_TRY(letterbox_geometry(src.plane[0].width, src.plane[0].height, dst.plane[0].width,
                              dst.plane[0].height, params, &g));
    return make_letterbox(queue, src, in, dst, out, g, params, plan);
  };
  LetterboxGeometry g;
  const PlaneLayout &s = from.layout.plane[0], &d = to.layout.plane[0];
  if (params.interpolation == Interpolation::bilinear &&
      letterbox_geometry(s.width, s.height, d.width, d.height, params, &g).ok())
    row.read = read_part(row.src, g);
  row.params = params;
  change(row);
  context.timed(row);
}

void timed_cases(Context& context) {
  for (const LetterboxRule rule : kRules) {
    LetterboxParams params;
    params.rule = rule;
    const bool affine = rule == LetterboxRule::affine;
    const auto timed = [&](const char* source, int height, int size, bool to_tensor, bool quick) {
      timed_case(context, source, height,
                 to_tensor ? tensor(Element::f32, true, false, size, size)
                           : picture(kind("RGBA"), size, size),
                 text("%d %s %s", size, to_tensor ? "f32" : "RGBA", affine ? "affine" : "ultra"),
                 params, [&](TimedCase& row) {
                   row.quick = quick;
                   row.cpu = !affine && height == 1080 && to_tensor;
                   // Only the exact rule is timed in pipelines.
                   if (!quick || !affine || !std::strcmp(source, "BGR")) return;
                   row.element = "cudaletterbox rule=affine";
                   row.out_caps =
                       to_tensor ? text(
                                       "other/tensors,format=static,num_tensors=1,types=float32,"
                                       "dimensions=%d:%d:3:1",
                                       size, size)
                                 : text("video/x-raw,format=RGBA,width=%d,height=%d", size, size);
                 });
    };
    timed("BGR", 1080, 640, true, true);
    timed("BGR", 2160, 640, true, false);
    timed("BGR", 2160, 1280, true, false);
    timed("RGBA", 1080, 640, false, true);
    for (const char* source : {"NV12", "P010", "I420"}) {
      timed(source, 1080, 640, true, !std::strcmp(source, "NV12"));
      timed(source, 2160, 640, true, false);
      timed(source, 2160, 1280, true, false);
    }
  }
  // The rows of a batch, by one launch.
  timed_case(context, "NV12", 1080, tensor(Element::f32, true, false, 640, 640),
             "640 f32 ultra x32", {}, [](TimedCase& row) {
               row.count = 32;
               row.quick = true;
             });
  // These only resize.
  for (const char* source : {"GRAY8", "BGR", "BGRA"})
    for (const Interpolation interpolation : {Interpolation::bilinear, Interpolation::area}) {
      LetterboxParams params;
      params.interpolation = interpolation;
      timed_case(context, source, 1080, picture(kind(source), 640, 360),
                 text("640x360 %s", name_of(interpolation)), params,
                 [](TimedCase& row) { row.cpu = true; });
    }
}

LetterboxParams imagenet() {
  LetterboxParams p;
  const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};
  std::copy_n(mean, 3, p.mean);
  std::copy_n(std, 3, p.std);
  return p;
}

void normalisation_cases(Context& context) {
  normalisation_case(context, "default", {}, 0);
  normalisation_case(context, "imagenet", imagenet(), 1e-6);
  LetterboxParams signed_unit;
  signed_unit.scale = 1;
  for (int i = 0; i < 3; i++) signed_unit.mean[i] = 127.5, signed_unit.std[i] = -128;
  normalisation_case(context, "127.5 over -128", signed_unit, 1e-6);
  LetterboxParams tiny;
  tiny.scale = std::ldexp(1, -24);
  normalisation_case(context, "subnormal halves", tiny, 1e-12, Element::f16);
}

// Sizes that are smaller and larger than the target, with the fast kernels.
void size_cases(Context& context) {
  const std::pair<int, int> sizes[] = {{1, 1},   {2, 1},   {5, 300},   {641, 359}, {90, 160},
                                       {64, 64}, {33, 17}, {1023, 61}, {640, 360}, {7, 5}};
  const std::pair<int, int> targets[] = {{64, 64}, {97, 50}, {1, 1}, {300, 21}};
  const struct {
    const char* name;
    Make from, to;
  } pairs[] = {{"BGR to f32", of("BGR"), tensor_of(Element::f32)},
               {"RGBA to RGBA", of("RGBA"), of("RGBA")},
               {"NV12 to f32", of("NV12"), tensor_of(Element::f32)},
               {"I420 to I420", of("I420"), of("I420")}};
  for (const auto& pair : pairs)
    for (const auto& [w, h] : sizes)
      for (const auto& [W, H] : targets)
        for (const LetterboxRule rule : kRules)
          for (const Interpolation interpolation : kInterpolations) {
            if (interpolation != Interpolation::bilinear && (W != 64 || w > 641)) continue;
            LetterboxParams params;
            params.rule = rule;
            params.interpolation = interpolation;
            sized(context, pair.name, pair.from, w, h, pair.to, W, H, params);
          }
}

// Tests every source format and every destination format.
void format_cases(Context& context) {
  for (const LetterboxRule rule : kRules)
    for (const Interpolation interpolation : kInterpolations) {
      LetterboxParams params;
      params.rule = rule;
      params.interpolation = interpolation;
      params.fill = 0x80c81e5a;
      for (const Kind& k : kKinds) {
        sized(context, std::string(k.name) + " to f32", of(k.name), 113, 61,
              tensor_of(Element::f32), 80, 80, params);
        sized(context, std::string(k.name) + " to RGBA", of(k.name), 31, 47, of("RGBA"), 70, 80,
              params);
        sized(context, std::string("RGBA to ") + k.name, of("RGBA"), 113, 61, of(k.name), 70, 75,
              params);
        sized(context, std::string("NV12 to ") + k.name, of("NV12"), 55, 97, of(k.name), 90, 71,
              params);
        sized(context, std::string("same ") + k.name, of(k.name), 61, 113, of(k.name), 80, 61,
              params);
      }
      sized(context, "YUY2 to f32", yuy2, 113, 61, tensor_of(Element::f32), 80, 80, params);
      sized(context, "YUY2 to YUY2", yuy2, 113, 61, yuy2, 80, 80, params);
      sized(context, "BGRA to YUY2", of("BGRA"), 113, 61, yuy2, 81, 80, params);
    }
}

void tensor_cases(Context& context) {
  for (const LetterboxRule rule : kRules)
    for (const char* source : {"BGR", "RGBA", "NV12", "P010", "GRAY8", "I420"})
      for (const Element e : {Element::f32, Element::f16, Element::u8})
        for (const bool planar : {true, false})
          for (const bool bgr : {false, true})
            for (const bool normalise : {false, true}) {
              LetterboxParams params = normalise ? imagenet() : LetterboxParams();
              params.rule = rule;
              if (e == Element::f16 && rule == LetterboxRule::ultralytics && normalise) continue;
              sized(context,
                    text("%s to %s %s %s%s", source, name_of(e), planar ? "NCHW" : "NHWC",
                         bgr ? "bgr" : "rgb", normalise ? " normalised" : ""),
                    of(source), 121, 53, tensor_of(e, planar, bgr), 64, 48, params);
            }
}

void parameter_cases(Context& context) {
  for (const LetterboxRule rule : kRules)
    for (const char* source : {"BGR", "NV12"})
      for (const LetterboxAlign align : {LetterboxAlign::center, LetterboxAlign::top_left})
        for (const bool up : {true, false})
          for (const int stride : {0, 32})
            for (const double aspect : {1.0, 1.5}) {
              LetterboxParams params;
              params.rule = rule;
              params.align = align;
              params.scale_up = up;
              params.stride = stride;
              params.pixel_aspect = aspect;
              const std::string name = text("%s %s up %d stride %d aspect %g", source,
                                            name_of(align), up, stride, aspect);
              sized(context, name, of(source), 150, 91, tensor_of(Element::f32), 96, 96, params);
              sized(context, name, of(source), 35, 51, tensor_of(Element::f32), 96, 96, params);
            }
}

// Rows that are not aligned, planes with any start, and every pattern.
void alignment_cases(Context& context) {
  for (const LetterboxRule rule : kRules)
    for (const Interpolation interpolation : kInterpolations)
      for (const char* source : {"BGR", "RGBA", "NV12", "P010", "I420", "ARGB64"})
        for (const Geometry geometry :
             {Geometry{1, 0}, Geometry{3, 1}, Geometry{5, 4}, Geometry{12, 8}}) {
          LetterboxParams params;
          params.rule = rule;
          params.interpolation = interpolation;
          const std::string at =
              text(" padding %d offset %d", geometry.stride_padding, geometry.offset);
          for (const auto& [w, h] : {std::pair{111, 57}, {41, 21}})
            sized(context, source + std::string(" to f32") + at, of(source), w, h,
                  tensor_of(Element::f32), 64, 64, params, Pattern::noise, geometry);
          if (interpolation == Interpolation::bilinear)
            sized(context, source + std::string(" to BGRA") + at, of(source), 111, 57, of("BGRA"),
                  63, 64, params, Pattern::noise, geometry);
        }
  for (const LetterboxRule rule : kRules)
    for (const Pattern pattern : kAllPatterns)
      for (const char* source : {"BGR", "RGBA", "NV12", "P010"}) {
        LetterboxParams params;
        params.rule = rule;
        sized(context, text("%s to RGB %s", source, name_of(pattern)), of(source), 200, 113,
              of("RGB"), 96, 96, params, pattern);
      }
}

}  // namespace

void letterbox_cases(Context& context) {
  geometry_cases(context);
  error_cases(context);
  timed_cases(context);
  normalisation_cases(context);
  color_cases(context);
  batch_cases(context);
  size_cases(context);
  format_cases(context);
  tensor_cases(context);
  parameter_cases(context);
  alignment_cases(context);
}

}  // namespace vf::test
