// Plans the denoiser on the GPU. A frame takes these launches:
//
//   motion_read, motion_find_...   find where each patch was in the state (cuda/motion)
//   denoise_motion                 decides where the pieces of the state are read
//   denoise_update                 compensates the state, tests for motion, makes the new state and
//                                  counts statistics
//   denoise_output                 applies the spatial filter; three blocks make the next model
//
// Frames whose chroma is not of half the size need a launch of denoise_output per component, except
// for RGB. The first frame's state is made by denoise_update alone, and its model by two other
// launches. Each launch may start before the previous one is done, and waits before it needs its
// results. By then denoise_motion has compared the frame with the state, and denoise_update has
// loaded the frame.
//
// With later frames (look-ahead), denoise_update makes a state of the last of them. The launches up
// to denoise_update add the others to it, back to this frame. The first of these launches also add
// this frame to the state of the frames before: both jobs share them. The last denoise_update
// merges the two states, and denoise_output filters the result.
//
// Two sets of the state take turns, because other blocks still read the old one. Two models take
// turns as well. The host never waits: it reads the noise level from pinned memory, where the GPU
// writes it.
#include <algorithm>
#include <climits>
#include <cmath>
#include <utility>

#include "cuda/core/copy.h"
#include "cuda/core/launch.h"
#include "cuda/core/queue.h"
#include "cuda/denoise/denoise.h"
#include "filters/denoise_task.h"
#include "filters/make.h"
#include "filters/motion.h"

namespace vf::cuda {
namespace {

using namespace vf::denoise;

class CudaDenoise final : public DenoisePlan {
 public:
  CudaDenoise(CudaQueue& queue, const DenoiseTask& task)
      : DenoisePlan(queue, task, task.placement), cuda_(queue), task_(task) {}
  ~CudaDenoise() override {
    // Work that is enqueued still writes the level, and the host may have its memory next.
    if (level_.data()) static_cast<void>(cuda_.sync());
  }

  Status prepare() {
    const DenoiseTask& t = task_;
    d_.colors = t.from.colors;
    d_.depth = t.depth;
    d_.shift = t.layout.shift;
    d_.is_rgb = t.from.rgb;
    d_.blocks_x = t.blocks_x;
    d_.blocks_y = t.blocks_y;
    d_.settings = settings_of(t);
    const int tiles_x = blocks_of(t.blocks_x, kDenoiseTileX) * kDenoiseTileX;
    const int tiles_y = blocks_of(t.blocks_y, kDenoiseTileY) * kDenoiseTileY;
    if (tiles_y / kDenoiseTileY > 65535 || blocks_of(t.height, 8) > 65535 ||
        int64_t(tiles_x + 32) * tiles_y > INT_MAX / 8)
      return Status::error(Code::unsupported, "%dx%d is too large for CUDA", t.width, t.height);
    d_.pitch_p = tiles_x + 2 * kDenoiseBorder;
    rows_ = tiles_y;
    size_t samples = size_t(d_.pitch_p) * rows_;
    for (int c = 0; c < d_.colors; c++) {
      d_.per_x[c] = t.per_block_x[c];
      d_.per_y[c] = t.per_block_y[c];
      d_.pitch[c] = tiles_x * t.per_block_x[c] + 2 * kDenoiseBorder;
      d_.width[c] = t.blocks_x * t.per_block_x[c];
      d_.height[c] = t.blocks_y * t.per_block_y[c];
      samples += size_t(d_.pitch[c]) * rows_ * t.per_block_y[c];
    }
    state_samples_ = samples;
    VF_TRY(cuda_.allocate(Memory::device, 2 * samples * sizeof(uint16_t), &state_));
    d_.tiles_x = blocks_of(t.blocks_x, kTile);
    d_.patches_x = motion_blocks(t.width);
    d_.patches_y = motion_blocks(t.height);
    const size_t patches = size_t(d_.patches_x) * size_t(d_.patches_y);
    const int jobs = t.params.look_ahead ? 2 : 1;
    VF_TRY(cuda_.allocate(Memory::device, sizeof(MotionVector) * patches * jobs, &fields_));
    VF_TRY(cuda_.allocate(Memory::device, 4 * sizeof(DenoisePiece) * patches * jobs, &pieces_));
    MotionParams params;
    params.width = t.width;
    params.height = t.height;
    params.pictures = 2 * jobs;
    VF_TRY(vf::make_motion(cuda_, params, &motion_));
    const size_t cells = size_t(t.blocks_x / 4) * size_t(t.blocks_y / 4) + 1;
    VF_TRY(cuda_.allocate(Memory::device, sizeof(uint32_t) * cells, &cells_));
    VF_TRY(cuda_.allocate(Memory::device, 2 * sizeof(Model), &models_));
    VF_TRY(cuda_.allocate(Memory::device, kHistograms * sizeof(DenoiseHistograms), &histograms_));
    if (t.params.look_ahead) {
      VF_TRY(cuda_.allocate(Memory::device, 2 * samples * sizeof(uint16_t), &later_state_));
      VF_CUDA(cudaMemsetAsync(later_state_.data(), 0, later_state_.size(), cuda_.cuda_stream()));
    }
    VF_TRY(cuda_.allocate(Memory::host, sizeof(float), &level_));
    *level_.as<volatile float>() = 0;
    return {};
  }

