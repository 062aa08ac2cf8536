// Computes the denoiser in double precision, as docs/spec/denoise.md defines it. Rounds only where
// the specification does.
#include "filters/denoise_task.h"

#include <algorithm>
#include <vector>

#include "tests/reference/reference.h"

namespace vf::test {
namespace {

// Holds a plane of numbers. Reads outside of it take the nearest number inside.
struct Plane {
  int width = 0, height = 0;
  std::vector<double> v;
  Plane() = default;
  Plane(int w, int h, double value = 0) : width(w), height(h), v(size_t(w) * h, value) {}
  double& at(int x, int y) { return v[size_t(y) * width + x]; }
  double at(int x, int y) const {
    return v[size_t(std::clamp(y, 0, height - 1)) * width + std::clamp(x, 0, width - 1)];
  }
};

// Rounds halves to even.
double nearest(double v) {
  return std::nearbyint(v);
}

double box(const Plane& p, int x, int y, int radius) {
  double sum = 0;
  for (int j = -radius; j <= radius; j++)
    for (int i = -radius; i <= radius; i++) sum += p.at(x + i, y + j);
  return sum;
}

// Counts values in bins. An octave has 8 bins of equal width from 2^low on, and 4 from 2^coarse on.
// The lowest bin counts the values below `nothing`.
class Histogram {
 public:
  Histogram(int low, int coarse, int high, double nothing) : nothing_(nothing) {
    const auto add = [&](int octave, int parts) {
      for (int k = 0; k < parts; k++) begin_.push_back(std::ldexp(1.0 + double(k) / parts, octave));
    };
    for (int octave = low; octave < high; octave++) add(octave, octave < coarse ? 8 : 4);
    counts_.resize(begin_.size());
    begin_.push_back(std::ldexp(1.0, high));
  }
  int bin(double v) const {
    if (v < nothing_) return 0;
    const auto above = std::upper_bound(begin_.begin(), begin_.end(), v);
    return std::clamp(int(above - begin_.begin()) - 1, nothing_ > 0 ? 1 : 0, last());
  }
  void add(double v) { counts_[bin(v)]++; }
  void add(const Histogram& other) {
    for (size_t i = 0; i < counts_.size(); i++) counts_[i] += other.counts_[i];
  }
  int64_t total() const {
    int64_t sum = 0;
    for (const int64_t n : counts_) sum += n;
    return sum;
  }
  // Returns the bin of the value at `rank`.
  int bin_of(double rank) const {
    double sum = 0;
    for (size_t i = 0; i < counts_.size(); i++)
      if ((sum += double(counts_[i])) >= rank) return int(i);
    return int(counts_.size()) - 1;
  }
  double quantile(int part, int of) const {
    const double rank = double(total()) * part / of;
    const int b = bin_of(rank);
    if (b == 0) return 0;
    double before = 0;
    for (int i = 0; i < b; i++) before += double(counts_[i]);
    const double low = begin_[size_t(b)], high = begin_[size_t(b) + 1];
    return low + (high - low) * (rank - before) / std::max(double(counts_[b]), 1.0);
  }
  int last() const { return int(counts_.size()) - 1; }

 private:
  double nothing_;
  std::vector<double> begin_;
  std::vector<int64_t> counts_;
};

Histogram variances() {
  return {-6, 6, 14, 1.0 / 256};
}
Histogram ratios() {
  return {-4, 2, 2, 0};
}

struct Noise {
  double v[8] = {}, most = 0, kappa = 1, codec = 1, moving = 0;
  double bias[32] = {};  // of luma
  int limit[8] = {};
  bool flat = false, learnt = false, learnt_kappa = false;
};

// Holds a cell's figures: variance of its samples and of its blocks' means, texture, bin of luma.
struct Cell {
  double variance, of_means, texture, mean;  // the mean is of x - T
  int bin, level;
};

class ReferenceDenoise final : public DenoisePlan {
 public:
  ReferenceDenoise(Queue& queue, const DenoiseTask& task)
      : DenoisePlan(queue, task, Placement::separate), t_(task) {}

  void reset() override { state_.clear(); }
  void take_over(DenoisePlan& other) override {
    auto& before = static_cast<ReferenceDenoise&>(other);
    if (!same_memory(before.t_, t_)) return;
    state_ = std::move(before.state_);
    p_ = std::move(before.p_);
    level_of_ = std::move(before.level_of_);
    std::copy_n(before.noise_, 3, noise_);
    level_ = before.level_;
    sums_ = std::move(before.sums_);
    repeats_ = before.repeats_;
    before.reset();
  }
  double noise_level() const override { return state_.empty() ? 0 : std::sqrt(level_ / share(0)); }

 private:
  int colors() const { return t_.from.colors; }
  int block_samples(int c) const { return t_.per_block_x[c] * t_.per_block_y[c]; }

