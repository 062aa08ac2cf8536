#include "gst/letterbox/batchwork.h"

#include <algorithm>
#include <cstring>

#include "filters/row_copy.h"

namespace gstvf {

using vf::Code;
using vf::Status;

// A plan, and what it was made for.
struct BatchWork::Kind {
  Format in;
  LetterboxSettings settings;
  vf::LetterboxGeometry geometry;
  std::unique_ptr<vf::Plan> plan;
  guint64 used = 0;  // number of the last batch that needed it
};

// Keeps a frame mapped until the batch is done.
struct BatchWork::Mapped {
  MappedFrame frame;
  MemoryUsers* users = nullptr;  // null if the memory cannot be handed over
  bool on_stream = false;        // its work needs no waiting
  Stage* stage = nullptr;        // the frame's copy on the device, or null
};

// Plans that no batch needs for this long are dropped.
constexpr guint64 kKeepPlans = 256;

static bool same_picture(const Format& a, const Format& b) {
  const GstVideoInfo &x = *a.video, &y = *b.video;
  return a.layout == b.layout && x.finfo == y.finfo && x.width == y.width && x.height == y.height &&
         x.par_n == y.par_n && x.par_d == y.par_d && x.chroma_site == y.chroma_site &&
         gst_video_colorimetry_is_equal(&x.colorimetry, &y.colorimetry);
}

BatchWork::BatchWork(CudaContextHolder& cuda) : Work(cuda) {}

BatchWork::~BatchWork() {
  close();
}

void BatchWork::drop() {
  // Nobody waits for this work any more, so its errors do not matter.
  if (queue_) static_cast<void>(queue_->sync());
  blank_.reset();
  blank_pixel_.reset();
  tensor_.reset();
  stages_.clear();
  staged_.clear();
  kinds_.clear();
}

void BatchWork::configure(const BatchShape& shape) {
  const WorkContext scope(cuda_, backend_);
  if (queue_) static_cast<void>(queue_->sync());
  kinds_.clear();
  blank_.reset();
  tensor_.reset();
  shape_ = shape;
  whole_ = Format();
  whole_.width = shape.row.width;
  whole_.height = shape.row.height;
  whole_.size = shape.row.size * gsize(shape.rows);
  whole_.memory_planes = 1;
  whole_.layout = vf::packed_layout(shape.row.layout.type, 1, 3 * shape.row.width,
                                    shape.row.height * shape.rows);
  whole_.memory_stride[0] = int(3 * shape.row.width * vf::size_of(shape.row.layout.type));
}

// Plans

Status BatchWork::make_kind(const Format& in, const LetterboxSettings& settings, Kind* kind) {
  kind->in = in;
  kind->settings = settings;
  vf::ColorFormat to = shape_.row.color;
  vf::LetterboxParams params = settings.params(true, &to);
  VF_TRY(letterbox_place(in, shape_.row, {}, &params, &kind->geometry));
  return vf::make_letterbox(*queue_, in.layout, in.color, shape_.row.layout, to, kind->geometry,
                            params, &kind->plan);
}

BatchWork::Kind* BatchWork::kind_of(const RowWork& row) {
  for (const auto& kind : kinds_)
    if (same_picture(kind->in, *row.format) && kind->settings == *row.settings) return kind.get();
  return nullptr;
}

void BatchWork::check(RowWork* row) {
  row->status = open();
  if (!row->status.ok()) return;
  const WorkContext scope(cuda_, backend_);
  row->status = scope.status();
  if (!row->status.ok()) return;
  Kind* kind = kind_of(*row);
  if (!kind) {
    auto made = std::make_unique<Kind>();
    row->status = make_kind(*row->format, *row->settings, made.get());
    if (!row->status.ok()) return;
    kinds_.push_back(std::move(made));
    kind = kinds_.back().get();
  }
  kind->used = batches_;
  row->geometry = kind->geometry;
}

// Makes a frame of one pixel, which the letterbox enlarges to a row of the fill colour.
Status BatchWork::prepare_blank(const LetterboxSettings& settings) {
  if (blank_ && blank_->settings == settings) return {};
  auto blank = std::make_unique<Kind>();
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGB, 1, 1);
  Format pixel;
  make_format(info, false, &pixel);
  LetterboxSettings plain = settings;
  plain.rule = vf::LetterboxRule::ultralytics;
  plain.interpolation = vf::Interpolation::nearest;
  plain.scale_up = true;
  VF_TRY(make_kind(pixel, plain, blank.get()));
  blank->settings = settings;
  const guint8 color[] = {guint8(settings.fill >> 16), guint8(settings.fill >> 8),
                          guint8(settings.fill)};
  const vf::Memory memory = on_cuda() ? vf::Memory::device : vf::Memory::host;
  if (!blank_pixel_.data()) VF_TRY(queue_->allocate(memory, sizeof color, &blank_pixel_));
  // Batches that are on their way may still read the pixel.
  VF_TRY(queue_->sync());
  VF_TRY(queue_->copy(blank_pixel_.data(), color, sizeof color));
  VF_TRY(queue_->sync());
  blank_ = std::move(blank);
  return {};
}

