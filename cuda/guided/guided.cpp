// Guided matte on the GPU: the plan. Three launches, two at subsample 1 of packed frames, chained
// by programmatic dependent launch where the device has it (2 to 3 µs less per frame):
//
//   guided_mask         with a mask beside the frame: the mask at the samples
//   guided_statistics   (a, b) of each window
//   guided_means        their means, and the result at subsample 1
//   guided_steady       with `temporal`: blends them with those of the frames before
//   guided_layers       with foreground=estimate or background=blur: their colours
//   guided_apply        the result
//
// With refine=colors the statistics are of samples that guided_votes.h makes before them.
//
// The frame is read twice (the first time every s-th row) and written once, in place if need be:
// what is written was last read by the same thread, or by a launch before.
#include "cuda/guided/guided.h"

#include <algorithm>
#include <climits>

#include "cuda/core/launch.h"
#include "cuda/core/queue.h"
#include "cuda/filters.h"
#include "cuda/guided/guided_layers.h"
#include "cuda/guided/guided_mask.h"
#include "cuda/guided/guided_votes.h"
#include "filters/guided_task.h"

namespace vf::cuda {
namespace {

constexpr int kBankOfSums = kStatisticsWarps * kGuidedMoments * (kStatisticsTile + 4);

int blocks_of(int n, int size) {
  return (n + size - 1) / size;
}

// Components that are the bytes of words.
bool are_words(const Layout& l, const MatteChannels& m) {
  return l.type == Type::u8 && l.planes == 1 && l.plane[0].channels == 4 &&
         l.plane[0].pixel_step() == 4 && m.colors == 3;
}

struct Statistics {
  GuidedLaunch launch;
  int strip = 0, tile = 0, halo = 0;
};

class CudaGuided final : public GuidedPlan {
 public:
  CudaGuided(CudaQueue& queue, const GuidedTask& task)
      : GuidedPlan(queue, task.source, task.destination, task.placement),
        cuda_(queue),
        task_(task) {}

  Status prepare() {
    const GuidedTask& t = task_;
    // What 32-bit indices and the grid's height allow.
    constexpr int max_height = 4 * 65535;
    if (t.height > max_height)
      return Status::error(Code::unsupported, "height is %d: must be at most %d on CUDA", t.height,
                           max_height);
    if (int64_t(t.low_width) * t.low_height > INT_MAX)
      return Status::error(Code::unsupported, "%dx%d at subsample %d is too large for CUDA",
                           t.width, t.height, t.params.subsample);
    set_arguments();
    const size_t samples = size_t(t.low_width) * t.low_height;
    VF_TRY(cuda_.allocate(Memory::device, samples * sizeof(float4), &prefix_));
    g_.prefix = prefix_.as<float4>();
    VF_TRY(choose_statistics());
    choose_means();
    VF_TRY(layers_.prepare(cuda_, t, &g_));
    if (colors()) VF_TRY(votes_.prepare(cuda_, t));
    choose_apply();
    if (external() && !colors()) {
      // Words in rows that are aligned to 16 bytes.
      g_.mask_pitch = samples_are_words() ? (t.low_width + 3) & ~3 : t.low_width;
      const size_t size = samples_are_words() ? sizeof(uint32_t) : size_of(t.source.type);
      VF_TRY(cuda_.allocate(Memory::device, size_t(g_.mask_pitch) * t.low_height * size,
                            &mask_samples_));
      g_.mask_samples = mask_samples_.data();
    }
    // At subsample 1 the second launch can be the last, unless a frame is not aligned.
    may_finish_early_ = alpha_of_words_ && t.params.subsample == 1 && means_columns_ &&
                        t.params.temporal == 0 && !samples_are_words();
    VF_TRY(cuda_.allocate(Memory::device, samples * sizeof(float4), &mean_));
    g_.mean = mean_.as<float4>();
    if (!colors() && t.params.temporal > 0) {
      VF_TRY(cuda_.allocate(Memory::device, 2 * samples * sizeof(float4), &before_));
      g_.before_ab = before_.as<float4>();
      g_.before_near = g_.before_ab + samples;
    }
    return {};
  }

