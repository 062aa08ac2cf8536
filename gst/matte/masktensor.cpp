#include "gst/matte/masktensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "gst/base/errors.h"

namespace gstvf {
namespace {

// Prints the dimensions, such as "1x256x256x2".
std::string dims_of(const TensorView& t) {
  std::string text;
  for (const gsize d : t.dims) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

// These read numbers that need not be aligned in memory.
struct Byte {
  static constexpr gsize kSize = 1;
  static float read(const guint8* at) { return *at; }
};
struct Half {
  static constexpr gsize kSize = 2;
  static float read(const guint8* at) {
    guint16 bits;
    std::memcpy(&bits, at, sizeof bits);
    const guint32 exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (!exponent) return (bits >> 15 ? -0x1p-24f : 0x1p-24f) * float(mantissa);
    const guint32 wide = guint32(bits >> 15) << 31 | mantissa << 13 |
                         (exponent == 31 ? 255 : exponent - 15 + 127) << 23;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
};
struct Float {
  static constexpr gsize kSize = 4;
  static float read(const guint8* at) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
};

guint8 code_of(float v) {
  return guint8(std::clamp(v, 0.0f, 1.0f) * 255.0f + 0.5f);
}

// Computes the sigmoid with a table. At its steepest, it changes by a quarter of a code value from
// one entry to the next. Beyond the table's ends, the code value is 0 or 255.
class Sigmoid {
 public:
  Sigmoid() {
    for (int i = 0; i < kCount; i++)
      table_[i] = guint8(255 / (1 + std::exp(-((i + 0.5) / kPerUnit - kEnd))) + 0.5);
  }
  guint8 operator()(float v) const {
    return table_[int(std::clamp((v + kEnd) * kPerUnit, 0.0f, float(kCount - 1)))];
  }

 private:
  static constexpr int kEnd = 8, kPerUnit = 256, kCount = 2 * kEnd * kPerUnit;
  std::array<guint8, kCount> table_;
};

// Adds `channels` of `count` pixels, which have `all` channels. Channels are `step` numbers apart,
// and pixels are `pixel` numbers apart. Returns false if a value is NaN.
template <class T>
bool convert(const guint8* data, gsize count, gsize pixel, gsize step, int all,
             const std::vector<int>& channels, MaskActivation activation, guint8* out) {
  static const Sigmoid sigmoid;
  const bool one = channels.size() == 1;
  for (gsize i = 0; i < count; i++) {
    const auto at = [&](int c) { return T::read(data + (i * pixel + gsize(c) * step) * T::kSize); };
    float sum = 0;
    if (activation != MaskActivation::softmax || (one && all == 2)) {
      for (const int c : channels) {
        // Softmax over two channels is a sigmoid.
        const float v = activation == MaskActivation::softmax ? at(c) - at(1 - c) : at(c);
        // Infinities may differ by NaN too, for which the table has no entry.
        if (!(v == v)) return false;
        sum += activation == MaskActivation::none ? v : float(sigmoid(v)) / 255;
      }
    } else if (one) {
      const float v = at(channels[0]);
      for (int c = 0; c < all; c++) sum += std::exp(at(c) - v);
      sum = 1 / sum;
    } else {
      float largest = at(0), total = 0;
      for (int c = 1; c < all; c++) largest = std::max(largest, at(c));
      for (int c = 0; c < all; c++) total += std::exp(at(c) - largest);
      for (const int c : channels) sum += std::exp(at(c) - largest);
      sum /= total;
    }
    // A clamp leaves NaN as it is. Infinities may also add up to it.
    if (!(sum == sum)) return false;
    out[i] = code_of(sum);
  }
  return true;
}

// Adds `channels` of `count` pixels of bytes.
void add_bytes(const guint8* data, gsize count, gsize pixel, gsize step,
               const std::vector<int>& channels, guint8* out) {
  for (gsize i = 0; i < count; i++) {
    int sum = 0;
    for (const int c : channels) sum += data[i * pixel + gsize(c) * step];
    out[i] = guint8(std::min(sum, 255));
  }
}

}  // namespace

std::string mask_shape(const TensorView& t, MaskShape* shape) {
  // Skips the dimensions of a batch of one.
  gsize first = 0;
  while (t.dims.size() - first > 3 && t.dims[first] == 1) first++;
  const gsize rank = t.dims.size() - first;
  if (rank < 2 || rank > 3)
    return printed(
        "tensor \"%s\" has the dimensions %s, and needs HxW, CxHxW or HxWxC of one frame", t.id,
        t.dims.empty() ? "of an unknown order" : dims_of(t).c_str());
  const gsize* const d = t.dims.data() + first;
  // Assumes that there are fewer channels than rows and columns.
  const bool last = rank == 3 && d[0] != 1 && d[2] < d[0];
  const gsize channels = rank == 2 ? 1 : last ? d[2] : d[0];
  const gsize height = rank == 2 || last ? d[0] : d[1], width = rank == 2 || last ? d[1] : d[2];
  const auto within = [](gsize v, gsize maximum) { return v >= 1 && v <= maximum; };
  if (!within(width, MaskShape::kMaxSide) || !within(height, MaskShape::kMaxSide) ||
      !within(channels, MaskShape::kMaxChannels))
    return printed(
        "tensor \"%s\" has the dimensions %s, and must be 1 to %zu wide and high, with 1 to %zu "
        "channels",
        t.id, dims_of(t).c_str(), MaskShape::kMaxSide, MaskShape::kMaxChannels);
  shape->channels = int(channels);
  shape->width = int(width);
  shape->height = int(height);
  shape->channels_last = last;
  return {};
}

std::string convert_mask(const TensorView& t, const MaskShape& shape,
                         const std::vector<int>& channels, MaskActivation activation,
                         const std::function<guint8*()>& room) {
  for (const int channel : channels)
    if (channel >= shape.channels)
      return printed(
          "tensor \"%s\" has the channels 0 to %d, and %d is none (mask-channel, mask-label)", t.id,
          shape.channels - 1, channel);
  if (activation == MaskActivation::softmax && shape.channels < 2)
    return printed("tensor \"%s\" has 1 channel, and mask-activation=softmax needs 2 or more",
                   t.id);
  if (t.type == TensorView::Type::other)
    return printed("tensor \"%s\" has values of another type than float32, float16 and uint8",
                   t.id);
  const bool bytes = t.type == TensorView::Type::u8;
  if (bytes && activation != MaskActivation::none)
    return printed("tensor \"%s\" has values of type uint8, so mask-activation must be none", t.id);
  GstMapInfo map;
  if (!t.data || !gst_buffer_map(t.data, &map, GST_MAP_READ))
    return printed("tensor \"%s\" has no memory that can be read", t.id);
  const gsize size = bytes ? 1 : t.type == TensorView::Type::f16 ? Half::kSize : Float::kSize;
  const gsize need = shape.count() * size;
  std::string problem;
  if (map.size < need) {
    problem = printed("tensor \"%s\" (%s) has %zu bytes, and needs %zu", t.id, dims_of(t).c_str(),
                      map.size, need);
  } else {
    const gsize count = gsize(shape.width) * shape.height;
    const gsize pixel = shape.channels_last ? gsize(shape.channels) : 1;
    const gsize step = shape.channels_last ? 1 : count;
    bool numbers = true;
    guint8* const out = room();
    if (bytes)
      add_bytes(map.data, count, pixel, step, channels, out);
    else if (size == Half::kSize)
      numbers =
          convert<Half>(map.data, count, pixel, step, shape.channels, channels, activation, out);
    else
      numbers =
          convert<Float>(map.data, count, pixel, step, shape.channels, channels, activation, out);
    if (!numbers) problem = printed("tensor \"%s\" has values that are not numbers (NaN)", t.id);
  }
  gst_buffer_unmap(t.data, &map);
  return problem;
}

void choose_errors(const TensorView& t, const MaskShape& shape, const std::vector<int>& channels,
                   const std::vector<guint8>& errors, const guint8* mask, guint8* out) {
  const gsize count = gsize(shape.width) * shape.height;
  const gsize pixel = shape.channels_last ? gsize(shape.channels) : 1;
  const gsize step = shape.channels_last ? 1 : count;
  GstMapInfo map;
  memset(out, 0, count);
  if (!gst_buffer_map(t.data, &map, GST_MAP_READ)) return;
  // Activations keep the order of the channels.
  const auto choose = [&](auto type) {
    using T = decltype(type);
    for (gsize i = 0; i < count; i++) {
      if (mask[i] < 128) continue;
      const auto at = [&](gsize k) {
        return T::read(map.data + (i * pixel + gsize(channels[k]) * step) * T::kSize);
      };
      gsize best = 0;
      for (gsize k = 1; k < channels.size(); k++)
        if (at(k) > at(best)) best = k;
      out[i] = errors[best];
    }
  };
  if (t.type == TensorView::Type::u8)
    choose(Byte());
  else if (t.type == TensorView::Type::f16)
    choose(Half());
  else
    choose(Float());
  gst_buffer_unmap(t.data, &map);
}

}  // namespace gstvf
