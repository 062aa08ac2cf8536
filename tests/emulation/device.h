// The emulated device: memory, streams, events and errors, on which the CUDA runtime (runtime.cpp)
// and driver calls are built. One state for both, as on a real machine.
//
// Every call of an API holds the device's lock (Lock) and starts with fault(), which says what the
// call must return instead of doing its work. A call looks like this:
//
//   cudaError_t cudaThing(...) {
//     Lock lock;
//     if (Error e = fault("cudaThing"); e != Error::none) return result(e);
//     ...
//   }
//
// Work is lazy: what is enqueued on a stream runs when something waits for it, so that a missing
// synchronisation shows. VF_EMULATION_EAGER=1 runs it at once.
//
// Environment:
//   VF_EMULATION_DEVICE    capability=75,processors=6,shared=65536,memory=1048576,devices=0,
//                          driver=11040: what differs from an sm_90 (shared: bytes per block)
//   VF_EMULATION_FAULTS    cudaMalloc:3=2,cuStreamSynchronize:1=700!: the third cudaMalloc from the
//                          start fails with error 2; "!": and from then on everything in that
//                          context does; "+": every later one too
//   VF_EMULATION_EAGER     1: streams run at once
//   VF_EMULATION_ORDER     backward, or a number that seeds a shuffle: in which order the threads
//   of a
//                          block take turns
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/emulation/lock.h"

namespace vf::emulation {

// The numbers of cudaError_t and CUresult, where those two agree.
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
  int driver = 13000;  // older than the runtime's: the runtime's calls fail
  int processors = 132;
  int shared_per_block = 232448;  // with opt-in
  int shared_per_processor = 233472;
  int threads_per_processor = 2048;
  int blocks_per_processor = 32;
  int cache = 262144;  // L2; small, so that the tests' frames lie on both sides of it
  size_t memory = size_t{8} << 30;
};
const Properties& properties();

// ---- errors ------------------------------------------------------------------------------------

// What the call of that name has to return: an error asked for by inject(), the current context's
// sticky error, or none. injected(), for calls that need no context, leaves out the latter.
Error fault(const char* call);
Error injected(const char* call);

// What comes after the call that fails.
enum class Then {
  once,          // nothing
  again,         // every later call of that name fails too
  context_lost,  // as after a fault in a kernel: everything in the current context fails
  device_lost,   // everything fails in all contexts, and none can be made
};

// The `nth` call of that name from now (1: the next) fails with `error`. Of the name "*" are all
// calls but those that give something back, which never fail on their own. "work" is what a stream
// runs.
void inject(const char* call, int nth, Error error, Then then = Then::once);
// Forgets all faults, those that did not come to pass too; a lost device is back, what its contexts
// held is not. Says which call failed first since the last time, or is empty.
std::string forgive();

// Makes `error` the sticky error of the context and says why, if that is not null, on stderr.
struct Context;
void lose(Context* context, Error error, const char* why);

// ---- contexts ----------------------------------------------------------------------------------

// Memory, streams and events belong to a context. current() is the calling thread's, or the primary
// one, which is made when it is first needed.
Context* current();
Context* primary();
void set_current(Context* context);  // null: none, so that current() is the primary one
bool has_current();
Context* make_context(int device = 0);
int device_of(const Context* context);
// Frees all that belongs to it; pending work is dropped. False for what is no context.
bool destroy(Context* context);
bool is_context(const Context* context);
Error sticky(const Context* context);

// What there is.
struct Live {
  int contexts, streams, events, device_blocks, pinned_blocks;
};
Live live();
// Streams, events and blocks that were left to contexts that were destroyed without having been
// lost.
int abandoned();

// ---- memory ------------------------------------------------------------------------------------

enum class Kind { device, pinned };

struct Block {
  uint8_t* data;
  size_t size;
  Kind kind;
  Context* context;
};

// Memory of the current context, filled with what is neither a small number nor a finite float. It
// starts at a multiple of 256; pages that fault lie before and behind it, and what is between its
// end and the page's is checked when it is freed. Device memory can only be touched by kernels and
// copies: the host's own accesses fault.
Error allocate(Kind kind, size_t bytes, void** out);
// Waits for all work first. Freed memory faults for ever.
Error release(Kind kind, void* data);
// The live block that holds the address, or null.
const Block* block_of(const void* p);
// Bytes of live device memory of all contexts.
size_t allocated();
// What lies at an address of the device, for messages: " (...)", or nothing.
std::string describe(const void* p);

// ---- streams -----------------------------------------------------------------------------------

class Stream;
class Event;
using Work = std::function<Error()>;

// A blocking stream takes turns with the default stream (null) in the order of the calls.
Stream* make_stream(bool blocking);
bool is_stream(const Stream* stream);  // null is one
bool is_blocking(const Stream* stream);
Context* context_of(const Stream* stream);
Error destroy(Stream* stream);

// An error of the work is its context's sticky error; what follows is dropped.
Error enqueue(Stream* stream, Work work);
Error synchronize(Stream* stream);
Error synchronize_all();
// not_ready if there is work left. A call makes one piece of it run, so that polling ends.
Error query(Stream* stream);

Event* make_event(bool timing);
bool is_event(const Event* event);
Error destroy(Event* event);
Error record(Event* event, Stream* stream);
Error wait(Stream* stream, Event* event);
Error synchronize(Event* event);
Error query(Event* event);
Error elapsed(float* milliseconds, Event* start, Event* stop);

// Capture: work enqueued on the stream goes into a graph instead.
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
  size_t width, height;  // bytes, rows
};

// Every address is in host memory or inside one block. Pageable host memory is read before the call
// returns, or written: then it waits. Pinned memory is read or written when the stream gets there.
Error copy(Stream* stream, const Copy& copy);
// The same, and waits.
Error copy_now(Stream* stream, const Copy& copy);
// Fills rows with a value of 1, 2 or 4 bytes; width is in values.
Error fill(Stream* stream, void* dst, size_t pitch, uint32_t value, int value_size, size_t width,
           size_t height);

}  // namespace vf::emulation
