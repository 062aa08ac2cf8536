#include "filters/guided.h"

#include "bench/pipeline/pipeline.h"

namespace vf::bench {

void guided_pipelines(PipelineBench& bench) {
  for (const int subsample : {4, 1}) {
    PipelineRow row = frame_row("cudaguidedmatte", "RGBA");
    row.settings = "refine=guided radius=32 subsample=" + std::to_string(subsample);
    row.quick = subsample == 4;
    GuidedParams params;
    params.refine = MatteRefine::guided;
    params.radius = 32;
    params.subsample = subsample;
    row.make = [params, layout = row.layout](Queue& queue, std::unique_ptr<Plan>* plan) -> Status {
      std::unique_ptr<GuidedPlan> made;
      VF_TRY(make_guided(queue, layout, {}, layout, {}, params, Placement::separate, &made));
      *plan = std::move(made);
      return {};
    };
    bench.run(row);
  }
}

}  // namespace vf::bench
