// Checks what motion plans are made of.
#include "filters/motion.h"

#include <cstdlib>

#include "filters/backend.h"
#include "filters/motion_task.h"

namespace vf {
namespace {

Status check(const MotionPicture& p, const MotionParams& params) {
  if (p.type != Type::u8 && p.type != Type::u16)
    return Status::invalid("the type is %s, but it must be u8 or u16", name_of(p.type));
  const int size = size_of(p.type);
  VF_TRY(check_limits("the depth", p.depth, Limits<int>{8, 8 * size}));
  VF_TRY(check_limits("the shift", p.shift, Limits<int>{0, 8 * size - p.depth}));
  VF_TRY(check_limits("the step", p.step, Limits<int>{1, 2 * kMaxChannels}));
  for (int c = 0; c < (p.rgb ? 3 : 1); c++) {
    if (!p.data[c] || reinterpret_cast<uintptr_t>(p.data[c]) % size)
      return Status::invalid(
          "the address of component %d is %p, but it must be a multiple of %d, and not 0", c,
          p.data[c], size);
    const ptrdiff_t least = ((ptrdiff_t(params.width) - 1) * p.step + 1) * size;
    if (std::abs(p.stride[c]) < least || p.stride[c] % size)
      return Status::invalid(
          "the stride of component %d is %td bytes, but it must be at least %td either way, and "
          "a multiple of %d",
          c, p.stride[c], least, size);
  }
  return {};
}

}  // namespace

MotionPicture picture_of(const Image& frame, const Component* part, int parts) {
  MotionPicture p;
  p.type = frame.layout.type;
  p.depth = depth_of(frame.layout);
  p.shift = frame.layout.shift;
  p.rgb = parts == 3;
  for (int i = 0; i < parts; i++) {
    p.step = frame.layout.plane[part[i].plane].pixel_step();
    p.data[i] = static_cast<const uint8_t*>(frame.data[part[i].plane]) +
                part[i].channel * size_of(frame.layout.type);
    p.stride[i] = frame.stride[part[i].plane];
  }
  return p;
}

MotionPlan::MotionPlan(const MotionTask& task) : params_(task.params) {}

Status MotionPlan::read(int first, const MotionPicture* from, int count) {
  const Limits<int> numbers{0, params_.pictures - 1};
  VF_TRY(check_limits("the count of pictures", count, Limits<int>{1, kMostAtOnce}));
  VF_TRY(check_limits("the first picture", first, numbers));
  VF_TRY(check_limits("the last picture", first + count - 1, numbers));
  for (int i = 0; i < count; i++) VF_TRY(check(from[i], params_));
  VF_TRY(enqueue_read(first, from, count));
  for (int i = 0; i < count; i++) is_read_ |= 1u << (first + i);
  return {};
}

Status MotionPlan::check_pair(const MotionPair& pair) const {
  const Limits<int> numbers{0, params_.pictures - 1};
  VF_TRY(check_limits("the picture", pair.picture, numbers));
  VF_TRY(check_limits("the picture before", pair.before, numbers));
  const int both[] = {pair.picture, pair.before};
  for (const int number : both)
    if (!(is_read_ >> number & 1))
      return Status::invalid("picture %d was not read, but both pictures must be read before",
                             number);
  if (!pair.field || reinterpret_cast<uintptr_t>(pair.field) % alignof(MotionVector))
    return Status::invalid(
        "the address of the field is %p, but it must be a multiple of 8, and not 0",
        static_cast<void*>(pair.field));
  constexpr auto unit = ptrdiff_t(sizeof(MotionVector));
  const ptrdiff_t least = motion_blocks(params_.width) * unit;
  if (pair.stride < least || pair.stride % unit)
    return Status::invalid(
        "the stride of the field is %td bytes, but it must be at least %td, and a "
        "multiple of 8",
        pair.stride, least);
  return {};
}

Status MotionPlan::find(const MotionPair* pairs, int count, const MotionParts& parts) {
  VF_TRY(check_limits("the count of pairs", count, Limits<int>{1, kMostPairs}));
  for (int i = 0; i < count; i++) VF_TRY(check_pair(pairs[i]));
  return enqueue_find(pairs, count, parts);
}

Status make_motion(Queue& queue, const MotionParams& params, std::unique_ptr<MotionPlan>* out) {
  VF_TRY(check_limits("width", params.width, MotionParams::kSize));
  VF_TRY(check_limits("height", params.height, MotionParams::kSize));
  VF_TRY(check_limits("pictures", params.pictures, MotionParams::kPictures));
  const auto fill = [&](MotionTask& task) {
    task.params = params;
    return Status();
  };
  return make_plan<MotionTask>(queue, &BackendTable::motion, "motion", fill, out);
}

}  // namespace vf
