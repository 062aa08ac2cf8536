// GstCudaVideoFilter is the base class of this plugin's elements.
//
// It does everything that all filters share: the choice of backend (backendsettings.h), metas,
// interlacing, QoS, controllers, passthrough and errors. It uses cudacontext.h (CUDA context and
// streams), allocation.h (buffer pools), formatcaps.h (caps) and inflight.h (plans, mapping,
// staging of frames in system memory).
//
// Writing an element on it
// ------------------------
// Derive from GstCudaVideoFilter with G_DEFINE_TYPE and GST_TYPE_CUDA_VIDEO_FILTER. In class_init
//   - install properties (gstvf::install_properties);
//   - add pad templates, normally gstvf::add_templates(element_class);
//   - set make_plan, and is_identity if some settings change nothing.
// The settings of an element are a struct in its instance whose fields are properties
// (properties.h). make_plan and is_identity read them under GST_OBJECT_LOCK. gstcudagaussian.cpp is
// an example. The properties border, border-color and planes come from planesettings.h.
//
// The base class calls these functions from the streaming thread. It shows a status that is not ok
// to the user, and the stream stops. There is one exception: if make_plan fails with settings that
// changed since the last frame, their former values are put back, and a warning message says so
// (livesettings.h). The text of a status about a setting begins with its property's name. An
// element may post messages of its own from these functions.
//   - is_identity(in, out) tells whether the settings leave every frame as it is. Buffers then pass
//     through untouched. It is only called if both caps have the same format and size.
//   - make_plan(queue, in, out, placement, plan) makes the filter's plan with in.layout and
//     out.layout. It is called again after caps or settings changed. For interlaced frames the
//     layouts are those of one field, and each field has a plan. With Placement::in_place, source
//     and destination may still be separate images.
//   - prepare_frame(in, rows, plan), optional, is called before each run of a plan, with the buffer
//     to be filtered. It gives the plan what it needs for this frame, such as its metas. It may
//     enqueue work on the plan's queue; it must not wait, map the buffer or keep it.
//   - changes_part(), optional, tells whether the current settings change only a small part of a
//     frame. Plans then work in place on CUDA memory too, if nobody else holds the frame.
//   - finish_frame(out), optional, is called with each filtered buffer before it is pushed. The
//     buffer is writable and not mapped. Use it for metas that hold the buffer's memory. The GPU
//     may still write CUDA memory then, in the order of its stream.
//   - forget(), optional, is called when the next frame has nothing to do with those before it
//     (after a flush, and after `enabled` changed). The element drops what it remembers of frames.
//   - look_ahead(), arrive(in, time, duration) and leave(), optional, are for an element that wants
//     to see frames before it filters earlier ones (lookahead.h). look_ahead() returns the
//     nanoseconds for which frames wait now; any thread may call it. arrive() is called with each
//     frame that comes in, and with null for a gap that ends at `time`. It returns the time of the
//     frame on a clock of the element's own, which never goes back, or GST_CLOCK_TIME_NONE if
//     nothing says how long frames last. leave() is called once for each of these frames, in the
//     same order, when it leaves: prepare_frame, if it is called then, is about this frame. The
//     element posts a latency message when look_ahead() changes.
//   - frames_ahead() and set_later(plan, frames, count), optional, are for an element whose plans
//     take later frames. A frame waits until frames_ahead() later ones have come in; any thread may
//     call it. set_later() is called before prepare_frame, with the later frames that wait now, in
//     their order, up to a discontinuity. At the end of a stream there are fewer of them. Such an
//     element has neither look_ahead() nor arrive(), and also posts its latency message.
//   - add_stats(stats), optional, adds the element's fields to the structure of the property stats.
//     Any thread calls it, under the object's lock.
//
// An element whose pads have different caps (another size, format or tensors) also implements
// transform_caps, fixate_caps, transform_meta and src_event, as for any GstBaseTransform, and
//   - describe(direction, caps, format) if caps can be other than video/x-raw. It fills all of
//     format except `video` (format.h describes tensors);
//   - decide_allocation, chaining up, if the default pools do not suit. These are
//     GstVideoBufferPool or, if the caps ask for CUDA memory, GstCudaBufferPool for video and
//     tensorpool.h for tensors.
// Such elements never filter in place.
//
// Two fields of the class describe the filter. `interlace` says what happens to interlaced frames.
// `stateful` is true if plans remember frames:
//   - If only settings changed, make_plan gets the previous plan in *plan and can take over what it
//     remembers.
//   - The plan is made without a previous one after new caps, a flush, passthrough, and a change
//     between progressive and interlaced frames; also at a buffer marked DISCONT, if
//     `forgets_at_discont` says so.
//   - Each field has a plan of its own, which remembers only that field.
//   - A frame that QoS drops never reaches the plan: the plan's last frame stays the one before.
//
// Where frames are filtered
// -------------------------
//   caps          backend  buffers        what happens
//   CUDAMemory    cuda     CUDA           reads the input once and writes a buffer of a CUDA pool
//                                         once; or, with changes_part, filters a writable input in
//                                         place
//   CUDAMemory    cpu      CUDA           GStreamer maps both buffers to the host
//   system        cpu      system         filters in place (a copy, if others share the buffer)
//   system        cuda     system         uploads, filters, downloads into a buffer of a pool
//   system        cuda     CUDA           filters, downloads into a buffer of a pool
// The memory of each buffer decides, not its caps. Every other combination of buffers goes through
// a copy. The host copies memory that is not pinned to or from pinned memory. Pools of allocation.h
// have pinned memory, which the GPU copies while the host goes on.
//
// With async-depth n, a frame of system memory is pushed when n newer ones have come in. Serialized
// events and queries, new caps and a DISCONT first push all frames in flight.
//
// The virtual functions transform and transform_ip are never called: use finish_frame. The base
// class alone decides whether frames pass through and whether they are filtered in place. If an
// application calls gst_base_transform_set_passthrough or _set_in_place, that is undone before the
// next frame, with a warning message.
#pragma once

