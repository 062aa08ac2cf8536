// Implements the row kernels of the CPU Gaussian for each instruction set. cpu/gaussian_rows.h
// describes them.
//
// Short kernels (u8, radius up to 3) hold lines and slots as 16-bit numbers in the order of the
// image, with 7 bits of fraction. The sum of two pixels still fits, so a symmetric kernel needs one
// multiplication (the high half of 16 x 16 bits) for two taps. Vectors have twice as many
// components as below. Products are truncated, and half a unit is added back for each. From 9 taps
// on, fewer than 99.5 % of pixels would be exact.
//
// Larger kernels (u8) turn pixels into signed 16-bit numbers v - 128. Weights are Q15 and add up to
// exactly one, so that no sum overflows. horizontal() makes v - 128 in 8.8 format, and vertical()
// rounds once. All products use the pairwise multiply-add of 16-bit numbers (a0 b0 + a1 b1 -> 32
// bits). To use it without shuffling, a line holds two neighbouring pixels of a channel in each
// 32-bit lane:
//
//   lane m * channels + c = (pixel 2m, pixel 2m + 1) of channel c
//
// Even pixels multiply the lanes m, m + 1 ... by the weights (w0 w1) (w2 w3) ..., and odd pixels
// multiply the same lanes by (0 w0) (w1 w2) .... One load serves both. horizontal() takes two lines
// at once and puts both rows' results for a pixel into one lane of the slot, so that vertical() can
// work on pairs of rows in the same way. A slot is a row of blocks, each of which holds one vector
// of even pixels and then one of odd pixels.
//
// Float kernels have one row per slot, in the order of the image. They compute no products with
// padding, so that a NaN spreads no further than the kernel.
#include "cpu/gaussian_rows.h"

#include <cstring>

#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gaussian_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Lanes and components are padded to a multiple of this, for any size of vectors.
constexpr size_t kPadding = 64;
constexpr size_t Padded(size_t n) {
  return round_up(n, kPadding);
}

// Calls f(from, i) for each vector of n components from in + i on. The last one is followed by
// zeros.
template <class T, class F>
HWY_INLINE void ForVectors(const T* in, size_t n, size_t count, const F& f) {
  size_t i = 0;
  for (; i + n <= count; i += n) f(in + i, i);
  if (i == count) return;
  alignas(64) T rest[64] = {};
  std::memcpy(rest, in + i, (count - i) * sizeof(T));
  f(rest, i);
}

// ---------------------------------------------------------------------------------------------
// Fixed point, short kernels

constexpr int kShortRadius = 3;

size_t LineBytesShort(int pixels, int channels, int radius) {
  return (Padded(size_t(pixels) * channels) + size_t(2 * radius) * channels + kPadding) * 2;
}
size_t SlotBytesShort(int pixels, int channels) {
  return Padded(size_t(pixels) * channels) * 2;
}

using DShort = hn::ScalableTag<uint16_t>;
using DShortBytes = hn::Rebind<uint8_t, DShort>;  // half a vector
using VShort = hn::Vec<DShort>;

void ConvertShort(const void* row, int pixels, int channels, void* line) {
  const DShort d;
  const DShortBytes d8;
  const size_t n = hn::Lanes(d), count = size_t(pixels) * channels;
  auto* in = static_cast<const uint8_t*>(row);
  auto* out = static_cast<uint16_t*>(line);
  ForVectors(in, n, count, [&](const uint8_t* from, size_t i) HWY_ATTR {
    hn::StoreU(hn::ShiftLeft<7>(hn::PromoteTo(d, hn::LoadU(d8, from))), d, out + i);
  });
}

// These add half a unit for each product. horizontal() rounds halves down and vertical() rounds
// them up.
constexpr int Horizontal0(int radius) {
  return radius ? (radius + 1) / 2 : 0;
}
constexpr int Vertical0(int radius) {
  return (radius ? (radius + 2) / 2 : 0) + (1 << 6);
}

template <int kRadius>
void HorizontalShort(const void* const* line, const GaussianAxis& axis, int pixels, int channels,
                     void* slot) {
  const DShort d;
  const size_t n = hn::Lanes(d), count = size_t(pixels) * channels;
  auto* in = static_cast<const uint16_t*>(line[0]) + kRadius * channels;
  auto* out = static_cast<uint16_t*>(slot);
  VShort w[kRadius + 1];
  for (int t = 0; t <= kRadius; t++) w[t] = hn::Set(d, kRadius ? axis.half[t] : 0);
  const VShort start = hn::Set(d, Horizontal0(kRadius));
  for (size_t i = 0; i < count; i += n) {
    VShort sum = hn::LoadU(d, in + i);
    if (kRadius > 0) sum = hn::Add(start, hn::MulHigh(sum, w[0]));
    for (int t = 1; t <= kRadius; t++) {
      const VShort both =
          hn::Add(hn::LoadU(d, in + i - t * channels), hn::LoadU(d, in + i + t * channels));
      sum = hn::Add(sum, hn::MulHigh(both, w[t]));
    }
    hn::Store(sum, d, out + i);
  }
}

