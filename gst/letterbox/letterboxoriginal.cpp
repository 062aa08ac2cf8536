#include "gst/letterbox/letterboxoriginal.h"

#include "gst/letterbox/letterboxmeta.h"

namespace gstvf {
namespace {

constexpr char kQuery[] = "GstCudaLetterboxRestore";
constexpr char kEvent[] = "GstCudaLetterboxOriginals";
constexpr char kMeta[] = "GstCudaLetterboxOriginalMeta";

void free(GstMeta* meta, GstBuffer*) {
  auto* m = reinterpret_cast<OriginalMeta*>(meta);
  gst_clear_buffer(&m->base.buffer);
  gst_clear_caps(&m->base.caps);
  gst_clear_buffer(&m->moved);
  if (m->originals) Originals::unref(m->originals);
}

const GstMetaInfo* meta_info();

// Adds the meta. Takes references, except of `moved`, which it takes over.
void add_original(GstBuffer* buffer, GstBuffer* original, GstCaps* caps, guint64 serial,
                  Originals* originals, GstBuffer* moved) {
  auto* m = reinterpret_cast<OriginalMeta*>(gst_buffer_add_meta(buffer, meta_info(), nullptr));
  m->base.buffer = gst_buffer_ref(original);
  m->base.caps = gst_caps_ref(caps);
  m->serial = serial;
  m->originals = originals ? Originals::ref(originals) : nullptr;
  m->moved = moved;
}

// The original stays the same, whatever is done to the frame. A frame has only one.
gboolean transform(GstBuffer* outbuf, GstMeta* meta, GstBuffer*, GQuark, gpointer) {
  const auto* m = reinterpret_cast<OriginalMeta*>(meta);
  if (!get_original(outbuf))
    add_original(outbuf, m->base.buffer, m->base.caps, m->serial, m->originals,
                 m->moved ? gst_buffer_ref(m->moved) : nullptr);
  return TRUE;
}

const GstMetaInfo* meta_info() {
  static const GstMetaInfo* const info = register_meta(
      GST_CUDA_LETTERBOX_ORIGINAL_META_API_NAME, kMeta, sizeof(OriginalMeta), free, transform);
  return info;
}

// Asks whether there is a restorer behind a source pad, and what it wants.
RestorerWants ask_restorer(GstPad* pad) {
  RestorerWants wants;
  g_autoptr(GstQuery) query =
      gst_query_new_custom(GST_QUERY_CUSTOM, gst_structure_new_empty(kQuery));
  gboolean dropped = FALSE;
  if (gst_pad_peer_query(pad, query))
    gst_structure_get(gst_query_get_structure(query), "dropped", G_TYPE_BOOLEAN, &dropped, "most",
                      G_TYPE_UINT, &wants.maximum, nullptr);
  wants.dropped = dropped;
  return wants;
}

}  // namespace

Originals* Originals::ref(Originals* originals) {
  g_atomic_int_inc(&originals->refs_);
  return originals;
}

void Originals::unref(Originals* originals) {
  if (g_atomic_int_dec_and_test(&originals->refs_)) delete originals;
}

GType Originals::type() {
  static const GType type = g_boxed_type_register_static(
      kEvent, [](gpointer p) -> gpointer { return ref(static_cast<Originals*>(p)); },
      [](gpointer p) { unref(static_cast<Originals*>(p)); });
  return type;
}

Originals::~Originals() {
  clear();
  gst_caps_unref(caps_);
}

void Originals::add(guint64 serial, GstBuffer* buffer) {
  // The lock is released before this, since the buffer may go back to a pool.
  g_autoptr(GstBuffer) oldest = nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  list_.push_back({serial, gst_buffer_ref(buffer)});
  if (!max_ || list_.size() <= max_) return;
  oldest = list_.front().buffer;
  list_.pop_front();
}

GstBuffer* Originals::take_before(guint64 serial) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (list_.empty() || list_.front().serial >= serial) return nullptr;
  GstBuffer* buffer = list_.front().buffer;
  list_.pop_front();
  return buffer;
}

