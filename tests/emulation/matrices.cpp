// Emulates tensor cores. This file takes most of the Gaussian kernels' time, so it is compiled with
// optimisation.
#include <cuda_fp16.h>

#include "tests/emulation/threads.h"

namespace vf::emulation {

void multiply_matrices(Exchange* const* of) {
  require_all(of);
  double left[16][16], right[16][8], sums[16][8];
  for (int lane = 0; lane < 32; lane++) {
    const auto& e = *static_cast<const Multiply*>(of[lane]);
    const int g = lane / 4, t = 2 * (lane % 4);
    for (int half = 0; half < 2; half++) {
      for (int i = 0; i < 4; i++)
        left[g + 8 * (i & 1)][t + half + 8 * (i >> 1)] = half_value(e.a[i] >> (16 * half) & 0xffff);
      for (int i = 0; i < 2; i++)
        right[t + half + 8 * i][g] = half_value(e.b[i] >> (16 * half) & 0xffff);
    }
    for (int i = 0; i < 4; i++) sums[g + 8 * (i >> 1)][t + (i & 1)] = double(e.first[i]);
  }
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < 16; k++)
      for (int column = 0; column < 8; column++)
        sums[row][column] += left[row][k] * right[k][column];
  for (int lane = 0; lane < 32; lane++) {
    const auto& e = *static_cast<const Multiply*>(of[lane]);
    const int g = lane / 4, t = 2 * (lane % 4);
    for (int i = 0; i < 4; i++) e.sums[i] = float(sums[g + 8 * (i >> 1)][t + (i & 1)]);
  }
}

void multiply_byte_matrices(Exchange* const* of) {
  require_all(of);
  int left[16][32], right[32][8], sums[16][8];
  for (int lane = 0; lane < 32; lane++) {
    const auto& e = *static_cast<const MultiplyBytes*>(of[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int byte = 0; byte < 4; byte++) {
      for (int i = 0; i < 4; i++) {
        const auto v = uint8_t(e.a[i] >> (8 * byte));
        left[g + 8 * (i & 1)][4 * t + byte + 16 * (i >> 1)] = e.is_signed ? int8_t(v) : v;
      }
      for (int i = 0; i < 2; i++) right[4 * t + byte + 16 * i][g] = uint8_t(e.b[i] >> (8 * byte));
    }
    for (int i = 0; i < 4; i++) sums[g + 8 * (i >> 1)][2 * t + (i & 1)] = e.sums[i];
  }
  for (int row = 0; row < 16; row++)
    for (int k = 0; k < 32; k++)
      for (int column = 0; column < 8; column++)
        sums[row][column] += left[row][k] * right[k][column];
  for (int lane = 0; lane < 32; lane++) {
    const auto& e = *static_cast<const MultiplyBytes*>(of[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) e.sums[i] = sums[g + 8 * (i >> 1)][2 * t + (i & 1)];
  }
}

}  // namespace vf::emulation
