// The denoiser's contract, as filters/denoise.h states it: of all samples of a sequence at most 1 %
// differ by one code value (of 10 bits where there are more), and 0.001 % by more; but for the
// samples of a tile whose vector tips. Of a camera that moves 10 % and 1 %: tiles tip now and then,
// and the next frames' go on from there.
#pragma once

#include "tests/tolerance.h"

namespace vf::test {

constexpr double kDenoiseByMore = 1e-5;
constexpr double kDenoiseTileSamples = 1024;
constexpr double kDenoiseMovingByOne = 0.1, kDenoiseMovingByMore = 0.01;

// Of the first frame, where no motion test can tip.
inline Tolerance denoise_contract() {
  Tolerance t;
  t.absolute = 1;
  t.equal = 0.99;
  return t;
}

}  // namespace vf::test
