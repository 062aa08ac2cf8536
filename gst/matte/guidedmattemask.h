// Reads the masks that networks left in the frames' metas, as segmentations and tensors
// (analytics.h), for cudaguidedmatte.
#pragma once

#include <gst/video/video.h>

#include <functional>
#include <string>
#include <vector>

#include "filters/guided.h"
#include "gst/base/frame.h"
#include "gst/matte/masktensor.h"

namespace gstvf {

// Says where the coarse matte comes from.
enum class MatteSource { alpha, chroma_key, segmentation, tensor };
enum class MaskMissing { opaque, transparent };

// Holds the properties that select the mask; `source` is the property `mask`.
struct MatteMaskSettings {
  static constexpr vf::Limits<int> kChannel{0, 4095};
  static constexpr vf::Limits<int> kHold{0, 3600 * 1000};

  MatteSource source = MatteSource::alpha;
  // These are names or indices of the regions, or numbers of the tensor's channels. If the text is
  // empty, all regions except the background count, or `channel`. Each may have the error of its
  // edge, as in "hair:24".
  std::string label;
  std::string tensor;  // id or index; empty: the first
  int channel = 0;     // channel of the tensor
  MaskActivation activation = MaskActivation::none;
  int hold_ms = 200;
  MaskMissing missing = MaskMissing::opaque;

  bool external() const {
    return source == MatteSource::segmentation || source == MatteSource::tensor;
  }
  // Returns the largest error of a label, or 0 if none has any.
  int label_error() const;
};

// Finds the masks of frames and holds the last one. Belongs to the streaming thread.
class MatteMasks {
 public:
  // Looks for the mask of a frame in `format` (all of its rows) at a running time, which may be
  // GST_CLOCK_TIME_NONE. Labels without an error have `mask_error`. Returns what is wrong with a
  // mask that was ignored, else an empty text.
  std::string take(GstBuffer* buffer, const MatteMaskSettings& settings, int mask_error,
                   const Format& format, GstClockTime time);
  // Takes a mask of one value instead, without looking at a frame.
  void use(MaskMissing mask, const Format& format);
  // Returns the nanoseconds from the frame of the mask to the last frame. They are 0 if it is the
  // same frame, or not known.
  GstClockTime age() const { return age_; }
  // Tells whether the last frame brought a mask of its own.
  bool found() const { return found_; }
  // Returns the mask for all rows of that frame, or for a field. It is valid until the next take().
  vf::CoarseMask mask(Rows rows);
  // Forgets the last mask: it does not hold for the frames that follow.
  void forget() { held_ = false; }

 private:
  // These numbers stand for the masks of frames that bring none.
  static constexpr uint64_t kOpaque = 1, kTransparent = 2;
  // Each reads a mask into next_. Returns false if there is none, or if it must be ignored.
  bool read_segmentations(GstBuffer* buffer, const MatteMaskSettings& settings,
                          const FramePlace& place);
  bool read_tensor(GstBuffer* buffer, const MatteMaskSettings& settings, const FramePlace& place,
                   const vf::MaskRectangle& frame);
  bool select(const SegmentationView& view, const std::string& labels);
  bool read_channels(const MatteMaskSettings& settings);
  bool add_segmentation(const SegmentationView& view, const FramePlace& place);
  // Sets what is wrong, and returns false.
  bool refuse(std::string problem);
  // Adds a part of width x height pixels and returns where to write them.
  uint8_t* add(int width, int height, const vf::MaskRectangle& image,
               const vf::MaskRectangle& counts);
  // Gives the last part errors. `fill` writes them, and writes 0 where the error of the nearest
  // other pixel applies.
  void add_errors(const std::function<void(uint8_t*)>& fill);
  // Returns the share of the largest error that a label's error is.
  uint8_t share_of(int label_error) const;
  // Returns room for as many bytes, which are kept for the next mask.
  uint8_t* room(size_t bytes);

  std::string problem_;
  // Holds the parts of a mask. Their pixels are kept for the next one.
  struct Parts {
    std::vector<vf::MaskPart> part;
    std::vector<std::vector<uint8_t>> pixels;
    size_t used = 0;
  };
  Parts next_, shown_;
  std::vector<vf::MaskPart> field_;
  std::vector<uint8_t> selected_;  // 255 for the numbers of selected regions
  std::vector<int> channels_;      // channels of the tensor that are the subject
  // If labels have errors, `largest_error_` is above 0, and these are the shares of it that the
  // selected regions have by their numbers, and the channels.
  std::vector<uint8_t> region_errors_, channel_errors_;
  std::vector<uint16_t> distances_;  // from a pixel to the nearest one that has an error
  int mask_error_ = 0, largest_error_ = 0;
  uint64_t id_ = kOpaque, last_id_ = kTransparent;
  bool held_ = false;
  GstClockTime time_ = GST_CLOCK_TIME_NONE, age_ = 0;
  bool found_ = false;
};

// Allows a repeated warning every ten seconds, and different ones every second.
class WarningLimit {
 public:
  bool allows(const std::string& text, gint64 now = g_get_monotonic_time());

 private:
  std::string last_;
  gint64 last_time_ = 0;
};

}  // namespace gstvf
