#include "gst/letterbox/batchpad.h"

#include <algorithm>
#include <utility>

#include "gst/base/errors.h"

using gstvf::BatchPad;
using gstvf::HeldFrame;
using gstvf::LetterboxSettings;

namespace gstvf {

void HeldFrame::release() {
  gst_clear_buffer(&buffer);
  gst_clear_caps(&caps);
}

size_t BatchPad::waiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return held_.size();
}

void BatchPad::arrives(GstBuffer* buffer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  arrivals_.emplace_back(buffer, g_get_monotonic_time());
}

void BatchPad::did_not_arrive(GstBuffer* buffer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!arrivals_.empty() && arrivals_.back().first == buffer) arrivals_.pop_back();
}

bool BatchPad::arrival_of(GstBuffer* buffer, gint64* when) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto is_buffer = [&](const auto& arrival) { return arrival.first == buffer; };
  const auto at = std::find_if(arrivals_.begin(), arrivals_.end(), is_buffer);
  if (at == arrivals_.end()) {
    *when = g_get_monotonic_time();
    return std::none_of(flushed_.begin(), flushed_.end(), is_buffer);
  }
  *when = at->second;
  arrivals_.erase(arrivals_.begin(), at + 1);
  return true;
}

void BatchPad::flush_arrivals() {
  const std::lock_guard<std::mutex> lock(mutex_);
  flushed_ = std::exchange(arrivals_, {});
}

void BatchPad::add(HeldFrame&& frame) {
  const std::lock_guard<std::mutex> lock(mutex_);
  held_.push_back(std::move(frame));
  gst_clear_event(&gap_);
}

void BatchPad::add_gap(GstEvent* gap) {
  const std::lock_guard<std::mutex> lock(mutex_);
  gst_clear_event(&gap_);
  gap_ = gap;
}

GstEvent* BatchPad::take_gap() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return held_.empty() ? std::exchange(gap_, nullptr) : nullptr;
}

std::optional<HeldTimes> BatchPad::peek(size_t n) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return n < held_.size() ? std::optional<HeldTimes>(held_[n]) : std::nullopt;
}

bool BatchPad::take(HeldFrame* frame) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (held_.empty()) return false;
  *frame = std::move(held_.front());
  held_.pop_front();
  return true;
}

GstBuffer* BatchPad::oldest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return held_.empty() ? nullptr : gst_buffer_ref(held_.front().buffer);
}

void BatchPad::clear() {
  HeldFrame frame;
  for (; take(&frame); frame.release()) dropped++;
  add_gap(nullptr);
}

}  // namespace gstvf

#define gst_cuda_letterbox_batch_pad_parent_class parent_class
G_DEFINE_TYPE(GstCudaLetterboxBatchPad, gst_cuda_letterbox_batch_pad, GST_TYPE_AGGREGATOR_PAD)

static BatchPad& state_of(gpointer pad) {
  return *GST_CUDA_LETTERBOX_BATCH_PAD(pad)->state;
}

// The element's value arrives while this names the thread that sets it.
static thread_local bool following = false;

void gst_cuda_letterbox_batch_pad_follow(GstCudaLetterboxBatchPad* pad, GParamSpec* spec,
                                         const GValue* value) {
  const auto& own = pad->state->own;
  const bool follows = gstvf::under_lock(pad, [&] {
    return std::find(own.begin(), own.end(), g_intern_string(spec->name)) == own.end();
  });
  if (!follows) return;
  following = true;
  g_object_set_property(G_OBJECT(pad), spec->name, value);
  following = false;
}

std::shared_ptr<const LetterboxSettings> gst_cuda_letterbox_batch_pad_settings(
    GstCudaLetterboxBatchPad* pad) {
  BatchPad& s = *pad->state;
  if (s.settings_changed.exchange(false) || !s.current)
    s.current = std::make_shared<const LetterboxSettings>(gstvf::locked(pad, s.settings));
  return s.current;
}

bool gst_cuda_letterbox_batch_pad_put_back(GstCudaLetterboxBatchPad* pad, const char* why) {
  BatchPad& s = *pad->state;
  if (!s.accepted || s.accepted == s.current) return false;
  GParamSpec* spec = gstvf::property_named_by(pad, why);
  g_auto(GValue) value = G_VALUE_INIT;
  g_auto(GValue) former = G_VALUE_INIT;
  if (spec) g_object_get_property(G_OBJECT(pad), spec->name, &value);
  gstvf::under_lock(pad, [&] {
    // A value that was set since will be tried with the next frame.
    if (!s.settings_changed) s.settings = *s.accepted;
  });
  s.current = s.accepted;
  if (spec) g_object_get_property(G_OBJECT(pad), spec->name, &former);
  g_autoptr(GstElement) element = gst_pad_get_parent_element(GST_PAD(pad));
  if (element && spec)
    gstvf::post_setting_kept(element, spec, &value, &former, why, GST_PAD_NAME(pad));
  else if (element)
    GST_ELEMENT_WARNING_WITH_DETAILS(
        element, LIBRARY, SETTINGS, ("%s keeps its former settings: %s.", GST_PAD_NAME(pad), why),
        (nullptr),
        ("reason", G_TYPE_STRING, "setting", "pad", G_TYPE_STRING, GST_PAD_NAME(pad), nullptr));
  return true;
}

static void notify(GObject* object, GParamSpec* spec) {
  BatchPad& s = state_of(object);
  // Names of properties of one class are interned, and those of the element have equal text.
  const gchar* name = g_intern_string(spec->name);
  gstvf::under_lock(object, [&] {
    if (!following && std::find(s.own.begin(), s.own.end(), name) == s.own.end())
      s.own.push_back(name);
  });
  s.settings_changed = true;
  if (G_OBJECT_CLASS(parent_class)->notify) G_OBJECT_CLASS(parent_class)->notify(object, spec);
}

static GstFlowReturn flush(GstAggregatorPad* pad, GstAggregator*) {
  BatchPad& s = state_of(pad);
  const std::lock_guard<std::mutex> lock(s.taking);
  s.flush_arrivals();
  s.clear();
  return GST_FLOW_OK;
}

static void finalize(GObject* object) {
  auto* self = GST_CUDA_LETTERBOX_BATCH_PAD(object);
  gst_clear_caps(&self->state->caps);
  delete self->state;
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_cuda_letterbox_batch_pad_init(GstCudaLetterboxBatchPad* self) {
  self->state = new BatchPad();
}

static void gst_cuda_letterbox_batch_pad_class_init(GstCudaLetterboxBatchPadClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  object_class->finalize = finalize;
  object_class->notify = notify;
  GST_AGGREGATOR_PAD_CLASS(klass)->flush = flush;
  LetterboxSettings::install(
      object_class, [](GObject* object) { return &state_of(object).settings; }, nullptr, nullptr);
  gstvf::install_property(
      object_class,
      g_param_spec_boxed("stats", "Statistics",
                         "Number of frames of this stream that went into batches (frames) and that "
                         "were dropped (dropped)",
                         GST_TYPE_STRUCTURE,
                         GParamFlags(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS)),
      new gstvf::Property{{}, nullptr, nullptr, [](GObject* object, GValue* value) {
                            const BatchPad& s = state_of(object);
                            g_value_take_boxed(
                                value, gst_structure_new("application/x-cuda-letterbox-batch-stats",
                                                         "frames", G_TYPE_UINT64, s.frames.load(),
                                                         "dropped", G_TYPE_UINT64, s.dropped.load(),
                                                         nullptr));
                          }});
  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_LETTERBOX_BATCH_PAD, GstPluginAPIFlags(0));
}