// Frames

// Maps a frame, and uploads it if the device cannot read it.
Status BatchWork::map_frame(RowWork& row, size_t index, Mapped* m) {
  GstMemory* const memory = our_memory(row.frame);
  if (memory) {
    memory_upload(memory);
    m->on_stream = on_our_stream(memory);
    if (!m->on_stream) memory_sync(memory);
  }
  VF_TRY(m->frame.map(*row.format, row.frame, GST_MAP_READ, memory != nullptr));
  m->users = users_of(m->frame.device_memory());
  if (m->users) VF_TRY(follow_users(*m->users, false, timeline_.get(), *queue_));
  if (!on_cuda() || memory) return {};
  if (stages_.size() <= index) {
    stages_.resize(index + 1);
    staged_.resize(index + 1);
  }
  // A stage keeps the address of its format.
  if (!stages_[index] || !same_picture(*staged_[index], *row.format)) {
    stages_[index] = std::make_unique<Stage>();
    staged_[index] = row.format;
    VF_TRY(stages_[index]->prepare(*queue_, *staged_[index]));
  }
  m->stage = stages_[index].get();
  VF_TRY(prepare_copies(m->frame));
  return m->stage->upload(m->frame, copies_.get());
}

// Returns the image of row `n` of a batch that starts at `to`.
static vf::Image row_image(const Format& row, vf::Memory memory, guint8* to, size_t n) {
  guint8* data[GST_VIDEO_MAX_PLANES] = {};
  ptrdiff_t stride[GST_VIDEO_MAX_PLANES] = {};
  for (int m = 0; m < row.memory_planes; m++) {
    data[m] = to + n * row.size + row.memory_offset[m];
    stride[m] = row.memory_stride[m];
  }
  return make_image(row, Rows::all, memory, data, stride);
}

// Runs each plan once, for all rows that it is for.
Status BatchWork::enqueue(std::vector<RowWork>& rows, Mapped* mapped, vf::Memory memory,
                          guint8* to) {
  std::vector<Kind*> kinds(rows.size());
  for (size_t i = 0; i < rows.size(); i++) kinds[i] = kind_of(rows[i]);
  std::vector<vf::Image> src, dst;
  for (const auto& kind : kinds_) {
    src.clear();
    dst.clear();
    for (size_t i = 0; i < rows.size(); i++) {
      if (kinds[i] != kind.get()) continue;
      src.push_back(mapped[i].stage ? mapped[i].stage->image(Rows::all)
                                    : mapped[i].frame.image(Rows::all));
      dst.push_back(row_image(shape_.row, memory, to, i));
    }
    if (!src.empty()) VF_TRY(kind->plan->run(src.data(), dst.data(), int(src.size())));
  }
  src.clear();
  dst.clear();
  guint8* const pixel[] = {blank_pixel_.as<guint8>(), nullptr, nullptr, nullptr};
  const ptrdiff_t stride[] = {3, 0, 0, 0};
  for (size_t i = rows.size(); i < size_t(shape_.rows); i++) {
    src.push_back(make_image(blank_->in, Rows::all, memory, pixel, stride));
    dst.push_back(row_image(shape_.row, memory, to, i));
  }
  return src.empty() ? Status() : blank_->plan->run(src.data(), dst.data(), int(src.size()));
}