  void reset() override {
    g_.fresh = 1;
    votes_.forget();
  }

  void take_over(GuidedPlan& other) override {
    auto& before = static_cast<CudaGuided&>(other);
    if (same_mask(before.task_, task_)) {
      mask_ = std::move(before.mask_);
      show_mask();
    }
    if (!same_memory(before.task_, task_)) return;
    votes_.take_over(before.votes_);
    before_ = std::move(before.before_);
    g_.before_ab = before.g_.before_ab;
    g_.before_near = before.g_.before_near;
    g_.fresh = before.g_.fresh;
  }

  Status set_mask(const CoarseMask& mask) override {
    VF_TRY(mask_.set(cuda_, mask, task_.width, task_.height));
    show_mask();
    return {};
  }

 private:
  bool external() const { return task_.params.mask == MatteMask::external; }
  // Whether the guide's and the mask's samples are made before the statistics.
  bool samples_are_words() const {
    return colors() || (external() && task_.source.type == Type::u8);
  }
  // What the statistics and means get for the frame of `g`.
  Guided low_of(const Guided& g) const {
    if (colors()) return votes_.low(g);
    Guided low = g;
    if (samples_are_words()) {
      use_samples(g.mask_samples, g.mask_pitch, &low);
      low.mask_samples = nullptr;
    }
    return low;
  }
  void show_mask() {
    g_.mask_places = mask_.places();
    g_.mask_bytes = mask_.bytes();
    g_.mask_count = mask_.count();
  }
  bool colors() const { return task_.params.refine == MatteRefine::colors; }

