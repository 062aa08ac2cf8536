// Implements the row kernels of the CPU letterbox for each instruction set. cpu/letterbox_rows.h
// says what they compute. Most are plain loops that the compiler turns into SIMD for every target.
// SIMD does not make gathers faster, so one load fetches four bytes that hold several components,
// both neighbours, or both, and shifts and masks separate them.
#include "cpu/letterbox_rows.h"

#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/letterbox_rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef VF_CPU_LETTERBOX_ROWS_ONCE
#define VF_CPU_LETTERBOX_ROWS_ONCE

#include <algorithm>
#include <cmath>
#include <cstring>

#endif  // VF_CPU_LETTERBOX_ROWS_ONCE

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace {
namespace HWY_NAMESPACE {

template <class T>
void gather(const void* HWY_RESTRICT row, int step, int shift, const int* HWY_RESTRICT lo,
            const int* HWY_RESTRICT hi, int n, float* HWY_RESTRICT left,
            float* HWY_RESTRICT right) {
  const T* in = static_cast<const T*>(row);
  for (int x = 0; x < n; x++) {
    left[x] = float(in[ptrdiff_t(lo[x]) * step] >> shift);
    right[x] = float(in[ptrdiff_t(hi[x]) * step] >> shift);
  }
}

void load_words(const uint8_t* HWY_RESTRICT in, int step, const int* HWY_RESTRICT first, int n,
                uint32_t* HWY_RESTRICT out) {
  for (int x = 0; x < n; x++) std::memcpy(&out[x], in + ptrdiff_t(first[x]) * step, sizeof *out);
}

void spread(const uint32_t* HWY_RESTRICT words, int bits, uint32_t mask, int n,
            float* HWY_RESTRICT out) {
  for (int x = 0; x < n; x++) out[x] = float(int(words[x] >> bits & mask));
}

void fixed_rows(const uint8_t* HWY_RESTRICT in, int step, const int* HWY_RESTRICT lo,
                const int* HWY_RESTRICT hi, const int16_t* HWY_RESTRICT weights, int n,
                int16_t* HWY_RESTRICT out) {
  for (int x = 0; x < n; x++)
    out[x] = int16_t((in[ptrdiff_t(lo[x]) * step] * weights[2 * x] +
                      in[ptrdiff_t(hi[x]) * step] * weights[2 * x + 1]) >>
                     4);
}

#if HWY_TARGET == HWY_SCALAR

constexpr decltype(LetterboxRow::fixed_eights) fixed_eights = nullptr;

void packed_rows(const uint8_t* pairs, int step, const uint16_t* left, const uint16_t* right, int n,
                 int16_t* out) {
  for (int i = 0; i < 4 * n; i++) {
    const uint8_t* at = pairs + 8 * (i / 4) + std::min(i % 4, step - 1);
    out[i] = int16_t((at[0] * left[i] + at[step] * right[i]) >> 4);
  }
}

void packed_columns(const int16_t* top, const int16_t* bottom, int w0, int w1, int n,
                    uint8_t* out) {
  for (int i = 0; i < n; i++)
    out[i] = uint8_t(std::min((((top[i] * w0) >> 16) + ((bottom[i] * w1) >> 16) + 2) >> 2, 255));
}

#else

namespace hn = hwy::HWY_NAMESPACE;

void fixed_eights(const uint8_t* HWY_RESTRICT in, const int* HWY_RESTRICT first,
                  const uint8_t* HWY_RESTRICT order, const int16_t* HWY_RESTRICT weights, int n,
                  int16_t* HWY_RESTRICT out) {
  constexpr size_t kBytes = HWY_HAVE_SCALABLE || HWY_MAX_BYTES < 32 ? 16 : 32;
  constexpr int kColumns = kBytes / 4;  // at once
  const hn::FixedTag<uint8_t, kBytes> d8;
  const hn::FixedTag<int16_t, kBytes / 2> d16;
  const hn::FixedTag<int32_t, kColumns> d32;
  const auto load = [&](int x) HWY_ATTR {
    if constexpr (kColumns == 8) {
      const hn::Half<decltype(d8)> half;
      return hn::Combine(d8, hn::LoadU(half, in + first[x / 4 + 1]),
                         hn::LoadU(half, in + first[x / 4]));
    } else {
      return hn::LoadU(d8, in + first[x / 4]);
    }
  };
  for (int x = 0; x < n; x += kColumns) {
    const auto pixels =
        hn::BitCast(d16, hn::TableLookupBytesOr0(load(x), hn::LoadU(d8, order + 4 * x)));
    auto rest = hn::Zero(d32);
    const auto sums = hn::ReorderWidenMulAccumulate(d32, pixels, hn::LoadU(d16, weights + 2 * x),
                                                    hn::Zero(d32), rest);
    hn::StoreU(hn::DemoteTo(hn::Rebind<int16_t, decltype(d32)>(),
                            hn::ShiftRight<4>(hn::RearrangeToOddPlusEven(sums, rest))),
               hn::Rebind<int16_t, decltype(d32)>(), out + x);
  }
}

void packed_rows(const uint8_t* HWY_RESTRICT pairs, int step,
                 const uint16_t* HWY_RESTRICT left_weights,
                 const uint16_t* HWY_RESTRICT right_weights, int n, int16_t* HWY_RESTRICT out) {
  const hn::CappedTag<uint16_t, HWY_MAX_BYTES / 2> d;
  const hn::Repartition<uint8_t, decltype(d)> d8;
  const hn::RebindToSigned<decltype(d)> ds;
  // The tables turn the bytes of 2 pairs into 16-bit values of the left and of the right pixels.
  HWY_ALIGN uint8_t table[2][16];
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < 16; i++) {
      const int pixel = i / 8, c = i % 8 / 2;
      table[side][i] = uint8_t(i % 2 || c >= step ? 0x80 : 8 * pixel + side * step + c);
    }
  const auto left_table = hn::LoadDup128(d8, table[0]), right_table = hn::LoadDup128(d8, table[1]);
  const auto fifteen = hn::Set(d, uint16_t(15));
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < 4 * size_t(n); i += lanes) {
    const auto both = hn::LoadU(d8, pairs + 2 * i);
    const auto left = hn::BitCast(d, hn::TableLookupBytesOr0(both, left_table));
    const auto right = hn::BitCast(d, hn::TableLookupBytesOr0(both, right_table));
    // A sum of products has 20 bits, and the result is the sum without its last 4. With w = 16 q +
    // r, the sums over q and over r fit into 16 bits.
    const auto w0 = hn::LoadU(d, left_weights + i), w1 = hn::LoadU(d, right_weights + i);
    const auto whole =
        hn::Add(hn::Mul(left, hn::ShiftRight<4>(w0)), hn::Mul(right, hn::ShiftRight<4>(w1)));
    const auto rest =
        hn::Add(hn::Mul(left, hn::And(w0, fifteen)), hn::Mul(right, hn::And(w1, fifteen)));
    hn::StoreU(hn::BitCast(ds, hn::Add(whole, hn::ShiftRight<4>(rest))), ds, out + i);
  }
}

