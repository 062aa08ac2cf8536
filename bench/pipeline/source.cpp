#include "bench/pipeline/source.h"

#include <cstring>
#include <mutex>
#include <vector>

#include "gst/base/cudacompat.h"
#include "tests/kernels/harness.h"

G_DEFINE_TYPE(BenchSource, bench_source, GST_TYPE_PUSH_SRC)

namespace {

GstStaticPadTemplate src_template =
    GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS_ANY);

GstCaps* get_caps(GstBaseSrc* base, GstCaps* filter) {
  auto* self = reinterpret_cast<BenchSource*>(base);
  return filter ? gst_caps_intersect_full(filter, self->caps, GST_CAPS_INTERSECT_FIRST)
                : gst_caps_ref(self->caps);
}

// Returns a row of the texture, which is made once. Each frame shows it shifted by the frame's
// number.
const guint8* texture_row(int row, int bytes, guint64 number) {
  constexpr int shifts = 4093;
  static std::vector<std::vector<guint8>> rows;
  if (rows.size() <= size_t(row)) rows.resize(size_t(row) + 1);
  std::vector<guint8>& r = rows[size_t(row)];
  for (int x = int(r.size()); x < bytes + shifts; x++)
    r.push_back(guint8(vf::test::mixed_value(0, x, row, 0, 1) >> 8));
  return r.data() + number * 61 % shifts;
}

// Copies rows of bytes from the host to a mapped frame.
bool put(guint8* to, int stride, const std::vector<guint8>& rows, int row, bool in_cuda) {
  const size_t height = rows.size() / size_t(row);
  if (!in_cuda) {
    for (size_t y = 0; y < height; y++)
      memcpy(to + ptrdiff_t(y) * stride, rows.data() + y * size_t(row), size_t(row));
    return true;
  }
#if VF_HAVE_GST_CUDA
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = rows.data();
  copy.srcPitch = copy.WidthInBytes = size_t(row);
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = CUdeviceptr(to);
  copy.dstPitch = size_t(stride);
  copy.Height = height;
  return CuMemcpy2D(&copy) == CUDA_SUCCESS && CuStreamSynchronize(nullptr) == CUDA_SUCCESS;
#else
  return false;
#endif
}

// Fills CUDA memory without mapping it for the host: a mapping would leave pinned memory with each
// frame, which is slow to allocate.
bool fill(BenchSource* self, GstBuffer* buffer) {
  static const GQuark filled = g_quark_from_static_string("bench-filled");
  if (gst_mini_object_get_qdata(GST_MINI_OBJECT(buffer), filled)) return true;
  gst_mini_object_set_qdata(GST_MINI_OBJECT(buffer), filled, GINT_TO_POINTER(1), nullptr);
  GstMemory* const cuda = gstvf::cuda_memory(buffer);
  GstMapFlags flags = GST_MAP_WRITE;
#if VF_HAVE_GST_CUDA
  if (cuda) flags = GstMapFlags(flags | GST_MAP_CUDA);
#endif
  GstVideoFrame frame;
  if (!gst_video_frame_map(&frame, &self->info, buffer, flags)) return false;
  const gstvf::CurrentContext current(cuda ? gstvf::memory_context(cuda) : nullptr);
  const guint64 number = self->filled++;
  bool done = true;
  for (guint p = 0; p < GST_VIDEO_FRAME_N_PLANES(&frame); p++) {
    // The texture is bytes, whatever they mean in the format.
    const int row = GST_VIDEO_FRAME_COMP_WIDTH(&frame, p) * GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, p);
    std::vector<guint8> rows;
    {
      // Sources of several pipelines share the texture.
      static std::mutex texture;
      std::lock_guard<std::mutex> lock(texture);
      for (int y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&frame, p); y++) {
        const guint8* const from = texture_row(y, row, number);
        rows.insert(rows.end(), from, from + row);
      }
    }
    done = done && put(static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, p)),
                       GST_VIDEO_FRAME_PLANE_STRIDE(&frame, p), rows, row, cuda);
  }
  gst_video_frame_unmap(&frame);
  return done;
}

// Fills all frames before the first one is pushed. With many streams, running ones would delay the
// filling of others.
bool fill_all(BenchSource* self) {
  GstBufferPoolAcquireParams now = {};
  now.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT;
  std::vector<GstBuffer*> buffers(self->frames);
  bool done = true;
  for (GstBuffer*& buffer : buffers)
    if (gst_buffer_pool_acquire_buffer(self->pool, &buffer, &now) == GST_FLOW_OK)
      done = fill(self, buffer) && done;
  for (GstBuffer* buffer : buffers)
    if (buffer) gst_buffer_unref(buffer);
  return done;
}

