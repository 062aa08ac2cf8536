// Runs kernels. The threads of a block are fibers that take turns at barriers and collectives.
// Blocks run one after another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/emulation/device.h"

namespace vf::emulation {

struct Index {
  unsigned x, y, z;
};

struct Grid {
  Index blocks, threads;
  size_t shared;
  const void* kernel;          // used to report its name
  std::function<void()> body;  // runs one thread
};

// Returns the error that a device would return for this launch.
Error check(const Grid& grid);

// Runs the kernel. A fault, a barrier that not all threads reach or a similar error ends it. The
// report goes to stderr, and the error becomes the context's sticky error.
Error run(const Grid& grid);

// The host can touch device memory while an object of this class lives.
class Access {
 public:
  Access();
  ~Access();
};

// Returns a kernel's demangled name from the symbols of the file that contains it.
std::string name_of(const void* function);

}  // namespace vf::emulation
