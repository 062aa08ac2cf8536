#include "gst/letterbox/batcher.h"

#include <algorithm>

#include "filters/make.h"
#include "gst/base/allocation.h"
#include "gst/base/errors.h"
#include "gst/base/formatcaps.h"
#include "gst/letterbox/letterboxmeta.h"

GST_DEBUG_CATEGORY_EXTERN(gst_cuda_letterbox_batch_debug);
#define GST_CAT_DEFAULT gst_cuda_letterbox_batch_debug

namespace gstvf {

using vf::Code;
using vf::Status;

// Lists the sink pads and keeps them for its lifetime.
class Batcher::PadList : vf::NoCopy {
 public:
  explicit PadList(GstAggregator* element) : element_(GST_ELEMENT(element)) {
    const ObjectLock lock(element);
    cookie_ = element_->pads_cookie;
    for (GList* l = element_->sinkpads; l; l = l->next)
      pads_.push_back(GST_CUDA_LETTERBOX_BATCH_PAD(gst_object_ref(l->data)));
  }
  ~PadList() {
    for (auto* pad : pads_) gst_object_unref(pad);
  }
  const Pads& list() const { return pads_; }
  // Tells whether a pad has come or gone since.
  bool is_old() const { return locked(element_, element_->pads_cookie) != cookie_; }