void Originals::arrived(guint64 serial) {
  g_autoptr(GstBuffer) buffer = nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (list_.empty() || list_.front().serial != serial) return;
  buffer = list_.front().buffer;
  list_.pop_front();
}

void Originals::clear() {
  while (GstBuffer* buffer = take_before(G_MAXUINT64)) gst_buffer_unref(buffer);
}

OriginalMeta* get_original(GstBuffer* buffer) {
  return reinterpret_cast<OriginalMeta*>(gst_buffer_get_meta(buffer, meta_info()->api));
}

bool is_original_meta(const GstMeta* meta) {
  return meta->info == meta_info();
}

void attach_original(GstBuffer* buffer, GstBuffer* original, GstCaps* caps, GstBuffer* moved) {
  add_original(buffer, original, caps, 0, nullptr, moved);
}

GstBuffer* copy_metas(GstBuffer* buffer) {
  gpointer state = nullptr;
  if (!gst_buffer_iterate_meta(buffer, &state)) return nullptr;
  GstBuffer* copy = gst_buffer_new();
  gst_buffer_copy_into(copy, buffer, GST_BUFFER_COPY_META, 0, gsize(-1));
  return copy;
}

bool answer_letterbox(GstQuery* query, const RestorerWants& wants) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_CUSTOM ||
      !gst_structure_has_name(gst_query_get_structure(query), kQuery))
    return false;
  gst_structure_set(gst_query_writable_structure(query), "dropped", G_TYPE_BOOLEAN, wants.dropped,
                    "most", G_TYPE_UINT, wants.maximum, nullptr);
  return true;
}

Originals* originals_of(GstEvent* event) {
  if (!gst_event_has_name(event, kEvent)) return nullptr;
  const GValue* value = gst_structure_get_value(gst_event_get_structure(event), "originals");
  return value && G_VALUE_HOLDS(value, Originals::type())
             ? static_cast<Originals*>(g_value_get_boxed(value))
             : nullptr;
}

// Call this after the caps and the segment that the originals belong to.
void OriginalKeeper::announce(GstPad* srcpad, GstCaps* caps) {
  announced_ = true;
  const RestorerWants wants = ask_restorer(srcpad);
  if (!wants.dropped) return;
  originals_ = new Originals(caps, wants.maximum);
  GstStructure* names =
      gst_structure_new(kEvent, "originals", Originals::type(), originals_, nullptr);
  gst_pad_push_event(srcpad, gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM_STICKY, names));
}

void OriginalKeeper::attach(GstBaseTransform* trans, GstBuffer* original, GstBuffer* outbuf,
                            GstBuffer* moved) {
  g_autoptr(GstCaps) caps = gst_pad_get_current_caps(GST_BASE_TRANSFORM_SINK_PAD(trans));
  if (!caps) return gst_clear_buffer(&moved);
  if (!announced_) announce(GST_BASE_TRANSFORM_SRC_PAD(trans), caps);
  const guint64 serial = serial_++;
  if (originals_) originals_->add(serial, original);
  add_original(outbuf, original, caps, serial, originals_, moved);
}

GstBuffer* OriginalKeeper::pass(GstBaseTransform* trans, GstBuffer* original,
                                const vf::LetterboxGeometry& geometry) {
  GstBuffer* outbuf = gst_buffer_copy(original);
  if (OriginalMeta* other = get_original(outbuf)) gst_buffer_remove_meta(outbuf, &other->base.meta);
  set_letterbox_meta(outbuf, geometry);
  attach(trans, original, outbuf, copy_metas(original));
  return outbuf;
}

void OriginalKeeper::close() {
  announced_ = false;
  if (!originals_) return;
  originals_->close();
  Originals::unref(originals_);
  originals_ = nullptr;
}

void OriginalKeeper::drop() {
  // The pads behind keep the event that names the list, so it is cleared.
  if (originals_) originals_->clear();
  close();
}

}  // namespace gstvf
