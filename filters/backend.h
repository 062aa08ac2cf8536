// What a backend gives the library: one constructor per filter, all of one signature each. This is
// the one place where a call is sent to a backend; nothing else in the library knows them apart.
#pragma once

#include <memory>
#include <vector>

#include "filters/gaussian.h"
#include "filters/guided.h"
#include "filters/guided_colors.h"
#include "filters/letterbox.h"
#include "filters/median.h"
#include "filters/plan.h"
#include "filters/queue.h"

namespace vf {

// One plane of a Gaussian with everything derived: backends take these, never GaussianParams.
struct GaussianPlane {
  // Normalised weights; size 2 * radius + 1, at least 1.
  std::vector<double> weights_x, weights_y;
  uint8_t channels = 0xf;  // bit c set: channel c is filtered, else copied
  double border_value[kMaxChannels] = {};
  bool copies() const { return channels == 0 || (weights_x.size() == 1 && weights_y.size() == 1); }
};
struct GaussianTask {
  Layout layout;
  Border border = Border::reflect_101;
  Placement placement = Placement::separate;
  std::vector<GaussianPlane> plane;  // one for each plane of the layout
};

// A guided matte with everything derived and checked.
struct GuidedTask {
  Layout source, destination;
  MatteChannels from, to;  // from.alpha is nowhere with a chroma key
  Placement placement = Placement::separate;
  GuidedParams params;                // refine and radius are never automatic
  int width = 0, height = 0;          // of the frame
  int low_width = 0, low_height = 0;  // of the samples
  int low_radius = 1;                 // of the window, in samples
  double scale = 1;                   // what stands for 1 in memory
  int unit = 1;                       // integers in memory are multiples of it
  double key[2] = {};                 // (Cb, Cr) of the key
  double hue[2] = {}, spill[3] = {};  // its direction, in chroma and in colours without luma
  bool converts = false;              // params.convert changes colours
  GuidedColors colors;                // with MatteRefine::colors
};

// Letterbox with everything derived. Components are numbered 0 to 2 (r, g, b or y, u, v) and 3
// (alpha); a gray source that needs no conversion appears as three times the same component.
struct LetterboxTask {
  // From a destination pixel to a position in the source, both as pixel centres.
  struct Axis {
    int source = 1;  // size of the source along this axis
    // affine: float32(multiply * X) + add, each rounded
    float multiply = 1, add = 0;
    // ultralytics: X in [begin, begin + size) lies in the picture; float32((X - begin + 0.5) * step
    // - 0.5) in double, step source pixels per destination pixel.
    int begin = 0, size = 1;
    double step = 1;
    // Half the width of a destination pixel in source pixels, at least 0.5 (area).
    float reach = 0.5f;
    // Destination pixel x of a plane subsampled by 2^k is at X = x * 2^k, or, not co-sited, at
    // X = x * 2^k + (2^k - 1) / 2; in the same way back for source planes.
    bool source_cosited = true, destination_cosited = true;
  };
  Layout source, destination;
  LetterboxRule rule = LetterboxRule::ultralytics;
  Interpolation interpolation = Interpolation::bilinear;
  Axis x, y;
  Component from[4], to[4];
  Component padding;  // a destination component without meaning, written with all bits set
  // Destination colours are ((m0 * c0 + m1 * c1) + m2 * c2) + offset, in code values and float32;
  // not applied, and the bilinear samples of u8 made in cv2's fixed point, if `copies`.
  bool copies = true;
  float matrix[3][3] = {}, offset[3] = {};
  float alpha_scale = 1;  // alpha in code values of the destination
  // The fill colour as the source would hold it, and rounded to code values of the destination.
  float source_fill[4] = {}, fill[4] = {};
  int max_value = 255;  // largest code value of the destination, of 8 bits for tensors
  // Float tensors: v = x - subtract, q = v * reciprocal, y = fma(fma(-q, divide, v), reciprocal, q)
  bool normalised = false, half_float = false;
  float subtract[4] = {}, divide[4] = {}, reciprocal[4] = {};
};

// One plane of a median with everything derived.
struct MedianPlane {
  int size_x = 1, size_y = 1;  // odd
  uint8_t channels = 0xf;      // bit c set: channel c is filtered, else copied
  uint32_t border_value[kMaxChannels] =
      {};  // components as stored: shifted, or the bits of a float
  bool copies() const { return channels == 0 || (size_x == 1 && size_y == 1); }
};
struct MedianTask {
  Layout layout;
  Border border = Border::replicate;
  Placement placement = Placement::separate;
  std::vector<MedianPlane> plane;  // one for each plane of the layout
};

struct BackendTable {
  Status (*make_queue)(const QueueOptions&, std::unique_ptr<Queue>*) = nullptr;
  Status (*gaussian)(Queue&, const GaussianTask&, std::unique_ptr<Plan>*) = nullptr;
  Status (*guided)(Queue&, const GuidedTask&, std::unique_ptr<GuidedPlan>*) = nullptr;
  Status (*letterbox)(Queue&, const LetterboxTask&, std::unique_ptr<Plan>*) = nullptr;
  Status (*median)(Queue&, const MedianTask&, std::unique_ptr<Plan>*) = nullptr;
};

const BackendTable* cpu_backend();
const BackendTable* cuda_backend();  // null in a build without CUDA
Status cuda_backend_usable();

// The reference backend is part of the tests and registers itself here.
void set_reference_backend(const BackendTable* table);

// The table for a backend; null if this build does not have it.
const BackendTable* backend_table(Backend backend);

// An odd size that was given for the frame, along one axis of a plane that is subsampled by 2^sub:
// it shrinks with the plane, but stays at least 3 where it is above 1.
int plane_size(int size, int sub);

// Runs `make`, turning an exception of the standard library (out of memory) into a Status: the
// boundary no exception crosses.
template <class F>
Status guarded(F&& make) {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    return Status::error(Code::out_of_memory, "out of host memory");
  } catch (const std::exception& e) {
    return Status::error(Code::device_error, "%s", e.what());
  }
}

}  // namespace vf
