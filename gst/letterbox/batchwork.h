// Writes the rows of a batch: maps frames and tensor, uploads frames of host memory, and runs one
// plan for all rows of equal format and settings.
#pragma once

#include <memory>
#include <vector>

#include "filters/plan.h"
#include "gst/base/work.h"
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

// check() and run() open. The shape stays when it closes.
class BatchWork : public Work {
 public:
  explicit BatchWork(CudaContextHolder& cuda);
  ~BatchWork() override;

  // Makes batches of this shape from now on.
  void configure(const BatchShape& shape);
  const BatchShape& shape() const { return shape_; }

  // Makes the plan of a row, and sets its geometry and status.
  void check(RowWork* row);
  // Writes `rows`, at most as many as the batch has, to the first rows of `out`, and the fill of
  // `settings` to the others. check() must have found all rows good. A row whose frame cannot be
  // read gets an error; then nothing is written, and the caller tries again without that row.
  vf::Status run(std::vector<RowWork>& rows, const LetterboxSettings& settings, GstBuffer* out);

 private:
  void drop() override;
  struct Kind;
  struct Mapped;
  Kind* kind_of(const RowWork& row);
  vf::Status make_kind(const Format& in, const LetterboxSettings& settings, Kind* kind);
  vf::Status prepare_blank(const LetterboxSettings& settings);
  vf::Status map_frame(RowWork& row, size_t index, Mapped* mapped);
  vf::Status enqueue(std::vector<RowWork>& rows, Mapped* mapped, vf::Memory memory, guint8* to);
  vf::Status finish(std::vector<RowWork>& rows, Mapped* mapped, MappedFrame& to, bool staged);
  vf::Status hand_over(std::vector<MemoryUsers*>& read, MemoryUsers& written);

  BatchShape shape_;
  Format whole_;  // the batch as rows of bytes

  // These belong to queue_. They are destroyed from the last to the first.
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
