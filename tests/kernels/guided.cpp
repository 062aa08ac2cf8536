#include "filters/guided_colors.h"
#include "tests/kernels/guided_cases.h"

namespace vf::test {
namespace {

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
  // The matte alone has no colours that a conversion would need.
  Picture matte = gray;
  matte.channels.alpha = matte.channels.color[0];
  matte.channels.colors = 0;
  turned.convert[2][3] = 0;
  std::unique_ptr<GuidedPlan> plan;
  const Status made = make_guided(context.device().queue(), gray.layout, gray.channels,
                                  matte.layout, matte.channels, turned, Placement::separate, &plan);
  context.result("guided converts no colours", made.message());
}

void automatic_refine(Context& context) {
  const struct {
    MatteRefine refine;
    MatteMask mask;
    MatteRefine want;
  } rows[] = {{MatteRefine::automatic, MatteMask::chroma_key, MatteRefine::guided},
              {MatteRefine::automatic, MatteMask::alpha, MatteRefine::colors},
              {MatteRefine::automatic, MatteMask::external, MatteRefine::colors},
              {MatteRefine::guided, MatteMask::alpha, MatteRefine::guided},
              {MatteRefine::colors, MatteMask::chroma_key, MatteRefine::colors}};
  for (const auto& row : rows)
    context.result(text("guided refine %d of mask %d", int(row.refine), int(row.mask)),
                   refine_of(row.refine, row.mask) == row.want ? "" : "another refine");
}

// Checks the mask's error against values computed by hand. `near` and `far` are sums of 100 votes in
// ring 0 and in ring 4, and `steps` is that of the background's 100 votes in ring 4.
void mask_errors(Context& context) {
  const struct {
    const char* what;
    int share, near, far, steps, want, busy;
  } rows[] = {{"the least", 0, 0, 0, 0, 1536, 0},
              {"votes against a side near its edge", 0, 12800, 0, 3000, 2048, 24},
              {"votes against it everywhere", 0, 12800, 6400, 2400, 1620, 0},
              {"a mean of frames", 29491, 0, 0, 9000, 4301, 64},
              {"only votes against it", 0, 25600, 25600, 0, 1536, 0}};
  for (const auto& row : rows) {
    GuidedColors colors;
    colors.edge = 18;
    colors.share = row.share;
    MaskErrors errors;
    errors.steps = uint64_t(row.steps);
    for (int side = 0; side < 2; side++) {
      errors.count[side][0] = errors.count[side][4] = 100;
      errors.against[side][0] = uint64_t(row.near);
      errors.against[side][4] = uint64_t(row.far);
    }
    const MaskError got = mask_error_of(colors, errors);
    const bool right = got.side[0] == row.want && got.side[1] == row.want && got.busy == row.busy;
    context.result(text("guided mask error: %s", row.what),
                   right ? "" : text("%d, %d, busy %d", got.side[0], got.side[1], got.busy));
  }
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
  // These sizes leave parts of samples and cells, with each way to subsample.
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
  // These rows vary orders, planes, masks and outputs.
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
  // These rows have each layer alone, and vary orders, planes, masks and outputs.
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

// A mask that leaves `band` of the samples to the colours at mask-error 18, in frames of RGBA.
enum class Band { none, some, all };
void shape_mask(Band band, Frame* frame) {
  const PlaneLayout& plane = frame->layout().plane[0];
  for (int y = 0; y < plane.height; y++)
    for (int x = 0; x < plane.width; x++) {
      // The picture has stripes. 72 pixels at each of their edges are in the band.
      const bool subject = band == Band::all    ? x / 64 % 2
                           : band == Band::some ? (x + 240) / 480 % 2
                                                : false;
      frame->set(0, x, y, 3, subject ? 255 : 0);
    }
}

// These cases are timed, too.
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
    const bool classes = std::strstr(note, "classes");
    row.make = [params, classes, in = from.channels, out = to.channels](
                   Queue& queue, const Layout& src, const Layout& dst, Placement placement,
                   std::unique_ptr<Plan>* plan) {
      std::unique_ptr<GuidedPlan> made;
      VF_TRY(make_guided(queue, src, in, dst, out, params, placement, &made));
      if (params.mask == MatteMask::external) {
        // Networks make masks of this size.
        Random random(1);
        DiscMask disc;
        const MaskRectangle frame = whole(dst.plane[0].width, dst.plane[0].height);
        disc.add(random, 256, 256, frame, frame);
        if (classes) disc.add_errors(random);
        VF_TRY(made->set_mask(disc.mask()));
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

  // The other rows are at the element's defaults, and without subsampling.
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
              row.shape = [band](Frame* frame, uint64_t) { shape_mask(band, frame); };
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
              row.shape = [](Frame* frame, uint64_t) { shape_mask(Band::some, frame); };
            });
    }
  GuidedParams steady = params_of(0, 4);
  steady.refine = MatteRefine::colors;
  steady.temporal = 0.95;
  timed("1080p RGBA", picture, picture, steady, " colors, temporal", [](TimedCase& row) {
    row.cpu = true;
    row.shape = [](Frame* frame, uint64_t) { shape_mask(Band::some, frame); };
  });
  for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors}) {
    const bool colors = refine == MatteRefine::colors;
    GuidedParams p = external_params(refine, 4, colors ? 0 : 32);
    const char* const note = colors ? " colors beside" : " beside";
    timed("1080p RGBA", picture, picture, p, note, [&](TimedCase& row) { row.cpu = colors; });
    if (colors) same("1080p RGBA", picture, p, " colors beside, classes", false);
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
    p.backdrop = MatteBackground::blur;
    same("1080p NV12", nv12, p, " colors beside, blur", false);
    p.backdrop = MatteBackground::color;
    p.mask = MatteMask::chroma_key;
    p.refine = MatteRefine::guided;
    same("1080p NV12", nv12, p, " key over", false);
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
  // Other libraries take a guide of three floats and a separate mask, and give the matte alone.
  for (const int s : {1, 4})
    timed("1080p 3+1", apart(Type::f32, 3, 1920, 1080), matte(Type::f32, 1920, 1080),
          params_of(16, s), "", [](TimedCase& row) { row.cpu = true; });
}

