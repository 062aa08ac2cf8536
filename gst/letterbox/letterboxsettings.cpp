#include "gst/letterbox/letterboxsettings.h"

namespace gstvf {

vf::LetterboxParams LetterboxSettings::params(bool tensor, vf::ColorFormat* to) const {
  vf::LetterboxParams params = *this;
  // The first number of mean and std belongs to the tensor's first channel.
  const bool bgr = tensor && order == ChannelOrder::bgr;
  for (int c = 0; c < 3; c++) {
    params.mean[c] = means[bgr ? 2 - c : c];
    params.std[c] = stds[bgr ? 2 - c : c];
  }
  if (bgr)
    for (auto& plane : to->role)
      for (vf::Role& role : plane)
        role = role == vf::Role::r ? vf::Role::b : role == vf::Role::b ? vf::Role::r : role;
  return params;
}

void LetterboxSettings::install(GObjectClass* klass, LetterboxSettings* (*settings_of)(GObject*),
                                void (*geometry_changed)(GObject*),
                                void (*stride_changed)(GObject*)) {
  using S = LetterboxSettings;
  using vf::Interpolation;
  const GType rule =
      enum_type("GstCudaLetterboxRule",
                {{vf::LetterboxRule::ultralytics,
                  "LetterBox of Ultralytics: whole pixels, cv2's bilinear", "ultralytics"},
                 {vf::LetterboxRule::affine,
                  "The warp of TensorRT's YOLO examples: exact centre, float32", "affine"}});
  const GType align = enum_type(
      "GstCudaLetterboxAlign",
      {{vf::LetterboxAlign::center, "Padding on both sides", "center"},
       {vf::LetterboxAlign::top_left, "Padding at the right or bottom only", "top-left"}});
  const GType interpolation = enum_type(
      "GstCudaLetterboxInterpolation",
      {{Interpolation::bilinear, "Between the four nearest pixels", "bilinear"},
       {Interpolation::nearest, "The nearest pixel", "nearest"},
       {Interpolation::area,
        "Mean of all pixels covered (for large reductions); bilinear where the picture grows",
        "area"}});
  const GType order = enum_type(
      "GstCudaLetterboxChannelOrder",
      {{ChannelOrder::rgb, "Red first", "rgb"}, {ChannelOrder::bgr, "Blue first", "bgr"}});
  const RowOptions moves = {kControllable, nullptr, geometry_changed};
  const RowOptions resizes = {kControllable, nullptr, stride_changed};
  install_properties<S>(
      klass, settings_of,
      {
          {"rule", "Rule", &S::rule, rule,
           "Training code whose arithmetic places and samples the picture", moves},
          {"fill-color", "Fill colour", &S::fill, kColor,
           "Colour of the padding, as the number 0xAARRGGBB (#RRGGBB is written 0xffRRGGBB); "
           "converted for YUV outputs"},
          {"align", "Align", &S::align, align, "Position of the picture in the output", moves},
          {"scale-up", "Scale up", &S::scale_up,
           "Enlarge pictures smaller than the output; else they are only padded", moves},
          {"stride", "Stride", &S::stride, S::kStride,
           "Pad only to a multiple of this many pixels, as LetterBox's auto (0 = off). The "
           "output's "
           "largest size comes from ranges in the caps behind, such as width=[1,640]; a size that "
           "is fixed there is kept; without any, the source is padded to the next multiple",
           resizes},
          {"interpolation", "Interpolation", &S::interpolation, interpolation,
           "How the picture is sampled"},
          {"channel-order", "Channel order", &S::order, order, "Order of a tensor's colours"},
          {"mean",
           "Mean",
           &S::means,
           S::kMean,
           "Subtracted after scale: 1 number, or 3 in the order of the tensor's channels: "
           "mean=0.5, "
           "mean=0.485,0.456,0.406",
           {kPlaying}},
          {"std",
           "Standard deviation",
           &S::stds,
           S::kStd,
           "Divided by after mean: 1 number, or 3 in the order of the tensor's channels: std=0.5, "
           "std=0.229,0.224,0.225. Not 0",
           {kPlaying}},
          {"scale", "Scale", &S::scale, S::kScale,
           "Float tensors hold (x * scale - mean) / std of 8-bit x. Not 0"},
          {"keep-original",
           "Keep original",
           &S::keep_original,
           "Attach the frame that came in to the one that goes out, by reference, for "
           "cudaletterboxrestore",
           {kReady}},
      });
}

}  // namespace gstvf
