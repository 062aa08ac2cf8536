#include "gst/gstcudavideofilter.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "filters/queue.h"
#include "gst/cudacompat.h"
#include "gst/frame.h"
#include "gst/pinned.h"
#include "gst/tensorpool.h"

GST_DEBUG_CATEGORY_STATIC(gst_cuda_video_filter_debug);
#define GST_CAT_DEFAULT gst_cuda_video_filter_debug

using gstvf::caps_in_cuda;
using gstvf::CurrentContext;
using gstvf::Format;
using gstvf::MappedFrame;
using gstvf::Rows;
using vf::Code;
using vf::Placement;
using vf::Status;

enum { PROP_0, PROP_CUDA_DEVICE_ID, PROP_BACKEND, PROP_ASYNC_DEPTH };

constexpr int kDefaultDevice = -1;
constexpr GstCudaVideoFilterBackend kDefaultBackend = GST_CUDA_VIDEO_FILTER_BACKEND_AUTO;
constexpr int kDefaultAsyncDepth = 0, kMaxAsyncDepth = 16;

// Frames of system memory that this plugin allocates start at multiples of this, for SIMD.
constexpr gsize kAlignment = 64;

namespace {

// A frame on its way through the GPU: all its work is enqueued, and what it needs is held.
struct Flight {
  MappedFrame source, destination;
  gstvf::Stage from, to;  // device memory for a side that is in host memory
  bool staged_from = false, staged_to = false;
  bool wait = false;              // for the work, before anybody else may see the buffers
  GstMemory* out_cuda = nullptr;  // destination's memory, where it is CUDA's
  std::unique_ptr<vf::Event> uploaded, filtered, done;
  // References, while other frames come.
  GstBuffer *in = nullptr, *out = nullptr;

  void release() {
    source.unmap();
    destination.unmap();
    gst_clear_buffer(&in);
    gst_clear_buffer(&out);
  }
};

// Everything that is made for one backend, caps and settings: destroyed as one, queues last.
struct Work {
  std::unique_ptr<vf::Queue> queue;
  // Frames in host memory are copied on queues of their own where they overlap with others; else
  // these are null and `queue` does it.
  std::unique_ptr<vf::Queue> upload, download;
  std::unique_ptr<vf::Plan> plan[2][3];  // by placement and rows
  bool stale[2][3] = {};                 // a plan of settings that have changed since
  // A ring: of `seats` flights, `flying` from `oldest` on are in the air.
  std::unique_ptr<Flight[]> flights;
  size_t seats = 0, oldest = 0, flying = 0;

  vf::Queue& uploads() { return upload ? *upload : *queue; }
  vf::Queue& downloads() { return download ? *download : *queue; }
  void drop_plans() {
    for (auto& by_rows : plan)
      for (auto& p : by_rows) p.reset();
  }
  // The host then has all buffers to itself.
  Status sync() {
    Status status;
    for (vf::Queue* q : {upload.get(), queue.get(), download.get()})
      if (q)
        if (const Status s = q->sync(); status.ok()) status = s;
    return status;
  }
};

}  // namespace

struct _GstCudaVideoFilterPrivate {
  // Under the object's lock.
  int device = kDefaultDevice;
  GstCudaVideoFilterBackend backend = kDefaultBackend;
  int async_depth = kDefaultAsyncDepth;
  GstClockTime latency = 0;
  double refused_value = 0;
  const GParamSpec* refused_property = nullptr;

  std::atomic<bool> settings_changed{false};

  // Changed by the streaming thread and read by queries of others: under the object's lock. Before
  // start, set_context fills it in; while `seeker` looks for one, what it looks at.
  GstCudaContext* context = nullptr;
  GstCudaContext** sought = nullptr;
  GThread* seeker = nullptr;

  // The streaming thread's, or start's and stop's.
  GstCudaVideoFilterBackend wanted = kDefaultBackend;  // backend at start
  bool on_cuda = false;
  size_t depth = 0;         // async-depth at start
  size_t in_flight = 0;     // frames that may wait in the element, with these caps
  bool after_drop = false;  // the frame before the next was dropped as too late
  bool negotiated = false, same_format = false, cuda_caps = false;
  Format in, out;
  GstAllocator* pinned = nullptr;       // of frames in host memory, on CUDA
  GstCudaStream* stream = nullptr;      // what the queue runs on; null: a stream of the queue's own
  GstCudaStream* own_stream = nullptr;  // used unless downstream has one
  std::unique_ptr<Work> work;
};

#define gst_cuda_video_filter_parent_class parent_class
G_DEFINE_ABSTRACT_TYPE_WITH_CODE(GstCudaVideoFilter, gst_cuda_video_filter, GST_TYPE_BASE_TRANSFORM,
                                 G_ADD_PRIVATE(GstCudaVideoFilter);
                                 GST_DEBUG_CATEGORY_INIT(gst_cuda_video_filter_debug,
                                                         "cudavideofilter", 0,
                                                         "base class of the CUDA video filters"))

GType gst_cuda_video_filter_backend_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {GST_CUDA_VIDEO_FILTER_BACKEND_AUTO, "CUDA where a device works, else the CPU", "auto"},
      {GST_CUDA_VIDEO_FILTER_BACKEND_CUDA, "CUDA, or fail", "cuda"},
      {GST_CUDA_VIDEO_FILTER_BACKEND_CPU, "CPU (frames in CUDA memory pass through the host)",
       "cpu"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_enum_register_static("GstCudaVideoFilterBackend", values));
  return type;
}

// Caps

static GstCaps* caps_of(GstCudaVideoFilterTakes takes, bool cuda) {
  GValue formats = G_VALUE_INIT, name = G_VALUE_INIT;
  g_value_init(&formats, GST_TYPE_LIST);
  g_value_init(&name, G_TYPE_STRING);
  guint known = 0;
  const GstVideoFormat* const raw = gst_video_formats_raw(&known);
  // Theirs go from the largest to the smallest; the common ones have the lowest numbers.
  std::vector<GstVideoFormat> all(raw, raw + known);
  std::sort(all.begin(), all.end());
  for (const GstVideoFormat format : all) {
    if (!gstvf::has_layout(format) || (cuda && !gstvf::cuda_memory_has(format))) continue;
    if (takes && !takes(gst_video_format_get_info(format))) continue;
    g_value_set_static_string(&name, gst_video_format_to_string(format));
    gst_value_list_append_value(&formats, &name);
  }
  GstCaps* caps = nullptr;
  if (gst_value_list_get_size(&formats)) {
    caps = gst_caps_new_simple("video/x-raw", "width", GST_TYPE_INT_RANGE, 1, G_MAXINT, "height",
                               GST_TYPE_INT_RANGE, 1, G_MAXINT, "framerate",
                               GST_TYPE_FRACTION_RANGE, 0, 1, G_MAXINT, 1, nullptr);
    gst_caps_set_value(caps, "format", &formats);
    if (cuda) gstvf::set_caps_in_cuda(caps);
  }
  g_value_unset(&formats);
  g_value_unset(&name);
  return caps ? caps : gst_caps_new_empty();
}

