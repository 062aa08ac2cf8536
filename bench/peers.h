// Other libraries that do what a row of a filter's table does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/kernels/harness.h"

namespace vf::bench {

// It counts if its own result is right.
struct Peer {
  std::string name;
  // Runs one call; on the GPU it is enqueued on `stream`.
  std::function<Status(const Image& src, const Image& dst, void* stream)> call;
  // The plan of what it should give, where that is not the row's own: other borders or kernels.
  decltype(test::TimedCase::make) want;
  double largest = 0;  // what it may differ by: code values; f32: of the largest magnitude
};

// On the GPU.
std::string npp_version();
std::vector<Peer> npp_peers(const test::TimedCase& row);
// On the CPU.
std::string opencv_version();
void use_opencv_threads(int threads);
std::vector<Peer> opencv_peers(const test::TimedCase& row);

}  // namespace vf::bench
