// Implements the inner loops of the CPU median. cpu/median.cpp describes their use.
#include "cpu/median_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/median_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace vf::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Converts keys in the order of floats to the bits of floats.
template <class D, class V>
HWY_INLINE V FloatBits(D d, V keys) {
  const hn::RebindToSigned<D> sign;
  const V positive = hn::BitCast(d, hn::ShiftRight<31>(hn::BitCast(sign, keys)));
  return hn::Xor(keys, hn::Or(hn::Not(positive), hn::Set(d, 0x80000000u)));
}

// Columns of three are sorted from the pair that both rows share. The median of nine is the median
// of the largest low, the middle of the middles and the smallest high.
//
// Components of four bytes are the bits of floats. They are compared as keys in the order of the
// floats, with NaN last.
template <class T>
void Three(const void* const rows[4], size_t distance, size_t count, void* const out[2]) {
  const auto pixel = [&](auto d, size_t at) HWY_ATTR {
    using V = hn::Vec<decltype(d)>;
    const auto middle_of = [](V a, V b, V c) HWY_ATTR {
      return hn::Max(hn::Min(a, b), hn::Min(hn::Max(a, b), c));
    };
    [[maybe_unused]] const hn::RebindToSigned<decltype(d)> sign;
    const auto load = [&](const T* from) HWY_ATTR {
      const V v = hn::LoadU(d, from);
      if constexpr (sizeof(T) < 4) {
        return v;
      } else {
        const V top = hn::Set(d, 0x80000000u), all = hn::Set(d, 0xffffffffu);
        const V negative = hn::BitCast(d, hn::ShiftRight<31>(hn::BitCast(sign, v)));
        const auto nan = hn::Gt(hn::AndNot(top, v), hn::Set(d, 0x7f800000u));
        return hn::IfThenElse(nan, all, hn::Xor(v, hn::Or(negative, top)));
      }
    };
    const auto store = [&](V v, T* to) HWY_ATTR {
      if constexpr (sizeof(T) == 4) v = FloatBits(d, v);
      hn::StoreU(v, d, to);
    };
    V low[2][3], middle[2][3], high[2][3];
    for (int x = 0; x < 3; x++) {
      const auto i = ptrdiff_t(at) + (x - 1) * ptrdiff_t(distance);
      V row[4];
      for (int y = 0; y < 4; y++) row[y] = load(static_cast<const T*>(rows[y]) + i);
      const V p = hn::Min(row[1], row[2]), q = hn::Max(row[1], row[2]);
      for (int y = 0; y < 2; y++) {
        const V third = row[3 * y], t = hn::Max(p, third);
        low[y][x] = hn::Min(p, third);
        middle[y][x] = hn::Min(q, t);
        high[y][x] = hn::Max(q, t);
      }
    }
    for (int y = 0; y < 2; y++)
      if (out[y])
        store(middle_of(hn::Max(hn::Max(low[y][0], low[y][1]), low[y][2]),
                        middle_of(middle[y][0], middle[y][1], middle[y][2]),
                        hn::Min(hn::Min(high[y][0], high[y][1]), high[y][2])),
              static_cast<T*>(out[y]) + at);
  };
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const size_t n = hn::Lanes(d);
  size_t i = 0;
  for (; i + n <= count; i += n) pixel(d, i);
  if (i == count) return;
  // The last vector overlaps the previous one.
  if (count >= n) return pixel(d, count - n);
  for (; i < count; i++) pixel(one, i);
}