GstCaps* gst_cuda_video_filter_caps(GstCudaVideoFilterTakes takes) {
  GstCaps* caps = caps_of(takes, true);
  gst_caps_append(caps, caps_of(takes, false));
  return caps;
}

void gst_cuda_video_filter_add_templates(GstCudaVideoFilterClass* klass,
                                         GstCudaVideoFilterTakes sink,
                                         GstCudaVideoFilterTakes src) {
  auto add = [&](const char* name, GstPadDirection direction, GstCudaVideoFilterTakes takes) {
    GstCaps* caps = gst_cuda_video_filter_caps(takes);
    gst_element_class_add_pad_template(GST_ELEMENT_CLASS(klass),
                                       gst_pad_template_new(name, direction, GST_PAD_ALWAYS, caps));
    gst_caps_unref(caps);
  };
  add("sink", GST_PAD_SINK, sink);
  add("src", GST_PAD_SRC, src);
}

static gboolean gst_cuda_video_filter_describe(GstCudaVideoFilter*, GstPadDirection, GstCaps* caps,
                                               Format* format) {
  GstVideoInfo info;
  return gst_video_info_from_caps(&info, caps) &&
         gstvf::make_format(info, caps_in_cuda(caps), format);
}

static bool describe(GstCudaVideoFilter* self, GstPadDirection direction, GstCaps* caps,
                     Format* format) {
  return GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->describe(self, direction, caps, format);
}

// Errors

static void post_error(GstCudaVideoFilter* self, const Status& status) {
  switch (status.code()) {
    case Code::ok:
      break;
    case Code::invalid_argument:
      GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS, ("Cannot filter: %s.", status.message()),
                        (nullptr));
      break;
    case Code::unsupported:
      GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS, ("Cannot filter: %s.", status.message()),
                        ("backend=cpu or backend=auto may be able to"));
      break;
    case Code::out_of_memory:
      GST_ELEMENT_ERROR(self, RESOURCE, NO_SPACE_LEFT,
                        ("Out of memory: %s. Smaller frames, fewer queued buffers or backend=cpu "
                         "need less.",
                         status.message()),
                        (nullptr));
      break;
    case Code::no_device:
      GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND,
                        ("No usable CUDA device: %s. Use backend=cpu or backend=auto to filter on "
                         "the CPU.",
                         status.message()),
                        (nullptr));
      break;
    case Code::device_error:
      GST_ELEMENT_ERROR(
          self, RESOURCE, FAILED,
          ("CUDA failed: %s. Set the pipeline to READY and to PLAYING to start again.",
           status.message()),
          (nullptr));
      break;
  }
}

// Resources

// Waits for the frames in flight and drops them.
static void discard_flights(GstCudaVideoFilterPrivate* priv) {
  Work* work = priv->work.get();
  if (!work || !work->flying) return;
  CurrentContext current(priv->context);
  // What went wrong in them is of no interest any more.
  static_cast<void>(work->sync());
  for (size_t i = 0; i < work->seats; i++) work->flights[i].release();
  work->flying = 0;
}

static void drop_work(GstCudaVideoFilterPrivate* priv) {
  discard_flights(priv);
  CurrentContext current(priv->context);
  priv->work.reset();
}

static void drop_plans(GstCudaVideoFilterPrivate* priv) {
  if (!priv->work) return;
  CurrentContext current(priv->context);
  priv->work->drop_plans();
}

// Has plans made again for other settings. One that remembers frames is kept until then.
static void renew_plans(GstCudaVideoFilter* self) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (!GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->stateful)
    drop_plans(priv);
  else if (priv->work)
    std::fill_n(&priv->work->stale[0][0], 6, true);
}

static GstCudaContext* ref(GstCudaContext* context) {
  return context ? reinterpret_cast<GstCudaContext*>(gst_object_ref(context)) : nullptr;
}

static GstCudaContext* ref_context(GstCudaVideoFilter* self) {
  GST_OBJECT_LOCK(self);
  GstCudaContext* context = ref(self->priv->context);
  GST_OBJECT_UNLOCK(self);
  return context;
}

// The property cuda-device-id.
static int device_wanted(GstCudaVideoFilter* self) {
  GST_OBJECT_LOCK(self);
  const int device = self->priv->device;
  GST_OBJECT_UNLOCK(self);
  return device;
}

static void set_cuda_context(GstCudaVideoFilter* self, GstCudaContext* context) {
  GST_OBJECT_LOCK(self);
  GstCudaContext* old = self->priv->context;
  self->priv->context = context;
  GST_OBJECT_UNLOCK(self);
  if (old) gst_object_unref(old);
}

// What belongs to a context besides the work.
static void drop_streams(GstCudaVideoFilterPrivate* priv) {
  gstvf::stream_clear(&priv->stream);
  gstvf::stream_clear(&priv->own_stream);
  gst_clear_object(&priv->pinned);
}

// The queue, made if it is not there. On CUDA the context is current.
static Status ensure_queue(GstCudaVideoFilterPrivate* priv) {
  if (priv->work && priv->work->queue) return {};
  std::unique_ptr<Work> work(new (std::nothrow) Work);
  if (!work) return Status::error(Code::out_of_memory, "out of host memory");
  vf::QueueOptions options;
  options.backend = priv->on_cuda ? vf::Backend::cuda : vf::Backend::cpu;
  if (priv->on_cuda && !priv->stream) {
    if (!priv->own_stream) priv->own_stream = gstvf::stream_new(priv->context);
    priv->stream = gstvf::stream_ref(priv->own_stream);
  }
  options.stream = gstvf::stream_handle(priv->stream);
  VF_TRY(vf::make_queue(options, &work->queue));
  priv->work = std::move(work);
  return {};
}

// What carries frames through the GPU, made if it is not there. The context is current.
static Status ensure_flights(GstCudaVideoFilterPrivate* priv) {
  VF_TRY(ensure_queue(priv));
  Work& work = *priv->work;
  if (work.flights) return {};
  if (priv->in_flight && !work.upload) {
    vf::QueueOptions options;
    options.backend = vf::Backend::cuda;
    VF_TRY(vf::make_queue(options, &work.upload));
    VF_TRY(vf::make_queue(options, &work.download));
  }
  work.seats = priv->in_flight + 1;
  work.flights.reset(new (std::nothrow) Flight[work.seats]);
  if (!work.flights) return Status::error(Code::out_of_memory, "out of host memory");
  return {};
}

