// Lists border rules, which say what values a filter sees outside the frame.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vf {

// The names are OpenCV's. Each picture shows the frame abcd between its two borders.
enum class Border : uint8_t {
  replicate,    // aaa|abcd|ddd
  reflect,      // cba|abcd|dcb
  reflect_101,  // dcb|abcd|cba
  wrap,         // bcd|abcd|abc
  constant,     // kkk|abcd|kkk
  shrink,       // pixels outside do not take part (median only)
};
inline const char* name_of(Border b) {
  constexpr const char* names[] = {"replicate", "reflect",  "reflect-101",
                                   "wrap",      "constant", "shrink"};
  return names[int(b)];
}

// Returns the index that a repeating border (reflect, reflect_101, wrap) shows at any i. Shifting i
// by whole periods moves it into [0, period).
constexpr int repeating_border_index(int i, int n, Border border) {
  const int period = border == Border::wrap      ? n
                     : border == Border::reflect ? 2 * n
                                                 : std::max(2 * n - 2, 1);
  i %= period;
  if (i < 0) i += period;
  if (i < n) return i;
  return border == Border::reflect ? period - 1 - i : period - i;
}

// Returns the index in [0, n) of the pixel that `border` shows at i, or -1 where it shows no pixel
// (constant, shrink). Device code calls it too.
constexpr int border_index(int i, int n, Border border) {
  if (unsigned(i) < unsigned(n)) return i;
  if (border == Border::replicate) return i < 0 ? 0 : n - 1;
  if (border == Border::constant || border == Border::shrink) return -1;
  // Most positions lie less than a frame outside, and these need no division.
  const int turn = border == Border::reflect ? 1 : 0, ends = i < 0 ? -turn : 2 * n - 2 + turn;
  const int near = border == Border::wrap ? (i < 0 ? i + n : i - n) : ends - i;
  if (unsigned(near) < unsigned(n)) return near;
  return repeating_border_index(i, n, border);
}

}  // namespace vf
