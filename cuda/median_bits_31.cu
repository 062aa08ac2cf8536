#include "cuda/median_bits.cuh"

namespace vf::cuda::median {

RunBits bits_to_31(int size) {
  constexpr int kWords = bits_words(31);
  switch (size) {
    case 17:
      return run_bits_of<kWords, 17>();
    case 19:
      return run_bits_of<kWords, 19>();
    case 21:
      return run_bits_of<kWords, 21>();
    case 23:
      return run_bits_of<kWords, 23>();
    case 25:
      return run_bits_of<kWords, 25>();
    case 27:
      return run_bits_of<kWords, 27>();
    case 29:
      return run_bits_of<kWords, 29>();
    case 31:
      return run_bits_of<kWords, 31>();
  }
  return nullptr;
}

}  // namespace vf::cuda::median
