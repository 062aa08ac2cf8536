// This is the plan of the guided matte on the CPU. Each stage works on strips of rows, which the
// threads share. The stages are in cpu/guided_rows.cpp, and those of refine=colors and of the
// layers in cpu/guided_colors.cpp and cpu/guided_layers.cpp.
#include "cpu/guided.h"

#include <algorithm>

#include "cpu/guided_colors.h"
#include "cpu/queue.h"
#include "filters/make.h"

namespace vf::cpu {
namespace {

// Whether pixels are words of which only the alpha byte changes.
bool packed_alpha(const GuidedTask& t) {
  const auto whole = [](const Layout& l, const MatteChannels& m) {
    return l.type == Type::u8 && l.planes == 1 && l.plane[0].channels == 4 &&
           l.plane[0].pixel_step() == 4 && m.colors == 3 && m.alpha.plane == 0;
  };
  if (!whole(t.source, t.from) || !whole(t.destination, t.to)) return false;
  for (int c = 0; c < 3; c++)
    if (t.from.color[c].channel != t.to.color[c].channel) return false;
  return t.params.output == MatteOutput::alpha && t.params.despill == 0 && !t.converts &&
         !t.layers.used() && t.from.alpha.channel == t.to.alpha.channel;
}

class CpuGuided final : public GuidedPlan {
 public:
  CpuGuided(CpuQueue& queue, const GuidedTask& task)
      : GuidedPlan(queue, task.source, task.destination, task.placement), pool_(queue) {
    f_.task = task;
    f_.packed_alpha = packed_alpha(task);
    votes_.task = task;
    // 257 * 257 * 255 * 255 is the largest sum of squares below 2^32.
    f_.exact_sums = (colors() || task.source.type == Type::u8) && task.low_radius <= 128;
    f_.low_pitch = task.low_width + 1;
    while (cell_ < 8 && needs_cell(2 * cell_)) cell_ *= 2;
  }

  Status prepare() {
    const GuidedTask& t = f_.task;
    const size_t low = size_t(t.low_width) * t.low_height;
    const auto floats = [&](size_t n, Allocation* block) {
      return pool_.allocate(Memory::host, n * sizeof(float), block);
    };
    VF_TRY(floats(4 * low, &ab_));
    for (int k = 0; k < 4; k++) f_.ab[k] = ab_.as<float>() + low * k;
    if (colors()) {
      VF_TRY(prepare_votes());
    } else if (t.params.temporal > 0) {
      VF_TRY(floats(10 * low, &previous_));
      for (int k = 0; k < 7; k++) f_.previous[k] = previous_.as<float>() + low * k;
      for (int k = 0; k < 3; k++) f_.near[k] = previous_.as<float>() + low * (7 + k);
    }
    if (t.params.subsample > 1 || t.layers.used()) {
      const size_t n = size_t(f_.low_pitch) * t.low_height;
      VF_TRY(floats(4 * n, &mean_));
      for (int k = 0; k < 4; k++) f_.mean[k] = mean_.as<float>() + n * k;
    }
    VF_TRY(floats(2 * size_t(t.width) + t.low_width, &tables_));
    f_.left = tables_.as<int>();
    f_.weight = tables_.as<float>() + t.width;
    f_.inverse_count = f_.weight + t.width;
    const auto place = [](int n, double first, double step, int samples, int* left, float* weight) {
      for (int x = 0; x < n; x++) {
        const double u = std::clamp(first + x * step, 0.0, samples - 1.0);
        left[x] = int(u);
        weight[x] = float(u - int(u));
      }
    };
    const double per_s = 1.0 / t.params.subsample;
    place(t.width, 0.5 * per_s - 0.5, per_s, t.low_width, f_.left, f_.weight);
    if (t.layers.used()) VF_TRY(prepare_layers(place));
    for (int x = 0; x < t.low_width; x++)
      f_.inverse_count[x] =
          1.0f / (std::min(x + t.low_radius, t.low_width - 1) - std::max(x - t.low_radius, 0) + 1);
    f_.scratch_per_thread = guided_scratch(f_);
    if (colors() || t.layers.used())
      f_.scratch_per_thread = std::max(f_.scratch_per_thread, votes_scratch(votes_));
    if (t.layers.used())
      f_.scratch_per_thread = std::max(f_.scratch_per_thread, layers_scratch(f_));
    f_.scratch_per_thread = round_up(f_.scratch_per_thread, 64);
    VF_TRY(pool_.allocate(Memory::host, f_.scratch_per_thread * pool_.threads(), &scratch_));
    f_.scratch = votes_.scratch = scratch_.as<char>();
    votes_.scratch_per_thread = f_.scratch_per_thread;
    if (colors()) {
      VF_TRY(pool_.allocate(Memory::host, pool_.threads() * sizeof(MaskErrors), &errors_));
      votes_.errors = errors_.as<MaskErrors>();
    }
    return {};
  }

