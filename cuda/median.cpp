// Chooses how the median of each plane is made.
//
//   3 x 3, dense u8 gray or RGBA             median_direct.cu
//   square to 15 (u16: to 17, f32: to 13)    median_network.cuh
//   square from 17, u8                       median_bits.cuh
//   everything else                          median_ranks.cu
//
// With Border::shrink the first three make the middle of the frame, and median_edges.cu or ranks
// the rest, where the window does not fit. Where the frame is smaller than the window, ranks make
// all of it.
#include "cuda/median.h"

#include <algorithm>

#include "cuda/filters.h"
#include "cuda/queue.h"
#include "filters/median_task.h"

namespace vf::cuda {
namespace {

using namespace median;

enum class Way { copy, direct, network, bits, ranks };

// Largest window by networks: measured on an H200, 1080p gray, us. At 17 a u8 network and the bits
// are equal (116 to 122), at 15 the bits need 103 to the network's 67. A u16 network needs 125 at
// 17 and 191 at 19, where ranks need 142 at 21; a f32 network needs 116 at 13, and ranks 199 at 15.
constexpr int kMaxNetworkU8 = 15, kMaxNetworkU16 = 17, kMaxNetworkF32 = 13;
// Border::shrink: largest window of integers whose edges are selected straight from the source.
// That costs 7 us at 3 and 15 at 5 (1080p gray).
constexpr int kMaxEdges = 9;
// Above, a grid of a network's blocks would have more than 65535 rows.
constexpr int kMaxNetworkHeight = 65535 * 8;

struct PlanePlan {
  Plane plane;
  Plane middle;  // the same with a border that the fast ways know
  Channels channels;
  uint8_t copied;  // bits of channels that are not filtered
  Way way = Way::ranks;
  Format format = Format::u8;
  Network network = nullptr;
  Network single = nullptr;  // of one channel at a time, for frames that rgba8 cannot load
  Bits bits{};
  bool edges = false;  // by select_edges, after `way`
  Rect rects[4];       // by ranks, alone or after another way
  int rect_count = 0;
  Ranks ranks;
};

class CudaMedian final : public Plan {
 public:
  CudaMedian(CudaQueue& queue, const MedianTask& task)
      : Plan(queue, task.layout, task.layout, task.placement), cuda_queue_(queue) {}

  Status prepare(const MedianTask& task) {
    size_t work = 0, copy = 0;
    for (int i = 0; i < task.layout.planes; i++) {
      PlanePlan& p = plan_[i];
      choose(task, i, &p);
      if (p.rect_count) VF_TRY(prepare_ranks(p.plane, cuda_queue_.device(), &p.ranks));
      if (p.way == Way::bits) work = std::max(work, p.bits.scratch * p.channels.count);
      if (task.placement == Placement::in_place && needs_copy(p))
        copy = std::max(copy, copy_pitch(i) * p.plane.height);
    }
    if (work) VF_TRY(cuda_queue_.allocate(Memory::device, work, &work_));
    if (copy) VF_TRY(cuda_queue_.allocate(Memory::device, copy, &copy_));
    return {};
  }

 private:
  static void choose(const MedianTask& task, int index, PlanePlan* out) {
    const PlaneLayout& l = task.layout.plane[index];
    const MedianPlane& m = task.plane[index];
    PlanePlan& p = *out;
    p.plane = {task.layout.type, l.width,  l.height,    l.pixel_step(),
               m.size_x,         m.size_y, task.border, {}};
    std::copy_n(m.border_value, kMaxChannels, p.plane.border_value);
    const uint8_t all = uint8_t((1 << l.channels) - 1);
    p.channels = {0, {}, m.copies() ? uint8_t(0) : m.channels};
    for (int c = 0; c < l.channels; c++)
      if (p.channels.mask >> c & 1) p.channels.index[p.channels.count++] = uint8_t(c);
    p.copied = all & ~p.channels.mask;
    p.middle = p.plane;
    if (!p.channels.count) {
      p.way = Way::copy;
      return;
    }
    const int size = m.size_x;
    const Type type = task.layout.type;
    const bool shrink = task.border == Border::shrink;
    const bool square = m.size_x == m.size_y && l.height <= kMaxNetworkHeight &&
                        !(shrink && (l.width < size || l.height < size)) &&
                        !ways_for_tests.ranks_only;
    const int largest = type == Type::u8    ? kMaxNetworkU8
                        : type == Type::u16 ? kMaxNetworkU16
                                            : kMaxNetworkF32;
    p.format = type == Type::u8 ? Format::u8 : type == Type::u16 ? Format::u16 : Format::f32;
    if (square && size <= largest) p.single = find_network(p.format, size);
    if (p.single) {
      p.way = Way::network;
      if (type == Type::u8 && l.channels == 4 && p.plane.step == 4 && p.channels.count > 1) {
        p.format = Format::rgba8;
        p.network = find_network(p.format, size);
      }
      if (size == 3 && type == Type::u8) p.way = Way::direct;
    } else if (square && type == Type::u8 && find_bits(p.middle, &p.bits)) {
      p.way = Way::bits;
    } else {
      p.rects[p.rect_count++] = {0, 0, l.width, l.height};
      return;
    }
    if (!shrink) return;
    // The ways chosen do not know this border.
    p.middle.border = Border::replicate;
    if (size <= kMaxEdges && type != Type::f32) {
      p.edges = true;
    } else {
      const int r = size / 2, right = std::max(r, l.width - r), bottom = std::max(r, l.height - r);
      p.rects[0] = {0, 0, l.width, r};
      p.rects[1] = {0, bottom, l.width, l.height};
      p.rects[2] = {0, r, r, bottom};
      p.rects[3] = {right, r, l.width, bottom};
      p.rect_count = 4;
    }
  }

