#include "tests/elements/harness.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#if VF_HAVE_GST_CUDA
#include <cuda_runtime_api.h>
#endif

#include "tests/reference/reference.h"

namespace vf::test {
namespace {

Case* current_case = nullptr;

GLogWriterOutput hear(GLogLevelFlags level, const GLogField* fields, gsize n, gpointer) {
  const char* text = "";
  for (gsize i = 0; i < n; i++)
    if (!strcmp(fields[i].key, "MESSAGE")) text = static_cast<const char*>(fields[i].value);
  if (level & (G_LOG_LEVEL_WARNING | G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_ERROR)) {
    if (current_case)
      current_case->heard(text);
    else
      fprintf(stderr, "# outside a case: %s\n", text);
  }
  return G_LOG_WRITER_HANDLED;
}

std::string formatted(const char* format, va_list args) {
  char text[1000];
  vsnprintf(text, sizeof text, format, args);
  for (char* c = text; *c; c++)
    if (*c == '\n') *c = ' ';
  return text;
}

int component_offset(const GstVideoFormatInfo* f, int c) {
  // GStreamer 1.22 gives V of P010 and similar formats the offset 1.
  return f->depth[c] > 8 && f->poffset[c] == 1 ? 2 : f->poffset[c];
}

guint8* component_data(const GstVideoFrame& frame, int c, int x, int y) {
  const GstVideoFormatInfo* f = frame.info.finfo;
  return static_cast<guint8*>(frame.data[f->plane[c]]) + y * frame.info.stride[f->plane[c]] +
         x * f->pixel_stride[c] + component_offset(f, c);
}

void set_component(const GstVideoFrame& frame, int c, int x, int y, int value) {
  guint8* at = component_data(frame, c, x, y);
  if (frame.info.finfo->depth[c] > 8)
    GST_WRITE_UINT16_LE(at, value);
  else
    *at = guint8(value);
}

int component_width(const GstVideoInfo& info, int c) {
  return GST_VIDEO_INFO_COMP_WIDTH(&info, c);
}
// Interlaced frames have whole rows of chroma for each field.
int component_height(const GstVideoInfo& info, int c) {
  const int rows = GST_VIDEO_INFO_COMP_HEIGHT(&info, c);
  // GStreamer has no room for the additional row in P010, P012 and P016.
  const bool even = GST_VIDEO_INFO_IS_INTERLACED(&info) && info.finfo->h_sub[c] &&
                    strncmp(info.finfo->name, "P01", 3) != 0;
  return even ? GST_ROUND_UP_2(rows) : rows;
}

// Copies a frame between CUDA memory and packed system memory. GStreamer's own copy, which maps the
// frame for the host, loses parts of frames of odd height before 1.24.4.
bool move_planes(const GstVideoInfo& info, GstBuffer* cuda, GstBuffer* system, bool to_cuda) {
#if VF_HAVE_GST_CUDA
  gstvf::CurrentContext current(gstvf::memory_context(gstvf::cuda_memory(cuda)));
  const GstVideoMeta* meta = gst_buffer_get_video_meta(cuda);
  GstMapInfo device, host;
  if (!current || !meta) return false;
  if (!gst_buffer_map(cuda, &device,
                      GstMapFlags((to_cuda ? GST_MAP_WRITE : GST_MAP_READ) | GST_MAP_CUDA)))
    return false;
  gst_buffer_map(system, &host, to_cuda ? GST_MAP_READ : GST_MAP_WRITE);
  bool ok = cudaDeviceSynchronize() == cudaSuccess;
  for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); p++) {
    gint component[GST_VIDEO_MAX_COMPONENTS];
    gst_video_format_info_component(info.finfo, p, component);
    const int c = component[0];
    const size_t row = size_t(GST_VIDEO_INFO_COMP_WIDTH(&info, c)) * info.finfo->pixel_stride[c];
    guint8 *d = device.data + meta->offset[p], *h = host.data + info.offset[p];
    const size_t d_stride = meta->stride[p], h_stride = info.stride[p];
    ok &=
        cudaMemcpy2DAsync(to_cuda ? d : h, to_cuda ? d_stride : h_stride, to_cuda ? h : d,
                          to_cuda ? h_stride : d_stride, row, GST_VIDEO_INFO_COMP_HEIGHT(&info, c),
                          cudaMemcpyDefault, nullptr) == cudaSuccess;
  }
  ok &= cudaDeviceSynchronize() == cudaSuccess;
  gst_buffer_unmap(system, &host);
  gst_buffer_unmap(cuda, &device);
  return ok;
#else
  (void)info, (void)cuda, (void)system, (void)to_cuda;
  return false;
#endif
}

