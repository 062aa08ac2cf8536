#include "gst/matte/guidedmattemask.h"

#include <algorithm>

#include "gst/base/errors.h"
#include "gst/base/names.h"
#include "gst/gstcudaletterboxmeta.h"
#include "gst/matte/segmentation.h"

namespace gstvf {

namespace {

// Returns the number that a text is, or -1.
gint64 number_of(const std::string& text) {
  guint64 value;
  return g_ascii_string_to_unsigned(text.c_str(), 10, 0, G_MAXINT, &value, nullptr) ? gint64(value)
                                                                                    : -1;
}

// Splits the error off from a label such as "hair:24". The error is 0 if there is none.
struct Label {
  std::string name;
  int error = 0;
  explicit Label(const std::string& text) : name(text) {
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0) return;
    const gint64 number = number_of(text.substr(colon + 1));
    if (number < 1 || number > vf::GuidedParams::kMaskError.max) return;
    name.resize(colon);
    error = int(number);
  }
};

// Gives pixels of 0 the error of the nearest other pixel. A step counts 3, and a diagonal one 4.
// The memory of `distance` is kept for the next mask.
void spread_errors(int width, int height, uint8_t* error, std::vector<uint16_t>& distance) {
  constexpr uint16_t none = 0xfff0;
  const int pitch = width + 2;  // with a pixel of border
  distance.assign(size_t(pitch) * (height + 2), none);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      if (error[size_t(y) * width + x]) distance[size_t(y + 1) * pitch + x + 1] = 0;
  for (const int way : {1, -1})
    for (int j = 0; j < height; j++)
      for (int i = 0; i < width; i++) {
        const int x = way > 0 ? i : width - 1 - i, y = way > 0 ? j : height - 1 - j;
        uint16_t* const here = distance.data() + ptrdiff_t(y + 1) * pitch + x + 1;
        uint8_t* const own = error + ptrdiff_t(y) * width + x;
        const auto from = [&](int dx, int dy, int step) {
          const int d = here[way * (dy * pitch + dx)] + step;
          if (d >= *here) return;
          *here = uint16_t(d);
          *own = own[way * (dy * width + dx)];
        };
        from(-1, 0, 3);
        from(-1, -1, 4);
        from(0, -1, 3);
        from(1, -1, 4);
      }
}

// Adds a name to a list for a message: "a", "b" and so on.
void list(std::string* all, const std::string& name) {
  constexpr size_t enough = 200;
  if (all->size() > enough) return;
  *all += (all->empty() ? "\"" : ", \"") + name + "\"";
}

}  // namespace

int MatteMaskSettings::label_error() const {
  int largest = 0;
  for_each_name(label,
                [&](const std::string& text) { largest = std::max(largest, Label(text).error); });
  return largest;
}

bool MatteMasks::refuse(std::string problem) {
  problem_ = std::move(problem);
  return false;
}

uint8_t* MatteMasks::add(int width, int height, const vf::MaskRectangle& image,
                         const vf::MaskRectangle& counts) {
  uint8_t* const data = room(size_t(width) * height);
  next_.part.push_back({data, width, width, height, image, counts});
  return data;
}

void MatteMasks::add_errors(const std::function<void(uint8_t*)>& fill) {
  vf::MaskPart& part = next_.part.back();
  uint8_t* const data = room(size_t(part.width) * part.height);
  fill(data);
  spread_errors(part.width, part.height, data, distances_);
  part.error = data;
}

uint8_t* MatteMasks::room(size_t bytes) {
  if (next_.pixels.size() == next_.used) next_.pixels.emplace_back();
  std::vector<uint8_t>& pixels = next_.pixels[next_.used++];
  pixels.resize(bytes);
  return pixels.data();
}

uint8_t MatteMasks::share_of(int label_error) const {
  const int error = label_error ? label_error : mask_error_;
  return uint8_t(std::max((510 * error + largest_error_) / (2 * largest_error_), 1));
}

// Segmentations

// Marks the regions that `labels` names. Returns false if there are none.
bool MatteMasks::select(const SegmentationView& view, const std::string& labels) {
  selected_.assign(1 << 16, 0);
  region_errors_.assign(largest_error_ ? 1 << 16 : 0, 0);
  const auto mark = [&](guint id, int error = 0) {
    if (id >= selected_.size()) return;
    selected_[id] = 255;
    if (largest_error_) region_errors_[id] = share_of(error);
  };
  if (labels.empty()) {
    for (const SegmentationView::Region& r : view.regions)
      if (r.id) mark(r.id);
    return true;
  }
  const auto named = [&](const std::string& name, int error = 0) {
    bool any = false;
    for (const SegmentationView::Region& r : view.regions)
      if (r.label == name) {
        mark(r.id, error);
        any = true;
      }
    return any;
  };
  if (named(labels)) return true;  // a name may have a comma
  bool any = false;
  for_each_name(labels, [&](const std::string& text) {
    const Label label(text);
    const gint64 index = number_of(label.name);
    if (named(text) || named(label.name, label.error)) {  // or a colon
      any = true;
    } else if (index >= 0 && gsize(index) < view.regions.size()) {
      mark(view.regions[gsize(index)].id, label.error);
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
  if (!wrong.empty()) return refuse(wrong);
  if (largest_error_)
    add_errors([&](uint8_t* out) {
      read_segmentation(view, region_errors_, vf::MaskPart::kSize, [&](int, int) { return out; });
    });
  return true;
}

bool MatteMasks::read_segmentations(GstBuffer* buffer, const MatteMaskSettings& settings,
                                    const FramePlace& place) {
  bool any = false, named = false;
  std::string names;
  for_each_segmentation(buffer, [&](const SegmentationView& view) {
    if (next_.part.size() == size_t(vf::CoarseMask::kMaxParts)) {
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
  channel_errors_.clear();
  bool ok = true;
  for_each_name(settings.label, [&](const std::string& text) {
    const Label label(text);
    const gint64 number = number_of(label.name);
    if (!MatteMaskSettings::kChannel.allow(int(std::min<gint64>(number, G_MAXINT))))
      ok = refuse(
          printed("the channels of a tensor have numbers from %d to %d, so \"%s\" is none "
                  "(mask-label)",
                  MatteMaskSettings::kChannel.min, MatteMaskSettings::kChannel.max, text.c_str()));
    else if (std::find(channels_.begin(), channels_.end(), int(number)) == channels_.end()) {
      channels_.push_back(int(number));
      if (largest_error_) channel_errors_.push_back(share_of(label.error));
    }
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
    if (ok && largest_error_)
      add_errors([&](uint8_t* out) {
        choose_errors(t, shape, channels_, channel_errors_, next_.part.back().data, out);
      });
    return false;
  });
  return ok;
}

// The frames' masks

std::string MatteMasks::take(GstBuffer* buffer, const MatteMaskSettings& settings, int mask_error,
                             const Format& format, GstClockTime time) {
  problem_.clear();
  mask_error_ = vf::GuidedParams::edge_of(mask_error);
  largest_error_ = settings.label_error();
  if (largest_error_) largest_error_ = std::max(largest_error_, mask_error_);
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