  void reset() override { f_.fresh = true; }

  Status set_mask(const CoarseMask& mask) override {
    if (mask.id && mask.id == mask_id_) return {};
    PlacedMask placed;
    VF_TRY(place_mask(mask, f_.task.width, f_.task.height, &placed));
    if (placed.bytes > mask_memory_.size())
      VF_TRY(pool_.allocate(Memory::host, placed.bytes, &mask_memory_));
    if (placed.count) pack_mask(mask, placed, mask_memory_.as<uint8_t>());
    placed_ = placed;
    mask_id_ = mask.id;
    show_mask();
    return {};
  }

  void take_over(GuidedPlan& other) override {
    auto& previous = static_cast<CpuGuided&>(other);
    if (same_mask(previous.f_.task, f_.task)) {
      mask_memory_ = std::move(previous.mask_memory_);
      placed_ = previous.placed_;
      mask_id_ = previous.mask_id_;
      show_mask();
    }
    if (!same_memory(previous.f_.task, f_.task)) return;
    previous_ = std::move(previous.previous_);
    votes_.previous_prior = previous.votes_.previous_prior;
    std::copy_n(previous.votes_.previous_guide, 3, votes_.previous_guide);
    std::copy_n(previous.f_.near, 3, f_.near);
    std::copy_n(previous.f_.previous, 7, f_.previous);
    f_.fresh = previous.f_.fresh;
  }

 private:
  bool colors() const { return f_.task.params.refine == MatteRefine::colors; }
  void show_mask() {
    f_.mask = votes_.external = {placed_.count, placed_.place, mask_memory_.as<uint8_t>()};
    votes_.edge_error = {placed_.errors ? placed_.count : 0, placed_.place,
                         f_.mask.memory + placed_.errors};
  }

  Status prepare_votes() {
    const GuidedTask& t = f_.task;
    const GuidedColors& c = t.colors;
    const size_t n = size_t(c.width) * c.height;
    const size_t cells = size_t(c.cell_width) * c.cell_height;
    const size_t low =
        t.params.subsample == GuidedColors::kStep ? 0 : size_t(t.low_width) * t.low_height;
    // Planes of 4 bytes, then 2, then 1, so that all are aligned.
    VF_TRY(pool_.allocate(Memory::host,
                          (4 * sizeof(float) + 3 * sizeof(uint16_t) + 9) * n +
                              2 * sizeof(CellModel) * cells + 8 * low,
                          &votes_memory_));
    votes_.cells = votes_memory_.as<CellModel>();
    auto* floats = reinterpret_cast<float*>(votes_.cells + 2 * cells);
    for (float** p : {&votes_.feature[0], &votes_.feature[1], &votes_.feature[2], &votes_.ratio}) {
      *p = floats;
      floats += n;
    }
    auto* words = reinterpret_cast<uint16_t*>(floats);
    votes_.along[0] = words;
    votes_.along[1] = words + n;
    votes_.prior = reinterpret_cast<int16_t*>(words + 2 * n);
    auto* bytes = reinterpret_cast<uint8_t*>(words + 3 * n);
    for (uint8_t** p :
         {&votes_.guide[0], &votes_.guide[1], &votes_.guide[2], &votes_.mask, &votes_.side,
          &votes_.matte, &votes_.outside, &votes_.sure[0], &votes_.sure[1]}) {
      *p = bytes;
      bytes += n;
    }
    std::copy_n(votes_.guide, 3, f_.low);
    f_.low[3] = votes_.matte;
    for (int k = 0; k < 4 && low; k++) f_.low[k] = votes_.low[k] = bytes + low * k;
    if (low) {
      votes_.low_outside = bytes + 4 * low;
      votes_.low_side = bytes + 5 * low;
      for (int k = 0; k < 2; k++) votes_.low_sure[k] = bytes + (6 + k) * low;
    }
    f_.side = low ? votes_.low_side : votes_.side;
    f_.outside = low ? votes_.low_outside : votes_.outside;
    for (int k = 0; k < 2; k++) f_.sure[k] = low ? votes_.low_sure[k] : votes_.sure[k];
    if (t.params.temporal > 0) {
      VF_TRY(pool_.allocate(Memory::host, 4 * n * sizeof(uint16_t), &previous_));
      for (int k = 0; k < 3; k++) votes_.previous_guide[k] = previous_.as<uint16_t>() + n * k;
      votes_.previous_prior = previous_.as<int16_t>() + 3 * n;
    }
    return {};
  }

