// The denoiser's contract, as filters/denoise.h states it.
//
// At most 2 % of the samples of a sequence differ from the reference by one code value, and 0.001 %
// by more. Codes of more than 10 bits count as codes of 10 bits. The limits are 10 % and 1 % where
// the camera moves, because vectors then differ now and then, and the following frames start from
// there. Any sequence may have one square where they do, which is not counted if the frame has at
// least kDenoiseTiles of them.
#pragma once

#include <cstddef>

#include "tests/tolerance.h"

namespace vf::test {

constexpr int kDenoiseTile = 32;  // pixels along each side of a square
constexpr size_t kDenoiseTiles = 4;
constexpr double kDenoiseByOne = 0.02, kDenoiseByMore = 1e-5;
// Samples of small frames that may differ by more, for blocks whose gain rounds the other way and
// the surroundings of the square that is not counted.
constexpr double kDenoiseBlockSamples = 1024;
constexpr double kDenoiseMovingByOne = 0.1, kDenoiseMovingByMore = 0.01;

// The tolerance of a first frame, which has no motion test.
inline Tolerance denoise_contract() {
  Tolerance t;
  t.absolute = 1;
  t.equal = 0.99;
  return t;
}

}  // namespace vf::test
