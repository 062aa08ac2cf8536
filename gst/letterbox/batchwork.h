// Writes the rows of a batch: maps frames and tensor, uploads frames of host memory, and runs one
// plan for all rows of equal format and settings.
#pragma once

#include <memory>
#include <vector>

#include "filters/plan.h"
#include "gst/base/cudacontext.h"
#include "gst/base/frame.h"
#include "gst/base/handover.h"
#include "gst/letterbox/letterboxcaps.h"
#include "gst/letterbox/letterboxsettings.h"

namespace gstvf {

// Describes a row that is to be written.
struct RowWork {
  GstBuffer* frame = nullptr;            // not taken
  std::shared_ptr<const Format> format;  // the frame's
  std::shared_ptr<const LetterboxSettings> settings;
  // run() sets these. If `status` is an error, the frame has no row.
  vf::LetterboxGeometry geometry;
  vf::Status status;
};

// Belongs to the streaming thread, or to start and stop.
class BatchWork {
 public:
  // The holder must outlive it.
  explicit BatchWork(CudaContextHolder& cuda);
  ~BatchWork();
  BatchWork(const BatchWork&) = delete;
  BatchWork& operator=(const BatchWork&) = delete;

  // Closes, and chooses the backend: cpu or cuda. The CUDA backend needs a context.
  void use(vf::Backend backend);
  bool on_cuda() const { return backend_ == vf::Backend::cuda; }
  // Makes the queue if it is missing, which shows whether a context works. check() does so too.
  vf::Status open();
  // Drops plans and queue. The backend and the shape stay.
  void close();

  // Makes batches of this shape from now on.
  void configure(const BatchShape& shape);
  const BatchShape& shape() const { return shape_; }

  // Makes the plan of a row, and sets its geometry and status.
  void check(RowWork* row);
  // Writes `rows`, at most as many as the batch has, to the first rows of `out`, and the fill of
  // `settings` to the others. check() must have found all rows good. A row whose frame cannot be
  // read gets an error; then nothing is written, and the caller tries again without that row.
  vf::Status run(std::vector<RowWork>& rows, const LetterboxSettings& settings, GstBuffer* out);
  // Waits for batches that were handed over before their work was done, and returns what went wrong
  // in them.
  vf::Status settle();

 private:
  struct Kind;
  struct Mapped;
  Kind* kind_of(const RowWork& row);
  vf::Status make_kind(const Format& in, const LetterboxSettings& settings, Kind* kind);
  vf::Status prepare_blank(const LetterboxSettings& settings);
  vf::Status map_frame(RowWork& row, size_t index, Mapped* mapped);
  vf::Status enqueue(std::vector<RowWork>& rows, Mapped* mapped, vf::Memory memory, guint8* to);
  vf::Status finish(std::vector<RowWork>& rows, Mapped* mapped, MappedFrame& to, bool staged);
  vf::Status hand_over(std::vector<MemoryUsers*>& read, MemoryUsers& written);
  bool is_on_our_stream(GstMemory* memory) const;
  GstMemory* ours(GstBuffer* buffer) const;

  CudaContextHolder& cuda_;
  vf::Backend backend_ = vf::Backend::cpu;
  BatchShape shape_;
  Format whole_;  // the batch as rows of bytes

  // These belong to one backend, context and stream. They are destroyed from the last to the first.
  GstCudaStream* stream_ = nullptr;  // queue_ runs on it; null: on a stream of its own
  std::unique_ptr<vf::Queue> queue_;
  std::shared_ptr<Timeline> timeline_;  // marks in queue_; null unless batches are handed over
  std::unique_ptr<vf::Queue> copies_;   // makes the host's copies of frames that are not pinned
  std::vector<std::unique_ptr<Kind>> kinds_;
  std::vector<std::unique_ptr<Stage>> stages_;  // one for each row with a frame in host memory
  std::vector<std::shared_ptr<const Format>> staged_;  // the formats that these are for
  vf::Allocation tensor_;                              // device copy of a batch in host memory
  // A frame of one pixel in the fill colour, and the plan that writes it to absent rows.
  std::unique_ptr<Kind> blank_;
  vf::Allocation blank_pixel_;
  guint64 batches_ = 0;
};

}  // namespace gstvf