  Status enqueue(const Image& src, const Image& dst) override {
    const Later later = take_later();
    std::vector<Plane> x;
    read_frame(src, &x);
    const bool first = state_.empty();
    Noise used[3];
    if (first) {
      state_ = x;
      p_ = level_of_ = Plane(t_.blocks_x, t_.blocks_y, 2048);
      set_levels();
      start(x);
      std::copy_n(noise_, 3, used);
    } else {
      std::copy_n(noise_, 3, used);
      VF_TRY(find_vectors(src));
      compensate(x[0], used[0]);
      learn(x);
      update(x, used);
    }
    if (later.count == 0) {
      write_frame(src, dst, used);
      return {};
    }
    const std::vector<Plane> before = state_;
    const Plane p = p_, levels = level_of_;
    VF_TRY(look_ahead(later, src, used));
    merge(before, p, x);
    write_frame(src, dst, used);
    state_ = before;
    p_ = p;
    level_of_ = levels;
    return {};
  }

  // Makes the state of the later frames and `src`, from the last one back.
  Status look_ahead(const Later& later, const Image& src, const Noise used[3]) {
    for (int i = later.count - 1; i >= -1; i--) {
      const Image& frame = i < 0 ? src : later.frame[i];
      std::vector<Plane> x;
      read_frame(frame, &x);
      if (i == later.count - 1) {
        state_ = x;
        p_ = Plane(t_.blocks_x, t_.blocks_y, 2048);
        set_levels();
        continue;
      }
      VF_TRY(find_vectors(frame));
      compensate(x[0], used[0]);
      update(x, used);
    }
    return {};
  }

  // Merges the state of the frames before, with their p, into that of the later frames.
  void merge(const std::vector<Plane>& before, const Plane& before_p, const std::vector<Plane>& x) {
    for (int by = 0; by < t_.blocks_y; by++)
      for (int bx = 0; bx < t_.blocks_x; bx++) {
        const double p = before_p.at(bx, by) / 2048, q = p_of(bx, by);
        // All weights are in 1/2048.
        const double sum = 1 / p + 1 / q - 1;
        const double after = nearest(2048 / (q * sum)), frame = nearest(0.75 * 2048 / sum);
        p_.at(bx, by) = nearest(2048 / sum);
        for (int c = 0; c < colors(); c++)
          samples(c, bx, by, [&](int i, int j) {
            const double t = before[c].at(i, j);
            const double change = after * (state_[c].at(i, j) - t) + frame * (t - x[c].at(i, j));
            state_[c].at(i, j) = std::clamp(t + std::floor(change / 2048 + 0.5), 0.0, top());
          });
      }
    set_levels();
  }

  // Returns the largest sample of the state. Co and Cg exceed the largest sample of R, G and B.
  double top() const {
    return t_.from.rgb ? 65535 : double(((1 << t_.depth) - 1) << (16 - t_.depth));
  }

  // Reads a frame as samples of 16 bits, extended to whole blocks.
  void read_frame(const Image& src, std::vector<Plane>* x) const {
    const int up = 16 - t_.depth, down = t_.layout.shift;
    for (int c = 0; c < colors(); c++) {
      const Component& at = t_.from.color[c];
      const PlaneLayout& l = t_.layout.plane[at.plane];
      Plane p(t_.blocks_x * t_.per_block_x[c], t_.blocks_y * t_.per_block_y[c]);
      for (int j = 0; j < p.height; j++)
        for (int i = 0; i < p.width; i++) {
          const auto stored = unsigned(
              read(src, at.plane, std::min(i, l.width - 1), std::min(j, l.height - 1), at.channel));
          p.at(i, j) = double((stored >> down & ((1u << t_.depth) - 1)) << up);
        }
      x->push_back(p);
    }
    if (!t_.from.rgb) return;
    for (size_t i = 0; i < (*x)[0].v.size(); i++) {
      const double r = (*x)[0].v[i], g = (*x)[1].v[i], b = (*x)[2].v[i];
      (*x)[0].v[i] = std::floor((r + 2 * g + b) / 4);
      (*x)[1].v[i] = std::floor((r - b + 65536) / 2);
      (*x)[2].v[i] = std::floor((2 * g - r - b + 131072) / 4);
    }
  }

  // Calls f(x, y) for each sample of component c in a block.
  template <class F>
  void samples(int c, int bx, int by, F&& f) const {
    const int w = t_.per_block_x[c], h = t_.per_block_y[c];
    for (int j = 0; j < h; j++)
      for (int i = 0; i < w; i++) f(bx * w + i, by * h + j);
  }
  double luma_sum(int bx, int by) const {
    double sum = 0;
    samples(0, bx, by, [&](int x, int y) { sum += state_[0].at(x, y); });
    return sum;
  }
  int level(int bx, int by) const { return int(level_of_.at(bx, by)); }
  void set_levels() {
    for (int by = 0; by < t_.blocks_y; by++)
      for (int bx = 0; bx < t_.blocks_x; bx++)
        level_of_.at(bx, by) = std::floor(luma_sum(bx, by) / 8192);
  }
  double p_of(int bx, int by) const { return p_.at(bx, by) / 2048; }

  // Returns the variance of a component relative to the variance of R, G and B.
  double share(int c) const { return !t_.from.rgb ? 1 : c == 1 ? 1 / 2.0 : 3 / 8.0; }

  double least_variance() const { return t_.depth > 12 ? 1e-6 : 0.05; }
  double variance(const Noise& n, int c, int level) const {
    double v = std::max(t_.params.noise * t_.params.noise * share(c), least_variance());
    if (t_.params.noise < 0) v = learnt_variance(n, level);
    return std::max(v * t_.params.strength * t_.params.strength, 1e-6);
  }

