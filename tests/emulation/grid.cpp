#include "tests/emulation/grid.h"

#include <cuda_runtime.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <vector>

// These are CUDA's built-in variables of the thread that runs.
uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace vf::emulation {
namespace {

// ---- fibers ------------------------------------------------------------------------------------

constexpr int kMaxThreads = 1024;
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStack = 512 << 10;
#else
constexpr size_t kStack = 128 << 10;
#endif

#if defined(__x86_64__) || defined(__aarch64__)
// Saves the registers that a call preserves on the current stack and continues on another stack.
extern "C" void vf_switch_stack(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.globl vf_switch_stack
.hidden vf_switch_stack
.type vf_switch_stack, @function
vf_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size vf_switch_stack, .-vf_switch_stack
)");
#else
asm(R"(
.text
.globl vf_switch_stack
.hidden vf_switch_stack
.type vf_switch_stack, %function
vf_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size vf_switch_stack, .-vf_switch_stack
)");
#endif

class Stack {
 public:
  // Makes the next switch to this stack call `entry`, which never returns.
  void start(uint8_t* memory, void (*entry)()) {
    auto* top = reinterpret_cast<void**>(memory + kStack);
#if defined(__x86_64__)
    top -= 2;  // a function begins with its return address at 8 modulo 16
    top[0] = reinterpret_cast<void*>(entry);
    top[1] = nullptr;
    at_ = top - 6;
#else
    at_ = top - 20;
    static_cast<void**>(at_)[11] = reinterpret_cast<void*>(entry);
#endif
  }
  static void go(Stack* from, Stack* to) {
    vf_switch_stack(&from->at_, to->at_);
  }

 private:
  void* at_ = nullptr;
};
#else
// This version runs on other processors. It is slower, as each switch asks the kernel for the
// signal mask.
class Stack {
 public:
  void start(uint8_t* memory, void (*entry)()) {
    getcontext(&at_);
    at_.uc_stack.ss_sp = memory;
    at_.uc_stack.ss_size = kStack;
    at_.uc_link = nullptr;
    makecontext(&at_, entry, 0);
  }
  static void go(Stack* from, Stack* to) { swapcontext(&from->at_, &to->at_); }

 private:
  ucontext_t at_;
};
#endif

// ---- a block's threads -------------------------------------------------------------------------

enum class State { ready, waits_for_lanes, waits_for_block, gone };

struct Arrival {
  void* to;
  const void* from;
  int bytes, zeros;
};

struct Thread {
  Stack stack;
  State state;
  uint3 index;
  int number;                                // index in the block
  Exchange* exchange;                        // set while the thread waits for other lanes
  size_t variables;                          // bytes of VF_SHARED variables so far
  std::vector<std::vector<Arrival>> copies;  // committed groups, and the open one at the end
};

constexpr size_t kArena = 1 << 20;         // bytes for the shared memory of a block
constexpr size_t kZone = 64;               // bytes between variables
constexpr size_t kVariables = 48 << 10;    // maximum bytes of VF_SHARED variables
constexpr uint32_t kSharedAddress = 1024;  // address of the arena's start; 0 must be invalid

struct Executor {
  uint8_t* stacks = nullptr;
  uint8_t* arena = nullptr;
  Stack scheduler;
  Thread threads[kMaxThreads];
  std::vector<int> order;  // the order in which threads take turns
  int turn = 0;            // the place in it
  Thread* running = nullptr;
  const Grid* grid = nullptr;
  int count = 0, waiting = 0, gone = 0;  // threads of the block: all, at the barrier, at the end
  // For each warp: lanes that have ended or do not exist, and lanes that wait for others.
  unsigned lanes_gone[kMaxThreads / 32], lanes_waiting[kMaxThreads / 32];
  uint8_t* dynamic = nullptr;
  uint8_t* variables = nullptr;  // the VF_SHARED variable with the lowest address
  bool failed = false;
  Error error = Error::none;
  sigjmp_buf escape;
  pthread_t thread;
};

Executor* executor = nullptr;

std::string where(const Thread& t) {
  char text[160];
  snprintf(text, sizeof text, "block (%u, %u, %u), thread (%u, %u, %u)", blockIdx.x, blockIdx.y,
           blockIdx.z, t.index.x, t.index.y, t.index.z);
  return text;
}

void report(Error error, const char* format, ...) __attribute__((format(printf, 2, 3)));
void report(Error error, const char* format, ...) {
  Executor& x = *executor;
  if (x.failed) return;
  x.failed = true;
  x.error = error;
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "CUDA emulation: %s: %s\n", name_of(x.grid->kernel).c_str(), text);
}

// Ends the kernel from inside a thread.
[[noreturn]] void abandon() {
  siglongjmp(executor->escape, 1);
}

// Continues with the next thread of the round that is ready. Returns false if there is none.
bool go_on(Stack* from) {
  Executor& x = *executor;
  while (++x.turn < x.count) {
    Thread& t = x.threads[x.order[x.turn]];
    if (t.state != State::ready) continue;
    x.running = &t;
    threadIdx = t.index;
    Stack::go(from, &t.stack);
    return true;
  }
  return false;
}

void rest(State state) {
  Thread& t = *executor->running;
  t.state = state;
  if (!go_on(&t.stack)) Stack::go(&t.stack, &executor->scheduler);
}

constexpr const char* kNames[] = {"__syncwarp",        "__shfl_sync",       "__shfl_up_sync",
                                  "__shfl_down_sync",  "__shfl_xor_sync",   "__ballot_sync",
                                  "__reduce_add_sync", "__reduce_xor_sync", "mma",
                                  "stmatrix"};
const char* name_of(Exchange::Kind kind) {
  return kNames[int(kind)];
}

// If all lanes of the exchange have arrived, computes the result and lets them continue.
void complete(int warp, const Exchange& any) {
  Executor& x = *executor;
  const unsigned present = any.mask & ~x.lanes_gone[warp];
  if (present & ~x.lanes_waiting[warp]) return;
  Exchange* of[32] = {};
  for (int lane = 0; lane < 32; lane++) {
    if (!(present >> lane & 1)) continue;
    Exchange* const e = x.threads[32 * warp + lane].exchange;
    if (e->kind != any.kind || e->mask != any.mask) return;
    of[lane] = e;
  }
  any.compute(of);
  x.lanes_waiting[warp] &= ~present;
  for (int lane = 0; lane < 32; lane++) {
    if (!of[lane]) continue;
    Thread& t = x.threads[32 * warp + lane];
    t.exchange = nullptr;
    t.state = State::ready;
  }
}

void thread_main() {
  Executor& x = *executor;
  x.grid->body();
  Thread& t = *x.running;
  t.state = State::gone;
  x.gone++;
  // Lanes that wait for others need not wait for a lane that has ended.
  const int warp = t.number / 32;
  x.lanes_gone[warp] |= 1u << t.number % 32;
  for (int lane = 0; lane < 32; lane++) {
    const int n = 32 * warp + lane;
    if (n < x.count && x.threads[n].state == State::waits_for_lanes)
      complete(warp, *x.threads[n].exchange);
  }
  rest(State::gone);
  abort();
}

std::string mask_text(unsigned mask) {
  char text[16];
  snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

// Reports that no thread can continue.
void report_stuck() {
  Executor& x = *executor;
  for (int n = 0; n < x.count; n++) {
    const Thread& t = x.threads[n];
    if (t.state != State::waits_for_lanes) continue;
    const unsigned missing = t.exchange->mask & ~x.lanes_gone[n / 32];
    for (int lane = 0; lane < 32; lane++) {
      if (!(missing >> lane & 1)) continue;
      const Thread& other = x.threads[n / 32 * 32 + lane];
      if (other.state == State::waits_for_lanes && other.exchange->kind == t.exchange->kind &&
          other.exchange->mask == t.exchange->mask)
        continue;
      return report(
          Error::launch_failed, "%s waits at %s of lanes %s for lane %d, which waits at %s",
          where(t).c_str(), name_of(t.exchange->kind), mask_text(t.exchange->mask).c_str(), lane,
          other.state == State::waits_for_block
              ? "__syncthreads"
              : (name_of(other.exchange->kind) + (" of lanes " + mask_text(other.exchange->mask)))
                    .c_str());
    }
  }
  const Thread* waits = nullptr;
  const Thread* left = nullptr;
  for (int n = 0; n < x.count; n++) {
    const Thread& t = x.threads[n];
    if (t.state == State::waits_for_block && !waits) waits = &t;
    if (t.state == State::gone && !left) left = &t;
  }
  report(Error::launch_failed,
         "%s waits at __syncthreads, and %d of %d threads have ended, the first %s",
         waits ? where(*waits).c_str() : "?", x.gone, x.count, left ? where(*left).c_str() : "?");
}

// ---- shared memory -----------------------------------------------------------------------------

constexpr uint32_t kPoison = 0xfff5c3a7;  // a NaN as float and a large number as integer

// The dynamic part ends at the arena's end, and accesses to the page behind it fault. Variables lie
// before it, each between two zones of poison that must not change.
void poison_shared(size_t dynamic) {
  Executor& x = *executor;
  x.dynamic = x.arena + kArena - (dynamic + 15) / 16 * 16;
  x.variables = x.dynamic;
  const size_t bytes = size_t(x.arena + kArena - x.dynamic) + kVariables + 64 * kZone;
  std::fill_n(reinterpret_cast<uint32_t*>(x.arena + kArena - bytes), bytes / 4, kPoison);
}

bool zone_is_whole(const uint8_t* end) {
  for (const uint8_t* p = end - kZone; p < end; p++)
    if (*p != uint8_t(kPoison >> (8 * (reinterpret_cast<uintptr_t>(p) % 4)))) return false;
  return true;
}

// ---- faults ------------------------------------------------------------------------------------

struct sigaction previous[32];

void on_signal(int signal, siginfo_t* info, void* context) {
  Executor* const x = executor;
  if (x && x->running && pthread_equal(x->thread, pthread_self())) {
    const Thread& t = *x->running;
    const auto* at = static_cast<const uint8_t*>(info->si_addr);
    if (signal == SIGSEGV || signal == SIGBUS) {
      const uint8_t* const stack = x->stacks + size_t(t.number) * (kStack + 4096);
      if (at >= x->arena - 4096 && at < x->arena + kArena + 4096)
        report(Error::illegal_address, "%s: byte %td of %zu of dynamic shared memory",
               where(t).c_str(), at - x->dynamic, x->grid->shared);
      else if (at >= stack && at < stack + 4096)
        report(Error::illegal_address, "%s: stack overflow", where(t).c_str());
      else
        report(Error::illegal_address, "%s: illegal address %p%s", where(t).c_str(), info->si_addr,
               describe(at).c_str());
    } else if (signal == SIGILL) {
      report(Error::misaligned_address, "%s: misaligned address or index outside of an array",
             where(t).c_str());
    } else {
      report(Error::launch_failed, "%s: signal %d", where(t).c_str(), signal);
    }
    siglongjmp(x->escape, 1);
  }
  if (signal == SIGSEGV) {
    const std::string what = describe(static_cast<const uint8_t*>(info->si_addr));
    if (!what.empty()) {
      // The process ends here, so functions that are unsafe in a handler do no harm.
      fprintf(stderr, "CUDA emulation: the host touched device memory at %p%s\n", info->si_addr,
              what.c_str());
    }
  }
  struct sigaction& old = previous[signal];
  if (old.sa_flags & SA_SIGINFO) return old.sa_sigaction(signal, info, context);
  if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) return old.sa_handler(signal);
  ::signal(signal, SIG_DFL);  // the access fails again and ends the process
}

// Handlers run on their own stack, because the thread's stack may be full.
void use_signal_stack() {
  static thread_local std::unique_ptr<uint8_t[]> memory;
  if (memory) return;
  constexpr size_t size = 64 << 10;
  memory = std::make_unique<uint8_t[]>(size);
  stack_t old = {};
  sigaltstack(nullptr, &old);
  if (!(old.ss_flags & SS_DISABLE)) return;  // a sanitizer has set a stack already
  stack_t stack = {};
  stack.ss_sp = memory.get();
  stack.ss_size = size;
  sigaltstack(&stack, nullptr);
}

void make_executor() {
  if (executor) return;
  auto* x = new Executor;
  const size_t stacks = kMaxThreads * (kStack + 4096);
  void* p = mmap(nullptr, stacks + 4096, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* q = mmap(nullptr, kArena + 2 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED || q == MAP_FAILED) {
    fprintf(stderr, "CUDA emulation: no memory for threads\n");
    abort();
  }
  x->stacks = static_cast<uint8_t*>(p);
  for (int n = 0; n < kMaxThreads; n++) {
    mprotect(x->stacks + n * (kStack + 4096), 4096, PROT_NONE);
    x->threads[n].number = n;
  }
  x->arena = static_cast<uint8_t*>(q) + 4096;
  mprotect(x->arena, kArena, PROT_READ | PROT_WRITE);
  executor = x;
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE})
    sigaction(signal, &action, &previous[signal]);
}

