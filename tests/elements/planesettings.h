// What the tests of elements with gst/base/planesettings.h share.
#pragma once

#include <gst/controller/gstinterpolationcontrolsource.h>

#include <utility>

#include "tests/elements/harness.h"

namespace vf::test {

// Boxes for faults.cpp: where they overlap, a sample belongs to one of them.
inline std::vector<GstVideoRectangle> overlapping_regions() {
  return {{2, 2, 12, 10}, {8, 5, 14, 11}};
}

// How `make_filter`, a call of the library, makes the plan of some parameters.
template <auto make_filter, class Params>
Make maker(const Params& p) {
  return [p](Queue& queue, const gstvf::Format& format, Placement placement,
             std::unique_ptr<Plan>* out) {
    return make_filter(queue, format.layout, p, placement, out);
  };
}

// The parts of an element's entry that follow from that call, and from the parameters of a variant.
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

// Formats with every arrangement of planes that such elements take.
const std::vector<std::string>& plane_formats();

// What the library makes of one frame with these settings, each channel as it says.
BufferPtr directly(Case& c, const GstVideoInfo& info, GstBuffer* in, const Make& make);

// Pushes a frame, and compares what comes out to what the library makes of it.
void expect(Case& c, Bench& b, const GstVideoInfo& info, const BufferPtr& in, const Make& make);

// The defaults of border-color and planes; that these properties, and `own`, can change while
// playing; which borders there are.
void check_properties(Case& c, GstElement* element, const std::vector<const char*>& own,
                      const std::vector<const char*>& borders);

// A property of the element under control of `points`: each of `frames` is filtered with the value
// at its time, where the first value is one that changes nothing.
using Points = std::vector<std::pair<GstClockTime, double>>;
void check_controlled(Case& c, const Element& e, const char* property, GstInterpolationMode mode,
                      const Points& points, const Points& frames,
                      const std::function<Make(double value)>& make);

// Each value of planes filters these components, `make` says how, and leaves the others.
void check_planes(Case& c, const Element& e, const Make& make);

}  // namespace vf::test
