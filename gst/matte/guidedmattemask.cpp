#include "gst/matte/guidedmattemask.h"

#include <algorithm>

#include "gst/base/errors.h"
#include "gst/base/names.h"
#include "gst/base/properties.h"
#include "gst/gstcudaletterboxmeta.h"
#include "gst/matte/segmentation.h"

namespace gstvf {

void MatteMaskSettings::install(GObjectClass* klass, MatteMaskSettings* (*settings_of)(GObject*)) {
  using S = MatteMaskSettings;
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
          {"mask-label", "Mask label", &S::label,
           "Regions of the segmentation that are the subject: names of their classes or objects, "
           "or their indices, separated by commas (mask=segmentation). Empty = all except region "
           "0, the background. With mask=tensor, numbers of the channels whose sum is the subject, "
           "and empty = mask-channel"},
          {"mask-tensor", "Mask tensor", &S::tensor,
           "Tensor to use as the mask: its id, or its index among the tensors of the frame "
           "(mask=tensor). Empty = the first"},
          {"mask-channel", "Mask channel", &S::channel, S::kChannel,
           "Channel of the tensor that holds the subject, counted from 0 (mask=tensor)"},
          {"mask-activation", "Mask activation", &S::activation, activation_type,
           "Function that brings the values of the tensor into the range 0 to 1 (mask=tensor)"},
          {"mask-hold-ms", "Mask hold time", &S::hold_ms, S::kHold,
           "Time in milliseconds for which frames without a mask use the last one "
           "(mask=segmentation and mask=tensor). 0 = never"},
          {"mask-missing", "Missing mask", &S::missing, missing_type,
           "How to treat a frame without a mask when the last mask is older than mask-hold-ms"},
      });
}

namespace {

// Returns the number that a text is, or -1.
gint64 number_of(const std::string& text) {
  guint64 value;
  return g_ascii_string_to_unsigned(text.c_str(), 10, 0, G_MAXINT, &value, nullptr) ? gint64(value)
                                                                                    : -1;
}

// Adds a name to a list for a message: "a", "b" and so on.
void list(std::string* all, const std::string& name) {
  constexpr size_t enough = 200;
  if (all->size() > enough) return;
  *all += (all->empty() ? "\"" : ", \"") + name + "\"";
}

}  // namespace

bool MatteMasks::refuse(std::string problem) {
  problem_ = std::move(problem);
  return false;
}

uint8_t* MatteMasks::add(int width, int height, const vf::MaskRectangle& image,
                         const vf::MaskRectangle& counts) {
  if (next_.pixels.size() == next_.used) next_.pixels.emplace_back();
  std::vector<uint8_t>& pixels = next_.pixels[next_.used++];
  pixels.resize(size_t(width) * height);
  next_.part.push_back({pixels.data(), width, width, height, image, counts});
  return pixels.data();
}

// Segmentations

// Marks the regions that `labels` names. Returns false if there are none.
bool MatteMasks::select(const SegmentationView& view, const std::string& labels) {
  selected_.assign(1 << 16, 0);
  const auto mark = [&](guint id) {
    if (id < selected_.size()) selected_[id] = 255;
  };
  if (labels.empty()) {
    for (const SegmentationView::Region& r : view.regions)
      if (r.id) mark(r.id);
    return true;
  }
  const auto named = [&](const std::string& label) {
    bool any = false;
    for (const SegmentationView::Region& r : view.regions)
      if (r.label == label) {
        mark(r.id);
        any = true;
      }
    return any;
  };
  if (named(labels)) return true;  // a name may have a comma
  bool any = false;
  for_each_name(labels, [&](const std::string& label) {
    const gint64 index = number_of(label);
    if (named(label)) {
      any = true;
    } else if (index >= 0 && gsize(index) < view.regions.size()) {
      mark(view.regions[gsize(index)].id);
      any = true;
    }
  });
  return any;
}

// Adds a segmentation's selected regions. The frame is at (place.x, place.y) of the segmented
// image.
bool MatteMasks::add_segmentation(const SegmentationView& view, const FramePlace& place) {
  if (view.is_empty()) return true;  // all pixels without a part are background
  const std::string wrong =
      read_segmentation(view, selected_, vf::MaskPart::kSize, [&](int width, int height) {
        const double x = double(view.x) - place.x, y = double(view.y) - place.y;
        const vf::MaskRectangle covers = {x, y, x + view.width, y + view.height};
        return add(width, height, covers, covers);
      });
  return wrong.empty() || refuse(wrong);
}

bool MatteMasks::read_segmentations(GstBuffer* buffer, const MatteMaskSettings& settings,
                                    const FramePlace& place) {
  bool any = false, named = false;
  std::string names;
  for_each_segmentation(buffer, [&](const SegmentationView& view) {
    if (next_.used == size_t(vf::CoarseMask::kMaxParts)) {
      refuse(printed("a frame has more segmentations than %d", vf::CoarseMask::kMaxParts));
      return false;
    }
    if (select(view, settings.label)) {
      named = true;
    } else {
      for (const SegmentationView::Region& r : view.regions)
        if (!r.label.empty()) list(&names, r.label);
    }
    any |= add_segmentation(view, place);
    return true;
  });
  // No region has that name, so all of the frame is background.
  if (any && !named)
    refuse(printed("no region is %s (mask-label)%s%s", settings.label.c_str(),
                   names.empty() ? "" : ": there are ", names.c_str()));
  return any;
}

// Tensors