std::vector<int> turns(int count) {
  std::vector<int> order(count);
  for (int i = 0; i < count; i++) order[i] = i;
  const char* text = getenv("VF_EMULATION_ORDER");
  if (text && !strcmp(text, "backward"))
    std::reverse(order.begin(), order.end());
  else if (text && *text)
    std::shuffle(order.begin(), order.end(), std::mt19937(unsigned(atoi(text))));
  return order;
}

void run_block() {
  Executor& x = *executor;
  const Index& n = x.grid->threads;
  x.waiting = x.gone = 0;
  poison_shared(x.grid->shared);
  for (int warp = 0; 32 * warp < x.count; warp++) {
    const int lanes = x.count - 32 * warp;
    x.lanes_gone[warp] = lanes < 32 ? ~0u << lanes : 0;
    x.lanes_waiting[warp] = 0;
  }
  for (int i = 0; i < x.count; i++) {
    Thread& t = x.threads[i];
    t.state = State::ready;
    t.index = {unsigned(i) % n.x, unsigned(i) / n.x % n.y, unsigned(i) / n.x / n.y};
    t.exchange = nullptr;
    t.variables = 0;
    t.copies.clear();
    // Tops of stacks at the same place in a page would share the same few lines of the first cache.
    t.stack.start(x.stacks + i * (kStack + 4096) + 4096 - i % 32 * 320, thread_main);
  }
  while (x.gone < x.count) {
    x.turn = -1;
    const bool any = go_on(&x.scheduler);
    x.running = nullptr;
    if (!any) {
      report_stuck();
      return;
    }
  }
  for (const uint8_t* zone : {x.variables, x.dynamic})
    if (!zone_is_whole(zone))
      report(Error::illegal_address,
             "block (%u, %u, %u): a write beside a variable in shared memory", blockIdx.x,
             blockIdx.y, blockIdx.z);
}

}  // namespace

