// Checks the guided matte's parameters, and computes what backends get of keys and colours.
#include "filters/guided.h"

#include <algorithm>
#include <cmath>

#include "filters/backend.h"
#include "filters/guided_task.h"

namespace vf {
namespace {

// A key whose chroma is shorter is gray.
constexpr double kHue = 1e-3;

// Finds the chroma of the key, and returns its length.
double key_chroma(const GuidedParams& params, double key[2]) {
  for (int i = 0; i < 2; i++) {
    key[i] = 0;
    for (int c = 0; c < 3; c++)
      key[i] += params.to_ycbcr[1 + i][c] * (params.key_color[c] - params.black[c]);
  }
  return std::hypot(key[0], key[1]);
}

Status check(const GuidedParams& p) {
  using G = GuidedParams;
  VF_TRY(check_limits("radius", p.radius, G::kRadius));
  VF_TRY(check_limits("epsilon", p.epsilon, G::kEpsilon));
  VF_TRY(check_limits("subsample", p.subsample, G::kSubsample));
  VF_TRY(check_limits("mask-error", p.mask_error, G::kMaskError));
  VF_TRY(check_limits("mask-trust", p.mask_trust, G::kMaskTrust));
  VF_TRY(check_limits("color-reach", p.color_reach, G::kColorReach));
  VF_TRY(check_limits("color-sigma", p.color_sigma, G::kColorSigma));
  VF_TRY(check_limits("key-tolerance", p.key_tolerance, G::kFraction));
  VF_TRY(check_limits("key-softness", p.key_softness, G::kFraction));
  VF_TRY(check_limits("despill", p.despill, G::kFraction));
  VF_TRY(check_limits("temporal", p.temporal, G::kFraction));
  VF_TRY(check_limits("background-sigma", p.background_sigma, G::kBackgroundSigma));
  VF_TRY(check_limits("background alpha", p.background_alpha, G::kFraction));
  for (int c = 0; c < 3; c++) {
    for (const double v : p.convert[c])
      if (!std::isfinite(v))
        return Status::invalid("the conversion to colour %d is not a number", c);
    if (!std::isfinite(p.key_color[c]) || !std::isfinite(p.background[c]) ||
        !std::isfinite(p.black[c]) || !std::isfinite(p.white[c]))
      return Status::invalid("a colour's channel %d is not a number", c);
    for (int i = 0; i < 3; i++)
      if (!std::isfinite(p.to_ycbcr[i][c]))
        return Status::invalid("to-ycbcr %d,%d is not a number", i, c);
  }
  return {};
}

struct Size {
  int width = 0, height = 0;
};

// Checks that a component is in the layout, and that all of them are of one frame size: that of the
// first component whose plane is not subsampled.
Status check_component(const Layout& l, const char* image, const char* name, const Component& c) {
  if (c.plane < 0 || c.plane >= l.planes || c.channel < 0 || c.channel >= l.plane[c.plane].channels)
    return Status::invalid("%s has no %s in plane %d channel %d", image, name, c.plane, c.channel);
  return {};
}

Status check_channels(const Layout& l, const char* image, const MatteChannels& m, bool alpha,
                      Size* size) {
  Component all[4];
  int n = 0;
  for (int i = 0; i < m.colors; i++) {
    VF_TRY(check_component(l, image, "colour", m.color[i]));
    all[n++] = m.color[i];
  }
  if (alpha) {
    VF_TRY(check_component(l, image, "alpha", m.alpha));
    all[n++] = m.alpha;
  }
  for (int i = n - 1; i >= 0; i--) {
    const PlaneLayout& p = l.plane[all[i].plane];
    if (!p.sub_x && !p.sub_y) *size = {p.width, p.height};
  }
  if (!size->width) return Status::invalid("%s has no plane of the frame's full size", image);
  for (int i = 0; i < n; i++) {
    const PlaneLayout& p = l.plane[all[i].plane];
    const int w = blocks_of(size->width, 1 << p.sub_x), h = blocks_of(size->height, 1 << p.sub_y);
    if (p.width != w || p.height != h)
      return Status::invalid("%s's plane %d is %dx%d, but it must be %dx%d", image, all[i].plane,
                             p.width, p.height, w, h);
    for (int j = 0; j < i; j++)
      if (all[i].plane == all[j].plane && all[i].channel == all[j].channel)
        return Status::invalid("%s's plane %d channel %d is named twice", image, all[i].plane,
                               all[i].channel);
  }
  return {};
}

// Finds the colour with chroma (cb, cr) and no luma, by Cramer's rule.
bool direction(const double m[3][3], double cb, double cr, double out[3]) {
  const auto det = [](const double a[3], const double b[3], const double c[3]) {
    return a[0] * (b[1] * c[2] - b[2] * c[1]) - b[0] * (a[1] * c[2] - a[2] * c[1]) +
           c[0] * (a[1] * b[2] - a[2] * b[1]);
  };
  double column[3][3];
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) column[j][i] = m[i][j];
  const double d = det(column[0], column[1], column[2]), v[3] = {0, cb, cr};
  if (std::abs(d) < 1e-9) return false;
  out[0] = det(v, column[1], column[2]) / d;
  out[1] = det(column[0], v, column[2]) / d;
  out[2] = det(column[0], column[1], v) / d;
  return true;
}

bool same_places(const Layout& a, const Layout& b) {
  if (a.planes != b.planes) return false;
  for (int i = 0; i < a.planes; i++) {
    const PlaneLayout &p = a.plane[i], &q = b.plane[i];
    if (p.pixel_step() != q.pixel_step() || p.sub_x != q.sub_x || p.sub_y != q.sub_y ||
        p.width != q.width || p.height != q.height)
      return false;
  }
  return true;
}

}  // namespace