  // ---- motion compensation ----

  // Holds a vector in eighths of a pixel.
  struct Vector {
    double x = 0, y = 0;
  };
  // Holds the compensation of a patch.
  struct Change {
    bool moves = false, restless = false;
    double brighter = 0, more_p = 0;
  };
  // Holds sums over blocks.
  struct Sums {
    double dd = 0, d = 0, expected = 0, blocks = 0;
  };

  // Finds the vectors of the frame's patches in the state.
  Status find_vectors(const Image& frame) {
    patches_x_ = (t_.blocks_x + 3) / 4;
    patches_y_ = (t_.blocks_y + 3) / 4;
    if (!motion_) {
      MotionParams params;
      params.width = t_.width;
      params.height = t_.height;
      VF_TRY(make_motion(queue_, params, &motion_));
      field_.resize(size_t(patches_x_) * patches_y_);
    }
    const std::vector<uint16_t> luma(state_[0].v.begin(), state_[0].v.end());
    const MotionPicture pictures[] = {luma_picture(t_, frame),
                                      state_picture(luma.data(), state_[0].width)};
    VF_TRY(motion_->read(0, pictures, 2));
    return motion_->find(0, 1, field_.data(), patches_x_ * ptrdiff_t(sizeof(MotionVector)));
  }
  const MotionVector& field(int i, int j) const {
    return field_[size_t(std::clamp(j, 0, patches_y_ - 1)) * patches_x_ +
                  std::clamp(i, 0, patches_x_ - 1)];
  }
  static double distance(const MotionVector& a, const MotionVector& b) {
    return std::max(std::abs(a.x - b.x), std::abs(a.y - b.y));
  }

  // Returns the sums over a patch, with the state where it is.
  Sums patch_sums(const Plane& x, const Noise& noise, int i, int j) const {
    const auto mean = [](const Plane& from, int bx, int by) {
      double sum = 0;
      for (int v = 0; v < 2; v++)
        for (int u = 0; u < 2; u++) sum += from.at(2 * bx + u, 2 * by + v);
      return std::floor((sum + 64) / 128);
    };
    Sums s;
    for (int by = 4 * j; by < std::min(4 * j + 4, t_.blocks_y); by++)
      for (int bx = 4 * i; bx < std::min(4 * i + 4, t_.blocks_x); bx++) {
        const double d = mean(x, bx, by) - mean(state_[0], bx, by);
        s.dd += d * d, s.d += d;
        const double less = t_.params.noise < 0 ? 2 / (1 + noise.codec) : 1;
        const double v =
            noise.kappa * less * variance(noise, 0, level(bx, by)) * (1 + p_of(bx, by));
        s.expected += nearest(std::min(1024 * v, 4194304.0));
        s.blocks++;
      }
    return s;
  }

  // Decides on a patch, except for its light.
  Change decide(int i, int j, const Sums& s) const {
    const MotionVector& own = field(i, j);
    double zero = 0, won = 0, patches = 0;
    for (int v = std::max(j - 1, 0); v <= std::min(j + 1, patches_y_ - 1); v++)
      for (int u = std::max(i - 1, 0); u <= std::min(i + 1, patches_x_ - 1); u++) {
        const MotionVector& other = field(u, v);
        if (distance(own, other) > 8) continue;
        zero += other.residual_zero;
        won += other.residual_zero - other.residual;
        patches++;
      }
    const double noise = std::floor(s.expected / (160 * s.blocks)) + 3;
    Change change;
    change.moves = own.residual < own.residual_zero && 4 * won > noise * patches &&
                   10 * won > 3 * (zero - noise * patches);
    change.restless = change.moves ? own.residual > 6 * noise : 2 * own.residual_zero > 5 * noise;
    const double excess = std::floor(205 * std::max(own.residual - noise, 0.0) / noise);
    if (change.moves) change.more_p = 20 + std::min(excess, 1024.0);
    return change;
  }

  // Returns how much brighter a tile becomes, from the sums over its patches that do not move.
  static double brighter(const Sums& s) {
    const double square = 4 * s.d * s.d, excess = s.dd - s.expected / 16;
    if (square <= s.expected) return 0;
    double share = (square - s.expected) / std::max(s.expected, 1.0);
    if (excess > 0) share = std::min(share, 5 * s.d * s.d / (excess * s.blocks) - 3);
    const double mean = 32 * s.d / s.blocks;
    return std::abs(mean) <= 4096 ? nearest(mean * std::clamp(share, 0.0, 1.0)) : 0;
  }

  // Returns the vector of a block in a patch that moves: that of a quarter of the patch.
  Vector vector_of(int bx, int by) const {
    const int i = bx / 4, j = by / 4, dx = bx % 4 < 2 ? -1 : 1, dy = by % 4 < 2 ? -1 : 1;
    const MotionVector& own = field(i, j);
    Vector sum;
    const auto add = [&](const MotionVector& v, double weight) {
      const MotionVector& of = distance(own, v) <= 16 ? v : own;
      sum.x += weight * of.x;
      sum.y += weight * of.y;
    };
    add(own, 9), add(field(i + dx, j), 3), add(field(i, j + dy), 3), add(field(i + dx, j + dy), 1);
    return {std::floor(sum.x / 16 + 0.5), std::floor(sum.y / 16 + 0.5)};
  }

