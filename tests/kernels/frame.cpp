// Fills and compares frames.
#include "tests/kernels/harness.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "tests/components.h"

namespace vf::test {

Random::Random(uint64_t seed) {
  // splitmix64 spreads small seeds over the state.
  for (uint64_t& s : s_) {
    seed += 0x9e3779b97f4a7c15u;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    s = z ^ (z >> 31);
  }
}

std::string text(const char* format, ...) {
  char buffer[400];
  va_list args;
  va_start(args, format);
  vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  return buffer;
}

const char* name_of(Pattern p) {
  switch (p) {
    case Pattern::noise:
      return "noise";
    case Pattern::flat:
      return "flat";
    case Pattern::extremes:
      return "extremes";
    case Pattern::impulses:
      return "impulses";
    case Pattern::gradient:
      return "gradient";
    case Pattern::texture:
      return "texture";
    case Pattern::mixed:
      return "mixed";
  }
  return "?";
}

std::vector<std::pair<const char*, Layout>> video_layouts() {
  Layout y42b = i420_layout(161, 91), luma = packed_layout(Type::u8, 1, 160, 91), chroma = luma;
  y42b.plane[1] = y42b.plane[2] = {81, 91, 1, 0, 1, 0};
  luma.plane[0].step = 2;
  chroma.plane[0] = {80, 91, 1, 4, 1, 0};
  return {{"I420", i420_layout(161, 91)},
          {"NV12", nv12_layout(161, 91)},
          {"P010", p010_layout(161, 91)},
          {"Y42B", y42b},
          {"YUY2 luma", luma},
          {"YUY2 chroma", chroma}};
}

static uint32_t scatter(uint32_t v) {
  v ^= v >> 16;
  v *= 0x7feb352du;
  v ^= v >> 15;
  v *= 0x846ca68bu;
  return v ^ (v >> 16);
}

uint32_t mixed_value(int plane, int x, int y, int channel, uint32_t seed) {
  const uint32_t noise = scatter(uint32_t(x) * 4u + uint32_t(channel) +
                                 scatter(uint32_t(y) * 4u + uint32_t(plane) + scatter(seed)));
  if ((noise & 63) == 0) return noise & 64 ? 65535u : 0u;
  const uint32_t slope =
      (uint32_t(x) * 97u + uint32_t(y) * 61u + uint32_t(channel) * 9001u + seed * 13007u) & 0xffffu;
  const uint32_t hill = slope < 0x8000u ? slope : 0xffffu - slope;
  const uint32_t tile = (uint32_t(x) / 37u + uint32_t(y) / 29u + uint32_t(plane) + seed) & 1u;
  return hill + tile * 16384u + (noise >> 18);
}

Layout shrunk(const Layout& layout, int factor) {
  Layout l = layout;
  for (int p = 0; p < l.planes; p++) {
    PlaneLayout& q = l.plane[p];
    // The frame's size is computed first, so that the planes still fit each other.
    const int width = ((q.width << q.sub_x) + factor - 1) / factor;
    const int height = ((q.height << q.sub_y) + factor - 1) / factor;
    q.width = (width + (1 << q.sub_x) - 1) >> q.sub_x;
    q.height = (height + (1 << q.sub_y) - 1) >> q.sub_y;
  }
  return l;
}

Layout nv12_layout(int width, int height) {
  Layout l = packed_layout(Type::u8, 1, width, height);
  l.planes = 2;
  l.plane[1] = {(width + 1) / 2, (height + 1) / 2, 2, 0, 1, 1};
  return l;
}

Layout p010_layout(int width, int height) {
  Layout l = nv12_layout(width, height);
  l.type = Type::u16;
  l.shift = 6;
  l.max_value = 1023;
  return l;
}

Layout i420_layout(int width, int height) {
  Layout l = nv12_layout(width, height);
  l.planes = 3;
  l.plane[1].channels = 1;
  l.plane[2] = l.plane[1];
  return l;
}

namespace {

constexpr uint8_t kGuard = 0xa5;
constexpr int kGuardBytes = 64;

struct Range {
  double low, high;
};

Range range_of(const Layout& l) {
  switch (l.type) {
    case Type::u8:
      return {0, double(l.max_value ? l.max_value : 255)};
    case Type::u16:
      return {0, double(l.max_value ? l.max_value : 65535 >> l.shift)};
    case Type::s16:
      return {-32768, 32767};
    case Type::s32:
      return {-2147483648.0, 2147483647.0};
    case Type::f32:
      return {-2, 3};
  }
  return {0, 0};
}

template <class F>
void for_each_component(const Layout& l, F&& f) {
  for (int p = 0; p < l.planes; p++)
    for (int y = 0; y < l.plane[p].height; y++)
      for (int x = 0; x < l.plane[p].width; x++)
        for (int c = 0; c < l.plane[p].channels; c++) f(p, x, y, c);
}

}  // namespace

Bytes::Bytes(size_t size)
    : data_(static_cast<uint8_t*>(std::aligned_alloc(256, (size + 255) / 256 * 256)), std::free),
      size_(size) {
  if (!data_) std::abort();
}

Frame::Frame(const Layout& layout, Geometry geometry) : bytes_(0) {
  image_.layout = layout;
  const int size = size_of(layout.type);
  auto whole = [&](int bytes) { return size_t((bytes + size - 1) / size * size); };
  const size_t pitch = size_t(geometry.pitch);
  size_t at[kMaxPlanes] = {}, total = kGuardBytes;
  for (int p = 0; p < layout.planes; p++) {
    const size_t row = row_bytes(layout, p);
    const size_t stride = geometry.stride_padding ? row + whole(geometry.stride_padding)
                                                  : (row + pitch - 1) / pitch * pitch;
    total = (total + pitch - 1) / pitch * pitch + whole(geometry.offset);
    at[p] = total;
    image_.stride[p] = ptrdiff_t(stride);
    total += stride * layout.plane[p].height + kGuardBytes;
    if (geometry.tight && p == layout.planes - 1)
      total = at[p] + stride * (layout.plane[p].height - 1) + row;
  }
  bytes_ = Bytes(total);
  poison();
  used_.assign(total, 0);
  for (int p = 0; p < layout.planes; p++) image_.data[p] = bytes_.data() + at[p];
  for_each_run(image_, [&](int p, int x, int y, int n) {
    const auto* first = static_cast<uint8_t*>(component(image_, p, x, y, 0));
    std::memset(&used_[size_t(first - bytes_.data())], 1, size_t(n) * size);
  });
}

double Frame::get(int plane, int x, int y, int channel) const {
  const double v = read(image_, plane, x, y, channel);
  return layout().type == Type::u16 ? double(unsigned(v) >> layout().shift) : v;
}

void Frame::set(int plane, int x, int y, int channel, double value) {
  with_type(layout().type, [&](auto v) {
    using T = decltype(v);
    v = std::is_same_v<T, uint16_t> ? T(unsigned(value) << layout().shift) : T(value);
    std::memcpy(component(image_, plane, x, y, channel), &v, sizeof v);
  });
}

// Frames that are timed are large, so this function is fast.
void Frame::fill_mixed(uint32_t seed) {
  const Layout& l = layout();
  with_type(l.type, [&](auto type) {
    using T = decltype(type);
    for_each_run(image_, [&](int p, int x, int y, int n) {
      auto* at = static_cast<uint8_t*>(component(image_, p, x, y, 0));
      const int channels = l.plane[p].channels;
      for (int i = 0; i < n; i++, at += sizeof(T)) {
        const uint32_t m = mixed_value(p, x + i / channels, y, i % channels, seed);
        T v;
        if constexpr (std::is_same_v<T, float>)
          v = float(m) / 65535.0f;
        else if constexpr (sizeof(T) == 4)
          v = (int(m) - 32768) * 65536;
        else if constexpr (std::is_signed_v<T>)
          v = T(int(m) - 32768);
        else if constexpr (sizeof(T) == 1)
          v = T(m >> 8);
        else
          v = T(l.max_value ? (m * (uint32_t(l.max_value) + 1) >> 16) << l.shift
                            : m >> l.shift << l.shift);
        std::memcpy(at, &v, sizeof v);
      }
    });
  });
}

void Frame::fill(Pattern pattern, Random& random) {
  if (pattern == Pattern::mixed) return fill_mixed(uint32_t(random.next()));
  const Range r = range_of(layout());
  const double span = r.high - r.low;
  const bool whole = layout().type != Type::f32;
  const double level = random.unit();
  const int period = random.between(2, 9);
  std::vector<double> across, down;  // waves of a texture
  if (pattern == Pattern::texture)
    for (int p = 0; p < layout().planes; p++) {
      const PlaneLayout& l = layout().plane[p];
      for (int x = int(across.size()) / kMaxChannels; x < l.width; x++)
        for (int c = 0; c < kMaxChannels; c++) across.push_back(0.3 * std::sin(x * 0.7 + c));
      for (int y = int(down.size()); y < l.height; y++) down.push_back(std::cos(y * 0.31));
    }
  for_each_component(layout(), [&](int p, int x, int y, int c) {
    const PlaneLayout& l = layout().plane[p];
    double v = 0;
    switch (pattern) {
      case Pattern::noise:
        v = random.unit();
        break;
      case Pattern::flat:
        v = level;
        break;
      case Pattern::extremes:
        v = ((x / period + y / period + c) & 1) ? 1 : 0;
        break;
      case Pattern::impulses:
        v = random.between(0, 30) ? 0.1 : 1;
        break;
      case Pattern::gradient:
        v = (double(x) / l.width + double(y) / l.height + 0.25 * c) / 2.75;
        break;
      case Pattern::texture:
        v = 0.5 + across[x * kMaxChannels + c] * down[y] + 0.2 * (random.unit() - 0.5);
        break;
      case Pattern::mixed:
        break;
    }
    v = r.low + std::clamp(v, 0.0, 1.0) * span;
    set(p, x, y, c, whole ? std::floor(v) : v);
  });
}

void Frame::poison() {
  std::memset(bytes_.data(), kGuard, bytes_.size());
}

std::string Frame::guard_damage() const {
  for (size_t i = 0; i < bytes_.size(); i++) {
    // Most bytes belong to components, so eight of them are looked at together.
    while (i + 8 <= used_.size() && load<uint64_t>(&used_[i]) == 0x0101010101010101u) i += 8;
    if (i == used_.size()) break;
    if (used_[i] || bytes_.data()[i] == kGuard) continue;
    const auto* base = static_cast<const uint8_t*>(image_.data[0]);
    char text[160];
    const ptrdiff_t offset = bytes_.data() + i - base;
    snprintf(text, sizeof text,
             "byte outside the frame overwritten with 0x%02x: row %td, byte %td of stride %td",
             bytes_.data()[i], offset / image_.stride[0], offset % image_.stride[0],
             image_.stride[0]);
    return text;
  }
  return {};
}

Difference compare(const Frame& got, const Frame& want, const Tolerance& tolerance) {
  Difference d;
  const Layout& l = want.layout();
  with_type(l.type, [&](auto type) {
    using T = decltype(type);
    const auto value = [&](const Frame& f, int p, int x, int y, int i) {
      const T v = load<T>(static_cast<uint8_t*>(component(f.image(), p, x, y, 0)) + i * sizeof(T));
      return std::is_same_v<T, uint16_t> ? double(unsigned(v) >> l.shift) : double(v);
    };
    for_each_run(want.image(), [&](int p, int x, int y, int n) {
      for (int i = 0; i < n; i++)
        if (const double w = std::abs(value(want, p, x, y, i)); std::isfinite(w))
          d.magnitude = std::max(d.magnitude, w);
    });
    d.limit = tolerance.absolute + tolerance.relative * d.magnitude;
    for_each_run(want.image(), [&](int p, int x, int y, int n) {
      d.total += size_t(n);
      for (int i = 0; i < n; i++) {
        const double g = value(got, p, x, y, i), w = value(want, p, x, y, i);
        if (l.max_value && g > l.max_value) d.overshot++;
        if (g == w || (std::isnan(g) && std::isnan(w))) {
          d.equal++;
          continue;
        }
        // The difference is NaN if only one value is NaN.
        const double off = std::isnan(g - w) ? INFINITY : std::abs(g - w);
        if (!(off <= d.largest)) d.largest = off;
        if (off <= d.limit || d.beyond++) continue;
        const int channels = l.plane[p].channels;
        d.plane = p, d.x = x + i / channels, d.y = y, d.channel = i % channels;
      }
    });
  });
  const bool close =
      !d.beyond || (d.largest <= d.limit + tolerance.few && Tolerance::is_few(d.beyond, d.total));
  d.within = close && !d.overshot && tolerance.enough_equal(d.equal, d.total);
  return d;
}

std::string difference(const Frame& got, const Frame& want, const Tolerance& tolerance) {
  const Difference d = compare(got, want, tolerance);
  if (d.within) return {};
  char line[256];
  snprintf(line, sizeof line,
           "%zu of %zu components differ by more than %g, at most by %g; %.3f%% equal", d.beyond,
           d.total, d.limit, d.largest, 100 * double(d.equal) / double(d.total));
  std::string text = line;
  if (d.overshot) {
    snprintf(line, sizeof line,
             "; %zu components are above %u, the largest value: the filter must clamp to "
             "Layout::max_value",
             d.overshot, unsigned(want.layout().max_value));
    text += line;
  }
  if (d.plane < 0) return d.overshot ? text : text + ": too few";
  const int p = d.plane, x0 = d.x, y0 = d.y, c = d.channel;
  snprintf(line, sizeof line,
           "\n# first at plane %d x %d y %d channel %d; got | want around it:", p, x0, y0, c);
  text += line;
  const PlaneLayout& l = want.layout().plane[p];
  for (int y = std::max(0, y0 - 2); y <= std::min(l.height - 1, y0 + 2); y++) {
    text += "\n# ";
    for (const Frame* f : {&got, &want}) {
      for (int x = std::max(0, x0 - 3); x <= std::min(l.width - 1, x0 + 3); x++) {
        snprintf(line, sizeof line, "%8.6g", f->get(p, x, y, c));
        text += line;
      }
      if (f == &got) text += "  |";
    }
  }
  return text;
}

}  // namespace vf::test
