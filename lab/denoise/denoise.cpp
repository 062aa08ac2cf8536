// Measures how denoisers treat noise of known kinds. denoise.sh runs it. Frames are 8-bit 4:2:0 in
// raw files, W x H.
//
//   denoise film RGB W H OUT   the frames of a raw RGB file, as clean 4:2:0: OUT.clean.yuv, and
//                              through a sensor's mosaic without noise: OUT.camclean.yuv
//   denoise pan RGB W H OUT    the same of a window that moves over one picture
//   denoise head RGB W H FACE FW FH OUT
//                              the same of a portrait that sways before a still picture
//   denoise noise KIND RGB W H OUT
//                              OUT.KIND.yuv: white noise of sigma (g10), a sensor (cam: Poisson and
//                              read noise, Bayer mosaic, bilinear demosaic, gamma), blotches
//                              (blotch: white luma of sigma 5, smooth chroma of sigma 8), film
//                              grain (grain: luma of sigma 7, whose correlation over a pixel is
//                              0.6), salt and pepper (sp2: on 2 % of the samples)
//   denoise filter IN W H OUT [NAME VALUE]...
//                              this project's filter, with properties. Prints the level
//   denoise measure CLEAN TEST W H
//                              from frame 8 on: PSNR of luma and chroma, SSIM of luma, flicker
//                              where the clean picture stands still, ghosts (share of the frame
//                              before where luma changes by more than 20), detail (regression of
//                              gradients on the clean ones)
//   denoise check RGB OTHER W H
//                              what needs no other filter to compare with, on two clips: rows with
//                              their limits. Fails where one is missed
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "filters/denoise.h"
#include "pipelines/sensor.h"

