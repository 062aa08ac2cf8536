// Declares the row kernels of the CPU letterbox. A thread calls them for one row at a time.
// cpu/letterbox.cpp has the plan.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vf::cpu {

// Each kernel works on n columns; `step` is in components. Of two kernels, the first is for
// components of a byte, and the second for those of two bytes.
struct LetterboxRow {
  // out = in[lo * step], in[hi * step], as code values
  void (*gather[2])(const void* in, int step, int shift, const int* lo, const int* hi, int n,
                    float* left, float* right);
  // out = 4 bytes at in + first * step
  void (*load_words)(const uint8_t* in, int step, const int* first, int n, uint32_t* out);
  // out = (word >> bits) & mask
  void (*spread)(const uint32_t* words, int bits, uint32_t mask, int n, float* out);
  // out = (in[lo * step] w0 + in[hi * step] w1) >> 4
  void (*fixed_rows)(const uint8_t* in, int step, const int* lo, const int* hi,
                     const int16_t* weights, int n, int16_t* out);
  // Does the work of fixed_rows for one channel of bytes, eight columns at a time. Byte i of four
  // columns' neighbours, 16 bits each, is in[first[x / 4] + order[4 * x + i]], or 0. It is null on
  // machines where fixed_rows is as fast.
  void (*fixed_eights)(const uint8_t* in, const int* first, const uint8_t* order,
                       const int16_t* weights, int n, int16_t* out);
  // Does the work of fixed_rows for packed pixels of 3 or 4 bytes. Each of `pairs` holds two
  // neighbouring pixels. There are 4 results per pixel, and each weight stands there 4 times.
  void (*packed_rows)(const uint8_t* pairs, int step, const uint16_t* left, const uint16_t* right,
                      int n, int16_t* out);
  // Makes bytes from two rows of `n` results.
  void (*packed_columns)(const int16_t* top, const int16_t* bottom, int w0, int w1, int n,
                         uint8_t* out);
  // Packs pixels of 4 bytes into pixels of `step` bytes. Byte i of a group of 4 pixels is
  // in[order[i]], or 0, and the bits of `ones` are set.
  void (*pack)(const uint8_t* in, const uint8_t* order, const uint8_t* ones, int step, int n,
               uint8_t* out);
  void (*fixed_columns)(const int16_t* top, const int16_t* bottom, int w0, int w1, int n,
                        uint16_t* out);
  // Computes out = ((w00 v00 + w10 v10) + w01 v01) + w11 v11, in the order of the affine rule.
  void (*mix)(const float* v00, const float* v10, const float* v01, const float* v11,
              const float* fx, float fy, int n, float* out);
  // sum += weight * in, as code values
  void (*add[2])(const void* in, int shift, float weight, int n, float* sum);
  // out[c][x] = the sum of share * in[index * step + c] over the taps [first[x], first[x + 1]). It
  // reads 4 components per tap if there are 3, and writes those whose `out` is not null.
  void (*add_columns)(const float* in, int step, int channels, const int* first, const int* index,
                      const float* share, int n, float* const out[4]);
  void (*round)(const float* in, float scale, int max, int n, uint16_t* out);
  void (*convert)(const float* const in[3], const float* m, float offset, int max, int n,
                  uint16_t* out);
  void (*store[2])(const uint16_t* in, int shift, int n, void* out, int step);
  // Stores the codes of 3 or 4 `channels` as packed pixels.
  void (*interleave_u8)(const uint16_t* const in[4], int channels, int n, uint8_t* out);
  void (*look_up_u16)(const uint16_t* in, const uint16_t* table, int n, uint16_t* out, int step);
  void (*look_up_f32)(const uint16_t* in, const float* table, int n, float* out, int step);
  // Computes the values that look_up_f32 would read from a table of these numbers. It is null on
  // machines where this is no faster.
  void (*normalise)(const uint16_t* in, float subtract, float divide, float reciprocal, int n,
                    float* out);
};

// Returns the kernels for the best instruction set of this machine.
LetterboxRow letterbox_row();

}  // namespace vf::cpu
