#include "gst/base/inflight.h"

#include <new>
#include <utility>

#if VF_HAVE_GST_CUDA
#include "cuda/core/timing.h"
#else
class vf::cuda::Timing {};
#endif
#include "filters/make.h"
#include "filters/row_copy.h"
#include "gst/base/stats.h"

namespace gstvf {

using vf::Code;
using vf::Placement;
using vf::Status;

vf::Image InFlightFrame::source_image(Rows rows) const {
  return uploaded ? upload.image(rows) : source.image(rows);
}

vf::Image InFlightFrame::destination_image(Rows rows) const {
  return downloaded ? download.image(rows) : destination.image(rows);
}

void InFlightFrame::release() {
  source.unmap();
  destination.unmap();
  gst_clear_buffer(&in);
  gst_clear_buffer(&out);
  for (LaterFrame& l : later) {
    l.source.unmap();
    gst_clear_buffer(&l.buffer);
  }
}

// Plans

static Placement placement_of(const GstBuffer* in, const GstBuffer* out) {
  return in == out ? Placement::in_place : Placement::separate;
}

void FramePlans::configure(const Format& in, const Format& out, PlanOptions options) {
  drop();
  in_ = &in;
  out_ = &out;
  options_ = options;
}

void FramePlans::renew() {
  if (!options_.stateful) return drop();
  for (auto& by_rows : kept_)
    for (Kept& k : by_rows) k.stale = true;
}

void FramePlans::drop() {
  for (auto& by_rows : kept_)
    for (Kept& k : by_rows) k.plan.reset();
}

Rows FramePlans::rows_of(GstBuffer* buffer) const {
  if (!options_.fields || !in_->video) return Rows::all;
  const GstVideoInterlaceMode mode = GST_VIDEO_INFO_INTERLACE_MODE(&*in_->video);
  const bool interlaced = mode == GST_VIDEO_INTERLACE_MODE_INTERLEAVED ||
                          (mode == GST_VIDEO_INTERLACE_MODE_MIXED &&
                           GST_BUFFER_FLAG_IS_SET(buffer, GST_VIDEO_BUFFER_FLAG_INTERLACED));
  vf::Layout field;
  // A frame of one row has one field.
  if (!interlaced || !field_layout(*in_, true, &field) || !field_layout(*out_, true, &field))
    return Rows::all;
  return Rows::top_field;
}

Status FramePlans::plan_for(vf::Queue& queue, Placement placement, Rows rows, vf::Plan** out) {
  Kept& kept = kept_[int(placement)][int(rows)];
  if (!kept.plan || kept.stale) {
    Format src = *in_, dst = *out_;
    if (rows != Rows::all) {
      field_layout(*in_, rows == Rows::bottom_field, &src.layout);
      field_layout(*out_, rows == Rows::bottom_field, &dst.layout);
    }
    VF_TRY(source_.make_plan(queue, src, dst, placement, &kept.plan));
    kept.stale = false;
  }
  *out = kept.plan.get();
  return {};
}

// Returns the rows to filter, which for two fields are the first field's.
Rows FramePlans::enter(GstBuffer* buffer) {
  const Rows rows = rows_of(buffer);
  // A plan for frames has not seen the fields before, and a plan for fields has not seen the
  // frames.
  if (options_.stateful && rows != last_rows_) drop();
  last_rows_ = rows;
  return rows;
}

bool FramePlans::has(Placement placement, GstBuffer* in) const {
  const Rows rows = rows_of(in);
  const auto is_current = [&](Rows r) {
    const Kept& kept = kept_[int(placement)][int(r)];
    return kept.plan && !kept.stale;
  };
  return (rows == last_rows_ || !options_.stateful) && is_current(rows) &&
         (rows == Rows::all || is_current(Rows::bottom_field));
}

Status FramePlans::make(vf::Queue& queue, Placement placement, GstBuffer* in) {
  vf::Plan* plan = nullptr;
  const Rows rows = enter(in);
  VF_TRY(plan_for(queue, placement, rows, &plan));
  return rows == Rows::all ? Status() : plan_for(queue, placement, Rows::bottom_field, &plan);
}

Status FramePlans::run(vf::Queue& queue, Placement placement, const InFlightFrame& frame,
                       GstBuffer* in) {
  const auto run_rows = [&](Rows rows) -> Status {
    vf::Plan* plan = nullptr;
    VF_TRY(plan_for(queue, placement, rows, &plan));
    later_.clear();
    for (const LaterFrame& l : frame.later)
      if (l.buffer) later_.push_back(l.uploaded ? l.upload.image(rows) : l.source.image(rows));
    if (!later_.empty()) VF_TRY(source_.set_later(*plan, later_.data(), int(later_.size())));
    VF_TRY(source_.prepare_frame(in, rows, *plan));
    const vf::Image src = frame.source_image(rows);
    return plan->run(src, placement == Placement::in_place ? src : frame.destination_image(rows));
  };
  const Rows rows = enter(in);
  VF_TRY(run_rows(rows));
  return rows == Rows::all ? Status() : run_rows(Rows::bottom_field);
}

InFlight::InFlight(PlanSource& source, CudaContextHolder& cuda, FrameStats& stats)
    : Work(cuda), stats_(stats), plans_(source) {}

InFlight::~InFlight() {
  close();
}

// Queues

void InFlight::use(vf::Backend backend) {
  Work::use(backend);
  submitted_ = 0;
  // Nothing overlaps on the CPU.
  if (!on_cuda()) depth_ = 0;
}

void InFlight::opened() {
#if VF_HAVE_GST_CUDA
  if (on_cuda()) timing_ = vf::cuda::make_timing();
#endif
}

void InFlight::close() {
  discard();
  Work::close();
  size_ = oldest_ = 0;
}

void InFlight::drop() {
  slots_.reset();
  plans_.drop();
  timing_.reset();
  download_queue_.reset();
  upload_queue_.reset();
}

Status InFlight::sync() {
  Status status;
  for (vf::Queue* queue : {upload_queue_.get(), queue_.get(), download_queue_.get()})
    if (queue)
      if (const Status s = queue->sync(); status.ok()) status = s;
  return status;
}

void InFlight::configure(const Format& in, const Format& out, PlanOptions options, size_t depth) {
  const WorkContext scope(cuda_, backend_);
  // Plans and stages refer to the formats.
  slots_.reset();
  size_ = oldest_ = 0;
  plans_.drop();
  in_ = in;
  out_ = out;
  plans_.configure(in_, out_, options);
  depth_ = depth;
}

void InFlight::renew_plans() {
  const WorkContext scope(cuda_, backend_);
  plans_.renew();
}

void InFlight::drop_plans() {
  const WorkContext scope(cuda_, backend_);
  plans_.drop();
}

bool InFlight::has_plans(GstBuffer* in, GstBuffer* out) const {
  return queue_ && stream_ == cuda_.stream() && plans_.has(placement_of(in, out), in);
}

Status InFlight::make_plans(GstBuffer* in, GstBuffer* out) {
  VF_TRY(open());
  const WorkContext scope(cuda_, backend_);
  VF_TRY(scope.status());
  return plans_.make(*queue_, placement_of(in, out), in);
}

// The caller has made the context current.
Status InFlight::make_slots() {
  if (slots_) return {};
  if (depth_ && !upload_queue_) {
    vf::QueueOptions options;
    options.backend = backend_;
    VF_TRY(vf::make_queue(options, &upload_queue_));
    VF_TRY(vf::make_queue(options, &download_queue_));
  }
  slots_.reset(new (std::nothrow) InFlightFrame[depth_ + 1]);
  if (!slots_) return Status::error(Code::out_of_memory, "out of host memory");
  size_ = depth_ + 1;
  return {};
}

// Frames

// Makes work that is enqueued on `second` from now on wait for the work on `first`.
static Status follow(vf::Queue& first, vf::Queue& second, std::unique_ptr<vf::Event>* event) {
  if (&first == &second) return {};
  VF_TRY(first.record(event));
  return second.wait_for(**event);
}

// Waits for the work that still writes the input. If buffers brought fences, they would be waited
// for here and nowhere else.
void InFlight::wait_for_producer(GstMemory* memory) {
  if (!cuda_.stream() || memory_stream(memory) != cuda_.stream()) memory_sync(memory);
}

// Events cost the host time, and keep the GPU from overlapping neighbouring frames. So the first
// frames of a start have them, and then one frame in as many.
constexpr guint64 kTimedFrames = 16;

// The GPU's time of a frame is known when a later frame with events comes. The CPU times every
// frame, and knows the time at once.
void InFlight::start_timing([[maybe_unused]] vf::Queue& queue) {
  timed_ = timing_ && (submitted_ < kTimedFrames || submitted_ % kTimedFrames == 0);
  submitted_++;
#if VF_HAVE_GST_CUDA
  if (timed_) {
    while (const uint64_t ns = timing_->take()) stats_.times.add(ns);
    timing_->begin(queue);
  }
#endif
  if (!on_cuda()) started_ = gst_util_get_timestamp();
}

void InFlight::end_timing([[maybe_unused]] vf::Queue& queue) {
#if VF_HAVE_GST_CUDA
  if (timed_) timing_->end(queue);
#endif
  if (!on_cuda()) stats_.times.add(gst_util_get_timestamp() - started_);
}

Status InFlight::upload(const MappedFrame& source, Stage* stage) {
  if (!stage->ready()) VF_TRY(stage->prepare(uploads(), in_));
  VF_TRY(prepare_copies(source));
  return stage->upload(source, copies_.get());
}

// Maps and uploads the later frames. Sets *uploads if one is uploaded, and clears *hands_over if the
// memory of one cannot be handed over.
Status InFlight::read_later(InFlightFrame& f, bool* uploads, bool* hands_over) {
  for (LaterFrame& l : f.later) {
    if (!l.buffer) break;
    GstMemory* const cuda = our_memory(l.buffer);
    l.uploaded = on_cuda() && !cuda;
    f.wait = f.wait || (on_cuda() && !on_our_stream(cuda));
    if (cuda) {
      memory_upload(cuda);
      wait_for_producer(cuda);
    }
    VF_TRY(l.source.map(in_, l.buffer, GST_MAP_READ, cuda != nullptr));
    MemoryUsers* const users = users_of(l.source.device_memory());
    if (users) VF_TRY(follow_users(*users, false, timeline_.get(), *queue_));
    *hands_over = *hands_over && users;
    *uploads = *uploads || l.uploaded;
    if (l.uploaded) VF_TRY(upload(l.source, &l.upload));
  }
  return {};
}

Status InFlight::enqueue(GstBuffer* in, GstBuffer* out, InFlightFrame& f) {
  const bool in_place = in == out;
  GstMemory* const in_cuda = our_memory(in);
  f.out_cuda = our_memory(out);
  f.uploaded = on_cuda() && !in_cuda;
  f.downloaded = on_cuda() && !f.out_cuda;
  // Work that the producer enqueued on the same stream runs before. On another stream, reading must
  // also end before the producer gets the buffer back.
  f.wait = on_cuda() && !(on_our_stream(in_cuda) && on_our_stream(f.out_cuda));
  for (GstMemory* memory : {in_cuda, f.out_cuda})
    if (memory) memory_upload(memory);
  if (in_cuda) wait_for_producer(in_cuda);

  VF_TRY(f.source.map(in_, in, in_place ? GST_MAP_READWRITE : GST_MAP_READ, in_cuda != nullptr));
  if (!in_place) VF_TRY(f.destination.map(out_, out, GST_MAP_WRITE, f.out_cuda != nullptr));
  MemoryUsers* const read = users_of(f.source.device_memory());
  MemoryUsers* const written = in_place ? read : users_of(f.destination.device_memory());
  for (MemoryUsers* users : {read, written})
    if (users) VF_TRY(follow_users(*users, users == written, timeline_.get(), *queue_));
  start_timing(f.uploaded ? uploads() : *queue_);
  if (f.uploaded) VF_TRY(upload(f.source, &f.upload));
  bool uploaded = f.uploaded, hands_over = read && written;
  VF_TRY(read_later(f, &uploaded, &hands_over));
  if (uploaded) VF_TRY(follow(uploads(), *queue_, &f.after_upload));
  if (f.downloaded && !f.download.ready()) VF_TRY(f.download.prepare(downloads(), out_));
  if (f.downloaded) VF_TRY(prepare_copies(f.destination));
  VF_TRY(plans_.run(*queue_, placement_of(in, out), f, in));
  if (f.downloaded) {
    VF_TRY(follow(*queue_, downloads(), &f.after_filter));
    VF_TRY(f.download.download(f.destination));
  }
  end_timing(f.downloaded ? downloads() : *queue_);
  if (hands_over) {
    f.wait = false;
    return hand_over(*read, *written, f);
  }
  // Newer frames will be enqueued behind this one, so an event marks its end.
  return f.wait && depth_ ? (f.downloaded ? downloads() : *queue_).record(&f.done) : Status();
}

// Makes the next user of the memory wait for this frame, instead of waiting here.
Status InFlight::hand_over(MemoryUsers& read, MemoryUsers& written, const InFlightFrame& f) {
  uint64_t point = 0;
  VF_TRY(mark(&point));
  if (&read != &written) VF_TRY(add_reader(read, timeline_, point));
  for (const LaterFrame& l : f.later)
    if (l.buffer) VF_TRY(add_reader(*users_of(l.source.device_memory()), timeline_, point));
  set_writer(written, timeline_, point);
  return {};
}

Status InFlight::submit(GstBuffer* in, GstBuffer* out, const std::vector<GstBuffer*>& later) {
  VF_TRY(open());
  const WorkContext scope(cuda_, backend_);
  VF_TRY(scope.status());
  VF_TRY(make_slots());
  InFlightFrame& f = slots_[(oldest_ + count_) % size_];
  while (f.later.size() < later.size()) f.later.emplace_back();
  for (size_t i = 0; i < later.size(); i++) {
    // The fields of an interlaced frame have nothing in common with a progressive frame.
    if (plans_.rows_of(later[i]) != plans_.rows_of(in)) break;
    f.later[i].buffer = gst_buffer_ref(later[i]);
  }
  if (const Status status = vf::guarded([&] { return enqueue(in, out, f); }); !status.ok()) {
    static_cast<void>(sync());  // enqueued work still uses the buffers
    f.release();
    return status;
  }
  f.in = gst_buffer_ref(in);
  f.out = gst_buffer_ref(out);
  stats_.in_flight = guint(++count_);
  // The host has already copied these frames. The producer may have few buffers, so they go back.
  const auto give_back = [](MappedFrame& source, GstBuffer** buffer) {
    if (source.pinned()) return;
    source.unmap();
    gst_clear_buffer(buffer);
  };
  if (f.uploaded) give_back(f.source, &f.in);
  for (LaterFrame& l : f.later)
    if (l.buffer && l.uploaded) give_back(l.source, &l.buffer);
  return {};
}

// Waits until others may use the buffers of a frame. A fence could be attached to the output here,
// and nowhere else, instead of waiting.
Status InFlight::wait_for(InFlightFrame& f) {
  if (!f.wait) return {};
  if (f.done) return f.done->wait();
  return (f.downloaded ? downloads() : *queue_).sync();
}

Status InFlight::complete(GstBuffer** out) {
  const WorkContext scope(cuda_, backend_);
  VF_TRY(scope.status());
  InFlightFrame& f = slots_[oldest_];
  if (f.downloaded) VF_TRY(f.download.finish_download(f.destination, copies_.get()));
  VF_TRY(wait_for(f));
  if (f.wait && f.out_cuda) memory_is_synced(f.out_cuda);
  *out = f.out;
  f.out = nullptr;
  f.release();
  oldest_ = (oldest_ + 1) % size_;
  stats_.in_flight = guint(--count_);
  return {};
}

void InFlight::discard() {
  if (!count_) return;
  const WorkContext scope(cuda_, backend_);
  // Nobody wants these frames any more, so their errors do not matter.
  static_cast<void>(sync());
  for (size_t i = 0; i < size_; i++) slots_[i].release();
  stats_.in_flight = 0;
  count_ = 0;
}

}  // namespace gstvf