namespace {

using namespace camera;

constexpr int kFrames = 48;

Numbers numbers(const Bytes& b) {
  return Numbers(b.begin(), b.end());
}

void write_clean(const std::vector<Bytes>& rgb, Size s, const std::string& out) {
  std::vector<Bytes> clean, camera;
  for (const Bytes& b : rgb) {
    clean.push_back(pack(yuv_of(numbers(b), s)));
    camera.push_back(pack(yuv_of(sensor(b, s, nullptr), s)));
  }
  write(out + ".clean.yuv", clean);
  write(out + ".camclean.yuv", camera);
}

// Shows a photograph through a window.
struct Picture {
  const Bytes& rgb;
  int w, h;
  double at(double x, double y, int c) const {
    const double u = std::clamp(x, 0.0, w - 1.001), v = std::clamp(y, 0.0, h - 1.001);
    const int i = int(u), j = int(v);
    const auto sample = [&](int a, int b) {
      return double(rgb[3 * (size_t(j + b) * w + i + a) + c]);
    };
    const double top = sample(0, 0) + (u - i) * (sample(1, 0) - sample(0, 0));
    const double bottom = sample(0, 1) + (u - i) * (sample(1, 1) - sample(0, 1));
    return top + (v - j) * (bottom - top);
  }
};

// Makes frames of s from a function of x, y, c and the frame's number.
template <class F>
std::vector<Bytes> film(Size s, F&& value) {
  std::vector<Bytes> out;
  for (int t = 0; t < kFrames; t++) {
    Bytes frame;
    for (int y = 0; y < s.h; y++)
      for (int x = 0; x < s.w; x++)
        for (int c = 0; c < 3; c++) frame.push_back(code(value(x, y, c, t)));
    out.push_back(frame);
  }
  return out;
}

// The window moves by fractions of a pixel, and zooms.
std::vector<Bytes> pan(const Picture& p, Size s) {
  return film(s, [&](int x, int y, int c, int t) {
    const double zoom = 0.62 - 0.07 * t / kFrames, at = t - kFrames / 2;
    return p.at(p.w / 2 + 1.7 * at + (x - s.w / 2) * zoom,
                p.h / 2 + 0.6 * at + (y - s.h / 2) * zoom, c);
  });
}

// Makes random numbers of deviation 1 that are smooth over about `width` frames.
Numbers smooth_noise(double width, std::mt19937* random) {
  const int reach = int(3 * width) + 1;
  std::normal_distribution<float> normal;
  Numbers white(kFrames + 2 * reach), out(kFrames);
  for (float& v : white) v = normal(*random);
  double squares = 0;
  for (int t = 0; t < kFrames; t++) {
    for (int i = -reach; i <= reach; i++)
      out[t] += white[t + reach + i] * float(std::exp(-i * i / (2 * width * width)));
    squares += out[t] * out[t] / kFrames;
  }
  for (float& v : out) v /= float(std::sqrt(squares));
  return out;
}

// Returns 1 inside of an ellipse and 0 outside, with an edge of `soft` pixels.
double ellipse(double dx, double dy, double rx, double ry, double soft) {
  return std::clamp((1 - std::hypot(dx / rx, dy / ry)) * std::min(rx, ry) / soft + 0.5, 0.0, 1.0);
}

// Makes a talking head. The middle of a portrait sways by fractions of a pixel before a background.
std::vector<Bytes> head(const Picture& back, const Picture& front, Size s) {
  std::mt19937 random(1);
  const Numbers sway_x = smooth_noise(5, &random), sway_y = smooth_noise(5, &random);
  const Numbers talk = smooth_noise(1.5, &random);
  return film(s, [&](int x, int y, int c, int t) {
    const double dx = x - s.w / 2 - 5 * sway_x[t], dy = y - s.h / 2 - 40 - 2 * sway_y[t];
    const double a = ellipse(dx, dy, 100, 150, 1.5);
    const double still =
        back.at(back.w / 2 + (x - s.w / 2) * 0.6, back.h / 2 + (y - s.h / 2) * 0.6, c);
    if (a == 0) return still;
    const double open = std::clamp(0.5 + 0.5 * talk[t], 0.0, 1.0);
    const double mouth = ellipse(dx, dy - 42, 20, 8 + 5 * std::abs(talk[t]), 4);
    const double face = front.at(front.w / 2 + dx * 0.8, front.h / 2 + dy * 0.8, c);
    return still + a * (face * (1 - 0.5 * mouth * open) - still);
  });
}

// Makes noise of deviation `sigma`, smoothed by a Gaussian of `width` samples, for a plane of w x h.
Numbers smooth_plane(int w, int h, float width, float sigma, std::mt19937* random) {
  std::normal_distribution<float> normal;
  const int reach = int(3 * width);
  Numbers weight(reach + 1);
  for (int i = 0; i <= reach; i++) weight[i] = std::exp(-float(i * i) / (2 * width * width));
  Numbers v(size_t(w) * h), next(v.size());
  for (float& x : v) x = normal(*random);
  for (const bool vertical : {false, true}) {
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) {
        float sum = 0;
        for (int k = -reach; k <= reach; k++) {
          const int u = vertical ? x : (x + k + w) % w, t = vertical ? (y + k + h) % h : y;
          sum += weight[std::abs(k)] * v[size_t(t) * w + u];
        }
        next[size_t(y) * w + x] = sum;
      }
    std::swap(v, next);
  }
  double squares = 0;
  for (const float x : v) squares += double(x) * x / double(v.size());
  for (float& x : v) x *= sigma / float(std::sqrt(squares));
  return v;
}

void add_white(std::vector<Numbers>* planes, float sigma, std::mt19937* random) {
  std::normal_distribution<float> white(0, sigma);
  for (Numbers& p : *planes)
    for (float& v : p) v += white(*random);
}

