#include "filters/guided_mask.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vf {
namespace {

constexpr int kPosition = 8 + MaskAxis::kShift;  // bits of a position below a pixel of the part

// Maps a frame of `frame` pixels to `size` pixels that cover [from, to] and count in [begin, end].
// `touches` becomes false if that is outside of the frame.
Status make_axis(const char* name, int size, double from, double to, double begin, double end,
                 int frame, MaskAxis* axis, bool* touches) {
  if (!std::isfinite(from) || !std::isfinite(to) || !(to > from) || !std::isfinite(begin) ||
      !std::isfinite(end))
    return Status::invalid(
        "a mask's %s edges are %g and %g, but they must be numbers, the second "
        "above the first",
        name, from, to);
  const double scale = size / (to - from), start = -from * scale - 0.5;
  // The integers have room for this many pixels.
  constexpr double room = 1 << 30;
  if (!(std::abs(start) <= room) || !(scale * frame <= room))
    return Status::invalid(
        "a mask's %s edges are %g and %g, which is too far from a frame of %d pixels, or too "
        "near to each other",
        name, from, to, frame);
  begin = std::clamp(begin, 0.0, double(frame));
  end = std::clamp(end, 0.0, double(frame));
  axis->first = int(std::ceil(2 * begin));
  axis->last = int(std::ceil(2 * end)) - 1;
  *touches = axis->first <= axis->last;
  axis->step = std::llround(std::ldexp(scale, kPosition - 1));
  axis->start = std::llround(std::ldexp(start, kPosition)) + (int64_t(1) << (MaskAxis::kShift - 1));
  // The pixels whose centres count; edges that are meant to be between two pixels may be off by
  // rounding.
  constexpr double slack = 1e-6;
  const double minimum = std::ceil((begin - from) * scale - 0.5 - slack);
  const double maximum = std::floor((end - from) * scale - 0.5 + slack);
  const double middle = std::floor(((begin + end) / 2 - from) * scale);
  const auto pixel = [&](double v) { return 256 * int(std::clamp(v, 0.0, size - 1.0)); };
  axis->minimum = pixel(minimum <= maximum ? minimum : middle);
  axis->maximum = std::max(axis->minimum, pixel(minimum <= maximum ? maximum : middle));
  return {};
}

}  // namespace

Status place_mask(const CoarseMask& mask, int width, int height, PlacedMask* placed) {
  if (mask.parts < 0 || mask.parts > CoarseMask::kMaxParts)
    return Status::invalid("a mask has %d parts, but must have 0 to %d", mask.parts,
                           CoarseMask::kMaxParts);
  placed->count = 0;
  size_t bytes = 0;
  bool has_errors = false;
  for (int i = 0; i < mask.parts; i++) {
    const MaskPart& p = mask.part[i];
    VF_TRY(check_limits("a mask's width", p.width, MaskPart::kSize));
    VF_TRY(check_limits("a mask's height", p.height, MaskPart::kSize));
    if (!p.data || p.stride < p.width)
      return Status::invalid("a mask's stride is %td, but it must be %d or more", p.stride,
                             p.width);
    MaskPlace& place = placed->place[placed->count];
    bool on_x = false, on_y = false;
    VF_TRY(make_axis("left and right", p.width, p.image.left, p.image.right, p.counts.left,
                     p.counts.right, width, &place.x, &on_x));
    VF_TRY(make_axis("top and bottom", p.height, p.image.top, p.image.bottom, p.counts.top,
                     p.counts.bottom, height, &place.y, &on_y));
    if (!on_x || !on_y) continue;
    placed->part[placed->count++] = i;
    place.at = uint32_t(bytes);
    place.pitch = p.width;
    bytes += size_t(p.width) * p.height;
    has_errors |= p.error != nullptr;
    if (bytes > CoarseMask::kMaxBytes)
      return Status::invalid("a mask has more than %zu bytes", CoarseMask::kMaxBytes);
  }
  const size_t places = placed->count * sizeof(MaskPlace);
  for (int i = 0; i < placed->count; i++) placed->place[i].at += uint32_t(places);
  placed->errors = has_errors ? bytes : 0;
  placed->bytes = places + bytes + placed->errors;
  return {};
}

void pack_mask(const CoarseMask& mask, const PlacedMask& placed, uint8_t* memory) {
  if (!placed.count) return;  // there may be no memory
  std::memcpy(memory, placed.place, placed.count * sizeof(MaskPlace));
  for (int i = 0; i < placed.count; i++) {
    const MaskPart& p = mask.part[placed.part[i]];
    const auto copy = [&](const uint8_t* image, uint8_t* to) {
      for (int y = 0; y < p.height; y++, to += p.width)
        if (image)
          std::memcpy(to, image + y * p.stride, size_t(p.width));
        else
          std::memset(to, 255, size_t(p.width));
    };
    uint8_t* const to = memory + placed.place[i].at;
    copy(p.data, to);
    if (placed.errors) copy(p.error, to + placed.errors);
  }
}

}  // namespace vf
