// Letterbox in one pass: a thread makes one destination pixel, a warp 32 neighbours of a row.
//
// Traffic: the source rows that are sampled, once, and the destination, once. Everything a pixel
// needs is known without reading memory: its source position and weights are computed, in the
// rule's arithmetic, with each operation rounded by itself.
// Tile: 256 x 1 pixels (larger and two-dimensional ones, several pixels a thread and staging rows
// in shared memory were all slower).
//
// The kernels here take every layout, one component at a time; letterbox_fast.cu has those that are
// made for what decoders and cameras give.
#include <algorithm>
#include <climits>

#include "cuda/launch.h"
#include "cuda/letterbox.cuh"
#include "cuda/queue.h"

namespace vf::cuda {
namespace {

using namespace letterbox;

// ---- kernels -----------------------------------------------------------------------------------

template <class T, Sampler M>
__global__ __launch_bounds__(kThreads) void bilinear(const __grid_constant__ Args g) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.z * kRowsPerLayer + blockIdx.y;
  if (x >= g.width || y >= g.height) return;
  const float X = input(g.x, x), Y = input(g.y, y);
  bool shown;
  if constexpr (M == Sampler::affine) {
    const float px = affine_position(g.x, X), py = affine_position(g.y, Y);
    shown = px > -1 && px < float(g.x.size) && py > -1 && py < float(g.y.size);
  } else {
    shown = !edge_outside(g.x, X) && !edge_outside(g.y, Y);
  }
  if (shown)
    picture<T, M>(g, x, y);
  else
    store(g, x, y, g.fill);
}

template <class T, bool AFFINE>
__global__ __launch_bounds__(kThreads) void nearest(const __grid_constant__ Args g) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.z * kRowsPerLayer + blockIdx.y;
  if (x >= g.width || y >= g.height) return;
  const float X = input(g.x, x), Y = input(g.y, y);
  int i, j;
  bool outside;
  if (AFFINE) {
    const float fi = floorf(__fadd_rn(affine_position(g.x, X), 0.5f));
    const float fj = floorf(__fadd_rn(affine_position(g.y, Y), 0.5f));
    outside = !(fi >= 0 && fi < float(g.x.size) && fj >= 0 && fj < float(g.y.size));
    i = int(fi);
    j = int(fj);
  } else {
    outside = edge_outside(g.x, X) || edge_outside(g.y, Y);
    i = min(max(int(floor(__dmul_rn(double(X) + (g.x.origin - 0.5), g.x.step))), 0), g.x.size - 1);
    j = min(max(int(floor(__dmul_rn(double(Y) + (g.y.origin - 0.5), g.y.step))), 0), g.y.size - 1);
  }
  if (outside) {
    store(g, x, y, g.fill);
    return;
  }
  float c[4] = {};
#pragma unroll
  for (int k = 0; k < 4; k++) {
    if (!(g.needed >> k & 1)) continue;
    const bool small = g.chroma && (k == 1 || k == 2);
    c[k] = float(component<T>(g, k, small ? min(i >> g.x.chroma_shift, g.x.chroma_size - 1) : i,
                              small ? min(j >> g.y.chroma_shift, g.y.chroma_size - 1) : j));
  }
  finish<false>(g, x, y, c);
}

// The pixels [first, last] that a box covers, and how much of each.
struct Box {
  float low, high;
  int first, last;
  __device__ Box(float at, float reach) : low(at - reach), high(at + reach) {
    first = int(floorf(low + 0.5f));
    last = int(ceilf(high + 0.5f)) - 1;
  }
  __device__ float share(int i) const {
    return fmaxf(fminf(high, i + 0.5f) - fmaxf(low, i - 0.5f), 0) / (high - low);
  }
};

