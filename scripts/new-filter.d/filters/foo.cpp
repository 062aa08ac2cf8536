// Checks the parameters and makes the task of the backends.
#include "filters/foo.h"

#include "filters/backend.h"
#include "filters/color.h"
#include "filters/foo_task.h"

namespace vf {

bool is_identity(const FooParams& p) {
  return p.strength == 0 || selects_nothing(p.channels);
}

Status make_foo(Queue& queue, const Layout& layout, const FooParams& params, Placement placement,
                std::unique_ptr<Plan>* out) {
  VF_TRY(validate(layout));
  VF_TRY(check_limits("strength", params.strength, FooParams::kStrength));
  VF_TRY(check_type(layout));
  const auto fill = [&](FooTask& task) {
    task.layout = layout;
    task.placement = placement;
    task.strength = params.strength;
    task.scale.strength = float(params.strength / 9);
    task.scale.shift = layout.shift;
    if (layout.type != Type::f32) task.scale.highest = float(max_code(layout));
    for (int i = 0; i < layout.planes; i++)
      task.channels[i] = uint8_t(params.channels[i] & ((1 << layout.plane[i].channels) - 1));
    return Status();
  };
  return make_plan<FooTask>(queue, &BackendTable::foo, "foo", fill, out);
}

}  // namespace vf
