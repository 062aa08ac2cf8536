// Each function tests one feature that every filter element has from the base class.
#pragma once

#include "tests/elements/harness.h"

namespace vf::test {

void enabled_cases(Suite& suite, const Element& element);
void stats_cases(Suite& suite, const Element& element);
void preset_cases(Suite& suite, const Element& element);
void lifetime_cases(Suite& suite, const Element& element);
void backend_cases(Suite& suite, const Element& element);

// Compares a frame with the reference's.
void expect(Case& c, const Element& e, const Row& row, const GstVideoInfo& info, GstBuffer* in,
            GstBuffer* got, int variant, bool fields = false);

}  // namespace vf::test
