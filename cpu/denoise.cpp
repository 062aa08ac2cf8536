// Plans the denoiser on the CPU.
//
// filters/motion finds where the frame was in the state, and the state is compensated. Then two
// passes run over strips of rows, which threads share. Pass 1 reads the frame and the state,
// tests each block of 2 x 2 pixels for motion, writes the new state and counts the statistics'
// cells. It writes to the other of two states, because neighbouring blocks still read the old one.
// Pass 2 filters the new state into the frame. The tables of the noise model are made between
// frames.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "cpu/denoise.h"
#include "cpu/queue.h"
#include "filters/make.h"
#include "filters/motion.h"

namespace vf::cpu {
namespace {

using namespace vf::denoise;

uint32_t total_of(const uint32_t* counts, int bins) {
  uint32_t sum = 0;
  for (int i = 0; i < bins; i++) sum += counts[i];
  return sum;
}

// Returns the value at `rank`, and its bin.
float value_of_rank(const uint32_t* counts, int bins, int base, float rank, int* bin) {
  uint32_t before = 0;
  for (int i = 0; i < bins; i++) {
    if (float(before + counts[i]) >= rank) {
      *bin = i;
      return value_at(i, base, rank, before, counts[i]);
    }
    before += counts[i];
  }
  *bin = bins - 1;
  return 0;
}

float quantile(const uint32_t (&counts)[kVarianceBins], Fraction share) {
  int bin;
  return value_of_rank(counts, kVarianceBins, kVarianceBase,
                       rank_of(total_of(counts, kVarianceBins), share), &bin);
}

Votes votes_of(const Histograms& h, int c, uint32_t total) {
  Votes v = {};
  uint32_t all[kVarianceBins] = {};
  int bin;
  for (int i = 0; i < kBins; i++) {
    v.variance[i] = quantile(h.variance[c][i], kVarianceQuantile);
    v.votes[i] = total_of(h.variance[c][i], kVarianceBins);
    v.cells[i] = total_of(h.texture[c][i], kVarianceBins);
    value_of_rank(h.texture[c][i], kVarianceBins, kVarianceBase, texture_rank(v.cells[i]),
                  &v.texture[i]);
    for (int k = 0; k < kVarianceBins; k++) all[k] += h.variance[c][i][k];
  }
  v.frame_variance = quantile(all, kVarianceQuantile);
  v.frame_median = quantile(all, kMedian);
  v.ratios = total_of(h.ratio[c], kRatioBins);
  v.ratio =
      value_of_rank(h.ratio[c], kRatioBins, kRatioBase, rank_of(v.ratios, kRatioQuantile), &bin);
  v.flat = h.flat[c];
  v.repeated = h.repeated[c];
  v.moving = h.moving[c];
  v.total = total;
  return v;
}

class CpuDenoise final : public DenoisePlan {
 public:
  CpuDenoise(CpuQueue& queue, const DenoiseTask& task)
      : DenoisePlan(queue, task, task.placement), pool_(queue) {
    f_.task = task;
    f_.settings = settings_of(task);
    for (int c = 0; c < task.from.colors; c++) {
      f_.width[c] = task.blocks_x * task.per_block_x[c];
      f_.height[c] = task.blocks_y * task.per_block_y[c];
    }
  }

  Status prepare() {
    const DenoiseTask& t = f_.task;
    VF_TRY(allocate_states({&f_.previous, &f_.current, &f_.moved}, &state_));
    if (t.params.look_ahead)
      VF_TRY(allocate_states({&back_.previous, &back_.current}, &back_state_));
    f_.tiles_x = (t.blocks_x + kTile - 1) / kTile;
    f_.patches_x = motion_blocks(t.width);
    f_.patches_y = motion_blocks(t.height);
    const size_t patches = size_t(f_.patches_x) * f_.patches_y;
    VF_TRY(pool_.allocate(Memory::host, patches * sizeof(PatchMotion), &motions_));
    f_.motions = motions_.as<PatchMotion>();
    VF_TRY(pool_.allocate(Memory::host, patches * sizeof(MotionVector), &field_));
    f_.field = field_.as<MotionVector>();
    VF_TRY(pool_.allocate(Memory::host, f_.patches_y * sizeof(bool), &changes_));
    f_.changes = changes_.as<bool>();
    MotionParams params;
    params.width = t.width;
    params.height = t.height;
    VF_TRY(vf::make_motion(pool_, params, &motion_));
    VF_TRY(pool_.allocate(Memory::host, (luma_cells() + 1) * sizeof(uint32_t), &cells_));
    f_.cells = cells_.as<uint32_t>();
    VF_TRY(pool_.allocate(Memory::host, pool_.threads() * sizeof(Histograms), &histograms_));
    f_.histograms = histograms_.as<Histograms>();
    f_.scratch_per_thread = std::max(denoise_rows_scratch(f_), denoise_compensate_scratch(f_));
    VF_TRY(pool_.allocate(Memory::host, f_.scratch_per_thread * pool_.threads(), &scratch_));
    f_.scratch = scratch_.as<char>();
    return {};
  }

