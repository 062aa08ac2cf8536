#include "gst/base/planesettings.h"

#include <vector>

namespace gstvf {

GType planes_type() {
  return flags_type("GstCudaVideoFilterPlanes",
                    {{GST_CUDA_VIDEO_FILTER_PLANES_LUMA, "Luma, gray or RGB colours", "luma"},
                     {GST_CUDA_VIDEO_FILTER_PLANES_CHROMA, "Chroma", "chroma"},
                     {GST_CUDA_VIDEO_FILTER_PLANES_ALPHA, "Alpha", "alpha"}});
}

GType border_type(const char* name, std::initializer_list<vf::Border> borders) {
  static const EnumRow rows[] = {
      {vf::Border::replicate, "The edge pixel, repeated: aaa|abcd|ddd", "replicate"},
      {vf::Border::reflect, "The frame, mirrored with its edge pixel: cba|abcd|dcb", "reflect"},
      {vf::Border::reflect_101, "The frame, mirrored without its edge pixel: dcb|abcd|cba",
       "reflect-101"},
      {vf::Border::wrap, "The opposite side of the frame: bcd|abcd|abc", "wrap"},
      {vf::Border::constant, "The colour border-color", "constant"},
      {vf::Border::shrink, "Nothing: the window shrinks at the edge", "shrink"},
  };
  std::vector<EnumRow> known;
  for (const vf::Border border : borders)
    for (const EnumRow& row : rows)
      if (row.value == int(border)) known.push_back(row);
  return enum_type(name, known);
}

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

}  // namespace gstvf