template <int kRadius>
void VerticalShort(const void* const* slot, const GaussianAxis& axis, size_t count, int stored,
                   void* const* dst) {
  constexpr int kOutputs = gaussian_outputs(kRadius), kRows = 2 * kRadius + kOutputs;
  const DShort d;
  const DShortBytes d8;
  const hn::Rebind<int16_t, DShort> di16;
  const size_t n = hn::Lanes(d);
  VShort w[kRadius + 1];
  for (int t = 0; t <= kRadius; t++) w[t] = hn::Set(d, kRadius ? axis.half[t] : 0);
  const VShort start = hn::Set(d, Vertical0(kRadius));
  const uint16_t* rows[kRows];
  for (int p = 0; p < kRows; p++) rows[p] = static_cast<const uint16_t*>(slot[p]);
  uint8_t* out[kOutputs];
  for (int r = 0; r < kOutputs; r++) out[r] = static_cast<uint8_t*>(dst[r < stored ? r : 0]);
  for (size_t i = 0; i < count; i += n) {
    VShort x[kRows];
    for (int p = 0; p < kRows; p++) x[p] = hn::Load(d, rows[p] + i);
    // Goes backwards, because surplus rows are written to row 0 and must be overwritten.
    for (int r = kOutputs - 1; r >= 0; r--) {
      VShort sum = x[r + kRadius];
      if (kRadius > 0) sum = hn::MulHigh(sum, w[0]);
      sum = hn::Add(start, sum);
      for (int t = 1; t <= kRadius; t++)
        sum = hn::Add(sum, hn::MulHigh(hn::Add(x[r + kRadius - t], x[r + kRadius + t]), w[t]));
      const auto v = hn::DemoteTo(d8, hn::BitCast(di16, hn::ShiftRight<7>(sum)));
      if (i + n <= count) {
        hn::StoreU(v, d8, out[r] + i);
      } else {
        alignas(64) uint8_t rest[64];
        hn::StoreU(v, d8, rest);
        std::memcpy(out[r] + i, rest, count - i);
      }
    }
  }
}

void HorizontalShortAny(const void* const* line, const GaussianAxis& axis, int pixels, int channels,
                        void* slot) {
  constexpr decltype(&HorizontalShort<0>) kTable[] = {HorizontalShort<0>, HorizontalShort<1>,
                                                      HorizontalShort<2>, HorizontalShort<3>};
  static_assert(sizeof kTable / sizeof *kTable == kShortRadius + 1, "one for each radius");
  kTable[axis.radius](line, axis, pixels, channels, slot);
}
void VerticalShortAny(const void* const* slot, const GaussianAxis& axis, int pixels, int channels,
                      int, int, int stored, void* const* dst) {
  constexpr decltype(&VerticalShort<0>) kTable[] = {VerticalShort<0>, VerticalShort<1>,
                                                    VerticalShort<2>, VerticalShort<3>};
  static_assert(sizeof kTable / sizeof *kTable == kShortRadius + 1, "one for each radius");
  kTable[axis.radius](slot, axis, size_t(pixels) * channels, stored, dst);
}

// ---------------------------------------------------------------------------------------------
// Fixed point, larger kernels

size_t PairLanes(int pixels, int channels) {
  return size_t(pixels + 1) / 2 * channels;
}

size_t LineBytes8(int pixels, int channels, int radius) {
  return (Padded(PairLanes(pixels, channels)) + size_t(radius + 2) * channels + kPadding) * 4;
}
size_t SlotBytes8(int pixels, int channels) {
  return Padded(PairLanes(pixels, channels)) * 8;
}

