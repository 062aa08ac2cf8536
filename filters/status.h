// A Status is the outcome of a call of the filter library.
//
// Every call that can fail returns a Status. None throws, prints or aborts. A message names the
// parameter, its value and the allowed range, so that it can be shown to a user as it is.
#pragma once

#include <cstdarg>
#include <cstdio>

namespace vf {

enum class Code {
  ok,
  invalid_argument,  // a parameter, layout or image that no machine could filter
  unsupported,       // valid, but not on this backend or in this build
  out_of_memory,     // host or device memory
  no_device,         // no usable CUDA device or driver
  device_error,      // a CUDA call or kernel failed; the context may be lost
};

class [[nodiscard]] Status {
 public:
  Status() = default;

  [[gnu::format(printf, 2, 3)]] static Status error(Code code, const char* format, ...) {
    va_list args;
    va_start(args, format);
    const Status s(code, format, args);
    va_end(args);
    return s;
  }
  [[gnu::format(printf, 1, 2)]] static Status invalid(const char* format, ...) {
    va_list args;
    va_start(args, format);
    const Status s(Code::invalid_argument, format, args);
    va_end(args);
    return s;
  }

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const char* message() const { return message_; }

 private:
  Status(Code code, const char* format, va_list args) : code_(code) {
    vsnprintf(message_, sizeof message_, format, args);
  }
  Code code_ = Code::ok;
  char message_[256] = "";
};

}  // namespace vf

// Returns from the calling function if `expr` failed.
#define VF_TRY(expr)                                                                       \
  do {                                                                                     \
    if (::vf::Status vf_try_status_ = (expr); !vf_try_status_.ok()) return vf_try_status_; \
  } while (0)
