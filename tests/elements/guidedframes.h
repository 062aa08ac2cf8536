// Compares frames of cudaguidedmatte with the reference.
#pragma once

#include <vector>

#include "filters/guided.h"
#include "tests/elements/harness.h"

namespace vf::test {

// Returns the library's parameters for the element's settings, with colours in the format's code
// values.
GuidedParams params_of(const GstVideoInfo& info);
// Sets the element's properties from the parameters.
void set(GstElement* element, const GuidedParams& params);

// Runs the reference on the frames in order, with different settings for each and the same mask for
// all, and compares `got` with the result of the last one. `slack` is in code values.
void expect(Case& c, const GstVideoInfo& info, const std::vector<BufferPtr>& in,
            const GstVideoInfo& info_out, GstBuffer* got, const std::vector<GuidedParams>& params,
            const CoarseMask& mask = {}, int slack = 0);

// Runs the cases for masks that are attached to frames.
void guided_mask_cases(Suite& suite, const std::string& at);

}  // namespace vf::test