// These reorder (a0 b0 c0 a1 b1 c1) to (a0 a1 b0 b1 c0 c1) and back, for any number of channels.
void PairBytes(const uint8_t* in, int pairs, int channels, uint8_t* out) {
  for (int m = 0; m < pairs; m++, in += 2 * channels, out += 2 * channels)
    for (int c = 0; c < channels; c++) out[2 * c] = in[c], out[2 * c + 1] = in[channels + c];
}
void UnpairBytes(const uint8_t* in, int pairs, int channels, uint8_t* out) {
  for (int m = 0; m < pairs; m++, in += 2 * channels, out += 2 * channels)
    for (int c = 0; c < channels; c++) out[c] = in[2 * c], out[channels + c] = in[2 * c + 1];
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

// Blocks have one lane here. The loops are plain, and the compiler may vectorise them for the
// baseline.
void Convert8(const void* row, int pixels, int channels, void* line) {
  auto* in = static_cast<const uint8_t*>(row);
  auto* out = static_cast<int16_t*>(line);
  for (int x = 0; x < pixels; x++)
    for (int c = 0; c < channels; c++)
      out[(x / 2 * channels + c) * 2 + x % 2] = int16_t(in[x * channels + c] - 128);
  if (pixels % 2)
    for (int c = 0; c < channels; c++) out[(pixels / 2 * channels + c) * 2 + 1] = 0;
}

int32_t MulPairs(int32_t a, int32_t b, int32_t sum) {
  return sum + int16_t(a) * int16_t(b) + (a >> 16) * (b >> 16);
}

void Horizontal8(const void* const* line, const GaussianAxis& axis, int pixels, int channels,
                 void* slot) {
  const size_t lanes = PairLanes(pixels, channels);
  const int shift = axis.bits - 8;
  auto* out = static_cast<int32_t*>(slot);
  for (size_t i = 0; i < lanes; i++) {
    int32_t sum[2][2];
    for (int row = 0; row < 2; row++) {
      auto* in = static_cast<const int32_t*>(line[row]) + i;
      sum[row][0] = sum[row][1] = 1 << (shift - 1);
      for (int t = 0; t <= axis.radius; t++) {
        sum[row][0] = MulPairs(in[t * channels], axis.even[axis.kPad + t], sum[row][0]);
        sum[row][1] = MulPairs(in[t * channels], axis.odd[axis.kPad + t], sum[row][1]);
      }
    }
    for (int odd = 0; odd < 2; odd++)
      out[2 * i + odd] =
          int32_t(uint32_t(sum[1][odd] >> shift) << 16 | (uint32_t(sum[0][odd] >> shift) & 0xffff));
  }
}

void Vertical8(const void* const* slot, const GaussianAxis& axis, int pixels, int channels, int,
               int outputs, int stored, void* const* dst) {
  const int shift = axis.bits + 8, slots = axis.radius + outputs / 2;
  for (int r = 0; r < stored; r++) {
    const int32_t* weight = (r % 2 ? axis.odd : axis.even).data() + axis.kPad - r / 2;
    auto* out = static_cast<uint8_t*>(dst[r]);
    for (int x = 0; x < pixels; x++)
      for (int c = 0; c < channels; c++) {
        const size_t at = size_t(x / 2 * channels + c) * 2 + x % 2;
        int32_t sum = (128 << shift) + (1 << (shift - 1));
        for (int p = 0; p < slots; p++)
          sum = MulPairs(static_cast<const int32_t*>(slot[p])[at], weight[p], sum);
        // With 3 channels, order() restores the order later.
        const size_t to = channels == 3 ? at : size_t(x) * channels + c;
        out[to] = uint8_t(sum >> shift);
      }
  }
}

#else

using D16 = hn::ScalableTag<int16_t>;
using D32 = hn::ScalableTag<int32_t>;
using DBytes = hn::Rebind<uint8_t, D16>;  // half a vector
using V16 = hn::Vec<D16>;
using V32 = hn::Vec<D32>;

HWY_INLINE V16 Pair(const int32_t* weights) {
  return hn::BitCast(D16(), hn::Set(D32(), *weights));
}

// These shuffle within 8 bytes, and repeat to the largest half vector.
#define VF_REPEAT(...) \
  { __VA_ARGS__(0), __VA_ARGS__(8), __VA_ARGS__(0), __VA_ARGS__(8) }
#define VF_PAIR2(o) o, o + 2, o + 1, o + 3, o + 4, o + 6, o + 5, o + 7
#define VF_PAIR4(o) o, o + 4, o + 1, o + 5, o + 2, o + 6, o + 3, o + 7
#define VF_UNPAIR4(o) o, o + 2, o + 4, o + 6, o + 1, o + 3, o + 5, o + 7
alignas(64) constexpr uint8_t kPair2[32] = VF_REPEAT(VF_PAIR2);  // undoes itself
alignas(64) constexpr uint8_t kPair4[32] = VF_REPEAT(VF_PAIR4);
alignas(64) constexpr uint8_t kUnpair4[32] = VF_REPEAT(VF_UNPAIR4);

// A kChannels of 1 does not shuffle.
template <int kChannels>
void ConvertBytes(const uint8_t* in, size_t n, int16_t* out) {
  const D16 d16;
  const DBytes d8;
  const hn::Rebind<int8_t, D16> di8;
  const auto flip = hn::Set(d8, 0x80);
  ForVectors(in, hn::Lanes(d8), n, [&](const uint8_t* from, size_t i) HWY_ATTR {
    auto v = hn::Xor(hn::LoadU(d8, from), flip);
    if (kChannels == 2) v = hn::TableLookupBytes(v, hn::Load(d8, kPair2));
    if (kChannels == 4) v = hn::TableLookupBytes(v, hn::Load(d8, kPair4));
    hn::StoreU(hn::PromoteTo(d16, hn::BitCast(di8, v)), d16, out + i);
  });
}

// With 3 channels, 4 pixels (12 bytes) of each 16 loaded bytes are used.
alignas(16) constexpr uint8_t kPair3[16] = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11, 12, 13, 14, 15};
alignas(16) constexpr uint8_t kUnpair3[16] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11, 12, 13, 14, 15};

