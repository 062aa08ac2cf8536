// Filters regions on the CPU.
//
// In place, the filters write to a scratch frame, tile by tile, and the regions' rectangles are
// copied from there, so that all pixels are filtered from the original frame. The Gaussian blurs
// the rows of a tile to floats, and then the columns of these. The median has a plan of its own for
// tiles of one size, which include the frame around them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/arena.h"
#include "cpu/gaussian_rows.h"
#include "cpu/queue.h"
#include "filters/make.h"
#include "filters/pixelate_task.h"
#include "filters/regions_task.h"

namespace vf::cpu {
namespace {

constexpr int kTile = 128;  // samples of a Gaussian's tile, and of the scratch's copies
constexpr int kTileRows = 64;
constexpr int kVectorFloats = 64;  // room behind rows: four vectors of any instruction set
constexpr int kMaxTaps = GaussianParams::kMaxKernelSize;

struct Tile {
  int region, plane;
  PlaneRect rect;
};

template <class T>
T* sample(const Image& image, int plane, int x, int y) {
  return row_of<T>(image, plane, y) + ptrdiff_t(x) * image.layout.plane[plane].pixel_step();
}

template <class T>
class CpuRegions final : public RegionsPlan {
 public:
  CpuRegions(CpuQueue& queue, const RegionsTask& task)
      : RegionsPlan(queue, task), pool_(queue), task_(task), middle_(middle_code(task.layout)) {}

  Status prepare() {
    scratch_.layout = source();
    size_t bytes[kMaxPlanes], total = 0;
    for (int p = 0; p < source().planes; p++) {
      scratch_.stride[p] = ptrdiff_t((row_bytes(source(), p) + 63) / 64 * 64);
      bytes[p] = size_t(scratch_.stride[p]) * source().plane[p].height;
      total += bytes[p];
    }
    VF_TRY(pool_.allocate(Memory::host, total, &memory_));
    uint8_t* at = memory_.template as<uint8_t>();
    for (int p = 0; p < source().planes; at += bytes[p++]) scratch_.data[p] = at;
    rivals_.resize(pool_.threads());
    for (std::vector<int>& rivals : rivals_) rivals.reserve(RegionParams::kMost);
    return std::visit([&](const auto& f) { return prepare_filter(f); }, filter());
  }

 private:
  // ---- a frame ----

  // The lists of tiles grow with the regions.
  Status enqueue_regions(const Image& src, const Image& dst) override {
    return guarded([&] { return run_regions(src, dst); });
  }

  Status run_regions(const Image& src, const Image& dst) {
    const bool in_place = src.data[0] == dst.data[0];
    if (whole() || (params().invert && regions().empty())) return whole_plan().run(src, dst);
    if (params().invert) {
      list_tiles();
      if (in_place) copy_tiles(src, scratch_);
      VF_TRY(whole_plan().run(src, dst));
      mix(dst, in_place ? scratch_ : src, dst);
      return {};
    }
    if (!in_place) VF_TRY(pool_.copy(src, dst));
    if (regions().empty()) return {};
    list_tiles();
    return std::visit([&](const auto& f) { return filter_regions(f, src, dst); }, filter());
  }

  // The ways to filter regions, after list_tiles(). The first is for filters without one of their
  // own: it filters the whole frame.
  template <class F>
  Status prepare_filter(const F&) {
    return {};
  }
  template <class F>
  Status filter_regions(const F&, const Image& src, const Image& dst) {
    VF_TRY(whole_plan().run(src, scratch_));
    mix(src, scratch_, dst);
    return {};
  }

  Status prepare_filter(const RegionGaussian&) {
    thread_memory_.resize(pool_.threads());
    for (Allocation& a : thread_memory_) {
      Arena count(nullptr);
      arrays(count);
      VF_TRY(pool_.allocate(Memory::host, count.used(), &a));
      std::memset(a.data(), 0, count.used());
    }
    return {};
  }
  Status filter_regions(const RegionGaussian& f, const Image& src, const Image& dst) {
    return through_scratch(src, dst, [&](const Image& to) {
      pool_.parallel(int(tiles_.size()), [&](int i, int thread) {
        if (tile_counts(tiles_[i])) blur(f.params, tiles_[i], src, to, thread);
      });
    });
  }

