#include "bench/peers.h"

#if VF_HAVE_NPP

#include <nppcore.h>
#include <nppi_filtering_functions.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "bench/measure.h"
#include "filters/gaussian.h"
#include "filters/median.h"

namespace vf::bench {
namespace {

Status check_npp(NppStatus status, const char* call) {
  // Positive statuses are warnings.
  if (status >= NPP_NO_ERROR) return {};
  return Status::error(Code::device_error, "%s: NPP status %d", call, int(status));
}

Status context(cudaStream_t stream, NppStreamContext* out) {
  NppStreamContext c = {};
  c.hStream = stream;
  cudaDeviceProp properties;
  BENCH_CUDA(cudaGetDevice(&c.nCudaDeviceId));
  BENCH_CUDA(cudaGetDeviceProperties(&properties, c.nCudaDeviceId));
  c.nMultiProcessorCount = properties.multiProcessorCount;
  c.nMaxThreadsPerMultiProcessor = properties.maxThreadsPerMultiProcessor;
  c.nMaxThreadsPerBlock = properties.maxThreadsPerBlock;
  c.nSharedMemPerBlock = properties.sharedMemPerBlock;
  c.nCudaDevAttrComputeCapabilityMajor = properties.major;
  c.nCudaDevAttrComputeCapabilityMinor = properties.minor;
  BENCH_CUDA(cudaStreamGetFlags(stream, &c.nStreamFlags));
  *out = c;
  return {};
}

// Making a context queries the device, so there is one per stream instead of one per call.
struct Cached {
  NppStreamContext context = {};
  bool made = false;
  Status get(void* on) {
    const auto stream = static_cast<cudaStream_t>(on);
    if (made && context.hStream == stream) return {};
    VF_TRY(bench::context(stream, &context));
    made = true;
    return {};
  }
};

template <class T>
using Advanced = NppStatus (*)(const T*, Npp32s, NppiSize, NppiPoint, T*, Npp32s, NppiSize,
                               const int, const Npp32f*, NppiBorderType, NppStreamContext);
template <class T>
using Fixed = NppStatus (*)(const T*, Npp32s, NppiSize, NppiPoint, T*, Npp32s, NppiSize,
                            NppiMaskSize, NppiBorderType, NppStreamContext);

template <class T>
void add_gaussians(std::vector<Peer>* peers, Advanced<T> advanced, Fixed<T> fixed, int taps,
                   double sigma) {
  // This is NPP's only border.
  const auto replicated = [taps](double s) -> decltype(Peer::want) {
    GaussianParams p;
    p.sigma = s;
    p.kernel_size = taps;
    p.border = Border::replicate;
    return [p](Queue& queue, const Layout& layout, const Layout&, Placement placement,
               std::unique_ptr<Plan>* plan) {
      return make_gaussian(queue, layout, p, placement, plan);
    };
  };
  const auto cached = std::make_shared<Cached>();

  std::vector<float> weights;
  double sum = 0;
  for (int i = 0; i < taps; i++) {
    const double d = i - taps / 2;
    weights.push_back(float(std::exp(-d * d / (2 * sigma * sigma))));
    sum += double(weights.back());
  }
  for (float& w : weights) w = float(double(w) / sum);
  void* memory = nullptr;
  if (cudaMalloc(&memory, weights.size() * sizeof(float)) == cudaSuccess) {
    const std::shared_ptr<void> kernel(memory, [](void* p) { cudaFree(p); });
    if (cudaMemcpy(memory, weights.data(), weights.size() * sizeof(float),
                   cudaMemcpyHostToDevice) == cudaSuccess)
      peers->push_back(
          {"NPP FilterGaussAdvancedBorder",
           [=](const Image& src, const Image& dst, void* stream) -> Status {
             VF_TRY(cached->get(stream));
             const NppiSize size = {src.layout.plane[0].width, src.layout.plane[0].height};
             return check_npp(advanced(static_cast<const T*>(src.data[0]), int(src.stride[0]), size,
                                       {0, 0}, static_cast<T*>(dst.data[0]), int(dst.stride[0]),
                                       size, taps, static_cast<const float*>(kernel.get()),
                                       NPP_BORDER_REPLICATE, cached->context),
                              "nppiFilterGaussAdvancedBorder");
           },
           replicated(sigma), 2});
  }

  constexpr std::pair<int, NppiMaskSize> masks[] = {
      {3, NPP_MASK_SIZE_3_X_3},   {5, NPP_MASK_SIZE_5_X_5},    {7, NPP_MASK_SIZE_7_X_7},
      {9, NPP_MASK_SIZE_9_X_9},   {11, NPP_MASK_SIZE_11_X_11}, {13, NPP_MASK_SIZE_13_X_13},
      {15, NPP_MASK_SIZE_15_X_15}};
  for (const auto& [k, mask] : masks) {
    if (k != taps) continue;
    const NppiMaskSize mask_size = mask;
    peers->push_back(
        {"NPP FilterGaussBorder",
         [=](const Image& src, const Image& dst, void* stream) -> Status {
           VF_TRY(cached->get(stream));
           const NppiSize size = {src.layout.plane[0].width, src.layout.plane[0].height};
           return check_npp(fixed(static_cast<const T*>(src.data[0]), int(src.stride[0]), size,
                                  {0, 0}, static_cast<T*>(dst.data[0]), int(dst.stride[0]), size,
                                  mask_size, NPP_BORDER_REPLICATE, cached->context),
                            "nppiFilterGaussBorder");
         },
         // NPP uses this sigma with rounded weights, so the check is rough.
         replicated(0.4 + (taps / 2) * 0.6), sizeof(T) == 1 ? 24 : 24 * 256});
  }
}

template <class T>
using Median = NppStatus (*)(const T*, Npp32s, NppiSize, NppiPoint, T*, Npp32s, NppiSize, NppiSize,
                             NppiPoint, Npp8u*, NppiBorderType, NppStreamContext);

// Returns the scratch memory's size. Some versions of NPP need the border for it.
template <class F>
NppStatus median_buffer(F size_of, NppiSize size, NppiSize mask, Npp32u* bytes,
                        const NppStreamContext& context) {
  if constexpr (std::is_invocable_v<F, NppiSize, NppiSize, Npp32u*, NppiBorderType,
                                    NppStreamContext>)
    return size_of(size, mask, bytes, NPP_BORDER_REPLICATE, context);
  else
    return size_of(size, mask, bytes, context);
}

template <class T, class F>
void add_median(std::vector<Peer>* peers, Median<T> median, F buffer_size, const Layout& layout,
                int width, int height) {
  const auto cached = std::make_shared<Cached>();
  const NppiSize size = {layout.plane[0].width, layout.plane[0].height}, mask = {width, height};
  Npp32u bytes = 0;
  if (!cached->get(cudaStreamLegacy).ok() ||
      median_buffer(buffer_size, size, mask, &bytes, cached->context) < NPP_NO_ERROR)
    return;
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes ? bytes : 1) != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  const std::shared_ptr<void> buffer(memory, [](void* p) { cudaFree(p); });
  peers->push_back({"NPP FilterMedianBorder",
                    [=](const Image& src, const Image& dst, void* stream) -> Status {
                      VF_TRY(cached->get(stream));
                      return check_npp(
                          median(static_cast<const T*>(src.data[0]), int(src.stride[0]), size,
                                 {0, 0}, static_cast<T*>(dst.data[0]), int(dst.stride[0]), size,
                                 mask, {width / 2, height / 2}, static_cast<Npp8u*>(buffer.get()),
                                 NPP_BORDER_REPLICATE, cached->context),
                          "nppiFilterMedianBorder");
                    },
                    nullptr, 0});
}

}  // namespace