// Shuffles as far as 16 bytes can be read and written, and returns the number of pairs that are
// done.
int Shuffle3(const uint8_t* in, int pairs, const uint8_t* table, uint8_t* out) {
  const hn::FixedTag<uint8_t, 16> d;
  const auto indices = hn::Load(d, table);
  int m = 0;
  for (; m + 3 <= pairs; m += 2)
    hn::StoreU(hn::TableLookupBytes(hn::LoadU(d, in + m * 6), indices), d, out + m * 6);
  return m;
}

void Convert8(const void* row, int pixels, int channels, void* line) {
  auto* in = static_cast<const uint8_t*>(row);
  auto* out = static_cast<int16_t*>(line);
  const size_t n = size_t(pixels) * channels;
  switch (channels) {
    case 1:
      return ConvertBytes<1>(in, n, out);
    case 2:
      return ConvertBytes<2>(in, n, out);
    case 4:
      return ConvertBytes<4>(in, n, out);
  }
  // Pieces of this size stay in the first-level cache.
  constexpr int kPiece = 256;
  uint8_t piece[kPiece * 3];
  for (int x = 0; x < pixels; x += kPiece) {
    const int count = pixels - x < kPiece ? pixels - x : kPiece;
    const uint8_t* from = in + size_t(x) * 3;
    const int done = Shuffle3(from, count / 2, kPair3, piece);
    PairBytes(from + done * 6, count / 2 - done, 3, piece + done * 6);
    if (count % 2)
      for (int c = 0; c < 3; c++) {
        piece[(count - 1) * 3 + 2 * c] = from[(count - 1) * 3 + c];
        piece[(count - 1) * 3 + 2 * c + 1] = 0;
      }
    ConvertBytes<1>(piece, size_t(count + 1) / 2 * 6, out + size_t(x) * 3);
  }
}

void Horizontal8(const void* const* line, const GaussianAxis& axis, int pixels, int channels,
                 void* slot) {
  const D16 d16;
  const D32 d32;
  const size_t n = hn::Lanes(d32), lanes = PairLanes(pixels, channels);
  const int shift = axis.bits - 8, taps = axis.radius + 1;
  const int32_t* const even = axis.even.data() + axis.kPad;
  const int32_t* const odd = axis.odd.data() + axis.kPad;
  const V32 half = hn::Set(d32, 1 << (shift - 1));
  auto* out = static_cast<int32_t*>(slot);
  // Each turn takes two vectors of lanes of two rows, for even and for odd pixels.
  for (size_t i = 0; i < lanes; i += 2 * n, out += 4 * n) {
    auto* a = reinterpret_cast<const int16_t*>(static_cast<const int32_t*>(line[0]) + i);
    auto* b = reinterpret_cast<const int16_t*>(static_cast<const int32_t*>(line[1]) + i);
    V32 ea0 = half, ea1 = half, oa0 = half, oa1 = half;
    V32 eb0 = half, eb1 = half, ob0 = half, ob1 = half;
    for (int t = 0; t < taps; t++, a += 2 * channels, b += 2 * channels) {
      const V16 we = Pair(even + t), wo = Pair(odd + t);
      const V16 a0 = hn::LoadU(d16, a), a1 = hn::LoadU(d16, a + 2 * n);
      ea0 = MulPairs(a0, we, ea0);
      oa0 = MulPairs(a0, wo, oa0);
      ea1 = MulPairs(a1, we, ea1);
      oa1 = MulPairs(a1, wo, oa1);
      const V16 b0 = hn::LoadU(d16, b), b1 = hn::LoadU(d16, b + 2 * n);
      eb0 = MulPairs(b0, we, eb0);
      ob0 = MulPairs(b0, wo, ob0);
      eb1 = MulPairs(b1, we, eb1);
      ob1 = MulPairs(b1, wo, ob1);
    }
    // Puts row a into the low halves and row b into the high halves.
    const auto join = [&](V32 low, V32 high) HWY_ATTR {
      return hn::BitCast(d32, hn::OddEven(hn::BitCast(d16, hn::ShiftLeftSame(high, 16 - shift)),
                                          hn::BitCast(d16, hn::ShiftRightSame(low, shift))));
    };
    hn::Store(join(ea0, eb0), d32, out);
    hn::Store(join(oa0, ob0), d32, out + n);
    hn::Store(join(ea1, eb1), d32, out + 2 * n);
    hn::Store(join(oa1, ob1), d32, out + 3 * n);
  }
}