// Finds the pipeline's context, or makes one. Neighbours and the application answer by set_context.
static bool find_context(GstCudaVideoFilter* self, int device) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  GstCudaContext* context = ref_context(self);
  GST_OBJECT_LOCK(self);
  priv->sought = &context;
  priv->seeker = g_thread_self();
  GST_OBJECT_UNLOCK(self);
  const bool found = gstvf::ensure_context(GST_ELEMENT(self), device, &context) && context;
  GST_OBJECT_LOCK(self);
  priv->sought = nullptr;
  priv->seeker = nullptr;
  GST_OBJECT_UNLOCK(self);
  if (found) set_cuda_context(self, context);
  return found;
}

// Finds or makes a context, and tries it.
static Status open_cuda(GstCudaVideoFilter* self, int device) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (const char* why = gstvf::why_no_cuda()) return Status::error(Code::no_device, "%s", why);
  if (!find_context(self, device))
    return Status::error(Code::no_device, "no CUDA context on cuda-device-id %d", device);
  priv->on_cuda = true;
  Status status;
  for (int attempt = 0; attempt < 2; attempt++) {
    CurrentContext current(priv->context);
    status = current ? ensure_queue(priv)
                     : Status::error(Code::device_error, "the CUDA context cannot be used");
    if (status.ok() || attempt) break;
    // A context in which a kernel failed stays broken, and the pipeline remembers it.
    GstCudaContext* context = gstvf::new_context(GST_ELEMENT(self), device);
    if (!context) break;
    drop_streams(priv);
    set_cuda_context(self, context);
  }
  if (!status.ok()) {
    priv->on_cuda = false;
    drop_work(priv);
    drop_streams(priv);
    set_cuda_context(self, nullptr);
  }
  return status;
}

static void use_cpu_instead(GstCudaVideoFilter* self, const Status& why) {
  drop_work(self->priv);
  self->priv->on_cuda = false;
  self->priv->in_flight = 0;
  GST_ELEMENT_INFO(self, RESOURCE, NOT_FOUND, ("Filtering on the CPU: %s.", why.message()),
                   (nullptr));
}

static gboolean gst_cuda_video_filter_start(GstBaseTransform* trans) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  GST_OBJECT_LOCK(self);
  priv->wanted = priv->backend;
  const int device = priv->device;
  priv->depth = size_t(priv->async_depth);
  priv->latency = 0;
  GST_OBJECT_UNLOCK(self);
  priv->on_cuda = false;
  priv->negotiated = false;
  priv->in_flight = 0;
  priv->after_drop = false;
  if (priv->wanted == GST_CUDA_VIDEO_FILTER_BACKEND_CPU) return TRUE;
  const Status status = open_cuda(self, device);
  if (status.ok()) return TRUE;
  if (priv->wanted == GST_CUDA_VIDEO_FILTER_BACKEND_CUDA) {
    post_error(self, status);
    return FALSE;
  }
  use_cpu_instead(self, status);
  return TRUE;
}

static gboolean gst_cuda_video_filter_stop(GstBaseTransform* trans) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  drop_work(priv);
  drop_streams(priv);
  set_cuda_context(self, nullptr);
  priv->on_cuda = priv->negotiated = false;
  return TRUE;
}

// Pushes the frames in flight.
static GstFlowReturn drain(GstCudaVideoFilter* self);

// Follows the incoming memory to its context, unless the user asked for another device. Memory of
// another device is filtered by way of the host.
static void adopt_context(GstCudaVideoFilter* self, GstBuffer* buffer) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  // The CPU backend needs a context too, for CUDA memory to put its frames in.
  if (!priv->on_cuda && !priv->cuda_caps) return;
  GstMemory* memory = gstvf::cuda_memory(buffer);
  if (!memory) return;
  GstCudaContext* context = gstvf::memory_context(memory);
  if (context == priv->context) return;
  const int device = device_wanted(self);
  if (device >= 0 && guint(device) != gstvf::context_device(context)) return;
  GST_INFO_OBJECT(self, "following the frames to %" GST_PTR_FORMAT, context);
  drain(self);
  drop_work(priv);
  drop_streams(priv);
  set_cuda_context(self, ref(context));
  // Downstream's pool may be of the old one.
  gst_base_transform_reconfigure_src(GST_BASE_TRANSFORM(self));
}

static void gst_cuda_video_filter_set_context(GstElement* element, GstContext* message) {
  auto* self = GST_CUDA_VIDEO_FILTER(element);
  GST_OBJECT_LOCK(self);
  const int device = self->priv->device;
  GstCudaContext** sought = self->priv->seeker == g_thread_self() ? self->priv->sought : nullptr;
  GST_OBJECT_UNLOCK(self);
  if (sought) {
    gstvf::handle_set_context(element, message, device, sought);
  } else {
    GstCudaContext* context = ref_context(self);
    GstCudaContext* const before = context;
    gstvf::handle_set_context(element, message, device, &context);
    if (!before && context)
      set_cuda_context(self, context);
    else if (context)
      gst_object_unref(context);
  }
  GST_ELEMENT_CLASS(parent_class)->set_context(element, message);
}

static gboolean gst_cuda_video_filter_query(GstBaseTransform* trans, GstPadDirection direction,
                                            GstQuery* query) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  if (GST_QUERY_TYPE(query) == GST_QUERY_CONTEXT) {
    GstCudaContext* context = ref_context(self);
    const bool answered = gstvf::handle_context_query(GST_ELEMENT(self), query, context);
    if (context) gst_object_unref(context);
    if (answered) return TRUE;
  }
  // The answer is for a stream without the frames that are still here.
  if (direction == GST_PAD_SINK && GST_QUERY_IS_SERIALIZED(query)) drain(self);
  if (!GST_BASE_TRANSFORM_CLASS(parent_class)->query(trans, direction, query)) return FALSE;
  if (direction == GST_PAD_SRC && GST_QUERY_TYPE(query) == GST_QUERY_LATENCY) {
    gboolean live;
    GstClockTime min, max;
    gst_query_parse_latency(query, &live, &min, &max);
    GST_OBJECT_LOCK(self);
    const GstClockTime latency = self->priv->latency;
    GST_OBJECT_UNLOCK(self);
    // What is held here is also room for upstream's frames.
    gst_query_set_latency(query, live, min + latency,
                          GST_CLOCK_TIME_IS_VALID(max) ? max + latency : max);
  }
  return TRUE;
}