  Status prepare_filter(const RegionMedian& f) { return prepare_median(f.params); }
  Status filter_regions(const RegionMedian&, const Image& src, const Image& dst) {
    VF_TRY(filter_median(src));
    mix(src, scratch_, dst);
    return {};
  }

  Status filter_regions(const RegionPixelate&, const Image& src, const Image& dst) {
    return through_scratch(src, dst, [&](const Image& to) { pixelate(src, to); });
  }

  // Calls run(to). In place, `to` is the scratch frame, which is copied to dst afterwards,
  // because the filter must not read what it wrote.
  template <class Run>
  Status through_scratch(const Image& src, const Image& dst, const Run& run) {
    const bool in_place = src.data[0] == dst.data[0];
    run(in_place ? scratch_ : dst);
    if (in_place) copy_tiles(scratch_, dst);
    return {};
  }

  // Calls f(region, plane, rectangle) for all regions in each plane that is filtered.
  template <class F>
  void for_rects(const F& f) const {
    for (int i = 0; i < int(regions().size()); i++)
      for (int p = 0; p < source().planes; p++)
        if (channels(p)) f(i, p, rect_of(i, p));
  }

  // Divides the regions' rectangles in each plane into tiles.
  void list_tiles() {
    tiles_.clear();
    for_rects([&](int i, int p, const PlaneRect& all) {
      for (int y = all.y0; y < all.y1; y += kTileRows)
        for (int x = all.x0; x < all.x1; x += kTile)
          tiles_.push_back(
              {i, p, {x, y, std::min(x + kTile, all.x1), std::min(y + kTileRows, all.y1)}});
    });
  }

  PlaneRect rect_of(int region, int p) const {
    const PlaneLayout& l = source().plane[p];
    return plane_rect(regions()[region], l.sub_x, l.sub_y, l.width, l.height);
  }

  int weight(int region, int p, int x, int y) const {
    const PlaneLayout& l = source().plane[p];
    return region_weight(regions()[region], edges(), l.sub_x, l.sub_y, x, y);
  }

  // The other regions that reach into a tile: a list of `thread`, until its next call.
  const std::vector<int>& rivals_of(const Tile& t, int thread) {
    std::vector<int>& rivals = rivals_[thread];
    rivals.clear();
    for (int i = 0; i < int(regions().size()); i++) {
      const PlaneRect r = rect_of(i, t.plane);
      if (i != t.region && r.x0 < t.rect.x1 && r.x1 > t.rect.x0 && r.y0 < t.rect.y1 &&
          r.y1 > t.rect.y0)
        rivals.push_back(i);
    }
    return rivals;
  }

  // Whether a tile has samples that no stronger region covers.
  bool tile_counts(const Tile& t) const {
    const PlaneLayout& l = source().plane[t.plane];
    for (int i = 0; i < t.region; i++)
      if (covers(regions()[i], edges(), l.sub_x, l.sub_y, t.rect)) return false;
    return true;
  }

  // The weight of a sample in the tile's region, or -1 where another one has the sample.
  int own_weight(const Tile& t, const std::vector<int>& rivals, int x, int y) const {
    const int own = weight(t.region, t.plane, x, y);
    for (const int i : rivals) {
      const PlaneRect r = rect_of(i, t.plane);
      if (x < r.x0 || x >= r.x1 || y < r.y0 || y >= r.y1) continue;
      if (loses(own, t.region, weight(i, t.plane, x, y), i)) return -1;
    }
    return own;
  }

  // f(x, y, weight) for the samples of a tile that belong to its region.
  template <class F>
  void for_own(const Tile& t, int thread, const F& f) {
    const PlaneLayout& l = source().plane[t.plane];
    const std::vector<int>& rivals = rivals_of(t, thread);
    const bool full =
        rivals.empty() && covers(regions()[t.region], edges(), l.sub_x, l.sub_y, t.rect);
    for (int y = t.rect.y0; y < t.rect.y1; y++)
      for (int x = t.rect.x0; x < t.rect.x1; x++) {
        const int w = full ? kFullWeight : own_weight(t, rivals, x, y);
        if (w >= 0) f(x, y, w);
      }
  }

