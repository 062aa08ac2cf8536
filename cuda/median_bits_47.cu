#include "cuda/median_bits.cuh"

namespace vf::cuda::median {

RunBits bits_to_47(int size) {
  constexpr int kWords = bits_words(47);
  switch (size) {
    case 33:
      return run_bits_of<kWords, 33>();
    case 35:
      return run_bits_of<kWords, 35>();
    case 37:
      return run_bits_of<kWords, 37>();
    case 39:
      return run_bits_of<kWords, 39>();
    case 41:
      return run_bits_of<kWords, 41>();
    case 43:
      return run_bits_of<kWords, 43>();
    case 45:
      return run_bits_of<kWords, 45>();
    case 47:
      return run_bits_of<kWords, 47>();
  }
  return nullptr;
}

}  // namespace vf::cuda::median