  void set_arguments() {
    const GuidedTask& t = task_;
    const GuidedParams& p = t.params;
    g_.colors = t.from.colors;
    g_.to_colors = t.to.colors;
    g_.width = t.width;
    g_.height = t.height;
    g_.subsample = p.subsample;
    g_.low_width = t.low_width;
    g_.low_height = t.low_height;
    g_.radius = t.low_radius;
    g_.full = float(t.scale);
    g_.inv_scale = float(1 / t.scale);
    g_.midpoint = t.source.type == Type::u8 ? 128.f : float(t.scale / 2);
    if (colors()) g_.midpoint = float(128 * t.scale / 255);  // the guide is seen as 8 bits
    g_.codes = float(t.scale / t.unit);
    g_.unit = float(t.unit);
    g_.epsilon = float(p.epsilon * t.scale * t.scale);
    g_.temporal = float(p.temporal);
    g_.moved = float(GuidedParams::kMoved * t.scale);
    g_.inv_motion_range = float(1 / ((GuidedParams::kMoved - GuidedParams::kStill) * t.scale));
    g_.keyed = p.mask == MatteMask::chroma_key;
    g_.key_tolerance = float(p.key_tolerance);
    g_.key_slope = p.key_softness > 0 ? float(1 / p.key_softness) : 0;
    g_.output = int(p.output);
    g_.despill = p.despill > 0;
    for (int i = 0; i < 2; i++) {
      g_.hue[i] = float(t.hue[i]);
      double black = 0;
      for (int c = 0; c < 3; c++) {
        g_.chroma[i][c] = float(p.to_ycbcr[1 + i][c] / t.scale);
        black += p.to_ycbcr[1 + i][c] * p.black[c];
      }
      g_.chroma[i][3] = float(-black);
      g_.key_offset[i] = float(-black - t.key[i]);
    }
    for (int c = 0; c < 3; c++) {
      g_.spill[c] = float(p.despill * t.spill[c] * t.scale);
      g_.black[c] = float(p.black[c] * t.scale);
      g_.white[c] = float(p.white[c] * t.scale);
      g_.background[c] = float(p.background[c] * t.scale);
    }
    g_.background_alpha = float(p.background_alpha);
    g_.converts = t.converts;
    for (int c = 0; c < 3; c++)
      for (int i = 0; i < 4; i++)
        g_.convert[c][i] = float(p.convert[c][i] * (i == 3 ? t.scale : 1));

    from_words_ = are_words(t.source, t.from);
    to_words_ = are_words(t.destination, t.to) && t.to.alpha.plane == 0;
    alpha_of_words_ = from_words_ && to_words_ && !g_.keyed && !g_.despill && !t.converts &&
                      p.output == MatteOutput::alpha && !t.layers.used() &&
                      (external() || t.from.alpha.channel == t.to.alpha.channel);
    for (int c = 0; c < 3; c++)
      alpha_of_words_ = alpha_of_words_ && t.from.color[c].channel == t.to.color[c].channel;
    if (from_words_) {
      const uint32_t r = t.from.color[0].channel, g = t.from.color[1].channel,
                     b = t.from.color[2].channel,
                     a = external() ? t.to.alpha.channel
                         : g_.keyed ? 0
                                    : t.from.alpha.channel;
      const auto pairs = [](uint32_t i, uint32_t j) {
        return i | (i + 4) << 4 | j << 8 | (j + 4) << 12;
      };
      g_.canonical = r | g << 4 | b << 8 | a << 12;
      g_.pairs_low = pairs(r, g);
      g_.pairs_high = pairs(b, a);
      const uint32_t byte[3] = {r, g, b};
      for (int c = 0; c < 3; c++) g_.code[c] = 0x7650 + byte[c];
      g_.merge = 0x3210 & ~(0xfu << 4 * a);
      g_.merge |= 4u << 4 * a;
    }
    if (to_words_) {
      g_.out_pack = 0;
      for (int c = 0; c < 3; c++) g_.out_pack |= uint32_t(c) << 4 * t.to.color[c].channel;
      g_.out_pack |= 3u << 4 * t.to.alpha.channel;
    }
    for (int c = 0; c < t.from.colors; c++) g_.color[c] = view_of(t.source, t.from.color[c]);
    for (int c = 0; c < t.to.colors; c++) g_.to_color[c] = view_of(t.destination, t.to.color[c]);
    g_.alpha = view_of(t.source, t.from.alpha);
    g_.to_alpha = view_of(t.destination, t.to.alpha);
    // Work in place has the same planes on both sides.
    for (int c = 0; c < t.to.colors; c++) {
      const PlaneLayout& plane = t.destination.plane[t.to.color[c].plane];
      const int sub = std::max(plane.sub_x, plane.sub_y);
      cell_ = std::max(cell_, sub == 0 ? 1 : sub == 1 ? 2 : 8);
    }
  }

