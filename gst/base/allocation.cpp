#include "gst/base/allocation.h"

#include <algorithm>

#include "gst/base/handover.h"
#include "gst/base/tensorpool.h"

GST_DEBUG_CATEGORY_EXTERN(gst_cuda_video_filter_debug);
#define GST_CAT_DEFAULT gst_cuda_video_filter_debug

namespace gstvf {
namespace {

// Frames of system memory start at multiples of this, for SIMD.
constexpr gsize kAlignment = 64;

struct PoolSize {
  guint bytes, min, max;
};

// Returns how many buffers are in use here at once, if frames stay in flight.
guint frames_here(const PoolNeeds& needs) {
  return needs.frames_held ? guint(needs.frames_held) + 1 : 0;
}

// Asks for `frames` buffers more. Drops a pool that may not have so many.
void grow(PoolSize* size, GstBufferPool** pool, guint frames) {
  size->min += frames;
  if (!frames || !size->max || size->max >= size->min) return;
  gst_clear_object(pool);
  size->max = 0;
}

// Configures `pool` (a full reference, which it takes) for frames of `caps`. Uses the memory of the
// query's allocator if a query is given. Returns null if the pool refuses the configuration.
GstBufferPool* configure(const PoolNeeds& needs, GstBufferPool* pool, GstCaps* caps,
                         GstCudaStream* stream, PoolSize* size, GstQuery* query = nullptr) {
  GstStructure* config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  gst_buffer_pool_config_set_params(config, caps, size->bytes, size->min, size->max);
  pool_config_set_stream(config, stream);
  if (query) {
    g_autoptr(GstAllocator) allocator = nullptr;
    GstAllocationParams params;
    gst_query_parse_nth_allocation_param(query, 0, &allocator, &params);
    gst_buffer_pool_config_set_allocator(config, allocator, &params);
  }
  if (!gst_buffer_pool_set_config(pool, config)) {
    GST_WARNING_OBJECT(needs.element, "%" GST_PTR_FORMAT " cannot be configured", pool);
    gst_object_unref(pool);
    return nullptr;
  }
  // A CUDA pool chooses the size of its buffers itself.
  config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_get_params(config, nullptr, &size->bytes, nullptr, nullptr);
  gst_structure_free(config);
  return pool;
}

// Adds memory that suits the backend to the query, unless the query already names an allocator.
void set_allocation_params(const PoolNeeds& needs, GstQuery* query) {
  g_autoptr(GstAllocator) allocator = nullptr;
  GstAllocationParams params;
  gst_allocation_params_init(&params);
  params.align = kAlignment - 1;
  const bool given = gst_query_get_n_allocation_params(query) > 0;
  if (given) gst_query_parse_nth_allocation_param(query, 0, &allocator, &params);
  if (!allocator && needs.on_cuda)
    allocator = GST_ALLOCATOR_CAST(gst_object_ref(needs.cuda.pinned_allocator()));
  if (given)
    gst_query_set_nth_allocation_param(query, 0, allocator, &params);
  else
    gst_query_add_allocation_param(query, allocator, &params);
}

// Posts an error. A filter posts the same one only once.
void refuse(GstElement* element, ErrorText error) {
  if (GST_IS_CUDA_VIDEO_FILTER(element))
    gst_cuda_video_filter_refuse_caps(GST_CUDA_VIDEO_FILTER(element), error);
  else
    post_error(element, error);
}

GstCudaStream* stream_of(GstBufferPool* pool) {
  g_autoptr(GstStructure) config = gst_buffer_pool_get_config(pool);
  return pool_config_stream(config);
}

// Returns a pool of CUDA memory for `out`: Returns `pool` (a full reference) if it suits, else a
// new one. Returns null after posting an error message.
GstBufferPool* cuda_pool(const PoolNeeds& needs, const Format& out, int device, GstCaps* caps,
                         GstBufferPool* pool, PoolSize* size) {
  // Allocating CUDA memory needs a context on the CPU backend as well.
  if (!needs.cuda.get() && !needs.cuda.find(device)) {
    gst_clear_object(&pool);
    refuse(needs.element,
           {GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND,
            g_strdup("There is no CUDA device for frames in CUDA memory. Use system memory."),
            nullptr, reason_details("device")});
    return nullptr;
  }
  GstCudaContext* const context = needs.cuda.get();
  const auto new_pool = [&] {
    return out.is_video() ? frame_pool_new(context) : tensor_pool_new(context);
  };
  if (pool && !(out.is_video() && is_cuda_pool_of(pool, context))) gst_clear_object(&pool);
  if (!pool) pool = new_pool();
  if (needs.on_cuda) needs.cuda.use_stream(stream_of(pool));
  pool = configure(needs, pool, caps, needs.cuda.stream(), size);
  if (!pool) pool = configure(needs, new_pool(), caps, needs.cuda.stream(), size);
  if (!pool)
    refuse(needs.element,
           {GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NO_SPACE_LEFT,
            g_strdup("No CUDA memory could be allocated for a frame."),
            gst_info_strdup_printf("caps %" GST_PTR_FORMAT, caps), reason_details("memory")});
  return pool;
}

}  // namespace

bool propose_pool(const PoolNeeds& needs, GstQuery* query) {
  GstCaps* caps;
  gst_query_parse_allocation(query, &caps, nullptr);
  GstVideoInfo info;
  if (!caps || !gst_video_info_from_caps(&info, caps)) return false;
  if (gst_query_get_n_allocation_pools(query) == 0) {
    PoolSize size = {guint(GST_VIDEO_INFO_SIZE(&info)), frames_here(needs), 0};
    g_autoptr(GstBufferPool) pool = nullptr;
    if (caps_in_cuda(caps)) {
      if (GstCudaContext* context = needs.cuda.ref()) {
        pool = configure(needs, frame_pool_new(context), caps, needs.cuda.stream(), &size);
        gst_object_unref(context);
      }
    } else {
      set_allocation_params(needs, query);
      pool = configure(needs, gst_video_buffer_pool_new(), caps, nullptr, &size, query);
    }
    if (pool) gst_query_add_allocation_pool(query, pool, size.bytes, size.min, size.max);
  }
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  return true;
}

void add_frames(GstQuery* query, guint frames) {
  if (!frames) return;
  GstCaps* caps;
  gst_query_parse_allocation(query, &caps, nullptr);
  GstVideoInfo info;
  if (gst_query_get_n_allocation_pools(query) == 0 && caps && gst_video_info_from_caps(&info, caps))
    gst_query_add_allocation_pool(query, nullptr, guint(GST_VIDEO_INFO_SIZE(&info)), 0, 0);
  for (guint i = 0; i < gst_query_get_n_allocation_pools(query); i++) {
    g_autoptr(GstBufferPool) pool = nullptr;
    PoolSize size = {};
    gst_query_parse_nth_allocation_pool(query, i, &pool, &size.bytes, &size.min, &size.max);
    grow(&size, &pool, frames);
    gst_query_set_nth_allocation_pool(query, i, pool, size.bytes, size.min, size.max);
  }
}

guint frames_behind(const PoolNeeds& needs, GstQuery* query) {
  guint min = 0;
  if (gst_query_get_n_allocation_pools(query) > 0)
    gst_query_parse_nth_allocation_pool(query, 0, nullptr, nullptr, &min, nullptr);
  return min - std::min(min, frames_here(needs));
}

bool decide_pool(const PoolNeeds& needs, const Format& out, int device, GstQuery* query) {
  GstCaps* caps;
  gst_query_parse_allocation(query, &caps, nullptr);
  if (!caps) return false;
  g_autoptr(GstBufferPool) pool = nullptr;
  PoolSize size = {guint(out.size), 0, 0};
  const bool offered = gst_query_get_n_allocation_pools(query) > 0;
  if (offered)
    gst_query_parse_nth_allocation_pool(query, 0, &pool, &size.bytes, &size.min, &size.max);
  // The frames held here come on top of those that downstream holds.
  grow(&size, &pool, frames_here(needs));
  if (caps_in_cuda(caps)) {
    pool = cuda_pool(needs, out, device, caps, pool, &size);
    if (!pool) return false;
  } else {
    set_allocation_params(needs, query);
    if (!pool) pool = out.is_video() ? gst_video_buffer_pool_new() : gst_buffer_pool_new();
    pool = configure(needs, pool, caps, nullptr, &size, query);
  }
  if (pool && offered)
    gst_query_set_nth_allocation_pool(query, 0, pool, size.bytes, size.min, size.max);
  else if (pool)
    gst_query_add_allocation_pool(query, pool, size.bytes, size.min, size.max);
  return true;
}

}  // namespace gstvf
