#include "cuda/median_bits.cuh"

namespace vf::cuda::median {

RunBits bits_to_97(int size) {
  constexpr int kWords = bits_words(97);
  switch (size) {
    case 65:
      return run_bits_of<kWords, 65>();
    case 67:
      return run_bits_of<kWords, 67>();
    case 69:
      return run_bits_of<kWords, 69>();
    case 71:
      return run_bits_of<kWords, 71>();
    case 73:
      return run_bits_of<kWords, 73>();
    case 75:
      return run_bits_of<kWords, 75>();
    case 77:
      return run_bits_of<kWords, 77>();
    case 79:
      return run_bits_of<kWords, 79>();
    case 81:
      return run_bits_of<kWords, 81>();
    case 83:
      return run_bits_of<kWords, 83>();
    case 85:
      return run_bits_of<kWords, 85>();
    case 87:
      return run_bits_of<kWords, 87>();
    case 89:
      return run_bits_of<kWords, 89>();
    case 91:
      return run_bits_of<kWords, 91>();
    case 93:
      return run_bits_of<kWords, 93>();
    case 95:
      return run_bits_of<kWords, 95>();
    case 97:
      return run_bits_of<kWords, 97>();
  }
  return nullptr;
}

}  // namespace vf::cuda::median