// Maps a frame so that the host can read it and, in system memory, change it.
struct Mapped {
  GstVideoFrame frame;
  BufferPtr copy;
  bool ok;
  Mapped(const GstVideoInfo& info, GstBuffer* buffer, int flags) {
    if (gstvf::cuda_memory(buffer)) {
      copy = own(gst_buffer_new_allocate(nullptr, info.size, nullptr));
      ok = move_planes(info, buffer, copy.get(), false);
      buffer = copy.get();
      if (!ok) return;
    }
    ok = gst_video_frame_map(&frame, &info, buffer, GstMapFlags(flags));
  }
  ~Mapped() {
    if (ok) gst_video_frame_unmap(&frame);
  }
};

}  // namespace

void Case::fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  if (failure_.empty()) failure_ = formatted(format, args);
  va_end(args);
}

void Case::check(bool ok, const char* format, ...) {
  if (ok) return;
  va_list args;
  va_start(args, format);
  if (failure_.empty()) failure_ = formatted(format, args);
  va_end(args);
}

void Case::skip(const char* format, ...) {
  va_list args;
  va_start(args, format);
  skipped_ = formatted(format, args);
  va_end(args);
}

void Case::heard(const char* text) {
  if (!expected_.empty() && strstr(text, expected_.c_str()))
    expected_.clear();
  else
    fail("unexpected message: %s", text);
}

std::string path_of(const Element& element, const Settings& settings) {
  std::string path = element.name;
  for (const auto& [name, value] : settings)
    if (!strcmp(name, "refine") || !strcmp(name, "mask")) path += std::string("/") + value;
  return path;
}

void Suite::run(const std::string& name, const std::function<void(Case&)>& body) {
  if (!options_.match.empty() && name.find(options_.match) == std::string::npos) return;
  if (!options_.part.has(cases_++)) return;
  static const bool hearing = [] {
    g_log_set_writer_func(hear, nullptr, nullptr);
    return true;
  }();
  (void)hearing;
  Case c(*this, name);
  current_case = &c;
  const gint64 start = g_get_monotonic_time();
  body(c);
  const double seconds = double(g_get_monotonic_time() - start) / G_USEC_PER_SEC;
  current_case = nullptr;
  if (!c.expected_.empty()) c.fail("the warning \"%s\" did not come", c.expected_.c_str());
  if (!c.failure_.empty())
    tap_.fail(name, c.failure_ + "\n# seed " + std::to_string(options_.seed));
  else if (!c.skipped_.empty())
    tap_.skip(name, c.skipped_);
  else
    tap_.pass(name);
  if (seconds >= 1) printf("# %.1f s\n", seconds);
  fflush(stdout);
}

int Suite::finish() {
  const int status = tap_.end();
  printf("# %d passed, %d failed, %d skipped\n", tap_.passed(), tap_.failed(), tap_.skipped());
  return status || tap_.passed() ? status : 77;
}

namespace {
GstCudaContext* own_context = nullptr;
GstCudaContext* other_context = nullptr;
}  // namespace

void set_cuda_context(GstCudaContext* context) {
  other_context = context;
}

void drop_cuda_context() {
  if (own_context) gst_object_unref(own_context);
  own_context = nullptr;
}

GstCudaContext* cuda_context(std::string* why) {
  if (other_context) return other_context;
  const char* reason = gstvf::why_no_cuda();
#if VF_HAVE_GST_CUDA
  if (!own_context && !reason) {
    own_context = gst_cuda_context_new(0);
    if (!own_context) reason = "no CUDA device";
  }
#endif
  if (why) *why = reason ? reason : "";
  return own_context;
}

void give_context(GstElement* element) {
  if (cuda_context()) gstvf::give_context(element, cuda_context());
}

bool usable(Case& c, const Row& row) {
  std::string why;
  if (row.needs_device() && !cuda_context(&why)) {
    c.skip("%s", why.c_str());
    return false;
  }
  return true;
}

long device_kib() {
#if VF_HAVE_GST_CUDA
  gstvf::CurrentContext current(cuda_context());
  size_t available = 0, total = 0;
  if (current && cudaMemGetInfo(&available, &total) == cudaSuccess)
    return long((total - available) / 1024);
#endif
  return 0;
}