  void reset() override { fresh_ = true; }

  void take_over(DenoisePlan& other) override {
    auto& before = static_cast<CudaDenoise&>(other);
    if (before.fresh_ || !same_memory(before.task_, task_)) return;
    std::swap(state_, before.state_);
    std::swap(cells_, before.cells_);
    std::swap(models_, before.models_);
    std::swap(histograms_, before.histograms_);
    std::swap(level_, before.level_);
    turn_ = before.turn_;
    fresh_ = false;
    before.fresh_ = true;
    before.level_.reset();
  }

  double noise_level() const override {
    if (fresh_ || !level_.data()) return 0;
    return std::sqrt(double(*level_.as<volatile float>()) * task_.level_scale);
  }

 private:
  // With `early`, the kernel may start early and waits for the previous one by itself.
  Status start(const char* name, DenoiseKernel kernel, dim3 grid, int threads, bool early = false) {
    return launch(name, kernel, {grid, dim3(threads), 0, early && cuda_.device().starts_early()},
                  cuda_, d_);
  }

  void set_state(const Allocation& memory, int turn, DenoiseJob* job) const {
    const auto set = [&](int i, DenoiseState* state) {
      // The first row begins behind its border.
      uint16_t* at = memory.as<uint16_t>() + state_samples_ * i + kDenoiseBorder;
      for (int c = 0; c < d_.colors; c++) {
        state->color[c] = at;
        at += size_t(d_.pitch[c]) * rows_ * d_.per_y[c];
      }
      state->p = at;
    };
    set(turn, &job->current);
    set(1 - turn, &job->previous);
  }

  void set_frame(const Image& frame, DenoiseJob* job) const {
    for (int c = 0; c < d_.colors; c++) set_view(frame, c, &job->from[c]);
    const DenoiseView& y = job->from[0];
    job->whole = is_whole(y) && y.step == 1 && is_aligned(y, 8);
    job->packed = is_packed(job->from);
  }

  void set_view(const Image& image, int c, DenoiseView* view) const {
    const Component& at = task_.from.color[c];
    const PlaneLayout& p = image.layout.plane[at.plane];
    *view = {static_cast<uint8_t*>(image.data[at.plane]) + at.channel * size_of(image.layout.type),
             int(image.stride[at.plane]), p.pixel_step(), p.width, p.height};
  }

  bool is_aligned(const DenoiseView& v, int samples) const {
    const int bytes = samples * size_of(task_.layout.type);
    return reinterpret_cast<uintptr_t>(v.data) % bytes == 0 && v.stride % bytes == 0;
  }
  // True if four samples of a component, or two each of U and V, can be accessed at once.
  bool is_wide(const DenoiseView& v) const { return is_aligned(v, 4); }
  bool is_pair(const DenoiseView* v) const {
    return v[1].step == 2 && std::abs(v[1].data - v[2].data) == size_of(task_.layout.type);
  }
  bool is_wide_pair(const DenoiseView* v) const {
    return is_pair(v) && is_wide(v[1].data < v[2].data ? v[1] : v[2]);
  }
  // True if U and V lie in separate planes and two samples of each can be accessed at once.
  bool is_wide_planes(const DenoiseView* v) const {
    return v[1].step == 1 && v[2].step == 1 && is_aligned(v[1], 2) && is_aligned(v[2], 2);
  }
  static bool is_whole(const DenoiseView& v) { return v.width % 2 == 0 && v.height % 2 == 0; }
  // True if R, G and B share pixels of four bytes, and four pixels can be read at once.
  bool is_packed(const DenoiseView* v) const {
    const auto pixel = [&](int c) { return reinterpret_cast<uintptr_t>(v[c].data) / 4; };
    return d_.is_rgb && task_.layout.type == Type::u8 && v->step == 4 && v->stride % 16 == 0 &&
           is_whole(*v) && pixel(0) % 4 == 0 && pixel(1) == pixel(0) && pixel(2) == pixel(0);
  }
  bool is_420() const {
    return d_.colors == 3 && !d_.is_rgb && d_.per_x[1] == 1 && d_.per_y[1] == 1;
  }