template <class T, bool AFFINE>
__global__ __launch_bounds__(kThreads) void area(const __grid_constant__ Args g) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.z * kRowsPerLayer + blockIdx.y;
  if (x >= g.width || y >= g.height) return;
  const float X = input(g.x, x), Y = input(g.y, y);
  const float px = AFFINE ? affine_position(g.x, X) : edge_position(g.x, X);
  const float py = AFFINE ? affine_position(g.y, Y) : edge_position(g.y, Y);
  const bool outside = AFFINE ? !(px + g.x.reach > -0.5f && px - g.x.reach < g.x.size - 0.5f &&
                                  py + g.y.reach > -0.5f && py - g.y.reach < g.y.size - 0.5f)
                              : edge_outside(g.x, X) || edge_outside(g.y, Y);
  if (outside) {
    store(g, x, y, g.fill);
    return;
  }
  const Box bx(px, g.x.reach), by(py, g.y.reach);
  float c[4] = {}, inside = 0;
  for (int j = by.first; j <= by.last; j++) {
    const bool row_out = AFFINE && (j < 0 || j >= g.y.size);
    const int r = min(max(j, 0), g.y.size - 1);
    float row[4] = {}, row_inside = 0;
    for (int i = bx.first; i <= bx.last; i++) {
      const float w = bx.share(i);
      const bool out = row_out || (AFFINE && (i < 0 || i >= g.x.size));
      const int column = min(max(i, 0), g.x.size - 1);
      if (!out) row_inside += w;
#pragma unroll
      for (int k = 0; k < 4; k++) {
        if (!(g.needed >> k & 1) || (g.chroma && (k == 1 || k == 2))) continue;
        row[k] += w * (out ? g.source_fill[k] : float(component<T>(g, k, column, r)));
      }
    }
    const float w = by.share(j);
    inside += w * row_inside;
#pragma unroll
    for (int k = 0; k < 4; k++) c[k] += w * row[k];
  }
  if (g.chroma) {
    const Box cx(__fadd_rn(__fmul_rn(px, g.x.chroma_step), g.x.chroma_offset),
                 fmaxf(0.5f, g.x.reach * g.x.chroma_step));
    const Box cy(__fadd_rn(__fmul_rn(py, g.y.chroma_step), g.y.chroma_offset),
                 fmaxf(0.5f, g.y.reach * g.y.chroma_step));
    for (int j = cy.first; j <= cy.last; j++)
      for (int i = cx.first; i <= cx.last; i++) {
        const float w = cx.share(i) * cy.share(j);
        const int column = min(max(i, 0), g.x.chroma_size - 1),
                  r = min(max(j, 0), g.y.chroma_size - 1);
#pragma unroll
        for (int k = 1; k < 3; k++)
          if (g.needed >> k & 1) c[k] += w * float(component<T>(g, k, column, r));
      }
    if (AFFINE) {
#pragma unroll
      for (int k = 1; k < 3; k++) c[k] += (1 - inside) * (g.source_fill[k] - c[k]);
    }
  }
  finish<false>(g, x, y, c);
}

// ---- the plan ----------------------------------------------------------------------------------

template <class T>
Kernel kernel_for(Interpolation interpolation, Sampler m) {
  const bool affine = m == Sampler::affine;
  switch (interpolation) {
    case Interpolation::nearest:
      return affine ? nearest<T, true> : nearest<T, false>;
    case Interpolation::area:
      return affine ? area<T, true> : area<T, false>;
    case Interpolation::bilinear:
      break;
  }
  if (affine) return bilinear<T, Sampler::affine>;
  if constexpr (sizeof(T) == 1)
    if (m == Sampler::edge_fixed) return bilinear<T, Sampler::edge_fixed>;
  return bilinear<T, Sampler::edge>;
}

bool multiple(const void* p, ptrdiff_t stride, int bytes) {
  return (reinterpret_cast<size_t>(p) | size_t(stride)) % size_t(bytes) == 0;
}

class CudaLetterbox final : public Plan {
 public:
  CudaLetterbox(CudaQueue& queue, const LetterboxTask& task)
      : Plan(queue, task.source, task.destination, Placement::separate),
        queue_(queue),
        t_(task),
        two_floats_{two_floats_do(task.x), two_floats_do(task.y)} {}

