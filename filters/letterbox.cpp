// Checks the letterbox's parameters, and computes its geometry and the coefficients that backends
// get.
#include "filters/letterbox.h"

#include <algorithm>
#include <cmath>

#include "filters/backend.h"
#include "filters/letterbox_task.h"

namespace vf {
namespace {

struct Colors {
  ColorModel model = ColorModel::rgb;
  Component at[4];  // by index_of
  Component padding;
};

Status find_colors(const char* side, const Layout& layout, const ColorFormat& format, bool writes,
                   Colors* out) {
  unsigned seen = 0;  // bit i: role i
  int padding = 0;
  for (int p = 0; p < layout.planes; p++)
    for (int c = 0; c < layout.plane[p].channels; c++) {
      const Role role = format.role[p][c];
      if (role == Role::none) {
        out->padding = {p, c};
        padding++;
        continue;
      }
      if (seen >> int(role) & 1)
        return Status::invalid("the %s has the role %s twice, but must have it once", side,
                               name_of(role));
      seen |= 1u << int(role);
      out->at[index_of(role)] = {p, c};
      const PlaneLayout& l = layout.plane[p];
      if ((l.sub_x || l.sub_y) && !is_chroma(role))
        return Status::invalid(
            "the %s has the role %s in a subsampled plane, where only u and v may be", side,
            name_of(role));
    }
  if (padding > 1 && writes)
    return Status::invalid("the %s has %d components without a role, but may have one", side,
                           padding);
  const auto bit = [](Role r) { return 1u << int(r); };
  const unsigned colors = seen & ~bit(Role::a);
  if (colors == (bit(Role::r) | bit(Role::g) | bit(Role::b)))
    out->model = ColorModel::rgb;
  else if (colors == (bit(Role::y) | bit(Role::u) | bit(Role::v)))
    out->model = ColorModel::yuv;
  else if (colors == bit(Role::y))
    out->model = ColorModel::gray;
  else
    return Status::invalid(
        "the %s has no complete colour. Its roles must be r, g, b, or y, u, v, or y", side);
  if (out->model == ColorModel::yuv) {
    const PlaneLayout &u = layout.plane[out->at[1].plane], &v = layout.plane[out->at[2].plane];
    if (u.width != v.width || u.height != v.height || u.sub_x != v.sub_x || u.sub_y != v.sub_y)
      return Status::invalid("the %s has u and v of different sizes or subsampling", side);
  }
  if (out->model != ColorModel::rgb &&
      !(format.kr > 0 && format.kb > 0 && format.kr + format.kb < 1))
    return Status::invalid(
        "the %s has kr %g and kb %g, but they must be above 0 and their sum below 1", side,
        format.kr, format.kb);
  return {};
}

Status check_sizes(const char* side, const Layout& layout, int width, int height) {
  for (int p = 0; p < layout.planes; p++) {
    const PlaneLayout& l = layout.plane[p];
    const int w = blocks_of(width, 1 << l.sub_x), h = blocks_of(height, 1 << l.sub_y);
    if (l.width != w || l.height != h)
      return Status::invalid("plane %d of the %s is %dx%d, but the geometry's %dx%d needs %dx%d", p,
                             side, l.width, l.height, width, height, w, h);
  }
  return {};
}

bool same_colors(const Colors& a, const ColorFormat& fa, const Colors& b, const ColorFormat& fb) {
  if (fa.full_range != fb.full_range) return false;
  if (a.model == ColorModel::rgb || b.model == ColorModel::rgb) {
    // Gray of full range is the colour with three equal components.
    const bool gray_to_rgb =
        a.model == ColorModel::gray && b.model == ColorModel::rgb && fa.full_range;
    return a.model == b.model || gray_to_rgb;
  }
  if (a.model == ColorModel::gray)
    return b.model == ColorModel::gray;  // to YUV, chroma must be made
  return fa.kr == fb.kr && fa.kb == fb.kb;
}

Status check_params(const LetterboxParams& p) {
  VF_TRY(check_limits("stride", p.stride, LetterboxParams::kStride));
  if (!(p.pixel_aspect >= 1e-3 && p.pixel_aspect <= 1e3))
    return Status::invalid("pixel-aspect is %g, but it must be 0.001 to 1000", p.pixel_aspect);
  return {};
}

Status check_dimension(const char* name, int value) {
  if (value < 1 || value > kMaxDimension)
    return Status::invalid("%s is %d, but it must be 1 to %d", name, value, kMaxDimension);
  return {};
}

// Computes the coefficients of one axis. TensorRT's examples invert their matrix with OpenCV, which
// divides by the determinant in float32. This function does the same, so that positions are equal
// to the last bit.
LetterboxTask::Axis axis(const LetterboxGeometry& g, bool horizontal, LetterboxAlign align,
                         const ColorFormat& from, const ColorFormat& to, double pixel_aspect) {
  LetterboxTask::Axis a;
  const float sy = float(g.scale), sx = float(sy * float(pixel_aspect));
  const float s = horizontal ? sx : sy, other = horizontal ? sy : sx;
  const int source = horizontal ? g.source_width : g.source_height;
  const int size = horizontal ? g.width : g.height;
  a.source = source;
  if (g.rule == LetterboxRule::affine) {
    const float scaled = -s * float(source);
    const double shift = align == LetterboxAlign::center ? scaled * 0.5 + size * 0.5 : 0.0;
    const float offset = float(shift + s * 0.5 - 0.5);
    const float determinant = sx * sy;
    const float reciprocal = 1.0f / determinant;
    a.multiply = other * reciprocal;
    a.add = -a.multiply * offset;
    a.reach = std::max(1.0f, a.multiply) / 2;
  } else {
    a.begin = int(horizontal ? g.left : g.top);
    a.size = int(horizontal ? g.content_width : g.content_height);
    a.step = 1.0 / (double(a.size) / source);
    a.reach = float(std::max(1.0, a.step) / 2);
  }
  a.source_cosited = horizontal ? from.cosited_x : from.cosited_y;
  a.destination_cosited = horizontal ? to.cosited_x : to.cosited_y;
  return a;
}

}  // namespace

const char* name_of(LetterboxRule r) {
  return r == LetterboxRule::affine ? "affine" : "ultralytics";
}

const char* name_of(LetterboxAlign a) {
  return a == LetterboxAlign::top_left ? "top-left" : "center";
}

const char* name_of(Interpolation i) {
  constexpr const char* names[] = {"bilinear", "nearest", "area"};
  return names[int(i)];
}

void LetterboxGeometry::to_source(double x, double y, double* source_x, double* source_y) const {
  *source_x = (x - left) * source_width / content_width;
  *source_y = (y - top) * source_height / content_height;
}

void LetterboxGeometry::from_source(double source_x, double source_y, double* x, double* y) const {
  *x = source_x * content_width / source_width + left;
  *y = source_y * content_height / source_height + top;
}

Status letterbox_geometry(int source_width, int source_height, int width, int height,
                          const LetterboxParams& p, LetterboxGeometry* out) {
  VF_TRY(check_dimension("the source's width", source_width));
  VF_TRY(check_dimension("the source's height", source_height));
  VF_TRY(check_dimension("the target's width", width));
  VF_TRY(check_dimension("the target's height", height));
  VF_TRY(check_params(p));
  LetterboxGeometry g;
  g.rule = p.rule;
  g.source_width = source_width;
  g.source_height = source_height;
  const bool centered = p.align == LetterboxAlign::center;
  if (p.rule == LetterboxRule::ultralytics) {
    const double wide = source_width * p.pixel_aspect;
    double r = std::min(double(height) / source_height, double(width) / wide);
    if (!p.scale_up) r = std::min(r, 1.0);
    g.scale = r;
    // nearbyint rounds half to even, as Python does.
    const int w = std::clamp(int(std::nearbyint(wide * r)), 1, width);
    const int h = std::clamp(int(std::nearbyint(source_height * r)), 1, height);
    int pad_x = width - w, pad_y = height - h;
    if (p.stride) pad_x %= p.stride, pad_y %= p.stride;
    g.width = w + pad_x;
    g.height = h + pad_y;
    g.left = centered ? pad_x / 2 : 0;
    g.top = centered ? pad_y / 2 : 0;
    g.content_width = w;
    g.content_height = h;
  } else {
    const float wide = float(source_width) * float(p.pixel_aspect);
    float s = std::min(float(width) / wide, float(height) / float(source_height));
    if (!p.scale_up) s = std::min(s, 1.0f);
    g.scale = s;
    g.content_width = double(float(s * float(p.pixel_aspect))) * source_width;
    g.content_height = double(s) * source_height;
    g.width = width;
    g.height = height;
    if (p.stride) {
      const int w = std::clamp(int(std::ceil(g.content_width - 1e-3)), 1, width);
      const int h = std::clamp(int(std::ceil(g.content_height - 1e-3)), 1, height);
      g.width = w + (width - w) % p.stride;
      g.height = h + (height - h) % p.stride;
    }
    g.left = centered ? (g.width - g.content_width) / 2 : 0;
    g.top = centered ? (g.height - g.content_height) / 2 : 0;
  }
  *out = g;
  return {};
}

namespace {

Status check_layouts(const Layout& source, const ColorFormat& source_format,
                     const Layout& destination, const ColorFormat& destination_format) {
  VF_TRY(validate(source));
  VF_TRY(validate(destination));
  if (source.type != Type::u8 && source.type != Type::u16)
    return Status::invalid("the source has %s components, but they must be u8 or u16",
                           name_of(source.type));
  if (source_format.half_float)
    return Status::invalid("the source is float16, but it must be u8 or u16");
  if (destination.type != Type::u8 && destination.type != Type::u16 &&
      destination.type != Type::f32)
    return Status::invalid("the destination has %s components, but they must be u8, u16 or f32",
                           name_of(destination.type));
  if (destination_format.half_float && (destination.type != Type::u16 || destination.shift))
    return Status::invalid(
        "the destination is float16 in %s components shifted by %d, but they must be u16 and not "
        "shifted",
        name_of(destination.type), destination.shift);
  for (const auto& [side, layout] :
       {std::pair<const char*, const Layout&>{"source", source}, {"destination", destination}}) {
    const int top = layout.type == Type::u8 ? 255 : 65535 >> layout.shift;
    if (layout.max_value < 0 || (layout.type != Type::f32 && layout.max_value > top))
      return Status::invalid("max_value of the %s is %d, but it must be 0 to %d", side,
                             layout.max_value, top);
  }
  return {};
}

Status check_geometry(const Layout& source, const Layout& destination, const LetterboxGeometry& g,
                      const LetterboxParams& p) {
  VF_TRY(check_dimension("the geometry's source width", g.source_width));
  VF_TRY(check_dimension("the geometry's source height", g.source_height));
  VF_TRY(check_dimension("the geometry's width", g.width));
  VF_TRY(check_dimension("the geometry's height", g.height));
  VF_TRY(check_sizes("source", source, g.source_width, g.source_height));
  VF_TRY(check_sizes("destination", destination, g.width, g.height));
  if (g.rule != p.rule)
    return Status::invalid("rule is %s, but the geometry was made for %s", name_of(p.rule),
                           name_of(g.rule));
  if (!(g.scale > 0) || !(g.content_width > 0) || !(g.content_height > 0))
    return Status::invalid(
        "the geometry has a picture of %gx%g pixels, but each side must be above 0",
        g.content_width, g.content_height);
  if (g.rule == LetterboxRule::ultralytics &&
      !(g.left >= 0 && g.top >= 0 && g.content_width >= 1 && g.content_height >= 1 &&
        g.left + g.content_width <= g.width && g.top + g.content_height <= g.height))
    return Status::invalid("the picture of %gx%g at %g, %g leaves the destination of %dx%d",
                           g.content_width, g.content_height, g.left, g.top, g.width, g.height);
  return {};
}

// Checks the normalisation of float tensors.
Status check_normalisation(const LetterboxParams& p) {
  if (!std::isfinite(p.scale) || std::abs(p.scale) < 1e-30 || std::abs(p.scale) > 1e30)
    return Status::invalid("scale is %g, but its absolute value must be 1e-30 to 1e30", p.scale);
  for (int i = 0; i < 3; i++) {
    if (!std::isfinite(p.std[i]) || std::abs(p.std[i]) < 1e-30 || std::abs(p.std[i]) > 1e30)
      return Status::invalid("std[%d] is %g, but its absolute value must be 1e-30 to 1e30", i,
                             p.std[i]);
    const double divide = std::abs(p.std[i] / p.scale);
    if (!(std::abs(p.mean[i]) <= 1e30) || !(std::abs(p.mean[i] / p.scale) <= 1e30))
      return Status::invalid(
          "mean[%d] is %g, but it must be finite and at most 1e30 times scale (%g)", i, p.mean[i],
          p.scale);
    if (!(divide >= 1e-30 && divide <= 1e30))
      return Status::invalid("std[%d] / scale is %g, but its absolute value must be 1e-30 to 1e30",
                             i, divide);
  }
  return {};
}

}  // namespace

Status make_letterbox(Queue& queue, const Layout& source, const ColorFormat& source_format,
                      const Layout& destination, const ColorFormat& destination_format,
                      const LetterboxGeometry& g, const LetterboxParams& p,
                      std::unique_ptr<Plan>* out) {
  VF_TRY(check_params(p));
  VF_TRY(check_layouts(source, source_format, destination, destination_format));
  VF_TRY(check_geometry(source, destination, g, p));
  const bool normalised = destination.type == Type::f32 || destination_format.half_float;
  if (normalised) VF_TRY(check_normalisation(p));
  Colors from, to;
  VF_TRY(find_colors("source", source, source_format, false, &from));
  VF_TRY(find_colors("destination", destination, destination_format, true, &to));
  if (normalised && to.padding.plane >= 0)
    return Status::invalid(
        "the destination has a component without a role, which float tensors may not have");
  const auto fill = [&](LetterboxTask& t) {
    t.source = source;
    t.destination = destination;
    t.rule = g.rule;
    t.interpolation = p.interpolation;
    t.x = axis(g, true, p.align, source_format, destination_format, p.pixel_aspect);
    t.y = axis(g, false, p.align, source_format, destination_format, p.pixel_aspect);
    std::copy_n(from.at, 4, t.from);
    std::copy_n(to.at, 4, t.to);
    t.padding = to.padding;
    const int max_from = max_code(source), max_to = normalised ? 255 : max_code(destination);
    t.max_value = max_to;
    t.alpha_scale = float(double(max_to) / max_from);
    t.copies = max_from == max_to && same_colors(from, source_format, to, destination_format);
    if (t.copies && from.model == ColorModel::gray && to.model == ColorModel::rgb)
      t.from[1] = t.from[2] = t.from[0];

    const ColorMatrix convert = compose(encoding(to.model, destination_format, max_to),
                                        decoding(from.model, source_format, max_from));
    for (int i = 0; i < 3; i++) {
      std::copy_n(convert.m[i], 3, t.matrix[i]);
      t.offset[i] = float(convert.offset[i]);
    }
    double fill[4];
    encode(p.fill, from.model, source_format, max_from, fill);
    std::copy_n(fill, 4, t.source_fill);
    encode_rounded(p.fill, to.model, destination_format, max_to, fill);
    std::copy_n(fill, 4, t.fill);
    if (t.copies && from.model == ColorModel::gray && to.model == ColorModel::rgb) {
      // Each colour reads the gray plane, but has its own fill outside the picture.
      encode(p.fill, ColorModel::rgb, source_format, max_from, fill);
      std::copy_n(fill, 3, t.source_fill);
    }

    t.normalised = normalised;
    t.half_float = destination_format.half_float;
    for (int i = 0; i < 3; i++) {
      t.subtract[i] = float(p.mean[i] / p.scale);
      t.divide[i] = float(p.std[i] / p.scale);
      t.reciprocal[i] = 1.0f / t.divide[i];
    }
    // Alpha of a float tensor is divided by the largest code.
    t.divide[kAlpha] = 255;
    t.reciprocal[kAlpha] = 1.0f / 255;
    return Status();
  };
  return make_plan<LetterboxTask>(queue, &BackendTable::letterbox, "letterbox", fill, out);
}

}  // namespace vf