  // Computes the weights of four samples for a place f eighths behind the second one.
  static void weights(int f, double w[4]) {
    const auto outer = [](int k) {
      return -std::floor((83 * k * (8 - k) * (8 - k) + 512) / 1024.0);
    };
    w[0] = outer(f);
    w[3] = outer(8 - f);
    w[1] = std::floor(64.5 + (173 * f * f * f - 2406 * f * f) / 1024.0);
    w[2] = 64 - w[0] - w[1] - w[3];
  }

  // Returns component c of the state at sample (x, y) plus the vector v.
  double moved(int c, int x, int y, Vector v) const {
    const auto eighths = [](double of, int per_block) {
      return int(per_block == 2 ? of : std::floor((of + 1) / 2));
    };
    const int ex = eighths(v.x, t_.per_block_x[c]), ey = eighths(v.y, t_.per_block_y[c]);
    const int dx = int(std::floor(ex / 8.0)), dy = int(std::floor(ey / 8.0));
    double wx[4], wy[4], sum = 32;
    weights(ex - 8 * dx, wx);
    weights(ey - 8 * dy, wy);
    const auto rounded = [&](double s) { return std::clamp(std::floor(s / 64), 0.0, top()); };
    for (int j = 0; j < 4; j++) {
      double row = 32;
      for (int i = 0; i < 4; i++) row += wx[i] * state_[c].at(x + dx + i - 1, y + dy + j - 1);
      sum += wy[j] * rounded(row);
    }
    return rounded(sum);
  }

  void compensate(const Plane& luma, const Noise& noise) {
    std::vector<Change> changes;
    std::vector<Sums> tiles(size_t((patches_x_ + 3) / 4) * ((patches_y_ + 3) / 4));
    const auto tile = [&](int i, int j) { return size_t(j / 4) * ((patches_x_ + 3) / 4) + i / 4; };
    for (int j = 0; j < patches_y_; j++)
      for (int i = 0; i < patches_x_; i++) {
        const Sums s = patch_sums(luma, noise, i, j);
        changes.push_back(decide(i, j, s));
        if (changes.back().moves) continue;
        Sums& sum = tiles[tile(i, j)];
        sum.dd += s.dd, sum.d += s.d, sum.expected += s.expected, sum.blocks += s.blocks;
      }
    std::vector<Plane> state = state_;
    Plane p = p_, level = level_of_;
    restless_ = moves_ = Plane(t_.blocks_x, t_.blocks_y);
    for (int by = 0; by < t_.blocks_y; by++)
      for (int bx = 0; bx < t_.blocks_x; bx++) {
        const Change& change = changes[size_t(by / 4) * patches_x_ + bx / 4];
        restless_.at(bx, by) = change.restless;
        moves_.at(bx, by) = change.moves;
        if (change.moves) {
          const Vector v = vector_of(bx, by);
          const int dx = int(std::floor(v.x / 16 + 0.5)), dy = int(std::floor(v.y / 16 + 0.5));
          const Plane &from = p_, &from_level = level_of_;
          p.at(bx, by) = std::min(from.at(bx + dx, by + dy) + change.more_p, 2048.0);
          level.at(bx, by) = from_level.at(bx + dx, by + dy);
          for (int c = 0; c < colors(); c++)
            samples(c, bx, by, [&](int i, int j) { state[c].at(i, j) = moved(c, i, j, v); });
        } else {
          const Sums& s = tiles[tile(bx / 4, by / 4)];
          const double more = s.blocks > 0 ? brighter(s) : 0;
          samples(0, bx, by, [&](int i, int j) {
            state[0].at(i, j) = std::clamp(state[0].at(i, j) + more, 0.0, top());
          });
        }
      }
    state_ = state;
    p_ = p;
    level_of_ = level;
  }

  // Returns the squared contrast of a block: squared differences along its diagonals, in codes.
  double contrast(int bx, int by) const {
    double sum = 0;
    for (int i = 0; i < 2; i++) {
      const double z = std::floor(state_[0].at(2 * bx + i, 2 * by) / 256) -
                       std::floor(state_[0].at(2 * bx + 1 - i, 2 * by + 1) / 256);
      sum += z * z;
    }
    return sum;
  }

