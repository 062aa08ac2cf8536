#include "filters/gaussian.h"

#include "bench/pipeline/pipeline.h"

namespace vf::bench {

void gaussian_pipelines(PipelineBench& bench) {
  for (const double sigma : {1.5, 5.0})
    for (const bool rgba : {true, false}) {
      PipelineRow row = frame_row("cudagaussian", rgba ? "RGBA" : "NV12");
      row.settings = "sigma=" + number(sigma, 1);
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