 private:
  GstElement* element_;
  guint32 cookie_ = 0;
  Pads pads_;
};

// A frame that was chosen for a batch.
struct Batcher::Chosen {
  GstCudaLetterboxBatchPad* pad;
  HeldFrame frame;
  RowWork work;
};

// Start and stop

void Batcher::say_backend(const std::string& text) {
  const bool cuda = work_.on_cuda();
  GST_ELEMENT_INFO_WITH_DETAILS(
      element_, RESOURCE, SETTINGS, ("%s", text.c_str()), ("%s", text.c_str()),
      ("backend", G_TYPE_STRING, cuda ? "cuda" : "cpu", "device", G_TYPE_INT,
       cuda ? int(context_device(cuda_.get())) : -1, nullptr));
}

void Batcher::use_cpu_instead(const Status& why) {
  work_.use(vf::Backend::cpu);
  say_backend(printed("Filtering on the CPU: %s.", why.message()));
}

bool Batcher::start() {
  started_ = locked(element_, backend);
  policy_ = BatchPolicy();
  policy_.configure(locked(element_, settings), G_MAXINT);
  negotiated_ = refused_ = adopted_ = false;
  first_ = nullptr;
  discont_ = true;
  last_pts_ = 0;
  if (started_.backend == GST_CUDA_VIDEO_FILTER_BACKEND_CPU) {
    work_.use(vf::Backend::cpu);
    say_backend("Filtering on the CPU.");
    return true;
  }
  const Status status = open_cuda(cuda_, work_, started_.device);
  if (status.ok()) {
    say_backend(printed("Filtering on the GPU with CUDA, device %u.", context_device(cuda_.get())));
    return true;
  }
  if (started_.backend == GST_CUDA_VIDEO_FILTER_BACKEND_CUDA) {
    post_error(GST_ELEMENT(element_), status);
    return false;
  }
  use_cpu_instead(status);
  return true;
}

void Batcher::stop() {
  work_.use(vf::Backend::cpu);
  cuda_.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  removed_.clear();
}

void Batcher::flush() {
  policy_.reset();
  discont_ = true;
  last_pts_ = 0;
}

void Batcher::removed(guint stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  removed_.push_back(stream);
}

GstFlowReturn Batcher::fail(const Status& status) {
  post_error(GST_ELEMENT(element_), status);
  work_.close();
  return GST_FLOW_ERROR;
}

// Negotiation

GstFlowReturn Batcher::update_caps(GstCaps* downstream, GstCaps** caps) {
  if (!first_) return GST_AGGREGATOR_FLOW_NEED_DATA;
  const PadList pads(element_);
  const guint size = locked(element_, settings.batch_size);
  const int rows = size ? int(size) : std::max(1, int(pads.list().size()));
  *caps = batch_fixate(gst_caps_ref(downstream), work_.on_cuda() || first_in_cuda_, first_->width,
                       first_->height, rows);
  return GST_FLOW_OK;
}

bool Batcher::set_caps(GstCaps* caps) {
  const BatchSettings now = locked(element_, settings);
  BatchShape shape;
  const std::string why = parse_batch(caps, int(now.batch_size), &shape);
  if (!why.empty()) {
    const GParamSpec* spec = property_named_by(element_, why.c_str());
    GstStructure* details =
        spec ? setting_details(element_, spec->name, why) : reason_details("caps");
    gst_structure_set(details, "caps", GST_TYPE_CAPS, caps, nullptr);
    gchar* debug = gst_info_strdup_printf("caps %" GST_PTR_FORMAT, caps);
    post_error(GST_ELEMENT(element_),
               {GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, g_strdup(why.c_str()), debug, details});
    return false;
  }
  // Pads behind ask for negotiation when they are linked, and mostly get the same again.
  const BatchShape& old = work_.shape();
  if (!negotiated_ || old.rows != shape.rows || old.row.layout != shape.row.layout ||
      old.row.color.half_float != shape.row.color.half_float)
    work_.configure(shape);
  policy_.configure(now, size_t(shape.rows));
  negotiated_ = true;
  return true;
}

// GstAggregator posts no error, and would try again at once when a batch is due.
void Batcher::not_negotiated() {
  g_autoptr(GstCaps) allowed = gst_pad_get_allowed_caps(element_->srcpad);
  if (refused_ || !allowed || !gst_caps_is_empty(allowed)) return;
  refused_ = true;
  GST_ELEMENT_ERROR_WITH_DETAILS(
      element_, STREAM, FORMAT,
      ("The elements behind take no batch of tensors. They must take other/tensors "
       "with num_tensors=1 and types float32, float16 or uint8."),
      (nullptr), ("reason", G_TYPE_STRING, "caps", nullptr));
}

bool Batcher::decide_allocation(GstQuery* query) {
  Format whole = work_.shape().row;
  whole.size *= gsize(work_.shape().rows);
  return decide_pool({GST_ELEMENT(element_), cuda_, work_.on_cuda(), 0}, whole, started_.device,
                     query);
}

bool Batcher::propose_allocation(GstQuery* query) {
  // The frames of a stream that wait here come on top of those that upstream holds.
  const size_t held = locked(element_, settings.max_per_stream);
  return propose_pool({GST_ELEMENT(element_), cuda_, work_.on_cuda(), held}, query);
}

// Asks whether frames come at their times.
static bool is_live(GstPad* pad) {
  g_autoptr(GstQuery) query = gst_query_new_latency();
  gboolean live = FALSE;
  if (gst_pad_peer_query(pad, query)) gst_query_parse_latency(query, &live, nullptr, nullptr);
  return live;
}

// Warns that a stream has caps that cannot be used. Its frames are dropped, and the others go on.
void Batcher::refuse_caps(GstCudaLetterboxBatchPad* pad, const char* why) {
  BatchPad& s = *pad->state;
  if (s.told) return;
  s.told = true;
  GST_ELEMENT_WARNING_WITH_DETAILS(element_, STREAM, FORMAT,
                                   ("The frames of %s are dropped: %s.", GST_PAD_NAME(pad), why),
                                   ("caps %" GST_PTR_FORMAT, s.caps),
                                   ("reason", G_TYPE_STRING, "caps", "pad", G_TYPE_STRING,
                                    GST_PAD_NAME(pad), "caps", GST_TYPE_CAPS, s.caps, nullptr));
}

void Batcher::handle_event(GstCudaLetterboxBatchPad* pad, GstEvent* event) {
  BatchPad& s = *pad->state;
  if (GST_EVENT_TYPE(event) == GST_EVENT_CAPS) {
    GstCaps* caps;
    gst_event_parse_caps(event, &caps);
    auto format = std::make_shared<Format>();
    s.format = nullptr;
    gst_caps_replace(&s.caps, caps);
    const char* why = format_from_caps(caps, format.get()) ? why_refused(*format, false)
                                                           : "their format is not supported";
    if (why) return refuse_caps(pad, why);
    const GstVideoInfo& info = *format->video;
    s.period = info.fps_n > 0 ? gst_util_uint64_scale(1000000, info.fps_d, info.fps_n) : 0;
    s.live = is_live(GST_PAD(pad));
    s.format = format;
    if (!first_) first_in_cuda_ = caps_in_cuda(caps);
    if (!first_) first_ = format;
    return;
  }
  if (GST_EVENT_IS_STICKY(event) && GST_EVENT_TYPE(event) != GST_EVENT_EOS) {
    s.events = StreamEvents::with(s.events.get(), event);
    // The next frame may be of another time.
    if (GST_EVENT_TYPE(event) == GST_EVENT_STREAM_START)
      s.ended = s.gap = s.stalled = s.told = false;
  }
}

// Frames

static GstClockTime stream_time(GstCudaLetterboxBatchPad* pad, GstBuffer* buffer) {
  const GstSegment segment = locked(pad, GST_AGGREGATOR_PAD(pad)->segment);
  return segment.format == GST_FORMAT_TIME
             ? gst_segment_to_stream_time(&segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer))
             : GST_CLOCK_TIME_NONE;
}

