/**
 * SECTION:element-cudaguidedmatte
 * @title: cudaguidedmatte
 *
 * Refines a coarse matte along the edges of the picture, on an NVIDIA GPU or on the CPU.
 *
 * The coarse matte comes in the frames' alpha (from a segmentation network, say), or from the
 * element's own chroma key. A guided filter fits it to the picture, so that it follows hair and
 * edges. What comes out is the picture with that alpha, premultiplied with it, the matte itself as
 * gray, or the picture over a colour.
 *
 * The mask may be off the subject's edge by up to about half of #cudaguidedmatte:radius. A smaller
 * #cudaguidedmatte:epsilon follows finer edges, and noise. #cudaguidedmatte:temporal steadies a
 * flickering mask without lag: the matte is held only where the picture stands still; 0.95 is a
 * good value. It starts anew after a flushing seek, new caps, and a change of
 * #cudaguidedmatte:subsample or #cudaguidedmatte:mask; other properties can change all the time.
 *
 * With #cudaguidedmatte:mask = chroma-key, formats without alpha are taken too, and come out with
 * alpha: the same colours with alpha where there is such a format, and YUV also as RGB, by the
 * matrix and range of its caps, so that a decoder's frames can stay in CUDA memory. The key
 * compares chroma only, so a shadow on the screen is still screen.
 *
 * Frames in CUDA memory stay there. Frames in system memory are filtered on the GPU too where there
 * is one, and on the CPU where there is none or #GstCudaVideoFilter:backend says so.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 filesrc location=greenscreen.mp4 ! decodebin ! videoconvert \
 *     ! video/x-raw,format=RGBA ! cudaguidedmatte mask=chroma-key key-color=0x30a040 despill=1 \
 *     output=composite background-color=0xff203040 ! videoconvert ! autovideosink
 * ]| A green screen, over a colour.
 * |[
 * gst-launch-1.0 alphacombine name=c ! videoconvert ! video/x-raw,format=RGBA \
 *     ! cudaguidedmatte radius=48 ! videoconvert ! autovideosink \
 *     filesrc location=clip.mkv ! decodebin ! videoconvert \
 *     ! video/x-raw,format=I420,colorimetry=1:4:0:0 ! queue ! c.sink \
 *     filesrc location=mask.mkv ! decodebin ! videoconvert \
 *     ! video/x-raw,format=GRAY8 ! queue ! c.alpha
 * ]| A clip and its coarse mask from two files. alphacombine wants both in the same range.
 */
#include "gst/gstcudaguidedmatte.h"

#include <cstring>

#include "filters/guided.h"

typedef struct _GstCudaGuidedMatte {
  GstCudaVideoFilter parent;

  // Under the object's lock. Colours are in key_color and background_color.
  vf::GuidedParams params;
  guint key_color;
  guint background_color;
} GstCudaGuidedMatte;
typedef struct _GstCudaGuidedMatteClass {
  GstCudaVideoFilterClass parent_class;
} GstCudaGuidedMatteClass;

#define GST_CUDA_GUIDED_MATTE(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_GUIDED_MATTE, GstCudaGuidedMatte))

#define gst_cuda_guided_matte_parent_class parent_class
G_DEFINE_TYPE(GstCudaGuidedMatte, gst_cuda_guided_matte, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudaguidedmatte, "cudaguidedmatte", GST_RANK_NONE,
                            GST_TYPE_CUDA_GUIDED_MATTE)

enum {
  PROP_0,
  PROP_RADIUS,
  PROP_EPSILON,
  PROP_SUBSAMPLE,
  PROP_MASK,
  PROP_KEY_COLOR,
  PROP_KEY_TOLERANCE,
  PROP_KEY_SOFTNESS,
  PROP_DESPILL,
  PROP_OUTPUT,
  PROP_BACKGROUND_COLOR,
  PROP_TEMPORAL,
};

constexpr guint kDefaultKeyColor = 0x00ff00;
constexpr guint kDefaultBackgroundColor = 0xff000000;

