// A Gaussian of one plane-independent kernel in double precision on the GPU: an oracle, not a
// filter.
#pragma once

#include "bench/measure.h"

namespace vf::bench {

// The kernel of plane p has taps[p] taps either way and standard deviation sigma[p].
struct GaussianOracle {
  double sigma[kMaxPlanes] = {};
  int taps[kMaxPlanes] = {};
  Border border = Border::reflect_101;  // or replicate
};

// Waits for the stream.
Status gaussian_oracle(const GaussianOracle& oracle, const Image& src, const Image& dst,
                       cudaStream_t stream);

}  // namespace vf::bench
