#include "gst/base/frame.h"

#include <algorithm>
#include <cstring>

#include "filters/row_copy.h"
#include "gst/base/handover.h"
#include "gst/base/pinned.h"

namespace gstvf {

using vf::Code;
using vf::Status;

// A meta may hold any number as its format.
static const char* name_of(GstVideoFormat format) {
  const char* name =
      format == GST_VIDEO_FORMAT_UNKNOWN ? nullptr : gst_video_format_to_string(format);
  return name ? name : "an unknown format";
}

FramePlace place_of(const Format& format, GstBuffer* buffer) {
  FramePlace place = {0, 0, format.width, format.height, false};
  const GstVideoMeta* meta = format.is_video() ? gst_buffer_get_video_meta(buffer) : nullptr;
  if (!is_part(meta, format.width, format.height)) return place;
  const GstVideoCropMeta* crop = gst_buffer_get_video_crop_meta(buffer);
  if (!crop || crop->width != guint(format.width) || crop->height != guint(format.height) ||
      meta->width < crop->width || meta->height < crop->height ||
      crop->x > meta->width - crop->width || crop->y > meta->height - crop->height)
    return place;
  // The position is rounded to whole samples of chroma.
  int sub_x = 0, sub_y = 0;
  for (int i = 0; i < format.layout.planes; i++) {
    sub_x = std::max(sub_x, format.layout.plane[i].sub_x);
    sub_y = std::max(sub_y, format.layout.plane[i].sub_y);
  }
  place.x = int(crop->x >> sub_x << sub_x);
  place.y = int(crop->y >> sub_y << sub_y);
  place.width = int(meta->width);
  place.height = int(meta->height);
  place.cropped = true;
  return place;
}

void MappedFrame::unmap() {
  for (int i = 0; i < maps_; i++) {
    if (per_plane_)
      gst_video_meta_unmap(meta_, i, &map_[i]);
    else
      gst_buffer_unmap(buffer_, &map_[i]);
  }
  maps_ = 0;
  per_plane_ = cropped_ = pinned_ = false;
}

Status MappedFrame::map(const Format& format, GstBuffer* buffer, GstMapFlags flags, bool device) {
  unmap();
  format_ = &format;
  buffer_ = buffer;
  device_ = device;
  meta_ = format.is_video() ? gst_buffer_get_video_meta(buffer) : nullptr;
  if (meta_ && (meta_->format != GST_VIDEO_INFO_FORMAT(&*format.video) ||
                meta_->n_planes != GST_VIDEO_INFO_N_PLANES(&*format.video) ||
                meta_->width < guint(format.width) || meta_->height < guint(format.height)))
    return Status::invalid("a buffer's video meta says %s %ux%u, but its caps say %s %dx%d",
                           name_of(meta_->format), meta_->width, meta_->height, format.name(),
                           format.width, format.height);
  VF_TRY(map_planes(flags));
  // For a buffer of several memories the mapping is a copy, which is not pinned.
  pinned_ = maps_ > 0;
  for (int i = 0; i < maps_; i++) pinned_ &= map_[i].memory && is_pinned(map_[i].memory);

  // Steps to the part of the image that is the frame.
  const FramePlace place = place_of(format, buffer);
  const guint x = guint(place.x), y = guint(place.y);
  cropped_ = place.cropped;
  const vf::Layout& layout = format.layout;
  const int size = vf::size_of(layout.type);
  // Metas and memories may be too small: a pointer moves only after the sum is known to stay in the
  // memory.
  size_t step[GST_VIDEO_MAX_PLANES] = {};
  bool moved[GST_VIDEO_MAX_PLANES] = {};
  for (int i = 0; i < layout.planes; i++) {
    const vf::PlaneLayout& p = layout.plane[i];
    const int m = format.memory_plane[i];
    const GstMapInfo& map = map_[per_plane_ ? m : 0];
    const ptrdiff_t row = ptrdiff_t(format.offset[i] + vf::row_bytes(layout, i));
    const int rows = std::max(p.height, format.field_rows[i]);
    if (stride_[m] < row)
      return Status::invalid(
          "plane %d of a buffer has a stride of %td bytes, and needs %td or more", m, stride_[m],
          row);
    if (!moved[m])
      step[m] = size_t(y >> p.sub_y) * stride_[m] + size_t(x >> p.sub_x) * p.pixel_step() * size;
    moved[m] = true;
    const size_t first = size_t(data_[m] - map.data) + step[m];
    const size_t need = first + size_t(stride_[m]) * (rows - 1) + row;
    if (need > map.size)
      return Status::invalid(
          "a buffer is too small: %s %dx%d with these strides needs %zu bytes for "
          "plane %d, the memory has %zu",
          format.name(), format.width, format.height, need, m, size_t(map.size));
  }
  for (int m = 0; m < format.memory_planes; m++) data_[m] += step[m];
  return {};
}

Status MappedFrame::map_planes(GstMapFlags flags) {
  const auto all_flags = GstMapFlags(flags | (device_ ? kMapCuda | kMapFollowed : 0));
  // A failed mapping of CUDA memory may be the fault of the device, any other one of the buffer.
  const Status failed =
      Status::error(cuda_memory(buffer_) ? Code::device_error : Code::invalid_argument,
                    "a buffer could not be mapped for %s in %s memory",
                    flags == GST_MAP_READ    ? "reading"
                    : flags == GST_MAP_WRITE ? "writing"
                                             : "reading and writing",
                    device_ ? "CUDA" : "host");
  const int planes = format_->memory_planes;
  // CUDA memory is a single memory, and may have no video meta.
  if (meta_ && !cuda_memory(buffer_)) {
    per_plane_ = true;
    const gsize size = gst_buffer_get_size(buffer_);
    for (; maps_ < planes; maps_++) {
      gpointer data;
      gint stride;
      if (meta_->offset[maps_] >= size)
        return Status::invalid("a buffer is too small: plane %d starts at byte %zu of %zu", maps_,
                               meta_->offset[maps_], size);
      if (!gst_video_meta_map(meta_, maps_, &map_[maps_], &data, &stride, all_flags)) return failed;
      data_[maps_] = static_cast<guint8*>(data);
      stride_[maps_] = stride;
    }
    return {};
  }
  if (const GstMemory* memory = cuda_memory(buffer_);
      memory && !device_ && format_->is_video() && memory->size != memory->maxsize)
    return Status::invalid(
        "a buffer has %zu of the %zu bytes of its CUDA memory, and GStreamer only "
        "copies whole memories to the host",
        memory->size, memory->maxsize);
  if (!gst_buffer_map(buffer_, &map_[0], all_flags)) return failed;
  maps_ = 1;
  // Mapping for writing may have replaced a shared memory.
  GstMemory* cuda = cuda_memory(buffer_);
  // Without a meta, CUDA memory of frames knows its layout.
  const GstVideoInfo* info = nullptr;
  if (!meta_ && cuda && format_->is_video()) {
    info = memory_info(cuda);
    if (GST_VIDEO_INFO_FORMAT(info) != GST_VIDEO_INFO_FORMAT(&*format_->video) ||
        info->width < format_->width || info->height < format_->height)
      return Status::invalid("a buffer's CUDA memory is %s %dx%d, but its caps say %s %dx%d",
                             info->finfo->name, info->width, info->height, format_->name(),
                             format_->width, format_->height);
  }
  for (int i = 0; i < planes; i++) {
    const size_t offset = meta_  ? meta_->offset[i]
                          : info ? info->offset[i]
                                 : format_->memory_offset[i];
    // A buffer without memory is mapped with success, and gives a null pointer.
    if (!map_[0].data || offset > map_[0].size)
      return Status::invalid("a buffer is too small: plane %d starts at byte %zu of %zu", i, offset,
                             size_t(map_[0].size));
    data_[i] = map_[0].data + offset;
    stride_[i] = meta_ ? meta_->stride[i] : info ? info->stride[i] : format_->memory_stride[i];
    // When GStreamer copies CUDA memory to the host, it copies whole rows that are as wide as luma.
    // A plane that starts within such a row loses a part. Planes outside of the memory are refused
    // elsewhere, with a message that says so.
    const gsize first = data_[i] - map_[0].data;
    if (cuda && !device_ && stride_[i] > 0 && gsize(stride_[i]) <= map_[0].size &&
        first < map_[0].size && first % stride_[i])
      return Status::error(Code::unsupported,
                           "GStreamer before 1.24.4 loses a part of %s frames of this height (%d) "
                           "when it copies them between CUDA and host memory. Use backend=cuda",
                           format_->name(), format_->height);
  }
  return {};
}

vf::Image make_image(const Format& format, Rows rows, vf::Memory memory,
                     guint8* const data[GST_VIDEO_MAX_PLANES],
                     const ptrdiff_t stride[GST_VIDEO_MAX_PLANES]) {
  vf::Image image;
  image.layout = format.layout;
  image.memory = memory;
  const bool bottom = rows == Rows::bottom_field;
  if (rows != Rows::all) field_layout(format, bottom, &image.layout);
  for (int i = 0; i < format.layout.planes; i++) {
    const int m = format.memory_plane[i];
    image.data[i] = data[m] + format.offset[i] + (bottom ? stride[m] : 0);
    image.stride[i] = stride[m] * (rows == Rows::all ? 1 : 2);
  }
  return image;
}

vf::Image MappedFrame::image(Rows rows) const {
  return make_image(*format_, rows, device_ ? vf::Memory::device : vf::Memory::host, data_,
                    stride_);
}

Status Stage::prepare(vf::Queue& queue, const Format& format) {
  reset();
  queue_ = &queue;
  format_ = &format;
  const vf::Layout& layout = format.layout;
  for (int i = 0; i < layout.planes; i++) {
    const int m = format.memory_plane[i];
    row_[m] = std::max(row_[m], format.offset[i] + vf::row_bytes(layout, i));
    rows_[m] = std::max({rows_[m], layout.plane[i].height, format.field_rows[i]});
  }
  constexpr size_t alignment = 256;
  for (int m = 0; m < format.memory_planes; m++) {
    start_[m] = size_;
    stride_[m] = ptrdiff_t(vf::round_up(row_[m], alignment));
    size_ += size_t(stride_[m]) * rows_[m];
  }
  VF_TRY(queue.allocate(vf::Memory::device, size_, &device_));
  // The upload also copies bytes that no component covers, so they are set to zero.
  VF_TRY(prepare_host());
  VF_TRY(queue.copy(device_.data(), host_.data(), size_));
  VF_TRY(queue.sync());
  // If every frame is pinned, the host memory is not needed, and another stage can use it.
  host_.reset();
  return {};
}

Status Stage::prepare_host() {
  if (host_.data()) return {};
  VF_TRY(queue_->allocate(vf::Memory::host, size_, &host_));
  std::memset(host_.data(), 0, size_);
  return {};
}

void Stage::reset() {
  downloaded_.clear();
  host_.reset();
  device_.reset();
  size_ = 0;
  std::fill_n(row_, GST_VIDEO_MAX_PLANES, 0);
  std::fill_n(rows_, GST_VIDEO_MAX_PLANES, 0);
}

template <class F>
Status Stage::for_bands(F&& f) const {
  constexpr size_t band_bytes = 2 << 20;
  size_t band = 0;
  for (int m = 0; m < format_->memory_planes; m++) {
    const auto pitch = size_t(stride_[m]);
    const int step = int(std::max<size_t>(1, band_bytes / std::max<size_t>(1, pitch)));
    for (int y = 0; y < rows_[m]; y += step)
      VF_TRY(f(band++, m, y, std::min(step, rows_[m] - y), start_[m] + size_t(y) * pitch));
  }
  return {};
}

// One call of CUDA copies this many bytes.
constexpr size_t kUploadStep = 512 << 10;

Status Stage::upload(const MappedFrame& frame, vf::Queue* host) {
  if (frame.pinned()) {
    for (int m = 0; m < format_->memory_planes; m++)
      VF_TRY(queue_->copy_rows(device_.as<guint8>() + start_[m], stride_[m], frame.data(m),
                               frame.stride(m), row_[m], rows_[m]));
    return {};
  }
  VF_TRY(prepare_host());
  // State of the upload of one plane of memory.
  struct Plane {
    Stage& stage;
    size_t at, pitch;
    int enqueued;  // rows
  };
  const auto enqueue = [](void* context, int rows) {
    auto& plane = *static_cast<Plane*>(context);
    const size_t at = plane.at + plane.pitch * size_t(plane.enqueued);
    const size_t bytes = plane.pitch * size_t(rows - plane.enqueued);
    plane.enqueued = rows;
    const Stage& stage = plane.stage;
    return stage.queue_->copy(stage.device_.as<guint8>() + at, stage.host_.as<guint8>() + at,
                              bytes);
  };
  for (int m = 0; m < format_->memory_planes; m++) {
    Plane plane = {*this, start_[m], size_t(stride_[m]), 0};
    VF_TRY(vf::copy_rows_in_order(*host, host_.as<guint8>() + start_[m], stride_[m], frame.data(m),
                                  frame.stride(m), row_[m], rows_[m], kUploadStep, enqueue,
                                  &plane));
  }
  return {};
}

vf::Image Stage::image(Rows rows) const {
  guint8* data[GST_VIDEO_MAX_PLANES] = {};
  for (int m = 0; m < format_->memory_planes; m++) data[m] = device_.as<guint8>() + start_[m];
  return make_image(*format_, rows, vf::Memory::device, data, stride_);
}

Status Stage::download(const MappedFrame& frame) {
  if (frame.pinned()) {
    for (int m = 0; m < format_->memory_planes; m++)
      VF_TRY(queue_->copy_rows(frame.data(m), frame.stride(m), device_.as<guint8>() + start_[m],
                               stride_[m], row_[m], rows_[m]));
    return {};
  }
  VF_TRY(prepare_host());
  return for_bands([&](size_t band, int m, int, int rows, size_t at) -> Status {
    VF_TRY(queue_->copy(host_.as<guint8>() + at, device_.as<guint8>() + at,
                        size_t(stride_[m]) * size_t(rows)));
    if (downloaded_.size() <= band) downloaded_.resize(band + 1);
    return queue_->record(&downloaded_[band]);
  });
}

Status Stage::finish_download(const MappedFrame& frame, vf::Queue* host) const {
  if (frame.pinned()) return {};
  return for_bands([&](size_t band, int m, int y, int rows, size_t at) -> Status {
    VF_TRY(downloaded_[band]->wait());
    return host->copy_rows(frame.data(m) + y * frame.stride(m), frame.stride(m),
                           host_.as<guint8>() + at, stride_[m], row_[m], rows);
  });
}

}  // namespace gstvf
