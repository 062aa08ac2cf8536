// Plans the letterbox on the GPU. A plan computes the arguments of each launch once. For each frame
// it sets only pointers and strides, and chooses the fastest kernel that their alignment allows.
#include "cuda/letterbox/letterbox.h"

#include <algorithm>
#include <climits>
#include <vector>

#include "cuda/core/launch.h"

namespace vf::cuda {
namespace {

using namespace letterbox;

// A launch. It makes all destination planes of one subsampling.
struct Group {
  int sub_x = 0, sub_y = 0;
  Args args = {};  // all but the image
  // The components of args.from, args.to and args.padding, of plane -1 where these are null.
  Component from[4], to[4], padding;
  bool words = false;  // whether an aligned pixel of the destination is a word
  Kernel fallback;
  FastLayout fast;
  dim3 grid;
};

class CudaLetterbox final : public Plan {
 public:
  CudaLetterbox(CudaQueue& queue, const LetterboxTask& task)
      : Plan(queue, task.source, task.destination, Placement::separate), queue_(queue), t_(task) {
    order_components();
    for (int p = 0; p < t_.destination.planes; p++) {
      const PlaneLayout& l = t_.destination.plane[p];
      const auto known = [&](const Group& g) { return g.sub_x == l.sub_x && g.sub_y == l.sub_y; };
      if (std::any_of(groups_.begin(), groups_.end(), known)) continue;
      groups_.emplace_back();
      prepare(l, &groups_.back());
    }
  }

 private:
  // Whether the source is one plane of several colours that need no conversion.
  bool packed() const {
    if (!t_.copies || t_.source.planes != 1) return false;
    return t_.from[1].plane == 0 && t_.from[1].channel != t_.from[0].channel;
  }

