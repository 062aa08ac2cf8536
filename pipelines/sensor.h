// A simulated camera in poor light, for pipelines/denoise.sh and for the studies of the denoiser.
// Frames are 8-bit RGB or 4:2:0 in raw files.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace camera {

using Bytes = std::vector<uint8_t>;
using Numbers = std::vector<float>;

[[noreturn]] inline void fail(const char* what, const std::string& detail = {}) {
  fprintf(stderr, "%s%s%s\n", what, detail.empty() ? "" : ": ", detail.c_str());
  exit(1);
}

inline std::vector<Bytes> read(const std::string& name, size_t frame) {
  FILE* f = fopen(name.c_str(), "rb");
  if (!f) fail("a file cannot be opened", name);
  std::vector<Bytes> frames;
  for (Bytes b(frame); fread(b.data(), 1, frame, f) == frame;) frames.push_back(b);
  fclose(f);
  if (frames.empty()) fail("a file holds no frame", name);
  return frames;
}

inline void write(const std::string& name, const std::vector<Bytes>& frames) {
  FILE* f = fopen(name.c_str(), "wb");
  if (!f) fail("a file cannot be written", name);
  for (const Bytes& b : frames)
    if (fwrite(b.data(), 1, b.size(), f) != b.size()) fail("a file cannot be written", name);
  if (fclose(f)) fail("a file cannot be written", name);
}

inline uint8_t code(double v) {
  return uint8_t(std::clamp(std::nearbyint(v), 0.0, 255.0));
}

struct Size {
  int w, h;
  size_t luma() const { return size_t(w) * h; }
  size_t chroma() const { return luma() / 4; }
  size_t yuv() const { return luma() + 2 * chroma(); }
};

// BT.709, limited range, chroma by the mean of 2 x 2. rgb: 0 to 255.
inline std::vector<Numbers> yuv_of(const Numbers& rgb, Size s) {
  std::vector<Numbers> out = {Numbers(s.luma()), Numbers(s.chroma()), Numbers(s.chroma())};
  for (int y = 0; y < s.h; y++)
    for (int x = 0; x < s.w; x++) {
      const float* p = &rgb[3 * (size_t(y) * s.w + x)];
      const float r = p[0] / 255, g = p[1] / 255, b = p[2] / 255;
      const float l = 0.2126f * r + 0.7152f * g + 0.0722f * b;
      out[0][size_t(y) * s.w + x] = 16 + 219 * l;
      const size_t c = size_t(y / 2) * (s.w / 2) + x / 2;
      out[1][c] += (128 + 224 * (b - l) / 1.8556f) / 4;
      out[2][c] += (128 + 224 * (r - l) / 1.5748f) / 4;
    }
  return out;
}

inline Bytes pack(const std::vector<Numbers>& planes) {
  Bytes b;
  b.reserve(planes[0].size() * 3 / 2);
  for (const Numbers& p : planes)
    for (const float v : p) b.push_back(code(v));
  return b;
}

// Passes a frame through a sensor. There is no noise if `random` is null.
inline Numbers sensor(const Bytes& rgb, Size s, std::mt19937* random) {
  constexpr float full = 300, read_noise = 3;  // electrons
  // Holds the light of each code and the parameters of its photons' distribution, which take longer
  // to prepare than to use.
  using Photons = std::poisson_distribution<int>;
  static const auto light = [] {
    std::array<std::pair<float, Photons::param_type>, 256> of_code;
    for (int i = 0; i < 256; i++) {
      const float v = std::pow(float(i) / 255, 2.2f) * full;
      of_code[i] = {v, Photons::param_type(std::max(v, 1e-3f))};
    }
    return of_code;
  }();
  Numbers mosaic(s.luma());
  const auto site = [](int x, int y) { return y % 2 == x % 2 ? (y % 2 ? 2 : 0) : 1; };
  for (int y = 0; y < s.h; y++)
    for (int x = 0; x < s.w; x++) {
      const size_t i = size_t(y) * s.w + x;
      const auto& [mean, photons_of_mean] = light[rgb[3 * i + site(x, y)]];
      float v = mean;
      if (random) {
        Photons photons(photons_of_mean);
        std::normal_distribution<float> electrons(0, read_noise);
        v = float(photons(*random)) + electrons(*random);
      }
      mosaic[i] = v;
    }
  Numbers out(3 * s.luma());
  for (int y = 0; y < s.h; y++)
    for (int x = 0; x < s.w; x++) {
      float sum[3] = {}, weight[3] = {};
      for (int j = -1; j <= 1; j++)
        for (int i = -1; i <= 1; i++) {
          // Mirrored without the edge, so that sites keep their colours.
          const int u = x + i < 0 || x + i >= s.w ? x - i : x + i;
          const int v = y + j < 0 || y + j >= s.h ? y - j : y + j;
          const int c = site(u, v);
          const float w = (i ? 1.0f : 2.0f) * (j ? 1.0f : 2.0f);
          // Green has four neighbours, or itself.
          if (c == 1 && i && j) continue;
          if (site(x, y) == c && (i || j)) continue;
          sum[c] += w * mosaic[size_t(v) * s.w + u];
          weight[c] += w;
        }
      for (int c = 0; c < 3; c++)
        out[3 * (size_t(y) * s.w + x) + c] =
            std::pow(std::clamp(sum[c] / weight[c] / full, 0.0f, 1.0f), 1 / 2.2f) * 255;
    }
  return out;
}

}  // namespace camera