std::vector<Bytes> noisy(const std::string& kind, const std::vector<Bytes>& rgb, Size s) {
  std::mt19937 random(7);
  std::vector<Bytes> out;
  for (const Bytes& b : rgb) {
    if (kind == "cam") {
      out.push_back(pack(yuv_of(sensor(b, s, &random), s)));
      continue;
    }
    std::vector<Numbers> planes = yuv_of(numbers(b), s);
    if (kind == "grain") {
      const Numbers n = smooth_plane(s.w, s.h, 0.7f, 7, &random);
      for (size_t i = 0; i < n.size(); i++) planes[0][i] += n[i];
    } else if (kind[0] == 'g') {
      for (Numbers& p : planes)
        for (float& v : p) v = code(v);
      add_white(&planes, std::stof(kind.substr(1)), &random);
    } else if (kind == "blotch") {
      std::normal_distribution<float> white(0, 5);
      for (float& v : planes[0]) v += white(random);
      for (const int c : {1, 2}) {
        const Numbers n = smooth_plane(s.w / 2, s.h / 2, 1.5f, 8, &random);
        for (size_t i = 0; i < n.size(); i++) planes[c][i] += n[i];
      }
    } else if (kind.compare(0, 2, "sp") == 0) {
      std::uniform_real_distribution<float> unit;
      const float share = std::stof(kind.substr(2)) / 100;
      for (Numbers& p : planes)
        for (float& v : p)
          if (const float u = unit(random); u < share) v = u < share / 2 ? 0 : 255;
    } else {
      fail("no such noise", kind);
    }
    out.push_back(pack(planes));
  }
  return out;
}

void must(const vf::Status& s) {
  if (!s.ok()) fail(s.message());
}

// Runs this project's filter in place on planar 4:2:0 with samples of `depth` bits in a T. Returns
// the noise level.
template <class T>
double denoise(std::vector<std::vector<T>>* frames, Size s, int depth,
               const vf::DenoiseParams& params) {
  vf::Layout l;
  l.planes = 3;
  l.type = sizeof(T) == 1 ? vf::Type::u8 : vf::Type::u16;
  if (depth < 8 * int(sizeof(T))) l.max_value = (1 << depth) - 1;
  vf::ColorFormat color;
  const vf::Role roles[] = {vf::Role::y, vf::Role::u, vf::Role::v};
  for (int p = 0; p < 3; p++) {
    l.plane[p] = {p ? s.w / 2 : s.w, p ? s.h / 2 : s.h, 1, 0, p ? 1 : 0, p ? 1 : 0};
    color.role[p][0] = roles[p];
  }
  std::unique_ptr<vf::Queue> queue;
  must(vf::make_queue({}, &queue));
  std::unique_ptr<vf::DenoisePlan> plan;
  must(vf::make_denoise(*queue, l, color, params, vf::Placement::in_place, &plan));
  std::vector<vf::Image> images;
  for (std::vector<T>& b : *frames) {
    vf::Image image;
    image.layout = l;
    for (int p = 0; p < 3; p++) {
      image.data[p] = b.data() + (p ? s.luma() : 0) + (p == 2 ? s.chroma() : 0);
      image.stride[p] = ptrdiff_t(l.plane[p].width * sizeof(T));
    }
    images.push_back(image);
  }
  for (size_t i = 0; i < images.size(); i++) {
    const size_t later = std::min(images.size() - i - 1, size_t(params.look_ahead));
    must(plan->set_later(images.data() + i + 1, int(later)));
    must(plan->run(images[i], images[i]));
  }
  return plan->noise_level();
}

void filter(const std::string& in, Size s, const std::string& out, int argc, char** argv) {
  vf::DenoiseParams params;
  for (int i = 0; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const double v = atof(argv[i + 1]);
    if (name == "noise")
      params.noise = v;
    else if (name == "strength")
      params.strength = v;
    else if (name == "temporal")
      params.temporal = int(v);
    else if (name == "spatial")
      params.spatial = v;
    else if (name == "look-ahead")
      params.look_ahead = int(v);
    else
      fail("no such property", name);
  }
  std::vector<Bytes> frames = read(in, s.yuv());
  const double level = denoise(&frames, s, 8, params);
  write(out, frames);
  printf("%.2f\n", level);
}

