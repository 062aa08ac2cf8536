// What the headers in include/ need of the executor (grid.cpp): kernels call it, by way of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace vf::emulation {

// A collective of lanes of a warp: each brings one of these and waits until all lanes of `mask`
// that have not ended are there with the same kind and mask; the last computes for all.
struct Exchange {
  enum class Kind {
    syncwarp,
    shuffle,
    shuffle_up,
    shuffle_down,
    shuffle_xor,
    ballot,
    reduce_add,
    reduce_xor,
    multiply,
    multiply_bytes,
    store_matrices,
    load_matrices,
  };
  Kind kind;
  unsigned mask;
  void (*compute)(Exchange* const* of);  // by lane; null where a lane takes no part
  uint64_t value = 0;                    // in and out
  int argument = 0;
};
void exchange(Exchange& mine);
// Ends the kernel: a lane reads one that is not in the exchange.
[[noreturn]] void refuse_lane(const Exchange& exchange, int lane);
inline void require_all(Exchange* const* of) {
  const Exchange* any = nullptr;
  for (int lane = 0; lane < 32; lane++)
    if (of[lane]) any = of[lane];
  for (int lane = 0; lane < 32; lane++)
    if (!of[lane]) refuse_lane(*any, lane);
}

// mma.m16n8k16, of fp16 into float: see include/cuda/core/ptx.cuh.
struct Multiply : Exchange {
  const float* first;
  float* sums;
  uint32_t a[4], b[2];
};
void multiply_matrices(Exchange* const* of);
// mma.m16n8k32, of bytes into int; those of b are unsigned.
struct MultiplyBytes : Exchange {
  bool is_signed;  // those of a
  int* sums;
  uint32_t a[4], b[2];
};
void multiply_byte_matrices(Exchange* const* of);

// __syncthreads: all threads of the block.
void barrier();

// Shared memory is poison when a block begins.
uint8_t* dynamic_shared();
// The next variable of the thread, at the same place for each thread of a block.
uint8_t* shared_variable(size_t bytes, size_t alignment);
uint32_t shared_address(const void* p);
uint8_t* shared_pointer(uint32_t address);

// Asynchronous copies of a thread: done when it waits for them and no earlier.
void copy_later(void* to, const void* from, int bytes, int zeros);
void commit_copies();
// Until all but the last `pending` groups are done; -1: also what has not been committed.
void wait_copies(int pending);

}  // namespace vf::emulation