  // Memory of the layers, and where pixels lie in them.
  template <class Place>
  Status prepare_layers(Place&& place) {
    const GuidedTask& t = f_.task;
    const GuidedLayers& l = t.layers;
    GuidedLayerPlanes& p = f_.layers;
    const size_t n = size_t(l.width) * l.height, cells = size_t(l.cell_width) * l.cell_height;
    const size_t wide = size_t(t.width), low = size_t(l.width);
    // Planes of 4 bytes, then 2, then 1, so that all are aligned.
    const size_t floats =
        (l.estimates ? 11 * n : 0) + (l.second.empty() ? 7 : 11) * cells + 2 * (low + 2 * wide);
    VF_TRY(pool_.allocate(Memory::host, floats * sizeof(float) + (sizeof(uint16_t) + 4) * n,
                          &layers_memory_));
    auto* next = layers_memory_.as<float>();
    const auto take = [&](size_t count) {
      float* const at = next;
      next += count;
      return at;
    };
    for (LayerPlaces* places : {&p.centres, &p.pixels, &p.cell_pixels}) {
      const size_t count = places == &p.centres ? low : wide;
      places->left = reinterpret_cast<int*>(take(count));
      places->weight = take(count);
    }
    constexpr double step = GuidedLayers::kStep;
    const double s = t.params.subsample, cell = step * l.cell;
    place(l.width, step / (2 * s) - 0.5, step / s, t.low_width, p.centres.left, p.centres.weight);
    place(t.width, 0.5 / step - 0.5, 1 / step, l.width, p.pixels.left, p.pixels.weight);
    if (l.blurs)
      place(t.width, 0.5 / cell - 0.5, 1 / cell, l.cell_width, p.cell_pixels.left,
            p.cell_pixels.weight);
    for (float*& plane : p.better) plane = l.estimates ? take(n) : nullptr;
    for (auto* planes : {&p.subject, &p.behind})
      for (float*& plane : *planes) plane = l.estimates ? take(n) : nullptr;
    for (float*& plane : p.cells) plane = take(cells);
    for (float*& plane : p.blurred) plane = take(cells);
    for (float*& plane : p.filled) plane = l.second.empty() ? nullptr : take(cells);
    p.clear = reinterpret_cast<uint16_t*>(next);
    p.alpha = reinterpret_cast<uint8_t*>(p.clear + n);
    if (!colors()) {  // else the votes have the samples
      for (int k = 0; k < 3; k++) votes_.guide[k] = p.alpha + (1 + k) * n;
      votes_.mask = p.alpha;  // not wanted
    }
    std::copy_n(votes_.guide, 3, p.guide);
    return {};
  }

  bool needs_cell(int rows) const {
    for (const Layout* l : {&f_.task.source, &f_.task.destination})
      for (int p = 0; p < l->planes; p++)
        if (1 << l->plane[p].sub_y >= rows) return true;
    return false;
  }