  // Puts the components of packed pixels that need no conversion into their order in memory.
  void order_components() {
    if (!packed()) return;
    bool taken[4] = {};
    for (int k = 0; k < 4; k++)
      if (t_.from[k].plane >= 0) taken[place_[k] = t_.from[k].channel] = true;
    for (int k = 0; k < 4; k++)
      if (t_.from[k].plane < 0) {
        int free = 0;
        while (taken[free]) free++;
        taken[place_[k] = free] = true;
      }
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

  void prepare(const PlaneLayout& plane, Group* group) const {
    group->sub_x = plane.sub_x;
    group->sub_y = plane.sub_y;
    Args& g = group->args;
    g.x = axis(t_.x, true, *group);
    g.y = axis(t_.y, false, *group);
    g.width = plane.width;
    g.height = plane.height;
    g.shift = t_.source.shift;
    g.to_shift = t_.destination.shift;
    g.copies = t_.copies;
    g.max_value = float(t_.max_value);
    g.alpha_scale = t_.alpha_scale;
    std::copy(&t_.matrix[0][0], &t_.matrix[0][0] + 9, &g.matrix[0][0]);
    std::copy_n(t_.offset, 3, g.offset);
    g.store = t_.half_float                     ? Store::f16
              : t_.normalised                   ? Store::f32
              : t_.destination.type == Type::u8 ? Store::u8
                                                : Store::u16;
    for (int k = 0; k < 4; k++) prepare_component(k, group);
    const int out_size = size_of(t_.destination.type);
    if (in_group(t_.padding, *group)) {
      group->padding = t_.padding;
      g.padding_step = t_.destination.plane[t_.padding.plane].pixel_step() * out_size;
    }
    const PlaneLayout& l = t_.destination.plane[0];
    group->words = g.store == Store::u8 && t_.destination.planes == 1 && l.channels == 4 &&
                   l.pixel_step() == 4;
    if (group->words) {
      g.word_order = 0x4444;
      for (int k = 0; k < 4; k++) {
        if (t_.to[k].plane < 0) continue;
        const int nibble = 4 * t_.to[k].channel;
        g.word_order = (g.word_order & ~(0xfu << nibble)) | unsigned(place_[k]) << nibble;
      }
    }
    group->fallback = fallback_kernel(t_);
    group->fast = fast_layout(t_, &g);
    group->grid = dim3(blocks_of(g.width, kThreads), std::min(g.height, kRowsPerLayer),
                       blocks_of(g.height, kRowsPerLayer));
  }

  void prepare_component(int k, Group* group) const {
    Args& g = group->args;
    const int at = place_[k];
    const Component &from = t_.from[k], &to = t_.to[k];
    if (from.plane >= 0) {
      const PlaneLayout& l = t_.source.plane[from.plane];
      group->from[at] = from;
      g.from_step[at] = l.pixel_step() * size_of(t_.source.type);
      g.source_fill[at] = t_.source_fill[k];
      if ((k == 1 || k == 2) && (l.sub_x || l.sub_y)) g.chroma = true;
      if (t_.copies || k == 3 ? in_group(to, *group) : true) g.needed |= 1u << at;
    } else if (k == 3) {
      g.opaque[at] = true;
    }
    g.fill[at] = t_.fill[k];
    g.subtract[at] = t_.subtract[k];
    g.divide[at] = t_.divide[k];
    g.reciprocal[at] = t_.reciprocal[k];
    if (in_group(to, *group)) {
      group->to[at] = to;
      g.to_step[at] = t_.destination.plane[to.plane].pixel_step() * size_of(t_.destination.type);
    }
  }

  void set_images(const Group& group, const Image& src, const Image& dst, Args* args,
                  Images* images) const {
    Args& g = *args;
    Images& m = *images;
    const auto address = [](const Image& image, const Component& c) {
      return static_cast<uint8_t*>(image.data[c.plane]) + c.channel * size_of(image.layout.type);
    };
    for (int k = 0; k < 4; k++) {
      if (const Component& c = group.from[k]; c.plane >= 0) {
        m.from[k] = address(src, c);
        g.from_stride[k] = int(src.stride[c.plane]);
      }
      if (const Component& c = group.to[k]; c.plane >= 0) {
        m.to[k] = address(dst, c);
        g.to_stride[k] = int(dst.stride[c.plane]);
      }
    }
    if (const Component& c = group.padding; c.plane >= 0) {
      m.padding = address(dst, c);
      g.padding_stride = int(dst.stride[c.plane]);
    }
    if (group.words && is_aligned(dst.data[0], dst.stride[0], 4)) {
      g.store = Store::word;
      m.to[0] = static_cast<uint8_t*>(dst.data[0]);
      g.to_stride[0] = int(dst.stride[0]);
    }
  }

  const Kernel* choose(const Group& group, const Image& src, const Image& dst, Args* args,
                       Images* images) const {
    *args = group.args;
    *images = {};
    set_images(group, src, dst, args, images);
    const Kernel* fast = fast_kernel(group.fast, src, dst, args, images);
    return fast ? fast : &group.fallback;
  }

  // Returns whether one launch can have both arguments: all else of them is the group's.
  static bool same_strides(const Args& a, const Args& b) {
    return std::equal(a.from_stride, a.from_stride + 4, b.from_stride) &&
           std::equal(a.to_stride, a.to_stride + 4, b.to_stride) &&
           a.padding_stride == b.padding_stride && a.store == b.store;
  }

  Status enqueue(const Image& src, const Image& dst) override {
    return enqueue_each(&src, &dst, 1);
  }

  Status enqueue_each(const Image* src, const Image* dst, int count) override {
    for (int i = 0; i < count; i++)
      for (const Image* image : {&src[i], &dst[i]})
        for (int p = 0; p < image->layout.planes; p++)
          if (image->stride[p] > INT_MAX)
            return Status::error(Code::unsupported,
                                 "plane %d has a stride of %td bytes, but it must be at most %d", p,
                                 image->stride[p], INT_MAX);
    for (const Group& group : groups_)
      for (int first = 0, n = 0; first < count; first += n)
        VF_TRY(launch_some(group, src + first, dst + first, count - first, &n));
    return {};
  }

  // Launches as many of the images as one launch can make, from the first on.
  Status launch_some(const Group& group, const Image* src, const Image* dst, int count, int* n) {
    Launched<1> one;
    const Kernel* kernel = choose(group, src[0], dst[0], &one.args, one.images);
    *n = 1;
    if (count > 1 && kernel->many && group.grid.z == 1) {
      Launched<kMostImages> many;
      many.args = one.args;
      many.images[0] = one.images[0];
      Args args;
      while (*n < std::min(count, kMostImages) &&
             choose(group, src[*n], dst[*n], &args, &many.images[*n]) == kernel &&
             same_strides(args, many.args))
        ++*n;
      many.count = *n;
      Launch shape = {dim3(group.grid.x, group.grid.y, unsigned(*n)), kThreads};
      if (kernel->together)
        shape = {dim3(blocks_of(group.args.width, kSharedThreads), group.grid.y,
                      blocks_of(*n, kTogether)),
                 kSharedThreads};
      if (*n > 1) return launch("letterbox", kernel->many, shape, queue_, many);
    }
    return launch("letterbox", kernel->one, {group.grid, kThreads}, queue_, one);
  }

  CudaQueue& queue_;
  const LetterboxTask t_;
  int place_[4] = {0, 1, 2, 3};  // index of each component of the task in the kernels' arguments
  std::vector<Group> groups_;
};

}  // namespace

Status make_letterbox(Queue& queue, const LetterboxTask& task, std::unique_ptr<Plan>* out) {
  *out = std::make_unique<CudaLetterbox>(static_cast<CudaQueue&>(queue), task);
  return {};
}

}  // namespace vf::cuda
