// Negotiates the caps of the letterbox: which video or tensors it makes of frames, and of which
// size.
//
// Tensors have the caps of NNStreamer: other/tensors, format=static, num_tensors=1, types=float32,
// float16 or uint8, dimensions=W:H:3:1 (NCHW) or 3:W:H:1 (NHWC).
#pragma once

#include <string>

#include "filters/letterbox.h"
#include "gst/base/format.h"

namespace gstvf {

// Returns caps (a full reference) of all video and of tensors, each in CUDA memory and in system
// memory.
GstCaps* letterbox_source_caps();

// Returns the caps (a full reference) that the other pad, whose template is `all`, can have for
// `caps`: everything at the same frame rate, the same memory first.
GstCaps* letterbox_caps(GstCaps* caps, GstCaps* all);

// Holds what caps of a batch of tensors say.
struct BatchShape {
  Format row;  // one of its tensors
  int rows = 0;
};
// Returns caps (a full reference) of batches: tensors in CUDA memory and in system memory.
GstCaps* batch_caps();
// Takes `caps` and returns them fixated for batches. If they name no dimensions, there are `rows`
// tensors of width x height pixels. Batches that may be in either memory are in CUDA memory if
// `on_cuda`. Returns a full reference.
GstCaps* batch_fixate(GstCaps* caps, bool on_cuda, int width, int height, int rows);
// Fills `shape` for fixed caps. Returns an empty text, or tells the user why no such batch can be
// made. `rows` is the property batch-size (0: any).
std::string parse_batch(const GstCaps* caps, int rows, BatchShape* shape);

bool is_tensor(const GstCaps* caps);
// Fills `format` for caps of a tensor. Returns false if the caps describe no tensor that can be
// made.
bool tensor_from_caps(const GstCaps* caps, Format* format);
// Tells the user why the letterbox cannot make these caps. Returns an empty text if it can; then
// `format` is what they describe.
std::string why_no_letterbox(const GstCaps* outcaps, const Format& format, bool described);

// Holds the size that the geometry is computed for. With a stride, the output may be smaller.
struct LetterboxTarget {
  int width = 0, height = 0;
  // The picture keeps its size: the target is the size of the source, padded.
  bool keeps_size = false;
};

// Fixates `othercaps` (taken) of the source pad for frames of `caps`. `*target` tells which target
// their size came from, if a stride is set. If tensors may be in either memory, they are in CUDA
// memory if `on_cuda`. Returns a full reference.
GstCaps* letterbox_fixate(GstCaps* caps, GstCaps* othercaps, bool on_cuda,
                          const vf::LetterboxParams& params, LetterboxTarget* target);

// Computes where the picture goes in `out`. `params` holds the settings on entry. On return it
// holds what the geometry was computed from: pixel_aspect of both formats, and stride and scale_up
// as far as `target` applies to this output.
vf::Status letterbox_place(const Format& in, const Format& out, const LetterboxTarget& target,
                           vf::LetterboxParams* params, vf::LetterboxGeometry* geometry);

}  // namespace gstvf