  // Strips lie one below the other. The first one begins a row above the frame.
  static int strips_of(int height, int rows) { return blocks_of(height + 1, rows); }

  // Height of a strip when components are filtered one by one.
  static constexpr int kStrip = 24;

  // Filters component c.
  Status filter(int bytes, int c) {
    d_.component = c;
    d_.wide[c] = d_.to[c].step == 1 && is_wide(d_.to[c]);
    d_.strips_x = blocks_of(d_.width[c], kDenoiseColumns);
    d_.strip = kStrip;
    const int strips = d_.strips_x * strips_of(d_.height[c], d_.strip);
    return start_output(denoise_output(bytes, d_.per_x[c], d_.per_y[c]),
                        blocks_of(strips, kOutputWarps));
  }

  // Filters Y, Co and Cg side by side, and makes RGB.
  Status filter_rgb(int bytes) {
    d_.wide[0] = copies_fourth();
    d_.component = 0;
    d_.strips_x = blocks_of(d_.width[0], kDenoiseFewColumns);
    // At 1080p all blocks run at once, four of them on each multiprocessor of an H200.
    d_.strip = int64_t(d_.width[0]) * d_.height[0] > 4000000 ? 24 : 20;
    const int strips = d_.strips_x * strips_of(d_.height[0], d_.strip);
    return start_output(denoise_output_rgb(bytes), blocks_of(strips, kOutputWarps));
  }
  // True if filter_rgb() also copies the fourth byte of each pixel.
  bool copies_fourth() const { return is_packed(d_.job[0].from) && is_packed(d_.to); }

  // The first blocks of the first launch make the next model.
  Status start_output(DenoiseKernel kernel, int blocks) {
    const int learners = d_.learns ? kDenoiseLearners : 0;
    VF_TRY(start("denoise_output", kernel, dim3(learners + blocks), 32 * kOutputWarps, d_.learns));
    d_.learns = false;
    return {};
  }

  // Filters luma, and U and V side by side, in one launch.
  Status filter_frame(int bytes) {
    d_.wide[0] = d_.to[0].step == 1 && is_wide(d_.to[0]);
    d_.wide[1] = is_pair(d_.to) ? is_wide_pair(d_.to) : is_wide_planes(d_.to);
    d_.strips_x = blocks_of(d_.width[0], kDenoiseColumns);
    d_.chroma_strips_x = blocks_of(d_.width[1], kDenoiseFewColumns);
    const bool large = int64_t(d_.width[0]) * d_.height[0] > 4000000;
    // At 1080p all blocks run at once, four of them on each multiprocessor of an H200.
    d_.strip = large ? 24 : 14;
    d_.chroma_strip = large ? 24 : 12;
    d_.chroma_blocks =
        blocks_of(d_.chroma_strips_x * strips_of(d_.height[1], d_.chroma_strip), kOutputWarps);
    const int luma = blocks_of(d_.strips_x * strips_of(d_.height[0], d_.strip), kOutputWarps);
    return start_output(denoise_output_frame(bytes), d_.chroma_blocks + luma);
  }