  // Strips of whole cells; `window` rows are summed up before a strip's first.
  template <class Frame, class F>
  void strips(const Frame& frame, int height, int window, F&& f) {
    const int threads = pool_.threads();
    int n = std::clamp(height / std::max(1, window), threads, 8 * threads);
    int rows = blocks_of(height, n);
    rows = round_up(rows, cell_);
    n = blocks_of(height, rows);
    pool_.parallel(n, [&](int task, int thread) {
      f(frame, task * rows, std::min(height, (task + 1) * rows), thread);
    });
  }

  // Finds the mask's error from the votes.
  void find_error() {
    const GuidedColors& c = f_.task.colors;
    MaskErrors all;
    for (int i = 0; i < pool_.threads(); i++)
      for (int side = 0; side < 2; side++)
        for (int k = 0; k < GuidedColors::kErrorBins; k++) {
          all.count[side][k] += votes_.errors[i].count[side][k];
          all.against[side][k] += votes_.errors[i].against[side][k];
        }
    for (int i = 0; i < pool_.threads(); i++) all.steps += votes_.errors[i].steps;
    votes_.error = mask_error_of(c, all);
  }

  void vote(const Image& src) {
    const GuidedColors& c = f_.task.colors;
    votes_.src = src;
    votes_.fresh = f_.fresh;
    strips(votes_, c.height, 1, votes_samples);
    strips(votes_, c.height, 1, votes_sides);
    strips(votes_, c.cell_height, 1, votes_prior);
    std::fill_n(votes_.errors, pool_.threads(), MaskErrors());
    strips(votes_, c.cell_height, 1, votes_ratios);
    find_error();
    strips(votes_, c.cell_height, 1, votes_matte);
    strips(votes_, c.height, 1, votes_sure);
    if (votes_.low[0]) strips(votes_, f_.task.low_height, 1, votes_low);
  }

  void make_layers(const Image& src) {
    const GuidedLayers& l = f_.task.layers;
    if (!colors()) {
      votes_.src = src;
      strips(votes_, l.height, 1, votes_samples);
    }
    strips(f_, l.height, 1, layers_matte);
    if (l.estimates) {
      strips(f_, l.height, 4 * GuidedLayers::kRadius, layers_estimate);
      strips(f_, l.height, 1, layers_smooth);
    }
    if (!l.blurs) return;
    strips(f_, l.cell_height, 1, layers_cells);
    const size_t cells = size_t(l.cell_width) * l.cell_height;
    double sum[4] = {};
    for (int k = 0; k < 4; k++)
      for (size_t i = 0; i < cells; i++) sum[k] += double(f_.layers.cells[k][i]);
    for (int k = 0; k < 3; k++)
      f_.layers.far[k] = float(sum[3] > 0 ? sum[k] / sum[3] : f_.task.params.background[k]);
    strips(f_, l.cell_height, 1, layers_blur);
    if (!l.second.empty()) strips(f_, l.cell_height, 1, layers_second);
  }

  Status enqueue(const Image& src, const Image& dst) override {
    const GuidedTask& t = f_.task;
    f_.src = src;
    f_.dst = dst;
    if (colors()) vote(src);
    strips(f_, t.low_height, 4 * t.low_radius, guided_statistics);
    strips(f_, t.low_height, 4 * t.low_radius, guided_means);
    if (t.layers.used()) make_layers(src);
    if (f_.mean[0]) strips(f_, t.height, 1, guided_apply);
    f_.fresh = false;
    return {};
  }

  CpuQueue& pool_;
  GuidedFrame f_;
  GuidedColorsFrame votes_;
  PlacedMask placed_;
  uint64_t mask_id_ = 0;
  int cell_ = 1;
  Allocation ab_, previous_, mean_, tables_, scratch_, votes_memory_, errors_, layers_memory_;
  Allocation mask_memory_;
};

}  // namespace

Status make_guided(Queue& queue, const GuidedTask& task, std::unique_ptr<GuidedPlan>* out) {
  return make_prepared<CpuGuided, CpuQueue>(queue, task, out);
}

}  // namespace vf::cpu
