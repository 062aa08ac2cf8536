#include "filters/gaussian.h"

#include "bench/pipeline/pipeline.h"

namespace vf::bench {

void gaussian_pipelines(PipelineBench& bench) {
  for (const double sigma : {1.5, 5.0})
    for (const bool rgba : {true, false}) {
      PipelineRow row;
      row.element = "cudagaussian";
      row.settings = "sigma=" + number(sigma, 1);
      row.frame = "1080p";
      row.format = rgba ? "RGBA" : "NV12";
      row.layout = rgba ? packed_layout(Type::u8, 4, 1920, 1080) : nv12_layout(1920, 1080);
      row.out_layout = row.layout;
      row.quick = rgba && sigma < 2;
      GaussianParams params;
      params.sigma = sigma;
      row.make = [params, layout = row.layout](Queue& queue, std::unique_ptr<Plan>* plan) {
        return make_gaussian(queue, layout, params, Placement::separate, plan);
      };
      bench.run(row);
    }
}

}  // namespace vf::bench
