// Parses and prints the text of a property that is one number or three: "0.5", "0.485,0.456,0.406",
// also in the angle brackets of GStreamer's arrays.
//
// The property is text because every language and gst-launch-1.0 can set text. GStreamer's own
// arrays need brackets in launch lines, without saying so, and an overlay in Python. If a program
// sets an array anyway, GLib turns it into text with six decimal places.
#pragma once

#include <gst/gst.h>

#include <string>

namespace gstvf {

// `count` is how many numbers the text has, and `value` the first three. A value is NaN if its text
// is no number.
struct Numbers {
  guint count = 1;
  double value[3] = {};
  double operator[](int i) const { return value[count == 1 ? 0 : i]; }
};
bool operator!=(const Numbers& a, const Numbers& b);

// Parses any text; null counts as empty.
Numbers parse_numbers(const char* text);
// Prints as few digits as give the same numbers again.
std::string print_numbers(const Numbers& numbers);

}  // namespace gstvf