// Configures the pool that is used with so many frames that each has left the caches when it comes
// round.
gboolean decide_allocation(GstBaseSrc* base, GstQuery* query) {
  auto* self = reinterpret_cast<BenchSource*>(base);
  GstBufferPool* offered = nullptr;
  guint size = guint(self->info.size);
  if (self->take_offered && gst_query_get_n_allocation_pools(query) > 0)
    gst_query_parse_nth_allocation_pool(query, 0, &offered, &size, nullptr, nullptr);
  GstBufferPool* pool = offered ? offered : GST_BUFFER_POOL(gst_object_ref(self->own));
  self->offered = offered != nullptr;
  if (!offered) size = guint(self->info.size);

  GstStructure* config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, self->caps, size, self->frames, 0);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  if (!gst_buffer_pool_set_config(pool, config)) {
    // The pool changed the configuration; its own values are fine.
    config = gst_buffer_pool_get_config(pool);
    if (!gst_buffer_pool_config_validate_params(config, self->caps, size, self->frames, 0)) {
      gst_structure_free(config);
      gst_object_unref(pool);
      return FALSE;
    }
    gst_buffer_pool_set_config(pool, config);
  }
  if (gst_query_get_n_allocation_pools(query) > 0)
    gst_query_set_nth_allocation_pool(query, 0, pool, size, self->frames, 0);
  else
    gst_query_add_allocation_pool(query, pool, size, self->frames, 0);
  gst_clear_object(&self->pool);
  self->pool = pool;
  if (!gst_buffer_pool_set_active(pool, TRUE)) return FALSE;
  return fill_all(self);
}

GstFlowReturn create(GstPushSrc* push, GstBuffer** out) {
  auto* self = reinterpret_cast<BenchSource*>(push);
  GstBuffer* buffer = nullptr;
  const GstFlowReturn flow = gst_buffer_pool_acquire_buffer(self->pool, &buffer, nullptr);
  if (flow != GST_FLOW_OK) return flow;
  if (!fill(self, buffer)) {
    gst_buffer_unref(buffer);
    return GST_FLOW_ERROR;
  }
  GST_BUFFER_PTS(buffer) = self->pushed++ * self->interval;
  GST_BUFFER_DURATION(buffer) = self->interval;
  *out = buffer;
  return GST_FLOW_OK;
}

// Tells a live source what to wait for.
void get_times(GstBaseSrc* base, GstBuffer* buffer, GstClockTime* start, GstClockTime* end) {
  const bool live = gst_base_src_is_live(base);
  *start = live ? GST_BUFFER_PTS(buffer) : GST_CLOCK_TIME_NONE;
  *end = live ? *start + GST_BUFFER_DURATION(buffer) : GST_CLOCK_TIME_NONE;
}

gboolean stop(GstBaseSrc* base) {
  auto* self = reinterpret_cast<BenchSource*>(base);
  if (self->pool) gst_buffer_pool_set_active(self->pool, FALSE);
  gst_clear_object(&self->pool);
  return TRUE;
}

}  // namespace

static void bench_source_init(BenchSource* self) {
  gst_base_src_set_format(GST_BASE_SRC(self), GST_FORMAT_TIME);
  self->interval = GST_SECOND / 25;
}

static void bench_source_finalize(GObject* object) {
  auto* self = reinterpret_cast<BenchSource*>(object);
  gst_clear_object(&self->pool);
  gst_clear_object(&self->own);
  gst_clear_caps(&self->caps);
  G_OBJECT_CLASS(bench_source_parent_class)->finalize(object);
}

static void bench_source_class_init(BenchSourceClass* klass) {
  G_OBJECT_CLASS(klass)->finalize = bench_source_finalize;
  gst_element_class_add_static_pad_template(GST_ELEMENT_CLASS(klass), &src_template);
  gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(klass), "Benchmark source",
                                        "Source/Video",
                                        "Pushes the frames of a pool again and again", "benchmark");
  GST_BASE_SRC_CLASS(klass)->get_caps = get_caps;
  GST_BASE_SRC_CLASS(klass)->decide_allocation = decide_allocation;
  GST_BASE_SRC_CLASS(klass)->get_times = get_times;
  GST_BASE_SRC_CLASS(klass)->stop = stop;
  GST_PUSH_SRC_CLASS(klass)->create = create;
}

BenchSource* bench_source_new(GstCaps* caps, GstBufferPool* own, guint frames,
                              gboolean take_offered) {
  auto* self = static_cast<BenchSource*>(g_object_new(bench_source_get_type(), nullptr));
  self->caps = gst_caps_ref(caps);
  gst_video_info_from_caps(&self->info, caps);
  self->own = GST_BUFFER_POOL(gst_object_ref(own));
  self->frames = frames;
  self->take_offered = take_offered;
  return self;
}

void bench_source_set_live(BenchSource* self, double rate) {
  self->interval = GstClockTime(double(GST_SECOND) / rate);
  gst_base_src_set_live(GST_BASE_SRC(self), TRUE);
}