template <int kOutputs, int kChannels>
void VerticalPairs(const void* const* slot, const GaussianAxis& axis, size_t bytes, int stored,
                   void* const* dst) {
  const D16 d16;
  const D32 d32;
  const DBytes d8;
  const hn::Rebind<uint16_t, D32> du16;
  const size_t n = hn::Lanes(d32);
  const int shift = axis.bits + 8, slots = axis.radius + kOutputs / 2;
  const int32_t* const even = axis.even.data() + axis.kPad;
  const int32_t* const odd = axis.odd.data() + axis.kPad;
  const V32 start = hn::Set(d32, (128 << shift) + (1 << (shift - 1)));
  // A block makes 2n bytes of each output.
  for (size_t at = 0; at < bytes; at += 2 * n) {
    V32 sum[kOutputs][2];
    for (int r = 0; r < kOutputs; r++) sum[r][0] = sum[r][1] = start;
    for (int p = 0; p < slots; p++) {
      auto* in = reinterpret_cast<const int16_t*>(static_cast<const int32_t*>(slot[p]) + at);
      const V16 x0 = hn::Load(d16, in), x1 = hn::Load(d16, in + 2 * n);
      for (int r = 0; r < kOutputs; r++) {
        const V16 w = Pair((r % 2 ? odd : even) + p - r / 2);
        sum[r][0] = MulPairs(x0, w, sum[r][0]);
        sum[r][1] = MulPairs(x1, w, sum[r][1]);
      }
    }
    for (int r = 0; r < kOutputs; r++) {
      if (r >= stored) break;
      // Sums are between 0 and 256 << shift.
      const V32 low = hn::ShiftRightSame(sum[r][0], shift);
      const V32 high = hn::ShiftLeft<8>(hn::ShiftRightSame(sum[r][1], shift));
      auto v = hn::BitCast(d8, hn::DemoteTo(du16, hn::Or(low, high)));
      if (kChannels == 2) v = hn::TableLookupBytes(v, hn::Load(d8, kPair2));
      if (kChannels == 4) v = hn::TableLookupBytes(v, hn::Load(d8, kUnpair4));
      uint8_t* out = static_cast<uint8_t*>(dst[r]) + at;
      if (at + 2 * n <= bytes) {
        hn::StoreU(v, d8, out);
      } else {
        alignas(64) uint8_t rest[64];
        hn::StoreU(v, d8, rest);
        std::memcpy(out, rest, bytes - at);
      }
    }
  }
}

void Vertical8(const void* const* slot, const GaussianAxis& axis, int pixels, int channels, int,
               int outputs, int stored, void* const* dst) {
  // Three channels are stored in whole pairs.
  const size_t bytes = size_t(channels == 3 ? pixels + pixels % 2 : pixels) * channels;
  const auto run = [&](auto two, auto four) {
    (outputs == 2 ? two : four)(slot, axis, bytes, stored, dst);
  };
  if (channels == 2)
    run(VerticalPairs<2, 2>, VerticalPairs<4, 2>);
  else if (channels == 4)
    run(VerticalPairs<2, 4>, VerticalPairs<4, 4>);
  else
    run(VerticalPairs<2, 1>, VerticalPairs<4, 1>);
}

#endif

void Order3(const void* row, int pixels, void* to) {
  auto* in = static_cast<const uint8_t*>(row);
  auto* out = static_cast<uint8_t*>(to);
  int done = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  done = Shuffle3(in, pixels / 2, kUnpair3, out);
#endif
  UnpairBytes(in + done * 6, pixels / 2 - done, 3, out + done * 6);
  if (pixels % 2)
    for (int c = 0; c < 3; c++) out[(pixels - 1) * 3 + c] = in[(pixels - 1) * 3 + 2 * c];
}

// ---------------------------------------------------------------------------------------------
// Float

// F is the type of the sums, float or double.
template <class F>
size_t LineBytes(int pixels, int channels, int radius) {
  return (Padded(size_t(pixels) * channels) + size_t(2 * radius) * channels + kPadding) * sizeof(F);
}
template <class F>
size_t SlotBytes(int pixels, int channels) {
  return Padded(size_t(pixels) * channels) * sizeof(F);
}

template <class F>
const F* Weights(const GaussianAxis& axis) {
  if constexpr (sizeof(F) == 8)
    return axis.f64.data();
  else
    return axis.f32.data();
}

// These convert components of T to a vector of F, and back with rounding to nearest, halves up.
template <class D, class T>
HWY_INLINE hn::Vec<D> Converted(D d, const T* from) {
  if constexpr (sizeof(T) == 2) {
    const hn::Rebind<int32_t, D> d32;
    return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(hn::Rebind<T, D>(), from)));
  } else if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), from));
  } else {
    return hn::LoadU(d, from);
  }
}
template <class D, class T>
HWY_INLINE void StoreRounded(D d, hn::Vec<D> v, int shift, hn::Vec<D> highest, T* to) {
  using F = hn::TFromD<D>;
  if constexpr (std::is_same<T, float>::value) {
    hn::StoreU(v, d, to);
  } else {
    v = hn::Floor(hn::Add(v, hn::Set(d, F(0.5))));
    if constexpr (sizeof(T) == 2) {
      const hn::Rebind<int32_t, D> d32;
      if (std::is_same<T, uint16_t>::value) v = hn::Min(v, highest);
      hn::Vec<decltype(d32)> i = hn::ConvertTo(d32, v);
      if (shift) i = hn::ShiftLeftSame(i, shift);
      hn::StoreU(hn::DemoteTo(hn::Rebind<T, D>(), i), hn::Rebind<T, D>(), to);
    } else {
      hn::StoreU(hn::DemoteTo(hn::Rebind<T, D>(), v), hn::Rebind<T, D>(), to);
    }
  }
}