// Makes the next users of the memories wait for this batch, instead of waiting here.
Status BatchWork::hand_over(std::vector<MemoryUsers*>& read, MemoryUsers& written) {
  uint64_t point = 0;
  VF_TRY(mark(&point));
  for (MemoryUsers* users : read) VF_TRY(add_reader(*users, timeline_, point));
  set_writer(written, timeline_, point);
  return {};
}

// Hands the batch over, or waits for it.
Status BatchWork::finish(std::vector<RowWork>& rows, Mapped* mapped, MappedFrame& to,
                         bool downloads) {
  if (!on_cuda()) return {};
  MemoryUsers* const written = downloads ? nullptr : users_of(to.device_memory());
  std::vector<MemoryUsers*> read;
  bool on_stream = !downloads && on_our_stream(to.device_memory());
  for (size_t i = 0; i < rows.size(); i++) {
    if (mapped[i].users) read.push_back(mapped[i].users);
    on_stream = on_stream && mapped[i].on_stream;
  }
  if (written && read.size() == rows.size()) return hand_over(read, *written);
  if (on_stream) return {};
  VF_TRY(queue_->sync());
  if (GstMemory* memory = to.device_memory()) memory_is_synced(memory);
  return {};
}

Status BatchWork::run(std::vector<RowWork>& rows, const LetterboxSettings& settings,
                      GstBuffer* out) {
  VF_TRY(open());
  const WorkContext scope(cuda_, backend_);
  VF_TRY(scope.status());
  if (rows.size() < size_t(shape_.rows)) VF_TRY(prepare_blank(settings));
  const std::unique_ptr<Mapped[]> mapped(new Mapped[rows.size()]);
  MappedFrame to;
  bool readable = true;
  const auto write = [&]() -> Status {
    for (size_t i = 0; i < rows.size(); i++) {
      rows[i].status = map_frame(rows[i], i, &mapped[i]);
      if (rows[i].status.ok()) continue;
      const Code code = rows[i].status.code();
      if (code != Code::invalid_argument && code != Code::unsupported) return rows[i].status;
      readable = false;
    }
    if (!readable) return queue_->sync();
    GstMemory* const memory = our_memory(out);
    if (memory) memory_upload(memory);
    VF_TRY(to.map(whole_, out, GST_MAP_WRITE, memory != nullptr));
    if (MemoryUsers* users = users_of(to.device_memory()))
      VF_TRY(follow_users(*users, true, timeline_.get(), *queue_));
    const bool downloads = on_cuda() && !memory;
    if (downloads && !tensor_.data())
      VF_TRY(queue_->allocate(vf::Memory::device, whole_.size, &tensor_));
    VF_TRY(enqueue(rows, mapped.get(), on_cuda() ? vf::Memory::device : vf::Memory::host,
                   downloads ? tensor_.as<guint8>() : to.data(0)));
    if (downloads) VF_TRY(queue_->copy(to.data(0), tensor_.data(), whole_.size));
    return finish(rows, mapped.get(), to, downloads);
  };
  const Status status = write();
  if (!status.ok()) static_cast<void>(queue_->sync());  // enqueued work still uses the buffers
  // Plans that no stream needs any more are dropped, with their memory.
  batches_++;
  kinds_.erase(std::remove_if(kinds_.begin(), kinds_.end(),
                              [&](const auto& k) { return k->used + kKeepPlans < batches_; }),
               kinds_.end());
  return status;
}

}  // namespace gstvf
