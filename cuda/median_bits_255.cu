#include "cuda/median_bits.cuh"

namespace vf::cuda::median {

RunBits bits_to_255(int size) {
  constexpr int kWords = bits_words(255);
  if (size < 129 || size > 255) return nullptr;
  switch (size % kWords) {
    case 1:
      return run_bits_for<kWords, 255, 1>();
    case 3:
      return run_bits_for<kWords, 255, 3>();
    case 5:
      return run_bits_for<kWords, 255, 5>();
    case 7:
      return run_bits_for<kWords, 255, 7>();
    case 9:
      return run_bits_for<kWords, 255, 9>();
    case 11:
      return run_bits_for<kWords, 255, 11>();
    case 13:
      return run_bits_for<kWords, 255, 13>();
    case 15:
      return run_bits_for<kWords, 255, 15>();
  }
  return nullptr;
}

}  // namespace vf::cuda::median
