// The row kernels of the CPU Gaussian: what one thread does to one row at a time.
//
// A source row goes through three steps, and cpu/gaussian.cpp strings them together:
//   convert     pixels of the source's type to a line of the type the sums are made in
//   horizontal  the horizontal sums of a line, kept in a slot of a ring of rows
//   vertical    the vertical sums over the slots, rounded and stored as rows of the source's type
//
// u8 works in 16-bit fixed point, with two source rows to a slot where the kernel is large; u16,
// s16 and f32 work in float and s32 in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "filters/gaussian_task.h"

namespace vf::cpu {

// The weights along one axis as the row kernels want them; which of these are set is theirs.
struct GaussianAxis {
  int radius = 0;
  std::vector<float> f32;
  std::vector<double> f64;
  // The centre and outwards, in units of 1 / 65536. Not for a radius of 0: one does not fit.
  std::vector<uint16_t> half;
  // Fixed point: the weights add up to 1 << bits exactly. They are read as pairs, an even one in
  // the low half and the next one in the high half of an entry; even[kPad] starts at weight 0,
  // odd[kPad] at weight -1, and all weights outside the kernel are 0.
  static constexpr int kPad = 2;
  int bits = 0;
  std::vector<int32_t> even, odd;
};

struct GaussianRows {
  int rows_per_slot;      // source rows that horizontal() combines into a slot
  size_t line_component;  // bytes of a component in a line

  // Bytes of a line of `pixels` + 2 * radius pixels, and of a slot of `pixels`.
  size_t (*line_bytes)(int pixels, int channels, int radius);
  size_t (*slot_bytes)(int pixels, int channels);

  // `pixels` pixels, packed. Reads nothing behind them.
  void (*convert)(const void* row, int pixels, int channels, void* line);
  // Of the line of `pixels` + 2 * radius pixels to each of the lines, rows_per_slot of them.
  void (*horizontal)(const void* const* line, const GaussianAxis& axis, int pixels, int channels,
                     void* slot);
  // Rows of output 0 to `stored` - 1 go to dst; output i starts i rows below the first of the
  // first slot. `outputs` is gaussian_outputs(radius), and gaussian_slots() are read.
  void (*vertical)(const void* const* slot, const GaussianAxis& axis, int pixels, int channels,
                   int shift, int outputs, int stored, void* const* dst);
  // Null, or brings the packed pixels that vertical() stored for 3 channels into their order; then
  // rows given to vertical() have room for one pixel more.
  void (*order)(const void* in, int pixels, void* out);
};

// Rows that one call of vertical() makes: the more, the fewer times a slot is loaded, and the more
// products are made in vain above and below a short kernel.
constexpr int gaussian_outputs(int radius) {
  return radius <= 2 ? 2 : 4;
}
constexpr int gaussian_slots(int radius, int rows_per_slot) {
  const int rows = 2 * radius + gaussian_outputs(radius);
  return (rows + rows_per_slot - 1) / rows_per_slot;
}

// The kernels for a plane on the best instruction set of this machine, and the plane's weights as
// they want them: without the outer ones, as far as they are too small for the type to notice.
const GaussianRows& gaussian_rows(const Layout& layout, const GaussianPlane& plane, GaussianAxis* x,
                                  GaussianAxis* y);

}  // namespace vf::cpu
