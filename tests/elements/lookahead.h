// Declares the cases of regions that look ahead, and the steps that their scripts share with those
// of cudadenoise.
#pragma once

#include <string>

#include "tests/elements/harness.h"

namespace vf::test {

void look_ahead_cases(Suite& suite);

// Takes the step of a word that means the same in all scripts of frames that wait: "on", "off",
// "eos", "flush", "segment" or "drain". Other words do nothing.
void take_step(Bench& bench, const std::string& word);

}  // namespace vf::test