 private:
  // Destination planes of one subsampling are made by one launch.
  struct Group {
    int sub_x, sub_y, width, height;
  };

  int groups(Group (&out)[kMaxPlanes]) const {
    int n = 0;
    for (int p = 0; p < t_.destination.planes; p++) {
      const PlaneLayout& l = t_.destination.plane[p];
      bool known = false;
      for (int i = 0; i < n; i++)
        known = known || (out[i].sub_x == l.sub_x && out[i].sub_y == l.sub_y);
      if (!known) out[n++] = {l.sub_x, l.sub_y, l.width, l.height};
    }
    return n;
  }

  // Whether the source is one plane of different colours that are copied.
  bool packed() const {
    if (!t_.copies || t_.source.planes != 1) return false;
    return t_.from[1].plane == 0 && t_.from[1].channel != t_.from[0].channel;
  }

  bool in_group(const Component& c, const Group& group) const {
    if (c.plane < 0) return false;
    const PlaneLayout& l = t_.destination.plane[c.plane];
    return l.sub_x == group.sub_x && l.sub_y == group.sub_y;
  }

  AxisArgs axis(const LetterboxTask::Axis& a, bool horizontal, const Group& group) const {
    AxisArgs r = {};
    const int sub = horizontal ? group.sub_x : group.sub_y;
    r.input_step = float(1 << sub);
    r.input_offset = a.destination_cosited ? 0 : ((1 << sub) - 1) * 0.5f;
    r.multiply = a.multiply;
    r.add = a.add;
    r.origin = 0.5 - a.begin;
    r.step = a.step;
    r.begin = float(a.begin - 0.5);
    r.end = float(a.begin + a.size - 0.5);
    r.first = a.begin;
    r.count = a.size;
    r.size = a.source;
    r.reach = a.reach;
    r.chroma_size = 1;
    r.chroma_step = 1;
    for (int k = 1; k < 3; k++) {
      if (t_.from[k].plane < 0) continue;
      const PlaneLayout& l = t_.source.plane[t_.from[k].plane];
      if (!l.sub_x && !l.sub_y) continue;
      r.chroma_shift = horizontal ? l.sub_x : l.sub_y;
      r.chroma_size = horizontal ? l.width : l.height;
      r.chroma_step = 1.0f / (1 << r.chroma_shift);
      r.chroma_offset = a.source_cosited ? 0 : r.chroma_step * 0.5f - 0.5f;
    }
    return r;
  }

