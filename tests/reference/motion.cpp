// Finds motion as docs/spec/motion.md defines it: patch by patch, sample by sample. Only the steps
// are in floats, with the roundings of the specification.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "filters/motion_task.h"
#include "tests/reference/reference.h"

namespace vf::test {
namespace {

// Holds a level of a pyramid. Reads outside of it take the nearest sample.
struct Level {
  int width = 0, height = 0;
  std::vector<int> v;
  Level(int w, int h) : width(w), height(h), v(size_t(w) * h) {}
  int& at(int x, int y) { return v[size_t(y) * width + x]; }
  int at(int x, int y) const {
    return v[size_t(std::clamp(y, 0, height - 1)) * width + std::clamp(x, 0, width - 1)];
  }
};

struct Vector {
  int x = 0, y = 0;
};

// Holds the vectors of a level's patches, and their sums of squared differences.
struct Found {
  int columns = 0, rows = 0;
  std::vector<Vector> vector;
  std::vector<int> with, without;
};

struct Patch {
  const Level& from;
  const Level& before;
  int x0, y0;

  template <class F>
  void samples(F&& f) const {
    for (int y = y0; y < y0 + 8; y++)
      for (int x = x0; x < x0 + 8; x++) f(x, y);
  }
  int slope_x(int x, int y) const {
    return std::clamp(from.at(x + 1, y) - from.at(x - 1, y), -128, 127);
  }
  int slope_y(int x, int y) const {
    return std::clamp(from.at(x, y + 1) - from.at(x, y - 1), -128, 127);
  }
  // Returns the difference of the picture before, read along v, from this one.
  int difference(int x, int y, Vector v) const {
    const int column = x + (v.x >> 4), row = y + (v.y >> 4), right = v.x & 15, down = v.y & 15;
    const int upper = (16 - right) * before.at(column, row) + right * before.at(column + 1, row);
    const int lower =
        (16 - right) * before.at(column, row + 1) + right * before.at(column + 1, row + 1);
    return (((16 - down) * upper + down * lower + 128) >> 8) - from.at(x, y);
  }
  int squares(Vector v) const {
    int sum = 0;
    samples([&](int x, int y) { sum += difference(x, y, v) * difference(x, y, v); });
    return sum;
  }
  Vector refined(Vector v, int steps) const {
    int xx = 0, xy = 0, yy = 0;
    samples([&](int x, int y) {
      xx += slope_x(x, y) * slope_x(x, y);
      xy += slope_x(x, y) * slope_y(x, y);
      yy += slope_y(x, y) * slope_y(x, y);
    });
    const int ridge = 64 + (xx + yy) / 64;
    const float a = float(xx + ridge), b = float(xy), c = float(yy + ridge);
    const float determinant = a * c - b * b, scale = 32.0f / determinant;
    const float to_x = c * scale, cross = b * scale, to_y = a * scale;
    for (int i = 0; i < steps; i++) {
      int xd = 0, yd = 0;
      samples([&](int x, int y) {
        xd += slope_x(x, y) * difference(x, y, v);
        yd += slope_y(x, y) * difference(x, y, v);
      });
      const float x = to_x * float(xd) - cross * float(yd);
      const float y = to_y * float(yd) - cross * float(xd);
      v.x -= int(std::nearbyint(std::clamp(x, -32.0f, 32.0f)));
      v.y -= int(std::nearbyint(std::clamp(y, -32.0f, 32.0f)));
    }
    return v;
  }
};

class ReferenceMotion final : public MotionPlan {
 public:
  explicit ReferenceMotion(const MotionTask& task) : MotionPlan(task) {
    pyramids_.resize(size_t(task.params.pictures));
  }

 private:
  // Halves a picture or a level with weights either way, and divides by 2^shift.
  static Level halved(const Level& in, std::array<int, 4> weight, int shift) {
    Level out((in.width + 1) / 2, (in.height + 1) / 2);
    for (int y = 0; y < out.height; y++)
      for (int x = 0; x < out.width; x++) {
        int sum = (1 << shift) / 2;
        for (int j = 0; j < 4; j++)
          for (int i = 0; i < 4; i++)
            sum += weight[i] * weight[j] * in.at(2 * x - 1 + i, 2 * y - 1 + j);
        out.at(x, y) = std::min(sum >> shift, 255);
      }
    return out;
  }

  static int code(const MotionPicture& p, int component, int x, int y) {
    const auto* row = static_cast<const char*>(p.data[component]) + y * p.stride[component];
    unsigned stored = 0;
    if (p.type == Type::u8) {
      stored = static_cast<unsigned char>(row[ptrdiff_t(x) * p.step]);
    } else {
      uint16_t v;
      std::memcpy(&v, row + ptrdiff_t(x) * p.step * 2, 2);
      stored = v;
    }
    return int(stored >> p.shift & ((1u << p.depth) - 1));
  }