#define GST_TYPE_CUDA_GUIDED_MATTE_MASK (gst_cuda_guided_matte_mask_get_type())
static GType gst_cuda_guided_matte_mask_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {int(vf::MatteMask::alpha), "The frames' alpha", "alpha"},
      {int(vf::MatteMask::chroma_key), "Distance from key-color in the chroma plane", "chroma-key"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_enum_register_static("GstCudaGuidedMatteMask", values));
  return type;
}

#define GST_TYPE_CUDA_GUIDED_MATTE_OUTPUT (gst_cuda_guided_matte_output_get_type())
static GType gst_cuda_guided_matte_output_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {int(vf::MatteOutput::alpha), "Colours as they are, refined alpha", "alpha"},
      {int(vf::MatteOutput::premultiplied), "Colours times alpha, refined alpha", "premultiplied"},
      {int(vf::MatteOutput::matte), "The matte as gray, opaque", "matte"},
      {int(vf::MatteOutput::composite), "Over background-color", "composite"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_enum_register_static("GstCudaGuidedMatteOutput", values));
  return type;
}

// Formats

static bool has_matte(const GstVideoFormatInfo* f) {
  return GST_VIDEO_FORMAT_INFO_HAS_ALPHA(f) && GST_VIDEO_FORMAT_INFO_N_COMPONENTS(f) == 4;
}

// What a chroma key makes of frames without alpha: the same components and alpha or, last, RGB,
// since CUDA memory has no YUV with alpha before GStreamer 1.26.
struct KeyedFormat {
  const char* from[9];
  const char* to[8];
};
static const KeyedFormat kKeyedFormats[] = {
    {{"RGB", "BGR", "RGBx", "BGRx"}, {"RGBA", "BGRA", "ARGB", "ABGR"}},
    {{"xRGB", "xBGR"}, {"ARGB", "ABGR", "RGBA", "BGRA"}},
    {{"GBR", "RGBP", "BGRP"}, {"GBRA", "RGBA", "BGRA", "ARGB", "ABGR"}},
    {{"I420", "YV12", "NV12", "NV21"},
     {"A420", "AYUV", "VUYA", "RGBA", "BGRA", "ARGB", "ABGR", "GBRA"}},
    {{"Y42B", "YUY2", "UYVY", "YVYU", "VYUY", "NV16", "NV61"},
     {"A422", "AYUV", "VUYA", "RGBA", "BGRA", "ARGB", "ABGR", "GBRA"}},
    {{"Y444", "NV24", "v308"}, {"A444", "AYUV", "VUYA", "RGBA", "BGRA", "ARGB", "ABGR", "GBRA"}},
    {{"I420_10LE"}, {"A420_10LE"}},
    {{"I422_10LE"}, {"A422_10LE"}},
    {{"Y444_10LE"}, {"A444_10LE"}},
};

