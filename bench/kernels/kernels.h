// The kernel benchmark: library plans on the GPU, each beside a plain copy of the same bytes and,
// where there is one, a peer that does the same work.
//
// A filter adds a file with its rows and a line to the table in main.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "bench/report.h"
#include "filters/plan.h"

namespace vf::bench {

// What a result may differ by from the double-precision reference, in code values for integers and
// relative to the largest magnitude for f32.
struct Tolerance {
  double largest = 1;
  double equal = 0;  // least share of equal components
};

using Oracle = std::function<Status(const Image& src, const Image& dst, cudaStream_t stream)>;

// Another implementation of the same work. It counts if its own result is right.
struct Peer {
  std::string name;
  // Enqueues one call.
  Oracle call;
  // What it should give: peers have other borders and kernels than the row they stand beside.
  Oracle oracle;
  double largest = 2;  // code values that it may differ by
};

struct Row {
  std::string filter;
  std::string frame;       // "2160p RGBA"
  std::string parameters;  // "15x15"
  Layout src, dst;
  // What is read of the source, where that is less than all of it: the floor copies as much.
  Layout floor_src;
  bool in_place = false;
  bool quick = false;  // part of --quick
  Tolerance tolerance;
  // Makes the plan, also for smaller frames of the same formats.
  std::function<Status(Queue&, const Layout& src, const Layout& dst, Placement,
                       std::unique_ptr<Plan>*)>
      make;
  // Forgets what a plan remembers of earlier frames, where it does: a frame is checked after that.
  std::function<void(Plan&)> forget;
  // An independent computation of the timed frame on the GPU, in double precision and as simple as
  // can be. Where there is none the CPU backend stands in for it.
  Oracle oracle;
  // Made only for rows that are run.
  std::function<std::vector<Peer>()> peers;
};

class Bench {
 public:
  virtual ~Bench() = default;
  // Checks and times a row, unless the options leave it out.
  virtual void run(const Row& row) = 0;
};

// One for each filter; the table is in main.cpp.
void gaussian_rows(Bench& bench);
void guided_rows(Bench& bench);
void letterbox_rows(Bench& bench);
void median_rows(Bench& bench);

}  // namespace vf::bench
