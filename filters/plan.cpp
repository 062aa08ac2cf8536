#include "filters/plan.h"

namespace vf {
namespace {

// Returns the bytes from the first to the last component of a plane.
size_t extent(const Image& image, int plane) {
  return size_t(image.stride[plane]) * (image.layout.plane[plane].height - 1) +
         row_bytes(image.layout, plane);
}

bool same_plane(const Image& a, const Image& b, int plane) {
  return a.data[plane] == b.data[plane] && a.stride[plane] == b.stride[plane];
}

bool overlaps(const Image& a, const Image& b, int plane) {
  const auto begin_a = reinterpret_cast<uintptr_t>(a.data[plane]);
  const auto begin_b = reinterpret_cast<uintptr_t>(b.data[plane]);
  return begin_a < begin_b + extent(b, plane) && begin_b < begin_a + extent(a, plane);
}

}  // namespace

Status Plan::check(const Image& src, const Image& dst) const {
  if (src.layout != source_) return Status::invalid("the source's layout is not the plan's");
  if (dst.layout != destination_)
    return Status::invalid("the destination's layout is not the plan's");
  const Memory memory = queue_.backend() == Backend::cuda ? Memory::device : Memory::host;
  if (src.memory != memory || dst.memory != memory)
    return Status::invalid("the %s backend filters images in %s memory", name_of(queue_.backend()),
                           memory == Memory::device ? "device" : "host");
  VF_TRY(validate(src));
  VF_TRY(validate(dst));
  for (int i = 0; i < src.layout.planes && i < dst.layout.planes; i++) {
    if (!overlaps(src, dst, i)) continue;
    if (!same_plane(src, dst, i))
      return Status::invalid("source and destination overlap in plane %d", i);
    if (placement_ == Placement::separate)
      return Status::invalid(
          "source and destination are the same image: the plan was made for "
          "separate ones");
  }
  return {};
}

Status Plan::run(const Image& src, const Image& dst) {
  VF_TRY(check(src, dst));
  return enqueue(src, dst);
}

Status Plan::run(const Image* src, const Image* dst, int count) {
  for (int i = 0; i < count; i++) VF_TRY(check(src[i], dst[i]));
  return enqueue_each(src, dst, count);
}

Status Plan::enqueue_each(const Image* src, const Image* dst, int count) {
  for (int i = 0; i < count; i++) VF_TRY(enqueue(src[i], dst[i]));
  return {};
}

}  // namespace vf
