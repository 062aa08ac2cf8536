#include "gst/base/packedframe.h"

#include "gst/base/cudacompat.h"
#include "gst/base/frame.h"

namespace gstvf {
namespace {

// Tells whether the rows of a frame lie where caps of system memory say.
bool is_packed(const Format& format, GstBuffer* buffer) {
  // cudadownload passes CUDA memory on to elements that read GstVideoMeta.
  if (cuda_memory(buffer) || place_of(format, buffer).cropped) return false;
  const GstVideoMeta* meta = gst_buffer_get_video_meta(buffer);
  if (!meta) return true;
  for (int p = 0; p < format.memory_planes; p++)
    if (guint(p) >= meta->n_planes || meta->stride[p] != format.memory_stride[p] ||
        meta->offset[p] != format.memory_offset[p])
      return false;
  return true;
}

}  // namespace

bool takes_any_layout(GstPad* srcpad) {
  g_autoptr(GstCaps) caps = gst_pad_get_current_caps(srcpad);
  if (!caps || caps_in_cuda(caps)) return true;
  g_autoptr(GstQuery) query = gst_query_new_allocation(caps, FALSE);
  return gst_pad_peer_query(srcpad, query) &&
         gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
}

vf::Status pack_frame(const GstVideoInfo& info, GstBuffer* in, GstBuffer** out) {
  *out = nullptr;
  Format format;
  if (!make_format(info, false, &format))
    return vf::Status::error(vf::Code::unsupported, "frames of %s cannot be copied",
                             info.finfo->name);
  if (is_packed(format, in)) {
    *out = in;
    return {};
  }
  MappedFrame mapped;
  VF_TRY(mapped.map(format, in, GST_MAP_READ, false));
  const bool is_part = mapped.cropped();
  GstVideoFrame from = {}, to;
  from.info = info;
  for (int p = 0; p < format.memory_planes; p++) {
    from.data[p] = mapped.data(p);
    from.info.stride[p] = gint(mapped.stride(p));
  }
  GstBuffer* copy = gst_buffer_new_allocate(nullptr, info.size, nullptr);
  if (!copy || !gst_video_frame_map(&to, &info, copy, GST_MAP_WRITE)) {
    gst_clear_buffer(&copy);
    return vf::Status::error(vf::Code::out_of_memory, "no memory for the copy of a frame");
  }
  gst_video_frame_copy(&to, &from);
  gst_video_frame_unmap(&to);
  mapped.unmap();
  gst_buffer_copy_into(
      copy, in,
      GstBufferCopyFlags(GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS | GST_BUFFER_COPY_META),
      0, gsize(-1));
  const auto drop = [copy](GstMeta* meta) {
    if (meta) gst_buffer_remove_meta(copy, meta);
  };
  drop(GST_META_CAST(gst_buffer_get_video_meta(copy)));
  if (is_part) drop(GST_META_CAST(gst_buffer_get_video_crop_meta(copy)));
  *out = copy;
  return {};
}

}  // namespace gstvf
