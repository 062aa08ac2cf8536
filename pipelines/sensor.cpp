// Records a clip with the simulated camera of sensor.h: sensor RGB W H OUT
//
// RGB has the frames as 8-bit RGB. OUT.noisy.yuv and OUT.clean.yuv get them as 4:2:0, with the
// camera's noise and without.
#include "pipelines/sensor.h"

using namespace camera;

int main(int argc, char** argv) {
  if (argc != 5) fail("usage: sensor RGB W H OUT");
  const Size s = {atoi(argv[2]), atoi(argv[3])};
  const std::string out = argv[4];
  std::mt19937 random(7);
  std::vector<Bytes> noisy, clean;
  for (const Bytes& b : read(argv[1], 3 * s.luma())) {
    noisy.push_back(pack(yuv_of(sensor(b, s, &random), s)));
    clean.push_back(pack(yuv_of(sensor(b, s, nullptr), s)));
  }
  write(out + ".noisy.yuv", noisy);
  write(out + ".clean.yuv", clean);
  return 0;
}
