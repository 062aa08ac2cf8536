#include <cstdio>
#include <cstdlib>

#include "tests/elements/harness.h"

using namespace vf::test;

namespace {

struct Entry {
  const Element* element;
  void (*own_cases)(Suite&);
};
const Entry kElements[] = {
    {&gaussian_element, gaussian_cases},
    {&guided_element, guided_cases},
    {&letterbox_element, letterbox_cases},
    {&median_element, median_cases},
};

int usage(const char* argument) {
  fprintf(stderr,
          "unknown or incomplete argument %s\nusage: elements [--element NAME] [--case SUBSTRING] "
          "[--cycles N] [--changes N] "
          "[--max-pixels N] [--seed N]\n",
          argument);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.seed = guint64(g_get_real_time()) % 1000000;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    if (i + 1 == argc) return usage(argv[i]);
    const char* value = argv[++i];
    if (arg == "--element")
      options.element = value;
    else if (arg == "--case")
      options.match = value;
    else if (arg == "--cycles")
      options.cycles = atoi(value);
    else if (arg == "--changes")
      options.changes = atoi(value);
    else if (arg == "--max-pixels")
      options.max_pixels = strtoull(value, nullptr, 10);
    else if (arg == "--seed")
      options.seed = strtoull(value, nullptr, 10);
    else
      return usage(argv[i - 1]);
  }
  // Counts live objects: see lifetime_cases.
  g_setenv("GST_TRACERS", "leaks", FALSE);
  gst_init(nullptr, nullptr);
  gchar* version = gst_version_string();
  printf("# seed %" G_GUINT64_FORMAT ", %s\n", options.seed, version);
  g_free(version);
  std::string why;
  if (!cuda_context(&why)) printf("# no CUDA cases: %s\n", why.c_str());
  Suite suite(options);
  for (const Entry& entry : kElements) {
    if (!options.element.empty() && options.element != entry.element->name) continue;
    // The common cases are about filters from a frame to one of the same caps.
    if (entry.element->make) common_cases(suite, *entry.element);
    entry.own_cases(suite);
    fault_cases(suite, *entry.element);
    change_cases(suite, *entry.element);
    limit_cases(suite, *entry.element);
  }
  return suite.finish();
}