  Args arguments(const Image& src, const Image& dst, const Group& group) const {
    Args g = {};
    const int size = size_of(t_.source.type), out_size = size_of(t_.destination.type);
    g.x = axis(t_.x, true, group);
    g.y = axis(t_.y, false, group);
    g.shift = t_.source.shift;
    g.copies = t_.copies;
    g.max_value = float(t_.max_value);
    g.alpha_scale = t_.alpha_scale;
    std::copy(&t_.matrix[0][0], &t_.matrix[0][0] + 9, &g.matrix[0][0]);
    std::copy_n(t_.offset, 3, g.offset);
    g.width = group.width;
    g.height = group.height;
    g.to_shift = t_.destination.shift;
    g.store = t_.half_float                     ? Store::f16
              : t_.normalised                   ? Store::f32
              : t_.destination.type == Type::u8 ? Store::u8
                                                : Store::u16;

    // Where packed pixels are copied all is in the order they have in memory.
    int place[4] = {0, 1, 2, 3};
    if (packed()) {
      bool taken[4] = {};
      for (int k = 0; k < 4; k++)
        if (t_.from[k].plane >= 0) taken[place[k] = t_.from[k].channel] = true;
      for (int k = 0; k < 4; k++)
        if (t_.from[k].plane < 0) {
          int free = 0;
          while (taken[free]) free++;
          taken[place[k] = free] = true;
        }
    }
    for (int k = 0; k < 4; k++) {
      const int at = place[k];
      const auto from = t_.from[k], to = t_.to[k];
      if (from.plane >= 0) {
        const PlaneLayout& l = t_.source.plane[from.plane];
        g.from[at] = static_cast<const uint8_t*>(src.data[from.plane]) + from.channel * size;
        g.from_stride[at] = int(src.stride[from.plane]);
        g.from_step[at] = l.pixel_step() * size;
        g.source_fill[at] = t_.source_fill[k];
        if ((k == 1 || k == 2) && (l.sub_x || l.sub_y)) g.chroma = true;
        if (t_.copies || k == 3 ? in_group(to, group) : true) g.needed |= 1u << at;
      } else if (k == 3) {
        g.opaque[at] = true;
      }
      g.fill[at] = t_.fill[k];
      g.subtract[at] = t_.subtract[k];
      g.divide[at] = t_.divide[k];
      g.reciprocal[at] = t_.reciprocal[k];
      if (in_group(to, group)) {
        g.to[at] = static_cast<uint8_t*>(dst.data[to.plane]) + to.channel * out_size;
        g.to_stride[at] = int(dst.stride[to.plane]);
        g.to_step[at] = t_.destination.plane[to.plane].pixel_step() * out_size;
      }
    }
    if (in_group(t_.padding, group)) {
      const auto c = t_.padding;
      g.padding = static_cast<uint8_t*>(dst.data[c.plane]) + c.channel * out_size;
      g.padding_stride = int(dst.stride[c.plane]);
      g.padding_step = t_.destination.plane[c.plane].pixel_step() * out_size;
    }

    const PlaneLayout& l = t_.destination.plane[0];
    if (g.store == Store::u8 && t_.destination.planes == 1 && l.channels == 4 &&
        l.pixel_step() == 4 && multiple(dst.data[0], dst.stride[0], 4)) {
      g.store = Store::word;
      g.word_order = 0x4444;
      for (int k = 0; k < 4; k++) {
        if (t_.to[k].plane < 0) continue;
        const int nibble = 4 * t_.to[k].channel;
        g.word_order = (g.word_order & ~(0xfu << nibble)) | unsigned(place[k]) << nibble;
      }
      g.to[0] = static_cast<uint8_t*>(dst.data[0]);
      g.to_stride[0] = int(dst.stride[0]);
    }
    return g;
  }

  Status enqueue(const Image& src, const Image& dst) override {
    for (const Image* image : {&src, &dst})
      for (int p = 0; p < image->layout.planes; p++)
        if (image->stride[p] > INT_MAX)
          return Status::error(Code::unsupported,
                               "plane %d has a stride of %td bytes: must be up to %d", p,
                               image->stride[p], INT_MAX);
    const bool fixed = t_.copies && t_.source.type == Type::u8;
    const Sampler m = t_.rule == LetterboxRule::affine ? Sampler::affine
                      : fixed                          ? Sampler::edge_fixed
                                                       : Sampler::edge;
    const Kernel any = t_.source.type == Type::u8 ? kernel_for<uint8_t>(t_.interpolation, m)
                                                  : kernel_for<uint16_t>(t_.interpolation, m);
    Group group[kMaxPlanes];
    const int n = groups(group);
    for (int i = 0; i < n; i++) {
      Args g = arguments(src, dst, group[i]);
      const Kernel fast = fast_kernel(t_, two_floats_, src, dst, &g);
      const Kernel kernel = fast ? fast : any;
      const dim3 grid((g.width + kThreads - 1) / kThreads, std::min(g.height, kRowsPerLayer),
                      (g.height + kRowsPerLayer - 1) / kRowsPerLayer);
      VF_TRY(launch("letterbox", kernel, {grid, kThreads}, queue_.cuda_stream(), g));
    }
    return {};
  }

  CudaQueue& queue_;
  LetterboxTask t_;
  bool two_floats_[2];  // across, down
};

}  // namespace

Status make_letterbox(Queue& queue, const LetterboxTask& task, std::unique_ptr<Plan>* out) {
  *out = std::make_unique<CudaLetterbox>(static_cast<CudaQueue&>(queue), task);
  return {};
}

}  // namespace vf::cuda
