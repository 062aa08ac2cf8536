// Uses the filter library as a user's program does. packaging/test compiles it with the installed
// files.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "filters/gaussian.h"

int main() {
  constexpr int kWidth = 64, kHeight = 48;
  std::vector<uint8_t> in(kWidth * kHeight, 100), out(in.size());
  in[kWidth * kHeight / 2 + kWidth / 2] = 250;
  const vf::Layout layout = vf::packed_layout(vf::Type::u8, 1, kWidth, kHeight);
  vf::GaussianParams params;
  params.sigma = 2;
  std::unique_ptr<vf::Queue> queue;
  std::unique_ptr<vf::Plan> plan;
  vf::Status status = vf::make_queue({}, &queue);
  if (status.ok())
    status = vf::make_gaussian(*queue, layout, params, vf::Placement::separate, &plan);
  if (status.ok()) {
    vf::Image source, destination;
    source.layout = destination.layout = layout;
    source.data[0] = in.data();
    destination.data[0] = out.data();
    source.stride[0] = destination.stride[0] = kWidth;
    status = plan->run(source, destination);
  }
  if (status.ok()) status = queue->sync();
  if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message()), 1;
  // The speck is spread: its middle is 150 * 0.04 above the rest, which has not changed.
  const int middle = out[kWidth * kHeight / 2 + kWidth / 2], corner = out[0];
  std::printf("middle %d, corner %d\n", middle, corner);
  return middle == 106 && corner == 100 ? 0 : 1;
}