  Status enqueue_read(int first, const MotionPicture* from, int count) override {
    for (int k = 0; k < count; k++) {
      const MotionPicture& p = from[k];
      Level frame(params_.width, params_.height);
      for (int y = 0; y < frame.height; y++)
        for (int x = 0; x < frame.width; x++)
          frame.at(x, y) =
              p.rgb ? code(p, 0, x, y) + 2 * code(p, 1, x, y) + code(p, 2, x, y) : code(p, 0, x, y);
      std::vector<Level>& pyramid = pyramids_[size_t(first + k)];
      pyramid.clear();
      pyramid.push_back(halved(frame, {1, 3, 3, 1}, 6 + p.depth - 8 + (p.rgb ? 2 : 0)));
      while (pyramid.size() < 4) pyramid.push_back(halved(pyramid.back(), {0, 1, 1, 0}, 2));
    }
    return {};
  }

  // Searches a level, from the vectors of the coarser one, if there is one.
  static Found search(const Level& from, const Level& before, const Found* coarse, int candidates,
                      int steps) {
    Found f;
    f.columns = (from.width + 3) / 4;
    f.rows = (from.height + 3) / 4;
    for (int j = 0; j < f.rows; j++)
      for (int i = 0; i < f.columns; i++) {
        const Patch patch = {from, before, 4 * i - 2, 4 * j - 2};
        Vector best;
        const int without = patch.squares(best);
        int with = without;
        const auto consider = [&](Vector v) {
          const int squares = patch.squares(v);
          if (squares >= with) return;
          with = squares;
          best = v;
        };
        // The nearest patches of the coarser level lie about this one's middle.
        std::vector<size_t> near;
        for (int k = 0; coarse && k < 4; k++) {
          const int beside = i % 2 ? i / 2 + 1 : i / 2 - 1, next = j % 2 ? j / 2 + 1 : j / 2 - 1;
          const int column = std::clamp(k == 1 || k == 2 ? beside : i / 2, 0, coarse->columns - 1);
          const int row = std::clamp(k == 1 || k == 3 ? next : j / 2, 0, coarse->rows - 1);
          near.push_back(size_t(row) * coarse->columns + column);
        }
        if (candidates == 1) {
          std::stable_sort(near.begin(), near.end(), [&](size_t a, size_t b) {
            return std::min(coarse->with[a] / 4, 65535) < std::min(coarse->with[b] / 4, 65535);
          });
          const Vector a = coarse->vector[near[0]], b = coarse->vector[near[1]];
          consider({a.x + b.x, a.y + b.y});
        } else {
          for (int k = 0; k < candidates; k++) {
            const Vector v = coarse->vector[near[size_t(k)]];
            consider({2 * v.x, 2 * v.y});
          }
        }
        consider(patch.refined(best, steps));
        f.vector.push_back(best);
        f.with.push_back(with);
        f.without.push_back(without);
      }
    return f;
  }

  Status enqueue_find(const MotionPair* pairs, int count, const MotionParts&) override {
    for (int i = 0; i < count; i++) find_pair(pairs[i]);
    return {};
  }

  void find_pair(const MotionPair& pair) {
    const std::vector<Level>& from = pyramids_[size_t(pair.picture)];
    const std::vector<Level>& to = pyramids_[size_t(pair.before)];
    Found found = search(from[3], to[3], nullptr, 0, 3);
    for (int level = 2; level >= 0; level--)
      found = search(from[size_t(level)], to[size_t(level)], &found,
                     level == 2   ? 4
                     : level == 1 ? 2
                                  : 1,
                     level == 1 ? 1 : 2);
    const auto residual = [](int sum) { return uint16_t(std::min(sum / 4, 65535)); };
    for (int j = 0; j < found.rows; j++)
      for (int i = 0; i < found.columns; i++) {
        const size_t k = size_t(j) * found.columns + i;
        const MotionVector v = {int16_t(found.vector[k].x), int16_t(found.vector[k].y),
                                residual(found.with[k]), residual(found.without[k])};
        std::memcpy(reinterpret_cast<char*>(pair.field) + j * pair.stride + i * ptrdiff_t(sizeof v),
                    &v, sizeof v);
      }
  }

  std::vector<std::vector<Level>> pyramids_;
};

}  // namespace

Status reference_motion(Queue&, const MotionTask& task, std::unique_ptr<MotionPlan>* out) {
  *out = std::make_unique<ReferenceMotion>(task);
  return {};
}

}  // namespace vf::test
