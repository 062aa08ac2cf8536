// Plans the guided matte on the GPU. It has three launches, or two at subsample 1 of packed frames.
// They are chained by programmatic dependent launch, which saves 2 to 3 µs.
//
//   guided_mask        makes the samples of an external mask or of a chroma key
//   guided_statistics  finds (a, b) of each window, of samples of guided_colors.h with
//                      refine=colors
//   guided_means       makes their means, and the result at subsample 1
//   guided_steady      blends the means with those of the previous frames, with `temporal`
//   guided_layers      makes the colours of foreground=estimate and background=blur
//   guided_apply       makes the result
//
// The frame is read twice (the first time every s-th row) and written once, also in place: each
// pixel is written by the thread that read it last, or after a launch that read it.
#include "cuda/guided/guided.h"

#include <algorithm>
#include <climits>

#include "cuda/guided/guided_layers.h"
#include "cuda/guided/guided_mask.h"
#include "filters/guided_task.h"
#include "filters/make.h"

namespace vf::cuda {
namespace {

constexpr int kBankOfSums = kStatisticsWarps * kGuidedMoments * (kStatisticsTile + 4);

// Whether the components are the bytes of words.
bool are_words(const Layout& l, const MatteChannels& m) {
  return l.type == Type::u8 && l.planes == 1 && l.plane[0].channels == 4 &&
         l.plane[0].pixel_step() == 4 && m.colors == 3;
}

// Whether the components are bytes in planes as of NV12, without alpha.
bool are_planes(const Layout& l, const MatteChannels& m) {
  if (l.type != Type::u8 || l.planes != 2 || m.colors != 3 || m.alpha.plane >= 0) return false;
  const PlaneLayout &luma = l.plane[0], &chroma = l.plane[1];
  return m.color[0].plane == 0 && m.color[1].plane == 1 && m.color[2].plane == 1 &&
         luma.pixel_step() == 1 && luma.sub_x == 0 && luma.sub_y == 0 && luma.width % 4 == 0 &&
         luma.height % 2 == 0 && chroma.pixel_step() == 2 && chroma.sub_x == 1 &&
         chroma.sub_y == 1 && m.color[1].channel + m.color[2].channel == 1;
}

// view_of() sets the fields that are the same for all images, and show() those of an image.
GuidedView view_of(const Layout& l, const Component& c) {
  if (c.plane < 0) return {};
  const PlaneLayout& p = l.plane[c.plane];
  return {nullptr, 0, p.pixel_step(), p.sub_x, p.sub_y};
}
void show(const Image& image, const Component& c, GuidedView* view) {
  if (c.plane < 0) return;
  view->data = static_cast<uint8_t*>(image.data[c.plane]) + c.channel * size_of(image.layout.type);
  view->stride = image.stride[c.plane];
}

bool aligned(const Image& image, unsigned bytes, int plane = 0) {
  // Words are addressed by 32-bit offsets.
  return reinterpret_cast<uintptr_t>(image.data[plane]) % bytes == 0 &&
         image.stride[plane] % bytes == 0 &&
         image.stride[plane] * int64_t(image.layout.plane[plane].height) <= INT_MAX;
}
void show(const Image& image, bool are_words, GuidedWords* words) {
  const bool usable = are_words && aligned(image, 4);
  words->data = usable ? static_cast<uint8_t*>(image.data[0]) : nullptr;
  words->pitch = usable ? int(image.stride[0]) : 0;
}

void show(const Image& image, bool are_planes, GuidedPlanes* planes) {
  const bool usable = are_planes && aligned(image, 4) && aligned(image, 4, 1);
  planes->luma = usable ? static_cast<uint8_t*>(image.data[0]) : nullptr;
  planes->chroma = usable ? static_cast<uint8_t*>(image.data[1]) : nullptr;
  planes->luma_pitch = usable ? int(image.stride[0]) : 0;
  planes->chroma_pitch = usable ? int(image.stride[1]) : 0;
}

struct Statistics {
  GuidedPass<GuidedSource, GuidedStatistics> pass;
  GuidedStatistics arguments;
};

class CudaGuided final : public GuidedPlan {
 public:
  CudaGuided(CudaQueue& queue, const GuidedTask& task)
      : GuidedPlan(queue, task.source, task.destination, task.placement),
        cuda_(queue),
        early_(queue.device().starts_early()),
        task_(task) {}