constexpr Type kTypes[] = {Type::u8, Type::u16, Type::f32};

// Taking out the hue of the key changes the colour and not the brightness.
void despill_case(Context& context) {
  const std::string name = "guided despill keeps the brightness";
  if (!context.wants(name)) return;
  const Picture picture = rgba(Type::f32, 8, 8);
  GuidedParams p = params_of(8, 1);
  p.mask = MatteMask::chroma_key;
  p.despill = 1;
  const double color[3] = {0.4, 0.7, 0.5};
  Frame in(picture.layout), out(picture.layout);
  for (int y = 0; y < 8; y++)
    for (int x = 0; x < 8; x++) {
      for (int c = 0; c < 3; c++) in.set(0, x, y, c, color[c]);
      in.set(0, x, y, 3, 1);
    }
  out.poison();
  std::unique_ptr<GuidedPlan> plan;
  Status s = make_guided(context.device().queue(), picture.layout, picture.channels, picture.layout,
                         picture.channels, p, Placement::separate, &plan);
  if (s.ok()) s = run_plan(context.device(), *plan, in, &out);
  double change = 0;
  for (int c = 0; c < 3; c++) change += p.to_ycbcr[0][c] * (out.get(0, 3, 3, c) - color[c]);
  context.device().release_all();
  context.result(name, !s.ok()                      ? s.message()
                       : out.get(0, 3, 3, 1) > 0.65 ? "the green stays"
                       : std::abs(change) > 1e-4    ? text("luma changes by %g", change)
                                                    : "");
}