  Status choose_statistics() {
    const GuidedTask& t = task_;
    const int r = t.low_radius, lw = t.low_width, lh = t.low_height;
    const int processors = cuda_.device().processors;
    const bool words_only =
        samples_are_words() || (from_words_ && t.params.mask == MatteMask::alpha);
    const Type type = colors() ? Type::u8 : t.source.type;
    // 257 * 257 * 255 * 255 is the largest sum of squares below 2^32.
    if (type != Type::u8 || r > 128) {
      const int strips = std::min(lh, processors);
      any_.strip = blocks_of(lh, strips);
      any_.launch = {guided_statistics_wide(size_of(type), type == Type::f32),
                     dim3(blocks_of(lh, any_.strip)), kWideThreads, 0};
      const size_t sums = size_t(any_.launch.grid.x) * kGuidedMoments * (2 * size_t(lw) + 1);
      VF_TRY(cuda_.allocate(Memory::device, sums * sizeof(double), &wide_));
      g_.wide = wide_.data();
      return {};
    }
    if (t.params.subsample > 1 && r <= 31) {
      const int columns = kStatisticsTile - 2 * r;
      const auto blocks = [&](int rows) { return blocks_of(lw, columns) * blocks_of(lh, rows); };
      // More rows a warp share their sums, if there are still blocks for every processor.
      int rows = r >= 12 && 2 * blocks(24) >= 3 * processors   ? 3
                 : r >= 8 && 20 * blocks(16) >= 9 * processors ? 2
                                                               : 1;
      const auto shared = [&] {
        return 4 * (kBankOfSums + (kStatisticsWarps * rows + 2 * r) * kStatisticsTile);
      };
      if (shared() > cuda_.device().shared_per_block) rows = 1;
      const int resident = rows == 1 && blocks(8) > 2 * processors ? 3 : 2;
      if (shared() <= cuda_.device().shared_per_block) {
        any_.strip = kStatisticsWarps * rows;
        any_.launch = {guided_statistics_tile(false, rows, resident),
                       dim3(blocks_of(lw, columns), blocks_of(lh, any_.strip)),
                       32 * kStatisticsWarps, shared()};
        VF_TRY(allow_shared(any_.launch.kernel, any_.launch.shared));
        if (words_only) {
          direct_ = any_;
          direct_.launch.kernel = guided_statistics_tile(true, rows, resident);
          VF_TRY(allow_shared(direct_.launch.kernel, direct_.launch.shared));
        }
        return {};
      }
    }
    any_ = streaming(4);
    any_.launch.kernel = guided_statistics_streaming(false, 4);
    if (words_only && t.params.subsample == 1) {
      direct_aligned_ = true;
      double best = 1e30;
      for (const int warps : {1, 2, 3, 4, 6}) {
        const Statistics s = streaming(warps);
        if (s.tile < 32) continue;
        // Rows of the strip, and those before it, which are cheaper; wide blocks wait for more
        // warps.
        const double cost = (s.strip * 12. + (2 * r + 1) * 1.6) * (1 + .04 * warps);
        if (cost >= best) continue;
        best = cost;
        direct_ = s;
      }
    }
    return {};
  }

  // As many strips as there are blocks in one wave: 12 warps a processor.
  Statistics streaming(int warps) const {
    const GuidedTask& t = task_;
    Statistics s;
    s.halo = (t.low_radius + 3) & ~3;
    s.tile = (128 * warps - s.halo - t.low_radius - 1) & ~3;
    if (s.tile < 32) return s;
    const int across = blocks_of(t.low_width, s.tile);
    const int slots = cuda_.device().processors * 12 / warps;
    s.strip = blocks_of(t.low_height, std::clamp(slots / across, 1, t.low_height));
    s.launch = {guided_statistics_streaming(true, warps),
                dim3(across, blocks_of(t.low_height, s.strip)), 32 * warps,
                4 * (16 * 16 + kGuidedMoments * 128 * warps)};
    return s;
  }

  void choose_means() {
    const GuidedTask& t = task_;
    const int r = t.low_radius;
    // Wider tiles have less halo, but lose to occupancy.
    means_columns_ = r <= 31 ? 4 : r <= 90 ? 8 : r <= 220 ? 16 : 0;
    if (means_columns_) {
      const int rows = means_columns_ == 8 ? 8 : 4, width = 32 * means_columns_;
      const int pitch = width + (width >> (means_columns_ == 16 ? 4 : 3)) + 1;
      means_ = {guided_means(means_columns_, false),
                dim3(blocks_of(t.low_width, width - 2 * r), blocks_of(t.low_height, rows)),
                32 * rows, int(sizeof(float4)) * rows * pitch};
      last_means_ = means_;
      last_means_.kernel = guided_means(means_columns_, true);
      return;
    }
    double best = 1e30;
    int threads = 1024;
    for (int n = 64; n <= 1024; n += 32) {
      const int out = 2 * n - 2 * r - 1;
      if (out < 32) continue;
      const double cost = double(blocks_of(t.low_width, out)) * n * (1 + n / 2048.);
      if (cost < best) {
        best = cost;
        threads = n;
      }
    }
    g_.means_tile = 2 * threads - 2 * r - 1;
    const int across = blocks_of(t.low_width, g_.means_tile);
    const int64_t warps = int64_t(t.low_height) * across * (threads / 32);
    // About 24 warps a processor.
    g_.means_rows =
        int(std::clamp<int64_t>(warps / (int64_t(cuda_.device().processors) * 24), 1, 32));
    g_.means_rows = std::max(g_.means_rows, blocks_of(t.low_height, 65535));
    means_ = {guided_means(0, false), dim3(across, blocks_of(t.low_height, g_.means_rows)), threads,
              int(sizeof(float4)) * 2 * threads};
  }