// Negotiation

static gboolean gst_cuda_video_filter_get_unit_size(GstBaseTransform* trans, GstCaps* caps,
                                                    gsize* size) {
  Format format;
  GstVideoInfo info;
  // Which pad the caps are for is not said; video is the same on both.
  if (gst_video_info_from_caps(&info, caps)) {
    *size = GST_VIDEO_INFO_SIZE(&info);
    return TRUE;
  }
  if (!describe(GST_CUDA_VIDEO_FILTER(trans), GST_PAD_SRC, caps, &format)) return FALSE;
  *size = format.size;
  return TRUE;
}

// Buffers may be padded: their size says nothing, the other side's caps do.
static gboolean gst_cuda_video_filter_transform_size(GstBaseTransform* trans, GstPadDirection,
                                                     GstCaps*, gsize, GstCaps* other, gsize* size) {
  return gst_cuda_video_filter_get_unit_size(trans, other, size);
}

// Why frames of these caps cannot be filtered; null if they can.
static const char* refusal(GstCudaVideoFilter* self, const Format& format) {
  // GStreamer's pools count bytes in 32 bits.
  if (format.size > G_MAXUINT)
    return "frames and tensors of 4 GiB and more are not supported; use smaller ones";
  if (!format.video) return nullptr;
  const GstVideoInfo* info = &*format.video;
  if (GST_VIDEO_INFO_INTERLACE_MODE(info) != GST_VIDEO_INTERLACE_MODE_PROGRESSIVE &&
      GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->interlace == GST_CUDA_VIDEO_FILTER_INTERLACE_REFUSE)
    return "this element does not take interlaced video; put deinterlace in front of it";
  switch (GST_VIDEO_INFO_INTERLACE_MODE(info)) {
    case GST_VIDEO_INTERLACE_MODE_FIELDS:
    case GST_VIDEO_INTERLACE_MODE_ALTERNATE:
      return "interlace-mode fields and alternate are not supported, interleaved and mixed are; "
             "put "
             "deinterlace in front";
    default:
      break;
  }
  if (GST_VIDEO_INFO_MULTIVIEW_MODE(info) == GST_VIDEO_MULTIVIEW_MODE_SEPARATED &&
      GST_VIDEO_INFO_VIEWS(info) > 1)
    return "several views in one buffer are not supported; use one buffer for each view";
  return nullptr;
}

static bool is_identity(GstCudaVideoFilter* self) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  return priv->same_format && klass->is_identity && klass->is_identity(self, priv->in, priv->out);
}

// Frames that the element may keep back while newer ones come in.
static void set_in_flight(GstCudaVideoFilter* self, bool host_memory) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  const GstVideoInfo& info = *priv->in.video;
  // Between CUDA memory and CUDA memory there is nothing to overlap; without a frame rate no
  // latency could be named; and who pulls wants the frame that he asked for.
  const bool may_wait = priv->on_cuda && host_memory && info.fps_n > 0 && info.fps_d > 0 &&
                        GST_PAD_MODE(GST_BASE_TRANSFORM_SRC_PAD(self)) != GST_PAD_MODE_PULL;
  priv->in_flight = may_wait ? priv->depth : 0;
  const GstClockTime latency =
      priv->in_flight
          ? gst_util_uint64_scale_ceil(priv->in_flight * GST_SECOND, info.fps_d, info.fps_n)
          : 0;
  GST_OBJECT_LOCK(self);
  const bool changed = latency != priv->latency;
  priv->latency = latency;
  GST_OBJECT_UNLOCK(self);
  if (changed)
    gst_element_post_message(GST_ELEMENT(self), gst_message_new_latency(GST_OBJECT(self)));
}

static gboolean gst_cuda_video_filter_set_caps(GstBaseTransform* trans, GstCaps* incaps,
                                               GstCaps* outcaps) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  // Before downstream learns of the new caps.
  drain(self);
  // Plans and staging refer to the old formats.
  if (priv->work) {
    CurrentContext current(priv->context);
    priv->work->drop_plans();
    priv->work->flights.reset();
    priv->work->oldest = 0;
  }
  priv->negotiated = false;
  Format in, out;
  if (!describe(self, GST_PAD_SINK, incaps, &in) || !describe(self, GST_PAD_SRC, outcaps, &out)) {
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("These caps cannot be filtered."),
                      ("in %" GST_PTR_FORMAT ", out %" GST_PTR_FORMAT, incaps, outcaps));
    return FALSE;
  }
  const char* why = refusal(self, in);
  if (!why) why = refusal(self, out);
  if (why) {
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("Cannot filter this video: %s.", why),
                      ("in %" GST_PTR_FORMAT ", out %" GST_PTR_FORMAT, incaps, outcaps));
    return FALSE;
  }
  if (const Status valid = vf::validate(in.layout); !valid.ok()) {
    post_error(self, valid);
    return FALSE;
  }
  priv->in = in;
  priv->out = out;
  priv->same_format = gst_caps_is_equal(incaps, outcaps);
  priv->cuda_caps = caps_in_cuda(outcaps);
  priv->negotiated = true;
  priv->settings_changed = false;
  set_in_flight(self, !caps_in_cuda(incaps) || !priv->cuda_caps);
  gst_base_transform_set_in_place(trans, priv->same_format && !priv->cuda_caps && !priv->on_cuda);
  gst_base_transform_set_passthrough(trans, is_identity(self));
  return TRUE;
}

// Configures `pool` (full) for frames of `caps`, in memory of the query's allocator if that is
// given; null if it cannot be.
static GstBufferPool* configure_pool(GstCudaVideoFilter* self, GstBufferPool* pool, GstCaps* caps,
                                     GstCudaStream* stream, guint* size, guint min, guint max,
                                     GstQuery* query = nullptr) {
  GstStructure* config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  gst_buffer_pool_config_set_params(config, caps, *size, min, max);
  gstvf::pool_config_set_stream(config, stream);
  if (query) {
    GstAllocator* allocator = nullptr;
    GstAllocationParams params;
    gst_query_parse_nth_allocation_param(query, 0, &allocator, &params);
    gst_buffer_pool_config_set_allocator(config, allocator, &params);
    if (allocator) gst_object_unref(allocator);
  }
  if (!gst_buffer_pool_set_config(pool, config)) {
    GST_WARNING_OBJECT(self, "%" GST_PTR_FORMAT " cannot be configured", pool);
    gst_object_unref(pool);
    return nullptr;
  }
  // CUDA pools choose the size.
  config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_get_params(config, nullptr, size, nullptr, nullptr);
  gst_structure_free(config);
  return pool;
}

