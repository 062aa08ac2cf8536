// Makes caps of the formats that have a layout, for pad templates, and refuses negotiated caps that
// cannot be filtered.
#pragma once

#include "gst/base/format.h"

// Tells whether an element takes a format that has a layout.
using GstCudaVideoFilterTakes = gboolean (*)(const GstVideoFormatInfo* format);

// Returns video/x-raw caps (a full reference), CUDA memory first, with the formats that GStreamer
// supports in each memory. A null `takes` takes all formats. The caps are empty if no format is
// left.
GstCaps* gst_cuda_video_filter_caps(GstCudaVideoFilterTakes takes);

namespace gstvf {

// Intersects `caps` (taken) with `filter` (may be null), in the order of `filter`. Returns a full
// reference.
GstCaps* filter_caps(GstCaps* caps, GstCaps* filter);

// Sets the metadata of an element. The texts must be static.
void set_metadata(GstElementClass* klass, const char* name, const char* classes, const char* text);
// Adds the template of a pad, and takes the caps.
void add_template(GstElementClass* klass, const char* name, GstPadDirection direction,
                  GstPadPresence presence, GstCaps* caps, GType type = GST_TYPE_PAD);
// Adds the templates of the always pads "sink" and "src", and takes the caps.
void add_templates(GstElementClass* klass, GstCaps* sink, GstCaps* src);
// Sets the metadata and adds the templates of a filter for these formats.
void describe_filter(GstElementClass* klass, const char* name, const char* text,
                     GstCudaVideoFilterTakes takes = nullptr);

// Fills `format` for video/x-raw caps. Returns false for other caps and for formats without a
// layout.
bool format_from_caps(const GstCaps* caps, Format* format);

// Tells the user why frames or tensors of this format cannot be filtered, and what to do. Returns
// null if they can. `interlaced` is true if the element takes interlaced frames.
const char* why_refused(const Format& format, bool interlaced);

}  // namespace gstvf