Library::Library(Backend backend) {
  QueueOptions options;
  options.backend = backend;
  if (backend == Backend::cuda) {
    current_ = std::make_unique<gstvf::CurrentContext>(cuda_context());
  }
  status_ = make_queue(options, &queue_);
}

Library::~Library() {
  queue_.reset();
  current_.reset();
}

GstVideoInfo video_info(const char* format, int width, int height, GstVideoInterlaceMode mode) {
  GstVideoInfo info;
  gst_video_info_set_interlaced_format(&info, gst_video_format_from_string(format), mode, width,
                                       height);
  info.fps_n = 25;
  info.fps_d = 1;
  return info;
}

static void fill(const GstVideoFrame& frame, guint32 seed) {
  GRand* rand = g_rand_new_with_seed(seed);
  const GstVideoFormatInfo* f = frame.info.finfo;
  for (guint c = 0; c < f->n_components; c++) {
    const int max = 1 << f->depth[c];
    for (int y = 0; y < component_height(frame.info, c); y++)
      for (int x = 0; x < component_width(frame.info, c); x++)
        set_component(frame, c, x, y, g_rand_int_range(rand, 0, max) << f->shift[c]);
  }
  g_rand_free(rand);
}

BufferPtr make_frame(bool cuda, const GstVideoInfo& info, guint32 seed, const Shape& shape,
                     GstCudaContext* context) {
  if (cuda) {
    BufferPtr result;
#if VF_HAVE_GST_CUDA
    GstBufferPool* pool = gst_cuda_buffer_pool_new(context ? context : cuda_context());
    GstStructure* config = gst_buffer_pool_get_config(pool);
    GstCaps* caps = gst_video_info_to_caps(&info);
    gst_buffer_pool_config_set_params(config, caps, info.size, 1, 0);
    gst_caps_unref(caps);
    GstBuffer* buffer = nullptr;
    if (gst_buffer_pool_set_config(pool, config) && gst_buffer_pool_set_active(pool, TRUE))
      gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr);
    if (buffer) {
      // Detaches the buffer from its pool, so that it frees itself.
      gst_object_replace(reinterpret_cast<GstObject**>(&buffer->pool), nullptr);
      const BufferPtr system = make_frame(false, info, seed);
      if (move_planes(info, buffer, system.get(), true))
        result = own(buffer);
      else
        gst_buffer_unref(buffer);
    }
    gst_buffer_pool_set_active(pool, FALSE);
    gst_object_unref(pool);
#endif
    (void)context;
    return result;
  }

  GstVideoInfo whole = info;
  gst_video_info_set_interlaced_format(&whole, GST_VIDEO_INFO_FORMAT(&info),
                                       GST_VIDEO_INFO_INTERLACE_MODE(&info),
                                       info.width + 2 * shape.left, info.height + 2 * shape.top);
  const bool plain = !shape.padding && !shape.apart && !shape.left && !shape.top;
  gsize offset[GST_VIDEO_MAX_PLANES] = {}, size = 0;
  gint stride[GST_VIDEO_MAX_PLANES] = {};
  GstBuffer* buffer = gst_buffer_new();
  for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&whole); p++) {
    gint component[GST_VIDEO_MAX_COMPONENTS];
    gst_video_format_info_component(whole.finfo, p, component);
    stride[p] = plain ? whole.stride[p] : whole.stride[p] + shape.padding;
    offset[p] = plain ? whole.offset[p] : size;
    const gsize bytes = gsize(stride[p]) * component_height(whole, component[0]);
    if (shape.apart) gst_buffer_append_memory(buffer, gst_allocator_alloc(nullptr, bytes, nullptr));
    size = plain ? gsize(whole.size) : size + bytes;
  }
  if (!shape.apart) gst_buffer_append_memory(buffer, gst_allocator_alloc(nullptr, size, nullptr));
  gst_buffer_memset(buffer, 0, 0xa5, size);
  if (!plain)
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&whole),
                                   whole.width, whole.height, GST_VIDEO_INFO_N_PLANES(&whole),
                                   offset, stride);
  if (shape.left || shape.top) {
    GstVideoCropMeta* crop = gst_buffer_add_video_crop_meta(buffer);
    crop->x = shape.left;
    crop->y = shape.top;
    crop->width = info.width;
    crop->height = info.height;
  }
  {
    Mapped mapped(whole, buffer, GST_MAP_WRITE);
    if (mapped.ok) fill(mapped.frame, seed);
  }
  return own(buffer);
}