// Asks for memory that suits the backend, unless an allocator is named already.
static void set_allocation_params(GstCudaVideoFilter* self, GstQuery* query) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  GstAllocator* allocator = nullptr;
  GstAllocationParams params;
  gst_allocation_params_init(&params);
  params.align = kAlignment - 1;
  const bool given = gst_query_get_n_allocation_params(query) > 0;
  if (given) gst_query_parse_nth_allocation_param(query, 0, &allocator, &params);
  if (!allocator && priv->on_cuda) {
    if (!priv->pinned) priv->pinned = gstvf::pinned_allocator_new(priv->context);
    allocator = GST_ALLOCATOR_CAST(gst_object_ref(priv->pinned));
  }
  if (given)
    gst_query_set_nth_allocation_param(query, 0, allocator, &params);
  else
    gst_query_add_allocation_param(query, allocator, &params);
  if (allocator) gst_object_unref(allocator);
}

static gboolean gst_cuda_video_filter_propose_allocation(GstBaseTransform* trans,
                                                         GstQuery* decide_query, GstQuery* query) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (!GST_BASE_TRANSFORM_CLASS(parent_class)->propose_allocation(trans, decide_query, query))
    return FALSE;
  // In place and in passthrough, downstream has answered.
  if (!decide_query) return TRUE;

  GstCaps* caps;
  gst_query_parse_allocation(query, &caps, nullptr);
  GstVideoInfo info;
  if (!caps || !gst_video_info_from_caps(&info, caps)) return FALSE;
  if (gst_query_get_n_allocation_pools(query) == 0) {
    guint size = GST_VIDEO_INFO_SIZE(&info);
    // Frames in flight are held.
    const guint min = priv->in_flight ? guint(priv->in_flight) + 1 : 0;
    GstBufferPool* pool = nullptr;
    if (caps_in_cuda(caps)) {
      GstCudaContext* context = ref_context(self);
      if (context) {
        pool =
            configure_pool(self, gstvf::cuda_pool_new(context), caps, priv->stream, &size, min, 0);
        gst_object_unref(context);
      }
    } else {
      set_allocation_params(self, query);
      pool = configure_pool(self, gst_video_buffer_pool_new(), caps, nullptr, &size, min, 0, query);
    }
    if (pool) {
      gst_query_add_allocation_pool(query, pool, size, min, 0);
      gst_object_unref(pool);
    }
  }
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  return TRUE;
}

// Moves the queue to downstream's stream if it has one, else to our own.
static void choose_stream(GstCudaVideoFilter* self, GstBufferPool* pool) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  GstStructure* config = gst_buffer_pool_get_config(pool);
  GstCudaStream* stream = gstvf::pool_config_stream(config);
  gst_structure_free(config);
  if (!stream) {
    if (!priv->own_stream) priv->own_stream = gstvf::stream_new(priv->context);
    stream = gstvf::stream_ref(priv->own_stream);
  }
  if (stream != priv->stream) {
    drain(self);
    drop_work(priv);
  }
  gstvf::stream_clear(&priv->stream);
  priv->stream = stream;
}

gboolean gst_cuda_video_filter_is_on_cuda(GstCudaVideoFilter* self) {
  return self->priv->on_cuda;
}

// A pool for what leaves the element in CUDA memory.
static GstBufferPool* new_cuda_pool(GstCudaVideoFilterPrivate* priv) {
  return priv->out.is_video() ? gstvf::cuda_pool_new(priv->context)
                              : gstvf::tensor_pool_new(priv->context);
}

static gboolean gst_cuda_video_filter_decide_allocation(GstBaseTransform* trans, GstQuery* query) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  GstCaps* caps;
  gst_query_parse_allocation(query, &caps, nullptr);
  if (!caps) return FALSE;
  GstBufferPool* pool = nullptr;
  guint size = guint(priv->out.size), min = 0, max = 0;
  const bool offered = gst_query_get_n_allocation_pools(query) > 0;
  if (offered) gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);
  if (priv->in_flight) {
    // Frames in flight are held, beside those that downstream holds.
    min += guint(priv->in_flight) + 1;
    if (max && max < min) {
      gst_clear_object(&pool);
      max = 0;
    }
  }

  if (priv->cuda_caps) {
    // The CPU backend too allocates CUDA memory in one.
    if (!priv->context && !find_context(self, device_wanted(self))) {
      if (pool) gst_object_unref(pool);
      GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND,
                        ("No CUDA device for frames in CUDA memory; use system memory."),
                        (nullptr));
      return FALSE;
    }
    if (pool && !(priv->out.is_video() && gstvf::is_cuda_pool_of(pool, priv->context)))
      gst_clear_object(&pool);
    if (!pool) pool = new_cuda_pool(priv);
    if (priv->on_cuda) choose_stream(self, pool);
    pool = configure_pool(self, pool, caps, priv->stream, &size, min, max);
    if (!pool)
      pool = configure_pool(self, new_cuda_pool(priv), caps, priv->stream, &size, min, max);
  } else if (priv->out.is_video() || priv->on_cuda) {
    set_allocation_params(self, query);
    if (!pool) pool = priv->out.is_video() ? gst_video_buffer_pool_new() : gst_buffer_pool_new();
    pool = configure_pool(self, pool, caps, nullptr, &size, min, max, query);
  }
  if (pool) {
    if (offered)
      gst_query_set_nth_allocation_pool(query, 0, pool, size, min, max);
    else
      gst_query_add_allocation_pool(query, pool, size, min, max);
    gst_object_unref(pool);
  } else if (priv->cuda_caps) {
    GST_ELEMENT_ERROR(self, RESOURCE, NO_SPACE_LEFT,
                      ("No frame of CUDA memory could be allocated."),
                      ("caps %" GST_PTR_FORMAT, caps));
    return FALSE;
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->decide_allocation(trans, query);
}

// Metas: what describes the picture still describes it. Those of the memory never get here.

static gboolean gst_cuda_video_filter_filter_meta(GstBaseTransform*, GstQuery*, GType,
                                                  const GstStructure*) {
  return TRUE;
}

static gboolean gst_cuda_video_filter_transform_meta(GstBaseTransform* trans, GstBuffer* outbuf,
                                                     GstMeta* meta, GstBuffer* inbuf) {
  GstCudaVideoFilterPrivate* priv = GST_CUDA_VIDEO_FILTER(trans)->priv;
  const Format &in = priv->in, &out = priv->out;
  if (!out.is_video() || in.width != out.width || in.height != out.height)
    return GST_BASE_TRANSFORM_CLASS(parent_class)->transform_meta(trans, outbuf, meta, inbuf);
  // A crop that says which part of a larger memory the frame is: only that part is in `outbuf`.
  return meta->info->api != GST_VIDEO_CROP_META_API_TYPE ||
         !gstvf::is_part(gst_buffer_get_video_meta(inbuf), in.width, in.height);
}