  T blended(T original, T filtered, int w) const {
    return T(blend(original, filtered, w, source().shift));
  }

  // Mixes `over` with `base` by the weights.
  void mix(const Image& base, const Image& over, const Image& dst) {
    pool_.parallel(int(tiles_.size()), [&](int i, int thread) {
      const Tile& t = tiles_[i];
      const uint8_t mask = channels(t.plane);
      const int count = source().plane[t.plane].channels;
      for_own(t, thread, [&](int x, int y, int w) {
        const T *from = sample<T>(base, t.plane, x, y), *to = sample<T>(over, t.plane, x, y);
        T* out = sample<T>(dst, t.plane, x, y);
        for (int c = 0; c < count; c++)
          if (mask >> c & 1) out[c] = blended(from[c], to[c], w);
      });
    });
  }

  // Copies the filtered channels of the regions' rectangles.
  void copy_tiles(const Image& src, const Image& dst) {
    pool_.parallel(int(tiles_.size()), [&](int i, int) {
      const Tile& t = tiles_[i];
      const PlaneLayout& l = source().plane[t.plane];
      for (int y = t.rect.y0; y < t.rect.y1; y++)
        copy_channels(sample<const T>(src, t.plane, t.rect.x0, y), l.pixel_step(),
                      sample<T>(dst, t.plane, t.rect.x0, y), l.pixel_step(), l.channels,
                      channels(t.plane), t.rect.x1 - t.rect.x0);
    });
  }

  // ---- Gaussian ----

  struct Arrays {
    float *line, *rows, *sums, *weights_x, *weights_y;
    int pitch;
  };
  // Divides a thread's memory for the largest kernels.
  Arrays arrays(Arena& arena) const {
    Arrays a;
    const int halo = kMaxTaps - 1;
    a.pitch = kTile * kMaxChannels + kVectorFloats;
    a.line = arena.take<float>(size_t(kTile + halo) * kMaxChannels + kVectorFloats);
    a.rows = arena.take<float>(size_t(kTileRows + halo) * a.pitch);
    a.sums = arena.take<float>(a.pitch);
    a.weights_x = arena.take<float>(kMaxTaps);
    a.weights_y = arena.take<float>(kMaxTaps);
    return a;
  }

  static void set_weights(double sigma, int radius, float* weights) {
    double sum = 0, w[kMaxTaps];
    for (int i = -radius; i <= radius; i++)
      sum += w[i + radius] = radius ? std::exp(-double(i) * i / (2 * sigma * sigma)) : 1;
    for (int i = 0; i <= 2 * radius; i++) weights[i] = float(w[i] / sum);
  }

  void blur(const GaussianParams& g, const Tile& t, const Image& src, const Image& dst,
            int thread) {
    Arena arena(thread_memory_[thread].template as<char>());
    const Arrays a = arrays(arena);
    const Region& r = regions()[t.region];
    const PlaneLayout& l = source().plane[t.plane];
    const int rx = r.radius_x[l.sub_x], ry = r.radius_y[l.sub_y], shift = source().shift;
    const int width = t.rect.x1 - t.rect.x0, height = t.rect.y1 - t.rect.y0;
    const int count = width * l.channels;
    set_weights(double(r.sigma_x) / (1 << l.sub_x), rx, a.weights_x);
    set_weights(double(r.sigma_y) / (1 << l.sub_y), ry, a.weights_y);
    for (int row = 0; row < height + 2 * ry; row++) {
      const int y = border_index(t.rect.y0 - ry + row, l.height, g.border);
      float* to = a.line;
      for (int x = t.rect.x0 - rx; x < t.rect.x1 + rx; x++, to += l.channels) {
        const int at = y < 0 ? -1 : border_index(x, l.width, g.border);
        for (int c = 0; c < l.channels; c++)
          to[c] = (at < 0 ? float(g.border_value[t.plane][c])
                          : float(sample<T>(src, t.plane, at, y)[c] >> shift)) -
                  float(middle_);
      }
      gaussian_sums(a.line, l.channels, a.weights_x, 2 * rx + 1, count,
                    a.rows + ptrdiff_t(row) * a.pitch);
    }
    const float maximum = float((1 << (8 * sizeof(T) - shift)) - 1);
    int row = -1;
    const uint8_t mask = channels(t.plane);
    for_own(t, thread, [&](int x, int y, int w) {
      if (y - t.rect.y0 != row) {
        row = y - t.rect.y0;
        gaussian_sums(a.rows + ptrdiff_t(row) * a.pitch, a.pitch, a.weights_y, 2 * ry + 1, count,
                      a.sums);
      }
      const float* sum = a.sums + ptrdiff_t(x - t.rect.x0) * l.channels;
      const T* from = sample<T>(src, t.plane, x, y);
      T* to = sample<T>(dst, t.plane, x, y);
      for (int c = 0; c < l.channels; c++) {
        if (!(mask >> c & 1)) continue;
        const float code = std::clamp(std::floor(sum[c] + float(middle_) + 0.5f), 0.f, maximum);
        to[c] = blended(from[c], T(uint32_t(code) << shift), w);
      }
    });
  }