BufferPtr packed_copy(const GstVideoInfo& info, GstBuffer* buffer) {
  GstBuffer* copy = gst_buffer_new_allocate(nullptr, info.size, nullptr);
  gst_buffer_memset(copy, 0, 0xa5, info.size);
  Mapped from(info, buffer, GST_MAP_READ), to(info, copy, GST_MAP_WRITE);
  if (from.ok && to.ok)
    for (guint c = 0; c < info.finfo->n_components; c++)
      for (int y = 0; y < component_height(info, c); y++)
        for (int x = 0; x < component_width(info, c); x++)
          set_component(to.frame, c, x, y, get_component(from.frame, c, x, y));
  return own(copy);
}

int get_component(const GstVideoFrame& frame, int c, int x, int y) {
  const guint8* at = component_data(frame, c, x, y);
  return frame.info.finfo->depth[c] > 8 ? GST_READ_UINT16_LE(at) : *at;
}

std::string difference(const GstVideoInfo& info, GstBuffer* got, GstBuffer* want, int tolerance) {
  if (!got) return "nothing came out";
  Mapped a(info, got, GST_MAP_READ), b(info, want, GST_MAP_READ);
  if (!a.ok || !b.ok) return "a buffer could not be mapped";
  for (guint c = 0; c < info.finfo->n_components; c++) {
    const int shift = info.finfo->shift[c];
    for (int y = 0; y < component_height(info, c); y++)
      for (int x = 0; x < component_width(info, c); x++) {
        const int g = get_component(a.frame, c, x, y), w = get_component(b.frame, c, x, y);
        const int unused = g & ((1 << shift) - 1);
        const int off = std::abs((g >> shift) - (w >> shift));
        const int depth = info.finfo->depth[c], largest = (1 << depth) - 1;
        const bool overshoots = g >> shift > largest;
        if (off <= tolerance && !unused && !overshoots) continue;
        char text[200];
        if (overshoots)
          snprintf(
              text, sizeof text,
              "component %u at %d,%d is %d, and the largest value of %d bits is %d: the filter "
              "must clamp to Layout::max_value",
              c, x, y, g >> shift, depth, largest);
        else if (unused)
          snprintf(text, sizeof text,
                   "component %u at %d,%d is %d, and its lowest %d bits must be 0", c, x, y, g,
                   shift);
        else
          snprintf(text, sizeof text, "component %u at %d,%d is %d, expected %d (+-%d)", c, x, y, g,
                   w, tolerance << shift);
        return text;
      }
  }
  return "";
}

Status filter_directly(const Make& make, Backend backend, const GstVideoInfo& info, GstBuffer* in,
                       bool fields, BufferPtr* out) {
  using gstvf::Rows;
  Library library(backend);
  VF_TRY(library.status());
  Queue& queue = *library.queue();
  gstvf::Format format;
  if (!gstvf::make_format(info, false, &format))
    return Status::error(Code::unsupported, "%s has no layout", info.finfo->name);
  *out = packed_copy(info, in);
  gstvf::MappedFrame frame;
  VF_TRY(frame.map(format, out->get(), GST_MAP_READWRITE, false));
  gstvf::Stage from, to;
  const bool device = backend == Backend::cuda;
  std::unique_ptr<Queue> host;
  if (device) {
    VF_TRY(make_queue({}, &host));
    VF_TRY(from.prepare(queue, format));
    VF_TRY(to.prepare(queue, format));
    VF_TRY(from.upload(frame, host.get()));
  }
  for (Rows rows : {Rows::all, Rows::top_field, Rows::bottom_field}) {
    if ((rows == Rows::all) == fields) continue;
    gstvf::Format part = format;
    if (fields && !gstvf::field_layout(format, rows == Rows::bottom_field, &part.layout))
      return Status::error(Code::invalid_argument, "too few rows for fields");
    std::unique_ptr<Plan> plan;
    VF_TRY(make(queue, part, device ? Placement::separate : Placement::in_place, &plan));
    VF_TRY(device ? plan->run(from.image(rows), to.image(rows))
                  : plan->run(frame.image(rows), frame.image(rows)));
    VF_TRY(queue.sync());
  }
  if (device) {
    VF_TRY(to.download(frame));
    VF_TRY(queue.sync());
    VF_TRY(to.finish_download(frame, host.get()));
  }
  return {};
}

