#include "gst/letterbox/batchmeta.h"

#include <string>

#include "gst/base/analytics.h"
#include "gst/letterbox/letterboxmeta.h"
#include "gst/letterbox/letterboxoriginal.h"
#include "gst/letterbox/restoredframe.h"

namespace gstvf {
namespace {

using Meta = GstCudaLetterboxBatchMeta;
using Row = GstCudaLetterboxBatchRow;
using Events = std::shared_ptr<const StreamEvents>;

constexpr char kMeta[] = "GstCudaLetterboxBatchMeta";
constexpr char kEnd[] = "GstCudaLetterboxBatchStreamEnd";
constexpr char kGap[] = "GstCudaLetterboxBatchStreamGap";
constexpr char kUpstream[] = "GstCudaLetterboxBatchStreamEvent";

void free(GstMeta* meta, GstBuffer*) {
  auto* m = reinterpret_cast<Meta*>(meta);
  for (guint i = 0; i < m->n_rows; i++) {
    gst_clear_buffer(&m->rows[i].frame);
    delete static_cast<Events*>(m->rows[i].origin);
  }
  g_free(m->rows);
}

const GstMetaInfo* meta_info();

Meta* add_meta(GstBuffer* buffer, guint n) {
  auto* m = reinterpret_cast<Meta*>(gst_buffer_add_meta(buffer, meta_info(), nullptr));
  m->n_rows = n;
  m->rows = g_new0(Row, n);
  return m;
}

// The rows stay the same, whatever is done to the tensor. A tensor has only one such meta.
gboolean transform(GstBuffer* outbuf, GstMeta* meta, GstBuffer*, GQuark, gpointer) {
  const auto* from = reinterpret_cast<Meta*>(meta);
  if (gst_buffer_get_meta(outbuf, meta->info->api)) return TRUE;
  Meta* to = add_meta(outbuf, from->n_rows);
  for (guint i = 0; i < from->n_rows; i++) {
    const Row& row = from->rows[i];
    to->rows[i].stream = row.stream;
    if (row.frame) to->rows[i].frame = gst_buffer_ref(row.frame);
    if (row.origin) to->rows[i].origin = new Events(*static_cast<Events*>(row.origin));
  }
  return TRUE;
}

const GstMetaInfo* meta_info() {
  static const GstMetaInfo* const info =
      register_meta(GST_CUDA_LETTERBOX_BATCH_META_API_NAME, kMeta, sizeof(Meta), free, transform);
  return info;
}

// Makes the frame of a row: a buffer without memory, with the original's times and metas.
GstBuffer* make_frame(const BatchRow& row) {
  GstBuffer* frame = gst_buffer_new();
  gst_buffer_copy_into(frame, row.original,
                       GstBufferCopyFlags(GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS), 0,
                       gsize(-1));
  letterbox_metas(row.original, frame, row.geometry);
  GstBuffer* moved = copy_metas(frame);
  set_letterbox_meta(frame, row.geometry);
  attach_original(frame, row.original, row.caps, moved);
  return frame;
}

// Describes a row in GStreamer's own way, with everything that its stream is interpreted by.
BatchedStream make_stream(const BatchRow& row) {
  BatchedStream stream;
  stream.index = row.stream;
  const auto add_caps = [&] {
    stream.events.emplace_back(GST_MINI_OBJECT_CAST(gst_event_new_caps(row.caps)));
  };
  bool has_caps = false;
  for (const EventRef& event : row.events ? row.events->list() : std::vector<EventRef>()) {
    // Caps come behind the stream-start.
    const bool starts = GST_EVENT_TYPE(event.get()) == GST_EVENT_STREAM_START;
    if (!starts && !has_caps) add_caps(), has_caps = true;
    stream.events.emplace_back(GST_MINI_OBJECT_CAST(gst_event_ref(event.get())));
  }
  if (!has_caps) add_caps();
  stream.objects.emplace_back(GST_MINI_OBJECT_CAST(gst_buffer_ref(row.original)));
  return stream;
}

// Returns the boxed value of a field, or null.
gpointer boxed(const GstStructure* s, const char* field, GType type) {
  const GValue* value = gst_structure_get_value(s, field);
  return value && G_VALUE_HOLDS(value, type) ? g_value_get_boxed(value) : nullptr;
}

// Names the field with event `n` of a stream. A list of events could not be printed for debugging.
std::string event_field(size_t n) {
  return "event-" + std::to_string(n);
}

}  // namespace

Events StreamEvents::with(const StreamEvents* events, GstEvent* event) {
  auto next = std::make_shared<StreamEvents>();
  const EventRef added(gst_event_ref(event), gst_event_unref);
  const GstEventType type = GST_EVENT_TYPE(event);
  const auto replaces = [&](GstEvent* other) {
    return GST_EVENT_TYPE(other) == type &&
           (!(type & GST_EVENT_TYPE_STICKY_MULTI) ||
            gst_event_has_name_id(other,
                                  gst_structure_get_name_id(gst_event_get_structure(event))));
  };
  bool placed = false;
  if (events && type != GST_EVENT_STREAM_START) {
    for (const EventRef& other : events->list_) {
      const bool goes = replaces(other.get());
      placed = placed || goes;
      next->list_.push_back(goes ? added : other);
    }
  }
  if (!placed) next->list_.push_back(added);
  return next;
}

void add_batch_meta(GstBuffer* batch, const std::vector<BatchRow>& rows, guint n) {
  Meta* meta = add_meta(batch, n);
  for (size_t i = 0; i < rows.size(); i++) {
    meta->rows[i].frame = make_frame(rows[i]);
    meta->rows[i].stream = rows[i].stream;
    meta->rows[i].origin = new Events(rows[i].events);
  }
  if constexpr (!kHasAnalyticsBatch) return;
  std::vector<BatchedStream> streams;
  for (const BatchRow& row : rows) streams.push_back(make_stream(row));
  add_batched_streams(batch, std::move(streams));
}

GstBuffer* take_frame(GstBuffer* batch, GstCudaLetterboxBatchRow* row) {
  if (!row->frame) return nullptr;
  if (!gst_buffer_is_writable(batch)) return gst_buffer_ref(row->frame);
  GstBuffer* frame = row->frame;
  row->frame = nullptr;
  return frame;
}

const StreamEvents* events_of(const GstCudaLetterboxBatchRow& row) {
  return row.origin ? static_cast<Events*>(row.origin)->get() : nullptr;
}

GstEvent* new_stream_end(guint stream, bool removed) {
  return gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM,
                              gst_structure_new(kEnd, "stream", G_TYPE_UINT, stream, "removed",
                                                G_TYPE_BOOLEAN, gboolean(removed), nullptr));
}