  // Pass 1.
  void update(const std::vector<Plane>& x, const Noise used[3]) {
    Plane a(t_.blocks_x, t_.blocks_y), b(t_.blocks_x, t_.blocks_y), p = p_;
    for (int by = 0; by < t_.blocks_y; by++)
      for (int bx = 0; bx < t_.blocks_x; bx++) {
        double test[3] = {};
        for (int c = 0; c < colors(); c++) {
          double mean = 0;
          samples(c, bx, by, [&](int i, int j) { mean += x[c].at(i, j) - state_[c].at(i, j); });
          mean /= 256 * block_samples(c);
          test[c] = mean * mean / (used[c].kappa * variance(used[c], c, level(bx, by))) /
                    (1 + p_of(bx, by));
        }
        a.at(bx, by) = nearest(std::min(256 * test[0], 1.8e6)) / 256;
        b.at(bx, by) = nearest(std::min(128 * (test[1] + test[2]), 1.8e6)) / 256;
      }
    std::vector<Plane> next = state_;
    for (int by = 0; by < t_.blocks_y; by++)
      for (int bx = 0; bx < t_.blocks_x; bx++) {
        const bool restless = restless_.at(bx, by) > 0;
        const double before = p_of(bx, by), th = 1.6 + 1.1 * (1 - before) - (restless ? 1.1 : 0);
        const double over = std::max(box(a, bx, by, 1) / 9 - th, box(b, bx, by, 1) / 9 - th - 1);
        const double slope = restless ? 2.8 : 2;
        const double h = contrast(bx, by) / (256 * variance(used[0], 0, level(bx, by)));
        const double mosaic =
            std::clamp(std::min(4 * used[0].kappa - 1, 2 - used[0].codec), 0., 1.);
        const double mismatch = (moves_.at(bx, by) > 0 ? 1 : used[0].moving) *
                                (h + 3 * mosaic * std::max(h - 1. / 32, 0.));
        const double s = before + mismatch + slope * (1 + before) * std::max(0.0, over);
        const double k = nearest(2048 * std::max(s / (s + 1), 1.0 / t_.params.temporal));
        p.at(bx, by) = k;
        for (int c = 0; c < colors(); c++)
          samples(c, bx, by, [&](int i, int j) {
            const double t = state_[c].at(i, j);
            next[c].at(i, j) = std::floor(t + k / 2048 * (x[c].at(i, j) - t) + 0.5);
          });
      }
    state_ = next;
    p_ = p;
    set_levels();
  }

  // ---- noise model ----

  struct Grid {
    int wide, high, across, down;  // a cell in blocks; cells
  };
  Grid grid(int c) const {
    Grid g;
    g.wide = 8 / t_.per_block_x[c];
    g.high = 8 / t_.per_block_y[c];
    g.across = t_.blocks_x / g.wide;
    g.down = t_.blocks_y / g.high;
    return g;
  }
  // Computes luma and texture of a cell. The state must not be updated yet.
  void luma_of_cell(int c, int cx, int cy, Cell* cell) const {
    const Grid g = grid(c);
    double sum = 0, texture = 0;
    const auto mean = [&](int i, int j) { return std::floor((luma_sum(i, j) + 32) / 64); };
    for (int j = cy * g.high; j < (cy + 1) * g.high; j++)
      for (int i = cx * g.wide; i < (cx + 1) * g.wide; i++) {
        sum += mean(i, j);
        const double h = i % 4 < 3 ? mean(i + 1, j) - mean(i, j) : 0;
        const double v = j % 4 < 3 ? mean(i, j + 1) - mean(i, j) : 0;
        texture += h * h + v * v;
      }
    const int cells = g.wide * g.high / 16;
    cell->texture = texture / (4096 * cells);
    cell->level = std::min(int(sum / (2048 * cells)), 31);
    cell->bin = cell->level / 4;
  }

  void start(const std::vector<Plane>& x) {
    sums_.assign(size_t(grid(0).across) * grid(0).down, 0);
    repeats_ = 0;
    for (int c = 0; c < colors(); c++) {
      const Grid g = grid(c);
      Histogram all = variances(), medium = variances();
      std::vector<Histogram> texture(8, variances());
      for (int cy = 0; cy < g.down; cy++)
        for (int cx = 0; cx < g.across; cx++) {
          double squares = 0, sum = 0;
          const auto coarse = [&](int i, int j) { return std::floor(x[c].at(i, j) / 16); };
          for (int j = 8 * cy; j < 8 * cy + 8; j++)
            for (int i = 8 * cx; i < 8 * cx + 8; i++) {
              double l = 0;
              for (int v = -1; v <= 1; v++)
                for (int u = -1; u <= 1; u++)
                  l += (u ? 1 : -2) * (v ? 1 : -2) * coarse(i + u, j + v);
              squares += l * l;
              sum += x[c].at(i, j);
            }
          all.add(squares / (256 * 64 * 32));
          if (sum > 20 * 64 * 256 && sum < 235 * 64 * 256) medium.add(squares / (256 * 64 * 32));
          Cell cell;
          luma_of_cell(c, cx, cy, &cell);
          texture[cell.bin].add(cell.texture);
        }
      Noise& n = noise_[c];
      n = Noise();
      n.kappa = 1.0 / block_samples(c);
      const double v = (medium.total() > 50 ? medium : all).quantile(1, 10) * 1.15 * 32 / 36;
      std::fill_n(n.v, 8, std::max(v, least_variance()));
      n.most = std::max(4 * v, 900.0);
      set_limits(texture, &n);
      if (c == 0) set_level(texture, n);
    }
  }

  static void set_limits(const std::vector<Histogram>& texture, Noise* n) {
    for (int i = 0; i < 8; i++) {
      const double cells = double(texture[i].total());
      n->limit[i] = cells < 40 ? texture[i].last()
                               : texture[i].bin_of(std::max(cells / 16, std::min(cells, 30.0)));
    }
  }
  void set_level(const std::vector<Histogram>& texture, const Noise& n) {
    double sum = 0, cells = 0;
    for (int i = 0; i < 8; i++) {
      sum += n.v[i] * double(texture[i].total());
      cells += double(texture[i].total());
    }
    if (cells > 0)
      level_ = sum / cells;
    else if (!n.learnt)
      level_ = n.v[0];
  }