Status filter_directly(const Element& element, Backend backend, const GstVideoInfo& info,
                       GstBuffer* in, int variant, bool fields, BufferPtr* out) {
  const Make make = [&](Queue& queue, const gstvf::Format& format, Placement placement,
                        std::unique_ptr<Plan>* plan) {
    return element.make(queue, format, variant, placement, plan);
  };
  return filter_directly(make, backend, info, in, fields, out);
}

Status filter_by_reference(const Element& element, const GstVideoInfo& info, GstBuffer* in,
                           int variant, BufferPtr* out) {
  use_reference_backend();
  Library library(Backend::reference);
  VF_TRY(library.status());
  *out = packed_copy(info, in);
  Mapped mapped(info, out->get(), GST_MAP_READWRITE);
  const GstVideoFormatInfo* f = info.finfo;
  for (guint c = 0; c < f->n_components; c++) {
    const int w = component_width(info, c), h = component_height(info, c);
    Image image;
    image.layout = packed_layout(f->depth[c] > 8 ? Type::u16 : Type::u8, 1, w, h);
    image.layout.shift = f->shift[c];
    if (f->depth[c] % 8) image.layout.max_value = (1 << f->depth[c]) - 1;
    image.layout.plane[0].sub_x = f->w_sub[c];
    image.layout.plane[0].sub_y = f->h_sub[c];
    std::vector<guint16> wide(size_t(w) * h);
    std::vector<guint8> narrow(size_t(w) * h);
    const bool is_wide = f->depth[c] > 8;
    image.data[0] = is_wide ? static_cast<void*>(wide.data()) : narrow.data();
    image.stride[0] = w * (is_wide ? 2 : 1);
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) {
        const int v = get_component(mapped.frame, c, x, y);
        wide[size_t(y) * w + x] = guint16(v);
        narrow[size_t(y) * w + x] = guint8(v);
      }
    std::unique_ptr<Plan> plan;
    VF_TRY(element.make_component(*library.queue(), image.layout, variant, &plan));
    // The reference does not filter in place.
    Image result = image;
    std::vector<guint16> wide_result(wide.size());
    std::vector<guint8> narrow_result(narrow.size());
    result.data[0] = is_wide ? static_cast<void*>(wide_result.data()) : narrow_result.data();
    VF_TRY(plan->run(image, result));
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++)
        set_component(mapped.frame, c, x, y,
                      is_wide ? wide_result[size_t(y) * w + x] : narrow_result[size_t(y) * w + x]);
  }
  return {};
}

void check_details(GstMessage* message) {
  const GstStructure* details = nullptr;
  const char* field = "reason";
  gchar* debug = nullptr;
  switch (GST_MESSAGE_TYPE(message)) {
    case GST_MESSAGE_ERROR:
      gst_message_parse_error(message, nullptr, &debug);
      gst_message_parse_error_details(message, &details);
      break;
    case GST_MESSAGE_WARNING:
      gst_message_parse_warning(message, nullptr, &debug);
      gst_message_parse_warning_details(message, &details);
      break;
    case GST_MESSAGE_INFO:
      gst_message_parse_info_details(message, &details);
      field = "backend";
      break;
    default:
      return;
  }
  // GstBaseTransform itself warns where metas cannot be copied. The text begins with its file.
  const bool foreign = debug && strstr(debug, "gstbasetransform.c");
  g_free(debug);
  if (foreign) return;
  GstPluginFeature* factory = nullptr;
  if (GST_IS_ELEMENT(GST_MESSAGE_SRC(message)))
    factory = GST_PLUGIN_FEATURE(gst_element_get_factory(GST_ELEMENT(GST_MESSAGE_SRC(message))));
  // GStreamer's own elements have other details.
  if (!factory || !g_str_has_prefix(gst_plugin_feature_get_name(factory), "cuda")) return;
  if (!details || !gst_structure_get_string(details, field))
    g_warning("%s from %s has no %s among its details", GST_MESSAGE_TYPE_NAME(message),
              GST_MESSAGE_SRC_NAME(message), field);
}

void check_details_on(GstBus* bus) {
  gst_bus_set_sync_handler(
      bus,
      [](GstBus*, GstMessage* message, gpointer) {
        check_details(message);
        return GST_BUS_PASS;
      },
      nullptr, nullptr);
}

GstBusSyncReply Bench::hear(GstBus*, GstMessage* message, gpointer data) {
  auto* self = static_cast<Bench*>(data);
  check_details(message);
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR && self->errors_++ > 0)
    g_warning("%s posts more than one error for one fault", GST_MESSAGE_SRC_NAME(message));
  if (self->gives_context_ && GST_MESSAGE_TYPE(message) == GST_MESSAGE_NEED_CONTEXT)
    give_context(GST_ELEMENT(GST_MESSAGE_SRC(message)));
  return GST_BUS_PASS;
}

