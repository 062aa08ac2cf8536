// Runs the fuzz target without libFuzzer: on every file of the corpus, then on variations made by a
// fixed pseudo-random rule, so that all runs are the same.
//
//   fuzz-elements [CORPUS FOLDER] [NUMBER OF INPUTS]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

using Input = std::vector<uint8_t>;

int main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::filesystem::path> files;
  if (argc > 1)
    for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Input> corpus = {Input(200)};
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(corpus.back().data(), corpus.back().size());
  }
  const int inputs = argc > 2 ? atoi(argv[2]) : 1000;
  std::mt19937 random(1);
  for (int i = 0; i < inputs; i++) {
    Input input = corpus[random() % corpus.size()];
    const Input& other = corpus[random() % corpus.size()];
    if (random() % 2 && !other.empty())
      input.insert(input.begin() + random() % (input.size() + 1), other.begin(),
                   other.begin() + random() % other.size());
    for (unsigned n = 1 + random() % 40; n > 0 && !input.empty(); n--)
      input[random() % input.size()] = uint8_t(random());
    if (input.size() > 400) input.resize(400);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  printf("1..1\nok 1 - %zu inputs of the corpus and %d made of them\n", files.size(), inputs);
  return 0;
}
