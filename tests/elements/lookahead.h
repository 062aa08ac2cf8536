// Cases of frames that wait for later ones: the table of the look-ahead of regions.
#pragma once

#include "tests/elements/harness.h"

namespace vf::test {

void look_ahead_cases(Suite& suite);

}  // namespace vf::test
