// Implements the CUDA driver API on the emulated device, as far as GStreamer's CUDA library (1.22
// to 1.28) looks it up in libcuda.so.1.
//
// The types are declared here as far as they are used, so that no toolkit is needed. The names are
// those that a program compiled with current headers asks for. Functions that no test needs return
// CUDA_ERROR_NOT_SUPPORTED.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/emulation/device.h"

using namespace vf::emulation;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Result = int;                  // CUresult
using Device = int;                  // CUdevice
using Address = unsigned long long;  // CUdeviceptr

constexpr Result result(Error e) {
  return Result(e);
}

template <class T>
T* pointer(Address address) {
  return reinterpret_cast<T*>(uintptr_t(address));
}

// Holds the contexts that this thread pushed. The last one is current.
thread_local std::vector<Context*> pushed;

void follow_stack() {
  set_current(pushed.empty() ? nullptr : pushed.back());
}

// The first wrapper is for calls that need no context, and the second for calls that need a current
// one.
template <class F>
Result call(const char* name, F&& body) {
  Lock lock;
  if (const Error e = injected(name); e != Error::none) return result(e);
  return result(body());
}
template <class F>
Result call_in_context(const char* name, F&& body) {
  Lock lock;
  if (!has_current()) return result(Error::invalid_context);
  if (const Error e = fault(name); e != Error::none) return result(e);
  return result(body());
}

// These are values of CUmemorytype, used by CUDA_MEMCPY2D.
enum MemoryType : int { kHost = 1, kDevice = 2, kArray = 3, kUnified = 4 };
struct Copy2D {
  size_t src_x, src_y;
  MemoryType src_type;
  const void* src_host;
  Address src_device;
  void* src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  MemoryType dst_type;
  void* dst_host;
  Address dst_device;
  void* dst_array;
  size_t dst_pitch;
  size_t width, height;
};

Error convert(const Copy2D* from, Copy* to) {
  if (!from) return Error::invalid_value;
  for (const MemoryType type : {from->src_type, from->dst_type})
    if (type != kHost && type != kDevice && type != kUnified) return Error::not_supported;
  const bool device_src = from->src_type != kHost, device_dst = from->dst_type != kHost;
  // A pitch of 0 stands for that of a single row.
  to->src_pitch = from->src_pitch ? from->src_pitch : from->width;
  to->dst_pitch = from->dst_pitch ? from->dst_pitch : from->width;
  if (to->src_pitch < from->src_x + from->width || to->dst_pitch < from->dst_x + from->width)
    return Error::invalid_value;
  auto* const src = device_src ? pointer<const uint8_t>(from->src_device)
                               : static_cast<const uint8_t*>(from->src_host);
  auto* const dst =
      device_dst ? pointer<uint8_t>(from->dst_device) : static_cast<uint8_t*>(from->dst_host);
  to->src = src + from->src_y * to->src_pitch + from->src_x;
  to->dst = dst + from->dst_y * to->dst_pitch + from->dst_x;
  to->width = from->width;
  to->height = from->height;
  return Error::none;
}

Copy linear(void* dst, const void* src, size_t bytes) {
  return {dst, bytes, src, bytes, bytes, 1};
}

Error allocate_device(Address* out, size_t bytes) {
  if (!out || !bytes) return Error::invalid_value;
  void* data = nullptr;
  const Error e = allocate(Kind::device, bytes, &data);
  *out = Address(reinterpret_cast<uintptr_t>(data));
  return e;
}

// Maps CU_STREAM_LEGACY and CU_STREAM_PER_THREAD to the default stream. Here both mean the same.
Stream* named_stream(Stream* stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2 ? nullptr : stream;
}

Error check_stream(const Stream* stream) {
  return is_stream(stream) ? Error::none : Error::invalid_handle;
}

struct Name {
  Result value;
  const char* name;
  const char* text;
};
constexpr Name kNames[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

Result describe(Result error, const char* Name::*field, const char** out) {
  for (const Name& n : kNames)
    if (n.value == error) {
      *out = n.*field;
      return 0;
    }
  *out = nullptr;
  return result(Error::invalid_value);
}

// These are values of CUdevice_attribute.
enum Attribute : int {
  kMaxThreadsPerBlock = 1,
  kWarpSize = 10,
  kTextureAlignment = 14,
  kProcessors = 16,
  kUnifiedAddressing = 41,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
};

}  // namespace

