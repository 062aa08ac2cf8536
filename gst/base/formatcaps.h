// Caps of the formats that have a layout: pad templates, and which negotiated caps are refused.
#pragma once

#include "gst/base/format.h"

// Which formats an element takes, of those that have a layout.
using GstCudaVideoFilterTakes = gboolean (*)(const GstVideoFormatInfo* format);

// video/x-raw caps, CUDA memory first, of the formats that GStreamer can have in each memory. A
// null `takes` takes all. Full reference; empty caps where there is no such format.
GstCaps* gst_cuda_video_filter_caps(GstCudaVideoFilterTakes takes);

namespace gstvf {

// What of `caps` (taken) `filter` (may be null) allows, in the filter's order. Full reference.
GstCaps* filter_caps(GstCaps* caps, GstCaps* filter);

// Adds the templates of always pads "sink" and "src" for these formats.
void add_templates(GstElementClass* klass, GstCudaVideoFilterTakes sink,
                   GstCudaVideoFilterTakes src);

// Fills `format` for video/x-raw caps. False for others, and for formats without a layout.
bool format_from_caps(const GstCaps* caps, Format* format);

// Why frames or tensors of this format cannot be filtered, and what to do, for the user; null if
// they can. `interlaced`: whether the element takes interlaced frames.
const char* why_refused(const Format& format, bool interlaced);

}  // namespace gstvf
