// Finds dense motion between two pictures: one vector for each block of 8 x 8 pixels. The denoiser
// moves its state by these vectors, and held regions follow them. docs/spec/motion.md specifies the
// result.
//
// The search takes overlapping patches of 16 x 16 pixels, coarse to fine (inverse search: Kroeger
// and others, 2016). It works on a pyramid of each picture: levels of 8 bits, of which the finest
// has half of the picture's resolution. A plan keeps the pyramids of several pictures, so that each
// picture is read once, however many fields it takes part in.
//
// All sums are of integers, and steps are rounded in a fixed order (motion_math.h). The reference,
// the CPU and CUDA give the same bits with any instruction set and any number of threads. A field
// depends on nothing but its two pictures.
//
// Pictures may have any size from 1 x 1 on. Samples outside a picture repeat its nearest sample.
// Vectors reach at least 64 pixels, and further where neighbours move alike. They may point outside
// the picture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "filters/image.h"
#include "filters/limits.h"
#include "filters/queue.h"

namespace vf {

struct MotionTask;

constexpr int kMotionBlock = 8;  // pixels of a block, either way
constexpr int kMotionUnits = 8;  // units of a vector in a pixel

// The motion of the block at column i and row j, which holds pixels [8 i, 8 i + 8) of rows [8 j, 8
// j + 8). The content at (px, py) was at (px + x / 8, py + y / 8) in the picture before. A residual
// is the mean of the squared differences from the picture before, in 1/16 of a squared 8-bit code
// value, at most 65535. It is measured in a window of 16 x 16 pixels about the block, on pictures
// that are smoothed with a sigma of about 0.9 pixels. White noise with variance v in each picture,
// in squared 8-bit codes, adds about 16 * 2 v * 0.1 to both. Where the vector is 0, both are the
// same. Otherwise the residual is not greater than the one without motion.
struct alignas(8) MotionVector {
  int16_t x, y;            // in eighths of a pixel
  uint16_t residual;       // with the vector
  uint16_t residual_zero;  // without motion
};

constexpr int motion_blocks(int pixels) {
  return (pixels + kMotionBlock - 1) / kMotionBlock;
}

struct MotionParams {
  static constexpr Limits<int> kSize{1, kMaxDimension}, kPictures{2, 16};

  int width = 0, height = 0;  // size of a picture in pixels
  int pictures = 2;           // number of pictures whose pyramids the plan keeps
};

// Says where the luma of a picture lies. With `rgb`, luma is (R + 2 G + B) / 4 of three components
// of one format.
struct MotionPicture {
  Type type = Type::u8;  // u8 or u16
  int depth = 8;         // bits in use: 8 to 16
  int shift = 0;         // unused low bits of a component
  int step = 1;          // components from one pixel to the next
  bool rgb = false;
  // These are the addresses of luma's first component, or of R's, G's and B's, and the bytes from
  // one row to the next. The addresses are in device memory for CUDA. Any alignment to the
  // component's size works; the fastest kernels need multiples of 16 bytes.
  const void* data[3] = {};
  ptrdiff_t stride[3] = {};
};

// Names two pictures whose motion is found, by the numbers under which a plan reads them, and the
// place of the result. This has motion_blocks(width) vectors in each of motion_blocks(height) rows,
// which are `stride` bytes apart (a multiple of 8).
struct MotionPair {
  int picture = 0, before = 0;
  MotionVector* field = nullptr;
  ptrdiff_t stride = 0;
};

// Lists the parts of a field that are wanted: columns [x0, x1) of rows [y0, y1). Without any, all
// of the field is wanted.
struct MotionParts {
  static constexpr int kMost = 16;
  struct Part {
    int x0, y0, x1, y1;
  };
  int count = 0;
  Part part[kMost] = {};

  // Tells whether a vector in columns [x0, x1) of a row is wanted.
  constexpr bool want(int x0, int x1, int row) const {
    bool wanted = count == 0;
    for (int i = 0; i < count; i++)
      wanted |= row >= part[i].y0 && row < part[i].y1 && x1 > part[i].x0 && x0 < part[i].x1;
    return wanted;
  }
};

class MotionPlan : NoCopy {
 public:
  virtual ~MotionPlan() = default;

  // Makes the pyramids of pictures first, first + 1 ... (`count` of them, up to kMostAtOnce) from
  // `from`. On CUDA this is one launch.
  static constexpr int kMostAtOnce = 4;
  Status read(int first, const MotionPicture* from, int count);

  // Finds the motion of some pairs, up to kMostPairs. On CUDA these are two launches, or three for
  // large pictures, however many pairs there are. Vectors outside of `parts` may keep their bits,
  // and mostly take no time.
  static constexpr int kMostPairs = 2;
  Status find(const MotionPair* pairs, int count, const MotionParts& parts = {});
  Status find(int picture, int before, MotionVector* field, ptrdiff_t stride,
              const MotionParts& parts = {}) {
    const MotionPair pair = {picture, before, field, stride};
    return find(&pair, 1, parts);
  }

 protected:
  explicit MotionPlan(const MotionTask& task);
  const MotionParams params_;

 private:
  // The calls above check their arguments first. On CUDA they only enqueue.
  virtual Status enqueue_read(int first, const MotionPicture* from, int count) = 0;
  Status check_pair(const MotionPair& pair) const;
  virtual Status enqueue_find(const MotionPair* pairs, int count, const MotionParts& parts) = 0;
  uint32_t is_read_ = 0;  // bit i: picture i was read
};

// Makes a plan. Each of its pictures takes about 0.34 bytes per pixel of the queue's memory.
Status make_motion(Queue& queue, const MotionParams& params, std::unique_ptr<MotionPlan>* out);

}  // namespace vf
