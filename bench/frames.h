// The frames the benchmarks run on: their layouts by name, and what they are filled with.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "filters/image.h"

#ifdef __CUDACC__
#define VF_BOTH __host__ __device__
#else
#define VF_BOTH
#endif

namespace vf::bench {

// "u8 x4", "u8 x1+2" ...
inline std::string format_of(const Layout& l) {
  std::string text = std::string(name_of(l.type)) + " x";
  for (int p = 0; p < l.planes; p++) text += (p ? "+" : "") + std::to_string(l.plane[p].channels);
  return text;
}

inline Layout nv12_layout(int width, int height) {
  Layout l = packed_layout(Type::u8, 1, width, height);
  l.planes = 2;
  l.plane[1].width = (width + 1) / 2;
  l.plane[1].height = (height + 1) / 2;
  l.plane[1].channels = 2;
  l.plane[1].sub_x = l.plane[1].sub_y = 1;
  return l;
}

// 10 bits at the top of 16.
inline Layout p010_layout(int width, int height) {
  Layout l = nv12_layout(width, height);
  l.type = Type::u16;
  l.shift = 6;
  l.max_value = 1023;
  return l;
}

inline Layout i420_layout(int width, int height) {
  Layout l = nv12_layout(width, height);
  l.planes = 3;
  l.plane[1].channels = 1;
  l.plane[2] = l.plane[1];
  return l;
}

// The same layout for a frame `factor` times smaller.
inline Layout shrunk(const Layout& layout, int factor) {
  Layout l = layout;
  for (int p = 0; p < l.planes; p++) {
    PlaneLayout& q = l.plane[p];
    // The frame's size first, so that planes keep fitting each other.
    const int width = ((q.width << q.sub_x) + factor - 1) / factor;
    const int height = ((q.height << q.sub_y) + factor - 1) / factor;
    q.width = (width + (1 << q.sub_x) - 1) >> q.sub_x;
    q.height = (height + (1 << q.sub_y) - 1) >> q.sub_y;
  }
  return l;
}

// Bytes of components: what a filter that reads everything once must read.
inline size_t payload(const Layout& l) {
  size_t bytes = 0;
  for (int p = 0; p < l.planes; p++) bytes += row_bytes(l, p) * size_t(l.plane[p].height);
  return bytes;
}

VF_BOTH inline uint32_t scatter(uint32_t v) {
  v ^= v >> 16;
  v *= 0x7feb352du;
  v ^= v >> 15;
  v *= 0x846ca68bu;
  return v ^ (v >> 16);
}

// A component of a textured random frame, 0 to 65535: slopes, edges, noise and a few extremes, so
// that no filter meets easy data. Another picture for every seed.
VF_BOTH inline uint32_t texture(int plane, int x, int y, int channel, uint32_t seed) {
  const uint32_t noise = scatter(uint32_t(x) * 4u + uint32_t(channel) +
                                 scatter(uint32_t(y) * 4u + uint32_t(plane) + scatter(seed)));
  if ((noise & 63) == 0) return noise & 64 ? 65535u : 0u;
  const uint32_t slope =
      (uint32_t(x) * 97u + uint32_t(y) * 61u + uint32_t(channel) * 9001u + seed * 13007u) & 0xffffu;
  const uint32_t hill = slope < 0x8000u ? slope : 0xffffu - slope;
  const uint32_t tile = (uint32_t(x) / 37u + uint32_t(y) / 29u + uint32_t(plane) + seed) & 1u;
  return hill + tile * 16384u + (noise >> 18);
}

// Writes a texture value as a component of `layout`.
template <class T>
VF_BOTH inline T as_component(uint32_t texture, int shift, int max_value);
template <>
VF_BOTH inline uint8_t as_component<uint8_t>(uint32_t v, int, int) {
  return uint8_t(v >> 8);
}
template <>
VF_BOTH inline uint16_t as_component<uint16_t>(uint32_t v, int shift, int max_value) {
  return uint16_t(max_value ? (v * (uint32_t(max_value) + 1) >> 16) << shift : v >> shift << shift);
}
template <>
VF_BOTH inline int16_t as_component<int16_t>(uint32_t v, int, int) {
  return int16_t(int(v) - 32768);
}
template <>
VF_BOTH inline int32_t as_component<int32_t>(uint32_t v, int, int) {
  return (int32_t(v) - 32768) * 65536;
}
template <>
VF_BOTH inline float as_component<float>(uint32_t v, int, int) {
  return float(v) / 65535.0f;
}

// f(T{}) with T the component's type.
template <class F>
auto with_type(Type type, F&& f) {
  switch (type) {
    case Type::u8:
      return f(uint8_t{});
    case Type::u16:
      return f(uint16_t{});
    case Type::s16:
      return f(int16_t{});
    case Type::s32:
      return f(int32_t{});
    case Type::f32:
      break;
  }
  return f(float{});
}

// A poisoned frame in host memory.
class HostFrame {
 public:
  explicit HostFrame(const Layout& layout) {
    size_t at[kMaxPlanes] = {}, total = 0;
    image_.layout = layout;
    for (int p = 0; p < layout.planes; p++) {
      image_.stride[p] = ptrdiff_t((row_bytes(layout, p) + 63) / 64 * 64);
      at[p] = total;
      total += size_t(image_.stride[p]) * size_t(layout.plane[p].height);
    }
    memory_.reset(std::aligned_alloc(64, total));
    if (!memory_) throw std::bad_alloc();
    std::memset(memory_.get(), 0xa5, total);
    for (int p = 0; p < layout.planes; p++)
      image_.data[p] = static_cast<uint8_t*>(memory_.get()) + at[p];
  }
  const Image& image() const { return image_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  Image image_;
};

// How far a result is from what is wanted.
struct Difference {
  double largest =
      0;             // in code values, after the shift; infinite where one is NaN and not the other
  double equal = 0;  // share of components, 0 to 1
  double magnitude = 0;  // largest absolute value wanted
};

}  // namespace vf::bench