double ssim(const uint8_t* a, const uint8_t* b, Size s) {
  double sum = 0;
  int n = 0;
  for (int y = 0; y + 8 <= s.h; y += 4)
    for (int x = 0; x + 8 <= s.w; x += 4) {
      double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
      for (int j = 0; j < 8; j++)
        for (int i = 0; i < 8; i++) {
          const double u = a[size_t(y + j) * s.w + x + i], v = b[size_t(y + j) * s.w + x + i];
          ma += u, mb += v, aa += u * u, bb += v * v, ab += u * v;
        }
      ma /= 64, mb /= 64;
      const double va = aa / 64 - ma * ma, vb = bb / 64 - mb * mb, c = ab / 64 - ma * mb;
      sum += (2 * ma * mb + 6.5025) * (2 * c + 58.5225) /
             ((ma * ma + mb * mb + 6.5025) * (va + vb + 58.5225));
      n++;
    }
  return sum / n;
}

double psnr_of(double squares, size_t n) {
  return 10 * std::log10(255 * 255 / std::max(squares / double(n), 1e-9));
}

void measure(const std::string& clean_name, const std::string& test_name, Size s) {
  const std::vector<Bytes> clean = read(clean_name, s.yuv()), test = read(test_name, s.yuv());
  if (clean.size() != test.size()) fail("another number of frames than the clean clip", test_name);
  constexpr size_t first = 8;
  if (clean.size() <= first + 1) fail("too few frames", clean_name);
  double luma = 0, chroma = 0, similar = 0, ghost_top = 0, ghost_bottom = 0, ab = 0, bb = 0;
  double flicker = 0;
  int64_t still = 0;
  const size_t frames = clean.size() - first;
  for (size_t t = first; t < clean.size(); t++) {
    for (size_t i = 0; i < s.yuv(); i++) {
      const double d = double(test[t][i]) - clean[t][i];
      (i < s.luma() ? luma : chroma) += d * d;
    }
    similar += ssim(clean[t].data(), test[t].data(), s);
    for (int y = 0; y < s.h - 1; y++)
      for (int x = 0; x < s.w - 1; x++) {
        const size_t i = size_t(y) * s.w + x;
        for (const size_t k : {size_t(1), size_t(s.w)}) {
          const double g = double(clean[t][i + k]) - clean[t][i];
          ab += g * (double(test[t][i + k]) - test[t][i]);
          bb += g * g;
        }
        // Measures how much of the previous frame is left where the picture has changed.
        const double change = double(clean[t - 1][i]) - clean[t][i];
        if (std::abs(change) > 20) {
          ghost_top += change * (double(test[t][i]) - clean[t][i]);
          ghost_bottom += change * change;
        }
        // Compares the errors of two frames where the clean picture stands still.
        if (t > first && std::abs(change) <= 1) {
          const double e =
              (double(test[t][i]) - clean[t][i]) - (double(test[t - 1][i]) - clean[t - 1][i]);
          flicker += e * e / 2;
          still++;
        }
      }
  }
  printf("%.2f %.2f %.3f %.2f %.1f %.2f\n", psnr_of(luma, frames * s.luma()),
         psnr_of(chroma, frames * 2 * s.chroma()), similar / double(frames),
         still ? std::sqrt(flicker / double(still)) : 0.0,
         ghost_bottom > 0 ? 100 * ghost_top / ghost_bottom : 0.0, ab / std::max(bb, 1.0));
}

// Prints a row of `check`. It fails above `most`, or below `least`.
struct Row {
  const char* name;
  double value, least, most;
};

// Returns luma's PSNR from frame 8 on.
template <class T>
double luma_psnr(const std::vector<Bytes>& clean, const std::vector<std::vector<T>>& test, Size s,
                 double unit) {
  double squares = 0;
  for (size_t t = 8; t < clean.size(); t++)
    for (size_t i = 0; i < s.luma(); i++) {
      const double d = double(test[t][i]) / unit - clean[t][i];
      squares += d * d;
    }
  return psnr_of(squares, (clean.size() - 8) * s.luma());
}