  void reset() override {
    fresh_ = true;
    level_ = 0;
  }

  void take_over(DenoisePlan& other) override {
    auto& before = static_cast<CpuDenoise&>(other);
    if (before.fresh_ || !same_memory(before.f_.task, f_.task)) return;
    std::swap(state_, before.state_);
    std::swap(f_.previous, before.f_.previous);
    std::swap(f_.current, before.f_.current);
    std::swap(f_.moved, before.f_.moved);
    std::swap(cells_, before.cells_);
    std::swap(f_.cells, before.f_.cells);
    f_.model = before.f_.model;
    level_ = before.level_.load();
    fresh_ = false;
    before.reset();
  }

  double noise_level() const override { return std::sqrt(double(level_) * f_.task.level_scale); }

 private:
  Status allocate_states(std::initializer_list<DenoiseState*> states, Allocation* memory) {
    const DenoiseTask& t = f_.task;
    const size_t blocks = size_t(t.blocks_x) * t.blocks_y;
    size_t samples = blocks;
    for (int c = 0; c < t.from.colors; c++) samples += size_t(f_.width[c]) * f_.height[c];
    VF_TRY(pool_.allocate(Memory::host, states.size() * samples * sizeof(uint16_t), memory));
    auto* at = memory->as<uint16_t>();
    for (DenoiseState* state : states) {
      for (int c = 0; c < t.from.colors; c++) {
        state->color[c] = at;
        at += size_t(f_.width[c]) * f_.height[c];
      }
      state->p = at;
      at += blocks;
    }
    return {};
  }

  uint32_t luma_cells() const {
    return uint32_t(f_.task.blocks_x / 4) * uint32_t(f_.task.blocks_y / 4);
  }

  // Runs f over strips of rows. A strip holds whole cells of chroma, so its height divides by 8.
  template <class F>
  void strips(int height, F&& f) {
    const int n = std::clamp(height / 64, 1, 4 * pool_.threads());
    const int rows = ((height + n - 1) / n + 7) / 8 * 8;
    pool_.parallel((height + rows - 1) / rows, [&](int task, int thread) {
      f(task * rows, std::min(height, (task + 1) * rows), thread);
    });
  }

  void make_tables() {
    for (int c = 0; c < f_.task.from.colors; c++)
      for (int i = 0; i < kLevels; i++) {
        const Noise& n = f_.model.noise[c];
        f_.motion[c][i] = motion_factor(n, f_.settings, c, i);
        const Weight w = weight_factor(n, f_.settings, c, i);
        f_.weight[c][0][i] = w.of_p;
        f_.weight[c][1][i] = w.of_square;
      }
    for (int i = 0; i < kLevels; i++) {
      f_.expected[i] = expected_factor(f_.model.noise[0], f_.settings, i);
      f_.mismatch[i] = mismatch_factor(f_.model.noise[0], f_.settings, i);
    }
  }

  // Adds up the threads' histograms in the first one.
  void gather() {
    auto* sum = reinterpret_cast<uint32_t*>(f_.histograms);
    for (int i = 1; i < pool_.threads(); i++) {
      const auto* more = reinterpret_cast<const uint32_t*>(f_.histograms + i);
      for (size_t k = 0; k < sizeof(Histograms) / sizeof(uint32_t); k++) sum[k] += more[k];
    }
  }

  void learn_all_bias() {
    Model& m = f_.model;
    const auto& counts = f_.histograms->bias;
    for (int i = 0; i < kLevels; i++)
      m.bias[i] = learn_bias(m.noise[0], i, {counts[0][i], counts[1][i], counts[2][i]}, m.bias[i]);
  }
  void learn_all(bool first) {
    gather();
    const DenoiseTask& t = f_.task;
    for (int c = 0; c < t.from.colors; c++) {
      const int wide = kCell / t.per_block_x[c], high = kCell / t.per_block_y[c];
      const int samples = t.per_block_x[c] * t.per_block_y[c];
      Votes votes =
          votes_of(*f_.histograms, c, uint32_t(t.blocks_x / wide) * uint32_t(t.blocks_y / high));
      votes.luma_cells = luma_cells();
      Noise& noise = f_.model.noise[c];
      if (first) {
        const auto& h = f_.histograms->first[c];
        const bool enough = total_of(h[1], kVarianceBins) > kLeastFrame;
        const float v = quantile(h[enough], kFirstQuantile);
        learn_first(votes, samples, v, f_.settings.least_variance, &noise);
        if (c == 0) std::fill_n(f_.model.bias, kLevels, 0.0f);
      } else {
        if (c == 0 && !ignores(votes, noise)) learn_all_bias();
        learn(votes, c, samples, f_.settings.least_variance, &noise);
      }
      if (c != 0) continue;
      level_ = f_.model.level = level_of(votes, noise, first ? noise.variance[0] : f_.model.level);
      for (int i = 0; i < kLevels; i++)
        f_.model.correction[i] = correction_of(f_.model, f_.settings, i);
    }
  }

