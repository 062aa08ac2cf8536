// Declares the functions of the executor (grid.cpp) that kernels call through the headers in
// include/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace vf::emulation {

// Describes one lane's part in a warp collective. The lane waits until all lanes of `mask` that
// have not ended arrive with the same kind and mask. The last one computes for all.
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
  void (*compute)(Exchange* const* of);  // indexed by lane; null for lanes outside the mask
  uint64_t value = 0;                    // input and result
  int argument = 0;
};
void exchange(Exchange& mine);
// Ends the kernel because a lane reads one that is not in the exchange.
[[noreturn]] void refuse_lane(const Exchange& exchange, int lane);
inline void require_all(Exchange* const* of) {
  const Exchange* any = nullptr;
  for (int lane = 0; lane < 32; lane++)
    if (of[lane]) any = of[lane];
  for (int lane = 0; lane < 32; lane++)
    if (!of[lane]) refuse_lane(*any, lane);
}

// Implements mma.m16n8k16 of fp16 into float: see include/cuda/core/ptx.cuh.
struct Multiply : Exchange {
  const float* first;
  float* sums;
  uint32_t a[4], b[2];
};
void multiply_matrices(Exchange* const* of);
// Implements mma.m16n8k32 of bytes into int. The bytes of b are unsigned.
struct MultiplyBytes : Exchange {
  bool is_signed;  // whether the bytes of a are signed
  int* sums;
  uint32_t a[4], b[2];
};
void multiply_byte_matrices(Exchange* const* of);

// Implements __syncthreads: waits for all threads of the block.
void barrier();

// Returns the dynamic shared memory, which holds poison when a block begins.
uint8_t* dynamic_shared();
// Returns the thread's next variable in shared memory. All threads of a block get the same address.
uint8_t* shared_variable(size_t bytes, size_t alignment);
uint32_t shared_address(const void* p);
uint8_t* shared_pointer(uint32_t address);

// Starts an asynchronous copy of a thread. It is done when the thread waits for it and no earlier.
void copy_later(void* to, const void* from, int bytes, int zeros);
void commit_copies();
// Waits until all but the last `pending` groups are done. -1 also waits for copies that are not
// committed.
void wait_copies(int pending);

}  // namespace vf::emulation