void packed_columns(const int16_t* HWY_RESTRICT top, const int16_t* HWY_RESTRICT bottom, int w0,
                    int w1, int n, uint8_t* HWY_RESTRICT out) {
  const hn::CappedTag<int16_t, HWY_MAX_BYTES / 2> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const auto v0 = hn::Set(d, int16_t(w0)), v1 = hn::Set(d, int16_t(w1)),
             two = hn::Set(d, int16_t(2));
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < size_t(n); i += lanes) {
    const auto a = hn::MulHigh(hn::LoadU(d, top + i), v0),
               b = hn::MulHigh(hn::LoadU(d, bottom + i), v1);
    hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<2>(hn::Add(hn::Add(a, b), two))), d8, out + i);
  }
}

#endif

void interleave_u8(const uint16_t* const in[4], int channels, int n, uint8_t* HWY_RESTRICT out) {
  int x = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint8_t, 16> d;
  const hn::Half<decltype(d)> d_half;
  const hn::Repartition<int16_t, decltype(d)> d_in;
  const auto bytes = [&](int c, int x) HWY_ATTR {
    const auto at = [&](int i) HWY_ATTR {
      return hn::DemoteTo(d_half, hn::LoadU(d_in, reinterpret_cast<const int16_t*>(in[c]) + i));
    };
    return hn::Combine(d, at(x + 8), at(x));
  };
  for (; x + 16 <= n; x += 16)
    if (channels == 3)
      hn::StoreInterleaved3(bytes(0, x), bytes(1, x), bytes(2, x), d, out + 3 * x);
    else
      hn::StoreInterleaved4(bytes(0, x), bytes(1, x), bytes(2, x), bytes(3, x), d, out + 4 * x);
#endif
  for (; x < n; x++)
    for (int c = 0; c < channels; c++) out[channels * x + c] = uint8_t(in[c][x]);
}

void pack(const uint8_t* HWY_RESTRICT in, const uint8_t* order, const uint8_t* ones, int step,
          int n, uint8_t* HWY_RESTRICT out) {
  int x = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<uint8_t, 16> d;
  const auto table = hn::LoadU(d, order), mask = hn::LoadU(d, ones);
  for (; x + 4 <= n && step * x + 16 <= step * n; x += 4)
    hn::StoreU(hn::Or(hn::TableLookupBytesOr0(hn::LoadU(d, in + 4 * x), table), mask), d,
               out + step * x);
#endif
  for (; x < n; x++)
    for (int c = 0; c < step; c++)
      out[step * x + c] = uint8_t((order[c] & 0x80 ? 0 : in[4 * x + order[c]]) | ones[c]);
}

void fixed_columns(const int16_t* HWY_RESTRICT top, const int16_t* HWY_RESTRICT bottom, int w0,
                   int w1, int n, uint16_t* HWY_RESTRICT out) {
  for (int x = 0; x < n; x++) {
    const int v = ((top[x] * w0) >> 16) + ((bottom[x] * w1) >> 16);
    out[x] = uint16_t(std::min((v + 2) >> 2, 255));
  }
}

