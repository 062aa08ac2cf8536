// GstBuffers as images of the filter library.
#pragma once

#include <memory>
#include <vector>

#include "filters/queue.h"
#include "gst/base/cudacompat.h"
#include "gst/base/format.h"

namespace gstvf {

// A part of the rows of a frame.
enum class Rows : uint8_t { all, top_field, bottom_field };

// Whether the memory that `meta` (may be null) describes holds more than a frame of this size,
// which is then a part of it.
inline bool is_part(const GstVideoMeta* meta, int width, int height) {
  return meta && (meta->width > guint(width) || meta->height > guint(height));
}

// Where the frame of `format` lies in what a buffer's GstVideoMeta describes: at (x, y) of an image
// of width x height pixels. It is a part of it where a GstVideoCropMeta says so, and else all.
struct FramePlace {
  int x = 0, y = 0, width = 0, height = 0;
  bool cropped = false;
};
FramePlace place_of(const Format& format, GstBuffer* buffer);

// A buffer mapped for as long as this lives, with its true strides and offsets: those of its
// GstVideoMeta, else of its CUDA memory, else of the caps.
//
// Where the GstVideoMeta is larger than the caps and a GstVideoCropMeta says which part of it the
// caps speak of, the image is that part.
class MappedFrame {
 public:
  MappedFrame() = default;
  ~MappedFrame() { unmap(); }
  MappedFrame(const MappedFrame&) = delete;
  MappedFrame& operator=(const MappedFrame&) = delete;

  // Maps as host memory, or, where `device`, as CUDA memory, which the buffer must consist of: then
  // the caller's queue follows what still uses it (handover.h). `flags` are of GST_MAP_READWRITE.
  // Refuses buffers too small for their planes.
  vf::Status map(const Format& format, GstBuffer* buffer, GstMapFlags flags, bool device);
  // Before the end of its life. May be mapped again.
  void unmap();

  vf::Image image(Rows rows) const;
  // Rows of each plane of memory.
  guint8* data(int gst_plane) const { return data_[gst_plane]; }
  ptrdiff_t stride(int gst_plane) const { return stride_[gst_plane]; }
  // Whether the image is a part that a GstVideoCropMeta names.
  bool cropped() const { return cropped_; }
  // Whether the GPU can copy from and to it by itself (see pinned.h).
  bool pinned() const { return pinned_; }
  // The CUDA memory that is mapped; null for host memory.
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

// The image of `format` (all rows or a field) with planes of memory at `data`.
vf::Image make_image(const Format& format, Rows rows, vf::Memory memory,
                     guint8* const data[GST_VIDEO_MAX_PLANES],
                     const ptrdiff_t stride[GST_VIDEO_MAX_PLANES]);

// Device memory that stands in for a frame in host memory. Frames in pinned memory are copied by
// the GPU alone; others pass through pinned memory of the stage's own, which costs the host a copy:
// band by band, so that the GPU copies one while the host copies the next.
class Stage {
 public:
  // Allocates for `format`. The queue, which does the copying, must outlive the stage.
  vf::Status prepare(vf::Queue& queue, const Format& format);
  bool ready() const { return device_.data(); }
  void reset();

  // Enqueues the upload of a frame, which stays mapped until that is done. The last upload or
  // download of this stage must be done. `host` is a queue of the CPU backend for the host's
  // copies; frames in pinned memory need none.
  vf::Status upload(const MappedFrame& frame, vf::Queue* host);
  vf::Image image(Rows rows) const;
  // Enqueues the download to a frame, which stays mapped until finish_download() has waited for
  // what the host copies.
  vf::Status download(const MappedFrame& frame);
  vf::Status finish_download(const MappedFrame& frame, vf::Queue* host) const;

 private:
  vf::Status prepare_host();
  // Calls f(band, plane, first row, rows, offset in the stage) for all bands.
  template <class F>
  vf::Status for_bands(F&& f) const;
  vf::Queue* queue_ = nullptr;
  const Format* format_ = nullptr;
  vf::Allocation host_, device_;  // the same bytes; the host's only where a frame needed it
  size_t size_ = 0, row_[GST_VIDEO_MAX_PLANES] = {}, start_[GST_VIDEO_MAX_PLANES] = {};
  int rows_[GST_VIDEO_MAX_PLANES] = {};
  ptrdiff_t stride_[GST_VIDEO_MAX_PLANES] = {};
  std::vector<std::unique_ptr<vf::Event>> downloaded_;  // by band
};

}  // namespace gstvf
