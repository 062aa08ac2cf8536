// Declares other libraries that do the work of a row of a filter's table.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/kernels/harness.h"

namespace vf::bench {

// A peer counts only if its own result is correct.
struct Peer {
  std::string name;
  // Runs one call. On the GPU the call is enqueued on `stream`.
  std::function<Status(const Image& src, const Image& dst, void* stream)> call;
  // Makes the plan of the expected result if it differs from the row's, because of other borders or
  // kernels.
  decltype(test::TimedCase::make) want;
  // The allowed difference is in code values, or, for f32, relative to the largest magnitude.
  double largest = 0;
};

// NPP runs on the GPU.
std::string npp_version();
std::vector<Peer> npp_peers(const test::TimedCase& row);
// OpenCV runs on the CPU.
std::string opencv_version();
void use_opencv_threads(int threads);
std::vector<Peer> opencv_peers(const test::TimedCase& row);

}  // namespace vf::bench
