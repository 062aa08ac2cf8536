#include "gst/base/formatcaps.h"

#include "gst/base/cudacompat.h"

// Returns the caps for one kind of memory. They are empty if it supports none of the formats.
static GstCaps* caps_of(GstCudaVideoFilterTakes takes, bool cuda) {
  g_auto(GValue) formats = G_VALUE_INIT;
  g_auto(GValue) name = G_VALUE_INIT;
  g_value_init(&formats, GST_TYPE_LIST);
  g_value_init(&name, G_TYPE_STRING);
  for (const GstVideoFormatInfo* f : gstvf::formats_with_layout()) {
    if ((cuda && !gstvf::cuda_memory_has(f->format)) || (takes && !takes(f))) continue;
    g_value_set_static_string(&name, f->name);
    gst_value_list_append_value(&formats, &name);
  }
  GstCaps* caps = gst_caps_new_empty();
  if (gst_value_list_get_size(&formats)) {
    gst_caps_append_structure(
        caps, gst_structure_new("video/x-raw", "width", GST_TYPE_INT_RANGE, 1, G_MAXINT, "height",
                                GST_TYPE_INT_RANGE, 1, G_MAXINT, "framerate",
                                GST_TYPE_FRACTION_RANGE, 0, 1, G_MAXINT, 1, nullptr));
    gst_caps_set_value(caps, "format", &formats);
    if (cuda) gstvf::set_caps_in_cuda(caps);
  }
  return caps;
}

GstCaps* gst_cuda_video_filter_caps(GstCudaVideoFilterTakes takes) {
  GstCaps* caps = caps_of(takes, true);
  gst_caps_append(caps, caps_of(takes, false));
  return caps;
}

namespace gstvf {

GstCaps* filter_caps(GstCaps* caps, GstCaps* filter) {
  if (!filter) return caps;
  g_autoptr(GstCaps) taken = caps;
  return gst_caps_intersect_full(filter, taken, GST_CAPS_INTERSECT_FIRST);
}

void set_metadata(GstElementClass* klass, const char* name, const char* classes, const char* text) {
  gst_element_class_set_static_metadata(klass, name, classes, text,
                                        "gst-cuda-filters contributors");
}

void add_template(GstElementClass* klass, const char* name, GstPadDirection direction,
                  GstPadPresence presence, GstCaps* caps, GType type) {
  g_autoptr(GstCaps) taken = caps;
  gst_element_class_add_pad_template(
      klass, gst_pad_template_new_with_gtype(name, direction, presence, taken, type));
}

void add_templates(GstElementClass* klass, GstCaps* sink, GstCaps* src) {
  add_template(klass, "sink", GST_PAD_SINK, GST_PAD_ALWAYS, sink);
  add_template(klass, "src", GST_PAD_SRC, GST_PAD_ALWAYS, src);
}

void describe_filter(GstElementClass* klass, const char* name, const char* text,
                     GstCudaVideoFilterTakes takes) {
  set_metadata(klass, name, "Filter/Effect/Video/Hardware", text);
  add_templates(klass, gst_cuda_video_filter_caps(takes), gst_cuda_video_filter_caps(takes));
}

bool format_from_caps(const GstCaps* caps, Format* format) {
  GstVideoInfo info;
  return gst_video_info_from_caps(&info, caps) && make_format(info, caps_in_cuda(caps), format);
}

const char* why_refused(const Format& format, bool interlaced) {
  // GStreamer's pools count bytes in 32 bits.
  if (format.size > G_MAXUINT)
    return "frames and tensors of 4 GiB and more are not supported. Use smaller ones";
  if (!format.video) return nullptr;
  const GstVideoInfo* info = &*format.video;
  if (GST_VIDEO_INFO_INTERLACE_MODE(info) != GST_VIDEO_INTERLACE_MODE_PROGRESSIVE && !interlaced)
    return "this element does not take interlaced video. Put deinterlace in front of it";
  switch (GST_VIDEO_INFO_INTERLACE_MODE(info)) {
    case GST_VIDEO_INTERLACE_MODE_FIELDS:
    case GST_VIDEO_INTERLACE_MODE_ALTERNATE:
      return "interlace-mode=fields and alternate are not supported, only interleaved and mixed. "
             "Put deinterlace in front of it";
    default:
      break;
  }
  if (GST_VIDEO_INFO_MULTIVIEW_MODE(info) == GST_VIDEO_MULTIVIEW_MODE_SEPARATED &&
      GST_VIDEO_INFO_VIEWS(info) > 1)
    return "several views in one buffer are not supported. Use one buffer for each view";
  return nullptr;
}

}  // namespace gstvf
