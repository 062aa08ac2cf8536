// Declares the row kernels of the CPU Gaussian. A thread calls them for one row at a time.
//
// A source row goes through three steps, which cpu/gaussian.cpp calls in turn:
//   convert     pixels of the source's type to a line of the type the sums are made in
//   horizontal  the horizontal sums of a line, kept in a slot of a ring of rows
//   vertical    the vertical sums over the slots, rounded and stored as rows of the source's type
//
// u8 works in 16-bit fixed point, and a slot holds two source rows if the kernel is large. u16, s16
// and f32 work in float, and s32 in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "filters/gaussian_task.h"

namespace vf::cpu {

// Holds the weights along one axis. Each kind of row kernels sets the fields that it needs.
struct GaussianAxis {
  int radius = 0;
  std::vector<float> f32;
  std::vector<double> f64;
  // The weights go from the centre outwards, in units of 1 / 65536. A radius of 0 has none, because
  // a weight of 1 does not fit.
  std::vector<uint16_t> half;
  // Weights in fixed point, which add up to exactly 1 << bits. An entry is a pair, with the first
  // weight in the low half and the next one in the high half. even[kPad] starts at weight 0 and
  // odd[kPad] at weight -1. All weights outside the kernel are 0.
  static constexpr int kPad = 2;
  int bits = 0;
  std::vector<int32_t> even, odd;
};

struct GaussianRows {
  int rows_per_slot;      // source rows that horizontal() combines into a slot
  size_t line_component;  // bytes of a component in a line

  // These return the bytes of a line of `pixels` + 2 * radius pixels, and of a slot of `pixels`.
  size_t (*line_bytes)(int pixels, int channels, int radius);
  size_t (*slot_bytes)(int pixels, int channels);

  // Converts `pixels` packed pixels and reads nothing behind them.
  void (*convert)(const void* row, int pixels, int channels, void* line);
  // Sums rows_per_slot lines of `pixels` + 2 * radius pixels each into a slot.
  void (*horizontal)(const void* const* line, const GaussianAxis& axis, int pixels, int channels,
                     void* slot);
  // Stores output rows 0 to `stored` - 1 at dst. Output i starts i rows below the first row of the
  // first slot. `outputs` is gaussian_outputs(radius), and gaussian_slots() slots are read.
  void (*vertical)(const void* const* slot, const GaussianAxis& axis, int pixels, int channels,
                   int shift, int outputs, int stored, void* const* dst);
  // Puts the packed pixels that vertical() stored for 3 channels into their order. Rows given to
  // vertical() then need room for one more pixel. It is null if no reordering is needed.
  void (*order)(const void* in, int pixels, void* out);
};

// Returns the number of rows that one call of vertical() makes. With more rows, a slot is loaded
// fewer times, but more products above and below a short kernel are wasted.
constexpr int gaussian_outputs(int radius) {
  return radius <= 2 ? 2 : 4;
}
constexpr int gaussian_slots(int radius, int rows_per_slot) {
  const int rows = 2 * radius + gaussian_outputs(radius);
  return blocks_of(rows, rows_per_slot);
}

// out[i] = the sum over k of weights[k] in[i + k step]. Both are touched up to one vector, of at most
// 64 bytes, beyond `count` values.
void gaussian_sums(const float* in, ptrdiff_t step, const float* weights, int taps, size_t count,
                   float* out);

// Returns the kernels for a plane on the best instruction set of this machine, and sets the plane's
// weights in their form. Outer weights that are too small to change a result are left out.
const GaussianRows& gaussian_rows(const Layout& layout, const GaussianPlane& plane, GaussianAxis* x,
                                  GaussianAxis* y);

}  // namespace vf::cpu