  // Returns true if the model ignores the frame because it repeats the previous one.
  bool is_ignored(const Plane& luma) {
    const Grid g = grid(0);
    std::vector<double> sums;
    for (int cy = 0; cy < g.down; cy++)
      for (int cx = 0; cx < g.across; cx++) {
        double sum = 0;
        for (int j = 0; j < 8; j++)
          for (int i = 0; i < 8; i++) sum += luma.at(8 * cx + i, 8 * cy + j);
        sums.push_back(sum);
      }
    size_t same = 0;
    for (size_t i = 0; i < sums.size(); i++) same += sums[i] == sums_[i];
    repeats_ = 8 * same > 7 * sums.size() ? repeats_ + 1 : 0;
    sums_ = sums;
    return repeats_ > 0 && repeats_ <= 8;
  }

  void learn(const std::vector<Plane>& x) {
    const bool ignored = is_ignored(x[0]);
    double cells = 0;
    for (int cy = 0; cy < grid(0).down; cy++)
      for (int cx = 0; cx < grid(0).across; cx++) cells += moves_.at(4 * cx, 4 * cy);
    const double share = cells / std::max(grid(0).across * grid(0).down, 1);
    for (int c = 0; c < colors(); c++) {
      const Grid g = grid(c);
      Noise& n = noise_[c];
      std::vector<Histogram> texture(8, variances()), votes(8, variances());
      Histogram all = variances(), ratio = ratios();
      int64_t flat = 0;
      Level levels[32];
      for (int cy = 0; cy < g.down; cy++)
        for (int cx = 0; cx < g.across; cx++) {
          const Cell cell = figures(c, cx, cy, x);
          if (cell.variance < 0.02) {
            flat++;
            if (!n.flat) continue;
          } else if (c == 0 && (cy * g.across + cx) % (1 + g.across * g.down / 4096) == 0 &&
                     std::abs(cell.mean) < 16) {
            Level& l = levels[cell.level];
            l.cells++;
            l.below += below(cx, cy, x[0]);
            l.mean += std::floor(64 * cell.mean + 0.5);
          }
          texture[cell.bin].add(cell.texture);
          if (all.bin(cell.texture) > n.limit[cell.bin]) continue;
          votes[cell.bin].add(cell.variance);
          all.add(cell.variance);
          const double v = n.v[cell.bin];
          if (block_samples(c) > 1 && cell.variance > 0.5 * v && cell.variance < 1.3 * v)
            ratio.add(float(cell.of_means) / float(cell.variance));
        }
      if (ignored) {
        if (c == 0) set_level(texture, n);
        continue;
      }
      n.moving += (std::clamp(5 * share - 1.5, 0.0, 1.0) - n.moving) / 4;
      if (c == 0)
        for (int i = 0; i < 32; i++) learn_bias(levels[i], i, &n);
      int64_t counted = 0;
      for (const Histogram& h : texture) counted += h.total();
      if (counted >= 50 && all.total() > 0) {
        adapt(texture, votes, all, block_samples(c), c > 0, &n);
        if (block_samples(c) > 1 && ratio.total() > 40) {
          const double blocks = 64 / block_samples(c);
          const double k =
              std::clamp(ratio.quantile(3, 10) * 1.15 * 63 / 64 * blocks / (blocks - 1),
                         1.0 / block_samples(c), 1.0);
          n.kappa += (k - n.kappa) * (n.learnt_kappa ? 0.25 : 1);
          n.learnt_kappa = true;
        }
      }
      set_limits(texture, &n);
      n.flat = 2 * flat > int64_t(g.across) * g.down;
      if (c == 0) set_level(texture, n);
    }
  }

  // Holds sums over the cells of a level.
  struct Level {
    double cells = 0, below = 0, mean = 0;
  };
  // Counts the blocks of a cell of luma whose upper right sample is below T.
  double below(int cx, int cy, const Plane& x) const {
    double count = 0;
    for (int j = 8 * cy; j < 8 * cy + 8; j += 2)
      for (int i = 8 * cx; i < 8 * cx + 8; i += 2) {
        const double right = x.at(i + 1, j) - state_[0].at(i + 1, j);
        count += right != 0 ? right < 0 : x.at(i, j) < state_[0].at(i, j);
      }
    return count;
  }
  static double learnt_variance(const Noise& n, int level) {
    const double u = std::clamp((level + 0.5) / 4 - 0.5, 0.0, 7.0);
    const int j = std::min(int(u), 6);
    return n.v[j] + (n.v[j + 1] - n.v[j]) * (u - j);
  }
  static void learn_bias(const Level& l, int level, Noise* n) {
    if (l.cells == 0) return;
    const double deviation = std::sqrt(learnt_variance(*n, level) / n->codec);
    const double median = 1.2533 * deviation * (1 - l.below / (8 * l.cells));
    const double bias = std::clamp(2.5 * (median - l.mean / (64 * l.cells)), -deviation, deviation);
    n->bias[level] += (bias - n->bias[level]) * 0.25 * l.cells / (l.cells + 8);
  }
  // Returns the bias at the lower border of a level, in 1/256 code.
  double bias_at(const Noise& n, int border) const {
    if (t_.params.noise >= 0) return 0;
    const double b = border == 0    ? std::max(n.bias[0], 0.0)
                     : border == 32 ? std::min(n.bias[31], 0.0)
                                    : (n.bias[border - 1] + n.bias[border]) / 2;
    return nearest(std::clamp(256 * b, -1792.0, border == 31 ? 512.0 : 1792.0));
  }