  void choose_apply() {
    const GuidedTask& t = task_;
    const int size = size_of(t.source.type), n = t.params.subsample;
    const bool is_float = t.source.type == Type::f32;
    const auto grid = [&](int columns, int rows) {
      return dim3(blocks_of(t.width, 32 * columns), blocks_of(t.height, 8 * rows));
    };
    steady_ = {guided_steady(size, is_float),
               dim3(blocks_of(t.low_width, 32), blocks_of(t.low_height, 8)), 256, 0};
    if (n == 4 || n % 8 == 0) {
      const bool colors = !alpha_of_words_ && from_words_ && to_words_ && !t.converts &&
                          t.params.output != MatteOutput::matte;
      const bool plain = !g_.despill && (t.params.output != MatteOutput::composite ||
                                         t.params.background_alpha == 1);
      apply_cells_ = {colors ? layers_apply(n != 4, plain) : guided_apply_cells(n != 4), grid(4, 2),
                      256, 0};
      cells_ = alpha_of_words_ || colors;
    }
    // With layers the means are needed, too.
    if (votes_.statistics_strip() && alpha_of_words_)
      means_apply_ = {guided_means_apply(), grid(4, 4), 256, 0};
    for (const bool aligned : {false, true})
      if (n >= 3) apply_quads_[aligned] = {guided_apply_quads(aligned), grid(4, 4), 256, 0};
    for (const bool words : {false, true})
      apply_pixels_[words] = {guided_apply_pixels(size, is_float, cell_, words && cell_ == 1),
                              cell_ == 1 ? grid(1, kGuidedRowsPerThread) : grid(cell_, cell_), 256,
                              0};
  }

  Status launch(const GuidedLaunch& l, bool after_previous, const Guided& g) {
    const bool early = after_previous && cuda_.device().capability >= 90;
    return cuda::launch("guided matte", l.kernel, {l.grid, l.threads, size_t(l.shared), early},
                        cuda_.cuda_stream(), g);
  }

  // What of a component does not depend on the image; the rest for an image.
  static GuidedView view_of(const Layout& l, const Component& c) {
    if (c.plane < 0) return {};
    const PlaneLayout& p = l.plane[c.plane];
    return {nullptr, 0, p.pixel_step(), p.sub_x, p.sub_y};
  }
  static void show(const Image& image, const Component& c, GuidedView* view) {
    if (c.plane < 0) return;
    view->data =
        static_cast<uint8_t*>(image.data[c.plane]) + c.channel * size_of(image.layout.type);
    view->stride = image.stride[c.plane];
  }

  static bool aligned(const Image& image, unsigned bytes) {
    // Words are addressed by 32-bit offsets.
    return reinterpret_cast<uintptr_t>(image.data[0]) % bytes == 0 &&
           image.stride[0] % bytes == 0 &&
           image.stride[0] * int64_t(image.layout.plane[0].height) <= INT_MAX;
  }