  Status prepare() {
    const GuidedTask& t = task_;
    // Indices have 32 bits, and the grid's height is limited.
    constexpr int max_height = 4 * 65535;
    if (t.height > max_height)
      return Status::error(Code::unsupported, "height is %d, but it must be at most %d on CUDA",
                           t.height, max_height);
    if (int64_t(t.low_width) * t.low_height > INT_MAX)
      return Status::error(Code::unsupported, "%dx%d at subsample %d is too large for CUDA",
                           t.width, t.height, t.params.subsample);
    grid_ = {t.low_width, t.low_height, t.params.subsample};
    set_frames();
    set_words();
    set_result();
    const size_t samples = size_t(t.low_width) * t.low_height;
    VF_TRY(cuda_.allocate(Memory::device, samples * sizeof(float4), &sums_));
    VF_TRY(cuda_.allocate(Memory::device, samples * sizeof(float4), &mean_));
    VF_TRY(layers_.prepare(cuda_, t, &result_));
    if (colors()) VF_TRY(colors_.prepare(cuda_, t));
    if (makes_mask() && !colors()) VF_TRY(prepare_mask());
    set_guide();
    VF_TRY(choose_statistics());
    choose_means();
    choose_apply();
    // At subsample 1 the second launch can be the last, unless a frame is not aligned.
    may_finish_early_ = only_alpha_ && t.params.subsample == 1 && means_columns_ &&
                        t.params.temporal == 0 && !guide_is_words();
    if (!colors() && t.params.temporal > 0) {
      VF_TRY(cuda_.allocate(Memory::device, 2 * samples * sizeof(float4), &previous_));
      steady_.previous_ab = previous_.as<float4>();
      steady_.previous_guide = steady_.previous_ab + samples;
    }
    return {};
  }

  void reset() override {
    steady_.fresh = 1;
    colors_.forget();
  }

  void take_over(GuidedPlan& other) override {
    auto& previous = static_cast<CudaGuided&>(other);
    if (same_mask(previous.task_, task_)) mask_ = std::move(previous.mask_);
    if (!same_memory(previous.task_, task_)) return;
    colors_.take_over(previous.colors_);
    previous_ = std::move(previous.previous_);
    steady_.previous_ab = previous.steady_.previous_ab;
    steady_.previous_guide = previous.steady_.previous_guide;
    steady_.fresh = previous.steady_.fresh;
  }

  Status set_mask(const CoarseMask& mask) override {
    return mask_.set(cuda_, mask, task_.width, task_.height);
  }

 private:
  bool external() const { return task_.params.mask == MatteMask::external; }
  bool colors() const { return task_.params.refine == MatteRefine::colors; }
  // Whether the statistics read words of the guide and the mask, and not the frame.
  bool guide_is_words() const {
    return colors() || (makes_mask() && task_.source.type == Type::u8);
  }
  // Whether the mask's samples are made before the statistics.
  bool makes_mask() const {
    return external() || (source_.key.used && task_.source.type == Type::u8);
  }

  void set_frames() {
    const GuidedTask& t = task_;
    const GuidedParams& p = t.params;
    for (int c = 0; c < t.from.colors; c++) source_.color[c] = view_of(t.source, t.from.color[c]);
    for (int c = 0; c < t.to.colors; c++)
      destination_.color[c] = view_of(t.destination, t.to.color[c]);
    source_.alpha = view_of(t.source, t.from.alpha);
    destination_.alpha = view_of(t.destination, t.to.alpha);
    source_.colors = t.from.colors;
    destination_.colors = t.to.colors;
    source_.width = packed_.width = t.width;
    source_.height = packed_.height = t.height;
    source_.full = packed_.full = float(t.scale);
    source_.codes = float(t.scale / t.unit);
    source_.unit = float(t.unit);
    source_.key.used = p.mask == MatteMask::chroma_key;
    source_.key.tolerance = float(p.key_tolerance);
    source_.key.slope = p.key_softness > 0 ? float(1 / p.key_softness) : 0;
    // Work in place has the same planes on both sides.
    for (int c = 0; c < t.to.colors; c++) {
      const PlaneLayout& plane = t.destination.plane[t.to.color[c].plane];
      const int sub = std::max(plane.sub_x, plane.sub_y);
      cell_ = std::max(cell_, sub == 0 ? 1 : sub == 1 ? 2 : 8);
    }
  }

