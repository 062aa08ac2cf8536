#include "bench/pipeline/source.h"

#include <cstring>
#include <mutex>
#include <vector>

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

// A row of the frames' texture, which is made once: frames are it, shifted by their number.
const guint8* texture_row(int row, int bytes, guint64 number) {
  constexpr int shifts = 4093;
  static std::vector<std::vector<guint8>> rows;
  if (rows.size() <= size_t(row)) rows.resize(size_t(row) + 1);
  std::vector<guint8>& r = rows[size_t(row)];
  for (int x = int(r.size()); x < bytes + shifts; x++)
    r.push_back(guint8(vf::test::mixed_value(0, x, row, 0, 1) >> 8));
  return r.data() + number * 61 % shifts;
}

void fill(BenchSource* self, GstBuffer* buffer) {
  static const GQuark filled = g_quark_from_static_string("bench-filled");
  if (gst_mini_object_get_qdata(GST_MINI_OBJECT(buffer), filled)) return;
  gst_mini_object_set_qdata(GST_MINI_OBJECT(buffer), filled, GINT_TO_POINTER(1), nullptr);
  GstVideoFrame frame;
  if (!gst_video_frame_map(&frame, &self->info, buffer, GST_MAP_WRITE)) return;
  const guint64 number = self->filled++;
  // Sources of several pipelines share the texture.
  static std::mutex texture;
  std::unique_lock<std::mutex> lock(texture);
  for (guint p = 0; p < GST_VIDEO_FRAME_N_PLANES(&frame); p++) {
    // Bytes, whatever they mean to the format.
    const int row = GST_VIDEO_FRAME_COMP_WIDTH(&frame, p) * GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, p);
    auto* data = static_cast<guint8*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, p));
    for (int y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&frame, p); y++)
      memcpy(data + ptrdiff_t(y) * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, p),
             texture_row(y, row, number), size_t(row));
  }
  lock.unlock();
  gst_video_frame_unmap(&frame);
}

// Before the first frame goes: with many streams, those that run would keep others from filling
// theirs.
void fill_all(BenchSource* self) {
  GstBufferPoolAcquireParams now = {};
  now.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT;
  std::vector<GstBuffer*> buffers(self->frames);
  for (GstBuffer*& buffer : buffers)
    if (gst_buffer_pool_acquire_buffer(self->pool, &buffer, &now) == GST_FLOW_OK)
      fill(self, buffer);
  for (GstBuffer* buffer : buffers)
    if (buffer) gst_buffer_unref(buffer);
}

// The pool that is used, configured for enough frames that none is in a cache when it comes round.
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
    // The pool had to change something: its own values are fine.
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
  fill_all(self);
  return TRUE;
}

GstFlowReturn create(GstPushSrc* push, GstBuffer** out) {
  auto* self = reinterpret_cast<BenchSource*>(push);
  GstBuffer* buffer = nullptr;
  const GstFlowReturn flow = gst_buffer_pool_acquire_buffer(self->pool, &buffer, nullptr);
  if (flow != GST_FLOW_OK) return flow;
  fill(self, buffer);
  GST_BUFFER_PTS(buffer) = self->pushed++ * self->interval;
  GST_BUFFER_DURATION(buffer) = self->interval;
  *out = buffer;
  return GST_FLOW_OK;
}

// What a live source waits for.
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
