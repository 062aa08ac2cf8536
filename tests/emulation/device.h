// Emulates a device: memory, streams, events and errors. The CUDA runtime's calls (runtime.cpp) and
// the driver's (driver.cpp) share its state, as on a real machine.
//
// Every API call holds the device's lock (Lock) and starts with fault(), which returns the error
// that the call must return instead of doing its work:
//
//   cudaError_t cudaThing(...) {
//     Lock lock;
//     if (Error e = fault("cudaThing"); e != Error::none) return result(e);
//     ...
//   }
//
// Work on a stream is lazy: it runs when something waits for it, so that a missing synchronisation
// shows. VF_EMULATION_EAGER=1 runs it at once.
//
// Environment:
//   VF_EMULATION_DEVICE    Properties that differ from an sm_90, for example
//                          capability=75,processors=6,shared=65536,memory=1048576,devices=0,
//                          driver=11040 (shared: bytes per block)
//   VF_EMULATION_FAULTS    The calls that fail. cudaMalloc:3=2,cuStreamSynchronize:1=700! lets the
//                          third cudaMalloc return error 2, and the first cuStreamSynchronize
//                          error 700. "!": afterwards every call in that context fails.
//                          "+": every later call of that name fails
//   VF_EMULATION_EAGER     1: streams run their work at once
//   VF_EMULATION_ORDER     The order in which the threads of a block take turns: backward, or a
//                          number that seeds a shuffle
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/emulation/lock.h"

namespace vf::emulation {

// The values are those on which cudaError_t and CUresult agree.
enum class Error : int {
  none = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  insufficient_driver = 35,
  no_device = 100,
  invalid_device = 101,
  invalid_context = 201,
  invalid_handle = 400,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  context_is_destroyed = 709,
  misaligned_address = 716,
  launch_failed = 719,
  not_permitted = 800,
  not_supported = 801,
  capture_invalidated = 901,
  unknown = 999,
};

struct Properties {
  int capability = 90;
  int devices = 1;
  int driver = 13000;  // if it is older than the runtime, the runtime's calls fail
  int processors = 132;
  int shared_per_block = 232448;  // limit with opt-in
  int shared_per_processor = 233472;
  int threads_per_processor = 2048;
  int blocks_per_processor = 32;
  int cache = 262144;  // bytes of L2 cache, small enough that some test frames do not fit
  size_t memory = size_t{8} << 30;
};
const Properties& properties();

// ---- errors ------------------------------------------------------------------------------------

// Returns the error that the call of that name must return: one set by inject(), the current
// context's sticky error, or none. injected() is for calls that need no context and ignores the
// sticky error.
Error fault(const char* call);
Error injected(const char* call);

// Says what happens after the call that fails.
enum class Then {
  once,          // later calls work again
  again,         // every later call of that name fails too
  context_lost,  // every call in the current context fails, as after a fault in a kernel
  device_lost,   // every call in every context fails, and no context can be made
};

// Lets the `nth` call of that name from now (1: the next) fail with `error`. The name "*" stands
// for all calls except those that free something, which never fail on their own. "work" stands for
// the work that streams run.
void inject(const char* call, int nth, Error error, Then then = Then::once);
// Removes all faults, even those that have not occurred. A lost device works again, but its
// contexts stay lost. Returns the name of the first call that failed since the previous forgive(),
// or an empty string.
std::string forgive();

// Makes `error` the sticky error of the context. If `why` is not null, prints it on stderr.
struct Context;
void lose(Context* context, Error error, const char* why);

// ---- contexts ----------------------------------------------------------------------------------

// Memory, streams and events belong to a context. current() returns the calling thread's context,
// or else the primary one, which is made on first use.
Context* current();
Context* primary();
void set_current(Context* context);  // with null, current() is the primary context
bool has_current();
Context* make_context(int device = 0);
int device_of(const Context* context);
// Frees the context and all that belongs to it, and drops pending work. Returns false if `context`
// is not one.
bool destroy(Context* context);
bool is_context(const Context* context);
Error sticky(const Context* context);

// Counts the objects that exist.
struct Live {
  int contexts, streams, events, device_blocks, pinned_blocks;
};
Live live();
// Counts the streams, events and blocks that were not freed before their context was destroyed.
// Lost contexts do not count.
int abandoned();

// ---- memory ------------------------------------------------------------------------------------

enum class Kind { device, pinned };

struct Block {
  uint8_t* data;
  size_t size;
  Kind kind;
  Context* context;
  bool open;  // whether memory of the device can be touched now
};

// Allocates memory of the current context, aligned to 256 bytes and filled with values that are
// neither small numbers nor finite floats. Accesses to the pages before and behind it fault, and
// the bytes up to the next page are checked when it is freed. Only kernels and copies may touch
// device memory; accesses by the host fault.
Error allocate(Kind kind, size_t bytes, void** out);
// Waits for all work and frees the memory. Later accesses to it always fault.
Error release(Kind kind, void* data);
// Returns the live block that contains the address, or null.
const Block* block_of(const void* p);
// Returns the bytes of live device memory in all contexts.
size_t allocated();
// Describes a device address for messages, as " (...)". Returns an empty string if nothing is known
// about it.
std::string describe(const void* p);

// ---- streams -----------------------------------------------------------------------------------

class Stream;
class Event;
using Work = std::function<Error()>;

// A blocking stream takes turns with the default stream (null) in the order of the calls.
Stream* make_stream(bool blocking);
bool is_stream(const Stream* stream);  // true for null
bool is_blocking(const Stream* stream);
Context* context_of(const Stream* stream);
Error destroy(Stream* stream);

// If the work fails, its error becomes the context's sticky error, and later work is dropped.
Error enqueue(Stream* stream, Work work);
Error synchronize(Stream* stream);
Error synchronize_all();
// Returns not_ready if work is left. Each call runs one piece of it, so that polling ends.
Error query(Stream* stream);

Event* make_event(bool timing);
bool is_event(const Event* event);
Error destroy(Event* event);
Error record(Event* event, Stream* stream);
Error wait(Stream* stream, Event* event);
Error synchronize(Event* event);
Error query(Event* event);
Error elapsed(float* milliseconds, Event* start, Event* stop);

// While a stream is captured, its work goes into a graph instead.
class Graph;
Error begin_capture(Stream* stream);
Error end_capture(Stream* stream, Graph** out);
bool is_capturing(const Stream* stream);
Error launch(Graph* graph, Stream* stream);
Graph* clone(const Graph* graph);
void destroy(Graph* graph);

// ---- copies ------------------------------------------------------------------------------------

struct Copy {
  void* dst;
  size_t dst_pitch;
  const void* src;
  size_t src_pitch;
  size_t width, height;  // in bytes and rows
};

// Both addresses must be in host memory or inside one block. For pageable host memory the call
// reads before it returns, and waits if it writes. Pinned memory is accessed when the stream gets
// there.
Error copy(Stream* stream, const Copy& copy);
// Copies and waits.
Error copy_now(Stream* stream, const Copy& copy);
// Fills rows with a value of 1, 2 or 4 bytes. `width` counts values.
Error fill(Stream* stream, void* dst, size_t pitch, uint32_t value, int value_size, size_t width,
           size_t height);

}  // namespace vf::emulation
