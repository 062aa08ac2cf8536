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
                                  MatteMaskSettings* (*mask_settings_of)(GObject*),
                                  const RowOptions& mask_options,
                                  const RowOptions& output_options) {
  using S = GuidedMatteSettings;
  const GType mask_type = enum_type(
      "GstCudaGuidedMatteMask",
      {{MatteSource::alpha, "The frames' alpha", "alpha"},
       {MatteSource::chroma_key, "Distance from key-color in the chroma plane", "chroma-key"},
       {MatteSource::segmentation, "GstAnalyticsSegmentationMtd on the frames (GStreamer 1.26)",
        "segmentation"},
       {MatteSource::tensor, "GstTensorMeta on the frames (GStreamer 1.26)", "tensor"}});
  const GType output_type = enum_type(
      "GstCudaGuidedMatteOutput",
      {{vf::MatteOutput::alpha, "Colours as they are, refined alpha", "alpha"},
       {vf::MatteOutput::premultiplied, "Colours times alpha, refined alpha", "premultiplied"},
       {vf::MatteOutput::matte, "The matte as gray, opaque", "matte"},
       {vf::MatteOutput::composite, "Over the background", "composite"}});
  const GType foreground_type =
      enum_type("GstCudaGuidedMatteForeground",
                {{vf::MatteForeground::keep, "The picture's own colours", "keep"},
                 {vf::MatteForeground::estimate,
                  "At soft edges the subject's colours, without the background that shines through",
                  "estimate"}});
  const GType background_type =
      enum_type("GstCudaGuidedMatteBackground",
                {{vf::MatteBackground::color, "background-color", "color"},
                 {vf::MatteBackground::blur, "The picture's own background, blurred", "blur"}});
  const GType refine_type =
      enum_type("GstCudaGuidedMatteRefine",
                {{vf::MatteRefine::automatic, "colors; guided with mask=chroma-key", "auto"},
                 {vf::MatteRefine::guided, "Guided filter on the mask", "guided"},
                 {vf::MatteRefine::colors,
                  "Guided filter on what local colours of subject and background make of the mask",
                  "colors"}});
  install_properties<S>(
      klass, settings_of,
      {
          {"refine", "Refine", &S::refine, refine_type,
           "How the mask is refined: by the guided filter alone, or by local colours first"},
          {"radius", "Radius", &S::radius, S::kRadius,
           "Radius of the guided filter's window, in pixels of the frame (0 = 16 with "
           "refine=colors, 32 with refine=guided, where it says how far the mask's edge may be "
           "moved). Run time does not depend on it"},
          {"mask-error", "Mask error", &S::mask_error, S::kMaskError,
           "Pixels of the frame that the mask's edge may be off by at most, for refine=colors: "
           "about one pixel of the network that made the mask (0 = 18). How much of it is needed "
           "is found per frame"},
          {"mask-trust", "Mask trust", &S::mask_trust, S::kMaskTrust,
           "Weight of the mask against the colours near its edge, for refine=colors (0 = colours "
           "alone)"},
          {"color-reach", "Colour reach", &S::color_reach, S::kColorReach,
           "Pixels of the frame from which colours are compared, for refine=colors"},
          {"color-sigma", "Colour sigma", &S::color_sigma, S::kColorSigma,
           "Difference between colours that count as alike, of channels from 0 to 1, for "
           "refine=colors"},
          {"epsilon", "Epsilon", &S::epsilon, S::kEpsilon,
           "Variance, of colours from 0 to 1, below which the picture counts as flat: smaller "
           "values follow fainter edges"},
          {"subsample", "Subsample", &S::subsample, S::kSubsample,
           "Pixels from one sample of the statistics to the next, horizontally and vertically: 1 "
           "is the full guided filter, more is faster"},
          {"mask", "Mask", &S::source, mask_type,
           "Source of the coarse matte. alpha needs frames with alpha, segmentation and tensor "
           "need a plugin built with GStreamer 1.26 or newer",
           mask_options},
          {"key-color", "Key colour", &S::key_argb, vf::Limits<guint>{0, 0xffffff},
           "Colour of the screen, as 0xRRGGBB"},
          {"key-tolerance", "Key tolerance", &S::key_tolerance, S::kFraction,
           "Chroma this near to the key's is screen (Cb and Cr from -0.5 to 0.5)"},
          {"key-softness", "Key softness", &S::key_softness, S::kFraction,
           "Chroma farther than key-tolerance by this is subject; the mask is a ramp between"},
          {"despill", "Despill", &S::despill, S::kFraction,
           "Share of the key's hue that is taken out of the colours (0 = none, 1 = all). A gray "
           "key "
           "has no hue, and nothing is taken out"},
          {"output", "Output", &S::output, output_type,
           "Output mode: the picture with its matte, the matte, or the picture over a background, "
           "which comes out in the format that came in where it can",
           output_options},
          {"foreground", "Foreground", &S::foreground, foreground_type,
           "The subject's colours in the output, unless that is the matte. estimate helps where "
           "the "
           "matte is right at the edge (a chroma key, a fine mask, a background out of focus); "
           "with "
           "a coarse mask before a sharp background keep is often better"},
          {"background", "Background", &S::backdrop, background_type,
           "What is behind the subject with output=composite. The blur is of the background alone: "
           "the subject's colours do not reach it"},
          {"background-sigma", "Background sigma", &S::background_sigma, S::kBackgroundSigma,
           "Standard deviation of the blur with background=blur, in pixels of the frame"},
          {"background-color", "Background colour", &S::background_argb, kColor,
           "Colour behind the subject with output=composite, as 0xAARRGGBB; with background=blur "
           "where the picture shows no background at all"},
          {"temporal", "Temporal", &S::temporal, S::kFraction,
           "Steadies the matte where the picture stands still: share of the frame before that is "
           "kept (0 = off; 0.95 takes out most flicker)"},
      });

  MatteMaskSettings::install(klass, mask_settings_of);
}

}  // namespace gstvf