void mix(const float* HWY_RESTRICT v00, const float* HWY_RESTRICT v10,
         const float* HWY_RESTRICT v01, const float* HWY_RESTRICT v11, const float* HWY_RESTRICT fx,
         float fy, int n, float* HWY_RESTRICT out) {
  const float hy = 1 - fy;
  for (int x = 0; x < n; x++) {
    const float lx = fx[x], hx = 1 - lx;
    out[x] = hy * hx * v00[x] + hy * lx * v10[x] + fy * hx * v01[x] + fy * lx * v11[x];
  }
}

template <class T>
void add(const void* HWY_RESTRICT row, int shift, float weight, int n, float* HWY_RESTRICT sum) {
  const T* in = static_cast<const T*>(row);
  for (int i = 0; i < n; i++) sum[i] += weight * float(in[i] >> shift);
}

template <int kLanes>
void add_columns(const float* HWY_RESTRICT in, int step, const int* HWY_RESTRICT first,
                 const int* HWY_RESTRICT index, const float* HWY_RESTRICT share, int n,
                 float* const out[4]) {
  for (int x = 0; x < n; x++) {
    float sum[kLanes] = {};
    for (int t = first[x]; t < first[x + 1]; t++) {
      const float* HWY_RESTRICT at = in + ptrdiff_t(index[t]) * step;
      const float weight = share[t];
      for (int c = 0; c < kLanes; c++) sum[c] += weight * at[c];
    }
    for (int c = 0; c < kLanes; c++)
      if (out[c]) out[c][x] = sum[c];
  }
}

void add_columns(const float* in, int step, int channels, const int* first, const int* index,
                 const float* share, int n, float* const out[4]) {
  const auto add = channels == 1 ? add_columns<1> : channels == 2 ? add_columns<2> : add_columns<4>;
  add(in, step, first, index, share, n, out);
}

// Adding a half and truncating rounds correctly, because all kept values are positive.
void round(const float* HWY_RESTRICT in, float scale, int max, int n, uint16_t* HWY_RESTRICT out) {
  const float limit = float(max);
  for (int x = 0; x < n; x++)
    out[x] = uint16_t(int(std::min(std::max(in[x] * scale + 0.5f, 0.0f), limit)));
}

void convert(const float* const in[3], const float* m, float offset, int max, int n,
             uint16_t* HWY_RESTRICT out) {
  const float* HWY_RESTRICT a = in[0];
  const float* HWY_RESTRICT b = in[1];
  const float* HWY_RESTRICT c = in[2];
  const float m0 = m[0], m1 = m[1], m2 = m[2], limit = float(max);
  for (int x = 0; x < n; x++) {
    const float v = m0 * a[x] + m1 * b[x] + m2 * c[x] + offset;
    out[x] = uint16_t(int(std::min(std::max(v + 0.5f, 0.0f), limit)));
  }
}

template <class T>
void store(const uint16_t* HWY_RESTRICT in, int shift, int n, void* HWY_RESTRICT to, int step) {
  T* out = static_cast<T*>(to);
  if (step == 1)
    for (int x = 0; x < n; x++) out[x] = T(in[x] << shift);
  else
    for (int x = 0; x < n; x++) out[ptrdiff_t(x) * step] = T(in[x] << shift);
}

void store_u8(const uint16_t* in, int, int n, void* to, int step) {
  store<uint8_t>(in, 0, n, to, step);
}

template <class T>
void look_up(const uint16_t* HWY_RESTRICT in, const T* HWY_RESTRICT table, int n,
             T* HWY_RESTRICT out, int step) {
  if (step == 1)
    for (int x = 0; x < n; x++) out[x] = table[in[x]];
  else
    for (int x = 0; x < n; x++) out[ptrdiff_t(x) * step] = table[in[x]];
}

#if HWY_TARGET != HWY_SCALAR && HWY_NATIVE_FMA
void normalise(const uint16_t* HWY_RESTRICT in, float subtract, float divide, float reciprocal,
               int n, float* HWY_RESTRICT out) {
  for (int x = 0; x < n; x++) {
    const float v = float(in[x]) - subtract, q = v * reciprocal;
    out[x] = std::fma(std::fma(-q, divide, v), reciprocal, q);
  }
}
#else
constexpr decltype(LetterboxRow::normalise) normalise = nullptr;
#endif

LetterboxRow rows() {
  return {{gather<uint8_t>, gather<uint16_t>},
          load_words,
          spread,
          fixed_rows,
          fixed_eights,
          packed_rows,
          packed_columns,
          pack,
          fixed_columns,
          mix,
          {add<uint8_t>, add<uint16_t>},
          add_columns,
          round,
          convert,
          {store_u8, store<uint16_t>},
          interleave_u8,
          look_up<uint16_t>,
          look_up<float>,
          normalise};
}

}  // namespace HWY_NAMESPACE
}  // namespace
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vf::cpu {
namespace {
HWY_EXPORT(rows);
}  // namespace

LetterboxRow letterbox_row() {
  return HWY_DYNAMIC_DISPATCH(rows)();
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