  void set_words() {
    const GuidedTask& t = task_;
    from_planes_ = are_planes(t.source, t.from);
    to_planes_ = are_planes(t.destination, t.to);
    if (from_planes_) source_.planes.first = t.from.color[1].channel;
    if (to_planes_) destination_.planes.first = t.to.color[1].channel;
    from_words_ = are_words(t.source, t.from);
    to_words_ = are_words(t.destination, t.to) && t.to.alpha.plane == 0;
    only_alpha_ = from_words_ && to_words_ && !source_.key.used && t.params.despill <= 0 &&
                  !t.converts && t.params.output == MatteOutput::alpha && !t.layers.used() &&
                  (external() || t.from.alpha.channel == t.to.alpha.channel);
    for (int c = 0; c < 3; c++)
      only_alpha_ = only_alpha_ && t.from.color[c].channel == t.to.color[c].channel;
    if (from_words_) {
      const uint32_t alpha = external()         ? t.to.alpha.channel
                             : source_.key.used ? 0
                                                : t.from.alpha.channel;
      source_.words.order = alpha << 12;
      for (int c = 0; c < 3; c++) {
        const uint32_t channel = t.from.color[c].channel;
        source_.words.order |= channel << 4 * c;
        packed_.code[c] = 0x7650 + channel;
      }
      packed_.merge = (0x3210 & ~(0xfu << 4 * alpha)) | 4u << 4 * alpha;
    }
    if (to_words_) {
      uint32_t& order = destination_.words.order;
      order = 3u << 4 * t.to.alpha.channel;
      for (int c = 0; c < 3; c++) order |= uint32_t(c) << 4 * t.to.color[c].channel;
    }
  }

  void set_result() {
    const GuidedTask& t = task_;
    const GuidedParams& p = t.params;
    GuidedResult& r = result_;
    r.output = int(p.output);
    r.opaque = p.output == MatteOutput::matte && t.to.colors > 0;
    r.full = float(t.scale);
    r.unit = float(t.unit);
    // The votes see the guide as 8 bits.
    r.midpoint = t.source.type == Type::u8 ? 128.f : float(t.scale / 2);
    if (colors()) r.midpoint = float(128 * t.scale / 255);
    r.despill = p.despill > 0;
    for (int i = 0; i < 2; i++) {
      r.hue[i] = float(t.hue[i]);
      double black = 0;
      for (int c = 0; c < 3; c++) {
        source_.key.chroma[i][c] = r.chroma[i][c] = float(p.to_ycbcr[1 + i][c] / t.scale);
        black += p.to_ycbcr[1 + i][c] * p.black[c];
      }
      r.chroma[i][3] = float(-black);
      source_.key.chroma[i][3] = float(-black - t.key[i]);
    }
    for (int c = 0; c < 3; c++) {
      r.spill[c] = float(p.despill * t.spill[c] * t.scale);
      r.black[c] = float(p.black[c] * t.scale);
      r.white[c] = float(p.white[c] * t.scale);
      r.background[c] = float(p.background[c] * t.scale);
    }
    r.background_alpha = float(p.background_alpha);
    r.converts = t.converts;
    for (int c = 0; c < 3; c++)
      for (int i = 0; i < 4; i++) r.convert[c][i] = float(p.convert[c][i] * (i == 3 ? t.scale : 1));
  }

  Status prepare_mask() {
    const GuidedTask& t = task_;
    // Words need rows that are aligned to 16 bytes.
    mask_samples_.pitch = guide_is_words() ? (t.low_width + 3) & ~3 : t.low_width;
    const size_t size = guide_is_words() ? sizeof(uint32_t) : size_of(t.source.type);
    VF_TRY(cuda_.allocate(Memory::device, size_t(mask_samples_.pitch) * t.low_height * size,
                          &mask_memory_));
    mask_samples_.data = mask_memory_.data();
    mask_pass_ = {guided_mask(t.source.type, external()),
                  {dim3(blocks_of(t.low_width, 32), blocks_of(t.low_height, 8)), 256, 0, early_}};
    return {};
  }