void Batcher::drop(GstCudaLetterboxBatchPad* pad, HeldFrame& frame, bool late) {
  BatchPad& s = *pad->state;
  const guint64 dropped = ++s.dropped;
  discont_ = true;
  const GstClockTime pts = GST_BUFFER_PTS(frame.buffer);
  GST_DEBUG_OBJECT(pad, "dropping a frame of %" GST_TIME_FORMAT, GST_TIME_ARGS(pts));
  if (GST_CLOCK_TIME_IS_VALID(frame.running)) {
    // Frames that come too late should come sooner; those that newer ones replace are too many.
    const GstClockTime period = std::min(GstClockTime(s.period) * GST_USECOND, frame.running);
    const GstClockTimeDiff diff = late ? GstClockTimeDiff(period) : -GstClockTimeDiff(period);
    gst_pad_push_event(GST_PAD(pad),
                       gst_event_new_qos(late ? GST_QOS_TYPE_UNDERFLOW : GST_QOS_TYPE_OVERFLOW, 1.0,
                                         diff, frame.running));
  }
  GstMessage* message =
      gst_message_new_qos(GST_OBJECT(pad), s.live, frame.running, stream_time(pad, frame.buffer),
                          pts, GST_BUFFER_DURATION(frame.buffer));
  gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, s.frames, dropped);
  gst_element_post_message(GST_ELEMENT(element_), message);
  frame.release();
}

// Takes the next frame of a pad out of its queue. Returns false if there is none. A frame that
// cannot wait comes back in `dropped`.
bool Batcher::take_next(GstCudaLetterboxBatchPad* pad, HeldFrame* dropped) {
  BatchPad& s = *pad->state;
  auto* aggpad = GST_AGGREGATOR_PAD(pad);
  const std::lock_guard<std::mutex> lock(s.taking);
  GstBuffer* buffer = gst_aggregator_pad_pop_buffer(aggpad);
  if (!buffer) return false;
  // GstAggregator makes such buffers of GAP events.
  if (gst_buffer_get_size(buffer) == 0 && GST_BUFFER_FLAG_IS_SET(buffer, GST_BUFFER_FLAG_GAP)) {
    s.gap = true;
    s.add_gap(gst_event_new_gap(GST_BUFFER_PTS(buffer), GST_BUFFER_DURATION(buffer)));
    gst_buffer_unref(buffer);
    return true;
  }
  gint64 came;
  if (!s.arrival_of(buffer, &came)) {
    gst_buffer_unref(buffer);
    return true;
  }
  HeldFrame frame;
  frame.buffer = buffer;
  if (s.caps) frame.caps = gst_caps_ref(s.caps);
  frame.format = s.format;
  frame.events = s.events;
  // A frame of a file has come early, and its wait begins when the batches have room for it.
  frame.arrival = s.last_arrival = s.live ? came : g_get_monotonic_time();
  frame.serial = serial_++;
  const GstSegment segment = locked(pad, aggpad->segment);
  if (segment.format == GST_FORMAT_TIME)
    frame.running = gst_segment_to_running_time(&segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
  s.gap = s.stalled = s.ended = false;
  // Sinks of the stream must not wait for frames that cannot come.
  if (!frame.format && GST_BUFFER_PTS_IS_VALID(buffer))
    s.add_gap(gst_event_new_gap(GST_BUFFER_PTS(buffer), GST_BUFFER_DURATION(buffer)));
  if (!frame.format || policy_.drops(frame.running))
    *dropped = std::move(frame);
  else
    s.add(std::move(frame));
  return true;
}

// Takes the frames of a pad out of its queue as far as the policy has room for them.
void Batcher::collect_pad(GstCudaLetterboxBatchPad* pad) {
  BatchPad& s = *pad->state;
  HeldFrame frame;
  while (policy_.has_room(s) && take_next(pad, &frame)) {
    if (frame.buffer) drop(pad, frame, frame.format != nullptr);
    for (size_t n = policy_.surplus(s); n > 0 && s.take(&frame); n--) drop(pad, frame, false);
  }
}

// Changes to the context of the first frame in CUDA memory, unless the user asked for a device.
// Frames in other contexts are copied through host memory. Returns true if it changed.
bool Batcher::adopt_context(GstBuffer* buffer) {
  GstMemory* memory = cuda_memory(buffer);
  if (!memory || adopted_) return false;
  adopted_ = true;
  GstCudaContext* context = memory_context(memory);
  if (context == cuda_.get() || (!work_.on_cuda() && !cuda_.get())) return false;
  if (started_.device >= 0 && guint(started_.device) != context_device(context)) return false;
  GST_INFO_OBJECT(element_, "following the frames to %" GST_PTR_FORMAT, context);
  work_.close();
  cuda_.adopt(context);
  // The pool belongs to the old context.
  gst_pad_mark_reconfigure(element_->srcpad);
  return true;
}

// Tells whether the end of a stream has come and is to be announced.
bool Batcher::has_end(GstCudaLetterboxBatchPad* pad) const {
  const BatchPad& s = *pad->state;
  return negotiated_ && s.known && !s.ended && !s.waiting() &&
         gst_aggregator_pad_is_eos(GST_AGGREGATOR_PAD(pad));
}

// Tells the elements behind which streams have no frames for a time, or have ended.
void Batcher::send_events(const Pads& pads) {
  std::vector<guint> removed;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    removed.swap(removed_);
  }
  if (!negotiated_) return;
  for (const guint stream : removed)
    gst_pad_push_event(element_->srcpad, new_stream_end(stream, true));
  for (auto* pad : pads) {
    BatchPad& s = *pad->state;
    // A GAP event follows caps, as a frame does.
    if (GstEvent* gap = s.caps && s.events ? s.take_gap() : nullptr) {
      s.known = true;
      gst_pad_push_event(element_->srcpad, new_stream_gap(s.stream, *s.events, s.caps, gap));
      gst_event_unref(gap);
    }
    if (!has_end(pad)) continue;
    s.ended = true;
    gst_pad_push_event(element_->srcpad, new_stream_end(s.stream, false));
  }
}

