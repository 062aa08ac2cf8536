#include "gst/base/pinned.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

namespace gstvf {
namespace {

constexpr char kMemoryType[] = "CudaFiltersPinnedMemory";
// So much freed memory is kept: two frames of 2160p RGBA, or more smaller ones.
constexpr gsize kMaxKeptBytes = gsize{64} << 20;
constexpr int kMaxKept = 16;

struct PinnedMemory {
  GstMemory memory;
  void* data;
};

struct Allocation {
  gsize size;
  void* data;
};

struct FreeList {
  std::mutex mutex;
  Allocation kept[kMaxKept + 1];  // the oldest first
  int count = 0;
  gsize bytes = 0;
  void* take(int i) {
    void* data = kept[i].data;
    bytes -= kept[i].size;
    std::copy(kept + i + 1, kept + count--, kept + i);
    return data;
  }
};

}  // namespace
}  // namespace gstvf

typedef struct _GstCudaFiltersPinnedAllocator {
  GstAllocator parent;
  GstCudaContext* context;
  gstvf::FreeList free_list;
} GstCudaFiltersPinnedAllocator;
using GstCudaFiltersPinnedAllocatorClass = GstAllocatorClass;

#define gst_cuda_filters_pinned_allocator_parent_class parent_class
G_DEFINE_TYPE(GstCudaFiltersPinnedAllocator, gst_cuda_filters_pinned_allocator, GST_TYPE_ALLOCATOR)

namespace gstvf {
namespace {

using Allocator = GstCudaFiltersPinnedAllocator;

Allocator* allocator_of(gpointer object) {
  return reinterpret_cast<Allocator*>(object);
}

void* take_kept(Allocator* self, gsize size) {
  {
    std::lock_guard<std::mutex> lock(self->free_list.mutex);
    for (int i = 0; i < self->free_list.count; i++)
      if (self->free_list.kept[i].size == size) return self->free_list.take(i);
  }
  CurrentContext current(self->context);
  return current ? pinned_new(size) : nullptr;
}

void give_back(Allocator* self, void* data, gsize size) {
  FreeList& list = self->free_list;
  std::lock_guard<std::mutex> lock(list.mutex);
  list.kept[list.count++] = {size, data};
  list.bytes += size;
  if (list.bytes <= kMaxKeptBytes && list.count <= kMaxKept) return;
  CurrentContext current(self->context);
  while (list.bytes > kMaxKeptBytes || list.count > kMaxKept) pinned_free(list.take(0));
}

GstMemory* new_memory(Allocator* self, GstMemory* parent, int flags, void* data, gsize maxsize,
                      gsize align, gsize offset, gsize size) {
  auto* memory = new (std::nothrow) PinnedMemory();
  if (!memory) return nullptr;
  gst_memory_init(&memory->memory, GstMemoryFlags(flags), GST_ALLOCATOR_CAST(self), parent, maxsize,
                  align, offset, size);
  memory->data = data;
  return &memory->memory;
}

GstMemory* alloc(GstAllocator* allocator, gsize size, GstAllocationParams* params) {
  auto* self = allocator_of(allocator);
  if (size > G_MAXSSIZE - params->prefix - params->padding)
    return gst_allocator_alloc(nullptr, size, params);
  const gsize maxsize = size + params->prefix + params->padding;
  void* data = take_kept(self, maxsize);
  // Pinned memory starts at a page, or nearly so, but `align` may ask for more.
  if (data && (guintptr(data) & params->align)) {
    give_back(self, data, maxsize);
    data = nullptr;
  }
  if (!data) return gst_allocator_alloc(nullptr, size, params);
  auto* bytes = static_cast<guint8*>(data);
  if (params->flags & GST_MEMORY_FLAG_ZERO_PREFIXED) memset(bytes, 0, params->prefix);
  if (params->flags & GST_MEMORY_FLAG_ZERO_PADDED)
    memset(bytes + params->prefix + size, 0, params->padding);
  GstMemory* memory =
      new_memory(self, nullptr, params->flags, data, maxsize, params->align, params->prefix, size);
  if (!memory) give_back(self, data, maxsize);
  return memory;
}

void free_memory(GstAllocator* allocator, GstMemory* memory) {
  auto* pinned = reinterpret_cast<PinnedMemory*>(memory);
  if (!memory->parent) give_back(allocator_of(allocator), pinned->data, memory->maxsize);
  delete pinned;
}

gpointer map(GstMemory* memory, gsize, GstMapFlags) {
  return reinterpret_cast<PinnedMemory*>(memory)->data;
}

void unmap(GstMemory*) {}

GstMemory* share(GstMemory* memory, gssize offset, gssize size) {
  GstMemory* parent = memory->parent ? memory->parent : memory;
  if (size == -1) size = gssize(memory->size) - offset;
  return new_memory(allocator_of(memory->allocator), parent,
                    int(GST_MINI_OBJECT_FLAGS(parent)) | GST_MINI_OBJECT_FLAG_LOCK_READONLY,
                    reinterpret_cast<PinnedMemory*>(memory)->data, memory->maxsize, memory->align,
                    memory->offset + offset, gsize(size));
}

}  // namespace

GstAllocator* pinned_allocator_new(GstCudaContext* context) {
  auto* self =
      static_cast<Allocator*>(g_object_new(gst_cuda_filters_pinned_allocator_get_type(), nullptr));
  self->context = reinterpret_cast<GstCudaContext*>(gst_object_ref(context));
  gst_object_ref_sink(self);
  return GST_ALLOCATOR_CAST(self);
}

bool is_pinned(GstMemory* memory) {
  // Compares the name, because a program may contain this code twice: in the plugin and in itself.
  return gst_memory_is_type(memory, kMemoryType);
}

}  // namespace gstvf

static void gst_cuda_filters_pinned_allocator_init(GstCudaFiltersPinnedAllocator* self) {
  GstAllocator* allocator = GST_ALLOCATOR_CAST(self);
  allocator->mem_type = gstvf::kMemoryType;
  allocator->mem_map = gstvf::map;
  allocator->mem_unmap = gstvf::unmap;
  allocator->mem_share = gstvf::share;
  new (&self->free_list) gstvf::FreeList();
}

static void finalize(GObject* object) {
  auto* self = reinterpret_cast<GstCudaFiltersPinnedAllocator*>(object);
  {
    gstvf::CurrentContext current(self->context);
    while (self->free_list.count) gstvf::pinned_free(self->free_list.take(0));
  }
  self->free_list.~FreeList();
  gst_object_unref(self->context);
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_cuda_filters_pinned_allocator_class_init(
    GstCudaFiltersPinnedAllocatorClass* klass) {
  G_OBJECT_CLASS(klass)->finalize = finalize;
  klass->alloc = gstvf::alloc;
  klass->free = gstvf::free_memory;
}