// ---- what kernels call -------------------------------------------------------------------------

void exchange(Exchange& mine) {
  Executor& x = *executor;
  Thread& t = *x.running;
  const int warp = t.number / 32, lane = t.number % 32;
  if (!(mine.mask >> lane & 1)) {
    report(Error::launch_failed, "%s: %s with lanes 0x%08x, of which it is none", where(t).c_str(),
           name_of(mine.kind), mine.mask);
    abandon();
  }
  t.exchange = &mine;
  x.lanes_waiting[warp] |= 1u << lane;
  complete(warp, mine);
  if (t.exchange) rest(State::waits_for_lanes);
}

void refuse_lane(const Exchange& e, int lane) {
  report(Error::launch_failed, "%s, or a lane of its warp: %s reads lane %d, which takes no part",
         where(*executor->running).c_str(), name_of(e.kind), lane);
  abandon();
}

void barrier() {
  Executor& x = *executor;
  if (++x.waiting == x.count) {
    x.waiting = 0;
    for (int n = 0; n < x.count; n++)
      if (x.threads[n].state == State::waits_for_block) x.threads[n].state = State::ready;
    return;
  }
  rest(State::waits_for_block);
}

uint8_t* dynamic_shared() {
  return executor->dynamic;
}

uint8_t* shared_variable(size_t bytes, size_t alignment) {
  Executor& x = *executor;
  Thread& t = *x.running;
  t.variables += kZone + bytes;
  t.variables = (t.variables + alignment - 1) / alignment * alignment;
  if (t.variables > kVariables + 64 * kZone) {
    report(Error::launch_failed, "more than %zu bytes of variables in shared memory", kVariables);
    abandon();
  }
  uint8_t* const p = x.dynamic - t.variables;
  x.variables = std::min(x.variables, p);
  return p;
}

