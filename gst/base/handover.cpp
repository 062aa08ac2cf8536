#include "gst/base/handover.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>

namespace gstvf {

using vf::Code;
using vf::Status;

// Points in time

Status Timeline::make(GstCudaContext* context, std::shared_ptr<Timeline>* out) {
  try {
    *out = std::make_shared<Timeline>(context);
    return {};
  } catch (const std::bad_alloc&) {
    return Status::error(Code::out_of_memory, "out of host memory");
  }
}

Timeline::Timeline(GstCudaContext* context)
    : context_(reinterpret_cast<GstCudaContext*>(gst_object_ref(context))) {}

Timeline::~Timeline() {
  {
    const CurrentContext current(context_);
    for (auto& event : event_) event.reset();
  }
  gst_object_unref(context_);
}

Status Timeline::mark(vf::Queue& queue, uint64_t* point) {
  const uint64_t next = last_ + 1;
  VF_TRY(wait(next - std::min<uint64_t>(next, kAhead)));
  VF_TRY(queue.record(&event_[next % kAhead]));
  *point = last_ = next;
  return {};
}

Status Timeline::wait(uint64_t point) {
  if (point <= reached_) return {};
  const CurrentContext current(context_);
  if (!current) return Status::error(Code::device_error, "the CUDA context cannot be used");
  VF_TRY(event_[point % kAhead]->wait());
  uint64_t reached = reached_;
  while (reached < point && !reached_.compare_exchange_weak(reached, point)) {
  }
  return {};
}

Status Timeline::precede(vf::Queue& queue, uint64_t point) const {
  return queue.wait_for(*event_[point % kAhead]);
}

// Memory

namespace {

struct Mark {
  std::shared_ptr<Timeline> timeline;
  uint64_t point = 0;
  Status wait() const { return timeline ? timeline->wait(point) : Status(); }
  bool is_past() const { return !timeline || timeline->has_reached(point); }
};

}  // namespace

// Only code that has the memory mapped adds users.
struct MemoryUsers {
  std::mutex mutex;
  Mark writer;
  Mark readers[4];  // at most one for each timeline

  // The memory is freed now.
  ~MemoryUsers() { static_cast<void>(wait(true)); }

  // Tells whether nobody uses the memory any more. Users count until somebody has waited for them.
  bool are_past() {
    std::lock_guard<std::mutex> lock(mutex);
    return writer.is_past() && std::all_of(std::begin(readers), std::end(readers),
                                           [](const Mark& mark) { return mark.is_past(); });
  }

  // Waits for the writer, or for the writer and all readers.
  Status wait(bool all) {
    Mark marks[1 + std::size(decltype(readers){})];
    {
      std::lock_guard<std::mutex> lock(mutex);
      marks[0] = writer;
      if (all) std::copy(std::begin(readers), std::end(readers), marks + 1);
    }
    for (const Mark& mark : marks) VF_TRY(mark.wait());
    return {};
  }
};

static GQuark users_quark() {
  static const GQuark quark = g_quark_from_static_string("gst-cuda-filters-users");
  return quark;
}

MemoryUsers* users_of(GstMemory* memory) {
  return memory ? static_cast<MemoryUsers*>(
                      gst_mini_object_get_qdata(GST_MINI_OBJECT(memory), users_quark()))
                : nullptr;
}

Status follow_users(MemoryUsers& users, bool write, const Timeline* timeline, vf::Queue& queue) {
  std::lock_guard<std::mutex> lock(users.mutex);
  // Work on the same queue runs in order anyway.
  const auto follow = [&](const Mark& mark) -> Status {
    return mark.timeline.get() == timeline || mark.is_past()
               ? Status()
               : mark.timeline->precede(queue, mark.point);
  };
  VF_TRY(follow(users.writer));
  if (!write) return {};
  for (const Mark& reader : users.readers) VF_TRY(follow(reader));
  return {};
}

Status add_reader(MemoryUsers& users, const std::shared_ptr<Timeline>& timeline, uint64_t point) {
  std::lock_guard<std::mutex> lock(users.mutex);
  Mark* const end = std::end(users.readers);
  Mark* place = std::find_if(users.readers, end, [&](const Mark& reader) {
    return reader.timeline == timeline || reader.is_past();
  });
  if (place == end) {
    place = users.readers;
    VF_TRY(place->wait());
  }
  *place = {timeline, point};
  return {};
}

void set_writer(MemoryUsers& users, const std::shared_ptr<Timeline>& timeline, uint64_t point) {
  std::lock_guard<std::mutex> lock(users.mutex);
  // The writer waits for all readers, so whoever waits for the writer need not know them.
  for (Mark& reader : users.readers) reader = {};
  users.writer = {timeline, point};
}

}  // namespace gstvf

