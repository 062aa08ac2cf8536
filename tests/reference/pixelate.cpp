#include "filters/pixelate_task.h"
#include "tests/reference/reference.h"

namespace vf::test {
namespace {

// Adds up the samples from x0 to x1 and y0 to y1 of a block in the order that filters/pixelate.h
// says. Sums of integers are exact: they have fewer than 53 bits.
double block_sum(const Image& src, int p, int c, int x0, int x1, int y0, int y1) {
  double sum = 0;
  for (int top = y0; top < y1; top += 16)
    for (int left = x0; left < x1; left += 64) {
      double cell = 0;
      for (int x = left; x < left + 64 && x < x1; x++) {
        double column = 0;
        for (int y = top; y < top + 16 && y < y1; y++) column += read(src, p, x, y, c);
        cell += column;
      }
      sum += cell;
    }
  return sum;
}

class ReferencePixelate final : public Plan {
 public:
  ReferencePixelate(Queue& queue, const PixelateTask& task)
      : Plan(queue, task.layout, task.layout, Placement::separate), task_(task) {}

 private:
  // Returns the block that a sample lies in, along one axis. It is the block of the sample's pixel.
  static int block_of(const BlockAxis& axis, int sample) {
    return (sample * (1 << axis.sub)) / axis.size;
  }
  // Returns the end of the samples that lie in the block of sample `first`.
  static int end_of(const BlockAxis& axis, int first, int length) {
    int end = first;
    while (end < length && block_of(axis, end) == block_of(axis, first)) end++;
    return end;
  }

  Status enqueue(const Image& src, const Image& dst) override {
    for (int p = 0; p < src.layout.planes; p++) {
      const PlaneLayout& l = src.layout.plane[p];
      const PixelatePlane& plane = task_.plane[p];
      for (int y0 = 0, y1; y0 < l.height; y0 = y1) {
        y1 = end_of(plane.y, y0, l.height);
        for (int x0 = 0, x1; x0 < l.width; x0 = x1) {
          x1 = end_of(plane.x, x0, l.width);
          for (int c = 0; c < l.channels; c++) {
            const double mean =
                block_sum(src, p, c, x0, x1, y0, y1) / (double(x1 - x0) * (y1 - y0));
            for (int y = y0; y < y1; y++)
              for (int x = x0; x < x1; x++)
                if (plane.channels >> c & 1)
                  write(dst, p, x, y, c, mean);
                else
                  std::memcpy(component(dst, p, x, y, c), component(src, p, x, y, c),
                              size_of(src.layout.type));
          }
        }
      }
    }
    return {};
  }

  PixelateTask task_;
};

}  // namespace

Status reference_pixelate(Queue& queue, const PixelateTask& task, std::unique_ptr<Plan>* out) {
  *out = std::make_unique<ReferencePixelate>(queue, task);
  return {};
}

}  // namespace vf::test