std::string npp_version() {
  const NppLibraryVersion* v = nppGetLibVersion();
  return "NPP " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->build);
}

std::vector<Peer> npp_peers(const test::TimedCase& row) {
  std::vector<Peer> peers;
  const Layout& l = row.src;
  const bool gray = l.plane[0].channels == 1;
  if (row.in_place || l.planes != 1 || l.shift || (!gray && l.plane[0].channels != 4)) return peers;
  // Beyond 59 taps a call takes hundreds of milliseconds.
  if (const auto* p = std::any_cast<GaussianParams>(&row.params);
      p && p->kernel_size && p->kernel_size <= 59) {
    const int taps = p->kernel_size;
    if (l.type == Type::u8)
      gray ? add_gaussians<Npp8u>(&peers, nppiFilterGaussAdvancedBorder_8u_C1R_Ctx,
                                  nppiFilterGaussBorder_8u_C1R_Ctx, taps, p->sigma)
           : add_gaussians<Npp8u>(&peers, nppiFilterGaussAdvancedBorder_8u_C4R_Ctx,
                                  nppiFilterGaussBorder_8u_C4R_Ctx, taps, p->sigma);
    if (l.type == Type::u16)
      gray ? add_gaussians<Npp16u>(&peers, nppiFilterGaussAdvancedBorder_16u_C1R_Ctx,
                                   nppiFilterGaussBorder_16u_C1R_Ctx, taps, p->sigma)
           : add_gaussians<Npp16u>(&peers, nppiFilterGaussAdvancedBorder_16u_C4R_Ctx,
                                   nppiFilterGaussBorder_16u_C4R_Ctx, taps, p->sigma);
  }
  // For windows from some size on (15 x 15 of u8, 11 x 11 of u16), NPP 13.0.1 accesses memory
  // outside its buffers, and every later call of the process fails.
  if (const auto* p = std::any_cast<MedianParams>(&row.params);
      p && p->border == Border::replicate &&
      std::max(p->size, p->size_y) <= (l.type == Type::u8 ? 11 : 9)) {
    const int w = p->size, h = p->size_y ? p->size_y : w;
    if (l.type == Type::u8)
      gray ? add_median<Npp8u>(&peers, nppiFilterMedianBorder_8u_C1R_Ctx,
                               nppiFilterMedianBorderGetBufferSize_8u_C1R_Ctx, l, w, h)
           : add_median<Npp8u>(&peers, nppiFilterMedianBorder_8u_C4R_Ctx,
                               nppiFilterMedianBorderGetBufferSize_8u_C4R_Ctx, l, w, h);
    if (l.type == Type::u16 && gray)
      add_median<Npp16u>(&peers, nppiFilterMedianBorder_16u_C1R_Ctx,
                         nppiFilterMedianBorderGetBufferSize_16u_C1R_Ctx, l, w, h);
  }
  return peers;
}

}  // namespace vf::bench

#else

namespace vf::bench {

std::string npp_version() {
  return "no NPP in this build";
}
std::vector<Peer> npp_peers(const test::TimedCase&) {
  return {};
}

}  // namespace vf::bench

#endif