// Plays 48 frames of a picture that brightens by a code per frame. Returns how far the luma of the
// output lags behind.
double fade_lag(const Bytes& still, Size s) {
  std::mt19937 random(3);
  std::vector<Bytes> clean, frames;
  for (int t = 0; t < kFrames; t++) {
    std::vector<Numbers> planes = yuv_of(numbers(still), s);
    for (float& v : planes[0]) v = 40 + v * 0.5f + float(t);
    clean.push_back(pack(planes));
    add_white(&planes, 8, &random);
    frames.push_back(pack(planes));
  }
  denoise(&frames, s, 8, {});
  double sum = 0;
  for (int t = kFrames / 2; t < kFrames; t++)
    for (size_t i = 0; i < s.luma(); i++) sum += double(clean[t][i]) - frames[t][i];
  return sum / double(kFrames / 2 * s.luma());
}

// Returns the share of the old scene in the first frame of the new one, in %.
double cut_share(const std::vector<Bytes>& rgb, const std::vector<Bytes>& other, Size s) {
  const std::vector<Bytes> before(rgb.begin(), rgb.begin() + 16);
  std::vector<Bytes> frames = noisy("g10", before, s);
  const Bytes old = pack(yuv_of(numbers(before.back()), s));
  const Bytes fresh = pack(yuv_of(numbers(other[0]), s));
  frames.push_back(noisy("g10", {other[0]}, s)[0]);
  denoise(&frames, s, 8, {});
  double top = 0, bottom = 0;
  for (size_t i = 0; i < s.luma(); i++) {
    const double change = double(old[i]) - fresh[i];
    top += change * (double(frames.back()[i]) - fresh[i]);
    bottom += change * change;
  }
  return 100 * top / bottom;
}

// Returns the PSNR with 10 bits less the PSNR with 8 bits, for noise of the same strength.
double ten_bits(const std::vector<Bytes>& rgb, Size s) {
  std::mt19937 random(5);
  std::vector<Bytes> clean, eight;
  std::vector<std::vector<uint16_t>> ten;
  for (const Bytes& b : rgb) {
    std::vector<Numbers> planes = yuv_of(numbers(b), s);
    clean.push_back(pack(planes));
    for (Numbers& p : planes)
      for (float& v : p) v = code(v);
    add_white(&planes, 10, &random);
    eight.push_back(pack(planes));
    std::vector<uint16_t> frame;
    for (const Numbers& p : planes)
      for (const float v : p)
        frame.push_back(uint16_t(std::clamp(std::nearbyint(4 * v), 0.0f, 1023.0f)));
    ten.push_back(frame);
  }
  denoise(&eight, s, 8, {});
  denoise(&ten, s, 10, {});
  return luma_psnr(clean, ten, s, 4) - luma_psnr(clean, eight, s, 1);
}

// Returns the estimated deviation of luma's noise over the true one, in %.
double level_error(const char* kind, const std::vector<Bytes>& rgb, Size s) {
  std::vector<Bytes> frames = noisy(kind, rgb, s);
  double squares = 0;
  const bool camera = kind[0] == 'c';
  for (size_t t = 0; t < rgb.size(); t++) {
    const Bytes clean = pack(yuv_of(camera ? sensor(rgb[t], s, nullptr) : numbers(rgb[t]), s));
    for (size_t i = 0; i < s.luma(); i++) {
      const double d = double(frames[t][i]) - clean[i];
      squares += d * d;
    }
  }
  const double level = denoise(&frames, s, 8, {});
  return 100 * (level / std::sqrt(squares / double(rgb.size() * s.luma())) - 1);
}

// Returns how much of the contrast of a square is left behind it, in %. The square moves by a pixel
// per frame over a plain background, with noise of sigma 6. The mean is over the eight columns that
// it has just left.
double square_ghost(int contrast, Size s) {
  constexpr int kSquare = 80, kBehind = 8, kBackground = 110;
  std::mt19937 random(7);
  std::vector<Bytes> frames;
  const auto left = [](int t) { return 100 + t; };
  const int top = (s.h - kSquare) / 2;
  for (int t = 0; t < kFrames; t++) {
    std::vector<Numbers> planes = {Numbers(s.luma(), kBackground), Numbers(s.chroma(), 128),
                                   Numbers(s.chroma(), 128)};
    for (int y = top; y < top + kSquare; y++)
      for (int x = left(t); x < left(t) + kSquare; x++)
        planes[0][size_t(y) * s.w + x] += float(contrast);
    add_white(&planes, 6, &random);
    frames.push_back(pack(planes));
  }
  denoise(&frames, s, 8, {});
  double sum = 0;
  int n = 0;
  for (int t = kFrames / 3; t < kFrames; t++)
    for (int y = top + kBehind; y < top + kSquare - kBehind; y++)
      for (int x = left(t) - kBehind; x < left(t); x++, n++)
        sum += double(frames[t][size_t(y) * s.w + x]) - kBackground;
  return 100 * sum / n / contrast;
}

