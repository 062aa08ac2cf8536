// Checks the denoiser's parameters.
#include "filters/denoise.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "filters/backend.h"
#include "filters/denoise_math.h"
#include "filters/denoise_task.h"
#include "filters/motion_task.h"

namespace vf {
namespace {

Status check(const DenoiseParams& p) {
  VF_TRY(check_limits("noise", p.noise, DenoiseParams::kNoise));
  VF_TRY(check_limits("strength", p.strength, DenoiseParams::kStrength));
  VF_TRY(check_limits("temporal", p.temporal, DenoiseParams::kTemporal));
  VF_TRY(check_limits("spatial", p.spatial, DenoiseParams::kSpatial));
  return check_limits("look-ahead", p.look_ahead, DenoiseParams::kLookAhead);
}

Status find_colors(const Layout& l, const ColorFormat& color, DenoiseChannels* out) {
  const ColorModel model = model_of(color);
  out->rgb = model == ColorModel::rgb;
  out->colors = model == ColorModel::gray ? 1 : 3;
  for (int p = 0; p < l.planes; p++)
    for (int c = 0; c < l.plane[p].channels; c++) {
      const Role role = color.role[p][c];
      const int i = index_of(role);
      if (role == Role::none || i >= out->colors) continue;
      if (out->color[i].plane >= 0)
        return Status::invalid("there are two components %s", name_of(role));
      out->color[i] = {p, c};
    }
  for (int c = 0; c < out->colors; c++)
    if (out->color[c].plane < 0)
      return Status::invalid("the layout has no colours, or not all of them");
  return {};
}

Status check(const Layout& l, const DenoiseChannels& m) {
  if (l.type != Type::u8 && l.type != Type::u16)
    return Status::invalid("the type is %s, but it must be u8 or u16", name_of(l.type));
  const PlaneLayout& luma = l.plane[m.color[0].plane];
  if (luma.sub_x || luma.sub_y)
    return Status::invalid("the first colour's plane must not be subsampled");
  for (int c = 1; c < m.colors; c++) {
    const PlaneLayout &p = l.plane[m.color[c].plane], &first = l.plane[m.color[1].plane];
    const int most = m.rgb ? 0 : 1;
    if (p.sub_x > most || p.sub_y > most || p.sub_x != first.sub_x || p.sub_y != first.sub_y)
      return Status::error(Code::unsupported,
                           "plane %d is subsampled by 2^%d x 2^%d: colours are "
                           "to be sampled alike, and by at most %d",
                           m.color[c].plane, p.sub_x, p.sub_y, 1 << most);
    const int w = (luma.width + p.sub_x) >> p.sub_x, h = (luma.height + p.sub_y) >> p.sub_y;
    // The fields of an interlaced frame may have a row of chroma more or less.
    if (p.width != w || std::abs(p.height - h) > 1)
      return Status::invalid("plane %d is %dx%d, but it must be %dx%d", m.color[c].plane, p.width,
                             p.height, w, h);
  }
  return {};
}

}  // namespace

bool is_identity(const DenoiseParams& p) {
  const auto is_zero = [](uint8_t channels) { return channels == 0; };
  if (std::all_of(p.channels, p.channels + kMaxPlanes, is_zero)) return true;
  return p.strength == 0 || (p.temporal == 1 && p.spatial == 0);
}

DenoisePlan::DenoisePlan(Queue& queue, const DenoiseTask& task, Placement placement)
    : Plan(queue, task.layout, task.layout, placement), look_ahead_(task.params.look_ahead) {}

Status DenoisePlan::set_later(const Image* later, int count) {
  later_.count = 0;
  VF_TRY(check_limits("the number of later frames", count, Limits<int>{0, look_ahead_}));
  const Memory memory = queue_.backend() == Backend::cuda ? Memory::device : Memory::host;
  for (int i = 0; i < count; i++) {
    if (later[i].layout != source() || later[i].memory != memory)
      return Status::invalid("a later frame has another layout or memory than the plan's frames");
    VF_TRY(validate(later[i]));
    later_.frame[i] = later[i];
  }
  later_.count = count;
  return {};
}

DenoisePlan::Later DenoisePlan::take_later() {
  return std::exchange(later_, {});
}

bool DenoisePlan::same_memory(const DenoiseTask& a, const DenoiseTask& b) {
  bool same = a.layout == b.layout && a.from.colors == b.from.colors && a.from.rgb == b.from.rgb;
  for (int c = 0; c < a.from.colors; c++)
    same = same && a.from.color[c].plane == b.from.color[c].plane &&
           a.from.color[c].channel == b.from.color[c].channel;
  return same;
}

MotionPicture luma_picture(const DenoiseTask& t, const Image& frame) {
  return picture_of(frame, t.from.color, t.from.rgb ? 3 : 1);
}

MotionPicture state_picture(const uint16_t* luma, int pitch) {
  MotionPicture p;
  p.type = Type::u16;
  p.depth = 16;
  p.data[0] = luma;
  p.stride[0] = pitch * ptrdiff_t(sizeof(uint16_t));
  return p;
}

Status make_denoise(Queue& queue, const Layout& layout, const ColorFormat& color,
                    const DenoiseParams& params, Placement placement,
                    std::unique_ptr<DenoisePlan>* out) {
  VF_TRY(validate(layout));
  VF_TRY(check(params));
  DenoiseChannels channels;
  VF_TRY(find_colors(layout, color, &channels));
  VF_TRY(check(layout, channels));
  const int depth = depth_of(layout);
  if (depth < 8 || depth + layout.shift > 8 * size_of(layout.type))
    return Status::invalid("%d bits are in use, but there must be 8 to %d", depth,
                           8 * size_of(layout.type) - layout.shift);
  const auto fill = [&](DenoiseTask& task) {
    task.layout = layout;
    task.from = channels;
    task.placement = placement;
    task.params = params;
    task.depth = depth;
    const PlaneLayout& luma = layout.plane[channels.color[0].plane];
    task.width = luma.width;
    task.height = luma.height;
    task.blocks_x = (luma.width + 1) / 2;
    task.blocks_y = (luma.height + 1) / 2;
    bool any = false;
    for (int c = 0; c < channels.colors; c++) {
      const Component& at = channels.color[c];
      task.per_block_x[c] = layout.plane[at.plane].sub_x ? 1 : 2;
      task.per_block_y[c] = layout.plane[at.plane].sub_y ? 1 : 2;
      task.writes[c] = params.channels[at.plane] >> at.channel & 1;
      any = any || task.writes[c];
    }
    if (channels.rgb) std::fill_n(task.writes, 3, any);
    for (int c = 0; c < channels.colors && params.noise >= 0; c++) {
      const double v = params.noise * params.noise;
      task.fixed_variance[c] = std::max(float(channels.rgb ? v * denoise::kRgbVariance[c] : v),
                                        denoise::least_variance(depth));
    }
    if (channels.rgb) task.level_scale = 1 / denoise::kRgbVariance[0];
    task.strength2 = float(params.strength * params.strength);
    task.least_gain = float(1.0 / params.temporal);
    return Status();
  };
  return make_plan<DenoiseTask>(queue, &BackendTable::denoise, "denoiser", fill, out);
}

}  // namespace vf
