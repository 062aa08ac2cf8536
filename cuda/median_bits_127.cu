#include "cuda/median_bits.cuh"

namespace vf::cuda::median {

RunBits bits_to_127(int size) {
  constexpr int kWords = bits_words(127);
  if (size < 99 || size > 127) return nullptr;
  switch (size % kWords) {
    case 1:
      return run_bits_for<kWords, 127, 1>();
    case 3:
      return run_bits_for<kWords, 127, 3>();
    case 5:
      return run_bits_for<kWords, 127, 5>();
    case 7:
      return run_bits_for<kWords, 127, 7>();
    case 9:
      return run_bits_for<kWords, 127, 9>();
    case 11:
      return run_bits_for<kWords, 127, 11>();
    case 13:
      return run_bits_for<kWords, 127, 13>();
    case 15:
      return run_bits_for<kWords, 127, 15>();
    case 17:
      return run_bits_for<kWords, 127, 17>();
  }
  return nullptr;
}

}  // namespace vf::cuda::median
