// The pipeline benchmark: what an element costs a frame in a running GStreamer pipeline.
//
// A filter adds a file with its rows and a line to the table in main.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/frames.h"
#include "bench/report.h"
#include "filters/plan.h"

namespace vf::bench {

struct PipelineRow {
  std::string element;   // "cudagaussian"
  std::string settings;  // its properties, as in a launch line
  std::string frame;     // "1080p"
  std::string format;    // GStreamer's name
  Layout layout;         // of the source's frames
  // Caps behind the element where they are not those before it, without features: then only one
  // element is put into the pipeline.
  std::string out_caps;
  bool quick = false;  // part of --quick
  // An element of GStreamer's, to compare with: in CUDA memory alone, and without a plan.
  bool peer = false;
  // The plan that the element runs on each frame in CUDA memory, for its time alone.
  Layout out_layout;
  std::function<Status(Queue&, std::unique_ptr<Plan>*)> make;
};

// A row of 1080p frames, RGBA or NV12, that come out in the same format.
inline PipelineRow frame_row(const char* element, const char* format) {
  PipelineRow row;
  row.element = element;
  row.frame = "1080p";
  row.format = format;
  row.layout =
      row.format == "NV12" ? nv12_layout(1920, 1080) : packed_layout(Type::u8, 4, 1920, 1080);
  row.out_layout = row.layout;
  return row;
}

class PipelineBench {
 public:
  virtual ~PipelineBench() = default;
  // Times a row in system memory and in CUDA memory, on every backend there is.
  virtual void run(const PipelineRow& row) = 0;
};

// One for each filter; the table is in main.cpp.
void gaussian_pipelines(PipelineBench& bench);
void guided_pipelines(PipelineBench& bench);
void letterbox_pipelines(PipelineBench& bench);
void median_pipelines(PipelineBench& bench);

}  // namespace vf::bench
