#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/elements/basefeatures.h"
#include "tests/process.h"

namespace vf::test {
// Each filter of filters/filters.def is described in tests/elements/STEM.cpp.
#define VF_PART(...)
#define VF_FILTER(stem, ...) extern const Element stem##_element;
#include "filters/filters.def"
}  // namespace vf::test

using namespace vf::test;

namespace {

const Element* const kElements[] = {
#define VF_PART(...)
#define VF_FILTER(stem, ...) &stem##_element,
#include "filters/filters.def"
    &letterboxbatch_element,
    &letterboxrestore_element,
    &letterboxunbatch_element,
    &regions_element,
};

// Returns the parts that an entry lacks. Without this check, a kind of cases would run nothing and
// pass.
std::string missing_of(const Element& e) {
  std::string missing;
  const auto want = [&](bool there, const char* what) {
    if (!there) missing += (missing.empty() ? "" : ", ") + std::string(what);
  };
  want(e.own_cases, "own_cases");
  if (e.not_filter) return missing;
  want(!e.changes.empty(), "changes");
  want(!e.faults.empty(), "faults");
  for (const ChangeEntry& c : e.changes) {
    want(c.property && c.values.size() > 1, "two values of a property that changes");
    want(!c.formats.empty(), "formats of changes");
  }
  for (const FaultEntry& f : e.faults) want(!f.settings.empty(), "settings of faults");
  if (!e.not_common) {
    want(e.set && e.set_identity && e.make, "set, set_identity and make, or not_common");
    want(!e.formats.empty(), "formats");
  }
  return missing;
}

// Checks that every element of the plugin has an entry.
void plugin_case(Suite& suite) {
  suite.run("plugin/every element has an entry", [](Case& c) {
    GList* features = gst_registry_get_feature_list_by_plugin(gst_registry_get(), "cudafilters");
    c.check(features, "no plugin cudafilters");
    for (GList* l = features; l; l = l->next) {
      if (!GST_IS_ELEMENT_FACTORY(l->data)) continue;
      const char* name = gst_plugin_feature_get_name(l->data);
      bool found = false;
      for (const Element* e : kElements) found = found || !strcmp(e->name, name);
      c.check(found, "no file of tests/elements/ describes %s", name);
    }
    gst_plugin_feature_list_free(features);
  });
}

void run_all(Suite& suite, const Element& e) {
  const std::string missing = missing_of(e);
  suite.run(std::string(e.name) + "/has cases of every kind",
            [&](Case& c) { c.check(missing.empty(), "its entry lacks %s", missing.c_str()); });
  if (!missing.empty()) return;
  if (e.not_filter)
    printf("# %s: only its own cases: %s\n", e.name, e.not_filter);
  else if (e.not_common)
    printf("# %s: not the common cases: %s\n", e.name, e.not_common);
  else
    common_cases(suite, e);
  e.own_cases(suite);
  unusable_cases(suite, e);
  enabled_cases(suite, e);
  stats_cases(suite, e);
  preset_cases(suite, e);
  if (e.not_filter) return;
  fault_cases(suite, e);
  change_cases(suite, e);
  limit_cases(suite, e);
}

int usage(const char* argument) {
  fprintf(stderr,
          "unknown or incomplete argument %s\nusage: elements [--element NAME] [--case SUBSTRING] "
          "[--cycles N] [--changes N] "
          "[--max-pixels N] [--fault-step N] [--seed N] [--part I/N]\n",
          argument);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  yield_to_others();
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
    else if (arg == "--fault-step")
      options.fault_step = std::max(1, atoi(value));
    else if (arg == "--seed")
      options.seed = strtoull(value, nullptr, 10);
    else if (arg != "--part" || !read_part(value, &options.part))
      return usage(argv[i - 1]);
  }
  // lifetime_cases measures memory.
  one_arena();
  // lifetime_cases counts live objects with this tracer.
  g_setenv("GST_TRACERS", "leaks", FALSE);
  gst_init(nullptr, nullptr);
  gchar* version = gst_version_string();
  printf("# seed %" G_GUINT64_FORMAT ", %s\n", options.seed, version);
  g_free(version);
  std::string why;
  if (!cuda_context(&why)) printf("# no CUDA cases: %s\n", why.c_str());
  Suite suite(options);
  plugin_case(suite);
  bool known = false;
  for (const Element* e : kElements) {
    if (!options.element.empty() && options.element != e->name) continue;
    known = true;
    run_all(suite, *e);
  }
  if (!known) {
    printf("Bail out! no file of tests/elements/ describes %s\n", options.element.c_str());
    return 99;
  }
  return suite.finish();
}
