#include "cuda/core/timing.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <new>

namespace vf::cuda {
namespace {

// Clears a harmless error, as of an event that is not done. The next launch would report it.
bool worked(cudaError_t error) {
  if (error == cudaSuccess) return true;
  static_cast<void>(cudaGetLastError());
  return false;
}

class EventTiming final : public Timing {
 public:
  ~EventTiming() override {
    for (Piece& p : pieces_)
      for (cudaEvent_t event : {p.first, p.last})
        if (event) worked(cudaEventDestroy(event));
  }
  bool make() {
    return std::all_of(pieces_, pieces_ + kPieces, [](Piece& p) {
      return worked(cudaEventCreate(&p.first)) && worked(cudaEventCreate(&p.last));
    });
  }

  void begin(Queue& queue) override { open_ = count_ < kPieces && record(next().first, queue); }
  void end(Queue& queue) override {
    if (open_ && record(next().last, queue)) count_++;
    open_ = false;
  }
  uint64_t take() override {
    if (count_ == 0) return 0;
    const Piece& p = pieces_[oldest_];
    const cudaError_t state = cudaEventQuery(p.last);
    if (!worked(state) && state == cudaErrorNotReady) return 0;
    float ms = 0;
    const bool measured =
        state == cudaSuccess && worked(cudaEventElapsedTime(&ms, p.first, p.last));
    oldest_ = (oldest_ + 1) % kPieces;
    count_--;
    return measured ? std::max<uint64_t>(1, uint64_t(double(ms) * 1e6)) : 0;
  }

 private:
  // An element keeps fewer frames in flight.
  static constexpr int kPieces = 32;
  struct Piece {
    cudaEvent_t first = nullptr, last = nullptr;
  };
  Piece& next() { return pieces_[(oldest_ + count_) % kPieces]; }
  static bool record(cudaEvent_t event, Queue& queue) {
    return worked(cudaEventRecord(event, static_cast<cudaStream_t>(queue.stream())));
  }

  Piece pieces_[kPieces];
  int oldest_ = 0, count_ = 0;
  bool open_ = false;
};

}  // namespace

std::unique_ptr<Timing> make_timing() {
  std::unique_ptr<EventTiming> made(new (std::nothrow) EventTiming);
  if (made && !made->make()) made.reset();
  return made;
}

}  // namespace vf::cuda