// Errors, devices

EXPORT Result cuInit(unsigned) {
  return call("cuInit", [] { return properties().devices ? Error::none : Error::no_device; });
}

EXPORT Result cuGetErrorName(Result error, const char** name) {
  return describe(error, &Name::name, name);
}

EXPORT Result cuGetErrorString(Result error, const char** text) {
  return describe(error, &Name::text, text);
}

EXPORT Result cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", [&] {
    *version = properties().driver;
    return Error::none;
  });
}

EXPORT Result cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", [&] {
    *count = properties().devices;
    return Error::none;
  });
}

EXPORT Result cuDeviceGet(Device* device, int ordinal) {
  return call("cuDeviceGet", [&] {
    if (ordinal < 0 || ordinal >= properties().devices) return Error::invalid_device;
    *device = ordinal;
    return Error::none;
  });
}

EXPORT Result cuDeviceGetName(char* name, int size, Device device) {
  return call("cuDeviceGetName", [&] {
    snprintf(name, size_t(size), "Emulated GPU %d", device);
    return Error::none;
  });
}

EXPORT Result cuDeviceGetUuid(void* uuid, Device device) {
  return call("cuDeviceGetUuid", [&] {
    std::fill_n(static_cast<char*>(uuid), 16, char(device));
    return Error::none;
  });
}

EXPORT Result cuDeviceGetAttribute(int* value, Attribute attribute, Device device) {
  return call("cuDeviceGetAttribute", [&] {
    const Properties& p = properties();
    if (device < 0 || device >= p.devices) return Error::invalid_device;
    switch (attribute) {
      case kMaxThreadsPerBlock:
        *value = 1024;
        break;
      case kWarpSize:
        *value = 32;
        break;
      case kTextureAlignment:
        *value = 512;
        break;
      case kProcessors:
        *value = p.processors;
        break;
      case kUnifiedAddressing:
        *value = 1;
        break;
      case kCapabilityMajor:
        *value = p.capability / 10;
        break;
      case kCapabilityMinor:
        *value = p.capability % 10;
        break;
      // Memory pools, virtual memory and others are not emulated.
      default:
        *value = 0;
        break;
    }
    return Error::none;
  });
}

EXPORT Result cuDeviceCanAccessPeer(int* can, Device, Device) {
  return call("cuDeviceCanAccessPeer", [&] {
    *can = 0;
    return Error::none;
  });
}

// Contexts

EXPORT Result cuDevicePrimaryCtxRetain(Context** out, Device device) {
  return call("cuDevicePrimaryCtxRetain", [&] {
    // The emulated runtime has one device.
    if (device != 0 || !properties().devices) return Error::invalid_device;
    *out = primary();
    return Error::none;
  });
}

EXPORT Result cuCtxCreate_v2(Context** out, unsigned, Device device) {
  return call("cuCtxCreate", [&] {
    if (device < 0 || device >= properties().devices) return Error::invalid_device;
    *out = make_context(device);
    pushed.push_back(*out);
    follow_stack();
    return Error::none;
  });
}

EXPORT Result cuCtxDestroy_v2(Context* context) {
  return call("cuCtxDestroy", [&] {
    if (!destroy(context)) return Error::invalid_context;
    if (!pushed.empty() && pushed.back() == context) pushed.pop_back();
    follow_stack();
    return Error::none;
  });
}

EXPORT Result cuCtxPushCurrent_v2(Context* context) {
  return call("cuCtxPushCurrent", [&] {
    if (!is_context(context)) return Error::invalid_context;
    pushed.push_back(context);
    follow_stack();
    return Error::none;
  });
}

EXPORT Result cuCtxPopCurrent_v2(Context** out) {
  return call("cuCtxPopCurrent", [&] {
    if (pushed.empty()) return Error::invalid_context;
    if (out) *out = pushed.back();
    pushed.pop_back();
    follow_stack();
    return Error::none;
  });
}

EXPORT Result cuCtxSynchronize() {
  return call_in_context("cuCtxSynchronize", [] { return synchronize_all(); });
}

// Memory

EXPORT Result cuMemAlloc_v2(Address* out, size_t bytes) {
  return call_in_context("cuMemAlloc", [&] { return allocate_device(out, bytes); });
}