uint32_t shared_address(const void* p) {
  return uint32_t(static_cast<const uint8_t*>(p) - executor->arena) + kSharedAddress;
}
uint8_t* shared_pointer(uint32_t address) {
  return executor->arena + (address - kSharedAddress);
}

void copy_later(void* to, const void* from, int bytes, int zeros) {
  Thread& t = *executor->running;
  if (t.copies.empty()) t.copies.emplace_back();
  t.copies.back().push_back(Arrival{to, from, bytes, zeros});
}
void commit_copies() {
  Thread& t = *executor->running;
  if (t.copies.empty()) t.copies.emplace_back();
  t.copies.emplace_back();
}
// New device memory and shared memory hold the same poison. The chance that written data equals a
// whole word of it is one in 2^32.
bool is_written(const void* from, int bytes) {
  for (int i = 0; i + 4 <= bytes; i += 4) {
    uint32_t word;
    memcpy(&word, static_cast<const uint8_t*>(from) + i, 4);
    if (word == kPoison) return false;
  }
  return true;
}

void wait_copies(int pending) {
  Thread& t = *executor->running;
  // The last group is open, that is, not committed.
  const int ready = int(t.copies.size()) - 1 - pending;
  for (int i = 0; i < ready; i++)
    for (const Arrival& c : t.copies[i]) {
      if (!is_written(c.from, c.bytes))
        report(Error::launch_failed, "%s copies memory that was never written", where(t).c_str());
      memcpy(c.to, c.from, c.bytes);
      memset(static_cast<uint8_t*>(c.to) + c.bytes, 0, c.zeros);
    }
  if (ready > 0) t.copies.erase(t.copies.begin(), t.copies.begin() + ready);
}

