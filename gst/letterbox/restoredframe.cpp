#include "gst/letterbox/restoredframe.h"

#include <cmath>

#include "gst/base/analytics.h"
#include "gst/base/cudacompat.h"
#include "gst/base/errors.h"
#include "gst/base/packedframe.h"
#include "gst/letterbox/letterboxmeta.h"
#include "gst/letterbox/letterboxresults.h"

namespace gstvf {
namespace {

using Region = GstVideoRegionOfInterestMeta;

// Returns meta number `n`, counted from 0, of those that `of` accepts, or null. `buffer` may be
// null.
template <class F>
GstMeta* nth_meta(GstBuffer* buffer, guint n, const F& of) {
  gpointer state = nullptr;
  while (GstMeta* meta = buffer ? gst_buffer_iterate_meta(buffer, &state) : nullptr)
    if (of(meta) && n-- == 0) return meta;
  return nullptr;
}

// Returns the next region of a buffer, or null after the last one. Another call would begin anew.
Region* next_region(GstBuffer* buffer, gpointer* state) {
  return reinterpret_cast<Region*>(
      gst_buffer_iterate_meta_filtered(buffer, state, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE));
}

bool same(const Region& a, const Region& b) {
  return a.roi_type == b.roi_type && a.id == b.id && a.parent_id == b.parent_id && a.x == b.x &&
         a.y == b.y && a.w == b.w && a.h == b.h;
}

// Copies the params that were added to a region of the original behind the letterbox, by a
// classifier for example.
void add_new_params(const Region& from, const Region& before, Region* to) {
  GList* param = g_list_nth(from.params, g_list_length(before.params));
  for (; param; param = param->next)
    gst_video_region_of_interest_meta_add_param(
        to, gst_structure_copy(static_cast<const GstStructure*>(param->data)));
}

// Tells whether a region is the original's own. If so, adds its new params there.
bool is_own_region(GstMeta* meta, GstBuffer* original, GstBuffer* moved) {
  if (meta->info->api != GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE) return false;
  const auto& region = *reinterpret_cast<const Region*>(meta);
  gpointer at = nullptr, own_at = nullptr;
  bool more = original != nullptr;
  while (const Region* before = moved ? next_region(moved, &at) : nullptr) {
    // The letterbox keeps their order.
    Region* own = more ? next_region(original, &own_at) : nullptr;
    more = own != nullptr;
    if (!same(region, *before)) continue;
    if (own) add_new_params(region, *before, own);
    return true;
  }
  return false;
}

bool is_overlay(const GstMeta* meta) {
  return meta->info->api == GST_VIDEO_OVERLAY_COMPOSITION_META_API_TYPE;
}

GstVideoOverlayComposition*& overlay_of(GstMeta* meta) {
  return reinterpret_cast<GstVideoOverlayCompositionMeta*>(meta)->overlay;
}

// A renderer only looks at the first overlay of a frame, so the new one is appended to it.
void join_overlays(GstBuffer* buffer) {
  GstMeta* first = nth_meta(buffer, 0, is_overlay);
  GstMeta* next = nth_meta(buffer, 1, is_overlay);
  if (!first || !next) return;
  GstVideoOverlayComposition* joined = gst_video_overlay_composition_copy(overlay_of(first));
  for (guint i = 0; i < gst_video_overlay_composition_n_rectangles(overlay_of(next)); i++)
    gst_video_overlay_composition_add_rectangle(
        joined, gst_video_overlay_composition_get_rectangle(overlay_of(next), i));
  gst_video_overlay_composition_unref(overlay_of(first));
  overlay_of(first) = joined;
  gst_buffer_remove_meta(buffer, next);
}

// Restores results of detectors and others. Returns false for other metas. GStreamer can restore
// results that only it knows if the original has none.
bool restore_results(GstMeta* meta, GstBuffer* original, GstBuffer* moved,
                     const vf::LetterboxGeometry& back) {
  const std::vector<guint> there = results_there(original, moved, meta);
  return move_results(original, meta, back, there,
                      there.empty() ? MoveResults::all : MoveResults::known);
}

// Tells whether the original already has this meta, of another kind. The original's come first
// within each kind.
bool is_own(GstMeta* meta, GstBuffer* frame, GstBuffer* original, GstBuffer* moved) {
  const auto like_this = [meta](const GstMeta* m) { return m->info == meta->info; };
  if (is_results(meta) || meta->info->api == GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE ||
      !nth_meta(moved, 0, like_this))
    return false;
  guint n = 0;
  while (nth_meta(frame, n, like_this) != meta) n++;
  GstMeta* before = nth_meta(moved, n, like_this);
  if (!before || !is_overlay(meta) || overlay_of(meta) == overlay_of(before)) return before;
  // An element has drawn more, and its overlay contains the earlier one.
  if (GstMeta* own = nth_meta(original, n, is_overlay)) gst_buffer_remove_meta(original, own);
  return false;
}

bool copy_meta(GstMeta* meta, GstBuffer* from, GstBuffer* to) {
  GstMetaTransformCopy copy = {FALSE, 0, gsize(-1)};
  return meta->info->transform_func &&
         meta->info->transform_func(to, meta, from, _gst_meta_transform_copy, &copy);
}

// Tells whether a meta describes the memory that it is on.
bool is_of_memory(const GstMeta* meta) {
  const auto has = [meta](const char* tag) {
    return gst_meta_api_type_has_tag(meta->info->api, g_quark_from_static_string(tag));
  };
  return has(GST_META_TAG_MEMORY_STR) || has(GST_META_TAG_MEMORY_REFERENCE_STR) ||
         meta->info->api == GST_PARENT_BUFFER_META_API_TYPE;
}

}  // namespace

void letterbox_metas(GstBuffer* frame, GstBuffer* row, const vf::LetterboxGeometry& geometry) {
  gpointer state = nullptr;
  while (GstMeta* meta = gst_buffer_iterate_meta(frame, &state))
    if (!is_of_memory(meta) && move_meta(meta, frame, row, false, geometry).value_or(true))
      copy_meta(meta, frame, row);
}

bool find_place(GstBuffer* frame, GstCaps* caps, const GstVideoInfo& info,
                vf::LetterboxGeometry* place) {
  GstCudaLetterboxGeometry g;
  GstVideoInfo source;
  if (!gst_buffer_get_cuda_letterbox_geometry(frame, &g) ||
      !gst_video_info_from_caps(&source, caps) || source.width != g.source_width ||
      source.height != g.source_height)
    return false;
  for (const double v : {g.left, g.top, g.content_width, g.content_height})
    if (!std::isfinite(v) || std::fabs(v) > G_MAXINT / 4) return false;
  place->source_width = g.source_width;
  place->source_height = g.source_height;
  place->scale = g.scale;
  place->left = g.left;
  place->top = g.top;
  place->content_width = g.content_width;
  place->content_height = g.content_height;
  const bool video = GST_VIDEO_INFO_FORMAT(&info) != GST_VIDEO_FORMAT_UNKNOWN;
  place->width = video ? info.width : g.output_width;
  place->height = video ? info.height : g.output_height;
  return place->width > 0 && place->height > 0;
}

// Returns the geometry of the way back.
static vf::LetterboxGeometry inverse(const vf::LetterboxGeometry& g) {
  vf::LetterboxGeometry back;
  back.rule = g.rule;
  back.source_width = g.width;
  back.source_height = g.height;
  back.width = g.source_width;
  back.height = g.source_height;
  back.content_width = double(g.width) * g.source_width / g.content_width;
  back.content_height = double(g.height) * g.source_height / g.content_height;
  back.left = -g.left * g.source_width / g.content_width;
  back.top = -g.top * g.source_height / g.content_height;
  back.scale = g.source_height / g.content_height;
  return back;
}

// Copies the metas that are new in `frame` to `original`. `moved` (may be null) holds the
// original's own metas as the letterbox moved them: those stay as they are in `original`.
static void restore_metas(GstBuffer* frame, GstBuffer* original, GstBuffer* moved,
                          const vf::LetterboxGeometry& back) {
  gpointer state = nullptr;
  while (GstMeta* meta = gst_buffer_iterate_meta(frame, &state)) {
    if (is_of_memory(meta) || is_own_region(meta, original, moved) ||
        is_own(meta, frame, original, moved) || restore_results(meta, original, moved, back))
      continue;
    const auto copies = move_meta(meta, frame, original, true, back);
    if (copies.value_or(true)) copy_meta(meta, frame, original);
  }
  join_overlays(original);
}

// Tensors still belong to the letterboxed frame, so the meta that says where its picture lies comes
// along. An original that is letterboxed itself has no room for that meta.
static void bring_tensors(GstBuffer* frame, GstBuffer* original) {
  if (!gst_buffer_get_custom_meta(original, GST_CUDA_LETTERBOX_META_NAME) &&
      copy_tensors(frame, original))
    copy_meta(&gst_buffer_get_custom_meta(frame, GST_CUDA_LETTERBOX_META_NAME)->meta, frame,
              original);
}

GstBuffer* restore_frame(GstBuffer* frame, OriginalMeta* meta, const vf::LetterboxGeometry& place,
                         bool is_video) {
  GstBuffer* original = meta->base.buffer;
  // Takes over the frame's reference, unless others need it.
  if (gst_buffer_is_writable(frame))
    meta->base.buffer = nullptr;
  else
    gst_buffer_ref(original);
  if (!gst_buffer_is_writable(original)) {
    GstBuffer* shared = original;
    original = gst_buffer_copy(shared);
    // Otherwise its pool would reuse memory that is still in use.
    gst_buffer_add_parent_buffer_meta(original, shared);
    gst_buffer_unref(shared);
  }
  restore_metas(frame, original, meta->moved, inverse(place));
  if (is_video) bring_tensors(frame, original);
  if (GST_BUFFER_PTS_IS_VALID(frame)) {
    GST_BUFFER_PTS(original) = GST_BUFFER_PTS(frame);
    GST_BUFFER_DTS(original) = GST_BUFFER_DTS(frame);
    GST_BUFFER_DURATION(original) = GST_BUFFER_DURATION(frame);
  }
  // The letterbox may still be reading the original if nobody waited for its stream.
  if (GstMemory* memory = cuda_memory(frame)) memory_sync(memory);
  gst_buffer_unref(frame);
  return original;
}

GstPad* add_pad(GstElement* element, const char* name, GstPadEventFunction event,
                GstPadChainFunction chain) {
  GstPad* pad = gst_pad_new_from_template(
      gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(element), name), name);
  gst_pad_set_event_function(pad, event);
  if (chain) gst_pad_set_chain_function(pad, chain);
  gst_element_add_pad(element, pad);
  return pad;
}

GstFlowReturn push_original(GstPad* srcpad, const GstVideoInfo& info, bool any_layout,
                            GstBuffer* buffer) {
  GstBuffer* out = buffer;
  const vf::Status status = any_layout ? vf::Status() : pack_frame(info, buffer, &out);
  if (out != buffer) gst_buffer_unref(buffer);
  if (status.ok()) return gst_pad_push(srcpad, out);
  post_error(GST_ELEMENT(GST_PAD_PARENT(srcpad)), status);
  return GST_FLOW_ERROR;
}

}  // namespace gstvf
