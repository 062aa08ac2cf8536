#include "filters/foo.h"

#include "tests/foo.h"
#include "tests/kernels/harness.h"

namespace vf::test {
namespace {

FooParams sharpen(double strength) {
  FooParams params;
  params.strength = strength;
  return params;
}

void one(Context& context, const std::string& name, const Layout& layout, const FooParams& params,
         Pattern pattern, Geometry geometry = {}) {
  context.check(text("foo %s %s", name.c_str(), name_of(pattern)), layout, layout, pattern,
                geometry, foo_contract(layout.type), true,
                [&](Queue& queue, Placement placement, std::unique_ptr<Plan>* plan) {
                  return make_foo(queue, layout, params, placement, plan);
                });
}

void timed(Context& context, const char* frame, const Layout& layout) {
  TimedCase row;
  row.frame = frame;
  row.parameters = "strength 0.5";
  row.src = row.dst = layout;
  row.tolerance = foo_contract(layout.type);
  row.quick = row.cpu = true;
  row.element = "cudafoo strength=0.5";
  row.make = [](Queue& queue, const Layout& l, const Layout&, Placement placement,
                std::unique_ptr<Plan>* plan) {
    return make_foo(queue, l, sharpen(0.5), placement, plan);
  };
  context.timed(row);
}

void refused(Context& context, const char* what, const Layout& layout, double strength,
             const char* named) {
  std::unique_ptr<Plan> plan;
  context.refused(
      text("foo refuses %s", what),
      make_foo(context.device().queue(), layout, sharpen(strength), Placement::separate, &plan),
      named);
}

}  // namespace

void foo_cases(Context& context) {
  timed(context, "1080p RGBA", packed_layout(Type::u8, 4, 1920, 1080));
  timed(context, "1080p NV12", nv12_layout(1920, 1080));
  for (const Type type : {Type::u8, Type::u16, Type::f32})
    for (int channels = 1; channels <= 4; channels++) {
      const std::string name = text("%s x%d", name_of(type), channels);
      const Layout layout = packed_layout(type, channels, 133, 71);
      for (const Pattern pattern : kAllPatterns)
        for (const double strength : {0.25, 2.0})
          one(context, text("%s strength %g", name.c_str(), strength), layout, sharpen(strength),
              pattern);
      for (const auto& [w, h] : {std::pair{1, 1}, {2, 1}, {1, 2}, {1, 40}, {40, 1}})
        one(context, text("%s %dx%d", name.c_str(), w, h), packed_layout(type, channels, w, h),
            sharpen(1), Pattern::noise);
      one(context, name + " unaligned", layout, sharpen(1), Pattern::noise, {13, 5});
      Geometry tight;
      tight.tight = true;
      one(context, name + " tight", layout, sharpen(1), Pattern::noise, tight);
      FooParams some = sharpen(1);
      some.channels[0] = 0x5;
      one(context, name + " channels 0x5", layout, some, Pattern::noise);
    }
  for (const auto& [format, layout] : video_layouts())
    one(context, format, layout, sharpen(1), Pattern::noise);
  // The grid has fewer rows than the frame.
  one(context, "u8 tall", packed_layout(Type::u8, 1, 3, 65600), sharpen(1), Pattern::noise);

  const Layout gray = packed_layout(Type::u8, 1, 8, 8);
  refused(context, "a negative strength", gray, -0.1, "strength is -0.1");
  refused(context, "too large a strength", gray, 2.1, "strength is 2.1");
  refused(context, "s16", packed_layout(Type::s16, 1, 8, 8), 1, "s16");
}

}  // namespace vf::test
