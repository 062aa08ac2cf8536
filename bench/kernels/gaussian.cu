// The Gaussian as the formula has it: a thread a component, rows into doubles, then columns.
// Nothing is shared with the filter it judges, its weights included.
#include <cmath>
#include <memory>
#include <type_traits>
#include <vector>

#include "bench/kernels/gaussian.h"

namespace vf::bench {
namespace {

__device__ int seen(int i, int n, bool replicate) {
  if (replicate) return min(max(i, 0), n - 1);
  while (i < 0 || i >= n) {
    if (n == 1) return 0;
    i = i < 0 ? -i : 2 * (n - 1) - i;
  }
  return i;
}

template <class T>
__global__ void rows(const uint8_t* src, ptrdiff_t stride, PlaneLayout l, const double* weights,
                     int taps, bool replicate, double* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (i >= l.width * l.channels) return;
  const T* row = reinterpret_cast<const T*>(src + y * stride);
  const int x = i / l.channels, c = i % l.channels;
  double sum = 0;
  for (int t = 0; t < taps; t++)
    sum += weights[t] * double(row[seen(x + t - taps / 2, l.width, replicate) * l.channels + c]);
  out[size_t(y) * l.width * l.channels + i] = sum;
}

template <class T>
__global__ void columns(const double* in, uint8_t* dst, ptrdiff_t stride, PlaneLayout l,
                        const double* weights, int taps, bool replicate, double unit) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  const int n = l.width * l.channels;
  if (i >= n) return;
  double sum = 0;
  for (int t = 0; t < taps; t++)
    sum += weights[t] * in[size_t(seen(y + t - taps / 2, l.height, replicate)) * n + i];
  T* out = reinterpret_cast<T*>(dst + y * stride) + i;
  // Weights that sum to 1 keep every value in the range of its type.
  *out = std::is_floating_point<T>::value ? T(sum) : T(floor(sum / unit + 0.5) * unit);
}

using Doubles = std::unique_ptr<double, cudaError_t (*)(void*)>;

Status allocate(size_t count, Doubles* out) {
  double* data = nullptr;
  BENCH_CUDA(cudaMalloc(reinterpret_cast<void**>(&data), count * sizeof(double)));
  out->reset(data);
  return {};
}

}  // namespace

Status gaussian_oracle(const GaussianOracle& o, const Image& src, const Image& dst,
                       cudaStream_t stream) {
  for (int p = 0; p < src.layout.planes; p++) {
    const PlaneLayout& l = src.layout.plane[p];
    const int taps = o.taps[p], n = l.width * l.channels;
    std::vector<double> weights(static_cast<size_t>(taps));
    double sum = 0;
    for (int t = 0; t < taps; t++) {
      const double d = (t - taps / 2) / o.sigma[p];
      sum += weights[size_t(t)] = std::exp(-0.5 * d * d);
    }
    for (double& w : weights) w /= sum;

    Doubles between(nullptr, cudaFree), device_weights(nullptr, cudaFree);
    VF_TRY(allocate(size_t(n) * size_t(l.height), &between));
    VF_TRY(allocate(weights.size(), &device_weights));
    BENCH_CUDA(cudaMemcpyAsync(device_weights.get(), weights.data(),
                               weights.size() * sizeof(double), cudaMemcpyHostToDevice, stream));
    const dim3 grid(unsigned(n + 127) / 128, unsigned(l.height));
    const bool replicate = o.border == Border::replicate;
    with_type(src.layout.type, [&](auto v) {
      using T = decltype(v);
      rows<T><<<grid, 128, 0, stream>>>(static_cast<const uint8_t*>(src.data[p]), src.stride[p], l,
                                        device_weights.get(), taps, replicate, between.get());
      columns<T><<<grid, 128, 0, stream>>>(between.get(), static_cast<uint8_t*>(dst.data[p]),
                                           dst.stride[p], l, device_weights.get(), taps, replicate,
                                           double(1 << src.layout.shift));
    });
    BENCH_CUDA(cudaGetLastError());
    BENCH_CUDA(cudaStreamSynchronize(stream));
  }
  return {};
}

}  // namespace vf::bench