#if VF_CUDA_HAND_OVER

// Derives from GStreamer's allocator. Its memory waits when it is mapped.

typedef struct _GstCudaFiltersAllocator {
  GstCudaAllocator parent;
  GstMemoryMapFunction map;
  GstMemoryCopyFunction copy;
} GstCudaFiltersAllocator;
using GstCudaFiltersAllocatorClass = GstCudaAllocatorClass;

static GType gst_cuda_filters_allocator_get_type(void);
G_DEFINE_TYPE(GstCudaFiltersAllocator, gst_cuda_filters_allocator, GST_TYPE_CUDA_ALLOCATOR)

static GstCudaFiltersAllocator* allocator_of(GstMemory* memory) {
  return reinterpret_cast<GstCudaFiltersAllocator*>(memory->allocator);
}

// Adds users to a memory (taken). Frees it and returns null if there is no host memory for them.
static GstMemory* with_users(GstMemory* memory) {
  if (!memory) return nullptr;
  auto* users = new (std::nothrow) gstvf::MemoryUsers;
  if (!users) {
    gst_memory_unref(memory);
    return nullptr;
  }
  gst_mini_object_set_qdata(GST_MINI_OBJECT(memory), gstvf::users_quark(), users,
                            [](gpointer data) { delete static_cast<gstvf::MemoryUsers*>(data); });
  return memory;
}

static gpointer gst_cuda_filters_allocator_map(GstMemory* memory, gsize size, GstMapFlags flags) {
  if (!(flags & gstvf::kMapFollowed)) {
    gstvf::MemoryUsers* users = gstvf::users_of(memory);
    // A memory that is being made or copied has no users yet.
    const vf::Status status = users ? users->wait(flags & GST_MAP_WRITE) : vf::Status();
    if (!status.ok()) {
      GST_ERROR_OBJECT(memory->allocator, "cannot map: %s", status.message());
      return nullptr;
    }
  }
  return allocator_of(memory)->map(memory, size, flags);
}

static GstMemory* gst_cuda_filters_allocator_copy(GstMemory* memory, gssize offset, gssize size) {
  GstMemory* copied = allocator_of(memory)->copy(memory, offset, size);
  if (!copied) return nullptr;
  // A copy within the GPU may end after the call that makes it, and no mark says when.
  const gstvf::CurrentContext current(gstvf::memory_context(memory));
  if (!current || CuStreamSynchronize(nullptr) != CUDA_SUCCESS) {
    gst_memory_unref(copied);
    return nullptr;
  }
  return with_users(copied);
}

static void gst_cuda_filters_allocator_init(GstCudaFiltersAllocator* self) {
  auto* allocator = GST_ALLOCATOR_CAST(self);
  self->map = allocator->mem_map;
  self->copy = allocator->mem_copy;
  allocator->mem_map = gst_cuda_filters_allocator_map;
  allocator->mem_copy = gst_cuda_filters_allocator_copy;
}

static void gst_cuda_filters_allocator_class_init(GstCudaFiltersAllocatorClass*) {}

// This pool derives from GStreamer's and has memory of that allocator.

typedef struct _GstCudaFiltersPool {
  GstCudaBufferPool parent;
  GstVideoInfo info;
  guint max;  // 0: no limit
  gint made;  // number of buffers; atomic
} GstCudaFiltersPool;
using GstCudaFiltersPoolClass = GstCudaBufferPoolClass;

static GType gst_cuda_filters_pool_get_type(void);
#define gst_cuda_filters_pool_parent_class pool_parent_class
G_DEFINE_TYPE(GstCudaFiltersPool, gst_cuda_filters_pool, GST_TYPE_CUDA_BUFFER_POOL)

namespace gstvf {
namespace {

GstAllocator* allocator() {
  static GstAllocator* const allocator = [] {
    auto* made =
        static_cast<GstAllocator*>(g_object_new(gst_cuda_filters_allocator_get_type(), nullptr));
    gst_object_ref_sink(made);
    GST_OBJECT_FLAG_SET(made, GST_OBJECT_FLAG_MAY_BE_LEAKED);
    return made;
  }();
  return allocator;
}

}  // namespace
}  // namespace gstvf

