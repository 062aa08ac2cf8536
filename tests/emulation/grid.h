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

// Opens blocks of device memory, which the process can then touch until the last object of this class is gone. For
// each block that takes two system calls.
class Access {
 public:
  Access();
  ~Access();
  void open(const void* p) const;  // the block that holds this address
  void open_all() const;
};

// Returns a kernel's demangled name from the symbols of the file that contains it.
std::string name_of(const void* function);

}  // namespace vf::emulation
