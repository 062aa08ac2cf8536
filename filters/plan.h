// A Plan is a filter made ready for one layout and one set of parameters.
//
// Making a plan validates, allocates and precomputes. run() only enqueues, so that frames can
// follow each other without waiting. The host can use results after Queue::sync(). Later work on
// the same stream can use them at once.
#pragma once

#include "filters/image.h"
#include "filters/queue.h"

namespace vf {

// `separate` promises that source and destination never overlap. `in_place` also allows the same
// image as both, which may cost scratch memory.
enum class Placement : uint8_t { separate, in_place };

class Plan : NoCopy {
 public:
  virtual ~Plan() = default;

  // Filters `src` into `dst`. Layouts must be those that the plan was made for, and the memory must
  // be device memory for CUDA and host memory otherwise. Images that overlap without being the same
  // are refused. The call allocates nothing and does not wait for the GPU. On the CPU the work is
  // done when it returns.
  Status run(const Image& src, const Image& dst);
  // Filters `count` sources, each into the destination of the same index, as so many calls of the
  // function above do. A plan may need only one launch for them.
  Status run(const Image* src, const Image* dst, int count);

  const Layout& source() const { return source_; }
  const Layout& destination() const { return destination_; }

 protected:
  Plan(Queue& queue, const Layout& source, const Layout& destination, Placement placement)
      : queue_(queue), source_(source), destination_(destination), placement_(placement) {}
  Queue& queue_;

 private:
  // run() calls this with images that passed its checks.
  virtual Status enqueue(const Image& src, const Image& dst) = 0;
  virtual Status enqueue_each(const Image* src, const Image* dst, int count);
  Status check(const Image& src, const Image& dst) const;
  Layout source_, destination_;
  Placement placement_;
};

}  // namespace vf
