#include "filters/foo.h"

#include "tests/elements/planesettings.h"
#include "tests/foo.h"

namespace vf::test {

extern const Element foo_element;

namespace {

FooParams sharpen(double strength) {
  FooParams p;
  p.strength = strength;
  return p;
}

FooParams params(int variant) {
  return sharpen(variant == 1 ? 2 : 0.5);
}

void set(GstElement* element, int variant) {
  g_object_set(element, "strength", params(variant).strength, nullptr);
}

void set_identity(GstElement* element) {
  g_object_set(element, "strength", 0.0, nullptr);
}

void cases(Suite& s) {
  const std::string at = "cudafoo/";
  s.run(at + "controlled strength", [](Case& c) {
    const Points points = {{0, 0}, {GST_SECOND, 0.5}, {2 * GST_SECOND, 2}};
    check_controlled(c, foo_element, "strength", GST_INTERPOLATION_MODE_NONE, points, points,
                     [](double strength) { return maker<make_foo>(sharpen(strength)); });
  });
  s.run(at + "planes", [](Case& c) { check_planes(c, foo_element, maker<make_foo>(FooParams())); });
}

}  // namespace

extern const Element foo_element = [] {
  Element e;
  e.name = "cudafoo";
  e.own_cases = cases;
  e.changes = {{"strength", {"0.5", "2", "0", "1"}, {}, {"I420", "RGBA", "NV12", "P010_10LE"}, {}}};
  e.faults = {{{{"strength", "1"}}, {"RGBA", "I420"}, {"RGBA", "I420"}}};
  e.set = set;
  e.set_identity = set_identity;
  describe<make_foo, params>(&e);
  e.tolerance = int(foo_contract(Type::u8).absolute);
  e.formats = plane_formats();
  return e;
}();

}  // namespace vf::test
