// GstCudaVideoFilter: what the elements of this plugin share.
//
// The base class owns everything that is not one filter's own: the properties cuda-device-id and
// backend, CUDA context and stream, the choice of backend, buffer pools, mapping, staging of frames
// in system memory, metas, interlacing, QoS, controllers, passthrough, errors.
//
// Writing an element on it
// ------------------------
// Derive from GstCudaVideoFilter with G_DEFINE_TYPE and GST_TYPE_CUDA_VIDEO_FILTER. In class_init
//   - install properties (controllable and GST_PARAM_MUTABLE_PLAYING where they may change live);
//   - add pad templates, normally gst_cuda_video_filter_add_templates(klass, nullptr, nullptr);
//   - set make_plan, and is_identity if there are settings that change nothing.
// An element's settings are a params struct of the filter library in its instance:
//   - set_property writes a field with gst_cuda_video_filter_update(self, &self->params.x, value),
//     which locks the object and has the plan made again before the next frame if x changed;
//   - get_property, make_plan and is_identity read them under GST_OBJECT_LOCK.
// The rest is calls of the base class, all from the streaming thread:
//   - is_identity(in, out): whether the settings leave every frame as it is: then buffers pass
//     through untouched. Only asked where both caps have the same format and size.
//   - make_plan(queue, in, out, placement, plan): makes the filter's plan with in.layout and
//     out.layout. Called again after caps or settings changed. For interlaced frames the layouts
//     are those of one field, and there is a plan for each. An error's message is shown to the user
//     as it is. With Placement::in_place the source may also be separate.
// gstcudagaussian.cpp is an example of a filter from frame to frame.
// The properties border, border-color and planes come from planesettings.h.
//
// Elements whose caps differ on their pads (other size, format or tensors) also implement, as for
// any GstBaseTransform, transform_caps, fixate_caps, transform_meta and src_event, and
//   - describe(direction, caps, format) if caps can be other than video/x-raw: fills all of
//     format but its video (format.h has the tensors);
//   - decide_allocation, chaining up, if the default pools do not suit (GstVideoBufferPool, or,
//     where the caps ask for CUDA memory, GstCudaBufferPool for video and tensorpool.h for the
//     rest).
// They are never called in place. Set klass->interlace if fields cannot be filtered one by one, and
// klass->stateful if a plan remembers frames: it is then made again after a flush; where only
// settings changed, make_plan gets the plan before in *plan and can take over what it remembers.
//
// Where frames are filtered
// -------------------------
//   caps          backend  buffers        what happens
//   CUDAMemory    cuda     CUDA           from the input into a buffer of a CUDA pool: the frame is
//                                         read once and written once, and need not be writable
//   CUDAMemory    cpu      CUDA           both mapped to the host by GStreamer
//   system        cpu      system         in place (the buffer is copied first if others share it)
//   system        cuda     system         uploaded, filtered, downloaded into a buffer of a pool
//   system        cuda     CUDA           filtered, downloaded into a buffer of a pool
// What a buffer consists of is looked at, not believed of the caps; every other mixture is staged.
// On CUDA, pools of system memory have pinned memory (pinned.h), both the one offered upstream and
// the one for the output, unless an allocator was named: the GPU copies from and to it while the
// host goes on. Memory that is not pinned goes by way of some that is, and the host copies.
//
// With async-depth n, frames of system memory are pushed when n newer ones have come in; transform
// is then not called. Whatever is serialized with them finds them pushed.
#pragma once

#include <gst/base/gstbasetransform.h>
#include <gst/video/video.h>

#include <memory>

#include "filters/plan.h"
#include "gst/format.h"

G_BEGIN_DECLS

#define GST_TYPE_CUDA_VIDEO_FILTER (gst_cuda_video_filter_get_type())
#define GST_CUDA_VIDEO_FILTER(obj) \
  (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_CUDA_VIDEO_FILTER, GstCudaVideoFilter))
#define GST_CUDA_VIDEO_FILTER_CLASS(klass) \
  (G_TYPE_CHECK_CLASS_CAST((klass), GST_TYPE_CUDA_VIDEO_FILTER, GstCudaVideoFilterClass))
#define GST_CUDA_VIDEO_FILTER_GET_CLASS(obj) \
  (G_TYPE_INSTANCE_GET_CLASS((obj), GST_TYPE_CUDA_VIDEO_FILTER, GstCudaVideoFilterClass))

typedef struct _GstCudaVideoFilterPrivate GstCudaVideoFilterPrivate;

typedef enum {
  GST_CUDA_VIDEO_FILTER_BACKEND_AUTO,
  GST_CUDA_VIDEO_FILTER_BACKEND_CUDA,
  GST_CUDA_VIDEO_FILTER_BACKEND_CPU,
} GstCudaVideoFilterBackend;

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
  gboolean (*is_identity)(GstCudaVideoFilter* self, const gstvf::Format& in,
                          const gstvf::Format& out);
  vf::Status (*make_plan)(GstCudaVideoFilter* self, vf::Queue& queue, const gstvf::Format& in,
                          const gstvf::Format& out, vf::Placement placement,
                          std::unique_ptr<vf::Plan>* plan);
} GstCudaVideoFilterClass;

GType gst_cuda_video_filter_get_type(void);
GType gst_cuda_video_filter_backend_get_type(void);
#define GST_TYPE_CUDA_VIDEO_FILTER_BACKEND (gst_cuda_video_filter_backend_get_type())

G_END_DECLS

// Which formats an element takes, of those that have a layout.
using GstCudaVideoFilterTakes = gboolean (*)(const GstVideoFormatInfo* format);

// video/x-raw caps, CUDA memory first, of the formats that GStreamer can have in each memory. A
// null `takes` takes all.
GstCaps* gst_cuda_video_filter_caps(GstCudaVideoFilterTakes takes);

// Adds the always pads "sink" and "src" for these formats.
void gst_cuda_video_filter_add_templates(GstCudaVideoFilterClass* klass,
                                         GstCudaVideoFilterTakes sink, GstCudaVideoFilterTakes src);

// Whether the CUDA backend filters; once the element was started. From the streaming thread.
gboolean gst_cuda_video_filter_is_on_cuda(GstCudaVideoFilter* self);

// Has the plan made again before the next frame. Any thread.
void gst_cuda_video_filter_settings_changed(GstCudaVideoFilter* self);

// Sets a field of the element's settings. Nothing is made again where it had that value.
template <class T, class V>
void gst_cuda_video_filter_update(GstCudaVideoFilter* self, T* field, V value) {
  GST_OBJECT_LOCK(self);
  const bool changed = *field != T(value);
  *field = T(value);
  GST_OBJECT_UNLOCK(self);
  if (changed) gst_cuda_video_filter_settings_changed(self);
}

// Says, once for each such value, that a property keeps its old value, and why: `rule` completes
// "must be".
void gst_cuda_video_filter_refuse(GstCudaVideoFilter* self, GParamSpec* property, double value,
                                  const char* rule);
