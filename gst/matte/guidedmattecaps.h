// Which formats the guided matte takes and gives.
//
// Frames with alpha come out in the format that they came in. Frames without alpha, for a mask that
// is not in their alpha, come out with alpha: the same colours with alpha where there is such a
// format, and YUV also as RGB.
#pragma once

#include <gst/video/video.h>

namespace gstvf {

// Whether there is room for a matte beside three colours.
bool has_matte(const GstVideoFormatInfo* format);
// For the pad templates.
gboolean guided_matte_sinks(const GstVideoFormatInfo* format);
gboolean guided_matte_sources(const GstVideoFormatInfo* format);

// Caps of the other pad for `caps` of the pad of `direction`. Frames without alpha come first or,
// where `alpha_first`, last, and conversions to RGB after all others.
GstCaps* guided_matte_caps(GstPadDirection direction, GstCaps* caps, bool alpha_first);

}  // namespace gstvf