Bench::Bench(const Element& element, const Row& row, int device) : row_(row) {
  element_ = gst_element_factory_make(element.name, nullptr);
  if (!element_) g_error("no element %s: is GST_PLUGIN_PATH set?", element.name);
  gst_object_ref_sink(element_);
  gst_util_set_object_arg(G_OBJECT(element_), "backend", row.backend);
  g_object_set(element_, "cuda-device-id", device, nullptr);
  g_object_set(element_, "async-depth", row.async_depth, nullptr);
  bus_ = gst_bus_new();
  gst_element_set_bus(element_, bus_);
#if !VF_EMULATION
  // Making a context takes tenths of a second, so elements get the test's, as from an application.
  // On the emulated device contexts cost nothing, and elements make their own.
  gives_context_ = row.needs_device() && device <= 0;
#endif
  gst_bus_set_sync_handler(bus_, hear, this, nullptr);
  // The harness starts its element at once.
  harness_ = gst_harness_new_with_element(element_, "sink", "src");
}

Bench::~Bench() {
  gst_harness_teardown(harness_);
  gst_element_set_state(element_, GST_STATE_NULL);
  gst_element_set_bus(element_, nullptr);
  gst_bus_set_sync_handler(bus_, nullptr, nullptr, nullptr);
  gst_object_unref(bus_);
  gst_object_unref(element_);
}

GstCaps* Bench::make_caps(const GstVideoInfo& info) const {
  GstCaps* caps = gst_video_info_to_caps(&info);
  if (row_.cuda_caps) gstvf::set_caps_in_cuda(caps);
  return caps;
}

void Bench::caps(const GstVideoInfo& info) {
  gst_harness_set_src_caps(harness_, make_caps(info));
}

BufferPtr Bench::push(const BufferPtr& buffer) {
  return push(gst_buffer_ref(buffer.get()));
}

BufferPtr Bench::push(GstBuffer* buffer) {
  errors_ = 0;
  flow_ = gst_harness_push(harness_, buffer);
  return own(flow_ == GST_FLOW_OK ? gst_harness_try_pull(harness_) : nullptr);
}

static std::string text_of(GstMessage* message, GQuark* domain, int* code) {
  GError* error = nullptr;
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
    gst_message_parse_error(message, &error, nullptr);
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_INFO)
    gst_message_parse_info(message, &error, nullptr);
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_WARNING)
    gst_message_parse_warning(message, &error, nullptr);
  std::string text = error ? error->message : "?";
  if (error && domain) *domain = error->domain;
  if (error && code) *code = error->code;
  g_clear_error(&error);
  gst_message_unref(message);
  return text;
}

std::string error_on(GstBus* bus) {
  GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
  return message ? text_of(message, nullptr, nullptr) : "";
}

guint Bench::buffers_wanted() const {
  GstPad* src = harness_->srcpad;
  GstCaps* caps = gst_pad_get_current_caps(src);
  GstQuery* query = gst_query_new_allocation(caps, TRUE);
  guint min = 0;
  if (gst_pad_peer_query(src, query) && gst_query_get_n_allocation_pools(query) > 0)
    gst_query_parse_nth_allocation_pool(query, 0, nullptr, nullptr, &min, nullptr);
  gst_query_unref(query);
  gst_caps_unref(caps);
  return min;
}

std::string Bench::message(GstMessageType type, GQuark* domain, int* code) {
  GstMessage* message = gst_bus_pop_filtered(bus_, type);
  return message ? text_of(message, domain, code) : "";
}

void Bench::expect_warning(Case& c, const std::string& text) {
  const std::string warning = message(GST_MESSAGE_WARNING);
  c.check(warning.find(text) != std::string::npos, "the warning is \"%s\", without \"%s\"",
          warning.c_str(), text.c_str());
}

void Bench::messages(std::string* error, std::string* info) {
  while (GstMessage* message =
             gst_bus_pop_filtered(bus_, GstMessageType(GST_MESSAGE_ERROR | GST_MESSAGE_INFO))) {
    std::string* const out = GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR ? error : info;
    const std::string text = text_of(message, nullptr, nullptr);
    // The backend may be another one at the first frame.
    if (out == info || out->empty()) *out = text;
  }
}

}  // namespace vf::test
