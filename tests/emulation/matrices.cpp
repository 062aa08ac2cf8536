// Emulates tensor cores. This file takes most of the Gaussian kernels' time, so it is compiled with
// optimisation.
#include <cuda_fp16.h>

#include <algorithm>

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
  for (int row = 0; row < 16; row++) {
    double sum[8];  // the compiler keeps a row in registers
    std::copy_n(sums[row], 8, sum);
    for (int k = 0; k < 16; k++)
      for (int column = 0; column < 8; column++) sum[column] += left[row][k] * right[k][column];
    std::copy_n(sum, 8, sums[row]);
  }
  for (int lane = 0; lane < 32; lane++) {
    const auto& e = *static_cast<const Multiply*>(of[lane]);
    const int g = lane / 4, t = 2 * (lane % 4);
    for (int i = 0; i < 4; i++) e.sums[i] = float(sums[g + 8 * (i >> 1)][t + (i & 1)]);
  }
}

void multiply_byte_matrices(Exchange* const* of) {
  require_all(of);
  // Of 16 bits, because processors add up products of these fast.
  int16_t left[16][32], right[8][32];
  int sums[16][8];
  for (int lane = 0; lane < 32; lane++) {
    const auto& e = *static_cast<const MultiplyBytes*>(of[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int byte = 0; byte < 4; byte++) {
      for (int i = 0; i < 4; i++) {
        const auto v = uint8_t(e.a[i] >> (8 * byte));
        left[g + 8 * (i & 1)][4 * t + byte + 16 * (i >> 1)] = e.is_signed ? int8_t(v) : v;
      }
      for (int i = 0; i < 2; i++) right[g][4 * t + byte + 16 * i] = uint8_t(e.b[i] >> (8 * byte));
    }
    for (int i = 0; i < 4; i++) sums[g + 8 * (i >> 1)][2 * t + (i & 1)] = e.sums[i];
  }
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 8; column++) {
      int sum = 0;
      for (int k = 0; k < 32; k++) sum += left[row][k] * right[column][k];
      sums[row][column] += sum;
    }
  for (int lane = 0; lane < 32; lane++) {
    const auto& e = *static_cast<const MultiplyBytes*>(of[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) e.sums[i] = sums[g + 8 * (i >> 1)][2 * t + (i & 1)];
  }
}

}  // namespace vf::emulation