// Frames

static Rows rows_of(GstCudaVideoFilter* self, GstBuffer* buffer) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->interlace != GST_CUDA_VIDEO_FILTER_INTERLACE_FIELDS)
    return Rows::all;
  const GstVideoInterlaceMode mode = GST_VIDEO_INFO_INTERLACE_MODE(&*priv->in.video);
  const bool interlaced = mode == GST_VIDEO_INTERLACE_MODE_INTERLEAVED ||
                          (mode == GST_VIDEO_INTERLACE_MODE_MIXED &&
                           GST_BUFFER_FLAG_IS_SET(buffer, GST_VIDEO_BUFFER_FLAG_INTERLACED));
  vf::Layout field;
  // A frame of one row has one field.
  if (!interlaced || !gstvf::field_layout(priv->in, true, &field) ||
      !gstvf::field_layout(priv->out, true, &field))
    return Rows::all;
  return Rows::top_field;
}

static Status plan_for(GstCudaVideoFilter* self, Rows rows, Placement placement, vf::Plan** out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  auto& plan = priv->work->plan[int(placement)][int(rows)];
  bool& stale = priv->work->stale[int(placement)][int(rows)];
  if (!plan || stale) {
    Format in = priv->in, dst = priv->out;
    if (rows != Rows::all) {
      gstvf::field_layout(priv->in, rows == Rows::bottom_field, &in.layout);
      gstvf::field_layout(priv->out, rows == Rows::bottom_field, &dst.layout);
    }
    GST_DEBUG_OBJECT(self, "making a plan for %dx%d", in.layout.plane[0].width,
                     in.layout.plane[0].height);
    VF_TRY(GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->make_plan(self, *priv->work->queue, in, dst,
                                                            placement, &plan));
    stale = false;
  }
  *out = plan.get();
  return {};
}

static Status run_plans(GstCudaVideoFilter* self, GstBuffer* in, Placement placement,
                        const Flight& f) {
  const auto run = [&](Rows rows) -> Status {
    vf::Plan* plan = nullptr;
    VF_TRY(plan_for(self, rows, placement, &plan));
    const vf::Image src = f.staged_from ? f.from.image(rows) : f.source.image(rows);
    if (placement == Placement::in_place) return plan->run(src, src);
    return plan->run(src, f.staged_to ? f.to.image(rows) : f.destination.image(rows));
  };
  if (rows_of(self, in) == Rows::all) return run(Rows::all);
  VF_TRY(run(Rows::top_field));
  return run(Rows::bottom_field);
}

static Status filter_on_cpu(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  VF_TRY(ensure_queue(priv));
  Flight f;
  const bool in_place = in == out;
  VF_TRY(f.source.map(priv->in, in, in_place ? GST_MAP_READWRITE : GST_MAP_READ, false));
  if (!in_place) VF_TRY(f.destination.map(priv->out, out, GST_MAP_WRITE, false));
  VF_TRY(run_plans(self, in, in_place ? Placement::in_place : Placement::separate, f));
  return priv->work->queue->sync();
}

// What is enqueued on `second` from now on follows what is on `first`.
static Status follow(vf::Queue& first, vf::Queue& second, std::unique_ptr<vf::Event>* event) {
  if (&first == &second) return {};
  VF_TRY(first.record(event));
  return second.wait_for(**event);
}

// Enqueues all the work of a frame. The context is current.
static Status launch(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out, Flight& f) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  Work& work = *priv->work;
  // Memory of another context is treated as the host's: GStreamer downloads it when it is mapped.
  auto ours = [&](GstBuffer* buffer) {
    GstMemory* memory = gstvf::cuda_memory(buffer);
    return memory && gstvf::memory_context(memory) == priv->context ? memory : nullptr;
  };
  auto on_our_stream = [&](GstMemory* memory) {
    return priv->stream && gstvf::memory_stream(memory) == priv->stream;
  };
  GstMemory* in_cuda = ours(in);
  f.out_cuda = ours(out);
  f.staged_from = !in_cuda;
  f.staged_to = !f.out_cuda;
  // What upstream enqueued on our own stream runs before us anyway. On another, our reading must
  // also be over before upstream has the buffer back.
  f.wait = !in_cuda || !f.out_cuda || !on_our_stream(in_cuda) || !on_our_stream(f.out_cuda);
  if (in_cuda && !on_our_stream(in_cuda)) gstvf::memory_sync(in_cuda);

  VF_TRY(f.source.map(priv->in, in, GST_MAP_READ, in_cuda != nullptr));
  VF_TRY(f.destination.map(priv->out, out, GST_MAP_WRITE, f.out_cuda != nullptr));
  if (f.staged_from) {
    if (!f.from.ready()) VF_TRY(f.from.prepare(work.uploads(), priv->in));
    VF_TRY(f.from.upload(f.source));
    VF_TRY(follow(work.uploads(), *work.queue, &f.uploaded));
  }
  if (f.staged_to && !f.to.ready()) VF_TRY(f.to.prepare(work.downloads(), priv->out));
  VF_TRY(run_plans(self, in, Placement::separate, f));
  if (f.staged_to) {
    VF_TRY(follow(*work.queue, work.downloads(), &f.filtered));
    VF_TRY(f.to.download(f.destination));
  }
  return {};
}

// The queue whose work on a frame is the last.
static vf::Queue& last_queue(Work& work, const Flight& f) {
  return f.staged_to ? work.downloads() : *work.queue;
}

// Hands over the result of a frame whose work is done, or need not be waited for.
static void land(Flight& f) {
  if (f.staged_to) f.to.finish_download(f.destination);
  if (f.wait && f.out_cuda) gstvf::memory_is_synced(f.out_cuda);
}

// Whether the CPU is to do what CUDA cannot.
static bool cpu_may_do(const GstCudaVideoFilterPrivate* priv, const Status& status) {
  return status.code() == Code::unsupported && priv->wanted == GST_CUDA_VIDEO_FILTER_BACKEND_AUTO;
}

static Status filter_on_cuda(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  CurrentContext current(priv->context);
  if (!current) return Status::error(Code::device_error, "the CUDA context cannot be used");
  VF_TRY(ensure_flights(priv));
  Work& work = *priv->work;
  Flight& f = work.flights[work.oldest];
  Status status = launch(self, in, out, f);
  if (!status.ok())
    static_cast<void>(work.sync());  // what was enqueued still uses the buffers
  else if (f.wait)
    status = last_queue(work, f).sync();
  if (status.ok()) land(f);
  f.release();
  return status;
}

