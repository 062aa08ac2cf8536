// What this process uses, as the kernel and the allocator count it.
#pragma once

#include <malloc.h>

#include <cstdio>
#include <string_view>

namespace vf::test {

// The number behind `field` ("VmRSS:") in /proc/self/status; 0 where there is none.
inline long process_status(const char* field) {
  long value = 0;
  if (FILE* f = fopen("/proc/self/status", "r")) {
    char line[200], name[64];
    long number;
    while (fgets(line, sizeof line, f))
      if (sscanf(line, "%63s %ld", name, &number) == 2 && std::string_view(name) == field)
        value = number;
    fclose(f);
  }
  return value;
}

inline long resident_kib() {
  return process_status("VmRSS:");
}
inline int process_threads() {
  return int(process_status("Threads:"));
}

// What is allocated. What is resident depends on when the allocator gives memory back.
inline long heap_kib() {
  const struct mallinfo2 info = mallinfo2();
  return long((info.uordblks + info.hblkhd) / 1024);
}

// Memory in use on the first GPU by nvidia-smi; -1 where there is none.
inline long device_kib() {
  FILE* f =
      popen("nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null", "r");
  long mib = -1;
  if (f) {
    if (fscanf(f, "%ld", &mib) != 1) mib = -1;
    pclose(f);
  }
  return mib < 0 ? -1 : mib * 1024;
}

}  // namespace vf::test
