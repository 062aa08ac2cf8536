// Makes frames, parameters and masks for the cases of the guided matte.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "filters/guided.h"
#include "tests/guided.h"
#include "tests/kernels/harness.h"

namespace vf::test {

struct Picture {
  const char* name;
  Layout layout;
  MatteChannels channels;
};

inline Picture packed(const char* name, Type type, int w, int h, int r, int g, int b, int a) {
  Picture p{name, packed_layout(type, 4, w, h), {}};
  p.channels.color[0] = {0, r};
  p.channels.color[1] = {0, g};
  p.channels.color[2] = {0, b};
  p.channels.alpha = {0, a};
  return p;
}
inline Picture rgba(Type type, int w, int h) {
  return packed("RGBA", type, w, h, 0, 1, 2, 3);
}

// Has planes of one channel each. Chroma planes are subsampled by 2^sub_x x 2^sub_y.
inline Picture planar(const char* name, Type type, int w, int h, int sub_x, int sub_y) {
  Picture p{name, {}, {}};
  p.layout.type = type;
  p.layout.planes = 4;
  for (int i = 0; i < 4; i++) {
    PlaneLayout& l = p.layout.plane[i];
    const bool chroma = i == 1 || i == 2;
    l.sub_x = chroma ? sub_x : 0;
    l.sub_y = chroma ? sub_y : 0;
    l.width = (w + (1 << l.sub_x) - 1) >> l.sub_x;
    l.height = (h + (1 << l.sub_y) - 1) >> l.sub_y;
    if (i < 3) p.channels.color[i] = {i, 0};
  }
  p.channels.alpha = {3, 0};
  return p;
}

// Has a guide of 1 or 3 channels in one plane, and the mask in another.
inline Picture apart(Type type, int colors, int w, int h) {
  Picture p{colors == 3 ? "3+1" : "1+1", packed_layout(type, colors, w, h), {}};
  p.layout.planes = 2;
  p.layout.plane[1] = {w, h};
  p.channels.colors = colors;
  p.channels.alpha = {1, 0};
  return p;
}

// Has the matte alone.
inline Picture matte(Type type, int w, int h) {
  Picture p{"matte", packed_layout(type, 1, w, h), {}};
  p.channels.colors = 0;
  p.channels.alpha = {0, 0};
  return p;
}

inline std::string case_name(const Picture& from, const std::string& name, Pattern pattern) {
  return text("guided %s %s %s", from.name, name.c_str(), name_of(pattern));
}

inline void one(Context& context, const std::string& name, const Picture& from, const Picture& to,
                const GuidedParams& params, Pattern pattern, Geometry geometry = {},
                const CoarseMask* mask = nullptr) {
  context.check(case_name(from, name, pattern), from.layout, to.layout, pattern, geometry,
                guided_contract(from.layout, params), from.layout == to.layout,
                [&](Queue& queue, Placement placement, std::unique_ptr<Plan>* plan) {
                  std::unique_ptr<GuidedPlan> made;
                  VF_TRY(make_guided(queue, from.layout, from.channels, to.layout, to.channels,
                                     params, placement, &made));
                  if (mask) VF_TRY(made->set_mask(*mask));
                  *plan = std::move(made);
                  return Status();
                });
}

inline GuidedParams params_of(int radius, int subsample, double epsilon = 1e-4) {
  GuidedParams p;
  p.refine = MatteRefine::guided;
  p.radius = radius;
  p.subsample = subsample;
  p.epsilon = epsilon;
  return p;
}

// YCbCr of limited range in 8 bits, as GStreamer's caps say it by default.
inline void use_ycbcr(GuidedParams* p) {
  const double c = 255.0 / 224;
  const double matrix[3][3] = {{255.0 / 219, 0, 0}, {0, c, 0}, {0, 0, c}};
  std::memcpy(p->to_ycbcr, matrix, sizeof matrix);
  const double black[3] = {16 / 255.0, 128 / 255.0, 128 / 255.0};
  const double white[3] = {235 / 255.0, 128 / 255.0, 128 / 255.0};
  const double green[3] = {173 / 255.0, 42 / 255.0, 26 / 255.0};
  const double blue[3] = {32 / 255.0, 240 / 255.0, 118 / 255.0};
  std::copy_n(black, 3, p->black);
  std::copy_n(white, 3, p->white);
  std::copy_n(green, 3, p->key_color);
  std::copy_n(blue, 3, p->background);
}

// Has no alpha, and three planes, or two where the second has both chroma components.
inline Picture ycbcr(const char* name, Type type, int w, int h, int sub_x, int sub_y, bool semi) {
  Picture p = planar(name, type, w, h, sub_x, sub_y);
  p.layout.planes = semi ? 2 : 3;
  if (semi) {
    p.layout.plane[1].channels = 2;
    p.channels.color[2] = {1, 1};
  }
  p.channels.alpha = {};
  return p;
}

// Makes a plan for frames of `picture` that takes over from *plan, if there is one.
inline Status make_again(Queue& queue, const Picture& picture, const GuidedParams& params,
                         std::unique_ptr<GuidedPlan>* plan) {
  std::unique_ptr<GuidedPlan> made;
  VF_TRY(make_guided(queue, picture.layout, picture.channels, picture.layout, picture.channels,
                     params, Placement::separate, &made));
  if (*plan) made->take_over(**plan);
  *plan = std::move(made);
  return {};
}

// Makes an external mask with pixels of another size. It shows soft discs with noisy edges.
class DiscMask {
 public:
  void add(Random& random, int width, int height, const MaskRectangle& image,
           const MaskRectangle& counts) {
    const int stride = width + random.between(0, 5);
    std::vector<uint8_t> data(size_t(stride) * height);
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) {
        const double dx = (x + 0.5) / width - 0.5, dy = (y + 0.5) / height - 0.5;
        const double d = std::sqrt(dx * dx + dy * dy);  // std::hypot takes several times as long
        const double v = 0.5 + 4 * (0.3 - d) + 0.3 * (random.unit() - 0.5);
        data[size_t(y) * stride + x] = uint8_t(255 * std::clamp(v, 0.0, 1.0));
      }
    data_.push_back(std::move(data));
    parts_.push_back({data_.back().data(), stride, width, height, image, counts});
  }
  // Gives the last part an error for each of its pixels: two classes and, here and there, any other.
  void add_errors(Random& random) {
    MaskPart& part = parts_.back();
    std::vector<uint8_t> data(size_t(part.stride) * part.height);
    for (int y = 0; y < part.height; y++)
      for (int x = 0; x < part.width; x++)
        data[size_t(y) * part.stride + x] =
            uint8_t(random.between(0, 9) == 0 ? random.between(0, 255)
                    : 2 * x < part.width      ? 255
                                              : 85);
    data_.push_back(std::move(data));
    part.error = data_.back().data();
  }
  CoarseMask mask(uint64_t id = 0) const { return {parts_.data(), int(parts_.size()), id}; }

 private:
  std::vector<std::vector<uint8_t>> data_;
  std::vector<MaskPart> parts_;
};

inline MaskRectangle whole(int width, int height) {
  return {0, 0, double(width), double(height)};
}

inline GuidedParams external_params(MatteRefine refine, int subsample, int radius) {
  GuidedParams p = params_of(radius, subsample);
  p.mask = MatteMask::external;
  p.refine = refine;
  return p;
}

// The cases of a plan that goes from frame to frame, and of external masks
// (tests/kernels/guided_sequences.cpp).
void guided_sequence_cases(Context& context);

}  // namespace vf::test
