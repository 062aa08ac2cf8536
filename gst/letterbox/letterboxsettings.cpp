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

bool LetterboxSettings::operator==(const LetterboxSettings& o) const {
  return rule == o.rule && align == o.align && interpolation == o.interpolation &&
         scale_up == o.scale_up && stride == o.stride && fill == o.fill && scale == o.scale &&
         order == o.order && !(means != o.means) && !(stds != o.stds);
}

void LetterboxSettings::install(GObjectClass* klass, LetterboxSettings* (*settings_of)(GObject*),
                                void (*geometry_changed)(GObject*),
                                void (*stride_changed)(GObject*)) {
  using S = LetterboxSettings;
  using vf::Interpolation;
  const GType rule = enum_type(
      "GstCudaLetterboxRule",
      {{vf::LetterboxRule::ultralytics,
        "LetterBox of Ultralytics: whole pixels, bilinear interpolation of OpenCV", "ultralytics"},
       {vf::LetterboxRule::affine,
        "Warp of TensorRT's YOLO examples: exact centre, float32 arithmetic", "affine"}});
  const GType align = enum_type(
      "GstCudaLetterboxAlign",
      {{vf::LetterboxAlign::center, "Padding on both sides", "center"},
       {vf::LetterboxAlign::top_left, "Padding only at the right or at the bottom", "top-left"}});
  const GType interpolation = enum_type(
      "GstCudaLetterboxInterpolation",
      {{Interpolation::bilinear, "Interpolate between the four nearest pixels", "bilinear"},
       {Interpolation::nearest, "Take the nearest pixel", "nearest"},
       {Interpolation::area,
        "Mean of all covered pixels, for large reductions; bilinear for enlargements", "area"}});
  const GType order =
      enum_type("GstCudaLetterboxChannelOrder", {{ChannelOrder::rgb, "Red, green, blue", "rgb"},
                                                 {ChannelOrder::bgr, "Blue, green, red", "bgr"}});
  const RowOptions moves = {kControllable, nullptr, geometry_changed};
  const RowOptions resizes = {kControllable, nullptr, stride_changed};
  install_properties<S>(
      klass, settings_of,
      {
          {"rule", "Rule", &S::rule, rule,
           "Training code to match when the picture is placed and sampled", moves},
          {"fill-color", "Fill colour", &S::fill, kColor,
           "Colour of the padding as a number 0xAARRGGBB (for #RRGGBB write 0xffRRGGBB). It is "
           "converted for YUV outputs"},
          {"align", "Align", &S::align, align, "Position of the picture in the output", moves},
          {"scale-up", "Scale up", &S::scale_up,
           "Enlarge pictures that are smaller than the output. Otherwise they are only padded",
           moves},
          {"interpolation", "Interpolation", &S::interpolation, interpolation,
           "How to compute output pixels"},
          {"channel-order", "Channel order", &S::order, order,
           "Order of the colour channels of a tensor"},
          {"mean", "Mean", &S::means, S::kMean,
           "Mean to subtract from the values of float tensors, after scale. One number, or three "
           "in the order of the tensor's channels: 0.485,0.456,0.406",
           kPlaying},
          {"std", "Standard deviation", &S::stds, S::kStd,
           "Standard deviation to divide the values of float tensors by, after mean. One number, "
           "or three in the order of the tensor's channels: 0.229,0.224,0.225. Must not be 0",
           kPlaying},
          {"scale", "Scale", &S::scale, S::kScale,
           "Factor for the values of float tensors, which hold (x * scale - mean) / std for the "
           "8-bit value x. Must not be 0. Default is 1/255"},
      });
  if (!stride_changed) return;
  install_properties<S>(
      klass, settings_of,
      {
          {"stride", "Stride", &S::stride, S::kStride,
           "Pad only to a multiple of this many pixels, as auto=True of Ultralytics' LetterBox "
           "does. 0 = pad to the full size. Ranges in downstream caps, such as width=[1,640], set "
           "the maximum size, and fixed sizes stay. Without either, the input is padded to the "
           "next multiple",
           resizes},
          {"keep-original", "Keep original", &S::keep_original,
           "Keep a reference to each input frame on its output frame, for cudaletterboxrestore",
           kReady},
      });
}

}  // namespace gstvf