bool parse_stream_end(GstEvent* event, guint* stream, bool* removed) {
  gboolean gone = FALSE;
  if (!gst_event_has_name(event, kEnd) ||
      !gst_structure_get(gst_event_get_structure(event), "stream", G_TYPE_UINT, stream, "removed",
                         G_TYPE_BOOLEAN, &gone, nullptr))
    return false;
  *removed = gone;
  return true;
}

GstEvent* new_stream_gap(guint stream, const StreamEvents& events, GstCaps* caps, GstEvent* gap) {
  GstStructure* s = gst_structure_new(kGap, "stream", G_TYPE_UINT, stream, "caps", GST_TYPE_CAPS,
                                      caps, "gap", GST_TYPE_EVENT, gap, nullptr);
  for (size_t i = 0; i < events.list().size(); i++)
    gst_structure_set(s, event_field(i).c_str(), GST_TYPE_EVENT, events.list()[i].get(), nullptr);
  return gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM, s);
}

bool parse_stream_gap(GstEvent* event, StreamGap* gap) {
  if (!gst_event_has_name(event, kGap)) return false;
  const GstStructure* s = gst_event_get_structure(event);
  gap->caps = static_cast<GstCaps*>(boxed(s, "caps", GST_TYPE_CAPS));
  gap->gap = static_cast<GstEvent*>(boxed(s, "gap", GST_TYPE_EVENT));
  if (!gst_structure_get_uint(s, "stream", &gap->stream) || !gap->caps || !gap->gap) return false;
  gap->events = std::make_shared<StreamEvents>();
  for (size_t i = 0; gpointer e = boxed(s, event_field(i).c_str(), GST_TYPE_EVENT); i++)
    gap->events = StreamEvents::with(gap->events.get(), static_cast<GstEvent*>(e));
  return true;
}

GstEvent* new_stream_event(guint stream, GstEvent* event) {
  g_autoptr(GstEvent) taken = event;
  return gst_event_new_custom(GST_EVENT_CUSTOM_UPSTREAM,
                              gst_structure_new(kUpstream, "stream", G_TYPE_UINT, stream, "event",
                                                GST_TYPE_EVENT, taken, nullptr));
}

GstEvent* parse_stream_event(GstEvent* event, guint* stream) {
  if (!gst_event_has_name(event, kUpstream)) return nullptr;
  const GstStructure* s = gst_event_get_structure(event);
  if (!gst_structure_get_uint(s, "stream", stream)) return nullptr;
  return static_cast<GstEvent*>(boxed(s, "event", GST_TYPE_EVENT));
}

}  // namespace gstvf
