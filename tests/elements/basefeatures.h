// Each function tests one feature that every filter element has from the base class.
#pragma once

#include "tests/elements/harness.h"

namespace vf::test {

void enabled_cases(Suite& suite, const Element& element);
void stats_cases(Suite& suite, const Element& element);
void preset_cases(Suite& suite, const Element& element);

}  // namespace vf::test