  void adapt(const std::vector<Histogram>& texture, const std::vector<Histogram>& votes,
             const Histogram& all, int samples, bool chroma, Noise* n) const {
    const double uneven = all.quantile(4, 5) / std::max(all.quantile(1, 2), 1.0 / 32);
    const double codec = 1 + std::clamp(4 * (uneven - 2.3), 0.0, chroma ? 1.2 : 2.0);
    n->codec += (codec - n->codec) * (n->learnt ? 0.25 : 1);
    const double bias = 0.866 * 64 / 63 * (1 + 0.6 * (n->kappa - 1.0 / samples)) * n->codec;
    const double whole = all.quantile(4, 5) * bias;
    double next[8];
    std::vector<int> have;
    for (int i = 0; i < 8; i++)
      if (texture[i].total() >= 40 && votes[i].total() >= 10) have.push_back(i);
    const auto own = [&](int i) { return votes[i].quantile(4, 5) * bias; };
    for (int i = 0; i < 8; i++) {
      const auto above = std::lower_bound(have.begin(), have.end(), i);
      if (have.empty())
        next[i] = whole;
      else if (above == have.end())
        next[i] = own(have.back());
      else if (*above == i || above == have.begin())
        next[i] = own(*above);
      else {
        const int low = above[-1], high = *above;
        next[i] = own(low) + (own(high) - own(low)) * (i - low) / (high - low);
      }
      next[i] = std::min({next[i], 4 * whole, n->most});
    }
    for (int i = 3; i < 8; i++) next[i] = std::min(next[i], 1.05 * next[i - 1]);
    for (int i = 0; i < 8; i++)
      n->v[i] = std::max(n->v[i] + (next[i] - n->v[i]) * (n->learnt ? 0.25 : 1), least_variance());
    n->learnt = true;
  }

  Cell figures(int c, int cx, int cy, const std::vector<Plane>& x) const {
    const Grid g = grid(c);
    const int n = block_samples(c);
    double mean = 0, of_sums = 0, of_samples = 0, p = 0;
    for (int by = cy * g.high; by < (cy + 1) * g.high; by++)
      for (int bx = cx * g.wide; bx < (cx + 1) * g.wide; bx++) {
        double sum = 0, squares = 0;
        samples(c, bx, by, [&](int i, int j) {
          const double d = x[c].at(i, j) - state_[c].at(i, j), e = std::floor(std::abs(d) / 2);
          sum += d;
          squares += 4 * e * e;
        });
        if (n == 1) squares = sum * sum;
        const double w = 1 / (1 + p_of(bx, by));
        of_sums += nearest(std::min(sum * sum * w / 1024, 4194304.0));
        of_samples += nearest(std::min(squares * w / 1024, 4194304.0));
        mean += sum / 16384;
        p += p_of(bx, by) * n / 64;
      }
    // These are rounded to float as the backends round them: a cell in another bin would change the
    // model, and then all that follows.
    const auto sum = float(16384 * mean), all = float(2048 * 64 / n);
    const float squared_mean =
        (sum * sum) * (1.0f / (1 << 28)) * (all / (all + float(2048 * 64 / n * p)));
    Cell cell;
    cell.variance = std::max(float(of_samples) * (1.0f / 4096) - squared_mean, 0.0f);
    cell.of_means = float(of_sums) * (1.0f / float(4096 * n)) - squared_mean;
    cell.mean = mean;
    luma_of_cell(c, cx, cy, &cell);
    return cell;
  }

  // ---- pass 2 ----

  // Returns luma of the state, smoothed along edges behind a codec.
  Plane smoothed(double codec) const {
    const Plane& t = state_[0];
    Plane out = t;
    const double strength = nearest(6 * (codec - 1));
    for (int y = 0; y < t.height; y++)
      for (int x = 0; x < t.width; x++) {
        double sum = 0, least = 1e9;
        for (const auto& [i, j] : {std::pair{1, 0}, {0, 1}, {1, 1}, {-1, 1}}) {
          const double a = t.at(x - i, y - j), b = t.at(x + i, y + j);
          if (std::abs(a - b) < least) sum = a + b, least = std::abs(a - b);
        }
        const double second = std::clamp(sum - 2 * t.at(x, y), -2048.0, 2048.0);
        out.at(x, y) += std::floor(strength / 128 * second + 0.5);
      }
    return out;
  }