  // Whether the plane cannot be filtered in place by itself. `bits` reads everything before it
  // writes, but what comes after would not find its source.
  static bool needs_copy(const PlanePlan& p) {
    return p.way != Way::copy && (p.way != Way::bits || p.rect_count);
  }

  size_t copy_pitch(int index) const { return (row_bytes(source(), index) + 255) / 256 * 256; }

  Status enqueue(const Image& src, const Image& dst) override {
    for (int i = 0; i < src.layout.planes; i++) {
      Frame f{src.data[i], dst.data[i], src.stride[i], dst.stride[i]};
      VF_TRY(enqueue_plane(plan_[i], i, f));
    }
    return {};
  }

  Status enqueue_plane(const PlanePlan& p, int index, Frame f) {
    cudaStream_t stream = cuda_queue_.cuda_stream();
    const bool in_place = f.src == f.dst;
    if (!in_place && p.copied && !(p.format == Format::rgba8 && p.way != Way::copy)) {
      if (p.way == Way::copy && p.plane.step == source().plane[index].channels) {
        VF_CUDA(cudaMemcpy2DAsync(f.dst, f.dst_pitch, f.src, f.src_pitch,
                                  row_bytes(source(), index), p.plane.height,
                                  cudaMemcpyDeviceToDevice, stream));
      } else {
        VF_TRY(copy_channels(p.plane, p.copied, f, stream));
      }
    }
    if (p.way == Way::copy) return {};
    if (in_place && needs_copy(p)) {
      const size_t pitch = copy_pitch(index);
      VF_CUDA(cudaMemcpy2DAsync(copy_.data(), pitch, f.src, f.src_pitch, row_bytes(source(), index),
                                p.plane.height, cudaMemcpyDeviceToDevice, stream));
      f.src = copy_.data();
      f.src_pitch = ptrdiff_t(pitch);
    }
    if (p.way == Way::direct || p.way == Way::network) {
      const bool pixels =
          p.format != Format::rgba8 ||
          ((reinterpret_cast<uintptr_t>(f.src) | reinterpret_cast<uintptr_t>(f.dst) |
            uintptr_t(f.src_pitch) | uintptr_t(f.dst_pitch)) %
               4 ==
           0);
      if (p.way == Way::direct && can_direct3(p.format, p.middle, f)) {
        VF_TRY(direct3(p.format, p.middle, p.channels, f, stream));
      } else if (p.network && pixels) {
        VF_TRY(p.network(p.middle, p.channels, f, stream));
      } else {
        if (p.format == Format::rgba8 && p.copied && f.src != f.dst && !in_place)
          VF_TRY(copy_channels(p.plane, p.copied, f, stream));
        VF_TRY(p.single(p.middle, p.channels, f, stream));
      }
    } else if (p.way == Way::bits) {
      VF_TRY(p.bits.run(p.bits, p.middle, p.channels, f, work_.data(),
                        cuda_queue_.device().processors, stream));
    }
    if (p.edges) VF_TRY(select_edges(p.plane, p.channels, f, stream));
    if (p.rect_count) VF_TRY(ranks(p.ranks, p.plane, p.channels, f, p.rects, p.rect_count, stream));
    return {};
  }

  CudaQueue& cuda_queue_;
  PlanePlan plan_[kMaxPlanes];
  Allocation work_, copy_;
};

}  // namespace

namespace median {

WaysForTests ways_for_tests;

bool find_bits(const Plane& plane, Bits* out) {
  const int size = plane.size_x;
  RunBits (*const find[])(int) = {bits_to_31, bits_to_47,  bits_to_63,
                                  bits_to_97, bits_to_127, bits_to_255};
  for (const auto f : find) {
    out->run = f(size);
    if (!out->run) continue;
    out->words = bits_words(size);
    out->columns = 32 * out->words - 2 * (size / 2);
    const size_t segments = (plane.width + out->columns - 1) / out->columns;
    // Rows of the frame with its border and the one above it.
    out->scratch = (size_t(plane.height) + size) * segments * out->words * 32;
    return true;
  }
  return false;
}

}  // namespace median

Status make_median(Queue& queue, const MedianTask& task, std::unique_ptr<Plan>* out) {
  auto plan = std::make_unique<CudaMedian>(static_cast<CudaQueue&>(queue), task);
  VF_TRY(plan->prepare(task));
  *out = std::move(plan);
  return {};
}

}  // namespace vf::cuda