BatchMoment Batcher::moment(GstClockTime latency) {
  BatchMoment m = {g_get_monotonic_time(), GST_CLOCK_TIME_NONE, latency};
  const ObjectLock lock(element_);
  if (GstClock* clock = GST_ELEMENT_CLOCK(element_)) {
    const GstClockTime now = gst_clock_get_time(clock), base = GST_ELEMENT(element_)->base_time;
    m.running = now > base ? now - base : 0;
  }
  return m;
}

void Batcher::configure_policy() {
  policy_.configure(locked(element_, settings),
                    negotiated_ ? size_t(work_.shape().rows) : size_t(G_MAXINT));
}

GstClockTime Batcher::next_time() {
  const PadList pads(element_);
  // A change of max-wait is for the frames that wait already, too.
  configure_policy();
  bool fresh = false;
  for (auto* pad : pads.list())
    fresh =
        fresh || has_end(pad) ||
        (policy_.has_room(*pad->state) && gst_aggregator_pad_has_buffer(GST_AGGREGATOR_PAD(pad)));
  const BatchMoment m = moment(latency_);
  const gint64 due = fresh ? 0 : policy_.due(pads.list(), m);
  if (due == G_MAXINT64) return GST_CLOCK_TIME_NONE;
  GST_OBJECT_LOCK(element_);
  GstClock* clock = GST_ELEMENT_CLOCK(element_);
  const GstClockTime base = GST_ELEMENT(element_)->base_time;
  const GstClockTime now = clock ? gst_clock_get_time(clock) : 0;
  GST_OBJECT_UNLOCK(element_);
  // GstAggregator adds the base time and the latency, and waits for that time of the clock.
  const GstClockTime at = due <= m.now ? 0 : now + GstClockTime(due - m.now) * GST_USECOND;
  const GstClockTime time = at - base - latency_;
  return GST_CLOCK_TIME_IS_VALID(time) ? time : time - 1;
}

GstFlowReturn Batcher::aggregate() {
  GstFlowReturn flow = GST_FLOW_ERROR;
  // Lists of frames and plans are made for each batch, so memory can run out.
  const Status status = vf::guarded([&] {
    flow = aggregate_now();
    return Status();
  });
  return status.ok() ? flow : fail(status);
}