  // The arguments of the statistics and means that do not depend on the kernel.
  void set_guide() {
    const GuidedTask& t = task_;
    const GuidedParams& p = t.params;
    GuidedStatistics s;
    s.grid = grid_;
    s.radius = t.low_radius;
    s.epsilon = float(p.epsilon * t.scale * t.scale);
    s.midpoint = result_.midpoint;
    s.sums.data = sums_.as<float4>();
    means_.grid = grid_;
    means_.radius = t.low_radius;
    means_.inv_scale = float(1 / t.scale);
    means_.mean = mean_.as<float4>();
    if (guide_is_words()) {
      guide_.words.data = static_cast<uint8_t*>(mask_samples_.data);
      guide_.words.pitch = 4 * mask_samples_.pitch;
      guide_.width = t.low_width;
      guide_.height = t.low_height;
      s.grid.subsample = 1;
    } else {
      const auto pairs = [&](int low, int high) {
        const uint32_t i = source_.words.order >> 4 * low & 15,
                       j = source_.words.order >> 4 * high & 15;
        return i | (i + 4) << 4 | j << 8 | (j + 4) << 12;
      };
      s.pairs_low = pairs(0, 1);
      s.pairs_high = pairs(2, 3);
      s.mask = mask_samples_;
    }
    if (colors()) {
      guide_.words.data = reinterpret_cast<uint8_t*>(colors_.guide());
      guide_.words.pitch = 4 * colors_.guide_pitch();
      s.epsilon = float(p.epsilon * 255 * 255);
      s.midpoint = 128;
      means_.inv_scale = 1 / 255.f;
      means_.guide_unit = 255 / source_.full;
      means_.sides = colors_.sides();
      means_.guide = colors_.colors();
      means_.guide_pitch = colors_.guide_pitch();
      means_.prior = colors_.prior();
    }
    direct_.arguments = any_.arguments = s;
    coefficients_ = {grid_, mean_.as<float4>()};
    steady_.grid = grid_;
    steady_.mean = mean_.as<float4>();
    steady_.temporal = float(p.temporal);
    steady_.moved = float(GuidedParams::kMoved * t.scale);
    steady_.inv_motion_range = float(1 / ((GuidedParams::kMoved - GuidedParams::kStill) * t.scale));
  }

