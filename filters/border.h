// Pixels outside the frame.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vf {

// How the filters see pixels outside the frame; the names are OpenCV's.
enum class Border : uint8_t {
  replicate,    // aaa|abcd|ddd
  reflect,      // cba|abcd|dcb
  reflect_101,  // dcb|abcd|cba
  wrap,         // bcd|abcd|abc
  constant,     // kkk|abcd|kkk
  shrink,       // outside pixels do not take part (median only)
};
const char* name_of(Border b);

// Of a border that repeats: shifted by whole periods, i is in [0, period).
constexpr int repeating_border_index(int i, int n, Border border) {
  const int period = border == Border::wrap      ? n
                     : border == Border::reflect ? 2 * n
                                                 : std::max(2 * n - 2, 1);
  i %= period;
  if (i < 0) i += period;
  if (i < n) return i;
  return border == Border::reflect ? period - 1 - i : period - i;
}

// The index inside [0, n) that `border` shows at i; -1 where it shows no pixel (constant, shrink).
// Also for device code.
constexpr int border_index(int i, int n, Border border) {
  if (unsigned(i) < unsigned(n)) return i;
  if (border == Border::replicate) return i < 0 ? 0 : n - 1;
  if (border == Border::constant || border == Border::shrink) return -1;
  // Most pixels that are seen lie less than a frame outside; this saves them the division.
  const int turn = border == Border::reflect ? 1 : 0, ends = i < 0 ? -turn : 2 * n - 2 + turn;
  const int near = border == Border::wrap ? (i < 0 ? i + n : i - n) : ends - i;
  if (unsigned(near) < unsigned(n)) return near;
  return repeating_border_index(i, n, border);
}

}  // namespace vf