template <class T, class F>
void Convert(const void* row, int pixels, int channels, void* line) {
  const hn::ScalableTag<F> d;
  auto* in = static_cast<const T*>(row);
  auto* out = static_cast<F*>(line);
  ForVectors(in, hn::Lanes(d), size_t(pixels) * channels,
             [&](const T* from, size_t i) HWY_ATTR { hn::StoreU(Converted(d, from), d, out + i); });
}

// For short kernels, loops are unrolled, and weights and rows stay in registers.
template <class F, int kRadius>
void HorizontalFew(const void* const* line, const GaussianAxis& axis, size_t count, int channels,
                   void* slot) {
  const hn::ScalableTag<F> d;
  using V = hn::Vec<decltype(d)>;
  const size_t n = hn::Lanes(d);
  auto* in = static_cast<const F*>(line[0]);
  auto* out = static_cast<F*>(slot);
  V w[2 * kRadius + 1];
  for (int t = 0; t <= 2 * kRadius; t++) w[t] = hn::Set(d, Weights<F>(axis)[t]);
  for (size_t i = 0; i < count; i += n) {
    V sum = hn::Mul(hn::LoadU(d, in + i), w[0]);
    for (int t = 1; t <= 2 * kRadius; t++)
      sum = hn::MulAdd(hn::LoadU(d, in + i + t * channels), w[t], sum);
    hn::Store(sum, d, out + i);
  }
}

// out[i] = the sum over k of weights[k] in[i + k step]. Both may be touched up to one vector beyond
// `count` values.
template <class F>
void Sums(const F* in, ptrdiff_t step, const F* weights, int taps, size_t count, F* out) {
  const hn::ScalableTag<F> d;
  const size_t n = hn::Lanes(d);
  size_t i = 0;
  for (; i + 3 * n < count; i += 4 * n) {
    const F* at = in + i;
    auto w = hn::Set(d, weights[0]);
    auto s0 = hn::Mul(hn::LoadU(d, at), w), s1 = hn::Mul(hn::LoadU(d, at + n), w);
    auto s2 = hn::Mul(hn::LoadU(d, at + 2 * n), w), s3 = hn::Mul(hn::LoadU(d, at + 3 * n), w);
    for (int k = 1; k < taps; k++) {
      at += step;
      w = hn::Set(d, weights[k]);
      s0 = hn::MulAdd(hn::LoadU(d, at), w, s0);
      s1 = hn::MulAdd(hn::LoadU(d, at + n), w, s1);
      s2 = hn::MulAdd(hn::LoadU(d, at + 2 * n), w, s2);
      s3 = hn::MulAdd(hn::LoadU(d, at + 3 * n), w, s3);
    }
    hn::StoreU(s0, d, out + i);
    hn::StoreU(s1, d, out + i + n);
    hn::StoreU(s2, d, out + i + 2 * n);
    hn::StoreU(s3, d, out + i + 3 * n);
  }
  for (; i < count; i += n) {
    const F* at = in + i;
    auto sum = hn::Mul(hn::LoadU(d, at), hn::Set(d, weights[0]));
    for (int k = 1; k < taps; k++)
      sum = hn::MulAdd(hn::LoadU(d, at += step), hn::Set(d, weights[k]), sum);
    hn::StoreU(sum, d, out + i);
  }
}

void FloatSums(const float* in, ptrdiff_t step, const float* weights, int taps, size_t count,
               float* out) {
  Sums(in, step, weights, taps, count, out);
}

template <class F>
void Horizontal(const void* const* line, const GaussianAxis& axis, int pixels, int channels,
                void* slot) {
  const size_t count = size_t(pixels) * channels;
  if (axis.radius == 1) return HorizontalFew<F, 1>(line, axis, count, channels, slot);
  if (axis.radius == 2) return HorizontalFew<F, 2>(line, axis, count, channels, slot);
  if (axis.radius == 3) return HorizontalFew<F, 3>(line, axis, count, channels, slot);
  Sums(static_cast<const F*>(line[0]), channels, Weights<F>(axis), 2 * axis.radius + 1, count,
       static_cast<F*>(slot));
}

