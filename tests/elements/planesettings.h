// Shares checks between the tests of elements with gst/base/planesettings.h.
#pragma once

#include <gst/controller/gstinterpolationcontrolsource.h>

#include <utility>

#include "tests/elements/harness.h"

namespace vf::test {

// Returns boxes for faults.cpp. Where they overlap, a sample belongs to one of them.
inline std::vector<GstVideoRectangle> overlapping_regions() {
  return {{2, 2, 12, 10}, {8, 5, 14, 11}};
}

// Wraps `make_filter`, a function of the library, for fixed parameters.
template <auto make_filter, class Params>
Make maker(const Params& p) {
  return [p](Queue& queue, const gstvf::Format& format, Placement placement,
             std::unique_ptr<Plan>* out) {
    return make_filter(queue, format.layout, p, placement, out);
  };
}

// Sets the fields of an element's entry that follow from that function and each variant's
// parameters.
template <auto make_filter, auto params>
void describe(Element* e) {
  e->make = [](Queue& queue, const gstvf::Format& format, int variant, Placement placement,
               std::unique_ptr<Plan>* out) {
    return make_filter(queue, format.layout, params(variant), placement, out);
  };
  e->make_component = [](Queue& queue, const Layout& layout, int variant,
                         std::unique_ptr<Plan>* out) {
    return make_filter(queue, layout, params(variant), Placement::separate, out);
  };
}

// Returns formats with every arrangement of planes that such elements take.
const std::vector<std::string>& plane_formats();

// Filters one frame with the library, each channel with the plan that `make` returns.
BufferPtr directly(Case& c, const GstVideoInfo& info, GstBuffer* in, const Make& make);

// Pushes a frame and compares the output with the library's result.
void expect(Case& c, Bench& b, const GstVideoInfo& info, const BufferPtr& in, const Make& make);

// Checks the defaults of border-color and planes, and the list of borders. Also checks that these
// properties and the element's other ones (`own`) can change in PLAYING.
void check_properties(Case& c, GstElement* element, const std::vector<const char*>& own,
                      const std::vector<const char*>& borders);

// Controls a property with `points`. Each of `frames` is filtered with the value at its time; the
// first value must change nothing.
using Points = std::vector<std::pair<GstClockTime, double>>;
void check_controlled(Case& c, const Element& e, const char* property, GstInterpolationMode mode,
                      const Points& points, const Points& frames,
                      const std::function<Make(double value)>& make);

// Checks for each value of planes that its components are filtered with `make`'s plan and the
// others are not changed.
void check_planes(Case& c, const Element& e, const Make& make);

}  // namespace vf::test