  Status enqueue(const Image& src, const Image& dst) override {
    const DenoiseTask& t = task_;
    const int bytes = size_of(t.layout.type);
    for (int p = 0; p < t.layout.planes; p++)
      for (const ptrdiff_t stride : {src.stride[p], dst.stride[p]})
        if (std::abs(stride) > INT_MAX)
          return Status::error(Code::unsupported, "a stride of %td is too large for CUDA", stride);
    for (int c = 0; c < d_.colors; c++) set_view(dst, c, &d_.to[c]);
    const Later later = take_later();
    turn_ = 1 - turn_;
    DenoiseJob job = memory_of(0);
    set_frame(src, &job);
    set_state(state_, turn_, &job);
    job.cells = cells_.as<uint32_t>();
    job.histograms = histograms_.as<DenoiseHistograms>();
    // This frame uses `model` and makes `next`.
    d_.model = models_.as<Model>() + turn_;
    d_.next = models_.as<Model>() + 1 - turn_;
    d_.level = level_.as<float>();
    if (fresh_) {
      // Kernels also read the padding of the state, so it is cleared too.
      for (const Allocation* memory : {&state_, &pieces_, &cells_, &models_, &histograms_})
        VF_CUDA(cudaMemsetAsync(memory->data(), 0, memory->size(), cuda_.cuda_stream()));
      VF_TRY(start_state(job, bytes));
      const int cells_x = blocks_of(t.blocks_x, 4), cells_y = blocks_of(t.blocks_y, 4);
      VF_TRY(start("denoise_first_count", denoise_first_count(),
                   dim3(blocks_of(cells_x, 8), blocks_of(cells_y, 8), d_.colors), 64));
      VF_TRY(start("denoise_first_learn", denoise_first_learn(), dim3(d_.colors), 128));
      d_.model = d_.next;  // The next frame uses the same model.
    }
    VF_TRY(update(job, later, src, bytes));
    d_.learns = !fresh_;
    VF_TRY(filter_all(bytes));
    fresh_ = false;
    return copy_rest(src, dst);
  }

  // Returns a job with the memory for the motion of one of the jobs that share launches.
  DenoiseJob memory_of(int i) const {
    const size_t patches = size_t(d_.patches_x) * size_t(d_.patches_y);
    DenoiseJob job;
    job.field = fields_.as<MotionVector>() + patches * i;
    job.pieces = pieces_.as<DenoisePiece>() + 4 * patches * i;
    return job;
  }

  // The pictures that motion is found between. Pictures that a launch reads lie side by side.
  enum Picture { kState, kFrame, kLaterState, kLaterFrame };

  // Adds a frame to a state.
  struct Step {
    DenoiseJob job;
    const Image* frame;
    Picture picture, state;
    bool reads;  // Otherwise the frame's picture is there.
  };

  // Adds this frame to the state of the frames before, which a first frame has made. With later
  // frames, makes a state from the last of them back to this one, merges it with the other, and
  // leaves the result as the current state of the first job.
  Status update(const DenoiseJob& own, const Later& later, const Image& src, int bytes) {
    Step steps[2];
    int count = 0;
    if (!fresh_) steps[count++] = {own, &src, kFrame, kState, true};
    if (!later.count) return count ? add(steps, count, bytes) : Status();
    DenoiseJob job = memory_of(1);
    for (int i = later.count - 1; i >= -1; i--) {
      const Image& frame = i < 0 ? src : later.frame[i];
      set_frame(frame, &job);
      set_state(later_state_, i & 1, &job);
      if (i == later.count - 1) {
        VF_TRY(start_state(job, bytes));
        continue;
      }
      if (i < 0) job.before = own.current;
      steps[count++] = {job, &frame, i < 0 ? kFrame : kLaterFrame, kLaterState, i >= 0 || fresh_};
      VF_TRY(add(steps, count, bytes));
      count = 0;
    }
    d_.job[0] = own;
    d_.job[0].current = job.current;
    return {};
  }

  // Takes one or two steps. The second one may merge its state with that of the first one.
  Status add(const Step* steps, int count, int bytes) {
    VF_TRY(find_motion(steps, count));
    for (int i = 0; i < count; i++) d_.job[i] = steps[i].job;
    VF_TRY(start("denoise_motion", denoise_motion(bytes, d_.is_rgb),
                 dim3(blocks_of(d_.tiles_x, kMotionTiles), blocks_of(task_.blocks_y, kTile), count),
                 kMotionThreads, true));
    const DenoiseJob& last = steps[count - 1].job;
    if (!last.before.p && fast_of(last) == fast_of(d_.job[0])) return start_update(count, bytes);
    for (int i = 0; i < count; i++) {
      d_.job[0] = steps[i].job;
      VF_TRY(start_update(1, bytes));
    }
    return {};
  }