  // ---- pixelation ----

  void pixelate(const Image& src, const Image& dst) {
    rows_.clear();
    for_rects([&](int i, int p, const PlaneRect& all) {
      const RegionBlocks by = blocks_y(i, p);
      for (int b = by.block_of(all.y0); b <= by.block_of(all.y1 - 1); b++)
        if (by.edge(b) < by.edge(b + 1)) rows_.push_back({i, p, b});
    });
    pool_.parallel(int(rows_.size()),
                   [&](int n, int thread) { pixelate_row(rows_[n], src, dst, thread); });
  }

  RegionBlocks blocks_x(int i, int p) const {
    const Region& r = regions()[i];
    return {r.block, r.block_x, source().plane[p].sub_x, source().plane[p].width};
  }
  RegionBlocks blocks_y(int i, int p) const {
    const Region& r = regions()[i];
    return {r.block, r.block_y, source().plane[p].sub_y, source().plane[p].height};
  }

  struct BlockRow {
    int region, plane, row;
  };
  void pixelate_row(const BlockRow& row, const Image& src, const Image& dst, int thread) {
    const int p = row.plane, shift = source().shift;
    const PlaneLayout& l = source().plane[p];
    const PlaneRect all = rect_of(row.region, p);
    const RegionBlocks bx = blocks_x(row.region, p), by = blocks_y(row.region, p);
    const uint8_t mask = channels(p);
    const int y0 = by.edge(row.row), y1 = by.edge(row.row + 1);
    for (int b = bx.block_of(all.x0); b <= bx.block_of(all.x1 - 1); b++) {
      const int x0 = bx.edge(b), x1 = bx.edge(b + 1);
      if (x0 >= x1) continue;
      const Tile t = {
          row.region,
          p,
          {std::max(x0, all.x0), std::max(y0, all.y0), std::min(x1, all.x1), std::min(y1, all.y1)}};
      if (!tile_counts(t)) continue;
      T means[kMaxChannels] = {};
      for (int c = 0; c < l.channels; c++) {
        uint64_t sum = 0;
        for (int y = y0; y < y1; y++) {
          const T* at = sample<T>(src, p, x0, y) + c;
          uint64_t line = 0;
          for (int x = x0; x < x1; x++, at += l.pixel_step()) line += *at;
          sum += line;
        }
        means[c] = block_mean<T>(sum, uint64_t(x1 - x0) * uint64_t(y1 - y0), shift);
      }
      for_own(t, thread, [&](int x, int y, int w) {
        const T* from = sample<T>(src, p, x, y);
        T* to = sample<T>(dst, p, x, y);
        for (int c = 0; c < l.channels; c++)
          if (mask >> c & 1) to[c] = blended(from[c], means[c], w);
      });
    }
  }

  // ---- median ----

  // Tiles lie inside of the plane. Results are right at the window's radius from the tile's edge
  // and farther inside; where that edge is the plane's edge, they are right up to it.
  struct MedianTiles {
    std::unique_ptr<Plan> plan;
    Image out;
    Allocation memory;
    int margin_x = 0, margin_y = 0;
  };

