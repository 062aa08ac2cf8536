// Moves results of analytics (GstAnalyticsRelationMeta) at a letterbox. GStreamer can scale them,
// and from 1.28 on also move them. But it rounds differently left of the picture than within it,
// and keeps the angle of a rotated box even if width and height are scaled differently. Here
// everything is rounded to the nearest pixel, with every version.
#pragma once

#include <gst/gst.h>

#include <vector>

#include "filters/letterbox.h"

namespace gstvf {

enum class MoveResults {
  all,    // all results, or none if there is one that only GStreamer knows
  known,  // results of detectors, classifiers, trackers and segmentations
};

// Tells whether a meta has results of analytics.
bool is_results(const GstMeta* meta);

// Adds the results of a meta, and their relations, to those of `outbuf`. Moves boxes and masks.
// `there` lists, by their ids in `outbuf`, the first of the results that are already there. Does
// nothing and returns false if `meta` is another meta.
bool move_results(GstBuffer* outbuf, GstMeta* meta, const vf::LetterboxGeometry& geometry,
                  const std::vector<guint>& there, MoveResults which);

// Returns the ids in `original`, in the order of `meta`, of the results that a letterbox moved from
// there to `moved` and that `meta`, a later copy, still begins with.
std::vector<guint> results_there(GstBuffer* original, GstBuffer* moved, GstMeta* meta);

}  // namespace gstvf
