#include "filters/letterbox.h"

#include <cmath>
#include <set>

#include "bench/kernels/kernels.h"

namespace vf::bench {
namespace {

struct Source {
  const char* name;
  Layout (*layout)(int width, int height);
  const char* roles[3];
  bool exact;  // sampled in fixed point or in the affine rule's order on both backends
};

Layout bgr_layout(int width, int height) {
  return packed_layout(Type::u8, 3, width, height);
}
Layout rgba_layout(int width, int height) {
  return packed_layout(Type::u8, 4, width, height);
}

constexpr Source kBgr = {"BGR", bgr_layout, {"BGR"}, true};
constexpr Source kRgba = {"RGBA", rgba_layout, {"RGBA"}, true};
constexpr Source kNv12 = {"NV12", nv12_layout, {"Y", "UV"}, false};
constexpr Source kP010 = {"P010", p010_layout, {"Y", "UV"}, false};
constexpr Source kI420 = {"I420", i420_layout, {"Y", "U", "V"}, false};

Layout tensor_layout(int width, int height) {
  Layout l = packed_layout(Type::f32, 1, width, height);
  l.planes = 3;
  l.plane[1] = l.plane[2] = l.plane[0];
  return l;
}

ColorFormat format_of_roles(const char* const (&roles)[3], bool full_range) {
  ColorFormat f;
  f.full_range = full_range;
  for (int p = 0; p < 3 && roles[p]; p++)
    for (int c = 0; roles[p][c]; c++) switch (roles[p][c]) {
        case 'R':
          f.role[p][c] = Role::r;
          break;
        case 'G':
          f.role[p][c] = Role::g;
          break;
        case 'B':
          f.role[p][c] = Role::b;
          break;
        case 'A':
          f.role[p][c] = Role::a;
          break;
        case 'Y':
          f.role[p][c] = Role::y;
          break;
        case 'U':
          f.role[p][c] = Role::u;
          break;
        case 'V':
          f.role[p][c] = Role::v;
          break;
      }
  return f;
}

// The source as large as what bilinear sampling reads of it: many rows are skipped when a picture
// shrinks by more than two.
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

void row(Bench& bench, const Source& source, int width, int height, int size, bool tensor,
         LetterboxRule rule, bool quick) {
  LetterboxParams params;
  params.rule = rule;
  const ColorFormat from = format_of_roles(source.roles, source.exact);
  const char* const rgb[3] = {"R", "G", "B"};
  const char* const rgba[3] = {"RGBA"};
  const ColorFormat to = tensor ? format_of_roles(rgb, true) : format_of_roles(rgba, true);
  Row r;
  r.filter = "letterbox";
  r.frame = std::to_string(height) + "p " + source.name;
  r.parameters = std::to_string(size) + (tensor ? " f32 " : " RGBA ") +
                 (rule == LetterboxRule::affine ? "affine" : "ultra");
  r.src = source.layout(width, height);
  r.dst = tensor ? tensor_layout(size, size) : rgba_layout(size, size);
  r.quick = quick;
  // Conversions of the ultralytics rule may round apart; a code of a tensor is 1/255 of the
  // largest.
  const bool exact = source.exact || rule == LetterboxRule::affine;
  r.tolerance = {exact ? 0.0 : tensor ? 1.001 / 255 : 1.0, exact ? 1.0 : 0.99};
  LetterboxGeometry g;
  if (letterbox_geometry(width, height, size, size, params, &g).ok())
    r.floor_src = read_part(r.src, g);
  r.make = [=](Queue& queue, const Layout& src, const Layout& dst, Placement,
               std::unique_ptr<Plan>* plan) -> Status {
    LetterboxGeometry geometry;
    VF_TRY(letterbox_geometry(src.plane[0].width, src.plane[0].height, dst.plane[0].width,
                              dst.plane[0].height, params, &geometry));
    return make_letterbox(queue, src, from, dst, to, geometry, params, plan);
  };
  bench.run(r);
}

}  // namespace

void letterbox_rows(Bench& bench) {
  for (const LetterboxRule rule : {LetterboxRule::ultralytics, LetterboxRule::affine}) {
    row(bench, kBgr, 1920, 1080, 640, true, rule, true);
    row(bench, kBgr, 3840, 2160, 640, true, rule, false);
    row(bench, kBgr, 3840, 2160, 1280, true, rule, false);
    row(bench, kNv12, 1920, 1080, 640, true, rule, true);
    row(bench, kRgba, 1920, 1080, 640, false, rule, true);
    for (const Source& source : {kNv12, kP010, kI420}) {
      if (source.layout != nv12_layout) row(bench, source, 1920, 1080, 640, true, rule, false);
      row(bench, source, 3840, 2160, 640, true, rule, false);
      row(bench, source, 3840, 2160, 1280, true, rule, false);
    }
  }
}

}  // namespace vf::bench