  Status enqueue(const Image& src, const Image& dst) override {
    const DenoiseTask& t = f_.task;
    const Later later = take_later();
    f_.src = src;
    f_.dst = dst;
    f_.shown = &f_.current;
    std::memset(f_.histograms, 0, pool_.threads() * sizeof(Histograms));
    if (fresh_) {
      for (const bool count : {false, true})
        strips(t.blocks_y,
               [&](int b0, int b1, int thread) { denoise_first_rows(f_, b0, b1, thread, count); });
      learn_all(true);
      make_tables();
      std::fill_n(f_.cells, luma_cells(), 0);
    } else {
      make_tables();
      VF_TRY(update(&f_));
    }
    if (later.count) VF_TRY(look_ahead(later));
    for (int c = 0; c < (t.from.rgb ? 1 : t.from.colors); c++)
      if (t.writes[c])
        strips(t.layout.plane[t.from.color[c].plane].height,
               [&](int y0, int y1, int thread) { denoise_output_rows(f_, c, y0, y1, thread); });
    copy_rest();
    // The model changes only now, because pass 2 uses the same one as pass 1.
    if (!fresh_) learn_all(false);
    fresh_ = false;
    return {};
  }

  // Adds a frame to a state, which is that of the frames before or of the later frames.
  Status update(DenoiseFrame* f) {
    std::swap(f->previous, f->current);
    VF_TRY(find_motion(*f));
    pool_.parallel((f->task.blocks_y + kTile - 1) / kTile,
                   [&](int row, int thread) { denoise_compensate(*f, row, thread); });
    strips(f->task.blocks_y,
           [&](int b0, int b1, int thread) { denoise_update_rows(*f, b0, b1, thread); });
    return {};
  }

  // Finds where the patches of a frame were in the previous state.
  Status find_motion(const DenoiseFrame& f) {
    const MotionPicture pictures[] = {luma_picture(f.task, f.src),
                                      state_picture(f.previous.color[0], f.width[0])};
    VF_TRY(motion_->read(0, pictures, 2));
    return motion_->find(0, 1, field_.as<MotionVector>(),
                         f.patches_x * ptrdiff_t(sizeof(MotionVector)));
  }

  // Makes a state from the last frame back to this one, and merges it with the state of the frames
  // before.
  Status look_ahead(const Later& later) {
    const DenoiseState previous = back_.previous, current = back_.current;
    back_ = f_;
    back_.previous = previous;
    back_.current = current;
    back_.histograms = nullptr;
    back_.src = later.frame[later.count - 1];
    strips(f_.task.blocks_y,
           [&](int b0, int b1, int thread) { denoise_first_rows(back_, b0, b1, thread, false); });
    for (int i = later.count - 2; i >= -1; i--) {
      back_.src = i < 0 ? f_.src : later.frame[i];
      VF_TRY(update(&back_));
    }
    strips(f_.task.blocks_y, [&](int b0, int b1, int thread) {
      denoise_merge_rows(f_, back_.current, b0, b1, thread);
    });
    f_.shown = &back_.current;
    return {};
  }

  // Copies the channels that are not filtered.
  void copy_rest() {
    const DenoiseTask& t = f_.task;
    for (int p = 0; p < t.layout.planes; p++) {
      if (f_.src.data[p] == f_.dst.data[p]) continue;
      int rest = (1 << t.layout.plane[p].channels) - 1;
      for (int c = 0; c < t.from.colors; c++)
        if (t.writes[c] && t.from.color[c].plane == p) rest &= ~(1 << t.from.color[c].channel);
      if (!rest) continue;
      if (t.layout.type == Type::u8)
        copy_channels_of<uint8_t>(p, rest);
      else
        copy_channels_of<uint16_t>(p, rest);
    }
  }
  template <class T>
  void copy_channels_of(int p, int channels) {
    const PlaneLayout& l = f_.task.layout.plane[p];
    strips(l.height, [&](int y0, int y1, int) {
      for (int y = y0; y < y1; y++)
        copy_channels(row_of<const T>(f_.src, p, y), l.pixel_step(), row_of<T>(f_.dst, p, y),
                      l.pixel_step(), l.channels, channels, l.width);
    });
  }

  CpuQueue& pool_;
  DenoiseFrame f_, back_;
  bool fresh_ = true;
  std::atomic<float> level_{0};
  std::unique_ptr<MotionPlan> motion_;
  Allocation state_, back_state_, field_, motions_, changes_, cells_, histograms_, scratch_;
};

}  // namespace

Status make_denoise(Queue& queue, const DenoiseTask& task, std::unique_ptr<DenoisePlan>* out) {
  return make_prepared<CpuDenoise, CpuQueue>(queue, task, out);
}

}  // namespace vf::cpu
