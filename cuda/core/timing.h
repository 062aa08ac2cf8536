// Measures how long work takes on the GPU, between two events of a stream, without waiting for it.
#pragma once

#include <cstdint>
#include <memory>

#include "filters/queue.h"

namespace vf::cuda {

// Belongs to one thread, and to the CUDA context that is current when it is made. Each call needs
// this context to be current. A call that fails loses only a measurement.
class Timing {
 public:
  virtual ~Timing() = default;
  // Marks the start of a piece of work, which is not measured if too many others are running.
  virtual void begin(Queue& queue) = 0;
  // Marks the end of the piece. It may be on another queue.
  virtual void end(Queue& queue) = 0;
  // Returns the nanoseconds that the oldest piece took, or 0 if it is not done or there is none.
  virtual uint64_t take() = 0;
};

// Returns null if it cannot create the events.
std::unique_ptr<Timing> make_timing();

}  // namespace vf::cuda
