#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <hwy/targets.h>

#include "tests/kernels/harness.h"
#include "tests/process.h"
#include "tests/reference/reference.h"

using namespace vf;
using namespace vf::test;

namespace {

int usage(const char* argument) {
  fprintf(stderr,
          "unknown or incomplete argument %s\nusage: kernels [--backend cpu|cuda] [--filter NAME] "
          "[--case SUBSTRING] [--seed N] [--threads N] [--simd NAME,...] [--sample N] "
          "[--max-pixels N] [--part I/N]\n",
          argument);
  return 2;
}

// Lets the CPU backend use one instruction set, as Highway names it: AVX2, SSE4, SCALAR ... Returns
// false if this machine or build does not have it.
bool force_simd(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);  // all, so that the set is found
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name != hwy::TargetName(target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    return true;
  }
  return false;
}

std::vector<std::string> names_of(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  yield_to_others();
  Options options;
  std::string backend;
  std::vector<std::string> simd;
  int threads = 0;
  options.seed = uint64_t(std::chrono::system_clock::now().time_since_epoch().count()) % 1000000;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    if (i + 1 == argc) return usage(argv[i]);
    const char* value = argv[++i];
    if (arg == "--backend")
      backend = value;
    else if (arg == "--filter")
      options.filter = value;
    else if (arg == "--case")
      options.match = value;
    else if (arg == "--seed")
      options.seed = strtoull(value, nullptr, 10);
    else if (arg == "--threads")
      threads = atoi(value);
    else if (arg == "--simd")
      simd = names_of(value);
    else if (arg == "--sample")
      options.sample = strtoull(value, nullptr, 10);
    else if (arg == "--max-pixels")
      options.max_pixels = strtoll(value, nullptr, 10);
    else if (arg != "--part" || !read_part(value, &options.part))
      return usage(arg.c_str());
  }
  use_reference_backend();
  printf("# seed %llu\n", static_cast<unsigned long long>(options.seed));

  int passed = 0, failed = 0, skipped = 0;
  const auto skip = [&](const std::string& what, const std::string& why) {
    skipped++;
    printf("ok %d - %s # SKIP %s\n", passed + failed + skipped, what.c_str(), why.c_str());
  };
  Kept kept;
  auto run = [&](const std::string& name, std::unique_ptr<Device> device) {
    Context context(options, name, std::move(device));
    if (simd.size() > 1) context.share(&kept);
    context.passed = passed, context.failed = failed, context.skipped = skipped;
    for (const Filter& f : kFilters)
      if (options.filter.empty() || options.filter == f.name) context.run(f);
    if (options.filter.empty() || options.filter == "gaussian_opencv")
      gaussian_opencv_cases(context);
    passed = context.passed, failed = context.failed, skipped = context.skipped;
  };

  const auto run_cpu = [&](const std::string& name) {
    std::unique_ptr<Queue> queue;
    QueueOptions q;
    q.threads = threads;
    if (Status s = make_queue(q, &queue); !s.ok()) {
      printf("Bail out! %s\n", s.message());
      exit(99);
    }
    run(name, make_host_device(std::move(queue)));
  };
  for (const std::string& name : simd)
    if (force_simd(name))
      run_cpu("cpu " + name);
    else
      skip("cpu " + name, "not on this machine");
  if (simd.empty() && (backend.empty() || backend == "cpu")) run_cpu("cpu");
  if (simd.empty() && (backend.empty() || backend == "cuda")) {
    std::string why;
    if (auto device = make_cuda_device(&why)) {
      run("cuda", std::move(device));
    } else {
      skip("cuda", why);
    }
  }
  printf("1..%d\n# %d passed, %d failed, %d skipped\n", passed + failed + skipped, passed, failed,
         skipped);
  if (passed + failed == 0 && skipped == 0) {
    printf("Bail out! no case matched\n");
    return 99;
  }
  return failed ? 1 : 0;
}
