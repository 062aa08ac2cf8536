// Measures the memory and threads of this process, sets its priority, and lets signals end programs
// that run for long.
#pragma once

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>

namespace vf::test {

// Returns the number behind `field` ("VmRSS:") in /proc/self/status, or 0 if there is none.
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

// Lets other programs have processors first. Tests of programs that play in time run at the same
// time as those that only compute.
inline void yield_to_others() {
  setpriority(PRIO_PROCESS, 0, 10);
}

inline long resident_kib() {
  return process_status("VmRSS:");
}
inline int process_threads() {
  return int(process_status("Threads:"));
}

// Returns the allocated memory. Resident memory depends on when the allocator gives memory back.
inline long heap_kib() {
  const struct mallinfo2 info = mallinfo2();
  return long((info.uordblks + info.hblkhd) / 1024);
}

// Returns this process's memory on all GPUs by nvidia-smi: 0 if it has no context, and -1 if
// nvidia-smi cannot tell.
inline long process_device_kib() {
  FILE* f = popen(
      "nvidia-smi --query-compute-apps=pid,used_gpu_memory --format=csv,noheader,nounits "
      "2>/dev/null",
      "r");
  if (!f) return -1;
  long total = 0;
  char line[200];
  while (fgets(line, sizeof line, f)) {
    long pid = 0, mib = 0;
    const int read = sscanf(line, "%ld, %ld", &pid, &mib);
    if (read == 1 && pid == getpid()) total = -1;  // "[N/A]"
    if (read == 2 && pid == getpid() && total >= 0) total += mib * 1024;
  }
  return pclose(f) == 0 ? total : -1;
}

// Limits malloc to one arena. Threads that come and go would use new arenas, and each arena keeps
// its memory.
inline void one_arena() {
  mallopt(M_ARENA_MAX, 1);
}

// The signal that ends the run early, or 0.
inline volatile std::sig_atomic_t ended_by = 0;

// SIGINT, SIGTERM and SIGHUP set `ended_by`; a second one ends the process.
inline void take_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { ended_by = number; };
  action.sa_flags = int(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

}  // namespace vf::test
