// Divides the cases of a test among several processes.
#pragma once

#include <cstdint>
#include <cstdio>

namespace vf::test {

// The cases whose number is `index` modulo `count`.
struct Part {
  unsigned index = 0, count = 1;
  bool has(uint64_t number) const { return number % count == index; }
};

// Reads "I/N", the I-th of N parts. Returns false if the text is not of that form.
inline bool read_part(const char* text, Part* part) {
  unsigned i = 0, n = 0;
  char rest;
  if (sscanf(text, "%u/%u%c", &i, &n, &rest) != 2 || i < 1 || i > n) return false;
  *part = {i - 1, n};
  return true;
}

}  // namespace vf::test