  Status enqueue(const Image& src, const Image& dst) override {
    const GuidedTask& t = task_;
    Guided& g = g_;
    for (int c = 0; c < t.from.colors; c++) show(src, t.from.color[c], &g.color[c]);
    for (int c = 0; c < t.to.colors; c++) show(dst, t.to.color[c], &g.to_color[c]);
    show(src, t.from.alpha, &g.alpha);
    show(dst, t.to.alpha, &g.to_alpha);
    const bool words_in = from_words_ && aligned(src, 4), words_out = to_words_ && aligned(dst, 4);
    g.in = words_in ? static_cast<const uint8_t*>(src.data[0]) : nullptr;
    g.in_pitch = words_in ? int(src.stride[0]) : 0;
    g.out = words_out ? static_cast<uint8_t*>(dst.data[0]) : nullptr;
    g.out_pitch = words_out ? int(dst.stride[0]) : 0;
    bool stay = g.output == int(MatteOutput::alpha) && !g.despill && !g.converts && !g.layers;
    for (int c = 0; c < t.to.colors; c++) {
      const GuidedView &a = g.color[c], &b = g.to_color[c];
      stay = stay && a.data == b.data && a.stride == b.stride && a.step == b.step;
    }
    g.colours_stay = stay;
    const bool quads_in = words_in && aligned(src, 16);
    const bool quads = quads_in && words_out && aligned(dst, 16) && t.width % 4 == 0;

    const bool direct =
        direct_.launch.kernel && (samples_are_words() || (direct_aligned_ ? quads_in : words_in));
    const Statistics& s = direct ? direct_ : any_;
    g.strip = s.strip;
    g.tile = s.tile;
    g.halo = s.halo;
    Guided low = low_of(g);
    const bool joined = means_apply_.kernel && quads;
    if (colors()) {
      if (votes_.statistics_strip()) low.strip = joined ? 1 : votes_.statistics_strip();
      VF_TRY(votes_.enqueue(g, low, quads_in && !g.keyed && t.width % 4 == 0));
    }
    if (g.mask_samples)
      VF_TRY(launch({guided_mask(size_of(t.source.type), t.source.type == Type::f32),
                     dim3(blocks_of(t.low_width, 32), blocks_of(t.low_height, 8)), 256, 0},
                    false, g));
    if (!votes_.statistics_strip()) VF_TRY(launch(s.launch, false, low));

    if (joined) {
      Guided both = g;
      both.sides = low.sides;
      return launch(means_apply_, true, both);
    }
    const bool words = alpha_of_words_ && words_in && words_out;
    const bool last = may_finish_early_ && words;
    VF_TRY(launch(last ? last_means_ : means_, true, low));
    if (last) return {};
    if (g.before_ab) {
      VF_TRY(launch(steady_, true, g));
      g.fresh = 0;
    }
    if (layers_.used())
      VF_TRY(layers_.enqueue(g, colors() ? &votes_.samples() : nullptr,
                             quads_in && !g.keyed && t.width % 4 == 0));
    const GuidedLaunch& apply = cells_ && quads                       ? apply_cells_
                                : words && apply_quads_[quads].kernel ? apply_quads_[quads]
                                                                      : apply_pixels_[words_out];
    return launch(apply, true, g);
  }

  CudaQueue& cuda_;
  GuidedTask task_;
  Guided g_;
  Statistics direct_, any_;  // direct_: where the source's words are aligned, if there is a kernel
  bool direct_aligned_ = false;  // to 16 bytes
  GuidedLaunch means_, last_means_, steady_;
  GuidedLaunch means_apply_;      // both; words aligned to 16 bytes
  GuidedLaunch apply_cells_;      // words aligned to 16 bytes
  GuidedLaunch apply_quads_[2];   // words; by whether they are so aligned
  GuidedLaunch apply_pixels_[2];  // everything; by whether the destination's pixels are words
  int means_columns_ = 0;         // a lane; 0: streaming
  int cell_ = 1;
  bool from_words_ = false, to_words_ = false, alpha_of_words_ = false, may_finish_early_ = false;
  bool cells_ = false;  // apply_cells_ does what is wanted
  GuidedVotes votes_;
  GuidedLayersPlan layers_;
  MaskUploads mask_;
  Allocation prefix_, mean_, before_, wide_, mask_samples_;
};

}  // namespace

Status make_guided(Queue& queue, const GuidedTask& task, std::unique_ptr<GuidedPlan>* out) {
  auto plan = std::make_unique<CudaGuided>(static_cast<CudaQueue&>(queue), task);
  VF_TRY(plan->prepare());
  *out = std::move(plan);
  return {};
}

}  // namespace vf::cuda
