// Keeps frames in device memory for the kernel tests.
#include "tests/kernels/harness.h"

#if VF_HAVE_CUDA

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

namespace vf::test {
namespace {

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "Bail out! %s: %s\n", what, cudaGetErrorString(error));
  exit(99);
}
#define MUST(call) must((call), #call)

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {}
  ~CudaDevice() override { release_all(); }
  Queue& queue() override { return *queue_; }

  Image upload(const Frame& frame) override {
    void* base = nullptr;
    MUST(cudaMalloc(&base, frame.bytes().size()));
    allocations_.push_back(base);
    MUST(cudaMemcpy(base, frame.bytes().data(), frame.bytes().size(), cudaMemcpyHostToDevice));
    // A copy from pageable memory may return before it is complete, and the queue's stream does not
    // wait for the default stream.
    MUST(cudaStreamSynchronize(nullptr));
    Image image = frame.image();
    image.memory = Memory::device;
    for (int p = 0; p < image.layout.planes; p++)
      image.data[p] = static_cast<uint8_t*>(base) +
                      (static_cast<uint8_t*>(frame.image().data[p]) - frame.bytes().data());
    return image;
  }

  void download(const Image& image, Frame* frame) override {
    const uint8_t* base = static_cast<uint8_t*>(image.data[0]) -
                          (static_cast<uint8_t*>(frame->image().data[0]) - frame->bytes().data());
    MUST(cudaMemcpy(frame->bytes().data(), base, frame->bytes().size(), cudaMemcpyDeviceToHost));
  }

  void release_all() override {
    for (void* allocation : allocations_) MUST(cudaFree(allocation));
    allocations_.clear();
  }

 private:
  std::unique_ptr<Queue> queue_;
  std::vector<void*> allocations_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(std::string* why) {
  std::unique_ptr<Queue> queue;
  QueueOptions options;
  options.backend = Backend::cuda;
  if (Status s = make_queue(options, &queue); !s.ok()) {
    *why = s.message();
    return nullptr;
  }
  return std::make_unique<CudaDevice>(std::move(queue));
}

}  // namespace vf::test

#else

namespace vf::test {

std::unique_ptr<Device> make_cuda_device(std::string* why) {
  *why = "built without CUDA";
  return nullptr;
}

}  // namespace vf::test

#endif
