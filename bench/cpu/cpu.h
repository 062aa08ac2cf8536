// The CPU benchmark: library plans on the CPU backend beside OpenCV with the same number of
// threads.
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

struct CpuRow {
  std::string filter;
  std::string frame;       // "1080p RGBA"
  std::string parameters;  // "15x15"
  Layout src, dst;
  bool quick = false;  // part of --quick
  double largest =
      1;  // code values (f32: share of the magnitude) a result may be off the reference
  // Makes the plan, also for smaller frames of the same formats.
  std::function<Status(Queue&, const Layout& src, const Layout& dst, std::unique_ptr<Plan>*)> make;
  // The same work by OpenCV; null without it, or where it has nothing of the kind.
  std::function<void(const Image& src, const Image& dst)> peer;
  double peer_largest = 1;  // and what OpenCV's result may be off ours
};

class CpuBench {
 public:
  virtual ~CpuBench() = default;
  // Checks and times a row, unless the options leave it out.
  virtual void run(const CpuRow& row) = 0;
};

// One for each filter; the table is in main.cpp.
void gaussian_cpu_rows(CpuBench& bench);
void guided_cpu_rows(CpuBench& bench);
void letterbox_cpu_rows(CpuBench& bench);
void median_cpu_rows(CpuBench& bench);

}  // namespace vf::bench