#include <gst/base/gstbasetransform.h>
#include <gst/video/video.h>

#include <memory>

#include "filters/plan.h"
#include "gst/base/errors.h"
#include "gst/base/formatcaps.h"
#include "gst/base/frame.h"

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

// Says what happens to interlaced frames whose fields lie in one buffer.
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
  GstClockTime (*look_ahead)(GstCudaVideoFilter* self);
  GstClockTime (*arrive)(GstCudaVideoFilter* self, GstBuffer* in, GstClockTime time,
                         GstClockTime duration);
  void (*leave)(GstCudaVideoFilter* self);
  guint (*frames_ahead)(GstCudaVideoFilter* self);
  vf::Status (*set_later)(GstCudaVideoFilter* self, vf::Plan& plan, const vf::Image* frames,
                          int count);
  void (*add_stats)(GstCudaVideoFilter* self, GstStructure* stats);
} GstCudaVideoFilterClass;

GType gst_cuda_video_filter_get_type(void);

// Tells whether the CUDA backend filters, once the element has started. Call it from the streaming
// thread.
gboolean gst_cuda_video_filter_is_on_cuda(GstCudaVideoFilter* self);

// Pushes the frames in flight. Call it from the streaming thread, before anything changes that
// finish_frame reads.
GstFlowReturn gst_cuda_video_filter_drain(GstCudaVideoFilter* self);

// Tells whether the filter is switched off (enabled.h). Plans are then made only if the caps of the
// pads differ, and they give the frame unfiltered. Call it from the streaming thread.
gboolean gst_cuda_video_filter_is_off(GstCudaVideoFilter* self);

// Tells whether frames pass through untouched. Call it from the streaming thread.
gboolean gst_cuda_video_filter_passes(GstCudaVideoFilter* self);

// Posts an error with which set_caps or an allocation fails. It posts the same error only once,
// since upstream sends the same caps again and again. Takes the error. Call it from the streaming
// thread. Returns FALSE.
gboolean gst_cuda_video_filter_refuse_caps(GstCudaVideoFilter* self, gstvf::ErrorText error);

// Makes the plan again before the next frame. Any thread may call it, without locks.
void gst_cuda_video_filter_settings_changed(GstCudaVideoFilter* self);
