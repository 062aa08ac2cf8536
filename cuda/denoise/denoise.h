// The argument of the denoiser's kernels, and functions that return the kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "filters/denoise_motion.h"

namespace vf::cuda {

// A component in memory.
struct DenoiseView {
  uint8_t* data = nullptr;
  int stride = 0;  // bytes
  int step = 1;    // components from sample to sample
  int width = 0, height = 0;
};

// A set of state planes. `p` holds p in 11 bits and above them the level of luma.
struct DenoiseState {
  uint16_t* color[3] = {};
  uint16_t* p = nullptr;
};

// Blocks of denoise_update count in one of several copies of the histograms, because most cells
// count in few bins. The next model takes their sums.
constexpr int kHistograms = 4;
struct alignas(16) DenoiseHistograms : denoise::Histograms {};

// Says how a piece of the state is read, for denoise_update: at the vector (x, y), in eighths of a
// pixel, with what is added to luma and to p. kDenoiseRestless in `more_p`: the patch is restless.
struct alignas(8) DenoisePiece {
  int16_t x, y, brighter;
  uint16_t more_p;
};
constexpr int kDenoiseRestless = 0x8000;

// A frame, and the state that it is added to.
struct DenoiseJob {
  DenoiseView from[3];
  DenoiseState previous, current;
  // The state of the frames before, which the last job of the later frames merges with its own.
  DenoiseState before;
  MotionVector* field = nullptr;   // where each patch was in the previous state
  DenoisePiece* pieces = nullptr;  // two by two for each patch
  uint32_t* cells = nullptr;       // the sum of samples of each cell of luma, in the previous frame
  DenoiseHistograms* histograms = nullptr;  // null if the frame does not count for the model
  // True if `from` has whole blocks of four-byte R, G, B pixels, in rows aligned to four pixels.
  bool packed = false;
  // For denoise_motion: true if `from` has whole blocks of luma, in rows aligned to eight samples.
  bool whole = false;
};

// Rows of state planes have `pitch` samples, and rows of p `pitch_p` blocks, with room for whole
// tiles. Their first and last samples are repeated kDenoiseBorder times before and behind.
struct Denoise {
  // A launch of denoise_motion or denoise_update takes up to two jobs that do not depend on each
  // other, by blockIdx.z. The other kernels take the first job.
  DenoiseJob job[2];
  DenoiseView to[3];
  int colors = 3, depth = 8, shift = 0;
  bool is_rgb = false;
  int patches_x = 0, patches_y = 0, tiles_x = 0;
  int pitch[3] = {}, pitch_p = 0;
  int width[3] = {}, height[3] = {};  // size of the state
  int per_x[3] = {}, per_y[3] = {};   // samples of a block
  int blocks_x = 0, blocks_y = 0;
  denoise::Settings settings = {};
  const denoise::Model* model = nullptr;
  denoise::Model* next = nullptr;
  float* level = nullptr;  // pinned: luma's variance, for the host
  // True where a lane may write its samples of `to` with one instruction. [1] stands for UV. For
  // RGB, [0] tells that a pixel has four bytes, of which the fourth one is copied.
  bool wide[3] = {};
  // For denoise_output:
  bool learns = false;          // its first blocks make the next model
  int component = 0;            // the first component that it filters
  int strip = 0, strips_x = 0;  // rows of a warp's strip; strips side by side
  // If one launch filters luma and chroma: the strips of chroma and its number of thread blocks.
  int chroma_strip = 0, chroma_strips_x = 0, chroma_blocks = 0;
};

using DenoiseKernel = void (*)(Denoise);

// Frames in 4:2:0 with whole blocks, and with rows aligned so that a lane reads all its samples at
// once, have fast kernels: `pairs` takes interleaved UV or VU, and `planes` takes separate U and V.
enum class DenoiseFast { no, pairs, planes };

constexpr int kDenoiseTileX = 64;  // blocks of a tile of denoise_update
constexpr int kDenoiseRows = 2;    // rows of blocks per warp of denoise_update
constexpr int kDenoiseWarps = 8;   // warps per thread block of denoise_update
constexpr int kDenoiseTileY = kDenoiseRows * kDenoiseWarps;
constexpr int kOutputWarps = 4;  // warps per thread block of denoise_output
// A warp of denoise_output filters a strip of so many samples across. With several components side
// by side, it filters kDenoiseFewColumns samples of each.
constexpr int kDenoiseColumns = 120, kDenoiseFewColumns = 56;
constexpr int kDenoiseBorder = 8;    // samples; a multiple of 8 keeps rows aligned
constexpr int kDenoiseLearners = 3;  // thread blocks of denoise_output that make a model

// Decides for pass 1 how the pieces of the state are read.
DenoiseKernel denoise_motion(int bytes, bool rgb);
constexpr int kMotionTiles = 4;  // tiles per thread block of denoise_motion
constexpr int kMotionThreads = 32 * kMotionTiles;

// Pass 1. Without a previous state, it makes one from the frame alone. A block has chroma_x by
// chroma_y samples of each chroma component. Both are 0 for gray.
DenoiseKernel denoise_update(int bytes, int chroma_x, int chroma_y, bool rgb, DenoiseFast fast);
// Pass 2. denoise_output filters a component with block_x by block_y samples in a block.
// denoise_output_frame filters chroma and then luma of a 4:2:0 frame in one launch.
// denoise_output_rgb filters an RGB frame, with a thread block per strip.
DenoiseKernel denoise_output(int bytes, int block_x, int block_y);
DenoiseKernel denoise_output_frame(int bytes);
DenoiseKernel denoise_output_rgb(int bytes);
// Make the statistics of a first frame and its model.
DenoiseKernel denoise_first_count();
DenoiseKernel denoise_first_learn();

}  // namespace vf::cuda
