// Results of analytics (GstAnalyticsRelationMeta) at a letterbox. GStreamer can scale them, from
// 1.28 on also move them, but it rounds to the left of the picture in another way than within, and
// keeps the angle of a rotated box where width and height are scaled differently. Here both are to
// the nearest pixel on every version.
#pragma once

#include <gst/gst.h>

#include <vector>

#include "filters/letterbox.h"

namespace gstvf {

enum class MoveResults {
  all,    // or nothing, where there is a result that only GStreamer knows
  known,  // those of detectors, classifiers, trackers and segmentations
};

// Whether a meta has results of analytics.
bool is_results(const GstMeta* meta);

// Copies the results of a meta, and how they are related, to the end of those of `outbuf`. Boxes
// and masks are moved. `there` says where the first of them are in `outbuf` already, by their ids
// there. False, and nothing is done, where `meta` is another meta.
bool move_results(GstBuffer* outbuf, GstMeta* meta, const vf::LetterboxGeometry& geometry,
                  const std::vector<guint>& there, MoveResults which);

// The ids in `original`, in the order of `meta`, of the results that a letterbox moved from there
// to `moved`, and that `meta`, a later copy, still begins with.
std::vector<guint> results_there(GstBuffer* original, GstBuffer* moved, GstMeta* meta);

}  // namespace gstvf