GuidedParams::GuidedParams() {
  ycbcr_from_codes(ColorModel::rgb, ColorFormat(), 1, to_ycbcr);
}

MatteChannels matte_channels(const Layout& layout, const ColorFormat& format) {
  MatteChannels m;
  m.alpha = {};
  for (int p = 0; p < layout.planes; p++)
    for (int c = 0; c < layout.plane[p].channels; c++) {
      const Role role = format.role[p][c];
      if (role == Role::a)
        m.alpha = {p, c};
      else if (role != Role::none)
        m.color[index_of(role)] = {p, c};
    }
  return m;
}

MatteChannels composite_channels(const Layout& layout, const ColorFormat& format) {
  MatteChannels m = matte_channels(layout, format);
  if (m.alpha.plane >= 0) return m;
  const int p = m.color[0].plane;
  for (int c = 0; c < layout.plane[p].channels; c++)
    if (format.role[p][c] == Role::none) m.alpha = {p, c};
  return m;
}

void set_colors(const Layout& source, const ColorFormat& from, const Layout& destination,
                const ColorFormat& to, uint32_t key_color, uint32_t background,
                GuidedParams* params) {
  const ColorModel model = model_of(from), model_to = model_of(to);
  const int max = max_code(source), max_to = max_code(destination);
  const auto set = [&](uint32_t argb, double out[3]) {
    double code[4];
    encode_rounded(argb, model, from, max, code);
    for (int c = 0; c < 3; c++) out[c] = code[c] / max;
  };
  set(0xff000000, params->black);
  set(0xffffffff, params->white);
  set(0xff000000 | key_color, params->key_color);
  set(background, params->background);
  const bool opaque = matte_channels(destination, to).alpha.plane < 0;
  params->background_alpha = opaque ? 1 : (background >> 24) / 255.0;
  ycbcr_from_codes(model, from, max, params->to_ycbcr);
  for (auto& row : params->to_ycbcr)
    for (double& v : row) v *= max;
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 4; k++) params->convert[i][k] = i == k;
  if (model != ColorModel::yuv || model_to != ColorModel::rgb) return;
  const ColorMatrix convert = compose(encoding(model_to, to, max_to), decoding(model, from, max));
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 3; k++) params->convert[i][k] = convert.m[i][k] * max / max_to;
    params->convert[i][3] = convert.offset[i] / max_to;
  }
}

bool GuidedPlan::same_memory(const GuidedTask& a, const GuidedTask& b) {
  if (a.params.refine != b.params.refine) return false;
  return a.params.temporal > 0 && b.params.temporal > 0 && a.width == b.width &&
         a.height == b.height && a.params.subsample == b.params.subsample &&
         a.params.mask == b.params.mask && a.source.type == b.source.type && a.scale == b.scale &&
         a.from.colors == b.from.colors;
}

bool GuidedPlan::same_mask(const GuidedTask& a, const GuidedTask& b) {
  return a.params.mask == MatteMask::external && b.params.mask == MatteMask::external &&
         a.width == b.width && a.height == b.height;
}

