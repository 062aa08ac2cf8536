// Running a kernel: the threads of a block are fibers that take turns at barriers and collectives.
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
  const void* kernel;          // to name it
  std::function<void()> body;  // of one thread
};

// Whether a device could launch it; what a launch returns.
Error check(const Grid& grid);

// Runs all of it. A fault, a barrier that not all threads reach and the like end it: the report
// goes to stderr, and the error becomes the context's.
Error run(const Grid& grid);

// Device memory can be touched while one of these lives.
class Access {
 public:
  Access();
  ~Access();
};

// How a name is reported: the kernel's, demangled, from the symbols of the file it is in.
std::string name_of(const void* function);

}  // namespace vf::emulation
