// Masks of cudaguidedmatte that come beside the frames: segmentations and tensors that networks
// left in metas (analytics.h), as the filter library takes them.
#pragma once

#include <gst/video/video.h>

#include <string>
#include <vector>

#include "filters/guided.h"
#include "gst/base/frame.h"
#include "gst/matte/masktensor.h"

namespace gstvf {

// Where the coarse matte comes from.
enum class MatteSource { alpha, chroma_key, segmentation, tensor };
enum class MaskMissing { opaque, transparent };

// The properties that say which mask, beside `mask` itself.
struct MatteMaskSettings {
  static constexpr vf::Limits<int> kChannel{0, 4095};
  static constexpr vf::Limits<int> kHold{0, 3600 * 1000};

  MatteSource source = MatteSource::alpha;
  std::string label;   // name or index of the regions; empty: all but the background
  std::string tensor;  // id or index; empty: the first
  int channel = 0;     // of the tensor
  MaskActivation activation = MaskActivation::none;
  int hold_ms = 200;
  MaskMissing missing = MaskMissing::opaque;

  bool external() const {
    return source == MatteSource::segmentation || source == MatteSource::tensor;
  }
  // Installs all but `mask`, from class_init.
  static void install(GObjectClass* klass, MatteMaskSettings* (*settings_of)(GObject*));
};

// Finds the masks of frames and holds the last one. Belongs to the streaming thread.
class MatteMasks {
 public:
  // Looks for the mask of a frame in `format` (all of its rows) at a running time, which may be
  // GST_CLOCK_TIME_NONE. What is wrong with one that was ignored; else empty.
  std::string take(GstBuffer* buffer, const MatteMaskSettings& settings, const Format& format,
                   GstClockTime time);
  // Takes a mask of one value instead, without a look at a frame.
  void use(MaskMissing mask, const Format& format);
  // Nanoseconds from the frame of the mask to the last frame; 0 where it is the same, or not known.
  GstClockTime age() const { return age_; }
  // Whether the last frame brought a mask of its own.
  bool found() const { return found_; }
  // The mask for all rows of that frame or for a field, until the next call.
  vf::CoarseMask mask(Rows rows);
  // The mask before is of no frame that follows.
  void forget() { held_ = false; }

 private:
  // Masks of these numbers are for frames without one.
  static constexpr uint64_t kOpaque = 1, kTransparent = 2;
  // Each reads into next_, and is false where there is no mask, or one to be ignored.
  bool read_segmentations(GstBuffer* buffer, const MatteMaskSettings& settings,
                          const FramePlace& place);
  bool read_tensor(GstBuffer* buffer, const MatteMaskSettings& settings, const FramePlace& place,
                   const vf::MaskRectangle& frame);
  bool select(const SegmentationView& view, const std::string& label);
  bool add_segmentation(const SegmentationView& view, const FramePlace& place);
  // Sets what is wrong; false.
  bool refuse(std::string problem);
  // A part of width x height pixels, whose rows are to be written.
  uint8_t* add(int width, int height, const vf::MaskRectangle& image,
               const vf::MaskRectangle& counts);

  std::string problem_;
  // Parts of the mask that is read, and of that which is shown; their pixels, kept for the next.
  struct Parts {
    std::vector<vf::MaskPart> part;
    std::vector<std::vector<uint8_t>> pixels;
    size_t used = 0;
  };
  Parts next_, shown_;
  std::vector<vf::MaskPart> field_;
  std::vector<uint8_t> selected_;  // by the number of a region
  uint64_t id_ = kOpaque, last_id_ = kTransparent;
  bool held_ = false;
  GstClockTime time_ = GST_CLOCK_TIME_NONE, age_ = 0;
  bool found_ = false;
};

// Lets a warning that comes back at every frame through every ten seconds, and others every second.
class WarningLimit {
 public:
  bool allows(const std::string& text);

 private:
  std::string last_;
  gint64 last_time_ = 0;
};

}  // namespace gstvf
