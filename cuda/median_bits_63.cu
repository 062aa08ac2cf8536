#include "cuda/median_bits.cuh"

namespace vf::cuda::median {

RunBits bits_to_63(int size) {
  constexpr int kWords = bits_words(63);
  switch (size) {
    case 49:
      return run_bits_of<kWords, 49>();
    case 51:
      return run_bits_of<kWords, 51>();
    case 53:
      return run_bits_of<kWords, 53>();
    case 55:
      return run_bits_of<kWords, 55>();
    case 57:
      return run_bits_of<kWords, 57>();
    case 59:
      return run_bits_of<kWords, 59>();
    case 61:
      return run_bits_of<kWords, 61>();
    case 63:
      return run_bits_of<kWords, 63>();
  }
  return nullptr;
}

}  // namespace vf::cuda::median