// Finds the channels that are the subject.
bool MatteMasks::read_channels(const MatteMaskSettings& settings) {
  channels_.clear();
  bool ok = true;
  for_each_name(settings.label, [&](const std::string& label) {
    const gint64 number = number_of(label);
    if (!MatteMaskSettings::kChannel.allow(int(std::min<gint64>(number, G_MAXINT))))
      ok = refuse(
          printed("the channels of a tensor have numbers from %d to %d, so \"%s\" is none "
                  "(mask-label)",
                  MatteMaskSettings::kChannel.min, MatteMaskSettings::kChannel.max, label.c_str()));
    else if (std::find(channels_.begin(), channels_.end(), int(number)) == channels_.end())
      channels_.push_back(int(number));
  });
  if (ok && channels_.empty()) channels_.push_back(settings.channel);
  return ok;
}

bool MatteMasks::read_tensor(GstBuffer* buffer, const MatteMaskSettings& settings,
                             const FramePlace& place, const vf::MaskRectangle& frame) {
  // Looks for the id or, if no tensor has it, for the number.
  const gint64 number = settings.tensor.empty() ? 0 : number_of(settings.tensor);
  gint64 wanted = -1, count = 0;
  std::string ids;
  for_each_tensor(buffer, [&](const TensorView& t) {
    if (wanted < 0 && !settings.tensor.empty() && settings.tensor == t.id) wanted = count;
    list(&ids, t.id);
    count++;
    return true;
  });
  if (count == 0) return false;
  if (!read_channels(settings)) return false;
  if (wanted < 0) wanted = number;
  if (wanted < 0 || wanted >= count)
    return refuse(printed("no tensor is %s (mask-tensor): there are %s", settings.tensor.c_str(),
                          ids.c_str()));
  bool ok = false;
  count = 0;
  for_each_tensor(buffer, [&](const TensorView& t) {
    if (count++ != wanted) return true;
    MaskShape shape;
    problem_ = mask_shape(t, &shape);
    if (!problem_.empty()) return false;
    // The network has seen the uncropped frame, or what a letterbox has made of it.
    vf::MaskRectangle image = {0, 0, double(place.width), double(place.height)};
    GstCudaLetterboxGeometry g;
    if (gst_buffer_get_cuda_letterbox_geometry(buffer, &g) && g.output_width > 0 &&
        g.output_height > 0 && (g.output_width != place.width || g.output_height != place.height)) {
      const double sx = place.width / g.content_width, sy = place.height / g.content_height;
      image = {-g.left * sx, -g.top * sy, (g.output_width - g.left) * sx,
               (g.output_height - g.top) * sy};
    }
    image.left -= place.x;
    image.right -= place.x;
    image.top -= place.y;
    image.bottom -= place.y;
    problem_ = convert_mask(t, shape, channels_, settings.activation,
                            [&] { return add(shape.width, shape.height, image, frame); });
    ok = problem_.empty();
    return false;
  });
  return ok;
}

// The frames' masks

std::string MatteMasks::take(GstBuffer* buffer, const MatteMaskSettings& settings,
                             const Format& format, GstClockTime time) {
  problem_.clear();
  next_.part.clear();
  next_.used = 0;
  const FramePlace place = place_of(format, buffer);
  const vf::MaskRectangle frame = {0, 0, double(format.width), double(format.height)};
  bool found = settings.source == MatteSource::segmentation
                   ? read_segmentations(buffer, settings, place)
                   : read_tensor(buffer, settings, place, frame);
  if (found) {
    // The rectangles of the parts have not been checked yet.
    vf::PlacedMask placed;
    const vf::Status status = vf::place_mask({next_.part.data(), int(next_.part.size()), 0},
                                             format.width, format.height, &placed);
    if (!status.ok()) found = refuse(status.message());
  }
  found_ = found;
  age_ = 0;
  if (found) {
    std::swap(next_, shown_);
    id_ = ++last_id_;
    held_ = true;
    time_ = time;
    return problem_;
  }
  // Without times, a mask holds for all frames that follow.
  const bool times = GST_CLOCK_TIME_IS_VALID(time) && GST_CLOCK_TIME_IS_VALID(time_);
  held_ =
      held_ && settings.hold_ms > 0 &&
      (!times || (time >= time_ && time - time_ <= GstClockTime(settings.hold_ms) * GST_MSECOND));
  if (held_ && times && time > time_) age_ = time - time_;
  if (!held_) use(settings.missing, format);
  return problem_;
}

void MatteMasks::use(MaskMissing mask, const Format& format) {
  static const uint8_t subject = 255;
  const vf::MaskRectangle frame = {0, 0, double(format.width), double(format.height)};
  held_ = false;
  shown_.part.clear();
  if (mask == MaskMissing::opaque) shown_.part.push_back({&subject, 1, 1, 1, frame, frame});
  id_ = mask == MaskMissing::opaque ? kOpaque : kTransparent;
}

vf::CoarseMask MatteMasks::mask(Rows rows) {
  if (rows == Rows::all) return {shown_.part.data(), int(shown_.part.size()), id_};
  // Row y of a field is row 2 y, or 2 y + 1, of the frame.
  field_ = shown_.part;
  const double first = rows == Rows::bottom_field ? 1 : 0;
  for (vf::MaskPart& part : field_)
    for (vf::MaskRectangle* r : {&part.image, &part.counts}) {
      r->top = (r->top + 0.5 - first) / 2;
      r->bottom = (r->bottom + 0.5 - first) / 2;
    }
  return {field_.data(), int(field_.size()), id_};
}

bool WarningLimit::allows(const std::string& text, gint64 now) {
  constexpr gint64 again = 10 * G_TIME_SPAN_SECOND, other = G_TIME_SPAN_SECOND;
  if (now < (text == last_ ? last_time_ + again : last_time_ + other) && last_time_) return false;
  last_ = text;
  last_time_ = now;
  return true;
}

}  // namespace gstvf
