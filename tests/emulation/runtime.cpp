// Implements the CUDA runtime's calls on the emulated device.
#include <cuda_runtime.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "tests/emulation/device.h"
#include "tests/emulation/grid.h"

using namespace vf::emulation;

namespace {

constexpr int kVersion = 12000;  // version of the runtime; calls fail with an older driver

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t result(Error e) {
  const auto error = cudaError_t(int(e));
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

Stream* stream_of(cudaStream_t s) {
  return reinterpret_cast<Stream*>(s);
}
Event* event_of(cudaEvent_t e) {
  return reinterpret_cast<Event*>(e);
}

// Runs the body of a call unless the call has to fail.
template <class Do>
cudaError_t call(const char* name, Do&& work) {
  const Lock lock;
  if (properties().driver < kVersion) return result(Error::insufficient_driver);
  if (const Error e = fault(name); e != Error::none) return result(e);
  if (properties().devices == 0) return result(Error::no_device);
  return result(work());
}

constexpr int kGranted = 48 << 10;  // bytes of shared memory that need no opt-in

std::map<const void*, int>& allowed_shared() {
  static auto* all = new std::map<const void*, int>;
  return *all;
}
int allowed(const void* kernel) {
  const auto found = allowed_shared().find(kernel);
  return found == allowed_shared().end() ? kGranted : found->second;
}

}  // namespace

extern "C" {

cudaError_t cudaGetLastError() {
  const Lock lock;
  const cudaError_t e = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return e;
}
cudaError_t cudaPeekAtLastError() {
  const Lock lock;
  const Error lost = fault("cudaPeekAtLastError");
  return lost == Error::none ? last_error : cudaError_t(int(lost));
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define VF_NAME(name) \
  case name:          \
    return #name
    VF_NAME(cudaSuccess);
    VF_NAME(cudaErrorInvalidValue);
    VF_NAME(cudaErrorMemoryAllocation);
    VF_NAME(cudaErrorInitializationError);
    VF_NAME(cudaErrorInvalidConfiguration);
    VF_NAME(cudaErrorInsufficientDriver);
    VF_NAME(cudaErrorNoDevice);
    VF_NAME(cudaErrorInvalidDevice);
    VF_NAME(cudaErrorInvalidResourceHandle);
    VF_NAME(cudaErrorNotReady);
    VF_NAME(cudaErrorIllegalAddress);
    VF_NAME(cudaErrorLaunchOutOfResources);
    VF_NAME(cudaErrorContextIsDestroyed);
    VF_NAME(cudaErrorMisalignedAddress);
    VF_NAME(cudaErrorLaunchFailure);
    VF_NAME(cudaErrorNotPermitted);
    VF_NAME(cudaErrorNotSupported);
    VF_NAME(cudaErrorStreamCaptureInvalidated);
    VF_NAME(cudaErrorUnknown);
#undef VF_NAME
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorMisalignedAddress:
      return "misaligned address";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "an error of the emulated device";
  }
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = properties().devices;
  return call("cudaGetDeviceCount", [&] { return Error::none; });
}
cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&] {
    *device = device_of(current());
    return Error::none;
  });
}
cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&] {
    return device >= 0 && device < properties().devices ? Error::none : Error::invalid_device;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", [&] {
    const Properties& p = properties();
    if (device < 0 || device >= p.devices) return Error::invalid_device;
    switch (attribute) {
      case cudaDevAttrMultiProcessorCount:
        *value = p.processors;
        return Error::none;
      case cudaDevAttrComputeCapabilityMajor:
        *value = p.capability / 10;
        return Error::none;
      case cudaDevAttrComputeCapabilityMinor:
        *value = p.capability % 10;
        return Error::none;
      case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = p.shared_per_processor;
        return Error::none;
      case cudaDevAttrL2CacheSize:
        *value = p.cache;
        return Error::none;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = p.shared_per_block;
        return Error::none;
    }
    return Error::invalid_value;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [] { return synchronize_all(); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call("cudaMemGetInfo", [&] {
    *total = properties().memory;
    *free = *total - allocated();
    return Error::none;
  });
}
cudaError_t cudaMalloc(void** data, size_t bytes) {
  return call("cudaMalloc", [&] { return allocate(Kind::device, bytes, data); });
}
cudaError_t cudaFree(void* data) {
  return call("cudaFree", [&] { return release(Kind::device, data); });
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  return call("cudaHostAlloc", [&] { return allocate(Kind::pinned, bytes, data); });
}
cudaError_t cudaFreeHost(void* data) {
  return call("cudaFreeHost", [&] { return release(Kind::pinned, data); });
}

cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind) {
  return call("cudaMemcpy", [&] { return copy_now(nullptr, {dst, bytes, src, bytes, bytes, 1}); });
}
cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&] {
    return copy(stream_of(stream), {dst, bytes, src, bytes, bytes, 1});
  });
}
cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t stream) {
  return call("cudaMemcpy2DAsync", [&] {
    return copy(stream_of(stream), {dst, dst_pitch, src, src_pitch, width, height});
  });
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync",
              [&] { return fill(stream_of(stream), data, bytes, uint32_t(value), 1, bytes, 1); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&] {
    *stream = reinterpret_cast<cudaStream_t>(make_stream(!(flags & cudaStreamNonBlocking)));
    return Error::none;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call("cudaStreamDestroy", [&] { return destroy(stream_of(stream)); });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize", [&] { return synchronize(stream_of(stream)); });
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call("cudaStreamQuery", [&] { return query(stream_of(stream)); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call("cudaStreamWaitEvent", [&] { return wait(stream_of(stream), event_of(event)); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&] {
    *event = reinterpret_cast<cudaEvent_t>(make_event(!(flags & cudaEventDisableTiming)));
    return Error::none;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&] { return destroy(event_of(event)); });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", [&] { return record(event_of(event), stream_of(stream)); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", [&] { return synchronize(event_of(event)); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", [&] { return query(event_of(event)); });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  return call("cudaEventElapsedTime",
              [&] { return elapsed(milliseconds, event_of(start), event_of(stop)); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return call("cudaStreamBeginCapture", [&] { return begin_capture(stream_of(stream)); });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call("cudaStreamEndCapture",
              [&] { return end_capture(stream_of(stream), reinterpret_cast<Graph**>(graph)); });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return call("cudaGraphInstantiate", [&] {
    *exec = reinterpret_cast<cudaGraphExec_t>(clone(reinterpret_cast<Graph*>(graph)));
    return Error::none;
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return call("cudaGraphLaunch",
              [&] { return launch(reinterpret_cast<Graph*>(exec), stream_of(stream)); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return call("cudaGraphExecDestroy", [&] {
    destroy(reinterpret_cast<Graph*>(exec));
    return Error::none;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call("cudaGraphDestroy", [&] {
    destroy(reinterpret_cast<Graph*>(graph));
    return Error::none;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return call("cudaFuncGetAttributes", [&] {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->maxDynamicSharedSizeBytes = allowed(kernel);
    attributes->ptxVersion = properties().capability;
    return Error::none;
  });
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  return call("cudaFuncSetAttribute", [&] {
    if (value < 0 || value > properties().shared_per_block) return Error::invalid_value;
    allowed_shared()[kernel] = value;
    return Error::none;
  });
}

}  // extern "C"

namespace vf::emulation {

cudaError_t launch(const cudaLaunchConfig_t& c, const void* kernel, std::function<void()> body) {
  return call("cudaLaunchKernelExC", [&] {
    Grid grid = {{c.gridDim.x, c.gridDim.y, c.gridDim.z},
                 {c.blockDim.x, c.blockDim.y, c.blockDim.z},
                 c.dynamicSmemBytes,
                 kernel,
                 std::move(body)};
    if (const Error e = check(grid); e != Error::none) return e;
    if (grid.shared > size_t(allowed(kernel))) return Error::invalid_value;
    return enqueue(stream_of(c.stream), [grid = std::move(grid)] { return run(grid); });
  });
}

cudaError_t occupancy(int* blocks, const void* kernel, int threads, size_t shared) {
  return call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&] {
    // The occupancy assumes up to 64 registers per thread and 1 KiB of reserved shared memory per
    // block.
    const Properties& p = properties();
    if (threads <= 0 || threads > 1024) return Error::invalid_value;
    *blocks = 0;
    if (shared > size_t(allowed(kernel))) return Error::none;
    *blocks = std::min({p.blocks_per_processor, p.threads_per_processor / threads, 1024 / threads,
                        int(p.shared_per_processor / (shared + 1024))});
    *blocks = std::max(*blocks, 1);
    return Error::none;
  });
}

}  // namespace vf::emulation