  Status choose_statistics() {
    const GuidedTask& t = task_;
    const int r = t.low_radius, lw = t.low_width, lh = t.low_height;
    const int processors = cuda_.device().processors;
    const bool words_only = guide_is_words() || (from_words_ && t.params.mask == MatteMask::alpha);
    const Type type = colors() ? Type::u8 : t.source.type;
    // 257 * 257 * 255 * 255 is the largest sum of squares below 2^32.
    if (type != Type::u8 || r > 128) {
      const int rows = blocks_of(lh, std::min(lh, processors)), blocks = blocks_of(lh, rows);
      any_.arguments.sums.strip = rows;
      any_.pass = {guided_statistics_wide(type), {dim3(blocks), kWideThreads}};
      const size_t sums = size_t(blocks) * kGuidedMoments * (2 * size_t(lw) + 1);
      VF_TRY(cuda_.allocate(Memory::device, sums * sizeof(double), &wide_));
      any_.arguments.scratch = wide_.data();
      return {};
    }
    if (t.params.subsample > 1 && r <= 31) {
      const int columns = kStatisticsTile - 2 * r;
      const auto blocks = [&](int rows) { return blocks_of(lw, columns) * blocks_of(lh, rows); };
      // Several rows of a warp share their sums, if there are still blocks for every processor.
      int rows = r >= 12 && 2 * blocks(24) >= 3 * processors   ? 3
                 : r >= 8 && 20 * blocks(16) >= 9 * processors ? 2
                                                               : 1;
      const auto shared = [&] {
        return 4 * (kBankOfSums + (kStatisticsWarps * rows + 2 * r) * kStatisticsTile);
      };
      if (shared() > cuda_.device().shared_per_block) rows = 1;
      const int resident = rows == 1 && blocks(8) > 2 * processors ? 3 : 2;
      // An early start costs 2 µs behind the launch that makes words.
      const bool early = early_ && !guide_is_words();
      if (shared() <= cuda_.device().shared_per_block) {
        for (const bool direct : {false, true}) {
          if (direct && !words_only) continue;
          Statistics& s = direct ? direct_ : any_;
          s.arguments.sums.strip = kStatisticsWarps * rows;
          s.pass = {guided_statistics_tile(direct, rows, resident),
                    {dim3(blocks_of(lw, columns), blocks_of(lh, kStatisticsWarps * rows)),
                     32 * kStatisticsWarps, size_t(shared()), early}};
          VF_TRY(allow_shared(s.pass.kernel, s.pass.shape.shared));
        }
        return {};
      }
    }
    stream(4, &any_);
    any_.pass.kernel = guided_statistics_streaming(false, 4);
    if (words_only && t.params.subsample == 1) {
      direct_aligned_ = true;
      double best = 1e30;
      for (const int warps : {1, 2, 3, 4, 6}) {
        Statistics s = direct_;
        if (!stream(warps, &s)) continue;
        // A strip's rows cost most, and those before it less. Wide blocks wait for more warps.
        const double cost = (s.arguments.sums.strip * 12. + (2 * r + 1) * 1.6) * (1 + .04 * warps);
        if (cost >= best) continue;
        best = cost;
        direct_ = s;
      }
    }
    return {};
  }

  // Chooses strips for one wave of blocks: 12 warps a processor. False if the window is too wide.
  bool stream(int warps, Statistics* s) const {
    const GuidedTask& t = task_;
    GuidedStatistics& a = s->arguments;
    a.halo = (t.low_radius + 3) & ~3;
    a.tile = (128 * warps - a.halo - t.low_radius - 1) & ~3;
    if (a.tile < 32) return false;
    const int across = blocks_of(t.low_width, a.tile);
    const int slots = cuda_.device().processors * 12 / warps;
    a.sums.strip = blocks_of(t.low_height, std::clamp(slots / across, 1, t.low_height));
    s->pass = {guided_statistics_streaming(true, warps),
               {dim3(across, blocks_of(t.low_height, a.sums.strip)), 32 * warps,
                size_t(4 * (16 * 16 + kGuidedMoments * 128 * warps))}};
    return true;
  }

