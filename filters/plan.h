// A filter made ready for one layout and one set of parameters.
//
// Making a plan validates, allocates and precomputes; run() only enqueues. Frames can follow each
// other without waiting; results are there after Queue::sync(), or for whatever is next on the
// same stream.
#pragma once

#include "filters/image.h"
#include "filters/queue.h"

namespace vf {

// Whether run() will be given the same image as source and destination. `separate` promises that
// source and destination never overlap. `in_place` allows both; it may cost scratch memory.
enum class Placement : uint8_t { separate, in_place };

class Plan {
 public:
  virtual ~Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Filters `src` into `dst`. Layouts must be the ones the plan was made for and the memory must be
  // where the backend works (device for CUDA, host else). Images that overlap without being the
  // same are refused. Never allocates, never waits. On the CPU the work is done on return.
  Status run(const Image& src, const Image& dst);

  const Layout& source() const { return source_; }
  const Layout& destination() const { return destination_; }

 protected:
  Plan(Queue& queue, const Layout& source, const Layout& destination, Placement placement)
      : queue_(queue), source_(source), destination_(destination), placement_(placement) {}
  Queue& queue_;

 private:
  // Called with images that passed run()'s checks.
  virtual Status enqueue(const Image& src, const Image& dst) = 0;
  Layout source_, destination_;
  Placement placement_;
};

}  // namespace vf
