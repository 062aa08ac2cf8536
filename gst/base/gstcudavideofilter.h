// GstCudaVideoFilter: the base class of this plugin's elements.
//
// It owns everything that no filter owns alone: the choice of backend (backendsettings.h), metas,
// interlacing, QoS, controllers, passthrough, errors. It is put together from cudacontext.h (CUDA
// context and streams), allocation.h (buffer pools), formatcaps.h (caps) and inflight.h (plans,
// mapping, staging of frames in system memory).
//
// Writing an element on it
// ------------------------
// Derive from GstCudaVideoFilter with G_DEFINE_TYPE and GST_TYPE_CUDA_VIDEO_FILTER. In class_init
//   - install properties (gstvf::install_properties);
//   - add pad templates, normally gst_cuda_video_filter_add_templates(klass, nullptr, nullptr);
//   - set make_plan, and is_identity if there are settings that change nothing.
// An element's settings are a struct in its instance whose fields are properties (properties.h);
// make_plan and is_identity read them under GST_OBJECT_LOCK.
// gstcudagaussian.cpp is an example. The properties border, border-color and planes come from
// planesettings.h.
//
// The base class calls these from the streaming thread. A status that is not ok is shown to the
// user, and stops the stream; but where make_plan fails with settings that were changed since a
// frame was filtered, their former values are put back, and a warning message says so
// (livesettings.h). The text of a status about a setting begins with its property's name. Elements
// may post messages of their own from there.
//   - is_identity(in, out): whether the settings leave every frame as it is: then buffers pass
//     through untouched. Only asked where both caps have the same format and size.
//   - make_plan(queue, in, out, placement, plan): makes the filter's plan with in.layout and
//     out.layout. Called again after caps or settings changed. For interlaced frames the layouts
//     are those of one field, and there is a plan for each. With Placement::in_place the source may
//     also be separate.
//   - prepare_frame(in, rows, plan), optional: called before each run of a plan, with the buffer
//     that it will filter, for what a plan needs of each frame (its metas, say). May enqueue work
//     on the plan's queue; must not wait, map the buffer or keep it.
//   - changes_part(), optional: whether little of a frame changes with the settings there are now.
//     Then plans work in place on CUDA memory too, where nobody else holds the frame.
//   - finish_frame(out), optional: called with each buffer that was filtered, before it is pushed:
//     writable, mapped by nobody. For metas that hold its memory. Its CUDA memory may still be
//     written, in the order of its stream.
//   - forget(), optional: called where the next frame has nothing to do with those before it (after
//     a flush, and where `enabled` changed), for what the element itself remembers.
//   - add_stats(stats), optional: adds the element's fields to the structure of the property stats.
//     Called by any thread, under the object's lock.
//
// Elements whose caps differ on their pads (other size, format or tensors) also implement, as for
// any GstBaseTransform, transform_caps, fixate_caps, transform_meta and src_event, and
//   - describe(direction, caps, format) if caps can be other than video/x-raw: fills all of
//     format but its video (format.h has the tensors);
//   - decide_allocation, chaining up, if the default pools do not suit (GstVideoBufferPool, or,
//     where the caps ask for CUDA memory, GstCudaBufferPool for video and tensorpool.h for the
//     rest).
// They are never called in place.
//
// Class fields: `interlace`, where fields cannot be filtered one by one. `stateful`, where a plan
// remembers frames:
//   - Where only settings changed, make_plan gets the plan before in *plan and can take over what
//     it remembers.
//   - The plan is made anew, without one before, after new caps, a flush, passthrough, and where
//     progressive frames and interlaced ones follow each other; where `forgets_at_discont` says so
//     also at a buffer that is marked DISCONT.
//   - Each field has a plan, and so a memory, of its own.
//   - A frame that QoS drops never reaches the plan: the frame before it stays the last one.
//
// Where frames are filtered
// -------------------------
//   caps          backend  buffers        what happens
//   CUDAMemory    cuda     CUDA           from the input into a buffer of a CUDA pool: the frame is
//                                         read once and written once, and need not be writable; or,
//                                         with changes_part, in place where it is writable
//   CUDAMemory    cpu      CUDA           both mapped to the host by GStreamer
//   system        cpu      system         in place (the buffer is copied first if others share it)
//   system        cuda     system         uploaded, filtered, downloaded into a buffer of a pool
//   system        cuda     CUDA           filtered, downloaded into a buffer of a pool
// The memory of each buffer decides, not its caps; every other mixture is staged. Memory that is
// not pinned is copied by the host to or from memory that is; pools of allocation.h have pinned
// memory, which the GPU copies while the host goes on.
//
// With async-depth n, a frame of system memory is pushed when n newer ones have come in. Serialized
// events and queries, new caps and a DISCONT first push all frames in flight.
//
// The virtual functions transform and transform_ip are never called: use finish_frame. Whether
// frames pass through and whether they are filtered in place is the base class's to say: what an
// application sets by gst_base_transform_set_passthrough or _set_in_place is undone before the next
// frame, with a warning message.
#pragma once

#include <gst/base/gstbasetransform.h>
#include <gst/video/video.h>

#include <memory>