template <class T, class F, int kOutputs>
void VerticalRows(const void* const* slot, const GaussianAxis& axis, size_t count, int shift,
                  int stored, void* const* dst) {
  const hn::ScalableTag<F> d;
  using V = hn::Vec<decltype(d)>;
  const size_t n = hn::Lanes(d);
  const F* const weights = Weights<F>(axis);
  const int taps = 2 * axis.radius + 1, slots = taps + kOutputs - 1;
  // The highest multiple of 1 << shift, in units of 1 << shift.
  const V highest = hn::Set(d, F(65535 >> shift));
  for (size_t i = 0; i < count; i += 2 * n) {
    V sum[kOutputs][2];
    for (int r = 0; r < kOutputs; r++) sum[r][0] = sum[r][1] = hn::Zero(d);
    for (int p = 0; p < slots; p++) {
      const F* in = static_cast<const F*>(slot[p]) + i;
      const V x0 = hn::Load(d, in), x1 = hn::Load(d, in + n);
      const auto add = [&](int r) HWY_ATTR {
        const V w = hn::Set(d, weights[p - r]);
        sum[r][0] = hn::MulAdd(x0, w, sum[r][0]);
        sum[r][1] = hn::MulAdd(x1, w, sum[r][1]);
      };
      if (p >= kOutputs - 1 && p < taps) {
        for (int r = 0; r < kOutputs; r++) add(r);
      } else {
        for (int r = 0; r < kOutputs; r++)
          if (p >= r && p - r < taps) add(r);
      }
    }
    for (int r = 0; r < kOutputs; r++) {
      if (r >= stored) break;
      T* out = static_cast<T*>(dst[r]) + i;
      if (i + 2 * n <= count) {
        StoreRounded(d, sum[r][0], shift, highest, out);
        StoreRounded(d, sum[r][1], shift, highest, out + n);
      } else {
        alignas(64) T rest[2 * hn::MaxLanes(d)];
        StoreRounded(d, sum[r][0], shift, highest, rest);
        StoreRounded(d, sum[r][1], shift, highest, rest + n);
        std::memcpy(out, rest, (count - i) * sizeof(T));
      }
    }
  }
}

template <class T, class F, int kRadius>
void VerticalFew(const void* const* slot, const GaussianAxis& axis, size_t count, int shift,
                 int stored, void* const* dst) {
  constexpr int kOutputs = gaussian_outputs(kRadius), kRows = 2 * kRadius + kOutputs;
  const hn::ScalableTag<F> d;
  using V = hn::Vec<decltype(d)>;
  const size_t n = hn::Lanes(d);
  const V highest = hn::Set(d, F(65535 >> shift));
  V w[2 * kRadius + 1];
  for (int t = 0; t <= 2 * kRadius; t++) w[t] = hn::Set(d, Weights<F>(axis)[t]);
  const F* rows[kRows];
  for (int p = 0; p < kRows; p++) rows[p] = static_cast<const F*>(slot[p]);
  T* out[kOutputs];
  for (int r = 0; r < kOutputs; r++) out[r] = static_cast<T*>(dst[r < stored ? r : 0]);
  for (size_t i = 0; i < count; i += n) {
    V x[kRows];
    for (int p = 0; p < kRows; p++) x[p] = hn::Load(d, rows[p] + i);
    // Goes backwards, because surplus rows are written to row 0 and must be overwritten.
    for (int r = kOutputs - 1; r >= 0; r--) {
      V sum = hn::Mul(x[r], w[0]);
      for (int t = 1; t <= 2 * kRadius; t++) sum = hn::MulAdd(x[r + t], w[t], sum);
      if (i + n <= count) {
        StoreRounded(d, sum, shift, highest, out[r] + i);
      } else {
        alignas(64) T rest[hn::MaxLanes(d)];
        StoreRounded(d, sum, shift, highest, rest);
        std::memcpy(out[r] + i, rest, (count - i) * sizeof(T));
      }
    }
  }
}

template <class T, class F>
void Vertical(const void* const* slot, const GaussianAxis& axis, int pixels, int channels,
              int shift, int outputs, int stored, void* const* dst) {
  const auto run = axis.radius == 1   ? VerticalFew<T, F, 1>
                   : axis.radius == 2 ? VerticalFew<T, F, 2>
                   : axis.radius == 3 ? VerticalFew<T, F, 3>
                   : outputs == 2     ? VerticalRows<T, F, 2>
                                      : VerticalRows<T, F, 4>;
  run(slot, axis, size_t(pixels) * channels, shift, stored, dst);
}

template <class T, class F>
constexpr GaussianRows FloatRows() {
  return {
      1,      sizeof(F), LineBytes<F>, SlotBytes<F>, Convert<T, F>, Horizontal<F>, Vertical<T, F>,
      nullptr};
}

