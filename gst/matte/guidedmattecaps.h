// Decides which formats the guided matte takes and gives.
//
// Frames with alpha come out in the format that they came in. Frames without alpha need a mask from
// elsewhere, and come out with alpha: in a format with the same colours and alpha if there is one,
// and YUV also as RGB. A composite may also come out without alpha: in the format that came in, in
// others of the same depth and subsampling, and YUV as RGB.
#pragma once

#include <gst/base/gstbasetransform.h>
#include <gst/video/video.h>

#include <string>

namespace gstvf {

// Holds the settings that decide about the formats.
struct MatteCaps {
  bool alpha_first = false;  // the mask is in the frames' alpha, so formats with alpha come first
  bool composes = false;     // the output is a composite
  // The composite's background is translucent, so formats with alpha come first.
  bool translucent = false;
};

// Tells whether the pad templates have a format.
gboolean guided_matte_formats(const GstVideoFormatInfo* format);

// Returns the caps of the other pad of `trans` for `caps` of the pad of `direction`. Formats
// without alpha come first or, if `alpha_first`, last; conversions to RGB come after all others. A
// composite prefers the format that came in.
GstCaps* guided_matte_caps(GstBaseTransform* trans, GstPadDirection direction, GstCaps* caps,
                           const MatteCaps& wanted);

// Returns the name of the format if its frames have no alpha. Returns null if they have, or if
// there are no caps.
const char* format_without_alpha(GstCaps* caps);
const char* format_without_alpha(GstPad* pad);

// Says why the frames that `trans` gets now cannot come out as `wanted`. Returns an empty text if
// they can.
std::string why_no_caps(GstBaseTransform* trans, const MatteCaps& wanted);

}  // namespace gstvf
