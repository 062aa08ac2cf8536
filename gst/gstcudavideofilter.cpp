#include "gst/gstcudavideofilter.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "filters/queue.h"
#include "gst/cudacompat.h"
#include "gst/frame.h"
#include "gst/tensorpool.h"

GST_DEBUG_CATEGORY_STATIC(gst_cuda_video_filter_debug);
#define GST_CAT_DEFAULT gst_cuda_video_filter_debug

using gstvf::CurrentContext;
using gstvf::Format;
using gstvf::MappedFrame;
using gstvf::Rows;
using vf::Code;
using vf::Placement;
using vf::Status;

enum { PROP_0, PROP_CUDA_DEVICE_ID, PROP_BACKEND };

constexpr int kDefaultDevice = -1;
constexpr GstCudaVideoFilterBackend kDefaultBackend = GST_CUDA_VIDEO_FILTER_BACKEND_AUTO;

// Frames of system memory that this plugin allocates start at multiples of this, for SIMD.
constexpr gsize kAlignment = 64;

namespace {

// Everything that is made for one backend, caps and settings: destroyed as one, plans first.
struct Work {
  std::unique_ptr<vf::Queue> queue;
  gstvf::Stage source, destination;
  std::unique_ptr<vf::Plan> plan[2][3];  // by placement and rows
  bool stale[2][3] = {};                 // a plan of settings that have changed since
  void drop_plans() {
    for (auto& by_rows : plan)
      for (auto& p : by_rows) p.reset();
  }
  void drop_stages() {
    source.reset();
    destination.reset();
  }
  ~Work() {
    drop_plans();
    drop_stages();
  }
};

}  // namespace

struct _GstCudaVideoFilterPrivate {
  // Under the object's lock.
  int device = kDefaultDevice;
  GstCudaVideoFilterBackend backend = kDefaultBackend;
  double refused_value = 0;
  const GParamSpec* refused_property = nullptr;

  std::atomic<bool> settings_changed{false};

  // Changed by the streaming thread and read by queries of others: under the object's lock. Before
  // start, set_context fills it in.
  GstCudaContext* context = nullptr;

  // The streaming thread's, or start's and stop's.
  GstCudaVideoFilterBackend wanted = kDefaultBackend;  // backend at start
  bool on_cuda = false;
  bool negotiated = false, same_format = false, cuda_caps = false;
  Format in, out;
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

GType gst_cuda_video_filter_planes_get_type(void) {
  static gsize type = 0;
  static const GFlagsValue values[] = {
      {GST_CUDA_VIDEO_FILTER_PLANES_LUMA, "Luma, gray or RGB colours", "luma"},
      {GST_CUDA_VIDEO_FILTER_PLANES_CHROMA, "Chroma", "chroma"},
      {GST_CUDA_VIDEO_FILTER_PLANES_ALPHA, "Alpha", "alpha"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type))
    g_once_init_leave(&type, g_flags_register_static("GstCudaVideoFilterPlanes", values));
  return type;
}

// Caps

// Formats that GStreamer's CUDA memory has had since 1.22, and that have a layout. Other formats
// abort in its allocator.
static const char* const kCudaFormats[] = {
    "I420",      "YV12",      "NV12",    "NV21",      "Y42B", "Y444", "I420_10LE", "I422_10LE",
    "I422_12LE", "P010_10LE", "P016_LE", "Y444_16LE", "RGB",  "BGR",  "RGBA",      "BGRA",
    "ARGB",      "ABGR",      "RGBx",    "BGRx",      "RGBP", "BGRP", "GBR",       "GBRA",
};

static bool cuda_memory_has(GstVideoFormat format) {
#if VF_HAVE_GST_CUDA
  for (const char* name : kCudaFormats)
    if (gst_video_format_from_string(name) == format) return true;
  guint major, minor, micro, nano;
  gst_version(&major, &minor, &micro, &nano);
  const bool has_vuya = major > 1 || minor >= 26;
  return has_vuya && gst_video_format_from_string("VUYA") == format;
#else
  (void)kCudaFormats, (void)format;
  return false;
#endif
}

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
    if (!gstvf::has_layout(format) || (cuda && !cuda_memory_has(format))) continue;
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
    if (cuda)
      gst_caps_set_features_simple(
          caps, gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, nullptr));
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

