// Holds what a backend gets for a letterbox.
#pragma once

#include "filters/letterbox.h"

namespace vf {

// Holds everything that is computed from the parameters. Components are numbered 0 to 2 (r, g, b or
// y, u, v) and 3 (alpha). A gray source that needs no conversion to RGB appears as the same
// component three times.
struct LetterboxTask {
  // Maps a destination pixel to a position in the source, both as pixel centres.
  struct Axis {
    int source = 1;  // size of the source along this axis
    // affine: the position is float32(multiply * X) + add, each step rounded.
    float multiply = 1, add = 0;
    // ultralytics: X in [begin, begin + size) lies in the picture. The position is (X - begin +
    // 0.5) * step - 0.5, computed in double and rounded to float32. `step` is in source pixels per
    // destination pixel.
    int begin = 0, size = 1;
    double step = 1;
    // This is half the width of a destination pixel in source pixels, and at least 0.5. Only area
    // uses it.
    float reach = 0.5f;
    // Pixel x of a destination plane subsampled by 2^k lies at X = x * 2^k if it is co-sited, and
    // at X = x * 2^k + (2^k - 1) / 2 if it is not. Source planes are mapped back in the same way.
    bool source_cosited = true, destination_cosited = true;
  };
  Layout source, destination;
  LetterboxRule rule = LetterboxRule::ultralytics;
  Interpolation interpolation = Interpolation::bilinear;
  Axis x, y;
  Component from[4], to[4];
  Component padding;  // a destination component without meaning, written with all bits set
  // Destination colours are ((m0 * c0 + m1 * c1) + m2 * c2) + offset, in code values and float32.
  // With `copies` the matrix is not applied, and bilinear samples of u8 are made in cv2's fixed
  // point.
  bool copies = true;
  float matrix[3][3] = {}, offset[3] = {};
  float alpha_scale = 1;  // factor from alpha of the source to alpha of the destination
  // The fill colour as the source would hold it, and rounded to code values of the destination.
  float source_fill[4] = {}, fill[4] = {};
  int max_value = 255;  // largest code value of the destination, of 8 bits for tensors
  // Float tensors: v = x - subtract, q = v * reciprocal, y = fma(fma(-q, divide, v), reciprocal, q)
  bool normalised = false, half_float = false;
  float subtract[4] = {}, divide[4] = {}, reciprocal[4] = {};
};

}  // namespace vf
