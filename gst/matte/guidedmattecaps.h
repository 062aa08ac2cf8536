// Which formats the guided matte takes and gives.
//
// Frames with alpha come out in the format that they came in. Frames without alpha, for a mask that
// is not in their alpha, come out with alpha: the same colours with alpha where there is such a
// format, and YUV also as RGB. A composite also comes out in the format that came in without alpha,
// in others of the same depth and subsampling, and YUV as RGB without alpha.
#pragma once

#include <gst/base/gstbasetransform.h>
#include <gst/video/video.h>

#include <string>

namespace gstvf {

// What decides about the formats.
struct MatteCaps {
  bool alpha_first = false;  // the mask is in the frames' alpha
  bool composes = false;
  // The background of the composite shows what is behind it: formats with alpha are preferred.
  bool translucent = false;
};

// Whether there is room for a matte beside three colours.
bool has_matte(const GstVideoFormatInfo* format);
// For the pad templates.
gboolean guided_matte_formats(const GstVideoFormatInfo* format);

// Caps of the other pad of `trans` for `caps` of the pad of `direction`. Frames that come in
// without alpha come first or, where `alpha_first`, last, and conversions to RGB after all others.
// Composites come out first in the format that came in.
GstCaps* guided_matte_caps(GstBaseTransform* trans, GstPadDirection direction, GstCaps* caps,
                           const MatteCaps& wanted);

// The format of the frames of a pad that have no alpha; null where they have one, or there are no
// caps.
const char* format_without_alpha(GstCaps* caps);
const char* format_without_alpha(GstPad* pad);

// Why the frames that `trans` gets now cannot come out as `wanted`; empty if they can.
std::string why_no_caps(GstBaseTransform* trans, const MatteCaps& wanted);

}  // namespace gstvf
