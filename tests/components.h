// Reads the components of an image in host memory as numbers.
#pragma once

#include <cstring>

#include "filters/image.h"

namespace vf::test {

// All functions are always inlined. The reference is built without sanitizers, and the linker must
// not give it copies that are built with them.

// Calls f(T()), where T is the C++ type of a component.
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

// Loads a component, which need not be aligned.
template <class T>
[[gnu::always_inline]] inline T load(const void* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

// Returns a component as stored, with its shift.
[[gnu::always_inline]] inline double read(const Image& image, int plane, int x, int y,
                                          int channel) {
  return with_type(image.layout.type, [&](auto v) {
    return double(load<decltype(v)>(component(image, plane, x, y, channel)));
  });
}

// Calls f(plane, x, y, count) for each run of `count` adjacent components from pixel x on. A run is
// a row, or a pixel if there are gaps between pixels.
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
