// Frames in device memory for the kernel tests, and timing by CUDA events over graph replays.
#include "tests/kernels/harness.h"

#if VF_HAVE_CUDA

#include <cuda_runtime_api.h>

#include <algorithm>
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
    blocks_.push_back(base);
    MUST(cudaMemcpy(base, frame.bytes().data(), frame.bytes().size(), cudaMemcpyHostToDevice));
    // A copy from pageable memory returns before it has arrived, and the queue's stream does not
    // wait for the default one.
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
    for (void* block : blocks_) MUST(cudaFree(block));
    blocks_.clear();
  }

  double time(const Frame& src, const Layout& dst,
              const std::function<Status(const Image&, const Image&)>& call) override {
    // More than twice the largest L2, so that no frame is still there when its turn comes again.
    constexpr size_t total = size_t{240} << 20;
    const Frame out(dst);
    const size_t pair = src.bytes().size() + out.bytes().size();
    const int pairs = int(std::clamp<size_t>(total / pair + 1, 2, 512));
    std::vector<Image> from, to;
    for (int i = 0; i < pairs; i++) {
      from.push_back(upload(src));
      to.push_back(upload(out));
    }
    auto stream = static_cast<cudaStream_t>(queue_->stream());
    const int calls = std::max(pairs, 24);
    for (int i = 0; i < 3; i++)
      if (!call(from[i % pairs], to[i % pairs]).ok()) return -1;
    MUST(cudaStreamSynchronize(stream));
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    bool ok = true;
    for (int i = 0; i < calls; i++) ok = call(from[i % pairs], to[i % pairs]).ok() && ok;
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&replay, graph, 0));
    cudaEvent_t start, stop;
    MUST(cudaEventCreate(&start));
    MUST(cudaEventCreate(&stop));
    std::vector<float> times;
    for (int i = 0; i < 18 && ok; i++) {
      MUST(cudaEventRecord(start, stream));
      MUST(cudaGraphLaunch(replay, stream));
      MUST(cudaEventRecord(stop, stream));
      MUST(cudaEventSynchronize(stop));
      float ms = 0;
      MUST(cudaEventElapsedTime(&ms, start, stop));
      if (i >= 3) times.push_back(ms * 1000 / calls);
    }
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    if (!ok) return -1;
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

 private:
  std::unique_ptr<Queue> queue_;
  std::vector<void*> blocks_;
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
