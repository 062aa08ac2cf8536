#include "tests/elements/guidedframes.h"

#include <cstring>

#include "tests/guided.h"
#include "tests/reference/reference.h"

namespace vf::test {

namespace {

// Holds a frame as planes of one component each. Alpha is the fourth.
struct Planes {
  Layout layout;
  MatteChannels channels;
  std::vector<std::vector<uint8_t>> bytes;
  Image image;

  explicit Planes(const GstVideoInfo& info) {
    const GstVideoFormatInfo* f = info.finfo;
    layout.type = f->depth[0] > 8 ? Type::u16 : Type::u8;
    layout.max_value = f->depth[0] % 8 ? (1 << f->depth[0]) - 1 : 0;
    layout.shift = f->shift[0];
    layout.planes = int(f->n_components);
    for (int i = 0; i < layout.planes; i++) {
      PlaneLayout& p = layout.plane[i];
      p.sub_x = f->w_sub[i];
      p.sub_y = f->h_sub[i];
      p.width = -((-info.width) >> p.sub_x);
      p.height = -((-info.height) >> p.sub_y);
      if (i < 3) channels.color[i] = {i, 0};
      bytes.emplace_back(size_t(p.width) * p.height * size_of(layout.type));
    }
    channels.alpha = layout.planes == 4 ? Component{3, 0} : Component{};
    image.layout = layout;
    for (int i = 0; i < layout.planes; i++) {
      image.data[i] = bytes[i].data();
      image.stride[i] = layout.plane[i].width * size_of(layout.type);
    }
  }

  // Copies from or to a GStreamer frame.
  void copy(const GstVideoInfo& info, GstBuffer* buffer, bool to_buffer) {
    GstVideoFrame frame;
    gst_video_frame_map(&frame, &info, buffer, to_buffer ? GST_MAP_WRITE : GST_MAP_READ);
    const int size = size_of(layout.type);
    for (int i = 0; i < layout.planes; i++)
      for (int y = 0; y < layout.plane[i].height; y++)
        for (int x = 0; x < layout.plane[i].width; x++) {
          auto* at = static_cast<guint8*>(GST_VIDEO_FRAME_COMP_DATA(&frame, i)) +
                     ptrdiff_t(y) * GST_VIDEO_FRAME_COMP_STRIDE(&frame, i) +
                     ptrdiff_t(x) * GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, i);
          // GStreamer 1.22 gives V of P010 and similar formats the offset 1.
          if (size == 2 && info.finfo->poffset[i] == 1) at++;
          uint8_t* mine = &bytes[i][(size_t(y) * layout.plane[i].width + x) * size];
          if (to_buffer)
            memcpy(at, mine, size);
          else
            memcpy(mine, at, size);
        }
    gst_video_frame_unmap(&frame);
  }
};

}  // namespace

// Runs the reference on the frames in order, with different settings for each, and returns the
// result of the last one.
static BufferPtr reference(Case& c, const GstVideoInfo& info, const std::vector<BufferPtr>& in,
                           const GstVideoInfo& info_out, const std::vector<GuidedParams>& params,
                           const CoarseMask& mask) {
  use_reference_backend();
  Library library(Backend::reference);
  c.check(library.status(), "reference");
  Planes from(info), to(info_out);
  std::unique_ptr<GuidedPlan> plan;
  const BufferPtr out = own(gst_buffer_new_allocate(nullptr, info_out.size, nullptr));
  for (size_t i = 0; i < in.size() && c.ok(); i++) {
    std::unique_ptr<GuidedPlan> made;
    c.check(make_guided(*library.queue(), from.layout, from.channels, to.layout, to.channels,
                        params[i], Placement::separate, &made),
            "reference");
    if (!c.ok()) break;
    if (plan) made->take_over(*plan);
    c.check(made->set_mask(mask), "reference");
    plan = std::move(made);
    from.copy(info, in[i].get(), false);
    c.check(plan->run(from.image, to.image), "reference");
  }
  to.copy(info_out, out.get(), true);
  return out;
}

GuidedParams params_of(const GstVideoInfo& info) {
  GuidedParams p;
  p.refine = MatteRefine::guided;
  p.radius = 9;
  p.subsample = 2;
  p.epsilon = 1e-3;
  if (!GST_VIDEO_FORMAT_INFO_IS_YUV(info.finfo)) return p;
  // The colours are BT.601 in limited range, which video_info uses for small frames. The key is
  // green and the background is blue.
  const double full = (1 << info.finfo->depth[0]) - 1, unit = 1 << (info.finfo->depth[0] - 8);
  const auto set = [&](double* out, double y, double u, double v) {
    out[0] = y * unit / full;
    out[1] = u * unit / full;
    out[2] = v * unit / full;
  };
  set(p.black, 16, 128, 128);
  set(p.white, 235, 128, 128);
  set(p.key_color, 16 + 219 * 0.587, 128 - 224 * 0.587 / 1.772, 128 - 224 * 0.587 / 1.402);
  set(p.background, 16 + 219 * 0.114, 240, 128 - 224 * 0.114 / 1.402);
  const double k = full / unit;
  const double matrix[3][3] = {{k / 219, 0, 0}, {0, k / 224, 0}, {0, 0, k / 224}};
  memcpy(p.to_ycbcr, matrix, sizeof matrix);
  return p;
}

void set(GstElement* element, const GuidedParams& p) {
  g_object_set(element, "refine", int(p.refine), "mask-error", p.mask_error, "mask-trust",
               p.mask_trust, "color-reach", p.color_reach, "color-sigma", p.color_sigma, nullptr);
  g_object_set(element, "radius", p.radius, "subsample", p.subsample, "epsilon", p.epsilon, "mask",
               int(p.mask), "output", int(p.output), "despill", p.despill, "key-tolerance",
               p.key_tolerance, "key-softness", p.key_softness, "temporal", p.temporal, nullptr);
  g_object_set(element, "foreground", int(p.foreground), "background", int(p.backdrop),
               "background-sigma", p.background_sigma, nullptr);
}

void expect(Case& c, const GstVideoInfo& info, const std::vector<BufferPtr>& in,
            const GstVideoInfo& info_out, GstBuffer* got, const std::vector<GuidedParams>& params,
            const CoarseMask& mask, int slack) {
  if (!got) return c.fail("nothing came out");
  const BufferPtr want = reference(c, info, in, info_out, params, mask);
  if (!c.ok()) return;
  Layout layout;
  layout.type = info.finfo->depth[0] > 8 ? Type::u16 : Type::u8;
  layout.max_value = (1 << info.finfo->depth[0]) - 1;
  const int tolerance = int(guided_contract(layout, params.back()).absolute) + slack;
  const std::string d = difference(info_out, got, want.get(), tolerance);
  c.check(d.empty(), "%s to %s %dx%d: %s", info.finfo->name, info_out.finfo->name, info.width,
          info.height, d.c_str());
}

}  // namespace vf::test
