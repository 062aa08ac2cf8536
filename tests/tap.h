// Counts the cases of a test program and prints their results in TAP, the Test Anything Protocol.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace vf::test {

class Tap {
 public:
  void pass(const std::string& name) {
    passed_++;
    std::printf("ok %d - %s\n", count(), name.c_str());
  }
  void fail(const std::string& name, const std::string& why) {
    failed_++;
    std::printf("not ok %d - %s\n", count(), name.c_str());
    if (!why.empty()) std::printf("# %s\n", why.c_str());
  }
  void skip(const std::string& name, const std::string& why) {
    skipped_++;
    std::printf("ok %d - %s # SKIP %s\n", count(), name.c_str(), why.c_str());
  }
  void check(const std::string& name, bool ok) { ok ? pass(name) : fail(name, ""); }
  // The format says why the case failed.
  __attribute__((format(printf, 4, 5))) void check(const std::string& name, bool ok,
                                                   const char* format, ...) {
    if (ok) return pass(name);
    char why[1024];
    va_list args;
    va_start(args, format);
    std::vsnprintf(why, sizeof why, format, args);
    va_end(args);
    fail(name, why);
  }
  // Prints the plan. Returns the program's exit status.
  int end() const {
    std::printf("1..%d\n", count());
    return failed_ != 0;
  }
  int passed() const { return passed_; }
  int failed() const { return failed_; }
  int skipped() const { return skipped_; }

 private:
  int count() const { return passed_ + failed_ + skipped_; }

  int passed_ = 0, failed_ = 0, skipped_ = 0;
};

}  // namespace vf::test
