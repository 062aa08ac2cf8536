// One number or three, as the text of a property: "0.5", "0.485,0.456,0.406", also in the angle
// brackets of GStreamer's arrays.
//
// Text, as every language and gst-launch-1.0 can set it. GStreamer's own type for arrays needs
// brackets in launch lines, without saying so, and an overlay in Python. An array that is set all
// the same becomes text in GLib's way, with six decimal places.
#pragma once

#include <gst/gst.h>

#include <string>

namespace gstvf {

// `count` and the values of up to three are what was given; a value is NaN where it was no number.
struct Numbers {
  guint count = 1;
  double value[3] = {};
  double operator[](int i) const { return value[count == 1 ? 0 : i]; }
};
bool operator!=(const Numbers& a, const Numbers& b);

// Of any text, or null.
Numbers parse_numbers(const char* text);
// As few digits as give the same numbers again.
std::string print_numbers(const Numbers& numbers);

}  // namespace gstvf
