#include "gst/planesettings.h"

GType gst_cuda_video_filter_planes_get_type(void) {
  static gsize type = 0;
  static const GFlagsValue values[] = {
      {GST_CUDA_VIDEO_FILTER_PLANES_LUMA, "Luma, gray or RGB colours", "luma"},
      {GST_CUDA_VIDEO_FILTER_PLANES_CHROMA, "Chroma", "chroma"},
      {GST_CUDA_VIDEO_FILTER_PLANES_ALPHA, "Alpha", "alpha"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_flags_register_static("GstCudaVideoFilterPlanes", values));
  return type;
}

namespace gstvf {
namespace {

constexpr GEnumValue kBorders[] = {
    {int(vf::Border::replicate), "The edge pixel: aaa|abcd|ddd", "replicate"},
    {int(vf::Border::reflect), "Mirrored, edge pixel included: cba|abcd|dcb", "reflect"},
    {int(vf::Border::reflect_101), "Mirrored about the edge pixel: dcb|abcd|cba", "reflect-101"},
    {int(vf::Border::wrap), "The other side: bcd|abcd|abc", "wrap"},
    {int(vf::Border::constant), "border-color", "constant"},
    {int(vf::Border::shrink), "Nothing: the window shrinks at the edge", "shrink"},
};

// Each element has an enum type of its own, of the borders that its filter knows.
GType register_borders(const char* name, std::initializer_list<vf::Border> borders) {
  // Ends with zeros; GType keeps it for as long as the process runs.
  GEnumValue* values = g_new0(GEnumValue, borders.size() + 1);
  GEnumValue* next = values;
  for (vf::Border border : borders)
    for (const GEnumValue& value : kBorders)
      if (value.value == int(border)) *next++ = value;
  return g_enum_register_static(name, values);
}

}  // namespace

void select_channels(const Format& format, guint planes, uint8_t channels[vf::kMaxPlanes]) {
  // RGB colours count as luma.
  const auto part_of = [](vf::Role role) -> guint {
    if (role == vf::Role::none) return 0;
    if (role == vf::Role::a) return GST_CUDA_VIDEO_FILTER_PLANES_ALPHA;
    return vf::is_chroma(role) ? GST_CUDA_VIDEO_FILTER_PLANES_CHROMA
                               : GST_CUDA_VIDEO_FILTER_PLANES_LUMA;
  };
  for (int p = 0; p < vf::kMaxPlanes; p++) {
    channels[p] = 0;
    if (p >= format.layout.planes) continue;
    uint8_t padding = 0;
    for (int c = 0; c < format.layout.plane[p].channels; c++) {
      const vf::Role role = format.color.role[p][c];
      const uint8_t bit = uint8_t(1 << c);
      if (role == vf::Role::none) padding |= bit;
      if (part_of(role) & planes) channels[p] |= bit;
    }
    if (channels[p]) channels[p] |= padding;
  }
}

void PlaneSettings::install(GObjectClass* klass, guint first_id, const char* border_type,
                            std::initializer_list<vf::Border> borders, vf::Border default_border,
                            const char* planes_blurb) {
  const GType type = register_borders(border_type, borders);
  const auto flags = GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                 GST_PARAM_CONTROLLABLE | GST_PARAM_MUTABLE_PLAYING);
  g_object_class_install_property(
      klass, first_id + kBorder,
      g_param_spec_enum("border", "Border", "What lies outside the frame", type,
                        int(default_border), flags));
  g_object_class_install_property(
      klass, first_id + kBorderColor,
      g_param_spec_uint("border-color", "Border colour",
                        "Colour outside the frame with border=constant, as 0xAARRGGBB; converted "
                        "to the colour space of the frames",
                        0, G_MAXUINT, kDefaultColor, flags));
  g_object_class_install_property(
      klass, first_id + kPlanes,
      g_param_spec_flags("planes", "Planes", planes_blurb, GST_TYPE_CUDA_VIDEO_FILTER_PLANES,
                         GST_CUDA_VIDEO_FILTER_PLANES_ALL, flags));
  gst_type_mark_as_plugin_api(type, GstPluginAPIFlags(0));
  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_VIDEO_FILTER_PLANES, GstPluginAPIFlags(0));
}

bool PlaneSettings::set(GstCudaVideoFilter* filter, guint id, const GValue* value) {
  switch (id) {
    case kBorder:
      gst_cuda_video_filter_update(filter, &border, vf::Border(g_value_get_enum(value)));
      return true;
    case kBorderColor:
      gst_cuda_video_filter_update(filter, &color, g_value_get_uint(value));
      return true;
    case kPlanes:
      gst_cuda_video_filter_update(filter, &planes, g_value_get_flags(value));
      return true;
  }
  return false;
}

bool PlaneSettings::get(guint id, GValue* value) const {
  switch (id) {
    case kBorder:
      g_value_set_enum(value, int(border));
      return true;
    case kBorderColor:
      g_value_set_uint(value, color);
      return true;
    case kPlanes:
      g_value_set_flags(value, planes);
      return true;
  }
  return false;
}

}  // namespace gstvf