// Frames in flight: launched while those before them are still on their way, and pushed when as
// many newer ones are behind them as may be. Uploads, filtering and downloads each have a queue, so
// that those of neighbouring frames run at the same time.

static GstFlowReturn fail(GstCudaVideoFilter* self, const Status& status) {
  post_error(self, status);
  drop_work(self->priv);
  return GST_FLOW_ERROR;
}

// Launches a frame and takes its buffers; leaves them alone where that fails.
static Status take_off(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  CurrentContext current(priv->context);
  if (!current) return Status::error(Code::device_error, "the CUDA context cannot be used");
  VF_TRY(ensure_flights(priv));
  Work& work = *priv->work;
  Flight& f = work.flights[(work.oldest + work.flying) % work.seats];
  Status status = launch(self, in, out, f);
  if (status.ok()) status = last_queue(work, f).record(&f.done);
  if (!status.ok()) {
    static_cast<void>(work.sync());
    f.release();
    return status;
  }
  f.in = in;
  f.out = out;
  work.flying++;
  // Copied already: upstream may have few of them.
  if (f.staged_from && !f.source.pinned()) {
    f.source.unmap();
    gst_clear_buffer(&f.in);
  }
  return {};
}

// Waits for the oldest frame in flight.
static GstFlowReturn land_oldest(GstCudaVideoFilter* self, GstBuffer** out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  CurrentContext current(priv->context);
  Work& work = *priv->work;
  Flight& f = work.flights[work.oldest];
  const Status status = current
                            ? f.done->wait()
                            : Status::error(Code::device_error, "the CUDA context cannot be used");
  if (!status.ok()) return fail(self, status);
  land(f);
  *out = f.out;
  f.out = nullptr;
  f.release();
  work.oldest = (work.oldest + 1) % work.seats;
  work.flying--;
  return GST_FLOW_OK;
}

static GstFlowReturn drain(GstCudaVideoFilter* self) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  GstFlowReturn flow = GST_FLOW_OK;
  while (flow == GST_FLOW_OK && priv->work && priv->work->flying) {
    GstBuffer* out = nullptr;
    flow = land_oldest(self, &out);
    if (flow == GST_FLOW_OK) flow = gst_pad_push(GST_BASE_TRANSFORM_SRC_PAD(self), out);
  }
  discard_flights(priv);
  return flow;
}

static GstFlowReturn filter(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (!priv->negotiated) {
    GST_ELEMENT_ERROR(self, CORE, NEGOTIATION, (nullptr), ("a buffer came before caps"));
    return GST_FLOW_NOT_NEGOTIATED;
  }
  Status status;
  if (priv->on_cuda) {
    status = filter_on_cuda(self, in, out);
    if (cpu_may_do(priv, status)) use_cpu_instead(self, status);
  }
  if (!priv->on_cuda) status = filter_on_cpu(self, in, out);
  return status.ok() ? GST_FLOW_OK : fail(self, status);
}

static GstFlowReturn gst_cuda_video_filter_prepare_output_buffer(GstBaseTransform* trans,
                                                                 GstBuffer* in, GstBuffer** out) {
  const GstFlowReturn flow =
      GST_BASE_TRANSFORM_CLASS(parent_class)->prepare_output_buffer(trans, in, out);
  // The base class keeps silent.
  if (flow == GST_FLOW_ERROR) {
    auto* self = GST_CUDA_VIDEO_FILTER(trans);
    post_error(self, Status::error(Code::out_of_memory, "no buffer for a frame in %s memory",
                                   self->priv->cuda_caps ? "CUDA" : "system"));
  }
  return flow;
}

static GstFlowReturn gst_cuda_video_filter_transform(GstBaseTransform* trans, GstBuffer* in,
                                                     GstBuffer* out) {
  return filter(GST_CUDA_VIDEO_FILTER(trans), in, out);
}

static GstFlowReturn gst_cuda_video_filter_transform_ip(GstBaseTransform* trans,
                                                        GstBuffer* buffer) {
  return filter(GST_CUDA_VIDEO_FILTER(trans), buffer, buffer);
}

static GstFlowReturn gst_cuda_video_filter_submit_input_buffer(GstBaseTransform* trans,
                                                               gboolean is_discont, GstBuffer* in) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  if (GST_BUFFER_IS_DISCONT(in)) {
    // Else the base class would mark the oldest frame in flight.
    if (const GstFlowReturn flow = drain(self); flow != GST_FLOW_OK) {
      gst_buffer_unref(in);
      return flow;
    }
  }
  const GstFlowReturn flow =
      GST_BASE_TRANSFORM_CLASS(parent_class)->submit_input_buffer(trans, is_discont, in);
  if (flow == GST_BASE_TRANSFORM_FLOW_DROPPED) self->priv->after_drop = true;
  return flow;
}

// The base class pushes what this gives and asks again, until there is nothing.
static GstFlowReturn gst_cuda_video_filter_generate_output(GstBaseTransform* trans,
                                                           GstBuffer** out) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (!priv->in_flight || gst_base_transform_is_passthrough(trans))
    return GST_BASE_TRANSFORM_CLASS(parent_class)->generate_output(trans, out);

  *out = nullptr;
  GstBuffer* in = trans->queued_buf;
  trans->queued_buf = nullptr;
  if (in) {
    GstBuffer* result = nullptr;
    GstFlowReturn flow =
        GST_BASE_TRANSFORM_GET_CLASS(trans)->prepare_output_buffer(trans, in, &result);
    if (flow != GST_FLOW_OK || !result) {
      gst_buffer_unref(in);
      return flow;
    }
    if (priv->after_drop) GST_BUFFER_FLAG_SET(result, GST_BUFFER_FLAG_DISCONT);
    priv->after_drop = false;
    const Status status = take_off(self, in, result);
    if (!status.ok()) {
      if (cpu_may_do(priv, status)) {
        flow = drain(self);
        use_cpu_instead(self, status);
        if (flow == GST_FLOW_OK) flow = filter(self, in, result);
      } else {
        flow = fail(self, status);
      }
      gst_buffer_unref(in);
      *out = result;
      return flow;
    }
  }
  return priv->work && priv->work->flying > priv->in_flight ? land_oldest(self, out) : GST_FLOW_OK;
}