static bool has_cuda_feature(GstCaps* caps) {
  const GstCapsFeatures* features = gst_caps_get_features(caps, 0);
  return features && gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY);
}

static gboolean gst_cuda_video_filter_describe(GstCudaVideoFilter*, GstPadDirection, GstCaps* caps,
                                               Format* format) {
  GstVideoInfo info;
  return gst_video_info_from_caps(&info, caps) &&
         gstvf::make_format(info, has_cuda_feature(caps), format);
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

static void drop_work(GstCudaVideoFilterPrivate* priv) {
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

static void set_cuda_context(GstCudaVideoFilter* self, GstCudaContext* context) {
  GST_OBJECT_LOCK(self);
  GstCudaContext* old = self->priv->context;
  self->priv->context = context;
  GST_OBJECT_UNLOCK(self);
  if (old) gst_object_unref(old);
}

static void drop_streams(GstCudaVideoFilterPrivate* priv) {
  gstvf::stream_clear(&priv->stream);
  gstvf::stream_clear(&priv->own_stream);
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

// Finds or makes a context, and tries it.
static Status open_cuda(GstCudaVideoFilter* self, int device) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (const char* why = gstvf::why_no_cuda()) return Status::error(Code::no_device, "%s", why);
  GstCudaContext* context = ref_context(self);
  if (!gstvf::ensure_context(GST_ELEMENT(self), device, &context) || !context)
    return Status::error(Code::no_device, "no CUDA context on cuda-device-id %d", device);
  set_cuda_context(self, context);
  priv->on_cuda = true;
  Status status;
  for (int attempt = 0; attempt < 2; attempt++) {
    CurrentContext current(priv->context);
    status = current ? ensure_queue(priv)
                     : Status::error(Code::device_error, "the CUDA context cannot be used");
    if (status.ok() || attempt) break;
    // A context in which a kernel failed stays broken, and the pipeline remembers it.
    context = gstvf::new_context(GST_ELEMENT(self), device);
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
  GST_ELEMENT_INFO(self, RESOURCE, NOT_FOUND, ("Filtering on the CPU: %s.", why.message()),
                   (nullptr));
}

static gboolean gst_cuda_video_filter_start(GstBaseTransform* trans) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  GST_OBJECT_LOCK(self);
  priv->wanted = priv->backend;
  const int device = priv->device;
  GST_OBJECT_UNLOCK(self);
  priv->on_cuda = false;
  priv->negotiated = false;
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
  GST_OBJECT_LOCK(self);
  const int device = priv->device;
  GST_OBJECT_UNLOCK(self);
  if (device >= 0 && guint(device) != gstvf::context_device(context)) return;
  GST_INFO_OBJECT(self, "following the frames to %" GST_PTR_FORMAT, context);
  drop_work(priv);
  drop_streams(priv);
  set_cuda_context(self, ref(context));
  // Downstream's pool may be of the old one.
  gst_base_transform_reconfigure_src(GST_BASE_TRANSFORM(self));
}

static void gst_cuda_video_filter_set_context(GstElement* element, GstContext* message) {
  auto* self = GST_CUDA_VIDEO_FILTER(element);
  GstCudaContext* context = ref_context(self);
  GstCudaContext* const before = context;
  GST_OBJECT_LOCK(self);
  const int device = self->priv->device;
  GST_OBJECT_UNLOCK(self);
  gstvf::handle_set_context(element, message, device, &context);
  if (!before && context)
    set_cuda_context(self, context);
  else if (context)
    gst_object_unref(context);
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
  return GST_BASE_TRANSFORM_CLASS(parent_class)->query(trans, direction, query);
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
  *size = GST_VIDEO_INFO_SIZE(&format.info);
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
  if (GST_VIDEO_INFO_SIZE(&format.info) > G_MAXUINT)
    return "frames and tensors of 4 GiB and more are not supported; use smaller ones";
  if (!format.is_video()) return nullptr;
  const GstVideoInfo* info = &format.info;
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

static bool is_neutral(GstCudaVideoFilter* self) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  auto* klass = GST_CUDA_VIDEO_FILTER_GET_CLASS(self);
  return priv->same_format && klass->is_neutral && klass->is_neutral(self, priv->in, priv->out);
}

static gboolean gst_cuda_video_filter_set_caps(GstBaseTransform* trans, GstCaps* incaps,
                                               GstCaps* outcaps) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  GstCudaVideoFilterPrivate* priv = self->priv;
  // Plans and staging refer to the old formats.
  if (priv->work) {
    CurrentContext current(priv->context);
    priv->work->drop_plans();
    priv->work->drop_stages();
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
  priv->cuda_caps = has_cuda_feature(outcaps);
  priv->negotiated = true;
  priv->settings_changed = false;
  gst_base_transform_set_in_place(trans, priv->same_format && !priv->cuda_caps);
  gst_base_transform_set_passthrough(trans, is_neutral(self));
  return TRUE;
}

// Configures `pool` (full) for frames of `caps`; null if it cannot be.
static GstBufferPool* configure_pool(GstCudaVideoFilter* self, GstBufferPool* pool, GstCaps* caps,
                                     GstCudaStream* stream, guint* size, guint min, guint max) {
  GstStructure* config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  gst_buffer_pool_config_set_params(config, caps, *size, min, max);
  gstvf::pool_config_set_stream(config, stream);
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

static void set_allocation_alignment(GstQuery* query) {
  if (gst_query_get_n_allocation_params(query)) return;
  GstAllocationParams params;
  gst_allocation_params_init(&params);
  params.align = kAlignment - 1;
  gst_query_add_allocation_param(query, nullptr, &params);
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
    GstBufferPool* pool = nullptr;
    if (has_cuda_feature(caps)) {
      GstCudaContext* context = ref_context(self);
      if (context) {
        pool = configure_pool(self, gstvf::cuda_pool_new(context), caps, priv->stream, &size, 0, 0);
        gst_object_unref(context);
      }
    } else {
      set_allocation_alignment(query);
      pool = configure_pool(self, gst_video_buffer_pool_new(), caps, nullptr, &size, 0, 0);
    }
    if (pool) {
      gst_query_add_allocation_pool(query, pool, size, 0, 0);
      gst_object_unref(pool);
    }
  }
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  return TRUE;
}

// Moves the queue to downstream's stream if it has one, else to our own.
static void choose_stream(GstCudaVideoFilterPrivate* priv, GstBufferPool* pool) {
  GstStructure* config = gst_buffer_pool_get_config(pool);
  GstCudaStream* stream = gstvf::pool_config_stream(config);
  gst_structure_free(config);
  if (!stream) {
    if (!priv->own_stream) priv->own_stream = gstvf::stream_new(priv->context);
    stream = gstvf::stream_ref(priv->own_stream);
  }
  if (stream != priv->stream) drop_work(priv);
  gstvf::stream_clear(&priv->stream);
  priv->stream = stream;
}

// Finds a context for the CPU backend to allocate CUDA memory in.
static bool find_context(GstCudaVideoFilter* self) {
  GST_OBJECT_LOCK(self);
  const int device = self->priv->device;
  GST_OBJECT_UNLOCK(self);
  GstCudaContext* context = nullptr;
  if (gstvf::why_no_cuda() || !gstvf::ensure_context(GST_ELEMENT(self), device, &context) || !context)
    return false;
  set_cuda_context(self, context);
  return true;
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
  guint size = GST_VIDEO_INFO_SIZE(&priv->out.info), min = 0, max = 0;
  const bool offered = gst_query_get_n_allocation_pools(query) > 0;
  if (offered) gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, &min, &max);

  if (priv->cuda_caps) {
    if (!priv->context && !find_context(self)) {
      if (pool) gst_object_unref(pool);
      GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND,
                        ("No CUDA device for frames in CUDA memory; use system memory."), (nullptr));
      return FALSE;
    }
    if (pool && !(priv->out.is_video() && gstvf::is_cuda_pool_of(pool, priv->context)))
      gst_clear_object(&pool);
    if (!pool) pool = new_cuda_pool(priv);
    if (priv->on_cuda) choose_stream(priv, pool);
    pool = configure_pool(self, pool, caps, priv->stream, &size, min, max);
    if (!pool)
      pool = configure_pool(self, new_cuda_pool(priv), caps, priv->stream, &size, min, max);
  } else if (priv->out.is_video()) {
    set_allocation_alignment(query);
    if (!pool) pool = gst_video_buffer_pool_new();
    pool = configure_pool(self, pool, caps, nullptr, &size, min, max);
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
  const GstVideoInfo &in = priv->in.info, &out = priv->out.info;
  if (!priv->out.is_video() || in.width != out.width || in.height != out.height)
    return GST_BASE_TRANSFORM_CLASS(parent_class)->transform_meta(trans, outbuf, meta, inbuf);
  if (meta->info->api == GST_VIDEO_CROP_META_API_TYPE) {
    // A crop that says which part of a larger memory the frame is: only that part is in `outbuf`.
    const GstVideoMeta* video = gst_buffer_get_video_meta(inbuf);
    if (video && (video->width > guint(in.width) || video->height > guint(in.height))) return FALSE;
  }
  return TRUE;
}

// Frames

// The images of one frame, and what to do with them when its plans ran.
struct Frame {
  MappedFrame source, destination;
  gstvf::Stage *from = nullptr, *to = nullptr;  // staged sides
  bool in_place = false;
};

static Rows rows_of(GstCudaVideoFilter* self, GstBuffer* buffer) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  if (GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->interlace != GST_CUDA_VIDEO_FILTER_INTERLACE_FIELDS)
    return Rows::all;
  const GstVideoInterlaceMode mode = GST_VIDEO_INFO_INTERLACE_MODE(&priv->in.info);
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

static Status run_plan(GstCudaVideoFilter* self, Rows rows, Frame& frame) {
  const vf::Image src = frame.from ? frame.from->image(rows) : frame.source.image(rows);
  const vf::Image dst = frame.to         ? frame.to->image(rows)
                        : frame.in_place ? src
                                         : frame.destination.image(rows);
  vf::Plan* plan = nullptr;
  const bool same = frame.in_place && !frame.to;
  VF_TRY(plan_for(self, rows, same ? Placement::in_place : Placement::separate, &plan));
  return plan->run(src, dst);
}

static Status run_plans(GstCudaVideoFilter* self, GstBuffer* in, Frame& frame) {
  if (rows_of(self, in) == Rows::all) return run_plan(self, Rows::all, frame);
  VF_TRY(run_plan(self, Rows::top_field, frame));
  return run_plan(self, Rows::bottom_field, frame);
}

static Status filter_on_cpu(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  VF_TRY(ensure_queue(priv));
  Frame frame;
  frame.in_place = in == out;
  VF_TRY(frame.source.map(priv->in, in, frame.in_place ? GST_MAP_READWRITE : GST_MAP_READ, false));
  if (!frame.in_place) VF_TRY(frame.destination.map(priv->out, out, GST_MAP_WRITE, false));
  VF_TRY(run_plans(self, in, frame));
  return priv->work->queue->sync();
}

static Status filter_on_cuda(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out) {
  GstCudaVideoFilterPrivate* priv = self->priv;
  CurrentContext current(priv->context);
  if (!current) return Status::error(Code::device_error, "the CUDA context cannot be used");
  VF_TRY(ensure_queue(priv));
  vf::Queue& queue = *priv->work->queue;
  // Memory of another context is treated as the host's: GStreamer downloads it when it is mapped.
  auto ours = [&](GstBuffer* buffer) {
    GstMemory* memory = gstvf::cuda_memory(buffer);
    return memory && gstvf::memory_context(memory) == priv->context ? memory : nullptr;
  };
  GstMemory* in_memory = ours(in);
  bool wait = false;
  Frame frame;
  frame.in_place = in == out;

  if (in_memory) {
    // What upstream enqueued on our own stream runs before us anyway. On another, our reading must
    // also be over before upstream has the buffer back.
    if (!priv->stream || gstvf::memory_stream(in_memory) != priv->stream) {
      gstvf::memory_sync(in_memory);
      wait = true;
    }
  } else {
    frame.from = &priv->work->source;
    // The next frame is written to the same pinned memory.
    wait = true;
    if (!frame.from->ready()) VF_TRY(frame.from->prepare(queue, priv->in));
  }
  VF_TRY(frame.source.map(priv->in, in, frame.in_place ? GST_MAP_READWRITE : GST_MAP_READ,
                          in_memory != nullptr));
  if (frame.from) VF_TRY(frame.from->upload(frame.source));

  GstMemory* out_memory = ours(out);
  if (!out_memory) {
    frame.to = &priv->work->destination;
    if (!frame.to->ready()) VF_TRY(frame.to->prepare(queue, priv->out));
    wait = true;
  } else if (!priv->stream || gstvf::memory_stream(out_memory) != priv->stream) {
    wait = true;
  }
  if (!frame.in_place)
    VF_TRY(frame.destination.map(priv->out, out, GST_MAP_WRITE, out_memory != nullptr));

  Status status = run_plans(self, in, frame);
  if (status.ok() && frame.to) status = frame.to->download();
  // Also after an error: what was enqueued still uses the buffers.
  if (wait || !status.ok()) {
    const Status synced = queue.sync();
    if (status.ok()) status = synced;
  }
  VF_TRY(status);
  if (frame.to) frame.to->store(frame.in_place ? frame.source : frame.destination);
  if (wait && out_memory) gstvf::memory_is_synced(out_memory);
  return {};
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
    if (status.code() == Code::unsupported && priv->wanted == GST_CUDA_VIDEO_FILTER_BACKEND_AUTO)
      use_cpu_instead(self, status);
  }
  if (!priv->on_cuda) status = filter_on_cpu(self, in, out);
  if (status.ok()) return GST_FLOW_OK;
  post_error(self, status);
  drop_work(priv);
  return GST_FLOW_ERROR;
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
  const bool neutral = is_neutral(self);
  if (neutral != bool(gst_base_transform_is_passthrough(trans))) {
    gst_base_transform_set_passthrough(trans, neutral);
    // Out of passthrough a pool may be needed: it is there before this buffer is filtered.
    gst_base_transform_reconfigure_src(trans);
  }
}

static gboolean gst_cuda_video_filter_sink_event(GstBaseTransform* trans, GstEvent* event) {
  auto* self = GST_CUDA_VIDEO_FILTER(trans);
  if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP &&
      GST_CUDA_VIDEO_FILTER_GET_CLASS(self)->stateful)
    drop_plans(self->priv);
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
  trans_class->transform = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_transform);
  trans_class->transform_ip = GST_DEBUG_FUNCPTR(gst_cuda_video_filter_transform_ip);

  klass->interlace = GST_CUDA_VIDEO_FILTER_INTERLACE_FIELDS;
  klass->describe = gst_cuda_video_filter_describe;

  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_VIDEO_FILTER, GstPluginAPIFlags(0));
  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_VIDEO_FILTER_BACKEND, GstPluginAPIFlags(0));
  gst_type_mark_as_plugin_api(GST_TYPE_CUDA_VIDEO_FILTER_PLANES, GstPluginAPIFlags(0));
}