// `radius` is the larger one of the two axes.
const GaussianRows* Rows(Type type, int radius) {
  static constexpr GaussianRows brief{
      1,      2, LineBytesShort, SlotBytesShort, ConvertShort, HorizontalShortAny, VerticalShortAny,
      nullptr};
  static constexpr GaussianRows u8{2,        2,           LineBytes8, SlotBytes8,
                                   Convert8, Horizontal8, Vertical8,  Order3};
  static constexpr GaussianRows u16 = FloatRows<uint16_t, float>();
  static constexpr GaussianRows s16 = FloatRows<int16_t, float>();
  static constexpr GaussianRows s32 = FloatRows<int32_t, double>();
  static constexpr GaussianRows f32 = FloatRows<float, float>();
  switch (type) {
    case Type::u8:
      return radius <= kShortRadius ? &brief : &u8;
    case Type::u16:
      return &u16;
    case Type::s16:
      return &s16;
    case Type::s32:
      return &s32;
    case Type::f32:
      return &f32;
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>

namespace vf::cpu {

HWY_EXPORT(Rows);
HWY_EXPORT(FloatSums);

void gaussian_sums(const float* in, ptrdiff_t step, const float* weights, int taps, size_t count,
                   float* out) {
  HWY_DYNAMIC_DISPATCH(FloatSums)(in, step, weights, taps, count, out);
}

namespace {

// Returns how many outer weights on one side are too small to change a result of the type.
int negligible(const std::vector<double>& w, Type type) {
  // This share of the largest magnitude is far below half a code value or the rounding of a float.
  const double limit = type == Type::s32 ? 1e-12 : type == Type::f32 ? 1e-9 : 1e-8;
  double sum = 0;
  int n = 0;
  while (n < int(w.size()) / 2 && sum + w[n] < limit) sum += w[n++];
  return n;
}

// Returns weights in units of 1 / 2^bits. The rounding error of a weight is added to the next one
// outwards, so that the sum of all weights, and of any run from the centre, is right.
std::vector<int> quantised(const std::vector<double>& w, int bits) {
  const int radius = int(w.size()) / 2;
  std::vector<int> q(w.size());
  const double unit = 1 << bits;
  // The centre is even, because the rest has two equal sides.
  q[radius] = 2 * int(std::lround(w[radius] * unit / 2));
  double carry = (w[radius] * unit - q[radius]) / 2;
  int left = ((1 << bits) - q[radius]) / 2;
  for (int i = 1; i <= radius; i++) {
    const double exact = w[radius + i] * unit + carry;
    const int v = std::clamp(int(std::lround(exact)), 0, left);
    carry = exact - v;
    left -= v;
    q[radius - i] = q[radius + i] = v;
  }
  // `left` is not 0 only because of the rounding of doubles.
  q[radius] += 2 * left;
  return q;
}

// Returns quantised() without outer weights of 0.
std::vector<int> trimmed(const std::vector<double>& w, int bits) {
  const std::vector<int> q = quantised(w, bits);
  int cut = 0;
  while (cut < int(q.size()) / 2 && q[cut] == 0) cut++;
  return std::vector<int>(q.begin() + cut, q.end() - cut);
}

GaussianAxis short_axis(const std::vector<int>& q) {
  GaussianAxis axis;
  axis.radius = int(q.size()) / 2;
  if (axis.radius) axis.half.assign(q.begin() + axis.radius, q.end());
  return axis;
}

GaussianAxis pair_axis(std::vector<int> q) {
  GaussianAxis axis;
  axis.bits = 15;
  axis.radius = int(q.size()) / 2;
  // A weight of 1 does not fit into 16 bits as Q15.
  if (axis.radius == 0) axis.bits = 14, q[0] = 1 << axis.bits;
  const auto at = [&](int i) { return i < 0 || i >= int(q.size()) ? 0 : q[i]; };
  for (int i = -axis.kPad; i <= axis.radius + axis.kPad; i++) {
    axis.even.push_back(at(2 * i) | at(2 * i + 1) << 16);
    axis.odd.push_back(at(2 * i - 1) | at(2 * i) << 16);
  }
  return axis;
}

// The weights are multiplied by `scale`, a power of 2.
GaussianAxis float_axis(const std::vector<double>& w, Type type, double scale) {
  GaussianAxis axis;
  const int cut = negligible(w, type);
  axis.f64.assign(w.begin() + cut, w.end() - cut);
  double sum = 0;
  for (const double v : axis.f64) sum += v;
  for (double& v : axis.f64) v *= scale / sum;
  axis.f32.assign(axis.f64.begin(), axis.f64.end());
  axis.radius = int(axis.f64.size()) / 2;
  return axis;
}

}  // namespace

const GaussianRows& gaussian_rows(const Layout& layout, const GaussianPlane& plane, GaussianAxis* x,
                                  GaussianAxis* y) {
  const Type type = layout.type;
  const auto rows = [&](int radius) { return HWY_DYNAMIC_DISPATCH(Rows)(type, radius); };
  if (type != Type::u8) {
    *x = float_axis(plane.weights_x, type, 1);
    *y = float_axis(plane.weights_y, type, 1.0 / (1 << layout.shift));
    return *rows(0);
  }
  *x = short_axis(trimmed(plane.weights_x, 16));
  *y = short_axis(trimmed(plane.weights_y, 16));
  const int radius = std::max(x->radius, y->radius);
  if (rows(radius)->order) {
    *x = pair_axis(trimmed(plane.weights_x, 15));
    *y = pair_axis(trimmed(plane.weights_y, 15));
  }
  return *rows(radius);
}

}  // namespace vf::cpu
#endif  // HWY_ONCE
