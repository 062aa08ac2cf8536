// Components of an image in host memory, as numbers.
#pragma once

#include <cstring>

#include "filters/image.h"

namespace vf::test {

// All of these are inlined always: the reference is built without sanitizers and must not be given
// the copies of what is built with them.

// f(T()) with T the C++ type of a component.
template <class F>
[[gnu::always_inline]] inline auto with_type(Type type, F&& f) {
  switch (type) {
    case Type::u8:
      return f(uint8_t());
    case Type::u16:
      return f(uint16_t());
    case Type::s16:
      return f(int16_t());
    case Type::s32:
      return f(int32_t());
    case Type::f32:
      break;
  }
  return f(float());
}

[[gnu::always_inline]] inline void* component(const Image& image, int plane, int x, int y,
                                              int channel) {
  const PlaneLayout& p = image.layout.plane[plane];
  return static_cast<uint8_t*>(image.data[plane]) + y * image.stride[plane] +
         (ptrdiff_t(x) * p.pixel_step() + channel) * size_of(image.layout.type);
}

// Nothing says that a component is aligned.
template <class T>
[[gnu::always_inline]] inline T load(const void* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

// A component as it is in memory, shift included.
[[gnu::always_inline]] inline double read(const Image& image, int plane, int x, int y,
                                          int channel) {
  return with_type(image.layout.type, [&](auto v) {
    return double(load<decltype(v)>(component(image, plane, x, y, channel)));
  });
}

// f(plane, x, y, count) for each run of `count` components that lie side by side from pixel x on:
// rows, or pixels where they are further apart than their components.
template <class F>
[[gnu::always_inline]] inline void for_each_run(const Image& image, F&& f) {
  for (int p = 0; p < image.layout.planes; p++) {
    const PlaneLayout& l = image.layout.plane[p];
    const bool whole = l.pixel_step() == l.channels;
    for (int y = 0; y < l.height; y++)
      for (int x = 0; x < (whole ? 1 : l.width); x++)
        f(p, x, y, whole ? l.width * l.channels : l.channels);
  }
}

}  // namespace vf::test