template <class T>
void Network(const MedianProgram& program, const uint8_t* plane, uint8_t* slots) {
  const hn::ScalableTag<T> d;
  const size_t count = program.chunk / sizeof(T);
  const size_t n = hn::Lanes(d);
  const uint8_t* const base[2] = {slots, plane};
  const MedianProgram::Step* step = program.steps.data();
  const auto from = [&](const MedianProgram::Operand& o) {
    return reinterpret_cast<const T*>(base[o.plane] + o.offset);
  };
  const auto to = [&](uint32_t offset) { return reinterpret_cast<T*>(slots + offset); };
  for (const MedianProgram::Run& run : program.runs) {
    const MedianProgram::Step* const end = step + run.count;
    switch (run.kind) {
      case MedianProgram::exchange:
        for (; step != end; step++) {
          const T *a = from(step->a), *b = from(step->b);
          T *low = to(step->low), *high = to(step->high);
          for (size_t i = 0; i < count; i += n) {
            const auto x = hn::LoadU(d, a + i), y = hn::LoadU(d, b + i);
            hn::Store(hn::Min(x, y), d, low + i);
            hn::Store(hn::Max(x, y), d, high + i);
          }
        }
        break;
      case MedianProgram::minimum:
        for (; step != end; step++) {
          const T *a = from(step->a), *b = from(step->b);
          T* low = to(step->low);
          for (size_t i = 0; i < count; i += n)
            hn::Store(hn::Min(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, low + i);
        }
        break;
      case MedianProgram::maximum:
        for (; step != end; step++) {
          const T *a = from(step->a), *b = from(step->b);
          T* high = to(step->high);
          for (size_t i = 0; i < count; i += n)
            hn::Store(hn::Max(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, high + i);
        }
        break;
    }
  }
}

template <class T>
void Columns(const uint8_t* from, size_t pitch, int rows, size_t bytes, uint8_t* low,
             uint8_t* high) {
  const hn::ScalableTag<T> d;
  const size_t n = hn::Lanes(d);
  for (size_t i = 0; i < bytes / sizeof(T); i += n) {
    const auto row = [&](int y) HWY_ATTR {
      return hn::LoadU(d, reinterpret_cast<const T*>(from + y * pitch) + i);
    };
    auto minimum = row(0), maximum = minimum;
    for (int y = 1; y < rows; y++) {
      const auto v = row(y);
      minimum = hn::Min(minimum, v);
      maximum = hn::Max(maximum, v);
    }
    hn::StoreU(minimum, d, reinterpret_cast<T*>(low) + i);
    hn::StoreU(maximum, d, reinterpret_cast<T*>(high) + i);
  }
}

template <class T>
void Outliers(const MedianOutliers& t) {
  T *const low = static_cast<T*>(t.low), *const high = static_cast<T*>(t.high);
  T* const medians = static_cast<T*>(t.medians);
  const hn::ScalableTag<T> all;
  const size_t n = hn::Lanes(all);
  // Enlarges windows of `size` pixels by the window that begins `by` pixels later.
  const auto widen = [&](int size, int by) HWY_ATTR {
    const size_t count = t.count + size_t(t.size - size - by) * t.distance;
    const size_t apart = by * t.distance;
    for (size_t i = 0; i < count; i += n) {
      const auto l = hn::Min(hn::LoadU(all, low + i), hn::LoadU(all, low + i + apart));
      const auto h = hn::Max(hn::LoadU(all, high + i), hn::LoadU(all, high + i + apart));
      hn::StoreU(l, all, low + i);
      hn::StoreU(h, all, high + i);
    }
  };
  int size = 1;
  for (; 2 * size <= t.size; size *= 2) widen(size, size);
  if (size < t.size) widen(size, t.size - size);

  const auto pixel = [&](auto d, size_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, static_cast<const T*>(t.values) + i);
    const auto median = hn::LoadU(d, medians + i);
    const auto extreme = hn::Or(hn::Eq(value, hn::LoadU(d, low + i)),  //
                                hn::Eq(value, hn::LoadU(d, high + i)));
    if constexpr (sizeof(T) < 4) {
      const auto distance = hn::Sub(hn::Max(value, median), hn::Min(value, median));
      const auto far = hn::Gt(distance, hn::Set(d, T(t.threshold)));
      hn::StoreU(hn::IfThenElse(hn::And(far, extreme), median, value), d, medians + i);
    } else {
      const hn::RebindToFloat<decltype(d)> real;
      const auto bits = FloatBits(d, value);
      const auto distance = hn::Abs(hn::Sub(hn::BitCast(real, bits), hn::BitCast(real, median)));
      const auto near = hn::Le(distance, hn::BitCast(real, hn::Set(d, t.threshold)));
      hn::StoreU(hn::IfThenElse(hn::AndNot(hn::RebindMask(d, near), extreme), median, bits), d,
                 medians + i);
    }
  };
  const hn::CappedTag<T, 1> one;
  size_t i = 0;
  for (; i + n <= t.count; i += n) pixel(all, i);
  // The last vector overlaps the previous one. A pixel that already has its own value keeps it.
  if (i < t.count && t.count >= n) return pixel(all, t.count - n);
  for (; i < t.count; i++) pixel(one, i);
}

#if HWY_TARGET == HWY_SCALAR

void OneThreshold(const MedianThreshold& t, int threshold) {
  const int columns = t.words * kMedianLanes;
  const auto at = [&](int row, int c) {  // column c is lane c / words of group c % words
    return t.pixels[(size_t(row) * t.words + c % t.words) * kMedianLanes + c / t.words] < threshold;
  };
  const auto count = [&](int c) -> uint8_t& {
    return t.columns[size_t(c % t.words) * kMedianPitch + c / t.words];
  };
  for (int c = 0; c < columns; c++) {
    count(c) = 0;
    for (int i = 0; i < t.size; i++) count(c) = uint8_t(count(c) + at(i, c));
  }
  for (int y = 0; y < t.rows; y++) {
    int sum = 0;
    for (int c = 0; c < columns; c++) {
      if (y) count(c) = uint8_t(count(c) + at(y + t.size - 1, c) - at(y - 1, c));
      sum += count(c);
      if (c >= t.size_x) sum -= count(c - t.size_x);
      uint8_t* out = t.counts + (size_t(y) * t.words + c % t.words) * kMedianLanes + c / t.words;
      *out = uint8_t(*out + (sum <= t.limit));
    }
  }
}

void Threshold(const MedianThreshold& t) {
  for (const int threshold : t.threshold) OneThreshold(t, threshold);
}

#else

void Threshold(const MedianThreshold& t) {
  const hn::CappedTag<uint8_t, kMedianLanes> d8;
  const hn::RepartitionToWide<decltype(d8)> d16;
  const hn::RebindToSigned<decltype(d8)> s8;
  using V8 = hn::Vec<decltype(d8)>;
  using V16 = hn::Vec<decltype(d16)>;
  const size_t n = hn::Lanes(d8);
  const int words = t.words, turns = t.size_x / words, rest = t.size_x % words;
  const size_t row_bytes = size_t(words) * kMedianLanes;
  const V16 low_byte = hn::Set(d16, 0xff);
  const V8 threshold[2] = {hn::Set(d8, uint8_t(t.threshold[0])),
                           hn::Set(d8, uint8_t(t.threshold[1]))};
  uint8_t* const columns[2] = {t.columns, t.columns + size_t(words) * kMedianPitch};
  const auto is_below = [&](V8 pixels, int q)
                            HWY_ATTR { return hn::VecFromMask(d8, hn::Lt(pixels, threshold[q])); };

  // Counts the columns for the windows of the first row.
  for (int m = 0; m < words; m++)
    for (size_t j = 0; j < kMedianLanes; j += n) {
      V8 count[2] = {hn::Zero(d8), hn::Zero(d8)};
      const uint8_t* p = t.pixels + size_t(m) * kMedianLanes + j;
      for (int i = 0; i < t.size; i++, p += row_bytes) {
        const V8 pixels = hn::LoadU(d8, p);
        for (int q = 0; q < 2; q++) count[q] = hn::Sub(count[q], is_below(pixels, q));
      }
      for (int q = 0; q < 2; q++)
        hn::Store(count[q], d8, columns[q] + size_t(m) * kMedianPitch + j);
    }

  // `all` holds the sum of each lane's columns and `last` that of its last `rest` columns, with
  // zeros in front. The window that ends just before a lane's first column is the sum of those of
  // previous lanes.
  HWY_ALIGN uint16_t all[2][2 * kMedianLanes] = {}, last[2][2 * kMedianLanes] = {};
  HWY_ALIGN uint16_t start[2][kMedianLanes];
  // With the offset, the sign bit says whether a count is within the limit.
  const V16 offset = hn::Set(d16, uint16_t(-1 - t.limit));
  for (int y = 0; y < t.rows; y++) {
    if (y > 0) {
      const uint8_t* enter = t.pixels + size_t(y + t.size - 1) * row_bytes;
      const uint8_t* leave = t.pixels + size_t(y - 1) * row_bytes;
      for (int m = 0; m < words; m++, enter += kMedianLanes, leave += kMedianLanes)
        for (size_t j = 0; j < kMedianLanes; j += n) {
          const V8 entering = hn::LoadU(d8, enter + j), leaving = hn::LoadU(d8, leave + j);
          for (int q = 0; q < 2; q++) {
            uint8_t* c = columns[q] + size_t(m) * kMedianPitch + j;
            const V8 change = hn::Sub(is_below(leaving, q), is_below(entering, q));
            hn::Store(hn::Add(hn::Load(d8, c), change), d8, c);
          }
        }
    }
    for (int q = 0; q < 2; q++)
      for (size_t j = 0; j < kMedianLanes; j += n) {
        V16 even = hn::Zero(d16), odd = hn::Zero(d16);
        const auto add = [&](int m) HWY_ATTR {
          const V16 c = hn::BitCast(d16, hn::Load(d8, columns[q] + size_t(m) * kMedianPitch + j));
          even = hn::Add(even, hn::And(c, low_byte));
          odd = hn::Add(odd, hn::ShiftRight<8>(c));
        };
        for (int m = words - rest; m < words; m++) add(m);
        const V16 last_even = even, last_odd = odd;
        if (turns)
          for (int m = 0; m < words - rest; m++) add(m);
        hn::StoreInterleaved2(even, odd, d16, all[q] + kMedianLanes + j);
        hn::StoreInterleaved2(last_even, last_odd, d16, last[q] + kMedianLanes + j);
      }
    for (int q = 0; q < 2; q++)
      for (size_t j = 0; j < kMedianLanes; j += n / 2) {
        V16 s = offset;
        for (int k = 1; k <= turns; k++)
          s = hn::Add(s, hn::LoadU(d16, all[q] + kMedianLanes + j - k));
        if (rest) s = hn::Add(s, hn::LoadU(d16, last[q] + kMedianLanes + j - turns - 1));
        hn::Store(s, d16, start[q] + j);
      }
    uint8_t* out = t.counts + size_t(y) * row_bytes;
    for (size_t j = 0; j < kMedianLanes; j += n) {
      V16 even[2], odd[2];
      for (int q = 0; q < 2; q++) hn::LoadInterleaved2(d16, start[q] + j, even[q], odd[q]);
      const auto slide = [&](int m, int leaving, int shift) HWY_ATTR {
        uint8_t* to = out + size_t(m) * kMedianLanes + j;
        V8 count = hn::Load(d8, to);
        for (int q = 0; q < 2; q++) {
          const V16 lead =
              hn::BitCast(d16, hn::Load(d8, columns[q] + size_t(m) * kMedianPitch + j));
          const V16 tail = hn::BitCast(
              d16,
              hn::LoadU(d8, columns[q] + ptrdiff_t(leaving) * kMedianPitch + ptrdiff_t(j) - shift));
          even[q] = hn::Add(even[q], hn::Sub(hn::And(lead, low_byte), hn::And(tail, low_byte)));
          odd[q] = hn::Add(odd[q], hn::Sub(hn::ShiftRight<8>(lead), hn::ShiftRight<8>(tail)));
          const V16 signs = hn::Or(hn::ShiftRight<8>(even[q]), hn::AndNot(low_byte, odd[q]));
          const auto within = hn::BroadcastSignBit(hn::BitCast(s8, signs));
          count = hn::Sub(count, hn::BitCast(d8, within));
        }
        hn::Store(count, d8, to);
      };
      for (int m = 0; m < rest; m++) slide(m, m - rest + words, turns + 1);
      for (int m = rest; m < words; m++) slide(m, m - rest, turns);
    }
  }
}

#endif

template <class T>
void Split4(const uint8_t* from, int pixels, uint8_t* const* parts) {
  const T* p = reinterpret_cast<const T*>(from);
  T* to[4];
  for (int j = 0; j < 4; j++) to[j] = reinterpret_cast<T*>(parts[j]);
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const size_t n = hn::Lanes(d);
  for (size_t i = 0; i < size_t(pixels + 3) / 4; i += n) {
    hn::Vec<decltype(d)> a, b, c, e;
    hn::LoadInterleaved4(d, p + 4 * i, a, b, c, e);
    hn::StoreU(a, d, to[0] + i);
    hn::StoreU(b, d, to[1] + i);
    hn::StoreU(c, d, to[2] + i);
    hn::StoreU(e, d, to[3] + i);
  }
#else
  for (int i = 0; i < pixels; i++) to[i & 3][i >> 2] = p[i];
#endif
}

template <class T>
void Join4(const uint8_t* const* parts, int pixels, uint8_t* to) {
  T* out = reinterpret_cast<T*>(to);
  const T* from[4];
  for (int j = 0; j < 4; j++) from[j] = reinterpret_cast<const T*>(parts[j]);
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const size_t n = hn::Lanes(d);
  for (size_t i = 0; i < size_t(pixels + 3) / 4; i += n)
    hn::StoreInterleaved4(hn::LoadU(d, from[0] + i), hn::LoadU(d, from[1] + i),
                          hn::LoadU(d, from[2] + i), hn::LoadU(d, from[3] + i), d, out + 4 * i);
#else
  for (int i = 0; i < pixels; i++) out[i] = from[i & 3][i >> 2];
#endif
}

const MedianRows* Rows() {
  static constexpr MedianRows rows = {{Three<uint8_t>, Three<uint16_t>, Three<uint32_t>},
                                      {Network<uint8_t>, Network<uint16_t>, Network<uint32_t>},
                                      Threshold,
                                      {Columns<uint8_t>, Columns<uint16_t>, Columns<uint32_t>},
                                      {Outliers<uint8_t>, Outliers<uint16_t>, Outliers<uint32_t>},
                                      {Split4<uint8_t>, Split4<uint16_t>, Split4<uint32_t>},
                                      {Join4<uint8_t>, Join4<uint16_t>, Join4<uint32_t>}};
  return &rows;
}

}  // namespace HWY_NAMESPACE
}  // namespace vf::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace vf::cpu {

HWY_EXPORT(Rows);

const MedianRows& median_rows() {
  return *HWY_DYNAMIC_DISPATCH(Rows)();
}

}  // namespace vf::cpu

#endif  // HWY_ONCE