  void choose_means() {
    const GuidedTask& t = task_;
    const int r = t.low_radius;
    // Wider tiles have less halo, but lose to occupancy.
    means_columns_ = r <= 31 ? 4 : r <= 90 ? 8 : r <= 220 ? 16 : 0;
    if (means_columns_) {
      const int rows = means_columns_ == 8 ? 8 : 4, width = 32 * means_columns_;
      const int pitch = width + (width >> (means_columns_ == 16 ? 4 : 3)) + 1;
      for (const bool last : {false, true})
        means_pass_[last] = {
            guided_means(means_columns_, last),
            {dim3(blocks_of(t.low_width, width - 2 * r), blocks_of(t.low_height, rows)), 32 * rows,
             sizeof(float4) * rows * pitch, early_}};
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
    means_.tile = 2 * threads - 2 * r - 1;
    const int across = blocks_of(t.low_width, means_.tile);
    const int64_t warps = int64_t(t.low_height) * across * (threads / 32);
    // About 24 warps a processor.
    means_.rows =
        int(std::clamp<int64_t>(warps / (int64_t(cuda_.device().processors) * 24), 1, 32));
    means_.rows = std::max(means_.rows, blocks_of(t.low_height, 65535));
    means_pass_[false] = {guided_means(0, false),
                          {dim3(across, blocks_of(t.low_height, means_.rows)), threads,
                           sizeof(float4) * 2 * threads, early_}};
  }

  void choose_apply() {
    const GuidedTask& t = task_;
    const int n = t.params.subsample;
    const auto shape = [&](int columns, int rows) {
      return Launch{dim3(blocks_of(t.width, 32 * columns), blocks_of(t.height, 8 * rows)), 256, 0,
                    early_};
    };
    steady_pass_ = {guided_steady(t.source.type),
                    {dim3(blocks_of(t.low_width, 32), blocks_of(t.low_height, 8)), 256, 0, early_}};
    if (n == 4 || n % 8 == 0) {
      const bool plain = t.params.despill <= 0 && (t.params.output != MatteOutput::composite ||
                                                   t.params.background_alpha == 1);
      if (only_alpha_)
        cells_pass_ = {guided_apply_cells(n != 4), shape(4, 2)};
      else if (from_words_ && to_words_ && !t.converts && t.params.output != MatteOutput::matte)
        colours_pass_ = {guided_apply_colours(n != 4, plain), shape(4, 2)};
    }
    // Layers need the means, too.
    if (colors_.statistics_strip() && only_alpha_)
      means_apply_pass_ = {guided_means_apply(), shape(4, 4)};
    if (n >= 3 && only_alpha_)
      for (const bool aligned : {false, true})
        quads_pass_[aligned] = {guided_apply_quads(aligned), shape(4, 4)};
    if (n == 4 && from_planes_ && (to_words_ || to_planes_)) {
      const bool plain = t.params.despill <= 0 && !t.layers.estimates &&
                         (to_planes_ || t.params.output == MatteOutput::alpha);
      planes_pass_ = {guided_apply_planes(to_words_, t.layers.blurs, plain), shape(4, 2)};
    }
    for (const bool words : {false, true})
      pixels_pass_[words] = {guided_apply_pixels(t.source.type, cell_, words && cell_ == 1),
                             cell_ == 1 ? shape(1, kGuidedRowsPerThread) : shape(cell_, cell_)};
  }

  // Sets the frames' pointers in the arguments.
  void show_frames(const Image& src, const Image& dst) {
    const GuidedTask& t = task_;
    for (int c = 0; c < t.from.colors; c++) show(src, t.from.color[c], &source_.color[c]);
    for (int c = 0; c < t.to.colors; c++) show(dst, t.to.color[c], &destination_.color[c]);
    show(src, t.from.alpha, &source_.alpha);
    show(dst, t.to.alpha, &destination_.alpha);
    show(src, from_words_, &source_.words);
    show(dst, to_words_, &destination_.words);
    show(src, from_planes_, &source_.planes);
    show(dst, to_planes_, &destination_.planes);
    packed_.in = source_.words;
    packed_.out = destination_.words;
    bool stay = t.params.output == MatteOutput::alpha && !result_.despill && !t.converts &&
                !t.layers.estimates;
    for (int c = 0; c < t.to.colors; c++) {
      const GuidedView &a = source_.color[c], &b = destination_.color[c];
      stay = stay && a.data == b.data && a.stride == b.stride && a.step == b.step;
    }
    destination_.colours_stay = stay;
  }

  Status enqueue(const Image& src, const Image& dst) override {
    show_frames(src, dst);
    const bool words_in = source_.words.data, words_out = destination_.words.data;
    const bool whole = task_.width % 4 == 0, quads_in = words_in && aligned(src, 16);
    const bool quads_out = words_out && aligned(dst, 16);
    const bool quads = quads_in && quads_out && whole;
    const GuidedReads reads = source_.planes.luma                      ? GuidedReads::planes
                              : quads_in && !source_.key.used && whole ? GuidedReads::quads
                                                                       : GuidedReads::components;
    const bool joined = means_apply_pass_.kernel && quads;

    const bool direct =
        direct_.pass.kernel && (guide_is_words() || (direct_aligned_ ? quads_in : words_in));
    const Statistics& s = direct ? direct_ : any_;
    GuidedSums sums = s.arguments.sums;
    if (colors_.statistics_strip()) sums.strip = joined ? 1 : colors_.statistics_strip();
    if (colors()) VF_TRY(colors_.enqueue(source_, mask_, sums, reads));
    if (mask_samples_.data)
      VF_TRY(mask_pass_.enqueue(cuda_, source_, grid_, mask_.mask(), mask_samples_));
    if (!colors_.statistics_strip())
      VF_TRY(s.pass.enqueue(cuda_, guide_is_words() ? guide_ : source_, s.arguments));

    if (joined) return means_apply_pass_.enqueue(cuda_, sums, means_, packed_);
    const bool words = only_alpha_ && words_in && words_out;
    const bool last = may_finish_early_ && words;
    VF_TRY(means_pass_[last].enqueue(cuda_, sums, means_, packed_));
    if (last) return {};
    if (steady_.previous_ab) {
      VF_TRY(steady_pass_.enqueue(cuda_, source_, steady_));
      steady_.fresh = 0;
    }
    if (layers_.used()) {
      const SampleWords samples = colors_.samples();
      VF_TRY(layers_.enqueue(source_, mask_.mask(), coefficients_, colors() ? &samples : nullptr,
                             reads));
    }
    if (cells_pass_.kernel && quads) return cells_pass_.enqueue(cuda_, packed_, coefficients_);
    if (colours_pass_.kernel && quads)
      return colours_pass_.enqueue(cuda_, packed_, coefficients_, result_);
    if (words && quads_pass_[quads].kernel)
      return quads_pass_[quads].enqueue(cuda_, packed_, coefficients_);
    if (planes_pass_.kernel && source_.planes.luma && (quads_out || destination_.planes.luma))
      return planes_pass_.enqueue(cuda_, source_, destination_, coefficients_, result_);
    return pixels_pass_[words_out].enqueue(cuda_, source_, destination_, coefficients_, result_);
  }

  CudaQueue& cuda_;
  const bool early_;
  GuidedTask task_;
  // The arguments of the steps.
  GuidedGrid grid_;
  GuidedSource source_, guide_;  // guide_: the samples as words, if the statistics read those
  GuidedDestination destination_;
  GuidedPacked packed_;
  GuidedMaskSamples mask_samples_;
  Statistics direct_, any_;  // direct_ reads aligned words of the source, if there is such a kernel
  GuidedMeans means_;
  GuidedSteady steady_;
  GuidedCoefficients coefficients_;
  GuidedResult result_;
  // The passes for words exist only where all frames of the plan are words.
  GuidedPass<GuidedSource, GuidedGrid, ExternalMask, GuidedMaskSamples> mask_pass_;
  GuidedPass<GuidedSums, GuidedMeans, GuidedPacked> means_pass_[2];     // [1] writes the result
  GuidedPass<GuidedSums, GuidedMeans, GuidedPacked> means_apply_pass_;  // both, for aligned words
  GuidedPass<GuidedSource, GuidedSteady> steady_pass_;
  GuidedPass<GuidedPacked, GuidedCoefficients> cells_pass_;     // words aligned to 16 bytes
  GuidedPass<GuidedPacked, GuidedCoefficients> quads_pass_[2];  // words; [1] if aligned to 16 bytes
  GuidedPass<GuidedPacked, GuidedCoefficients, GuidedResult> colours_pass_;
  // Everything; [1] if the destination's pixels are words.
  GuidedPass<GuidedSource, GuidedDestination, GuidedCoefficients, GuidedResult> pixels_pass_[2];
  // The source is planes at subsample 4, and the result planes or words aligned to 16 bytes.
  GuidedPass<GuidedSource, GuidedDestination, GuidedCoefficients, GuidedResult> planes_pass_;
  bool direct_aligned_ = false;  // direct_ needs words aligned to 16 bytes
  int means_columns_ = 0;        // columns per lane; 0: streaming
  int cell_ = 1;
  bool from_words_ = false, to_words_ = false, may_finish_early_ = false;
  bool from_planes_ = false, to_planes_ = false;
  bool only_alpha_ = false;  // both frames are words, and only alpha changes
  GuidedColorsPlan colors_;
  GuidedLayersPlan layers_;
  MaskUploads mask_;
  Allocation sums_, mean_, previous_, wide_, mask_memory_;
};

}  // namespace

Status make_guided(Queue& queue, const GuidedTask& task, std::unique_ptr<GuidedPlan>* out) {
  return make_prepared<CudaGuided, CudaQueue>(queue, task, out);
}

}  // namespace vf::cuda