  // Makes the current state of a job from its frame alone.
  Status start_state(const DenoiseJob& job, int bytes) {
    d_.job[0] = job;
    d_.job[0].previous = {};
    d_.job[0].histograms = nullptr;
    VF_TRY(start_update(1, bytes));
    d_.job[0] = job;
    return {};
  }

  Status start_update(int jobs, int bytes) {
    const bool gray = d_.colors == 1;
    const int chroma_x = gray ? 0 : d_.per_x[1], chroma_y = gray ? 0 : d_.per_y[1];
    return start("denoise_update",
                 denoise_update(bytes, chroma_x, chroma_y, d_.is_rgb, fast_of(d_.job[0])),
                 dim3(blocks_of(task_.blocks_x, kDenoiseTileX),
                      blocks_of(task_.blocks_y, kDenoiseTileY), jobs),
                 32 * kDenoiseWarps, true);
  }

  DenoiseFast fast_of(const DenoiseJob& job) const {
    const DenoiseView& y = job.from[0];
    if (!is_420() || !is_whole(y) || y.step != 1 || !is_wide(y)) return DenoiseFast::no;
    return is_wide_pair(job.from)     ? DenoiseFast::pairs
           : is_wide_planes(job.from) ? DenoiseFast::planes
                                      : DenoiseFast::no;
  }

  // Finds where the patches of the steps' frames were in their previous states.
  Status find_motion(const Step* steps, int count) {
    MotionPicture pictures[4];
    MotionPair pairs[2];
    int first = 4, end = 0;
    const auto read = [&](Picture at, const MotionPicture& picture) {
      pictures[at] = picture;
      first = std::min<int>(first, at);
      end = std::max(end, at + 1);
    };
    for (int i = 0; i < count; i++) {
      const Step& s = steps[i];
      read(s.state, state_picture(s.job.previous.color[0], d_.pitch[0]));
      if (s.reads) read(s.picture, luma_picture(task_, *s.frame));
      pairs[i] = {s.picture, s.state, s.job.field, d_.patches_x * ptrdiff_t(sizeof(MotionVector))};
    }
    VF_TRY(motion_->read(first, pictures + first, end - first));
    return motion_->find(pairs, count);
  }

  Status filter_all(int bytes) {
    if (d_.is_rgb) {
      if (task_.writes[0]) return filter_rgb(bytes);
      return d_.learns ? learn(bytes) : Status();
    }
    if (is_420() && std::all_of(task_.writes, task_.writes + 3, [](bool w) { return w; }))
      return filter_frame(bytes);
    for (int c = 0; c < d_.colors; c++)
      if (task_.writes[c]) VF_TRY(filter(bytes, c));
    // The next model is needed even if no component is filtered.
    return d_.learns ? learn(bytes) : Status();
  }

  Status learn(int bytes) {
    d_.component = 0;
    d_.strips_x = 1;
    d_.strip = 1;
    return start_output(denoise_output(bytes, 2, 2), 0);
  }

  // Copies the channels that are not filtered.
  Status copy_rest(const Image& src, const Image& dst) {
    const Layout& l = task_.layout;
    if (d_.is_rgb && task_.writes[0] && copies_fourth()) return {};
    for (int p = 0; p < l.planes; p++) {
      if (src.data[p] == dst.data[p]) continue;
      int mask = (1 << l.plane[p].channels) - 1;
      for (int c = 0; c < d_.colors; c++)
        if (task_.writes[c] && task_.from.color[c].plane == p)
          mask &= ~(1 << task_.from.color[c].channel);
      if (mask) VF_TRY(copy_channels(cuda_, l, p, uint8_t(mask), view_of(src, dst, p)));
    }
    return {};
  }

  CudaQueue& cuda_;
  DenoiseTask task_;
  Denoise d_;
  size_t state_samples_ = 0;  // samples in one of the two sets
  int rows_ = 0;              // rows of blocks in a set
  int turn_ = 0;
  bool fresh_ = true;
  std::unique_ptr<MotionPlan> motion_;
  Allocation state_, later_state_, fields_, pieces_, cells_, models_, histograms_, level_;
};

}  // namespace

Status make_denoise(Queue& queue, const DenoiseTask& task, std::unique_ptr<DenoisePlan>* out) {
  return make_prepared<CudaDenoise, CudaQueue>(queue, task, out);
}

}  // namespace vf::cuda
