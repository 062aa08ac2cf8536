#include "filters/letterbox.h"

#include "bench/pipeline/pipeline.h"

namespace vf::bench {
namespace {

constexpr int kSize = 640;

}  // namespace

void letterbox_pipelines(PipelineBench& bench) {
  for (const bool tensor : {true, false}) {
    PipelineRow row = frame_row("cudaletterbox", tensor ? "NV12" : "RGBA");
    row.settings = "rule=affine";
    row.quick = tensor;
    const std::string size = std::to_string(kSize);
    ColorFormat from, to;
    if (tensor) {
      row.out_caps = "other/tensors,format=static,num_tensors=1,types=float32,dimensions=" + size +
                     ":" + size + ":3:1";
      row.out_layout = packed_layout(Type::f32, 1, kSize, kSize);
      row.out_layout.planes = 3;
      row.out_layout.plane[1] = row.out_layout.plane[2] = row.out_layout.plane[0];
      from.full_range = false;
      from.role[0][0] = Role::y;
      from.role[1][0] = Role::u;
      from.role[1][1] = Role::v;
      to.role[0][0] = Role::r;
      to.role[1][0] = Role::g;
      to.role[2][0] = Role::b;
    } else {
      row.out_caps = "video/x-raw,format=RGBA,width=" + size + ",height=" + size;
      row.out_layout = packed_layout(Type::u8, 4, kSize, kSize);
      const Role rgba[] = {Role::r, Role::g, Role::b, Role::a};
      for (int c = 0; c < 4; c++) from.role[0][c] = to.role[0][c] = rgba[c];
    }
    row.make = [from, to, src = row.layout, dst = row.out_layout](
                   Queue& queue, std::unique_ptr<Plan>* plan) -> Status {
      LetterboxParams params;
      params.rule = LetterboxRule::affine;
      LetterboxGeometry geometry;
      VF_TRY(letterbox_geometry(src.plane[0].width, src.plane[0].height, kSize, kSize, params,
                                &geometry));
      return make_letterbox(queue, src, from, dst, to, geometry, params, plan);
    };
    bench.run(row);
  }
}

}  // namespace vf::bench