static bool has_name(const char* const* names, size_t n, const char* name) {
  for (size_t i = 0; i < n && names[i]; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static gboolean gst_cuda_guided_matte_sinks(const GstVideoFormatInfo* f) {
  if (has_matte(f)) return TRUE;
  for (const KeyedFormat& k : kKeyedFormats)
    if (has_name(k.from, G_N_ELEMENTS(k.from), f->name)) return TRUE;
  return FALSE;
}

static gboolean gst_cuda_guided_matte_sources(const GstVideoFormatInfo* f) {
  return has_matte(f);
}

static bool is_rgb(const char* name) {
  return GST_VIDEO_FORMAT_INFO_IS_RGB(
      gst_video_format_get_info(gst_video_format_from_string(name)));
}

// Appends the formats of the other pad for `name` on the pad of `direction`: those that are RGB
// where it is, or only those that are not.
static void append_formats(GValue* list, const char* name, GstPadDirection direction, bool keyed,
                           bool converts) {
  const GstVideoFormat format = gst_video_format_from_string(name);
  if (format == GST_VIDEO_FORMAT_UNKNOWN) return;
  const auto append = [&](const char* other) {
    if (gst_video_format_from_string(other) == GST_VIDEO_FORMAT_UNKNOWN ||
        (is_rgb(other) != is_rgb(name)) != converts)
      return;
    for (guint i = 0; i < gst_value_list_get_size(list); i++)
      if (strcmp(g_value_get_string(gst_value_list_get_value(list, i)), other) == 0) return;
    GValue value = G_VALUE_INIT;
    g_value_init(&value, G_TYPE_STRING);
    g_value_set_string(&value, other);
    gst_value_list_append_and_take_value(list, &value);
  };
  if (has_matte(gst_video_format_get_info(format))) append(name);
  if (!keyed) return;
  for (const KeyedFormat& k : kKeyedFormats) {
    if (direction == GST_PAD_SINK && has_name(k.from, G_N_ELEMENTS(k.from), name))
      for (const char* to : k.to)
        if (to) append(to);
    if (direction == GST_PAD_SRC && has_name(k.to, G_N_ELEMENTS(k.to), name))
      for (const char* from : k.from)
        if (from) append(from);
  }
}

static GstCaps* gst_cuda_guided_matte_transform_caps(GstBaseTransform* trans,
                                                     GstPadDirection direction, GstCaps* caps,
                                                     GstCaps* filter) {
  auto* self = GST_CUDA_GUIDED_MATTE(trans);
  GST_OBJECT_LOCK(self);
  const bool keyed = self->params.mask == vf::MatteMask::chroma_key;
  GST_OBJECT_UNLOCK(self);
  GstCaps* out = gst_caps_new_empty();
  for (guint i = 0; i < gst_caps_get_size(caps); i++) {
    const GstStructure* structure = gst_caps_get_structure(caps, i);
    const GValue* formats = gst_structure_get_value(structure, "format");
    for (int pass = 0; pass < 2; pass++) {
      const bool converts = pass == 1;
      GValue others = G_VALUE_INIT;
      g_value_init(&others, GST_TYPE_LIST);
      if (formats && GST_VALUE_HOLDS_LIST(formats)) {
        for (guint j = 0; j < gst_value_list_get_size(formats); j++)
          append_formats(&others, g_value_get_string(gst_value_list_get_value(formats, j)),
                         direction, keyed, converts);
      } else if (formats && G_VALUE_HOLDS_STRING(formats)) {
        append_formats(&others, g_value_get_string(formats), direction, keyed, converts);
      }
      if (gst_value_list_get_size(&others)) {
        GstStructure* s = gst_structure_copy(structure);
        gst_structure_set_value(s, "format", &others);
        // YUV's colours are not RGB's.
        if (converts) gst_structure_remove_fields(s, "colorimetry", "chroma-site", nullptr);
        gst_caps_append_structure_full(out, s,
                                       gst_caps_features_copy(gst_caps_get_features(caps, i)));
      }
      g_value_unset(&others);
    }
  }
  // Not every format exists in every memory.
  GstPad* other = direction == GST_PAD_SINK ? trans->srcpad : trans->sinkpad;
  GstCaps* known = gst_pad_get_pad_template_caps(other);
  GstCaps* result = gst_caps_intersect_full(out, known, GST_CAPS_INTERSECT_FIRST);
  gst_caps_unref(known);
  gst_caps_unref(out);
  if (filter) {
    GstCaps* both = gst_caps_intersect_full(filter, result, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(result);
    result = both;
  }
  return result;
}

// Plans

static vf::Status gst_cuda_guided_matte_make_plan(GstCudaVideoFilter* filter, vf::Queue& queue,
                                                  const gstvf::Format& in, const gstvf::Format& out,
                                                  vf::Placement placement,
                                                  std::unique_ptr<vf::Plan>* plan) {
  auto* self = GST_CUDA_GUIDED_MATTE(filter);
  GST_OBJECT_LOCK(self);
  vf::GuidedParams params = self->params;
  const guint key = self->key_color, background = self->background_color;
  GST_OBJECT_UNLOCK(self);
  vf::set_colors(in.layout, in.color, out.layout, out.color, key, background, &params);
  std::unique_ptr<vf::GuidedPlan> made;
  VF_TRY(vf::make_guided(queue, in.layout, vf::matte_channels(in.layout, in.color), out.layout,
                         vf::matte_channels(out.layout, out.color), params, placement, &made));
  // Settings that a controller moves must not cost the memory of the frames before.
  if (*plan) made->take_over(static_cast<vf::GuidedPlan&>(**plan));
  *plan = std::move(made);
  return {};
}

// Properties

static void gst_cuda_guided_matte_set_property(GObject* object, guint id, const GValue* value,
                                               GParamSpec* pspec) {
  auto* self = GST_CUDA_GUIDED_MATTE(object);
  auto* filter = GST_CUDA_VIDEO_FILTER(object);
  vf::GuidedParams& p = self->params;
  const auto number = [&](double* field) {
    gst_cuda_video_filter_update(filter, field, g_value_get_double(value));
  };
  switch (id) {
    case PROP_RADIUS:
      gst_cuda_video_filter_update(filter, &p.radius, g_value_get_int(value));
      break;
    case PROP_EPSILON:
      number(&p.epsilon);
      break;
    case PROP_SUBSAMPLE:
      gst_cuda_video_filter_update(filter, &p.subsample, g_value_get_int(value));
      break;
    case PROP_MASK:
      gst_cuda_video_filter_update(filter, &p.mask, vf::MatteMask(g_value_get_enum(value)));
      // Other formats can come in now.
      gst_base_transform_reconfigure_sink(GST_BASE_TRANSFORM(self));
      gst_base_transform_reconfigure_src(GST_BASE_TRANSFORM(self));
      break;
    case PROP_KEY_COLOR:
      gst_cuda_video_filter_update(filter, &self->key_color, g_value_get_uint(value));
      break;
    case PROP_KEY_TOLERANCE:
      number(&p.key_tolerance);
      break;
    case PROP_KEY_SOFTNESS:
      number(&p.key_softness);
      break;
    case PROP_DESPILL:
      number(&p.despill);
      break;
    case PROP_OUTPUT:
      gst_cuda_video_filter_update(filter, &p.output, vf::MatteOutput(g_value_get_enum(value)));
      break;
    case PROP_BACKGROUND_COLOR:
      gst_cuda_video_filter_update(filter, &self->background_color, g_value_get_uint(value));
      break;
    case PROP_TEMPORAL:
      number(&p.temporal);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
      break;
  }
}

static void gst_cuda_guided_matte_get_property(GObject* object, guint id, GValue* value,
                                               GParamSpec* pspec) {
  auto* self = GST_CUDA_GUIDED_MATTE(object);
  const vf::GuidedParams& p = self->params;
  GST_OBJECT_LOCK(self);
  switch (id) {
    case PROP_RADIUS:
      g_value_set_int(value, p.radius);
      break;
    case PROP_EPSILON:
      g_value_set_double(value, p.epsilon);
      break;
    case PROP_SUBSAMPLE:
      g_value_set_int(value, p.subsample);
      break;
    case PROP_MASK:
      g_value_set_enum(value, int(p.mask));
      break;
    case PROP_KEY_COLOR:
      g_value_set_uint(value, self->key_color);
      break;
    case PROP_KEY_TOLERANCE:
      g_value_set_double(value, p.key_tolerance);
      break;
    case PROP_KEY_SOFTNESS:
      g_value_set_double(value, p.key_softness);
      break;
    case PROP_DESPILL:
      g_value_set_double(value, p.despill);
      break;
    case PROP_OUTPUT:
      g_value_set_enum(value, int(p.output));
      break;
    case PROP_BACKGROUND_COLOR:
      g_value_set_uint(value, self->background_color);
      break;
    case PROP_TEMPORAL:
      g_value_set_double(value, p.temporal);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK(self);
}

static void gst_cuda_guided_matte_init(GstCudaGuidedMatte* self) {
  self->params = vf::GuidedParams();
  self->key_color = kDefaultKeyColor;
  self->background_color = kDefaultBackgroundColor;
}

static void gst_cuda_guided_matte_class_init(GstCudaGuidedMatteClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* filter_class = GST_CUDA_VIDEO_FILTER_CLASS(klass);
  const vf::GuidedParams defaults;

  object_class->set_property = gst_cuda_guided_matte_set_property;
  object_class->get_property = gst_cuda_guided_matte_get_property;

  const auto flags = GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                 GST_PARAM_CONTROLLABLE | GST_PARAM_MUTABLE_PLAYING);
  const auto install = [&](guint id, GParamSpec* spec) {
    g_object_class_install_property(object_class, id, spec);
  };
  const auto fraction = [&](guint id, const char* name, const char* nick, const char* blurb,
                            double value) {
    install(id, g_param_spec_double(name, nick, blurb, 0, 1, value, flags));
  };
  install(PROP_RADIUS, g_param_spec_int("radius", "Radius",
                                        "Radius of the window, in pixels of the frame: how far the "
                                        "mask's edge may be moved. Costs no time",
                                        1, 512, defaults.radius, flags));
  install(PROP_EPSILON,
          g_param_spec_double("epsilon", "Epsilon",
                              "Variance, of colours from 0 to 1, below which the picture counts "
                              "as flat: smaller values follow fainter edges",
                              1e-8, 1, defaults.epsilon, flags));
  install(PROP_SUBSAMPLE,
          g_param_spec_int("subsample", "Subsample",
                           "Pixels from one sample to the next, each way, for the statistics: "
                           "1 is the full guided filter, more is faster",
                           1, 16, defaults.subsample, flags));
  install(PROP_MASK, g_param_spec_enum("mask", "Mask", "Where the coarse matte comes from",
                                       GST_TYPE_CUDA_GUIDED_MATTE_MASK, int(defaults.mask),
                                       GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                                   GST_PARAM_MUTABLE_PLAYING)));
  install(PROP_KEY_COLOR,
          g_param_spec_uint("key-color", "Key colour", "Colour of the screen, as 0xRRGGBB", 0,
                            0xffffff, kDefaultKeyColor, flags));
  fraction(PROP_KEY_TOLERANCE, "key-tolerance", "Key tolerance",
           "Chroma this near to the key's is screen (Cb and Cr from -0.5 to 0.5)",
           defaults.key_tolerance);
  fraction(PROP_KEY_SOFTNESS, "key-softness", "Key softness",
           "Chroma farther than key-tolerance by this is subject; the mask is a ramp between",
           defaults.key_softness);
  fraction(PROP_DESPILL, "despill", "Despill",
           "How much of the key's hue is taken out of the colours", defaults.despill);
  install(PROP_OUTPUT,
          g_param_spec_enum("output", "Output", "What comes out", GST_TYPE_CUDA_GUIDED_MATTE_OUTPUT,
                            int(defaults.output), flags));
  install(PROP_BACKGROUND_COLOR,
          g_param_spec_uint("background-color", "Background colour",
                            "Colour behind the subject with output=composite, as 0xAARRGGBB", 0,
                            G_MAXUINT, kDefaultBackgroundColor, flags));
  fraction(PROP_TEMPORAL, "temporal", "Temporal",
           "Steadies the matte where the picture stands still: share of the frame before that is "
           "kept (0 = off; 0.95 takes out most flicker)",
           defaults.temporal);

  gst_element_class_set_static_metadata(
      GST_ELEMENT_CLASS(klass), "CUDA guided matte", "Filter/Effect/Video/Hardware",
      "Refines a matte along the picture's edges, on an NVIDIA GPU or on the CPU",
      "gst-cuda-filters contributors");
  gst_cuda_video_filter_add_templates(filter_class, gst_cuda_guided_matte_sinks,
                                      gst_cuda_guided_matte_sources);
  GST_BASE_TRANSFORM_CLASS(klass)->transform_caps =
      GST_DEBUG_FUNCPTR(gst_cuda_guided_matte_transform_caps);
  filter_class->stateful = TRUE;
  filter_class->make_plan = gst_cuda_guided_matte_make_plan;

  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_GUIDED_MATTE_MASK, GstPluginAPIFlags(0));
  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_GUIDED_MATTE_OUTPUT, GstPluginAPIFlags(0));
}
