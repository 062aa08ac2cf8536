// Validation of motion plans.
#include "filters/motion.h"

#include "filters/backend.h"
#include "filters/motion_task.h"

namespace vf {
namespace {

Status check_number(const char* name, int number, int pictures) {
  if (number >= 0 && number < pictures) return {};
  return Status::error(Code::invalid_argument, "%s is %d: must be 0 to %d", name, number,
                       pictures - 1);
}

Status check(const MotionPicture& p, const MotionParams& params) {
  if (p.type != Type::u8 && p.type != Type::u16)
    return Status::error(Code::invalid_argument, "the type is %s: must be u8 or u16",
                         name_of(p.type));
  const int size = size_of(p.type);
  if (p.shift < 0 || p.depth < 8 || p.depth + p.shift > 8 * size)
    return Status::error(Code::invalid_argument,
                         "the depth is %d bits above %d unused ones: must be 8 to %d in all",
                         p.depth, p.shift, 8 * size);
  if (p.step < 1 || p.step > 2 * kMaxChannels)
    return Status::error(Code::invalid_argument, "the step is %d: must be 1 to %d", p.step,
                         2 * kMaxChannels);
  for (int c = 0; c < (p.rgb ? 3 : 1); c++) {
    if (!p.data[c] || reinterpret_cast<uintptr_t>(p.data[c]) % size)
      return Status::error(Code::invalid_argument,
                           "the address of component %d is %p: must be a multiple of %d, and not 0",
                           c, p.data[c], size);
    const ptrdiff_t least = ((ptrdiff_t(params.width) - 1) * p.step + 1) * size;
    if (p.stride[c] < least || p.stride[c] % size)
      return Status::error(Code::invalid_argument,
                           "the stride of component %d is %td bytes: must be at least %td, and a "
                           "multiple of %d",
                           c, p.stride[c], least, size);
  }
  return {};
}

}  // namespace

MotionPlan::MotionPlan(const MotionTask& task) : params_(task.params) {}

Status MotionPlan::read(int first, const MotionPicture* from, int count) {
  if (count < 1 || count > kMostAtOnce)
    return Status::error(Code::invalid_argument, "the count of pictures is %d: must be 1 to %d",
                         count, kMostAtOnce);
  VF_TRY(check_number("the first picture", first, params_.pictures));
  VF_TRY(check_number("the last picture", first + count - 1, params_.pictures));
  for (int i = 0; i < count; i++) VF_TRY(check(from[i], params_));
  VF_TRY(enqueue_read(first, from, count));
  for (int i = 0; i < count; i++) is_read_ |= 1u << (first + i);
  return {};
}

Status MotionPlan::find(int picture, int before, MotionVector* field, ptrdiff_t stride) {
  VF_TRY(check_number("the picture", picture, params_.pictures));
  VF_TRY(check_number("the picture before", before, params_.pictures));
  const int numbers[] = {picture, before};
  for (const int number : numbers)
    if (!(is_read_ >> number & 1))
      return Status::error(Code::invalid_argument, "picture %d was not read", number);
  if (!field || reinterpret_cast<uintptr_t>(field) % alignof(MotionVector))
    return Status::error(Code::invalid_argument,
                         "the address of the field is %p: must be a multiple of 8, and not 0",
                         static_cast<void*>(field));
  const ptrdiff_t least = ptrdiff_t(motion_blocks(params_.width)) * ptrdiff_t(sizeof *field);
  if (stride < least || stride % ptrdiff_t(sizeof *field))
    return Status::error(Code::invalid_argument,
                         "the stride of the field is %td bytes: must be at least %td, and a "
                         "multiple of 8",
                         stride, least);
  return enqueue_find(picture, before, field, stride);
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
