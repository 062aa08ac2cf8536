#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "filters/backend.h"
#include "filters/border.h"

namespace vf::test {

const BackendTable* reference_backend();

#define VF_FILTER(stem, task, plan) \
  Status reference_##stem(Queue& queue, const task&, std::unique_ptr<plan>* out);
#include "filters/filters.def"

// The index inside [0, n) that `border` shows at i; -1 where no pixel is seen (constant, shrink).
int reference_border_index(int i, int n, Border border);

inline void* component(const Image& image, int plane, int x, int y, int channel) {
  const PlaneLayout& p = image.layout.plane[plane];
  return static_cast<char*>(image.data[plane]) + y * image.stride[plane] +
         (ptrdiff_t(x) * p.pixel_step() + channel) * size_of(image.layout.type);
}

// A component as it is in memory, shift included.
inline double read(const Image& image, int plane, int x, int y, int channel) {
  const void* at = component(image, plane, x, y, channel);
  const auto load = [&](auto v) {
    std::memcpy(&v, at, sizeof v);
    return double(v);
  };
  switch (image.layout.type) {
    case Type::u8:
      return load(uint8_t{});
    case Type::u16:
      return load(uint16_t{});
    case Type::s16:
      return load(int16_t{});
    case Type::s32:
      return load(int32_t{});
    case Type::f32:
      return load(float{});
  }
  return 0;
}

// Writes a component as it is in memory: rounded to nearest (to a multiple of 1 << shift) and
// clamped to the type for integers.
inline void write(const Image& image, int plane, int x, int y, int channel, double value) {
  void* at = component(image, plane, x, y, channel);
  const auto store = [&](auto v) {
    using T = decltype(v);
    const double unit = 1 << image.layout.shift;
    const double low = std::numeric_limits<T>::min();
    const double high = std::floor(std::numeric_limits<T>::max() / unit) * unit;
    v = T(std::fmin(high, std::fmax(low, std::floor(value / unit + 0.5) * unit)));
    std::memcpy(at, &v, sizeof v);
  };
  switch (image.layout.type) {
    case Type::u8:
      store(uint8_t{});
      break;
    case Type::u16:
      store(uint16_t{});
      break;
    case Type::s16:
      store(int16_t{});
      break;
    case Type::s32:
      store(int32_t{});
      break;
    case Type::f32: {
      const float v = float(value);
      std::memcpy(at, &v, sizeof v);
      break;
    }
  }
}

}  // namespace vf::test