#include "filters/plan.h"
#include "gst/base/errors.h"
#include "gst/base/formatcaps.h"
#include "gst/base/frame.h"

G_BEGIN_DECLS

#define GST_TYPE_CUDA_VIDEO_FILTER (gst_cuda_video_filter_get_type())
#define GST_CUDA_VIDEO_FILTER(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_VIDEO_FILTER, GstCudaVideoFilter))
#define GST_IS_CUDA_VIDEO_FILTER(obj) \
  (G_TYPE_CHECK_INSTANCE_TYPE((obj), GST_TYPE_CUDA_VIDEO_FILTER))
#define GST_CUDA_VIDEO_FILTER_CLASS(klass) \
  (G_TYPE_CHECK_CLASS_CAST((klass), GST_TYPE_CUDA_VIDEO_FILTER, GstCudaVideoFilterClass))
#define GST_CUDA_VIDEO_FILTER_GET_CLASS(obj) \
  (G_TYPE_INSTANCE_GET_CLASS((obj), GST_TYPE_CUDA_VIDEO_FILTER, GstCudaVideoFilterClass))

typedef struct _GstCudaVideoFilterPrivate GstCudaVideoFilterPrivate;

// What is done with interlaced frames whose fields lie in one buffer.
typedef enum {
  GST_CUDA_VIDEO_FILTER_INTERLACE_FIELDS,  // each field is filtered on its own
  GST_CUDA_VIDEO_FILTER_INTERLACE_FRAME,   // the frame is filtered as if progressive
  GST_CUDA_VIDEO_FILTER_INTERLACE_REFUSE,  // caps are refused with a message
} GstCudaVideoFilterInterlace;

typedef struct _GstCudaVideoFilter {
  GstBaseTransform parent;
  /*< private >*/
  GstCudaVideoFilterPrivate* priv;
} GstCudaVideoFilter;

typedef struct _GstCudaVideoFilterClass {
  GstBaseTransformClass parent_class;

  GstCudaVideoFilterInterlace interlace;
  gboolean stateful;

  gboolean (*describe)(GstCudaVideoFilter* self, GstPadDirection direction, GstCaps* caps,
                       gstvf::Format* format);
  gboolean (*forgets_at_discont)(GstCudaVideoFilter* self);
  gboolean (*is_identity)(GstCudaVideoFilter* self, const gstvf::Format& in,
                          const gstvf::Format& out);
  vf::Status (*make_plan)(GstCudaVideoFilter* self, vf::Queue& queue, const gstvf::Format& in,
                          const gstvf::Format& out, vf::Placement placement,
                          std::unique_ptr<vf::Plan>* plan);
  vf::Status (*prepare_frame)(GstCudaVideoFilter* self, GstBuffer* in, gstvf::Rows rows,
                              vf::Plan& plan);
  gboolean (*changes_part)(GstCudaVideoFilter* self);
  void (*finish_frame)(GstCudaVideoFilter* self, GstBuffer* out);
  void (*forget)(GstCudaVideoFilter* self);
  void (*add_stats)(GstCudaVideoFilter* self, GstStructure* stats);
} GstCudaVideoFilterClass;

GType gst_cuda_video_filter_get_type(void);

G_END_DECLS

// Adds the always pads "sink" and "src" for these formats.
inline void gst_cuda_video_filter_add_templates(GstCudaVideoFilterClass* klass,
                                                GstCudaVideoFilterTakes sink,
                                                GstCudaVideoFilterTakes src) {
  gstvf::add_templates(GST_ELEMENT_CLASS(klass), sink, src);
}

// Whether the CUDA backend filters; once the element was started. From the streaming thread.
gboolean gst_cuda_video_filter_is_on_cuda(GstCudaVideoFilter* self);

// Pushes the frames in flight. From the streaming thread, before what finish_frame reads changes.
GstFlowReturn gst_cuda_video_filter_drain(GstCudaVideoFilter* self);

// Whether the filter is switched off (enabled.h). Plans are then only made where the caps of the
// pads differ, and give the frame unfiltered. From the streaming thread.
gboolean gst_cuda_video_filter_is_off(GstCudaVideoFilter* self);

// Whether frames pass through untouched. From the streaming thread.
gboolean gst_cuda_video_filter_passes(GstCudaVideoFilter* self);

// Posts an error about caps or settings that set_caps fails with, once: who is upstream sends the
// same caps again and again. Takes the error. From the streaming thread; gives FALSE.
gboolean gst_cuda_video_filter_refuse_caps(GstCudaVideoFilter* self, gstvf::ErrorText error);

// For properties.h, from any thread. A property was set in place of the value `former`: the
// object's lock is held.
void gst_cuda_video_filter_setting_changed(GstCudaVideoFilter* self, GParamSpec* spec,
                                           const GValue* former);
// And without the lock: has the plan made again before the next frame.
void gst_cuda_video_filter_settings_changed(GstCudaVideoFilter* self);
// Whether an application is to hear that a value was refused just now.
gboolean gst_cuda_video_filter_says_refused(GstCudaVideoFilter* self, const GParamSpec* spec);
// Whether the element runs with the settings that it was started with. Under the object's lock.
gboolean gst_cuda_video_filter_uses_start_settings(GstCudaVideoFilter* self);