GstFlowReturn Batcher::aggregate_now() {
  const PadList pads(element_);
  const GstClockTime latency = gst_aggregator_get_latency(element_);
  latency_ = GST_CLOCK_TIME_IS_VALID(latency) ? latency : 0;
  configure_policy();
  for (auto* pad : pads.list()) collect_pad(pad);
  // A frame may have come after a new pad, and its batch waits for that pad too.
  if (pads.is_old()) return aggregate_now();
  // With a new context, negotiation comes first, and the next call makes the batch.
  for (auto* pad : pads.list()) {
    g_autoptr(GstBuffer) oldest = pad->state->oldest();
    if (oldest && adopt_context(oldest)) return GST_AGGREGATOR_FLOW_NEED_DATA;
  }
  send_events(pads.list());
  bool waiting = false, all_ended = !pads.list().empty();
  for (auto* pad : pads.list()) {
    waiting = waiting || pad->state->waiting();
    all_ended = all_ended && gst_aggregator_pad_is_eos(GST_AGGREGATOR_PAD(pad));
  }
  if (!waiting && all_ended) {
    // This is the last chance to report an error.
    const Status status = work_.settle();
    return status.ok() ? GST_FLOW_EOS : fail(status);
  }
  const BatchMoment m = moment(latency_);
  const gint64 due = policy_.due(pads.list(), m);
  if (!waiting || due > m.now) return GST_AGGREGATOR_FLOW_NEED_DATA;
  if (refused_) return GST_FLOW_NOT_NEGOTIATED;
  if (!negotiated_) {
    gst_pad_mark_reconfigure(element_->srcpad);
    return GST_AGGREGATOR_FLOW_NEED_DATA;
  }
  if (due > 0) GST_LOG_OBJECT(element_, "a batch goes %d us after its limit", int(m.now - due));
  return make_batch(pads.list());
}

// Batches

// Drops a frame that cannot be read, and tells the user once.
void Batcher::refuse(Chosen& c) {
  BatchPad& s = *c.pad->state;
  const char* why = c.work.status.message();
  const GParamSpec* spec = property_named_by(c.pad, why);
  const std::string text = printed("A frame of %s was dropped: %s.", GST_PAD_NAME(c.pad), why);
  if (!s.told && spec)
    post_setting_warning(GST_ELEMENT(element_), spec->name, text.c_str(), why, GST_PAD(c.pad));
  else if (!s.told)
    GST_ELEMENT_WARNING_WITH_DETAILS(
        element_, STREAM, FORMAT, ("%s", text.c_str()), (nullptr),
        ("reason", G_TYPE_STRING, "frame", "pad", G_TYPE_STRING, GST_PAD_NAME(c.pad), nullptr));
  s.told = true;
  drop(c.pad, c.frame, false);
}

// Lets controllers set properties for a time.
static void sync_controllers(GstObject* object, GstClockTime time) {
  if (GST_CLOCK_TIME_IS_VALID(time)) gst_object_sync_values(object, time);
}

// Makes the plan for a frame. Puts settings back with which there is none. Returns false if the
// frame has no row.
bool Batcher::check(Chosen& c) {
  BatchPad& s = *c.pad->state;
  sync_controllers(GST_OBJECT(c.pad), stream_time(c.pad, c.frame.buffer));
  c.work.frame = c.frame.buffer;
  c.work.format = c.frame.format;
  c.work.settings = gst_cuda_letterbox_batch_pad_settings(c.pad);
  work_.check(&c.work);
  if (!c.work.status.ok() && c.work.status.code() == Code::invalid_argument) {
    const std::string why = c.work.status.message();
    if (gst_cuda_letterbox_batch_pad_put_back(c.pad, why.c_str())) {
      c.work.settings = gst_cuda_letterbox_batch_pad_settings(c.pad);
      work_.check(&c.work);
    }
  }
  if (c.work.status.ok()) s.accepted = c.work.settings;
  return c.work.status.ok();
}

GstFlowReturn Batcher::acquire(GstBuffer** out) {
  g_autoptr(GstBufferPool) pool = gst_aggregator_get_buffer_pool(element_);
  GstFlowReturn flow = GST_FLOW_OK;
  if (pool) {
    gst_buffer_pool_set_active(pool, TRUE);
    flow = gst_buffer_pool_acquire_buffer(pool, out, nullptr);
  } else {
    g_autoptr(GstAllocator) allocator = nullptr;
    GstAllocationParams params;
    gst_aggregator_get_allocator(element_, &allocator, &params);
    const BatchShape& shape = work_.shape();
    *out = gst_buffer_new_allocate(allocator, shape.row.size * gsize(shape.rows), &params);
    if (!*out) flow = GST_FLOW_ERROR;
  }
  if (flow == GST_FLOW_ERROR)
    fail(Status::error(Code::out_of_memory, "there is no buffer for a batch"));
  return flow;
}

