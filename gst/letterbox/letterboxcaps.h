// Caps of the letterbox: what it makes of which frames, video or tensors, and of which size.
//
// Tensors have the caps of NNStreamer: other/tensors, format=static, num_tensors=1, types=float32,
// float16 or uint8, dimensions=W:H:3:1 (NCHW) or 3:W:H:1 (NHWC).
#pragma once

#include <string>

#include "filters/letterbox.h"
#include "gst/base/format.h"

namespace gstvf {

// Caps of all video and of tensors, each in CUDA memory and in system memory. Full reference.
GstCaps* letterbox_source_caps();

// What can be on the other pad, whose template has `all`, for `caps`: anything, at the same frame
// rate, in the same memory first. Full reference.
GstCaps* letterbox_caps(GstCaps* caps, GstCaps* all);

bool is_tensor(const GstCaps* caps);
// Fills `format` for caps of a tensor. False where they cannot be.
bool tensor_from_caps(const GstCaps* caps, Format* format);
// Why the letterbox cannot make these caps, for the user; empty where it can, and `format` is what
// they describe.
std::string why_no_letterbox(const GstCaps* outcaps, const Format& format, bool described);

// The size that a letterbox's geometry starts from: larger than the output where a stride lets it
// end before.
struct LetterboxTarget {
  int width = 0, height = 0;
  // The picture keeps its size: the target is the source's, padded.
  bool keeps_size = false;
};

// Fixes `othercaps` (taken) of the source pad for frames of `caps`, and says which target their
// size came from, if a stride did. Where tensors may be in either memory, they are in CUDA memory
// if `on_cuda`. Full reference.
GstCaps* letterbox_fixate(GstCaps* caps, GstCaps* othercaps, bool on_cuda,
                          const vf::LetterboxParams& params, LetterboxTarget* target);

// Where the picture goes in `out`. `params` comes with the settings, and leaves with what the
// geometry was computed from: pixel_aspect of both formats, and stride and scale_up as far as
// `target` holds for this output.
vf::Status letterbox_place(const Format& in, const Format& out, const LetterboxTarget& target,
                           vf::LetterboxParams* params, vf::LetterboxGeometry* geometry);

}  // namespace gstvf