bool key_has_hue(const GuidedParams& params) {
  double key[2];
  return key_chroma(params, key) >= kHue;
}

Status make_guided(Queue& queue, const Layout& source, const MatteChannels& from,
                   const Layout& destination, const MatteChannels& to, const GuidedParams& params,
                   Placement placement, std::unique_ptr<GuidedPlan>* out) {
  VF_TRY(validate(source));
  VF_TRY(validate(destination));
  VF_TRY(check(params));
  VF_TRY(check_type(source));
  if (destination.type != source.type || destination.shift != source.shift ||
      destination.max_value != source.max_value)
    return Status::invalid("source and destination have different types");
  if (from.colors != 1 && from.colors != 3)
    return Status::invalid("the guide has %d channels, but must have 1 or 3", from.colors);
  if (to.colors != 0 && to.colors != from.colors)
    return Status::invalid("the destination has %d colours, but must have 0 or %d", to.colors,
                           from.colors);
  const bool keyed = params.mask == MatteMask::chroma_key;
  if (from.colors == 1 && (keyed || params.despill > 0))
    return Status::invalid("%s needs a guide of 3 channels, but this one has 1",
                           keyed ? "mask=chroma-key" : "despill");
  Size size, size_to;
  const bool has_mask = params.mask == MatteMask::alpha;
  VF_TRY(check_channels(source, "the source", from, has_mask, &size));
  const bool opaque = params.output == MatteOutput::composite && to.colors && to.alpha.plane < 0;
  VF_TRY(check_channels(destination, "the destination", to, !opaque, &size_to));
  if (size.width != size_to.width || size.height != size_to.height)
    return Status::invalid("the source is %dx%d, but the destination is %dx%d", size.width,
                           size.height, size_to.width, size_to.height);
  const auto subsampled = [](const Layout& l, const Component& c) {
    return c.plane >= 0 && (l.plane[c.plane].sub_x || l.plane[c.plane].sub_y);
  };
  if ((has_mask && subsampled(source, from.alpha)) || subsampled(destination, to.alpha))
    return Status::invalid("the matte's plane must not be subsampled");
  bool converts = false;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++) converts = converts || params.convert[i][j] != double(i == j);
  converts = converts && to.colors > 0;
  if (converts && from.colors == 1)
    return Status::invalid("a conversion needs a guide of 3 channels, but this one has 1");
  for (int c = 0; c < to.colors; c++)
    if (converts && subsampled(destination, to.color[c]))
      return Status::invalid("a conversion needs a destination whose colours are not subsampled");
  if (placement == Placement::in_place && !same_places(source, destination))
    return Status::invalid("the layouts of source and destination do not allow work in place");
  const auto fill = [&](GuidedTask& task) {
    task.source = source;
    task.destination = destination;
    task.from = from;
    task.to = to;
    task.placement = placement;
    task.params = params;
    task.params.refine = refine_of(params.refine, params.mask);
    const bool colors = task.params.refine == MatteRefine::colors;
    task.layers = make_guided_layers(task.params, size.width, size.height, to.colors > 0);
    if (task.layers.blurs || opaque) task.params.background_alpha = 1;
    if (params.radius == 0)
      task.params.radius = colors ? GuidedParams::kColorsRadius : GuidedParams::kGuidedRadius;
    if (colors || task.layers.used())
      task.colors = make_guided_colors(params, size.width, size.height, from.colors);
    task.converts = converts;
    if (!has_mask) task.from.alpha = {};
    const int s = params.subsample;
    task.width = size.width;
    task.height = size.height;
    task.low_width = blocks_of(size.width, s);
    task.low_height = blocks_of(size.height, s);
    task.low_radius = std::max(1, (2 * task.params.radius + s) / (2 * s));
    task.unit = 1 << source.shift;
    task.scale = source.type == Type::f32 ? 1 : double(max_code(source)) * task.unit;
    const double length = key_chroma(params, task.key);
    if (length < kHue) task.params.despill = 0;
    if (task.params.despill > 0) {
      for (int i = 0; i < 2; i++) task.hue[i] = task.key[i] / length;
      if (!direction(params.to_ycbcr, task.hue[0], task.hue[1], task.spill))
        return Status::invalid("to-ycbcr is singular");
    }
    return Status();
  };
  return make_plan<GuidedTask>(queue, &BackendTable::guided, "guided matte", fill, out);
}

}  // namespace vf