static gboolean set_config(GstBufferPool* pool, GstStructure* config) {
  auto* self = reinterpret_cast<GstCudaFiltersPool*>(pool);
  GstCaps* caps = nullptr;
  // The parent checks everything else and chooses the size.
  return gst_buffer_pool_config_get_params(config, &caps, nullptr, nullptr, &self->max) && caps &&
         gst_video_info_from_caps(&self->info, caps) &&
         GST_BUFFER_POOL_CLASS(pool_parent_class)->set_config(pool, config);
}

static GstFlowReturn alloc_buffer(GstBufferPool* pool, GstBuffer** buffer,
                                  GstBufferPoolAcquireParams*) {
  auto* self = reinterpret_cast<GstCudaFiltersPool*>(pool);
  GstMemory* memory = with_users(gst_cuda_allocator_alloc(GST_CUDA_ALLOCATOR(gstvf::allocator()),
                                                          self->parent.context, &self->info));
  if (!memory) return GST_FLOW_ERROR;
  GstVideoInfo layout = *gstvf::memory_info(memory);
  *buffer = gst_buffer_new();
  gst_buffer_append_memory(*buffer, memory);
  gst_buffer_add_video_meta_full(*buffer, GST_VIDEO_FRAME_FLAG_NONE,
                                 GST_VIDEO_INFO_FORMAT(&self->info), guint(self->info.width),
                                 guint(self->info.height), GST_VIDEO_INFO_N_PLANES(&self->info),
                                 layout.offset, layout.stride);
  g_atomic_int_inc(&self->made);
  return GST_FLOW_OK;
}

static void free_buffer(GstBufferPool* pool, GstBuffer* buffer) {
  g_atomic_int_add(&reinterpret_cast<GstCudaFiltersPool*>(pool)->made, -1);
  GST_BUFFER_POOL_CLASS(pool_parent_class)->free_buffer(pool, buffer);
}

// Gives out another frame if the first one is still in use, since writing that one would have to
// wait.
static GstFlowReturn acquire_buffer(GstBufferPool* pool, GstBuffer** buffer,
                                    GstBufferPoolAcquireParams* params) {
  constexpr guint enough = 2;
  auto* self = reinterpret_cast<GstCudaFiltersPool*>(pool);
  auto* klass = GST_BUFFER_POOL_CLASS(pool_parent_class);
  const GstFlowReturn flow = klass->acquire_buffer(pool, buffer, params);
  const guint maximum = self->max ? std::min(self->max, enough) : enough;
  if (flow != GST_FLOW_OK || guint(g_atomic_int_get(&self->made)) >= maximum) return flow;
  gstvf::MemoryUsers* users = gstvf::users_of(gstvf::cuda_memory(*buffer));
  if (!users || users->are_past()) return flow;
  GstBuffer* free = nullptr;
  if (klass->acquire_buffer(pool, &free, params) != GST_FLOW_OK) return GST_FLOW_OK;
  klass->release_buffer(pool, *buffer);
  *buffer = free;
  return GST_FLOW_OK;
}

static void gst_cuda_filters_pool_init(GstCudaFiltersPool*) {}

static void gst_cuda_filters_pool_class_init(GstCudaFiltersPoolClass* klass) {
  auto* pool_class = GST_BUFFER_POOL_CLASS(klass);
  pool_class->set_config = GST_DEBUG_FUNCPTR(set_config);
  pool_class->alloc_buffer = GST_DEBUG_FUNCPTR(alloc_buffer);
  pool_class->free_buffer = GST_DEBUG_FUNCPTR(free_buffer);
  pool_class->acquire_buffer = GST_DEBUG_FUNCPTR(acquire_buffer);
}

namespace gstvf {

GstBufferPool* frame_pool_new(GstCudaContext* context) {
  auto* pool = static_cast<GstBufferPool*>(g_object_new(gst_cuda_filters_pool_get_type(), nullptr));
  gst_object_ref_sink(pool);
  GST_CUDA_BUFFER_POOL(pool)->context = reinterpret_cast<GstCudaContext*>(gst_object_ref(context));
  return pool;
}

GstMemory* frame_bytes_new(GstCudaContext* context, GstCudaStream* stream, gsize size) {
  return with_users(cuda_bytes_new(allocator(), context, stream, size));
}

}  // namespace gstvf

#else

namespace gstvf {

GstBufferPool* frame_pool_new(GstCudaContext* context) {
  return cuda_pool_new(context);
}

GstMemory* frame_bytes_new(GstCudaContext* context, GstCudaStream* stream, gsize size) {
  return cuda_bytes_new(nullptr, context, stream, size);
}

}  // namespace gstvf

#endif
