#include "gst/matte/guidedmattesettings.h"

namespace gstvf {

vf::MatteMask GuidedMatteSettings::kind_of_mask() const {
  return external()                          ? vf::MatteMask::external
         : source == MatteSource::chroma_key ? vf::MatteMask::chroma_key
                                             : vf::MatteMask::alpha;
}

MatteCaps GuidedMatteSettings::caps(vf::MatteOutput output) const {
  return {source == MatteSource::alpha, output == vf::MatteOutput::composite,
          backdrop == vf::MatteBackground::color && background_argb >> 24 < 255};
}

GuidedMatteSettings GuidedMatteSettings::opaque() {
  GuidedMatteSettings s;
  s.source = MatteSource::segmentation;
  s.refine = vf::MatteRefine::guided;
  s.radius = 1;
  s.subsample = kSubsample.max;
  return s;
}

void GuidedMatteSettings::install(GObjectClass* klass,
                                  GuidedMatteSettings* (*settings_of)(GObject*),
                                  const RowOptions& mask_options,
                                  const RowOptions& output_options) {
  using S = GuidedMatteSettings;
  const GType mask_type = enum_type(
      "GstCudaGuidedMatteMask",
      {{MatteSource::alpha, "Alpha channel of the frames", "alpha"},
       {MatteSource::chroma_key, "Distance of the chroma from that of key-color", "chroma-key"},
       {MatteSource::segmentation, "GstAnalyticsSegmentationMtd on the frames (GStreamer 1.26)",
        "segmentation"},
       {MatteSource::tensor, "GstTensorMeta on the frames (GStreamer 1.26)", "tensor"}});
  const GType output_type = enum_type(
      "GstCudaGuidedMatteOutput",
      {{vf::MatteOutput::alpha, "The picture with the refined alpha", "alpha"},
       {vf::MatteOutput::premultiplied,
        "The picture premultiplied with the refined alpha, and that alpha", "premultiplied"},
       {vf::MatteOutput::matte, "The matte as opaque gray", "matte"},
       {vf::MatteOutput::composite,
        "The picture over a background, in the format of the input if downstream takes it",
        "composite"}});
  const GType foreground_type =
      enum_type("GstCudaGuidedMatteForeground",
                {{vf::MatteForeground::keep, "The colours of the picture", "keep"},
                 {vf::MatteForeground::estimate,
                  "At soft edges, the colours of the subject without those of the old background",
                  "estimate"}});
  const GType background_type =
      enum_type("GstCudaGuidedMatteBackground",
                {{vf::MatteBackground::color, "The colour background-color", "color"},
                 {vf::MatteBackground::blur,
                  "The background of the picture, blurred without the subject", "blur"}});
  const GType refine_type =
      enum_type("GstCudaGuidedMatteRefine",
                {{vf::MatteRefine::automatic, "colors, or guided with mask=chroma-key", "auto"},
                 {vf::MatteRefine::guided,
                  "Fit the mask to the edges of the picture with a guided filter", "guided"},
                 {vf::MatteRefine::colors,
                  "Correct the mask by the local colours of subject and background, then apply the "
                  "guided filter",
                  "colors"}});
  const GType activation_type =
      enum_type("GstCudaGuidedMatteActivation",
                {{MaskActivation::none, "No function: values are already from 0 to 1", "none"},
                 {MaskActivation::sigmoid, "Sigmoid, for logits of one channel", "sigmoid"},
                 {MaskActivation::softmax, "Softmax over all channels, for logits of all classes",
                  "softmax"}});
  const GType missing_type =
      enum_type("GstCudaGuidedMatteMissing",
                {{MaskMissing::opaque, "The whole frame is subject", "opaque"},
                 {MaskMissing::transparent, "The whole frame is background", "transparent"}});
  install_properties<S>(
      klass, settings_of,
      {
          {"refine", "Refine", &S::refine, refine_type, "How to refine the mask"},
          {"radius", "Radius", &S::radius, S::kRadius,
           "Radius of the guided filter's window in pixels of the frame. With refine=guided it "
           "limits how far the edge of the mask can move. The run time does not depend on it. 0 = "
           "16 with refine=colors, 32 with refine=guided"},
          {"mask-error", "Mask error", &S::mask_error, S::kMaskError,
           "Maximum error of the mask's edge in pixels of the frame (refine=colors). Use the size "
           "of one pixel of the network's mask. The actual error is measured in each frame, up to "
           "this limit. 0 = 18"},
          {"mask-trust", "Mask trust", &S::mask_trust, S::kMaskTrust,
           "Weight of the mask against the colours near its edge (refine=colors). 0 = decide by "
           "colours alone"},
          {"color-reach", "Colour reach", &S::color_reach, S::kColorReach,
           "Distance within which colours are compared, in pixels of the frame (refine=colors)"},
          {"color-sigma", "Colour sigma", &S::color_sigma, S::kColorSigma,
           "Difference at which two colours still count as alike, for channels from 0 to 1 "
           "(refine=colors)"},
          {"epsilon", "Epsilon", &S::epsilon, S::kEpsilon,
           "Variance below which the picture counts as flat, for channels from 0 to 1. Smaller "
           "values follow fainter edges, and noise"},
          {"subsample", "Subsample", &S::subsample, S::kSubsample,
           "Distance between samples of the statistics in pixels, in both directions. 1 = the full "
           "guided filter; larger values are faster"},
          {"mask", "Mask", &S::source, mask_type,
           "Source of the coarse matte. alpha needs frames with alpha. segmentation and tensor "
           "need a plugin built with GStreamer 1.26 or newer",
           mask_options},
          {"key-color", "Key colour", &S::key_argb, vf::Limits<guint>{0, 0xffffff},
           "Colour of the screen as 0xRRGGBB (mask=chroma-key)"},
          {"key-tolerance", "Key tolerance", &S::key_tolerance, S::kFraction,
           "Maximum distance from the chroma of key-color at which a pixel is screen, for Cb "
           "and Cr from -0.5 to 0.5 (mask=chroma-key). Gray stays opaque if the sum of "
           "key-tolerance and key-softness is at most the distance of key-color from gray, "
           "which is at least 0.53 for 0x00ff00 and 0.33 for 0x00b140: use 0.15 for the latter"},
          {"key-softness", "Key softness", &S::key_softness, S::kFraction,
           "Width of the ramp from screen to subject beyond key-tolerance, in the same unit "
           "(mask=chroma-key)"},
          {"despill", "Despill", &S::despill, S::kFraction,
           "Fraction of the hue of key-color to remove from the colours. 0 = none, 1 = all. Has no "
           "effect if key-color is gray"},
          {"output", "Output", &S::output, output_type, "What to output", output_options},
          {"foreground", "Foreground", &S::foreground, foreground_type,
           "Colours of the subject, unless output=matte. estimate helps if the matte is right at "
           "the edge: chroma key, fine mask, background out of focus. With a coarse mask it "
           "changes little"},
          {"background", "Background", &S::backdrop, background_type,
           "Background for output=composite"},
          {"background-sigma", "Background sigma", &S::background_sigma, S::kBackgroundSigma,
           "Standard deviation of the blur in pixels of the frame (background=blur)"},
          {"background-color", "Background colour", &S::background_argb, kColor,
           "Colour behind the subject as 0xAARRGGBB (output=composite). With background=blur it "
           "shows only if the picture has no visible background"},
          {"temporal", "Temporal", &S::temporal, S::kFraction,
           "Fraction of the previous matte to keep where the picture stands still, which reduces "
           "flicker. 0 = off, 0.95 removes most flicker"},
          {"mask-label", "Mask label", &S::label,
           "Regions that are the subject, separated by commas. With mask=segmentation, names "
           "of classes or objects, or indices; empty = all except region 0, the background. "
           "With mask=tensor, numbers of channels, which are added; empty = mask-channel. A "
           "number after a colon is the mask-error of that class, as in hair:16,clothes:8"},
          {"mask-tensor", "Mask tensor", &S::tensor,
           "Tensor to use as the mask: its id, or its index among the tensors of the frame "
           "(mask=tensor). Empty = the first"},
          {"mask-channel", "Mask channel", &S::channel, S::kChannel,
           "Channel of the tensor that holds the subject, counted from 0 (mask=tensor)"},
          {"mask-activation", "Mask activation", &S::activation, activation_type,
           "Function that turns the values of the tensor into values from 0 to 1 "
           "(mask=tensor)"},
          {"mask-hold-ms", "Mask hold time", &S::hold_ms, S::kHold,
           "Time in milliseconds for which frames without a mask use the last one "
           "(mask=segmentation and mask=tensor). 0 = never"},
          {"mask-missing", "Missing mask", &S::missing, missing_type,
           "How to treat a frame without a mask when the last mask is older than mask-hold-ms"},
      });
}

}  // namespace gstvf
