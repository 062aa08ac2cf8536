#include "filters/guided.h"

#include "bench/kernels/kernels.h"

namespace vf::bench {
namespace {

void row(Bench& bench, const std::string& frame, const Layout& src, const MatteChannels& from,
         const Layout& dst, const MatteChannels& to, const GuidedParams& params,
         const std::string& suffix, bool quick) {
  Row r;
  r.filter = "guided";
  r.frame = frame;
  r.parameters =
      "r" + std::to_string(params.radius) + " s" + std::to_string(params.subsample) + suffix;
  r.src = src;
  r.dst = dst;
  r.in_place = src == dst;
  r.quick = quick;
  if (src.type == Type::u8)
    r.tolerance = {1, 0.97};
  else
    r.tolerance = {src.type == Type::u16 ? 7.0 : 1e-4, 0};
  r.make = [params, from, to](Queue& queue, const Layout& s, const Layout& d, Placement placement,
                              std::unique_ptr<Plan>* plan) {
    std::unique_ptr<GuidedPlan> made;
    VF_TRY(make_guided(queue, s, from, d, to, params, placement, &made));
    *plan = std::move(made);
    return Status();
  };
  if (params.temporal > 0) r.forget = [](Plan& plan) { static_cast<GuidedPlan&>(plan).reset(); };
  bench.run(r);
}

}  // namespace

void guided_rows(Bench& bench) {
  const MatteChannels rgba;
  const auto params_of = [](int radius, int subsample) {
    GuidedParams p;
    p.refine = MatteRefine::guided;
    p.radius = radius;
    p.subsample = subsample;
    return p;
  };
  struct Size {
    const char* name;
    int width, height;
  };
  const Size sizes[] = {{"1080p ", 1920, 1080}, {"2160p ", 3840, 2160}};
  for (const Size& size : sizes)
    for (const int s : {1, 4, 8})
      for (const int r : {16, 60}) {
        const Layout l = packed_layout(Type::u8, 4, size.width, size.height);
        row(bench, size.name + std::string("RGBA"), l, rgba, l, rgba, params_of(r, s), "",
            size.width == 1920 && s == 4);
      }

  // What else there is, at the element's defaults.
  const Layout l = packed_layout(Type::u8, 4, 1920, 1080);
  GuidedParams p = params_of(32, 4);
  row(bench, "1080p RGBA", l, rgba, l, rgba, p, "", false);
  p.temporal = 0.8;
  row(bench, "1080p RGBA", l, rgba, l, rgba, p, " temporal", false);
  p.temporal = 0;
  p.mask = MatteMask::chroma_key;
  p.despill = 1;
  p.output = MatteOutput::composite;
  row(bench, "1080p RGBA", l, rgba, l, rgba, p, " key over", true);
  MatteChannels argb = rgba;
  argb.alpha = {0, 0};
  for (int c = 0; c < 3; c++) argb.color[c] = {0, c + 1};
  const Layout wide = packed_layout(Type::u16, 4, 1920, 1080);
  row(bench, "1080p ARGB64", wide, argb, wide, argb, params_of(32, 4), "", false);
  Layout a420 = i420_layout(1920, 1080);
  a420.planes = 4;
  a420.plane[3] = a420.plane[0];
  MatteChannels planes;
  for (int c = 0; c < 3; c++) planes.color[c] = {c, 0};
  planes.alpha = {3, 0};
  row(bench, "1080p A420", a420, planes, a420, planes, params_of(32, 4), "", false);
  Layout gbra = a420;
  for (PlaneLayout& plane : gbra.plane) plane = a420.plane[0];
  row(bench, "1080p GBRA", gbra, planes, gbra, planes, params_of(32, 4), "", false);
  // A guide of three floats and a mask beside it, the matte alone out: what other libraries take.
  Layout apart = packed_layout(Type::f32, 3, 1920, 1080);
  apart.planes = 2;
  apart.plane[1] = {1920, 1080};
  MatteChannels from, to;
  from.alpha = {1, 0};
  to.colors = 0;
  to.alpha = {0, 0};
  for (const int s : {1, 4})
    row(bench, "1080p 3+1", apart, from, packed_layout(Type::f32, 1, 1920, 1080), to,
        params_of(16, s), "", false);
}

}  // namespace vf::bench
