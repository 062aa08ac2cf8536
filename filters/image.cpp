#include "filters/image.h"

#include <algorithm>
#include <cmath>

#include "filters/color.h"

namespace vf {

const char* name_of(Type t) {
  constexpr const char* names[] = {"u8", "u16", "s16", "s32", "f32"};
  return names[int(t)];
}

bool operator==(const PlaneLayout& a, const PlaneLayout& b) {
  return a.width == b.width && a.height == b.height && a.channels == b.channels &&
         a.pixel_step() == b.pixel_step() && a.sub_x == b.sub_x && a.sub_y == b.sub_y;
}

bool operator==(const Layout& a, const Layout& b) {
  if (a.type != b.type || a.shift != b.shift || a.max_value != b.max_value || a.planes != b.planes)
    return false;
  for (int p = 0; p < a.planes; p++)
    if (!(a.plane[p] == b.plane[p])) return false;
  return true;
}

Layout packed_layout(Type type, int channels, int width, int height) {
  Layout l;
  l.type = type;
  l.planes = 1;
  l.plane[0].width = width;
  l.plane[0].height = height;
  l.plane[0].channels = channels;
  return l;
}

Status validate(const Layout& l) {
  if (l.planes < 1 || l.planes > kMaxPlanes)
    return Status::invalid("planes is %d, but it must be 1 to %d", l.planes, kMaxPlanes);
  if (l.shift < 0 || l.shift > 15 || (l.shift && l.type != Type::u16))
    return Status::invalid("shift is %d for %s, but it must be 0, or 0 to 15 for u16", l.shift,
                           name_of(l.type));
  for (int i = 0; i < l.planes; i++) {
    const PlaneLayout& p = l.plane[i];
    if (p.width < 1 || p.height < 1 || p.width > kMaxDimension || p.height > kMaxDimension)
      return Status::invalid("plane %d is %dx%d, but it must be 1x1 to %dx%d", i, p.width, p.height,
                             kMaxDimension, kMaxDimension);
    if (p.channels < 1 || p.channels > kMaxChannels)
      return Status::invalid("plane %d has %d channels, but must have 1 to %d", i, p.channels,
                             kMaxChannels);
    if (p.step < 0 || p.step > 16 || (p.step && p.step < p.channels))
      return Status::invalid(
          "plane %d has the step %d, but it must be 0, or %d (its channels) to 16", i, p.step,
          p.channels);
    if (p.sub_x < 0 || p.sub_x > 3 || p.sub_y < 0 || p.sub_y > 3)
      return Status::invalid("plane %d is subsampled by 2^%d x 2^%d, but it must be 2^0 to 2^3", i,
                             p.sub_x, p.sub_y);
  }
  return {};
}

Status check_type(const Layout& l) {
  if (l.type == Type::u8 || l.type == Type::u16 || l.type == Type::f32) return {};
  return Status::invalid("type is %s, but it must be u8, u16 or f32", name_of(l.type));
}

size_t row_bytes(const Layout& l, int plane) {
  const PlaneLayout& p = l.plane[plane];
  return (size_t(p.width - 1) * p.pixel_step() + p.channels) * size_of(l.type);
}

Status validate(const Image& image) {
  VF_TRY(validate(image.layout));
  const int size = size_of(image.layout.type);
  for (int i = 0; i < image.layout.planes; i++) {
    if (!image.data[i]) return Status::invalid("plane %d has no data", i);
    if (reinterpret_cast<uintptr_t>(image.data[i]) % size || image.stride[i] % size)
      return Status::invalid("plane %d is not aligned to its %d-byte components", i, size);
    const size_t row = row_bytes(image.layout, i);
    if (image.stride[i] < 0 || size_t(image.stride[i]) < row)
      return Status::invalid("plane %d has a stride of %td bytes, but a row has %zu", i,
                             image.stride[i], row);
  }
  return {};
}

Status check_value(const Layout& l, const char* name, double value) {
  if (l.type == Type::f32) {
    if (std::isfinite(value)) return {};
    return Status::invalid("%s is %g, but it must be finite", name, value);
  }
  double low = 0, high = max_code(l);
  if (l.type == Type::s16) low = -32768, high = 32767;
  if (l.type == Type::s32) low = -2147483648.0, high = 2147483647.0;
  if (value >= low && value <= high) return {};
  return Status::invalid("%s is %g, but it must be %.10g to %.10g", name, value, low, high);
}

int plane_size(int size, int sub) {
  const int radius = size / 2;
  return 2 * std::max((radius + (1 << sub) / 2) >> sub, std::min(radius, 1)) + 1;
}

}  // namespace vf
