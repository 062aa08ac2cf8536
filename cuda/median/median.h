// Declares the median's passes. median.cpp chooses among them.
#pragma once

#include <vector>

#include "cuda/core/plane_pass.h"
#include "cuda/median/median_types.h"
#include "filters/border.h"

namespace vf::cuda::median {

// Everything about a plane that does not change from frame to frame.
struct Plane {
  Type type;
  int width, height;  // pixels
  int step;           // components from one pixel to the next
  int size_x, size_y;
  Border border;
  uint32_t border_value[kMaxChannels];
  bool outliers_only;
  uint32_t threshold;  // outliers differ by more, in stored units
  int channels;        // of a pixel
  // The channels that are filtered: `count` of them, in `index`, and as bits of `mask`.
  int count;
  uint8_t index[kMaxChannels], mask;
};

struct Rect {
  int x0, y0, x1, y1;
  bool empty() const { return x0 >= x1 || y0 >= y1; }
};

// The first two functions return null if there is no kernel for the plane. With `early`, their
// kernels may start before the previous one is done, where the device can do this.

// median_3x3.cu takes windows of 3 x 3 with the borders replicate and reflect-101, of all channels
// of u8 and u16 with one or two of them, and of rgba8. It also does the work of make_outliers.
std::unique_ptr<PlanePass> make_3x3(const Plane& plane, const Device& device, bool early);
// Tells whether a frame with such a plane can be filtered by one launch, and makes the pass for it.
bool in_3x3_frame(const Plane& plane);
std::unique_ptr<FramePass> make_3x3_frame(const std::vector<Plane>& planes, const Device& device);

// median_network.cpp takes square windows for which the build has a network, with any border but
// shrink. With `outliers_only`, the same launch does the work of make_outliers for integers,
// if the network shares columns or the window is at most 11 x 11.
Status make_network(const Device& device, Format format, const Plane& plane, bool early,
                    std::unique_ptr<PlanePass>* out);

// median_edges.cu takes integers with square windows and Border::shrink. It makes only the pixels
// nearer to the edge than the radius, and is meant for small windows.
std::unique_ptr<PlanePass> make_edges(const Plane& plane);

// median_tile_sort.cu takes any type, window, border and frame size. It makes the medians inside up
// to 4 rectangles, of which some may be empty.
Status make_tile_sort(CudaQueue& queue, const Plane& plane, const std::vector<Rect>& rects,
                      std::unique_ptr<PlanePass>* out);

// median_outliers.cu takes any type, window, border and frame size. It runs after the medians are
// made, and gives pixels that are no outliers their own values.
std::unique_ptr<PlanePass> make_outliers(const Plane& plane, const Device& device);

inline ChannelArgs channel_args(const Plane& plane) {
  ChannelArgs a{};
  for (int i = 0; i < plane.count; i++) {
    a.index |= uint32_t(plane.index[i]) << (8 * i);
    a.border_value |= uint64_t(plane.border_value[plane.index[i]]) << (16 * i);
  }
  return a;
}

// Returns the bits of an 8-bit pixel of four channels that are copied.
inline uint32_t kept_bits(uint8_t mask) {
  uint32_t keep = 0;
  for (int c = 0; c < 4; c++)
    if (!(mask >> c & 1)) keep |= 0xffu << (8 * c);
  return keep;
}

}  // namespace vf::cuda::median
