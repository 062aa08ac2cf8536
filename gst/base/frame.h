// Shows GstBuffers to the filter library as images.
#pragma once

#include <memory>
#include <vector>

#include "filters/queue.h"
#include "gst/base/cudacompat.h"
#include "gst/base/format.h"

namespace gstvf {

// Names the rows of a frame that an image has.
enum class Rows : uint8_t { all, top_field, bottom_field };

// Tells whether the memory that `meta` (may be null) describes is larger than a frame of this size,
// so that the frame is a part of it.
inline bool is_part(const GstVideoMeta* meta, int width, int height) {
  return meta && (meta->width > guint(width) || meta->height > guint(height));
}

// Says where the frame of `format` lies in the image that a buffer's GstVideoMeta describes: at (x,
// y) of an image of width x height pixels. The frame is a part of the image if a GstVideoCropMeta
// says so, and else all of it.
struct FramePlace {
  int x = 0, y = 0, width = 0, height = 0;
  bool cropped = false;
};
FramePlace place_of(const Format& format, GstBuffer* buffer);

// Maps a buffer for its lifetime and knows the true strides and offsets: those of the GstVideoMeta,
// else of the CUDA memory, else of the caps.
//
// If the GstVideoMeta is larger than the caps and a GstVideoCropMeta names the part that the caps
// describe, the image is that part.
class MappedFrame : vf::NoCopy {
 public:
  ~MappedFrame() { unmap(); }

  // Maps as host memory or, if `device`, as CUDA memory, which the buffer must consist of. The
  // caller's queue must then wait for the work that still uses the memory (handover.h). `flags` are
  // some of GST_MAP_READWRITE. Fails for buffers that are too small for their planes.
  vf::Status map(const Format& format, GstBuffer* buffer, GstMapFlags flags, bool device);
  // Unmaps early. The object may be mapped again.
  void unmap();

  vf::Image image(Rows rows) const;
  // Return the first row and the stride in bytes of a plane of memory.
  guint8* data(int gst_plane) const { return data_[gst_plane]; }
  ptrdiff_t stride(int gst_plane) const { return stride_[gst_plane]; }
  // Tells whether the image is the part that a GstVideoCropMeta names.
  bool cropped() const { return cropped_; }
  // Tells whether the GPU can copy from and to the memory by itself (pinned.h).
  bool pinned() const { return pinned_; }
  // Returns the CUDA memory that is mapped, or null for host memory.
  GstMemory* device_memory() const { return device_ && maps_ ? map_[0].memory : nullptr; }

 private:
  vf::Status map_planes(GstMapFlags flags);
  const Format* format_ = nullptr;
  GstBuffer* buffer_ = nullptr;
  GstVideoMeta* meta_ = nullptr;
  int maps_ = 0;
  bool per_plane_ = false, device_ = false, cropped_ = false, pinned_ = false;
  GstMapInfo map_[GST_VIDEO_MAX_PLANES];
  guint8* data_[GST_VIDEO_MAX_PLANES] = {};
  ptrdiff_t stride_[GST_VIDEO_MAX_PLANES] = {};
};

// Returns the image of `format` (all rows or a field) whose planes of memory start at `data`.
vf::Image make_image(const Format& format, Rows rows, vf::Memory memory,
                     guint8* const data[GST_VIDEO_MAX_PLANES],
                     const ptrdiff_t stride[GST_VIDEO_MAX_PLANES]);

// Holds a copy of a host frame in device memory. The GPU copies frames in pinned memory by itself.
// Other frames pass through pinned memory of the stage, band by band: the GPU copies one band while
// the host copies the next.
class Stage {
 public:
  // Allocates for `format`. The queue does the copying and must outlive the stage.
  vf::Status prepare(vf::Queue& queue, const Format& format);
  bool ready() const { return device_.data(); }
  void reset();

  // Enqueues the upload of a frame, which must stay mapped until the upload is done. The previous
  // upload or download of this stage must be done. `host` is a queue of the CPU backend that makes
  // the host's copies; frames in pinned memory need none.
  vf::Status upload(const MappedFrame& frame, vf::Queue* host);
  vf::Image image(Rows rows) const;
  // Enqueues the download to a frame. The frame must stay mapped until finish_download() has copied
  // what the host copies.
  vf::Status download(const MappedFrame& frame);
  vf::Status finish_download(const MappedFrame& frame, vf::Queue* host) const;

 private:
  vf::Status prepare_host();
  // Calls f(band, plane, first row, rows, offset in the stage) for each band.
  template <class F>
  vf::Status for_bands(F&& f) const;
  vf::Queue* queue_ = nullptr;
  const Format* format_ = nullptr;
  vf::Allocation host_, device_;  // both hold the frame's bytes; host_ is empty until needed
  size_t size_ = 0, row_[GST_VIDEO_MAX_PLANES] = {}, start_[GST_VIDEO_MAX_PLANES] = {};
  int rows_[GST_VIDEO_MAX_PLANES] = {};
  ptrdiff_t stride_[GST_VIDEO_MAX_PLANES] = {};
  std::vector<std::unique_ptr<vf::Event>> downloaded_;  // one for each band
};

}  // namespace gstvf