// ---- running -----------------------------------------------------------------------------------

Error check(const Grid& g) {
  const Index &b = g.blocks, &t = g.threads;
  const bool blocks =
      b.x >= 1 && b.x <= 0x7fffffff && b.y >= 1 && b.y <= 65535 && b.z >= 1 && b.z <= 65535;
  const bool threads = t.x >= 1 && t.x <= 1024 && t.y >= 1 && t.y <= 1024 && t.z >= 1 &&
                       t.z <= 64 && t.x * t.y * t.z <= kMaxThreads;
  if (!blocks || !threads) return Error(9);  // cudaErrorInvalidConfiguration
  return g.shared <= size_t(properties().shared_per_block) ? Error::none : Error::invalid_value;
}

Error run(const Grid& grid) {
  const Access access;
  access.open_all();
  make_executor();
  use_signal_stack();
  Executor& x = *executor;
  x.grid = &grid;
  x.thread = pthread_self();
  x.failed = false;
  x.error = Error::none;
  const Index &b = grid.blocks, &t = grid.threads;
  x.count = int(t.x * t.y * t.z);
  if (int(x.order.size()) != x.count) x.order = turns(x.count);
  blockDim = dim3(t.x, t.y, t.z);
  gridDim = dim3(b.x, b.y, b.z);
  if (sigsetjmp(x.escape, 1) == 0) {
    for (unsigned z = 0; z < b.z && !x.failed; z++)
      for (unsigned y = 0; y < b.y && !x.failed; y++)
        for (unsigned i = 0; i < b.x && !x.failed; i++) {
          blockIdx = {i, y, z};
          run_block();
        }
  }
  x.running = nullptr;
  return x.error;
}

// ---- names -------------------------------------------------------------------------------------

std::string name_of(const void* function) {
  Dl_info info;
  void* map = nullptr;
  char fallback[32];
  snprintf(fallback, sizeof fallback, "kernel %p", function);
  if (!dladdr1(function, &info, &map, RTLD_DL_LINKMAP)) return fallback;
  // Kernels are local symbols, which are listed only in the file itself.
  std::ifstream file(info.dli_fname[0] ? info.dli_fname : "/proc/self/exe", std::ios::binary);
  const auto read = [&](size_t at, size_t bytes) {
    std::vector<char> data(bytes);
    file.seekg(std::streamoff(at));
    file.read(data.data(), std::streamsize(bytes));
    return data;
  };
  using Header = ElfW(Ehdr);
  using Section = ElfW(Shdr);
  using Symbol = ElfW(Sym);
  Header header;
  memcpy(&header, read(0, sizeof header).data(), sizeof header);
  if (!file) return fallback;
  std::vector<Section> sections(header.e_shnum);
  memcpy(sections.data(), read(header.e_shoff, sections.size() * sizeof(Section)).data(),
         sections.size() * sizeof(Section));
  const uintptr_t at = reinterpret_cast<uintptr_t>(function) - static_cast<link_map*>(map)->l_addr;
  for (const Section& s : sections) {
    if (!file || s.sh_type != SHT_SYMTAB) continue;
    const Section& strings = sections[s.sh_link];
    const std::vector<char> names = read(strings.sh_offset, strings.sh_size);
    const std::vector<char> symbols = read(s.sh_offset, s.sh_size);
    for (size_t i = 0; i < symbols.size() / sizeof(Symbol); i++) {
      Symbol symbol;
      memcpy(&symbol, symbols.data() + i * sizeof symbol, sizeof symbol);
      if (symbol.st_value != at || symbol.st_name >= names.size()) continue;
      const char* name = names.data() + symbol.st_name;
      int status = 0;
      const std::unique_ptr<char, void (*)(void*)> demangled(
          abi::__cxa_demangle(name, nullptr, nullptr, &status), free);
      return status == 0 ? demangled.get() : name;
    }
  }
  return fallback;
}

}  // namespace vf::emulation
