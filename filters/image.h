// Describes frames as filters see them: up to four planes of interleaved components.
//
// A Layout is what a plan is made for: component type and the shape of each plane. An Image adds
// pointers and strides, and is what a plan runs on. Neither owns memory.
//
// Video formats map onto planes as follows:
//   packed RGBA, AYUV ...   1 plane of 4 channels
//   I420, Y42B, RGBP ...    3 planes of 1 channel; chroma planes have sub_x / sub_y set
//   NV12, P010              2 planes, of 1 and of 2 channels
//   YUY2, UYVY              3 planes that share memory, 1 channel each, `step` 2, 4 and 4
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "filters/status.h"

namespace vf {

constexpr int kMaxPlanes = 4;
constexpr int kMaxChannels = 4;
constexpr int kMaxDimension = 1 << 20;  // pixels, either way

enum class Type : uint8_t { u8, u16, s16, s32, f32 };

constexpr int size_of(Type t) {
  return t == Type::u8 ? 1 : t == Type::u16 || t == Type::s16 ? 2 : 4;
}
const char* name_of(Type t);  // "u8" ...

enum class Memory : uint8_t { host, device };

// Returns how many blocks of `size` cover `n`.
template <class T>
constexpr T blocks_of(T n, std::common_type_t<T> size) {
  return (n + size - 1) / size;
}
// Returns the smallest multiple of `size` that is at least `n`.
template <class T>
constexpr T round_up(T n, std::common_type_t<T> size) {
  return blocks_of(n, size) * size;
}

struct PlaneLayout {
  int width = 0;     // pixels, 1 to kMaxDimension
  int height = 0;    // rows, 1 to kMaxDimension
  int channels = 1;  // 1 to 4 components a pixel, next to each other
  int step = 0;      // components from one pixel to the next; 0 means `channels`
  int sub_x = 0;     // log2 of the horizontal subsampling against the frame, 0 to 3
  int sub_y = 0;     // log2 of the vertical one
  int pixel_step() const { return step ? step : channels; }
};

struct Layout {
  Type type = Type::u8;
  // Number of unused low bits of a component: 6 for P010, which has 10 bits at the top of 16.
  // Results are rounded to multiples of 1 << shift, so that unused bits stay zero. Types other than
  // u16 have 0.
  int shift = 0;
  // Largest code value of an integer component before the shift: 1023 for I420_10LE and P010. 0
  // means all bits of the type. Only values that a filter makes itself (fills, border colours) are
  // checked against it.
  int max_value = 0;
  int planes = 0;  // 1 to 4
  PlaneLayout plane[kMaxPlanes];
};

bool operator==(const PlaneLayout& a, const PlaneLayout& b);
bool operator==(const Layout& a, const Layout& b);
inline bool operator!=(const Layout& a, const Layout& b) {
  return !(a == b);
}

// Returns a layout of one plane of `width` x `height` pixels.
Layout packed_layout(Type type, int channels, int width, int height);

Status validate(const Layout& layout);
// Refuses components other than u8, u16 and f32.
Status check_type(const Layout& layout);

// Returns whether the `channels` of a filter's parameters select no channel of any plane.
inline bool selects_nothing(const uint8_t (&channels)[kMaxPlanes]) {
  for (const uint8_t c : channels)
    if (c) return false;
  return true;
}

// Checks a value that a caller wants in the picture (a fill, a border colour). It must be a code
// value of integer components, or finite for f32. The message calls it `name`.
Status check_value(const Layout& layout, const char* name, double value);

struct Image {
  Layout layout;
  Memory memory = Memory::host;
  // Address of the first component of each plane's top left pixel, aligned to the component's size.
  // The fastest kernels need addresses and strides that are multiples of 16 bytes.
  void* data[kMaxPlanes] = {};
  // The bytes from one row to the next are at least a row's length, and a multiple of the
  // component's size.
  ptrdiff_t stride[kMaxPlanes] = {};
};

// Checks pointers, alignment and strides.
Status validate(const Image& image);

// Returns the bytes of a row from its first to its last component.
size_t row_bytes(const Layout& layout, int plane);

// Scales the odd `size` of a window, given in pixels of the frame, to a plane that is subsampled by
// 2^sub along that axis. A size above 1 stays at least 3.
int plane_size(int size, int sub);

}  // namespace vf
