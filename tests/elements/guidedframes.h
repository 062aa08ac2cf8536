// What the tests of cudaguidedmatte compare its frames with.
#pragma once

#include <vector>

#include "filters/guided.h"
#include "tests/elements/harness.h"

namespace vf::test {

// The library's parameters for the element's, and colours in a format's code values.
GuidedParams params_of(const GstVideoInfo& info);
// Gives them to the element.
void set(GstElement* element, const GuidedParams& params);

// Compares `got` with what the reference makes of frames, one after the other, with settings of its
// own each and a mask beside all of them: of the last one. `slack` is in code values.
void expect(Case& c, const GstVideoInfo& info, const std::vector<BufferPtr>& in,
            const GstVideoInfo& info_out, GstBuffer* got, const std::vector<GuidedParams>& params,
            const CoarseMask& mask = {}, int slack = 0);

// Masks beside the frames.
void guided_mask_cases(Suite& suite, const std::string& at);

}  // namespace vf::test