void pattern_cases(Context& context) {
  // A gray key has no hue, so there is nothing to take out.
  GuidedParams gray = params_of(8, 1);
  gray.mask = MatteMask::chroma_key;
  gray.output = MatteOutput::composite;
  gray.despill = 1;
  for (double& v : gray.key_color) v = 0.5;
  one(context, "gray key with despill", rgba(Type::u8, 64, 48), rgba(Type::u8, 64, 48), gray,
      Pattern::texture);
  despill_case(context);
  // Checks every type and guide on each pattern, with epsilon over its useful range.
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

// Checks orders of channels and planes, subsampled chroma and unused bits, with all outputs and both
// masks.
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

// Checks a matte alone, an added alpha, and other orders in the destination.
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

// Checks composites into formats without alpha.
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
    DiscMask disc;
    const MaskRectangle frame = whole(from.layout.plane[0].width, from.layout.plane[0].height);
    disc.add(random, 40, 30, frame, frame);
    const CoarseMask mask = disc.mask();
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

// NV12 and NV21 whose rows are aligned have kernels of their own at subsample 4. They give the same
// bits as the kernels for rows that begin anywhere or, where colours are estimated, nearly the same.
void planes_cases(Context& context) {
  const auto check = [&](const std::string& name, const Picture& from, const Picture& to,
                         const GuidedParams& p) {
    const bool plain = p.foreground == MatteForeground::keep && p.despill == 0;
    const std::string all =
        text("guided planes %s to %s %dx%d %s", from.name, to.name, from.layout.plane[0].width,
             from.layout.plane[0].height, name.c_str());
    if (!context.wants(all)) return;
    Random random = context.random(all);
    DiscMask disc;
    const MaskRectangle frame = whole(from.layout.plane[0].width, from.layout.plane[0].height);
    disc.add(random, 40, 30, frame, frame);
    const CoarseMask mask = disc.mask();
    one(context, text("planes %s", name.c_str()), from, to, p, Pattern::texture, {}, &mask);
    Frame got(to.layout), want(to.layout, Geometry{1, 1});
    const auto run = [&]() -> std::string {
      for (Frame* frame : {&want, &got}) {
        Frame src(from.layout, frame == &want ? Geometry{1, 1} : Geometry());
        Random same = random;
        src.fill(Pattern::texture, same);
        std::unique_ptr<GuidedPlan> plan;
        if (Status s = make_guided(context.device().queue(), from.layout, from.channels, to.layout,
                                   to.channels, p, Placement::separate, &plan);
            !s.ok())
          return s.message();
        if (Status s = plan->set_mask(mask); !s.ok()) return s.message();
        if (Status s = run_plan(context.device(), *plan, src, frame); !s.ok()) return s.message();
      }
      return difference(got, want, plain ? Tolerance() : Tolerance{1, 0, 0.999});
    };
    const std::string failure = run();
    context.device().release_all();
    context.result(all, failure);
  };
  for (const auto& [w, h] : {std::pair{160, 74}, {4, 2}, {260, 38}})
    for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors})
      for (const MatteMask mask : {MatteMask::chroma_key, MatteMask::external})
        for (const bool plain : {true, false})
          for (const double sigma : {0., 3., 30.}) {
            GuidedParams p = params_of(refine == MatteRefine::colors ? 0 : 12, 4, 1e-3);
            p.refine = refine;
            p.mask = mask;
            p.key_softness = 0.4;
            p.background[0] = 0.9;
            if (!plain) {
              p.foreground = MatteForeground::estimate;
              if (mask == MatteMask::chroma_key) p.despill = 0.8;
            }
            use_ycbcr(&p);
            if (sigma > 0) {
              p.backdrop = MatteBackground::blur;
              p.background_sigma = sigma;
            }
            p.output = MatteOutput::composite;
            const Picture nv12 = ycbcr("NV12", Type::u8, w, h, 1, 1, true);
            Picture nv21 = nv12;
            nv21.name = "NV21";
            std::swap(nv21.channels.color[1], nv21.channels.color[2]);
            const std::string name =
                text("refine %d mask %d plain %d blur %g", int(refine), int(mask), plain, sigma);
            check(name, nv12, nv12, p);
            check(name, nv21, nv12, p);
            check(name, nv12, nv21, p);
            if (!plain) check(name, nv21, packed("AYUV", Type::u8, w, h, 1, 2, 3, 0), p);
            if (sigma > 0) continue;
            p.output = MatteOutput::alpha;
            check(name, nv21, packed("AYUV", Type::u8, w, h, 1, 2, 3, 0), p);
            convert_to_rgb(&p);
            check(name, nv12, packed("BGRA", Type::u8, w, h, 2, 1, 0, 3), p);
          }
}

// The chroma of a composite of subsampled planes is the mean of that of its pixels.
void chroma_of_composites(Context& context) {
  for (const auto& sub : {std::pair{1, 1}, {1, 0}, {2, 2}}) {
    const int sub_x = sub.first, sub_y = sub.second;
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
      double change = 0;  // change of the chroma, so that the test sees something
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

}  // namespace

void guided_cases(Context& context) {
  refused(context);
  automatic_refine(context);
  mask_errors(context);
  timed_cases(context);
  pattern_cases(context);
  shape_cases(context);
  layout_cases(context);
  output_cases(context);
  ycbcr_to_rgb_cases(context);
  opaque_cases(context);
  planes_cases(context);
  chroma_of_composites(context);
  alignment_cases(context);
  guided_sequence_cases(context);
  colors_cases(context);
  layers_cases(context);
  blur_beside_subject(context);
}

}  // namespace vf::test
