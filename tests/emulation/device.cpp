#include "tests/emulation/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulation/grid.h"

namespace vf::emulation {

// ---- what there is -----------------------------------------------------------------------------

struct Context {
  int device = 0;
  Error sticky = Error::none;
  std::unique_ptr<Stream> default_stream;
};

class Graph {
 public:
  std::vector<Work> work;
};

class Stream {
 public:
  struct Op {
    uint64_t sequence;
    Work work;
  };
  Stream(Context* c, bool b) : context(c), blocking(b) {}
  Context* context;
  bool blocking;
  std::deque<Op> ops;
  std::unique_ptr<Graph> capture;
};

class Event {
 public:
  Context* context;
  bool timing;
  // stream of the last record; null if there was none or the stream is gone
  Stream* stream = nullptr;
  uint64_t sequence = 0;
  bool done = true;
  std::chrono::steady_clock::time_point time;
};

namespace {

struct Rule {
  std::string call;
  int remaining;
  Error error;
  Then then;
};

// Is a range of addresses that are never handed out twice, so that accesses to freed memory fault.
struct Region {
  uint8_t* begin = nullptr;
  uint8_t* next = nullptr;
  uint8_t* end = nullptr;
  bool holds(const void* p) const { return p >= begin && p < end; }
};

struct State {
  std::recursive_mutex mutex;
  Properties properties;
  bool eager = false;
  std::vector<Rule> rules;
  Error device_error = Error::none;
  std::string failed;  // the first call that failed
  int abandoned = 0;
  Region region[2];  // indexed by Kind
  std::map<const uint8_t*, Block> blocks;
  size_t device_bytes = 0;
  int accesses = 0;  // number of live Access objects
  std::set<Context*> contexts;
  Context* primary = nullptr;
  std::map<const Stream*, std::unique_ptr<Stream>> streams;
  std::map<const Event*, std::unique_ptr<Event>> events;
  uint64_t sequence = 0;
};

thread_local Context* current_context = nullptr;

const std::string kWork = "work";

[[noreturn]] void give_up(const char* what) {
  fprintf(stderr, "CUDA emulation: %s\n", what);
  abort();
}

long number(const std::string& text) {
  char* end = nullptr;
  const long v = strtol(text.c_str(), &end, 0);
  if (text.empty() || *end) give_up(("not a number: " + text).c_str());
  return v;
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(by, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Sets the limits that CUDA's documentation gives for devices of that compute capability.
void set_capability(Properties* p, int capability) {
  p->capability = capability;
  const bool small = capability == 86 || capability == 89 || capability == 120;
  p->processors = capability == 75 ? 40 : capability == 80 ? 108 : small ? 84 : 132;
  p->shared_per_block = capability == 75   ? 65536
                        : capability == 80 ? 166912
                        : small            ? 101376
                                           : 232448;
  p->shared_per_processor = capability == 75 ? 65536 : p->shared_per_block + 1024;
  p->threads_per_processor = capability == 75 ? 1024 : small ? 1536 : 2048;
  p->blocks_per_processor = capability == 75 || capability == 86 ? 16 : small ? 24 : 32;
}

Properties read_properties(const char* text) {
  Properties p;
  for (const std::string& part : split(text ? text : "", ',')) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const long v = equals == std::string::npos ? 0 : number(part.substr(equals + 1));
    if (key == "capability")
      set_capability(&p, int(v));
    else if (key == "processors")
      p.processors = int(v);
    else if (key == "devices")
      p.devices = int(v);
    else if (key == "driver")
      p.driver = int(v);
    else if (key == "memory")
      p.memory = size_t(v);
    else if (key == "shared")
      p.shared_per_block = int(v);
    else
      give_up(("VF_EMULATION_DEVICE has no " + key).c_str());
  }
  return p;
}

std::vector<Rule> read_rules(const char* text) {
  std::vector<Rule> rules;
  for (std::string part : split(text ? text : "", ',')) {
    const size_t colon = part.find(':'), equals = part.find('=');
    if (colon == std::string::npos || equals == std::string::npos || equals < colon)
      give_up(("VF_EMULATION_FAULTS: not CALL:N=ERROR: " + part).c_str());
    const Then then = part.back() == '!'   ? Then::context_lost
                      : part.back() == '+' ? Then::again
                                           : Then::once;
    if (then != Then::once) part.pop_back();
    rules.push_back({part.substr(0, colon), int(number(part.substr(colon + 1, equals - colon - 1))),
                     Error(number(part.substr(equals + 1))), then});
  }
  return rules;
}

State* make_state() {
  auto* s = new State;  // never freed, because destructors may make calls until the process ends
  s->properties = read_properties(getenv("VF_EMULATION_DEVICE"));
  s->rules = read_rules(getenv("VF_EMULATION_FAULTS"));
  const char* eager = getenv("VF_EMULATION_EAGER");
  s->eager = eager && *eager && *eager != '0';
  return s;
}

State& state() {
  static State* s = make_state();
  return *s;
}

// ---- memory ------------------------------------------------------------------------------------

const size_t kPage = size_t(sysconf(_SC_PAGESIZE));
constexpr size_t kAlignment = 256;

size_t pages_of(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// These bytes are a NaN as float and as double, and a large number as integer.
constexpr uint8_t kPoison[4] = {0xa7, 0xc3, 0xf5, 0xff};
uint8_t poison_at(const uint8_t* p) {
  return kPoison[reinterpret_cast<uintptr_t>(p) % 4];
}

// Maps pages of poison. They are private copies of a file's, so each takes memory and time only once
// it is touched.
bool map_poison(uint8_t* page, size_t bytes) {
  constexpr size_t size = 1 << 20;
  static const int file = [] {
    uint32_t word;
    memcpy(&word, kPoison, sizeof word);
    const std::vector<uint32_t> poison(size / sizeof word, word);
    const int f = memfd_create("poison", MFD_CLOEXEC);
    if (write(f, poison.data(), size) != ssize_t(size)) give_up("no file for poison");
    return f;
  }();
  for (size_t at = 0; at < bytes; at += size)
    if (mmap(page + at, std::min(size, bytes - at), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
             file, 0) == MAP_FAILED)
      return false;
  return true;
}

// Returns the first page of a block.
uint8_t* first_page(const Block& b) {
  return b.data - reinterpret_cast<uintptr_t>(b.data) % kPage;
}
size_t page_bytes(const Block& b) {
  return pages_of(size_t(b.data + b.size - first_page(b)));
}

bool reserve(Region* r) {
  if (r->begin) return true;
  for (size_t size = size_t{1} << 38; size >= size_t{1} << 30; size /= 2) {
    void* p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) continue;
    r->begin = r->next = static_cast<uint8_t*>(p);
    r->end = r->begin + size;
    return true;
  }
  return false;
}

void free_block(const Block& b) {
  State& s = state();
  uint8_t* const page = first_page(b);
  const size_t bytes = page_bytes(b);
  mprotect(page, bytes, PROT_READ | PROT_WRITE);
  for (const uint8_t* p = page; p < page + bytes; p++) {
    if (p == b.data) p += b.size;
    if (p == page + bytes || *p == poison_at(p)) continue;
    fprintf(stderr,
            "CUDA emulation: byte %td of a block of %zu bytes was overwritten with 0x%02x\n",
            p - b.data, b.size, *p);
    lose(b.context, Error::illegal_address, "a write beside a block of memory");
    break;
  }
  // The pages get a new mapping so that neighbouring freed blocks merge into one mapping.
  mmap(page, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (b.kind == Kind::device) s.device_bytes -= b.size;
  s.blocks.erase(b.data);
}

void protect(Block& b, bool open) {
  if (b.kind != Kind::device || b.open == open) return;
  mprotect(first_page(b), page_bytes(b), open ? PROT_READ | PROT_WRITE : PROT_NONE);
  b.open = open;
}

// ---- streams -----------------------------------------------------------------------------------

Stream* real(Stream* stream) {
  return stream ? stream : current()->default_stream.get();
}

void run_until(Stream* stream, uint64_t sequence);

// Runs the oldest work of the stream, and first the work that it waits for.
void run_one(Stream* stream) {
  const uint64_t sequence = stream->ops.front().sequence;
  Stream* const default_stream = stream->context->default_stream.get();
  if (stream == default_stream) {
    for (auto& [key, other] : state().streams)
      if (other->context == stream->context && other->blocking) run_until(other.get(), sequence);
  } else if (stream->blocking) {
    run_until(default_stream, sequence);
  }
  if (stream->ops.empty() || stream->ops.front().sequence != sequence) return;
  const Work work = std::move(stream->ops.front().work);
  stream->ops.pop_front();
  if (stream->context->sticky != Error::none) return;
  const Access access;
  const Error asked = injected(kWork.c_str());
  if (const Error e = asked == Error::none ? work() : asked;
      e != Error::none && stream->context->sticky == Error::none)
    stream->context->sticky = e;  // the caller who found the error has reported it
}

void run_until(Stream* stream, uint64_t sequence) {
  const Access access;
  while (!stream->ops.empty() && stream->ops.front().sequence <= sequence) run_one(stream);
}

// Enqueues work on a stream that is not null.
void push(Stream* stream, Work work) {
  if (stream->capture) {
    stream->capture->work.push_back(std::move(work));
    return;
  }
  stream->ops.push_back({++state().sequence, std::move(work)});
  if (state().eager) run_until(stream, UINT64_MAX);
}

void run_all(Context* context) {
  run_until(context->default_stream.get(), UINT64_MAX);
  for (auto& [key, stream] : state().streams)
    if (stream->context == context) run_until(stream.get(), UINT64_MAX);
}

}  // namespace

static thread_local int locks = 0;

Lock::Lock() {
  locks++;
  state().mutex.lock();
}
Lock::~Lock() {
  state().mutex.unlock();
  locks--;
}
bool locked() {
  return locks > 0;
}

const Properties& properties() {
  return state().properties;
}

// ---- errors ------------------------------------------------------------------------------------

static bool gives_back(const std::string& call) {
  for (const char* part : {"Free", "Destroy", "Pop"})
    if (call.find(part) != std::string::npos) return true;
  return false;
}

Error injected(const char* call) {
  State& s = state();
  for (Rule& r : s.rules) {
    const bool named = r.call == "*" ? !gives_back(call) && call != kWork : r.call == call;
    if (!named || r.remaining <= 0) continue;
    if (r.remaining > 1) {
      r.remaining--;
      continue;
    }
    if (r.then != Then::again) r.remaining = 0;
    if (r.then == Then::context_lost && current_context) lose(current_context, r.error, nullptr);
    if (r.then == Then::device_lost) {
      s.device_error = r.error;
      for (Context* c : s.contexts) lose(c, r.error, nullptr);
    }
    if (s.failed.empty()) s.failed = call;
    return r.error;
  }
  return gives_back(call) ? Error::none : s.device_error;
}

Error fault(const char* call) {
  if (const Error e = injected(call); e != Error::none) return e;
  if (current_context)
    return is_context(current_context) ? current_context->sticky : Error::context_is_destroyed;
  return state().primary ? state().primary->sticky : Error::none;
}

void inject(const char* call, int nth, Error error, Then then) {
  const Lock lock;
  state().rules.push_back({call, nth, error, then});
}

std::string forgive() {
  const Lock lock;
  State& s = state();
  s.rules.clear();
  s.device_error = Error::none;
  return std::exchange(s.failed, {});
}

void lose(Context* context, Error error, const char* why) {
  if (why) fprintf(stderr, "CUDA emulation: error %d: %s\n", int(error), why);
  if (context->sticky == Error::none) context->sticky = error;
}

// ---- contexts ----------------------------------------------------------------------------------

Context* make_context(int device) {
  auto* c = new Context;
  c->device = device;
  c->default_stream = std::make_unique<Stream>(c, true);
  state().contexts.insert(c);
  return c;
}

Context* primary() {
  if (!state().primary) state().primary = make_context();
  return state().primary;
}

Context* current() {
  return current_context ? current_context : primary();
}
void set_current(Context* context) {
  current_context = context;
}
int device_of(const Context* context) {
  return context->device;
}
bool has_current() {
  return current_context != nullptr;
}
bool is_context(const Context* c) {
  return state().contexts.count(const_cast<Context*>(c)) != 0;
}
Error sticky(const Context* context) {
  return context->sticky;
}

Live live() {
  const Lock lock;
  const State& s = state();
  Live l = {int(s.contexts.size()), int(s.streams.size()), int(s.events.size()), 0, 0};
  for (const auto& [data, b] : s.blocks)
    (b.kind == Kind::device ? l.device_blocks : l.pinned_blocks)++;
  return l;
}

int abandoned() {
  const Lock lock;
  return state().abandoned;
}

bool destroy(Context* context) {
  State& s = state();
  if (!s.contexts.erase(context)) return false;
  int left = 0;
  const auto erase_of = [&](auto& all) {
    for (auto i = all.begin(); i != all.end();) {
      const bool belongs = i->second->context == context;
      left += belongs;
      i = belongs ? all.erase(i) : std::next(i);
    }
  };
  erase_of(s.events);
  erase_of(s.streams);
  std::vector<Block> blocks;
  for (const auto& [data, b] : s.blocks)
    if (b.context == context) blocks.push_back(b);
  for (const Block& b : blocks) free_block(b);
  if (context->sticky == Error::none) s.abandoned += left + int(blocks.size());
  if (s.primary == context) s.primary = nullptr;
  if (current_context == context) current_context = nullptr;
  delete context;
  return true;
}

// ---- memory ------------------------------------------------------------------------------------

Access::Access() {
  state().accesses++;
}
Access::~Access() {
  if (--state().accesses == 0)
    for (auto& [data, b] : state().blocks) protect(b, false);
}
void Access::open_all() const {
  for (auto& [data, b] : state().blocks) protect(b, true);
}
void Access::open(const void* p) const {
  if (const Block* b = block_of(p)) protect(state().blocks[b->data], true);
}

Error allocate(Kind kind, size_t bytes, void** out) {
  State& s = state();
  *out = nullptr;
  if (!bytes) return Error::none;
  Region& r = s.region[int(kind)];
  if (!reserve(&r)) return Error::out_of_memory;
  const size_t pages = pages_of(bytes);
  if (pages < bytes || pages + 2 * kPage > size_t(r.end - r.next)) return Error::out_of_memory;
  if (kind == Kind::device && bytes > s.properties.memory - s.device_bytes)
    return Error::out_of_memory;
  uint8_t* const page = r.next + kPage;
  if (!map_poison(page, pages)) return Error::out_of_memory;
  r.next = page + pages;  // the first page there is the guard of this block and of the next
  uint8_t* const data = page + (pages - bytes) / kAlignment * kAlignment;
  Block& b = s.blocks[data] = {data, bytes, kind, current(), true};
  if (kind == Kind::device) {
    s.device_bytes += bytes;
    protect(b, false);
  }
  *out = data;
  return Error::none;
}

Error release(Kind kind, void* data) {
  if (!data) return Error::none;
  const Block* b = block_of(data);
  if (!b || b->data != data || b->kind != kind) return Error::invalid_value;
  const Block block = *b;
  run_all(block.context);
  free_block(block);
  return sticky(block.context);
}

const Block* block_of(const void* p) {
  const auto& blocks = state().blocks;
  auto after = blocks.upper_bound(static_cast<const uint8_t*>(p));
  if (after == blocks.begin()) return nullptr;
  const Block& b = std::prev(after)->second;
  return p < b.data + b.size ? &b : nullptr;
}

size_t allocated() {
  return state().device_bytes;
}

std::string describe(const void* p) {
  const State& s = state();
  const auto* at = static_cast<const uint8_t*>(p);
  if (!s.region[0].holds(p) && !s.region[1].holds(p)) return {};
  char text[128];
  const auto after = s.blocks.upper_bound(at);
  if (after != s.blocks.begin()) {
    const Block& b = std::prev(after)->second;
    if (at < first_page(b) + page_bytes(b) + kPage) {
      snprintf(text, sizeof text, " (byte %td of a block of %zu bytes)", at - b.data, b.size);
      return text;
    }
  }
  if (after != s.blocks.end() && at >= after->second.data - 2 * kPage) {
    snprintf(text, sizeof text, " (%td bytes before a block of %zu bytes)", after->second.data - at,
             after->second.size);
    return text;
  }
  return " (freed memory)";
}

// ---- streams -----------------------------------------------------------------------------------

Stream* make_stream(bool blocking) {
  auto stream = std::make_unique<Stream>(current(), blocking);
  Stream* const key = stream.get();
  state().streams[key] = std::move(stream);
  return key;
}

bool is_stream(const Stream* stream) {
  return !stream || state().streams.count(stream);
}
bool is_blocking(const Stream* stream) {
  return !stream || stream->blocking;
}
Context* context_of(const Stream* stream) {
  return stream ? stream->context : current();
}

Error destroy(Stream* stream) {
  if (!stream || !is_stream(stream)) return Error::invalid_handle;
  run_until(stream, UINT64_MAX);
  for (auto& [key, event] : state().events)
    if (event->stream == stream) event->stream = nullptr;
  state().streams.erase(stream);
  return Error::none;
}

Error enqueue(Stream* stream, Work work) {
  if (!is_stream(stream)) return Error::invalid_handle;
  push(real(stream), std::move(work));
  return Error::none;  // errors of the work show in a later call, as on a device
}

Error synchronize(Stream* stream) {
  if (!is_stream(stream)) return Error::invalid_handle;
  stream = real(stream);
  if (stream->capture) return Error::not_permitted;
  // The default stream's last work is done when the streams that it takes turns with are done.
  if (stream == stream->context->default_stream.get())
    for (auto& [key, other] : state().streams)
      if (other->context == stream->context && other->blocking) run_until(other.get(), UINT64_MAX);
  run_until(stream, UINT64_MAX);
  return stream->context->sticky;
}

Error synchronize_all() {
  run_all(current());
  return current()->sticky;
}

Error query(Stream* stream) {
  if (!is_stream(stream)) return Error::invalid_handle;
  stream = real(stream);
  if (!stream->ops.empty()) run_one(stream);
  if (stream->context->sticky != Error::none) return stream->context->sticky;
  return stream->ops.empty() ? Error::none : Error::not_ready;
}

Event* make_event(bool timing) {
  auto event = std::make_unique<Event>();
  event->context = current();
  event->timing = timing;
  Event* const key = event.get();
  state().events[key] = std::move(event);
  return key;
}

bool is_event(const Event* event) {
  return state().events.count(event) != 0;
}

Error destroy(Event* event) {
  return state().events.erase(event) ? Error::none : Error::invalid_handle;
}

Error record(Event* event, Stream* stream) {
  if (!is_event(event) || !is_stream(stream)) return Error::invalid_handle;
  stream = real(stream);
  if (stream->capture) return Error::none;  // the graph keeps the order anyway
  event->stream = stream;
  event->done = false;
  event->sequence = state().sequence + 1;
  push(stream, [event, sequence = event->sequence] {
    if (!is_event(event) || event->sequence != sequence) return Error::none;
    event->done = true;
    event->time = std::chrono::steady_clock::now();
    return Error::none;
  });
  return Error::none;
}

Error wait(Stream* stream, Event* event) {
  if (!is_event(event) || !is_stream(stream)) return Error::invalid_handle;
  if (!event->stream || event->done) return Error::none;
  return enqueue(stream, [from = event->stream, sequence = event->sequence] {
    // The default stream of a context is not listed among the streams.
    const bool alive = state().streams.count(from) != 0 ||
                       (is_context(from->context) && from == from->context->default_stream.get());
    if (alive) run_until(from, sequence);
    return Error::none;
  });
}

Error synchronize(Event* event) {
  if (!is_event(event)) return Error::invalid_handle;
  if (!event->done && event->stream) run_until(event->stream, event->sequence);
  return event->context->sticky;
}

Error query(Event* event) {
  if (!is_event(event)) return Error::invalid_handle;
  if (!event->done && event->stream && !event->stream->ops.empty()) run_one(event->stream);
  if (event->context->sticky != Error::none) return event->context->sticky;
  return event->done ? Error::none : Error::not_ready;
}

Error elapsed(float* milliseconds, Event* start, Event* stop) {
  if (!is_event(start) || !is_event(stop) || !start->timing || !stop->timing)
    return Error::invalid_handle;
  if (!start->sequence || !stop->sequence) return Error::invalid_handle;
  if (!start->done || !stop->done) return Error::not_ready;
  *milliseconds = std::chrono::duration<float, std::milli>(stop->time - start->time).count();
  return Error::none;
}

Error begin_capture(Stream* stream) {
  if (!stream || !is_stream(stream)) return Error::invalid_handle;
  if (stream->capture) return Error::not_permitted;
  stream->capture = std::make_unique<Graph>();
  return Error::none;
}

Error end_capture(Stream* stream, Graph** out) {
  if (!stream || !is_stream(stream)) return Error::invalid_handle;
  if (!stream->capture) return Error::capture_invalidated;
  *out = stream->capture.release();
  return Error::none;
}

bool is_capturing(const Stream* stream) {
  return stream && stream->capture;
}

Error launch(Graph* graph, Stream* stream) {
  if (!is_stream(stream)) return Error::invalid_handle;
  for (const Work& work : graph->work)
    if (const Error e = enqueue(stream, work); e != Error::none) return e;
  return Error::none;
}

Graph* clone(const Graph* graph) {
  return new Graph(*graph);
}
void destroy(Graph* graph) {
  delete graph;
}

// ---- copies ------------------------------------------------------------------------------------

namespace {

// Returns whether the rows lie in one block, or in ordinary host memory.
bool lies_well(const void* p, size_t pitch, size_t width, size_t height) {
  const State& s = state();
  const auto* begin = static_cast<const uint8_t*>(p);
  if (!p || (height > 1 && pitch < width)) return false;
  if (!s.region[0].holds(p) && !s.region[1].holds(p)) return true;
  const Block* b = block_of(p);
  return b && (height - 1) * pitch + width <= size_t(b->data + b->size - begin);
}

void copy_rows(const Copy& c) {
  const Access access;
  access.open(c.dst);
  access.open(c.src);
  for (size_t y = 0; y < c.height; y++)
    memmove(static_cast<uint8_t*>(c.dst) + y * c.dst_pitch,
            static_cast<const uint8_t*>(c.src) + y * c.src_pitch, c.width);
}

}  // namespace

Error copy(Stream* stream, const Copy& c) {
  if (!is_stream(stream)) return Error::invalid_handle;
  if (!c.width || !c.height) return Error::none;
  if (!lies_well(c.dst, c.dst_pitch, c.width, c.height) ||
      !lies_well(c.src, c.src_pitch, c.width, c.height))
    return Error::invalid_value;
  const bool from_pageable = !block_of(c.src), to_pageable = !block_of(c.dst);
  if (from_pageable && !to_pageable) {
    auto staged = std::make_shared<std::vector<uint8_t>>(c.width * c.height);
    copy_rows({staged->data(), c.width, c.src, c.src_pitch, c.width, c.height});
    return enqueue(stream, [c, staged] {
      copy_rows({c.dst, c.dst_pitch, staged->data(), c.width, c.width, c.height});
      return Error::none;
    });
  }
  const Error e = enqueue(stream, [c] {
    copy_rows(c);
    return Error::none;
  });
  if (e != Error::none || !to_pageable || is_capturing(stream)) return e;
  return synchronize(stream);
}

Error copy_now(Stream* stream, const Copy& c) {
  const Error e = copy(stream, c);
  return e == Error::none ? synchronize(stream) : e;
}

Error fill(Stream* stream, void* dst, size_t pitch, uint32_t value, int value_size, size_t width,
           size_t height) {
  if (!is_stream(stream)) return Error::invalid_handle;
  if (!width || !height) return Error::none;
  if (!lies_well(dst, pitch, width * value_size, height) || !block_of(dst))
    return Error::invalid_value;
  return enqueue(stream, [=] {
    const Access access;
    access.open(dst);
    for (size_t y = 0; y < height; y++)
      for (size_t x = 0; x < width; x++)
        memcpy(static_cast<uint8_t*>(dst) + y * pitch + x * value_size, &value, value_size);
    return Error::none;
  });
}

}  // namespace vf::emulation
