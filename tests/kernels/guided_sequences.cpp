#include "tests/kernels/guided_cases.h"

namespace vf::test {
namespace {

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
      return make_again(queue, picture, params, out);
    };
    if (Status s = make_queue(options, &reference); !s.ok()) return s.message();
    if (Status s = make(*reference, &want_plan); !s.ok()) return s.message();
    if (Status s = make(context.device().queue(), &plan); !s.ok()) return s.message();
    for (int t = 0; t < 9; t++) {
      if (t == 2 || t == 3 ||
          t == 7) {  // the previous frames are taken over at 2 and 3, and do not fit at 7
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

// A plan that follows another one remembers its frames only if they fit. Otherwise it is like a plan
// that has seen no frame.
void followed_by(Context& context, const char* change, const Picture& next,
                 const GuidedParams& next_params, bool fits) {
  const std::string name = text("guided remembers%s when %s", fits ? "" : " nothing", change);
  if (!context.wants(name)) return;
  Random random = context.random(name);
  // The colours stand still, and the mask flickers.
  const auto run = [&](GuidedPlan& plan, const Picture& picture, uint64_t mask_seed,
                       Frame* got) -> Status {
    Frame src(picture.layout);
    Random flicker(mask_seed);
    const double full = max_code(picture.layout);
    for (int p = 0; p < picture.layout.planes; p++)
      for (int y = 0; y < picture.layout.plane[p].height; y++)
        for (int x = 0; x < picture.layout.plane[p].width; x++)
          for (int c = 0; c < picture.layout.plane[p].channels; c++) {
            const bool mask = p == picture.channels.alpha.plane;
            const double v = mask ? flicker.unit() : 0.5 + 0.4 * std::sin(0.3 * x + 0.2 * y + c);
            src.set(p, x, y, c, std::floor(v * full));
          }
    const Image in = context.device().upload(src), out = context.device().upload(*got);
    VF_TRY(plan.run(in, out));
    VF_TRY(context.device().queue().sync());
    context.device().download(out, got);
    return {};
  };
  const auto all = [&]() -> std::string {
    const Picture first = apart(Type::u16, 3, 83, 41);
    GuidedParams params = params_of(6, 2);
    params.temporal = 0.9;
    Queue& queue = context.device().queue();
    std::unique_ptr<GuidedPlan> plan, fresh;
    if (Status st = make_again(queue, first, params, &plan); !st.ok()) return st.message();
    for (int t = 0; t < 3; t++) {
      Frame got(first.layout);
      if (Status st = run(*plan, first, random.next(), &got); !st.ok()) return st.message();
    }
    if (Status st = make_again(queue, next, next_params, &plan); !st.ok()) return st.message();
    if (Status st = make_again(queue, next, next_params, &fresh); !st.ok()) return st.message();
    Frame got(next.layout), want(next.layout);
    const uint64_t seed = random.next();
    if (Status st = run(*plan, next, seed, &got); !st.ok()) return st.message();
    if (Status st = run(*fresh, next, seed, &want); !st.ok()) return st.message();
    const std::string diff = difference(got, want, {});
    if (diff.empty() == fits) return fits ? "it remembers nothing" : diff;
    return {};
  };
  const std::string failure = all();
  context.device().release_all();
  context.result(name, failure);
}

void followed_cases(Context& context) {
  const Picture same = apart(Type::u16, 3, 83, 41);
  GuidedParams params = params_of(6, 2);
  params.temporal = 0.9;
  const auto with = [&](auto&& change) {
    GuidedParams p = params;
    change(p);
    return p;
  };
  followed_by(context, "nothing changes", same, params, true);
  followed_by(context, "epsilon changes", same, with([](GuidedParams& p) { p.epsilon *= 2; }),
              true);
  followed_by(context, "the width changes", apart(Type::u16, 3, 82, 41), params, false);
  followed_by(context, "the height changes", apart(Type::u16, 3, 83, 40), params, false);
  followed_by(context, "the type changes", apart(Type::u8, 3, 83, 41), params, false);
  followed_by(context, "colours go", apart(Type::u16, 1, 83, 41), params, false);
  Picture shallow = same;
  shallow.layout.max_value = 1023;
  followed_by(context, "the depth changes", shallow, params, false);
  followed_by(context, "subsample changes", same, with([](GuidedParams& p) { p.subsample = 3; }),
              false);
  followed_by(context, "the mask changes", same,
              with([](GuidedParams& p) { p.mask = MatteMask::chroma_key; }), false);
}

void temporal_cases(Context& context) {
  for (const Type type : {Type::u8, Type::u16, Type::f32})
    for (const int s : {1, 4})
      for (const double strength : {0.8, 1.0})
        for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors})
          temporal(context, refine, type, s, strength);
}

// Checks masks of every size and place, for all frames that take an external mask.
void external_cases(Context& context) {
  const auto check = [&](const std::string& name, const Picture& from, const Picture& to,
                         const GuidedParams& p, auto&& fill) {
    const std::string all =
        text("external %s%s", p.refine == MatteRefine::colors ? "colors " : "", name.c_str());
    if (!context.wants(case_name(from, all, Pattern::texture))) return;
    Random random = context.random(all);
    DiscMask disc;
    fill(disc, random);
    const CoarseMask mask = disc.mask();
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
                  [&, w = w, h = h, mw = mw, mh = mh](DiscMask& disc, Random& random) {
                    disc.add(random, mw, mh, whole(w, h), whole(w, h));
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
              [&, mw = mw, mh = mh](DiscMask& disc, Random& random) {
                for (size_t i = 0; i < place.image.size(); i++)
                  disc.add(random, mw, mh, place.image[i], place.counts[i]);
              });
  // All parts of the mask, or one, have errors of their edge. The band has each of its sizes.
  for (const int error : {0, 1, 7, 20, 40, 64})
    for (const bool apart : {false, true})
      for (const int s : {1, 4}) {
        GuidedParams p = external_params(MatteRefine::colors, s, 12);
        p.mask_error = error;
        for (const Type type : {Type::u8, Type::u16, Type::f32})
          for (const auto& [fw, fh] : {std::pair{w, h}, {1, 1}, {41, 203}})
            check(text("%s %dx%d errors %d %s subsample %d", name_of(type), fw, fh, error,
                       apart ? "of an object" : "of the frame", s),
                  rgba(type, fw, fh), rgba(type, fw, fh), p,
                  [&, fw = fw, fh = fh](DiscMask& disc, Random& random) {
                    if (apart)
                      disc.add(random, 20, 20, {fw * 0.1, fh * 0.1, fw * 0.4, fh * 0.6}, all);
                    disc.add(random, 48, 27, whole(fw, fh), whole(fw, fh));
                    disc.add_errors(random);
                    if (apart)
                      disc.add(random, 20, 20, {fw * 0.6, fh * 0.1, fw * 0.9, fh * 0.6}, all);
                  });
      }
  // Orders, planes, outputs, conversions.
  for (const MatteRefine refine : {MatteRefine::guided, MatteRefine::colors})
    for (int output = 0; output < 4; output++)
      for (const int s : {1, 4}) {
        GuidedParams p = external_params(refine, s, 9);
        p.output = MatteOutput(output);
        const auto fill = [&](DiscMask& disc, Random& random) {
          disc.add(random, 40, 30, {0, -20, w, h + 22}, whole(w, h));
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
  // These rows have layers from such masks, and an automatic mask error.
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
          const auto fill = [&](DiscMask& disc, Random& random) {
            disc.add(random, 40, 30, {0, -20, w, h + 22}, whole(w, h));
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

// Sets new masks while previous frames are still on their way. Each frame has the mask that was set
// before it, plans that take over keep it, and a refused mask changes nothing.
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
        DiscMask disc;
        const int size = t == 9 ? 30 : 10 + 37 * (t % 4);
        for (int i = 0; i < t % 3 + (t != 3); i++)
          disc.add(random, size, size + i, {-3.0 * t, 0, w + 2.0 * i, h + 1.0 * t}, whole(w, h));
        if (t % 5 == 1) disc.add_errors(random);
        const CoarseMask mask = disc.mask(t == 8 || t == 9 ? 7 : t == 12 ? 0 : 100 + t);
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
  // A mask may have exactly as many. Their values are not read here.
  std::vector<MaskPart> most(CoarseMask::kMaxParts, good);
  for (MaskPart& m : most) {
    m.width = 2048;
    m.stride = m.width;
    m.height = int(CoarseMask::kMaxBytes / most.size()) / m.width;
  }
  PlacedMask placed;
  const Status taken = place_mask({most.data(), int(most.size()), 0}, 40, 30, &placed);
  context.result("guided external takes the most bytes", taken.ok() ? "" : taken.message());
}

}  // namespace

void guided_sequence_cases(Context& context) {
  temporal_cases(context);
  followed_cases(context);
  external_cases(context);
  mask_sequence(context, MatteRefine::guided);
  mask_sequence(context, MatteRefine::colors);
  refused_masks(context);
}

}  // namespace vf::test