  // Applies the spatial filter to component c. The result is in codes.
  Plane spatial(int c, const Noise& noise) const {
    const Plane& t = state_[c];
    Plane coarse(t.width, t.height), squares = coarse, weight = coarse, out = coarse;
    const bool fine = t_.layout.type == Type::u16;
    const Plane shown = c == 0 && t_.params.noise < 0 ? smoothed(noise.codec) : t;
    // The sum leaves room for the 15 that a sample may lack, and for half a code.
    const double half = t_.from.rgb ? 0 : std::ldexp(1.0, 15 - t_.depth);
    const double lacking = fine ? 0 : 7, most = fine ? std::ceil(65521 - half) - 1 : 65535;
    for (int y = 0; y < t.height; y++)
      for (int x = 0; x < t.width; x++) {
        const int bx = x / t_.per_block_x[c], by = y / t_.per_block_y[c];
        const double v = variance(noise, c, level(bx, by));
        coarse.at(x, y) = std::floor(t.at(x, y) / 16);
        squares.at(x, y) = coarse.at(x, y) * coarse.at(x, y);
        const double p = p_of(bx, by), less = 0.6 * (1 - noise.kappa) * noise.moving * (1 - p);
        weight.at(x, y) = nearest(std::min(256 * t_.params.spatial * p * v * (1 - less), 665600.0));
      }
    // a and b hold the lines of the groups of 2 x 2 samples, with one more group on each side.
    Plane a((t.width + 1) / 2 + 2, (t.height + 1) / 2 + 2), b = a;
    for (int j = 0; j < a.height; j++)
      for (int i = 0; i < a.width; i++) {
        const auto sum = [&](const Plane& p) {
          double s = 0;
          for (int y = 2 * j - 3; y <= 2 * j; y++)
            for (int x = 2 * i - 3; x <= 2 * i; x++) s += p.at(x, y);
          return s;
        };
        const double s = sum(coarse), v = std::max(16 * sum(squares) - s * s, 1.0);
        const double removed = nearest(std::min(4096 * 16 * sum(weight) / v, 4096.0));
        a.at(i, j) = 4096 - removed;
        double more = 0;
        if (c == 0) {
          const int l = int(s / 2048);
          const double low = bias_at(noise, l), slope = bias_at(noise, l + 1) - low;
          more = std::floor(low + slope * (s - 2048 * l) / 2048 + 0.5);
        }
        b.at(i, j) = removed * std::min(s + more + lacking, most);
      }
    for (int y = 0; y < t.height; y++)
      for (int x = 0; x < t.width; x++) {
        const int i = x / 2 + 1, j = y / 2 + 1, u = x & 1 ? i + 1 : i - 1,
                  v = y & 1 ? j + 1 : j - 1;
        const auto mean = [&](const Plane& p) {
          return (9 * p.at(i, j) + 3 * p.at(u, j) + 3 * p.at(i, v) + p.at(u, v)) / 16;
        };
        const double value = shown.at(x, y), low = fine ? std::fmod(value, 16) : 0;
        const double v16 = (mean(a) * (value - low) + mean(b)) / 4096 + low;
        out.at(x, y) = v16 * std::ldexp(1.0, t_.depth - 16);
      }
    return out;
  }

  void write_frame(const Image& src, const Image& dst, const Noise used[3]) const {
    for (int p = 0; p < t_.layout.planes; p++) {
      const PlaneLayout& l = t_.layout.plane[p];
      for (int y = 0; y < l.height; y++)
        for (int x = 0; x < l.width; x++)
          for (int c = 0; c < l.channels; c++)
            std::memcpy(component(dst, p, x, y, c), component(src, p, x, y, c),
                        size_of(t_.layout.type));
    }
    std::vector<Plane> out;
    for (int c = 0; c < colors(); c++) out.push_back(spatial(c, used[c]));
    if (t_.from.rgb)
      for (size_t i = 0; i < out[0].v.size(); i++) {
        const double middle = 1 << (t_.depth - 1);
        const double l = out[0].v[i], co = out[1].v[i] - middle, cg = out[2].v[i] - middle;
        out[0].v[i] = l - cg + co;
        out[1].v[i] = l + cg;
        out[2].v[i] = l - cg - co;
      }
    const double top = double((1 << t_.depth) - 1);
    for (int c = 0; c < colors(); c++) {
      if (!t_.writes[c]) continue;
      const Component& at = t_.from.color[c];
      const PlaneLayout& l = t_.layout.plane[at.plane];
      for (int y = 0; y < l.height; y++)
        for (int x = 0; x < l.width; x++) {
          const double v = out[c].at(x, y);
          write(dst, at.plane, x, y, at.channel,
                std::clamp(t_.from.rgb ? nearest(v) : std::floor(v + 0.5), 0.0, top) *
                    (1 << t_.layout.shift));
        }
    }
  }

  DenoiseTask t_;
  std::vector<Plane> state_;
  Plane p_, level_of_, restless_, moves_;
  std::unique_ptr<MotionPlan> motion_;
  std::vector<MotionVector> field_;
  int patches_x_ = 0, patches_y_ = 0;
  Noise noise_[3];
  double level_ = 0;
  std::vector<double> sums_;  // sum of samples of each cell of luma in the previous frame
  int repeats_ = 0;           // consecutive frames that repeat the previous one
};

}  // namespace

Status reference_denoise(Queue& queue, const DenoiseTask& task, std::unique_ptr<DenoisePlan>* out) {
  *out = std::make_unique<ReferenceDenoise>(queue, task);
  return {};
}

}  // namespace vf::test
