#include "cuda/core/queue.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "cuda/core/copy.h"
#include "filters/backend.h"

namespace vf::cuda {
namespace {

// The cache holds enough for the plans and staging of a 2160p frame. Freed blocks beyond it go back
// to CUDA.
constexpr size_t kMaxCachedBytes = size_t{256} << 20;

// Sizes are rounded so that plans made for slightly different parameters share blocks.
size_t rounded(size_t bytes) {
  size_t granule = 4096;
  while (granule * 16 < bytes) granule *= 2;
  return round_up(bytes, granule);
}

Status get(int* value, cudaDeviceAttr attribute, int device) {
  VF_CUDA(cudaDeviceGetAttribute(value, attribute, device));
  return {};
}

Status read_device(Device* d) {
  int major = 0, minor = 0;
  VF_CUDA(cudaGetDevice(&d->id));
  VF_TRY(get(&major, cudaDevAttrComputeCapabilityMajor, d->id));
  VF_TRY(get(&minor, cudaDevAttrComputeCapabilityMinor, d->id));
  VF_TRY(get(&d->processors, cudaDevAttrMultiProcessorCount, d->id));
  VF_TRY(get(&d->shared_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, d->id));
  VF_TRY(get(&d->shared_per_processor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, d->id));
  VF_TRY(get(&d->cache, cudaDevAttrL2CacheSize, d->id));
  d->capability = 10 * major + minor;
#ifdef VF_CUDA_CAPABILITY
  d->capability = std::min(d->capability, VF_CUDA_CAPABILITY);
#endif
  return {};
}

// The event records no time, which makes it cheap.
class CudaEvent final : public Event {
 public:
  ~CudaEvent() override {
    if (event_) cudaEventDestroy(event_);
  }
  Status make() {
    VF_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    return {};
  }
  Status wait() override {
    VF_CUDA(cudaEventSynchronize(event_));
    return {};
  }
  cudaEvent_t event() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

Status check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  Code code = Code::device_error;
  if (error == cudaErrorMemoryAllocation) code = Code::out_of_memory;
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
      error == cudaErrorInitializationError)
    code = Code::no_device;
  cudaGetLastError();  // otherwise the next check would see an error that is not sticky
  return Status::error(code, "%s: %s (%s)", call, cudaGetErrorString(error),
                       cudaGetErrorName(error));
}

Status allow_shared(const void* kernel, size_t bytes) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  cudaFuncAttributes attributes;
  VF_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  if (size_t(attributes.maxDynamicSharedSizeBytes) >= bytes) return {};
  VF_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  return {};
}

CudaQueue::~CudaQueue() {
  cudaStreamSynchronize(stream_);
  free_cached();
  if (owns_stream_) cudaStreamDestroy(stream_);
}

Status CudaQueue::sync() {
  VF_CUDA(cudaStreamSynchronize(stream_));
  return {};
}

Status CudaQueue::allocate(Memory memory, size_t bytes, Allocation* out) {
  const size_t size = rounded(bytes);
  if (size < bytes)
    return Status::error(Code::out_of_memory, "there are no %zu bytes of memory", bytes);
  auto& cached = cached_[int(memory)];
  const auto found = std::find_if(cached.begin(), cached.end(),
                                  [&](const Cached& block) { return block.size == size; });
  void* data = nullptr;
  if (found != cached.end()) {
    data = found->data;
    *found = cached.back();
    cached.pop_back();
    cached_bytes_ -= size;
  } else {
    const size_t made = made_[int(memory)];
    VF_TRY(guarded([&] {
      if (cached.capacity() <= made) cached.reserve(2 * made + 8);
      return Status();
    }));
    auto call = [&] {
      return memory == Memory::device ? cudaMalloc(&data, size)
                                      : cudaHostAlloc(&data, size, cudaHostAllocDefault);
    };
    cudaError_t error = call();
    if (error == cudaErrorMemoryAllocation && cached_bytes_) {
      cudaGetLastError();
      VF_TRY(sync());
      free_cached();
      error = call();
    }
    VF_TRY(check(error, memory == Memory::device ? "cudaMalloc" : "cudaHostAlloc"));
    made_[int(memory)]++;
  }
  *out = Allocation(this, memory, data, size);
  return {};
}

void CudaQueue::release(Memory memory, void* data, size_t size) {
  // The host also uses pinned memory, and the stream does not order that.
  if (memory == Memory::host) cudaStreamSynchronize(stream_);
  cached_[int(memory)].push_back({size, data});
  cached_bytes_ += size;
  if (cached_bytes_ > kMaxCachedBytes) {
    cudaStreamSynchronize(stream_);
    free_cached();
  }
}

void CudaQueue::free_cached() {
  for (const Memory memory : {Memory::host, Memory::device}) {
    std::vector<Cached>& cached = cached_[int(memory)];
    for (const Cached& block : cached)
      memory == Memory::device ? cudaFree(block.data) : cudaFreeHost(block.data);
    made_[int(memory)] -= cached.size();
    cached.clear();
  }
  cached_bytes_ = 0;
}

Status CudaQueue::copy(void* dst, const void* src, size_t bytes) {
  VF_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream_));
  return {};
}

Status CudaQueue::copy(const Image& src, const Image& dst) {
  VF_TRY(validate(src));
  VF_TRY(validate(dst));
  if (src.layout != dst.layout)
    return Status::error(Code::invalid_argument, "a copy needs two images of the same layout");
  const bool to_device = dst.memory == Memory::device, from_device = src.memory == Memory::device;
  if (to_device && from_device && are_aligned(src, dst, 16)) return copy_frame(*this, src, dst);
  const cudaMemcpyKind kind = from_device
                                  ? to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost
                              : to_device ? cudaMemcpyHostToDevice
                                          : cudaMemcpyHostToHost;
  for (int i = 0; i < src.layout.planes; i++)
    VF_CUDA(cudaMemcpy2DAsync(dst.data[i], dst.stride[i], src.data[i], src.stride[i],
                              row_bytes(src.layout, i), src.layout.plane[i].height, kind, stream_));
  return {};
}

Status CudaQueue::copy_rows(void* dst, ptrdiff_t dst_stride, const void* src, ptrdiff_t src_stride,
                            size_t bytes, int rows) {
  VF_CUDA(
      cudaMemcpy2DAsync(dst, dst_stride, src, src_stride, bytes, rows, cudaMemcpyDefault, stream_));
  return {};
}

Status CudaQueue::record(std::unique_ptr<Event>* event) {
  if (!*event) {
    std::unique_ptr<CudaEvent> made(new (std::nothrow) CudaEvent);
    if (!made) return Status::error(Code::out_of_memory, "out of host memory");
    VF_TRY(made->make());
    *event = std::move(made);
  }
  VF_CUDA(cudaEventRecord(static_cast<CudaEvent&>(**event).event(), stream_));
  return {};
}

Status CudaQueue::wait_for(const Event& event) {
  VF_CUDA(cudaStreamWaitEvent(stream_, static_cast<const CudaEvent&>(event).event(), 0));
  return {};
}

Status make_queue(const QueueOptions& options, std::unique_ptr<Queue>* out) {
  VF_TRY(cuda_backend_usable());
  Device device;
  VF_TRY(read_device(&device));
  cudaStream_t stream = static_cast<cudaStream_t>(options.stream);
  const bool owns = !stream;
  if (owns) VF_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  *out = std::make_unique<CudaQueue>(device, stream, owns);
  return {};
}

}  // namespace vf::cuda