  Status prepare_median(const MedianParams& m) {
    constexpr int kMin = 128;
    const int size_y = m.size_y ? m.size_y : m.size;
    for (int p = 0; p < source().planes; p++) {
      MedianTiles& t = median_[p];
      Layout layout = source();
      PlaneLayout& l = layout.plane[0];
      layout.planes = 1;
      l = source().plane[p];
      t.margin_x = plane_size(m.size, l.sub_x) / 2;
      t.margin_y = plane_size(size_y, l.sub_y) / 2;
      l.width = std::min(l.width, std::max(kMin, 4 * t.margin_x));
      l.height = std::min(l.height, std::max(kMin, 4 * t.margin_y));
      MedianParams params = m;
      params.channels[0] = m.channels[p];
      std::copy_n(m.border_value[p], kMaxChannels, params.border_value[0]);
      VF_TRY(make_median(pool_, layout, params, Placement::separate, &t.plan));
      t.out.layout = layout;
      t.out.stride[0] = ptrdiff_t((row_bytes(layout, 0) + 63) / 64 * 64);
      VF_TRY(pool_.allocate(Memory::host, size_t(t.out.stride[0]) * l.height, &t.memory));
      t.out.data[0] = t.memory.data();
    }
    return {};
  }

  // Where the tile with the result for sample `at` starts, and where its right results end.
  struct Span {
    int start, end;
  };
  static Span tile_at(int at, int tile, int margin, int length) {
    const int start = std::clamp(at - margin, 0, length - tile);
    return {start, start + tile == length ? length : start + tile - margin};
  }

  Status filter_median(const Image& src) {
    for (int p = 0; p < source().planes; p++)
      for (int i = 0; i < int(regions().size()) && channels(p); i++) {
        const PlaneRect all = rect_of(i, p);
        const MedianTiles& t = median_[p];
        const PlaneLayout &l = source().plane[p], &tile = t.out.layout.plane[0];
        for (int y = all.y0, y1; y < all.y1; y = y1) {
          const Span rows = tile_at(y, tile.height, t.margin_y, l.height);
          y1 = rows.end;
          for (int x = all.x0, x1; x < all.x1; x = x1) {
            const Span columns = tile_at(x, tile.width, t.margin_x, l.width);
            x1 = columns.end;
            VF_TRY(median_tile(src, p, columns.start, rows.start,
                               {x, y, std::min(x1, all.x1), std::min(y1, all.y1)}));
          }
        }
      }
    return {};
  }

  // Filters the tile that starts at (left, top); `rect` of it goes to the scratch frame.
  Status median_tile(const Image& src, int p, int left, int top, const PlaneRect& rect) {
    const MedianTiles& t = median_[p];
    Image in;
    in.layout = t.out.layout;
    in.memory = src.memory;
    in.data[0] = sample<T>(src, p, left, top);
    in.stride[0] = src.stride[p];
    VF_TRY(t.plan->run(in, t.out));
    const PlaneLayout& l = source().plane[p];
    const size_t bytes = (size_t(rect.x1 - rect.x0 - 1) * l.pixel_step() + l.channels) * sizeof(T);
    for (int y = rect.y0; y < rect.y1; y++)
      std::memcpy(sample<T>(scratch_, p, rect.x0, y), sample<T>(t.out, 0, rect.x0 - left, y - top),
                  bytes);
    return {};
  }

  CpuQueue& pool_;
  const RegionsTask task_;
  const int middle_;
  Image scratch_;
  Allocation memory_;
  std::vector<Allocation> thread_memory_;
  std::vector<std::vector<int>> rivals_;  // a list for each thread
  std::vector<Tile> tiles_;
  std::vector<BlockRow> rows_;
  MedianTiles median_[kMaxPlanes];
};

}  // namespace

Status make_regions(Queue& queue, const RegionsTask& task, std::unique_ptr<RegionsPlan>* out) {
  return task.layout.type == Type::u8
             ? make_prepared<CpuRegions<uint8_t>, CpuQueue>(queue, task, out)
             : make_prepared<CpuRegions<uint16_t>, CpuQueue>(queue, task, out);
}

}  // namespace vf::cpu
