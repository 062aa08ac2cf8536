// NVIDIA's Performance Primitives as a peer, where the build found them (VF_HAVE_NPP).
#pragma once

#include "bench/kernels/kernels.h"

namespace vf::bench {

// "NPP 13.0.3", or why there is none.
std::string npp_version();

// NPP's Gaussians of `taps` x `taps`: the one with given weights, and the one with sizes of its
// own. Both know the replicated border only. Empty where NPP has none for the layout.
std::vector<Peer> npp_gaussian(const Layout& layout, int taps, double sigma);

// NPP's median of width x height. Empty where NPP has none for the layout.
std::vector<Peer> npp_median(const Layout& layout, int width, int height);

}  // namespace vf::bench
