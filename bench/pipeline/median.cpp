#include "filters/median.h"

#include "bench/pipeline/pipeline.h"

namespace vf::bench {

void median_pipelines(PipelineBench& bench) {
  for (const int size : {3, 15})
    for (const bool rgba : {true, false}) {
      PipelineRow row = frame_row("cudamedian", rgba ? "RGBA" : "NV12");
      row.settings = "size=" + std::to_string(size);
      row.quick = rgba && size == 3;
      MedianParams params;
      params.size = size;
      row.make = [params, layout = row.layout](Queue& queue, std::unique_ptr<Plan>* plan) {
        return make_median(queue, layout, params, Placement::separate, plan);
      };
      bench.run(row);
    }
}

}  // namespace vf::bench