// Writes the batch. Frames that cannot be read are dropped, and their rows go to the others.
Status Batcher::write(std::vector<Chosen>& chosen, GstBuffer* out) {
  const LetterboxSettings fill = locked(element_, letterbox);
  const auto drop_bad = [&] {
    for (Chosen& c : chosen)
      if (!c.work.status.ok()) refuse(c);
    chosen.erase(std::remove_if(chosen.begin(), chosen.end(),
                                [](const Chosen& c) { return !c.work.status.ok(); }),
                 chosen.end());
  };
  for (Chosen& c : chosen)
    if (!check(c) && c.work.status.code() != Code::invalid_argument) return c.work.status;
  drop_bad();
  while (!chosen.empty()) {
    std::vector<RowWork> rows;
    for (const Chosen& c : chosen) rows.push_back(c.work);
    VF_TRY(work_.run(rows, fill, out));
    bool bad = false;
    for (size_t i = 0; i < rows.size(); i++) {
      chosen[i].work.status = rows[i].status;
      bad = bad || !rows[i].status.ok();
    }
    if (!bad) break;
    drop_bad();
  }
  return {};
}

GstFlowReturn Batcher::make_batch(const Pads& pads) {
  sync_controllers(GST_OBJECT(element_), moment(latency_).running);
  std::vector<Chosen> chosen;
  for (auto* pad : policy_.choose(pads, moment(latency_))) {
    Chosen c = {pad, {}, {}};
    if (pad->state->take(&c.frame)) chosen.push_back(std::move(c));
  }
  for (auto* pad : pads) pad->state->gap = false;
  GstBuffer* out = nullptr;
  GstFlowReturn flow = acquire(&out);
  if (flow == GST_FLOW_OK) {
    Status status = write(chosen, out);
    if (status.code() == Code::unsupported && work_.on_cuda() &&
        started_.backend == GST_CUDA_VIDEO_FILTER_BACKEND_AUTO) {
      use_cpu_instead(status);
      status = write(chosen, out);
    }
    if (!status.ok()) flow = fail(status);
  }
  // All frames were bad.
  if (flow == GST_FLOW_OK && chosen.empty()) {
    gst_clear_buffer(&out);
    return GST_AGGREGATOR_FLOW_NEED_DATA;
  }
  if (flow == GST_FLOW_OK) return push(chosen, out);
  gst_clear_buffer(&out);
  for (Chosen& c : chosen) {
    c.pad->state->dropped++;
    c.frame.release();
  }
  return flow;
}

GstFlowReturn Batcher::push(std::vector<Chosen>& chosen, GstBuffer* out) {
  std::vector<BatchRow> rows;
  GstClockTime first = GST_CLOCK_TIME_NONE, end = 0;
  for (Chosen& c : chosen) {
    rows.push_back(
        {c.frame.buffer, c.frame.caps, c.pad->state->stream, c.frame.events, c.work.geometry});
    c.pad->state->frames++;
    c.pad->state->known = true;
    if (!GST_CLOCK_TIME_IS_VALID(c.frame.running)) continue;
    first = std::min(first, c.frame.running);
    const GstClockTime duration = GST_BUFFER_DURATION(c.frame.buffer);
    if (GST_CLOCK_TIME_IS_VALID(duration)) end = std::max(end, c.frame.running + duration);
  }
  // The segment of a batch begins at 0, so its time is a running time. Times never go back.
  if (GST_CLOCK_TIME_IS_VALID(first)) last_pts_ = std::max(last_pts_, first);
  GST_BUFFER_PTS(out) = GST_CLOCK_TIME_IS_VALID(first) ? last_pts_ : GST_CLOCK_TIME_NONE;
  if (GST_CLOCK_TIME_IS_VALID(first) && end > last_pts_) GST_BUFFER_DURATION(out) = end - last_pts_;
  if (discont_) GST_BUFFER_FLAG_SET(out, GST_BUFFER_FLAG_DISCONT);
  discont_ = false;
  add_batch_meta(out, rows, guint(work_.shape().rows));
  describe_tensor(out, work_.shape().row, gsize(work_.shape().rows));
  for (Chosen& c : chosen) c.frame.release();
  under_lock(element_, [&] { GST_AGGREGATOR_PAD(element_->srcpad)->segment.position = last_pts_; });
  return gst_aggregator_finish_buffer(element_, out);
}

}  // namespace gstvf