EXPORT Result cuMemAllocPitch_v2(Address* out, size_t* pitch, size_t width, size_t height,
                                 unsigned element) {
  return call_in_context("cuMemAllocPitch", [&] {
    constexpr size_t alignment = 512;
    if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
      return Error::invalid_value;
    *pitch = (width + alignment - 1) / alignment * alignment;
    return allocate_device(out, *pitch * height);
  });
}

EXPORT Result cuMemFree_v2(Address address) {
  return call_in_context("cuMemFree", [&] {
    return address ? release(Kind::device, pointer<void>(address)) : Error::none;
  });
}

EXPORT Result cuMemAllocHost_v2(void** out, size_t bytes) {
  return call_in_context("cuMemAllocHost", [&] {
    return out && bytes ? allocate(Kind::pinned, bytes, out) : Error::invalid_value;
  });
}

EXPORT Result cuMemFreeHost(void* data) {
  return call_in_context("cuMemFreeHost", [&] { return release(Kind::pinned, data); });
}

EXPORT Result cuMemcpy2D_v2(const Copy2D* what) {
  return call_in_context("cuMemcpy2D", [&] {
    Copy c;
    const Error e = convert(what, &c);
    return e == Error::none ? copy_now(nullptr, c) : e;
  });
}

EXPORT Result cuMemcpy2DAsync_v2(const Copy2D* what, Stream* stream) {
  return call_in_context("cuMemcpy2DAsync", [&] {
    Copy c;
    Error e = check_stream(stream);
    if (e == Error::none) e = convert(what, &c);
    return e == Error::none ? copy(stream, c) : e;
  });
}

EXPORT Result cuMemcpyHtoD_v2(Address dst, const void* src, size_t bytes) {
  return call_in_context("cuMemcpyHtoD",
                         [&] { return copy_now(nullptr, linear(pointer<void>(dst), src, bytes)); });
}

EXPORT Result cuMemcpyDtoH_v2(void* dst, Address src, size_t bytes) {
  return call_in_context("cuMemcpyDtoH",
                         [&] { return copy_now(nullptr, linear(dst, pointer<void>(src), bytes)); });
}

EXPORT Result cuMemcpyDtoD_v2(Address dst, Address src, size_t bytes) {
  return call_in_context("cuMemcpyDtoD", [&] {
    return copy_now(nullptr, linear(pointer<void>(dst), pointer<void>(src), bytes));
  });
}

EXPORT Result cuMemcpyHtoDAsync_v2(Address dst, const void* src, size_t bytes, Stream* stream) {
  return call_in_context("cuMemcpyHtoDAsync", [&] {
    const Error e = check_stream(stream);
    return e == Error::none ? copy(stream, linear(pointer<void>(dst), src, bytes)) : e;
  });
}

EXPORT Result cuMemcpyDtoHAsync_v2(void* dst, Address src, size_t bytes, Stream* stream) {
  return call_in_context("cuMemcpyDtoHAsync", [&] {
    const Error e = check_stream(stream);
    return e == Error::none ? copy(stream, linear(dst, pointer<void>(src), bytes)) : e;
  });
}

EXPORT Result cuMemcpyDtoDAsync_v2(Address dst, Address src, size_t bytes, Stream* stream) {
  return call_in_context("cuMemcpyDtoDAsync", [&] {
    const Error e = check_stream(stream);
    return e == Error::none ? copy(stream, linear(pointer<void>(dst), pointer<void>(src), bytes))
                            : e;
  });
}

EXPORT Result cuPointerGetAttribute(void* out, int attribute, Address address) {
  return call("cuPointerGetAttribute", [&] {
    constexpr int device_ordinal = 9;
    const Block* block = block_of(pointer<void>(address));
    if (!block) return Error::invalid_value;
    if (attribute != device_ordinal) return Error::not_supported;
    *static_cast<int*>(out) = device_of(block->context);
    return Error::none;
  });
}

// Streams, events

EXPORT Result cuStreamCreate(Stream** out, unsigned flags) {
  return call_in_context("cuStreamCreate", [&] {
    constexpr unsigned non_blocking = 1;
    *out = make_stream(!(flags & non_blocking));
    return Error::none;
  });
}

EXPORT Result cuStreamDestroy_v2(Stream* stream) {
  return call_in_context("cuStreamDestroy", [&] {
    return stream && is_stream(stream) ? destroy(stream) : Error::invalid_handle;
  });
}
// GStreamer 1.22 looks up the first version.
EXPORT Result cuStreamDestroy(Stream* stream) {
  return cuStreamDestroy_v2(stream);
}