static void gst_cuda_video_filter_before_transform(GstBaseTransform* trans, GstBuffer* buffer) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  const GstClockTime time =
      gst_segment_to_stream_time(&trans->segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
  if (GST_CLOCK_TIME_IS_VALID(time)) gst_object_sync_values(GST_OBJECT(self), time);
  if (!priv->negotiated) return;
  adopt_context(self, buffer);
  if (!priv->settings_changed.exchange(false)) return;
  renew_plans(self);
  const bool identity = is_identity(self);
  if (identity != bool(gst_base_transform_is_passthrough(trans))) {
    drain(self);
    gst_base_transform_set_passthrough(trans, identity);
    // Out of passthrough a pool may be needed: it is there before this buffer is filtered.
    gst_base_transform_reconfigure_src(trans);
  }
}

static gboolean gst_cuda_video_filter_sink_event(GstBaseTransform* trans, GstEvent* event) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP) {
    discard_flights(self->priv);
    if (GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->stateful) drop_plans(self->priv);
  } else if (GST_EVENT_IS_SERIALIZED(event)) {
    // It comes after the frames that came before it.
    drain(self);
  }
  return GST_BASE_TRANSFORM_CLASS(parent_class)->sink_event(trans, event);
}

// Settings

void gst_cuda_video_filter_settings_changed(GstCudaVideoFilter* self) {
  self->priv->settings_changed = true;
}

void gst_cuda_video_filter_refuse(GstCudaVideoFilter* self, GParamSpec* property, double value,
                                  const char* rule) {
  GST_OBJECT_LOCK(self);
  // A controller would say it at every frame.
  const bool again = self->priv->refused_property == property && self->priv->refused_value == value;
  self->priv->refused_property = property;
  self->priv->refused_value = value;
  GST_OBJECT_UNLOCK(self);
  if (again) return;
  g_warning("%s: %s is %g: must be %s; it stays as it was", GST_OBJECT_NAME(self), property->name,
            value, rule);
}

static void gst_cuda_video_filter_set_property(GObject* object, guint id, const GValue* value,
                                               GParamSpec* pspec) {
  auto* self = GST_CUDA_VIDEO_FILTER(object);
  GST_OBJECT_LOCK(self);
  switch (id) {
    case PROP_CUDA_DEVICE_ID:
      self->priv->device = g_value_get_int(value);
      break;
    case PROP_BACKEND:
      self->priv->backend = GstCudaVideoFilterBackend(g_value_get_enum(value));
      break;
    case PROP_ASYNC_DEPTH:
      self->priv->async_depth = g_value_get_int(value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK(self);
}

static void gst_cuda_video_filter_get_property(GObject* object, guint id, GValue* value,
                                               GParamSpec* pspec) {
  auto* self = GST_CUDA_VIDEO_FILTER(object);
  GST_OBJECT_LOCK(self);
  switch (id) {
    case PROP_CUDA_DEVICE_ID:
      g_value_set_int(value, self->priv->device);
      break;
    case PROP_BACKEND:
      g_value_set_enum(value, self->priv->backend);
      break;
    case PROP_ASYNC_DEPTH:
      g_value_set_int(value, self->priv->async_depth);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, pspec);
      break;
  }
  GST_OBJECT_UNLOCK(self);
}

static void gst_cuda_video_filter_finalize(GObject* object) {
  auto* self = GST_CUDA_VIDEO_FILTER(object);
  set_cuda_context(self, nullptr);
  self->priv->~_GstCudaVideoFilterPrivate();
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_cuda_video_filter_init(GstCudaVideoFilter* self) {
  self->priv = new (gst_cuda_video_filter_get_instance_private(self)) GstCudaVideoFilterPrivate();
  gst_base_transform_set_qos_enabled(GST_BASE_TRANSFORM(self), TRUE);
}

static void gst_cuda_video_filter_class_init(GstCudaVideoFilterClass* klass) {
  auto* object_class = G_OBJECT_CLASS(klass);
  auto* element_class = GST_ELEMENT_CLASS(klass);
  auto* trans_class = GST_BASE_TRANSFORM_CLASS(klass);

  object_class->set_property = gst_cuda_video_filter_set_property;
  object_class->get_property = gst_cuda_video_filter_get_property;
  object_class->finalize = gst_cuda_video_filter_finalize;
  element_class->set_context = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_set_context);

  const auto flags =
      GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
  g_object_class_install_property(
      object_class, PROP_CUDA_DEVICE_ID,
      g_param_spec_int("cuda-device-id", "CUDA device ID",
                       "GPU to filter on, by number (-1 = the one the frames are on, or the "
                       "pipeline's). Frames on another GPU go by way of the host",
                       -1, G_MAXINT, kDefaultDevice, flags));
  g_object_class_install_property(
      object_class, PROP_BACKEND,
      g_param_spec_enum("backend", "Backend",
                        "What filters. With auto and no working GPU, an info message says that the "
                        "CPU does; with cuda that is an error",
                        GST_TYPE_CUDA_VIDEO_FILTER_BACKEND, kDefaultBackend, flags));

  g_object_class_install_property(
      object_class, PROP_ASYNC_DEPTH,
      g_param_spec_int(
          "async-depth", "Asynchronous depth",
          "Frames of system memory that may be on their way to the GPU and back while "
          "newer ones come in: copies and filtering of neighbouring frames then "
          "overlap, for as many frames of latency. No effect on frames in CUDA memory, "
          "on the CPU, or without a frame rate",
          0, kMaxAsyncDepth, kDefaultAsyncDepth, flags));

  trans_class->passthrough_on_same_caps = FALSE;
  trans_class->transform_ip_on_passthrough = FALSE;
  trans_class->start = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_start);
  trans_class->stop = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_stop);
  trans_class->query = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_query);
  trans_class->set_caps = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_set_caps);
  trans_class->get_unit_size = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_get_unit_size);
  trans_class->transform_size = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_transform_size);
  trans_class->propose_allocation = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_propose_allocation);
  trans_class->decide_allocation = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_decide_allocation);
  trans_class->filter_meta = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_filter_meta);
  trans_class->transform_meta = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_transform_meta);
  trans_class->prepare_output_buffer =
      GST_DEBUG_FUNCPTR(gst_cuda_video_filter_prepare_output_buffer);
  trans_class->before_transform = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_before_transform);
  trans_class->sink_event = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_sink_event);
  trans_class->submit_input_buffer = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_submit_input_buffer);
  trans_class->generate_output = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_generate_output);
  trans_class->transform = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_transform);
  trans_class->transform_ip = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_transform_ip);

  klass->interlace = GST_CUDA_VIDEO_FILTER_INTERLACE_FIELDS;
  klass->describe = gst_cuda_video_filter_describe;

  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_VIDEO_FILTER, GstPluginAPIFlags(0));
  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_VIDEO_FILTER_BACKEND, GstPluginAPIFlags(0));
}
