// Measures how long work takes on the GPU, between two events of a stream, without waiting for it.
#pragma once

#include <cstdint>
#include <memory>

#include "filters/queue.h"

namespace vf::cuda {

// Belongs to one thread, and to the CUDA context that is current when it is made. The same context
// must be current in each call. A call that fails loses a measurement, and nothing else.
class Timing {
 public:
  virtual ~Timing() = default;
  // Marks the start of a piece of work on a CUDA queue. Leaves the piece out where too many others
  // are still running.
  virtual void begin(Queue& queue) = 0;
  // Marks its end, which may be on another queue.
  virtual void end(Queue& queue) = 0;
  // Gives the nanoseconds that the oldest piece took; 0 where it is not done, or there is none.
  virtual uint64_t take() = 0;
};

// Null where that fails.
std::unique_ptr<Timing> make_timing();

}  // namespace vf::cuda