EXPORT Result cuStreamSynchronize(Stream* stream) {
  return call_in_context("cuStreamSynchronize", [&] {
    const Error e = check_stream(stream);
    return e == Error::none ? synchronize(stream) : e;
  });
}

EXPORT Result cuStreamGetCtx(Stream* stream, Context** out) {
  return call("cuStreamGetCtx", [&] {
    stream = named_stream(stream);
    if (!is_stream(stream)) return Error::invalid_handle;
    *out = stream ? context_of(stream) : current();
    return Error::none;
  });
}

// The event may belong to another context.
EXPORT Result cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  return call_in_context("cuStreamWaitEvent", [&] {
    stream = named_stream(stream);
    return is_event(event) && is_stream(stream) ? wait(stream, event) : Error::invalid_handle;
  });
}

EXPORT Result cuEventCreate(Event** out, unsigned flags) {
  return call_in_context("cuEventCreate", [&] {
    constexpr unsigned disable_timing = 2;
    *out = make_event(!(flags & disable_timing));
    return Error::none;
  });
}

EXPORT Result cuEventDestroy_v2(Event* event) {
  return call_in_context("cuEventDestroy",
                         [&] { return is_event(event) ? destroy(event) : Error::invalid_handle; });
}

EXPORT Result cuEventRecord(Event* event, Stream* stream) {
  return call_in_context("cuEventRecord", [&] {
    stream = named_stream(stream);
    return is_event(event) && is_stream(stream) ? record(event, stream) : Error::invalid_handle;
  });
}

EXPORT Result cuEventQuery(Event* event) {
  return call_in_context("cuEventQuery",
                         [&] { return is_event(event) ? query(event) : Error::invalid_handle; });
}

EXPORT Result cuEventSynchronize(Event* event) {
  return call_in_context("cuEventSynchronize", [&] {
    return is_event(event) ? synchronize(event) : Error::invalid_handle;
  });
}

// Defines a function that exists but is not emulated. It ignores its arguments.
#define NOT_SUPPORTED(name)              \
  EXPORT Result name() {                 \
    return result(Error::not_supported); \
  }

NOT_SUPPORTED(cuCtxEnablePeerAccess)
NOT_SUPPORTED(cuCtxDisablePeerAccess)
NOT_SUPPORTED(cuCtxGetLimit)
NOT_SUPPORTED(cuCtxSetLimit)
NOT_SUPPORTED(cuMemsetD2D8_v2)
NOT_SUPPORTED(cuMemsetD2D8Async)
NOT_SUPPORTED(cuMemsetD2D16_v2)
NOT_SUPPORTED(cuMemsetD2D16Async)
NOT_SUPPORTED(cuMemsetD2D32_v2)
NOT_SUPPORTED(cuMemsetD2D32Async)
NOT_SUPPORTED(cuModuleLoadData)
NOT_SUPPORTED(cuModuleUnload)
NOT_SUPPORTED(cuModuleGetFunction)
NOT_SUPPORTED(cuTexObjectCreate)
NOT_SUPPORTED(cuTexObjectDestroy)
NOT_SUPPORTED(cuLaunchKernel)
NOT_SUPPORTED(cuGraphicsMapResources)
NOT_SUPPORTED(cuGraphicsUnmapResources)
NOT_SUPPORTED(cuGraphicsResourceSetMapFlags_v2)
NOT_SUPPORTED(cuGraphicsSubResourceGetMappedArray)
NOT_SUPPORTED(cuGraphicsResourceGetMappedPointer_v2)
NOT_SUPPORTED(cuGraphicsUnregisterResource)
NOT_SUPPORTED(cuGraphicsGLRegisterImage)
NOT_SUPPORTED(cuGraphicsGLRegisterBuffer)
NOT_SUPPORTED(cuGLGetDevices_v2)
NOT_SUPPORTED(cuGraphicsEGLRegisterImage)
NOT_SUPPORTED(cuGraphicsResourceGetMappedEglFrame)
NOT_SUPPORTED(cuIpcGetEventHandle)
NOT_SUPPORTED(cuIpcOpenEventHandle)
NOT_SUPPORTED(cuIpcGetMemHandle)
NOT_SUPPORTED(cuIpcOpenMemHandle)
NOT_SUPPORTED(cuIpcOpenMemHandle_v2)
NOT_SUPPORTED(cuIpcCloseMemHandle)
