#include "gst/matte/segmentation.h"

#include "gst/base/errors.h"

namespace gstvf {
namespace {

void select_row(const guint8* in, GstVideoFormat format, int width, const uint8_t* selected,
                uint8_t* out) {
  if (format == GST_VIDEO_FORMAT_GRAY8)
    for (int x = 0; x < width; x++) out[x] = selected[in[x]];
  else if (format == GST_VIDEO_FORMAT_GRAY16_LE)
    for (int x = 0; x < width; x++) out[x] = selected[GST_READ_UINT16_LE(in + 2 * x)];
  else
    for (int x = 0; x < width; x++) out[x] = selected[GST_READ_UINT16_BE(in + 2 * x)];
}

}  // namespace

std::string read_segmentation(const SegmentationView& view, const std::vector<uint8_t>& selected,
                              const vf::Limits<int>& size,
                              const std::function<uint8_t*(int width, int height)>& take) {
  GstVideoMeta* meta = view.image ? gst_buffer_get_video_meta(view.image) : nullptr;
  if (!meta) return "a segmentation has no image with a GstVideoMeta";
  const bool bytes = meta->format == GST_VIDEO_FORMAT_GRAY8;
  if (!bytes && meta->format != GST_VIDEO_FORMAT_GRAY16_LE &&
      meta->format != GST_VIDEO_FORMAT_GRAY16_BE)
    return "a segmentation's image is not GRAY8 or GRAY16";
  const auto allowed = [&](guint v) { return v <= G_MAXINT && size.allow(int(v)); };
  if (!allowed(meta->width) || !allowed(meta->height))
    return printed("a segmentation's image is %ux%u, and must be %d to %d wide and high",
                   meta->width, meta->height, size.min, size.max);
  if (view.width == 0 || view.height == 0)
    return printed("a segmentation covers %ux%u pixels of the frame, and must cover 1x1 or more",
                   view.width, view.height);
  const int width = int(meta->width), height = int(meta->height);
  const gsize row = gsize(width) * (bytes ? 1 : 2);
  GstMapInfo map;
  gpointer data;
  gint stride;
  if (meta->offset[0] >= gst_buffer_get_size(view.image) ||
      !gst_video_meta_map(meta, 0, &map, &data, &stride, GST_MAP_READ))
    return "a segmentation's image has no memory that can be read";
  const gsize start = gsize(static_cast<guint8*>(data) - map.data);
  const bool fits = stride > 0 && gsize(stride) >= row && start <= map.size &&
                    gsize(stride) * gsize(height - 1) + row <= map.size - start;
  std::string wrong;
  if (fits) {
    uint8_t* const out = take(width, height);
    for (int y = 0; y < height; y++)
      select_row(static_cast<guint8*>(data) + gsize(y) * gsize(stride), meta->format, width,
                 selected.data(), out + gsize(y) * gsize(width));
  } else {
    wrong = printed(
        "a segmentation's image of %dx%d, with rows of %d bytes, does not fit its memory of %zu",
        width, height, stride, map.size);
  }
  gst_video_meta_unmap(meta, 0, &map);
  return wrong;
}

}  // namespace gstvf
