#include "filters/regions_task.h"

#include <cmath>

#include "tests/reference/reference.h"

namespace vf::test {
namespace {

// Holds a frame and its memory.
struct OwnImage {
  explicit OwnImage(const Layout& layout) {
    image.layout = layout;
    for (int p = 0; p < layout.planes; p++) {
      image.stride[p] = ptrdiff_t(row_bytes(layout, p));
      memory[p].resize(size_t(image.stride[p]) * layout.plane[p].height);
      image.data[p] = memory[p].data();
    }
  }
  Image image;
  std::vector<uint8_t> memory[kMaxPlanes];
};

// Filters a whole frame for each region, and mixes these frames by the weights.
class ReferenceRegions final : public RegionsPlan {
 public:
  ReferenceRegions(Queue& queue, const RegionsTask& task) : RegionsPlan(queue, task) {}

 private:
  Status enqueue_regions(const Image& src, const Image& dst) override {
    const bool invert = params().invert;
    if (whole()) return whole_plan().run(src, dst);
    copy(src, dst);
    std::vector<OwnImage> filtered;
    std::vector<size_t> frame;  // each region's index in `filtered`
    if (invert) {
      filtered.emplace_back(source());
      VF_TRY(whole_plan().run(src, filtered[0].image));
    } else {
      for (const Region& r : regions()) {
        size_t before = 0;
        while (before < frame.size() && !same_filter(r, regions()[before])) before++;
        if (before < frame.size()) {
          frame.push_back(frame[before]);
          continue;
        }
        frame.push_back(filtered.size());
        filtered.emplace_back(source());
        const Image& to = filtered.back().image;
        VF_TRY(std::visit([&](const auto& f) { return filter_for(f, r, src, to); }, filter()));
      }
    }
    for (int p = 0; p < source().planes; p++) {
      const PlaneLayout& l = source().plane[p];
      for (int y = 0; y < l.height; y++)
        for (int x = 0; x < l.width; x++) {
          int weight = 0;
          size_t owner = 0;
          for (size_t i = 0; i < regions().size(); i++) {
            const int w = region_weight(regions()[i], edges(), l.sub_x, l.sub_y, x, y);
            if (w > weight) weight = w, owner = frame.empty() ? 0 : frame[i];
          }
          if (invert) weight = kFullWeight - weight, owner = 0;
          if (weight == 0) continue;
          for (int c = 0; c < l.channels; c++)
            if (channels(p) >> c & 1) mix(src, filtered[owner].image, dst, p, x, y, c, weight);
        }
    }
    return {};
  }

  static bool same_filter(const Region& a, const Region& b) {
    return a.sigma_x == b.sigma_x && a.sigma_y == b.sigma_y && a.block == b.block &&
           a.block_x == b.block_x && a.block_y == b.block_y;
  }

  static void copy(const Image& src, const Image& dst) {
    for (int p = 0; p < src.layout.planes; p++) {
      const PlaneLayout& l = src.layout.plane[p];
      for (int y = 0; y < l.height; y++)
        for (int x = 0; x < l.width; x++)
          for (int c = 0; c < l.channels; c++)
            std::memcpy(component(dst, p, x, y, c), component(src, p, x, y, c),
                        size_of(src.layout.type));
    }
  }

  void mix(const Image& src, const Image& filtered, const Image& dst, int p, int x, int y, int c,
           int weight) const {
    const double unit = 1 << source().shift;
    const double from = std::floor(read(src, p, x, y, c) / unit);
    const double to = std::floor(read(filtered, p, x, y, c) / unit);
    write(dst, p, x, y, c, unit * (from + std::floor((to - from) * weight / kFullWeight + 0.5)));
  }

  // Filters the frame with the strength of a region. Filters that do not depend on the region have
  // the first function.
  template <class F>
  Status filter_for(const F&, const Region&, const Image& src, const Image& dst) {
    return whole_plan().run(src, dst);
  }
  Status filter_for(const RegionGaussian& f, const Region& r, const Image& src, const Image& dst) {
    GaussianParams params = f.params;
    params.sigma = double(r.sigma_x);
    params.sigma_y = double(r.sigma_y);
    std::unique_ptr<Plan> plan;
    VF_TRY(make_gaussian(queue_, source(), params, Placement::separate, &plan));
    return plan->run(src, dst);
  }
  Status filter_for(const RegionPixelate&, const Region& r, const Image& src, const Image& dst) {
    pixelate(r, src, dst);
    return {};
  }

  // Returns the block of a sample along one axis. It is the block of the first pixel it covers.
  static int block_of(int sample, int sub, int origin, int size) {
    return int(std::floor((double(sample) * (1 << sub) - origin) / size));
  }

  void pixelate(const Region& r, const Image& src, const Image& dst) const {
    for (int p = 0; p < source().planes; p++) {
      const PlaneLayout& l = source().plane[p];
      const auto end_of = [&](int first, int sub, int origin, int length) {
        int end = first;
        while (end < length &&
               block_of(end, sub, origin, r.block) == block_of(first, sub, origin, r.block))
          end++;
        return end;
      };
      for (int y0 = 0, y1; y0 < l.height; y0 = y1) {
        y1 = end_of(y0, l.sub_y, r.block_y, l.height);
        for (int x0 = 0, x1; x0 < l.width; x0 = x1) {
          x1 = end_of(x0, l.sub_x, r.block_x, l.width);
          for (int c = 0; c < l.channels; c++) {
            double sum = 0;
            for (int y = y0; y < y1; y++)
              for (int x = x0; x < x1; x++) sum += read(src, p, x, y, c);
            for (int y = y0; y < y1; y++)
              for (int x = x0; x < x1; x++)
                write(dst, p, x, y, c, sum / (double(x1 - x0) * (y1 - y0)));
          }
        }
      }
    }
  }
};

}  // namespace

Status reference_regions(Queue& queue, const RegionsTask& task, std::unique_ptr<RegionsPlan>* out) {
  *out = std::make_unique<ReferenceRegions>(queue, task);
  return {};
}

}  // namespace vf::test