bool check(const std::vector<Bytes>& rgb, const std::vector<Bytes>& other, Size s) {
  std::vector<Bytes> clean, filtered;
  for (const Bytes& b : rgb) clean.push_back(pack(yuv_of(numbers(b), s)));
  filtered = clean;
  denoise(&filtered, s, 8, {});
  const Row rows[] = {
      {"clean input: PSNR of luma to itself, dB", luma_psnr(clean, filtered, s, 1), 50, 1e9},
      {"scene cut: share of the old scene, %", cut_share(rgb, other, s), -1, 1},
      {"fade by a code per frame, sigma 8: lag, codes", fade_lag(rgb[0], s), -2, 2},
      {"sigma 10, estimate: error, %", level_error("g10", rgb, s), -10, 10},
      {"sigma of a camera, estimate: error, %", level_error("cam", rgb, s), -10, 10},
      {"10 bits, against 8 bits: luma, dB", ten_bits(rgb, s), -0.3, 1e9},
      {"square of 15 codes, sigma 6: ghost, %", square_ghost(15, s), -10, 10},
      {"square of 40 codes, sigma 6: ghost, %", square_ghost(40, s), -3, 3},
  };
  bool all = true;
  for (const Row& r : rows) {
    const bool ok = r.value >= r.least && r.value <= r.most;
    all = all && ok;
    printf("%-48s %8.2f   must %s%g   %s\n", r.name, r.value,
           r.most < 1e9 ? "<= " : ">= ", r.most < 1e9 ? r.most : r.least, ok ? "ok" : "MISSED");
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr Size window = {640, 360};
  const std::string what = argc > 1 ? argv[1] : "";
  const auto size_at = [&](int i) { return Size{atoi(argv[i]), atoi(argv[i + 1])}; };
  if (what == "film" && argc == 6) {
    const Size s = size_at(3);
    write_clean(read(argv[2], 3 * s.luma()), s, argv[5]);
  } else if (what == "pan" && argc == 6) {
    const Size s = size_at(3);
    const Bytes picture = read(argv[2], 3 * s.luma())[0];
    const std::vector<Bytes> rgb = pan({picture, s.w, s.h}, window);
    write(std::string(argv[5]) + ".rgb", rgb);
    write_clean(rgb, window, argv[5]);
  } else if (what == "head" && argc == 9) {
    const Size b = size_at(3), f = size_at(6);
    const Bytes back = read(argv[2], 3 * b.luma())[0], front = read(argv[5], 3 * f.luma())[0];
    const std::vector<Bytes> rgb = head({back, b.w, b.h}, {front, f.w, f.h}, window);
    write(std::string(argv[8]) + ".rgb", rgb);
    write_clean(rgb, window, argv[8]);
  } else if (what == "noise" && argc == 7) {
    const Size s = size_at(4);
    write(std::string(argv[6]) + "." + argv[2] + ".yuv",
          noisy(argv[2], read(argv[3], 3 * s.luma()), s));
  } else if (what == "filter" && argc >= 6) {
    filter(argv[2], size_at(3), argv[5], argc - 6, argv + 6);
  } else if (what == "check" && argc == 6) {
    const Size s = size_at(4);
    return check(read(argv[2], 3 * s.luma()), read(argv[3], 3 * s.luma()), s) ? 0 : 1;
  } else if (what == "measure" && argc == 6) {
    measure(argv[2], argv[3], size_at(4));
  } else {
    fail("arguments: see denoise.cpp");
  }
  return 0;
}
