#include "filters/letterbox.h"

#include <gst/video/navigation.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "gst/base/analytics.h"
#include "gst/base/cudacompat.h"
#include "gst/gstcudaletterboxmeta.h"
#include "tests/elements/letterboxbench.h"

namespace vf::test {
namespace {

ColorFormat rgb(bool bgr) {
  ColorFormat f;
  f.role[0][0] = bgr ? Role::b : Role::r;
  f.role[0][1] = Role::g;
  f.role[0][2] = bgr ? Role::r : Role::b;
  return f;
}

// Runs the library on packed RGB in system memory and returns the bytes of the tensor.
std::vector<guint8> directly(Case& c, GstBuffer* in, const GstVideoInfo& info, Type type, bool half,
                             bool planar, bool bgr, int width, int height,
                             const LetterboxParams& params) {
  Library library(Backend::cpu);
  c.check(library.status(), "queue");
  gstvf::Format format;
  gstvf::make_format(info, false, &format);
  gstvf::MappedFrame frame;
  c.check(frame.map(format, in, GST_MAP_READ, false), "map");
  Image dst;
  dst.layout = packed_layout(type, planar ? 1 : 3, width, height);
  ColorFormat to = rgb(bgr);
  const size_t row = size_t(width) * (planar ? 1 : 3) * size_t(size_of(type));
  std::vector<guint8> bytes(row * size_t(height) * (planar ? 3 : 1));
  dst.layout.planes = planar ? 3 : 1;
  for (int p = 0; p < dst.layout.planes; p++) {
    dst.layout.plane[p] = dst.layout.plane[0];
    dst.data[p] = bytes.data() + row * size_t(height) * size_t(p);
    dst.stride[p] = ptrdiff_t(row);
  }
  if (planar)
    for (int p = 2; p >= 0; p--) to.role[p][0] = to.role[0][p];
  to.half_float = half;
  LetterboxGeometry g;
  std::unique_ptr<Plan> plan;
  c.check(letterbox_geometry(info.width, info.height, width, height, params, &g), "geometry");
  c.check(
      make_letterbox(*library.queue(), format.layout, rgb(false), dst.layout, to, g, params, &plan),
      "plan");
  if (c.ok()) c.check(plan->run(frame.image(gstvf::Rows::all), dst), "run");
  return bytes;
}

std::string differs(GstBuffer* buffer, const std::vector<guint8>& want) {
  if (!buffer) return "nothing came out";
  GstMapInfo map;
  if (!gst_buffer_map(buffer, &map, GST_MAP_READ)) return "cannot be mapped";
  std::string text;
  if (map.size < want.size()) {
    text = "has " + std::to_string(map.size) + " bytes, not " + std::to_string(want.size());
  } else {
    for (size_t i = 0; i < want.size() && text.empty(); i++)
      if (map.data[i] != want[i]) text = "byte " + std::to_string(i) + " differs";
  }
  gst_buffer_unmap(buffer, &map);
  return text;
}

// Returns the bytes of a tensor in CUDA memory, read through its device pointer.
std::vector<guint8> from_device(Case& c, GstBuffer* buffer) {
  std::vector<guint8> bytes(gst_buffer_get_size(buffer));
  GstMemory* memory = gstvf::cuda_memory(buffer);
  if (!memory) {
    c.fail("not one CUDA memory");
    return bytes;
  }
  Library library(Backend::cuda);
  c.check(library.status(), "queue");
  gstvf::memory_sync(memory);
  GstMapInfo map;
  if (!library.queue() ||
      !gst_memory_map(memory, &map, GstMapFlags(GST_MAP_READ | gstvf::kMapCuda))) {
    c.fail("cannot be mapped for CUDA");
    return bytes;
  }
  c.check(map.size == bytes.size(), "the memory has %zu bytes, the buffer %zu", size_t(map.size),
          bytes.size());
  c.check(library.queue()->copy(bytes.data(), map.data, bytes.size()), "copy");
  c.check(library.queue()->sync(), "sync");
  gst_memory_unmap(memory, &map);
  return bytes;
}

void set_array(GstElement* element, const char* name, std::initializer_list<double> numbers) {
  GValue array = G_VALUE_INIT;
  g_value_init(&array, GST_TYPE_ARRAY);
  for (const double n : numbers) {
    GValue v = G_VALUE_INIT;
    g_value_init(&v, G_TYPE_DOUBLE);
    g_value_set_double(&v, n);
    gst_value_array_append_and_take_value(&array, &v);
  }
  g_object_set_property(G_OBJECT(element), name, &array);
  g_value_unset(&array);
}

std::string numbers(GstElement* element, const char* name) {
  gchar* text = nullptr;
  g_object_get(element, name, &text, nullptr);
  const std::string copy = text;
  g_free(text);
  return copy;
}

// The tensors have more bytes than GStreamer's pools can count, or invalid dimensions.
void hostile_tensors(Case& c) {
  for (const char* dimensions : {"1048576:1048576:3:1", "32768:32768:3:1", "3:32768:32768:1",
                                 "1048576:1024:3:1", "1048577:1:3:1", "99999999999999999999:1:3:1",
                                 "-1:4:3:1", "4:4:3:1:2", "0:4:3:1", "", ":", "4:4:3:1x"}) {
    Bench b(letterbox_element, kRows[0]);
    gst_harness_set_sink_caps(
        b.harness(), gst_caps_new_simple("other/tensors", "format", G_TYPE_STRING, "static",
                                         "num_tensors", G_TYPE_INT, 1, "types", G_TYPE_STRING,
                                         "float32", "dimensions", G_TYPE_STRING, dimensions,
                                         "framerate", GST_TYPE_FRACTION, 25, 1, nullptr));
    const GstVideoInfo info = video_info("RGB", 8, 8);
    b.caps(info);
    const BufferPtr out = b.push(make_frame(false, info, 1));
    c.check(!out && b.flow() != GST_FLOW_OK, "dimensions=%s: flow %s", dimensions,
            gst_flow_get_name(b.flow()));
  }
}

// Maps memory that the system provides only where it is written or read.
class Sparse {
 public:
  explicit Sparse(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<guint8*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~Sparse() {
    if (ok()) munmap(data_, bytes_);
  }
  bool ok() const { return data_ != MAP_FAILED; }
  guint8* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_;
  guint8* data_;
};

// Filters a frame of more than 2 GiB whose bottom right corner is bright.
void large_frame(Case& c) {
  constexpr int width = 65536, height = 40000, block = 2048, bright = 200;
  const Sparse memory(size_t(width) * height);
  if (!memory.ok()) return c.skip("no address space of %zu bytes", memory.size());
  for (int y = height - block; y < height; y++)
    std::memset(memory.data() + size_t(y) * width + width - block, bright, block);
  for (const char* interpolation : {"nearest", "bilinear"}) {
    Bench b(letterbox_element, kRows[0]);
    gst_util_set_object_arg(G_OBJECT(b.element()), "interpolation", interpolation);
    const GstVideoInfo out_info = video_info("GRAY8", 64, 40),
                       info = video_info("GRAY8", width, height);
    gst_harness_set_sink_caps(b.harness(), gst_video_info_to_caps(&out_info));
    b.caps(info);
    const BufferPtr out =
        b.push(gst_buffer_new_wrapped_full(GST_MEMORY_FLAG_READONLY, memory.data(), memory.size(),
                                           0, memory.size(), nullptr, nullptr));
    c.check(out != nullptr, "flow %s: %s", gst_flow_get_name(b.flow()),
            b.message(GST_MESSAGE_ERROR).c_str());
    if (!c.ok()) return;
    GstVideoFrame frame;
    gst_video_frame_map(&frame, &out_info, out.get(), GST_MAP_READ);
    // The picture has 64 x 39 pixels and one row of padding below.
    const int corner = get_component(frame, 0, 63, 38), left = get_component(frame, 0, 60, 38),
              above = get_component(frame, 0, 63, 35);
    gst_video_frame_unmap(&frame);
    c.check(corner == bright && left == 0 && above == 0,
            "%s: the corner is %d, left of it %d, above it %d", interpolation, corner, left, above);
  }
}

// Checks which values gst-launch-1.0 takes, and what it prints for a value that it cannot read.
void launch_line(Case& c) {
  GError* error = nullptr;
  GstElement* e = gst_parse_launch(
      "cudaletterbox mean=0.485,0.456,0.406 std=0.5 fill-color=0xff727272", &error);
  c.check(e && !error, "%s", error ? error->message : "no element");
  if (e) {
    c.check(numbers(e, "mean") == "0.485,0.456,0.406", "mean is %s", numbers(e, "mean").c_str());
    gst_object_unref(e);
  }
  // GStreamer's message says nothing else about a number that it cannot read. The property's
  // description shows the right form.
  e = gst_parse_launch("cudaletterbox fill-color=#727272", &error);
  c.check(error && strstr(error->message, "could not set property \"fill-color\"") &&
              strstr(error->message, "#727272"),
          "%s", error ? error->message : "no error");
  g_clear_error(&error);
  gst_clear_object(&e);
}

void property_cases(Suite& s, const std::string& at) {
  s.run(at + "properties", [&](Case& c) {
    GstElement* e = gst_element_factory_make("cudaletterbox", nullptr);
    int rule, align, stride, interpolation, order;
    guint fill;
    gboolean up;
    double scale;
    g_object_get(e, "rule", &rule, "align", &align, "stride", &stride, "interpolation",
                 &interpolation, "channel-order", &order, "fill-color", &fill, "scale-up", &up,
                 "scale", &scale, nullptr);
    c.check(rule == 0 && align == 0 && stride == 0 && interpolation == 0 && order == 0 &&
                fill == 0xff727272 && up && scale == 1.0 / 255,
            "a default is off");
    const std::string three = "0.485,0.456,0.406";
    for (const char* text :
         {"<0.485,0.456,0.406>", " < (double)0.485, 0.456 ,406e-3>", three.c_str()}) {
      g_object_set(e, "mean", "0", nullptr);
      g_object_set(e, "mean", text, nullptr);
      c.check(numbers(e, "mean") == three, "mean=%s is %s", text, numbers(e, "mean").c_str());
    }
    for (const char* text : {"red", "<1,2,30", "0.5 0.5 0.5", "", "[1,2,3]"}) {
      c.expect_warning(": it must be one number, or three with commas between them");
      g_object_set(e, "mean", text, nullptr);
      c.check(numbers(e, "mean") == three, "mean changed by \"%s\"", text);
    }
    set_array(e, "mean", {0.5});
    c.check(numbers(e, "mean") == "0.5", "mean of an array is %s", numbers(e, "mean").c_str());
    launch_line(c);
    c.expect_warning(" has 2 numbers: it must be one number, or three with commas between them");
    set_array(e, "mean", {1, 2});
    c.check(numbers(e, "mean") == "0.5", "mean changed");
    c.expect_warning(" is not allowed: each number must be finite and not 0. std stays 1.");
    set_array(e, "std", {1, 0, 1});
    c.expect_warning(
        "scale=0 is not allowed: it must be finite and not 0. scale stays 0.00392157.");
    g_object_set(e, "scale", 0.0, nullptr);
    g_object_get(e, "scale", &scale, nullptr);
    c.check(scale == 1.0 / 255, "scale became %g", scale);
    gst_object_unref(e);
  });
}

void video_cases(Suite& s, const std::string& on, const Row& row, const GstVideoInfo& info) {
  const char* const raw = row.cuda_caps ? "video/x-raw(memory:CUDAMemory)" : "video/x-raw";
  const auto video = [raw](const char* rest) { return std::string(raw) + "," + rest; };

  for (const char* rule : {"ultralytics", "affine"})
    s.run(on + "video by " + rule, [&](Case& c) {
      if (!usable(c, row)) return;
      Letterbox l(row);
      gst_util_set_object_arg(G_OBJECT(l.element()), "rule", rule);
      g_object_set(l.element(), "fill-color", 0xff102030u, nullptr);
      l.out(video("format=RGB,width=64,height=64").c_str());
      l.in(info);
      const BufferPtr in = make_frame(row.cuda_caps, info, 3);
      const BufferPtr out = l.push(in);
      if (!out) return c.fail("nothing came out: %s", l.error().c_str());
      const GstVideoInfo small = video_info("RGB", 64, 64);
      LetterboxParams p;
      p.rule = strcmp(rule, "affine") ? LetterboxRule::ultralytics : LetterboxRule::affine;
      p.fill = 0xff102030;
      const auto want = directly(c, packed_copy(info, in.get()).get(), info, Type::u8, false, false,
                                 false, 64, 64, p);
      const BufferPtr got = packed_copy(small, out.get());
      const std::string d = differs(got.get(), want);
      c.check(d.empty(), "%s", d.c_str());
      c.check(meta_double(out.get(), "source-width") == 160 &&
                  meta_double(out.get(), "source-height") == 90 &&
                  std::abs(meta_double(out.get(), "top") - 14) < 1e-3 &&
                  std::abs(meta_double(out.get(), "left")) < 1e-3 &&
                  std::abs(meta_double(out.get(), "content-height") - 36) < 1e-3 &&
                  std::abs(meta_double(out.get(), "scale") - 0.4) < 1e-6,
              "meta: top %g left %g height %g scale %g", meta_double(out.get(), "top"),
              meta_double(out.get(), "left"), meta_double(out.get(), "content-height"),
              meta_double(out.get(), "scale"));
    });
}

struct TensorType {
  const char* types;
  Type type;
  bool half;
};
constexpr TensorType kTensorTypes[] = {
    {"float32", Type::f32, false}, {"float16", Type::u16, true}, {"uint8", Type::u8, false}};

void tensor_cases(Suite& s, const std::string& on, const Row& row, const GstVideoInfo& info) {
  for (const auto& t : kTensorTypes)
    for (const bool planar : {true, false})
      for (const bool bgr : {false, true})
        s.run(on + "tensor " + t.types + (planar ? " NCHW" : " NHWC") + (bgr ? " bgr" : ""),
              [&](Case& c) {
                if (!usable(c, row)) return;
                Letterbox l(row);
                gst_util_set_object_arg(G_OBJECT(l.element()), "channel-order",
                                        bgr ? "bgr" : "rgb");
                set_array(l.element(), "mean", {0.5, 0.25, 0.125});
                set_array(l.element(), "std", {0.5});
                const std::string caps =
                    std::string("other/tensors,format=static,num_tensors=1,types=") + t.types +
                    ",dimensions=" + (planar ? "96:64:3:1" : "3:96:64:1");
                l.out(caps.c_str());
                l.in(info);
                const BufferPtr in = make_frame(row.cuda_caps, info, 4);
                const BufferPtr out = l.push(in);
                if (!out) return c.fail("nothing came out: %s", l.error().c_str());
                LetterboxParams p;
                const double mean[3] = {bgr ? 0.125 : 0.5, 0.25, bgr ? 0.5 : 0.125};
                for (int i = 0; i < 3; i++) p.mean[i] = mean[i], p.std[i] = 0.5;
                const auto want = directly(c, packed_copy(info, in.get()).get(), info, t.type,
                                           t.half, planar, bgr, 96, 64, p);
                const std::string d = differs(out.get(), want);
                c.check(d.empty(), "%s", d.c_str());
                c.check(gst_buffer_get_size(out.get()) == want.size(), "%zu bytes",
                        gst_buffer_get_size(out.get()));
                c.check(l.out_caps().find("framerate") != std::string::npos, "caps %s",
                        l.out_caps().c_str());
              });
}

// The sizes include some whose rows are no multiple of any alignment.
void cuda_tensor_cases(Suite& s, const std::string& on, const Row& row, const GstVideoInfo& info) {
  for (const auto& t : kTensorTypes)
    for (const bool planar : {true, false})
      s.run(on + "tensor in CUDA memory " + t.types + (planar ? " NCHW" : " NHWC"), [&](Case& c) {
        std::string why;
        if (!cuda_context(&why)) return c.skip("%s", why.c_str());
        for (const auto& [w, h] : {std::pair{96, 64}, {61, 37}, {1, 1}}) {
          Letterbox l(row);
          char caps[160];
          snprintf(caps, sizeof caps,
                   "other/tensors(memory:CUDAMemory),format=static,num_tensors=1,types=%s,"
                   "dimensions=(string)%s%d:%d%s:1",
                   t.types, planar ? "" : "3:", w, h, planar ? ":3" : "");
          l.out(caps);
          l.in(info);
          const BufferPtr in = make_frame(row.cuda_caps, info, 4);
          const auto want = directly(c, packed_copy(info, in.get()).get(), info, t.type, t.half,
                                     planar, false, w, h, {});
          // Four tensors are more than a pool has at first. Later rounds reuse them.
          std::vector<BufferPtr> held;
          for (int i = 0; i < 4; i++) {
            const BufferPtr out = l.push(in);
            if (!out) return c.fail("%dx%d: nothing came out: %s", w, h, l.error().c_str());
            c.check(gst_buffer_get_size(out.get()) == want.size(), "%dx%d: %zu bytes, not %zu", w,
                    h, size_t(gst_buffer_get_size(out.get())), want.size());
            c.check(from_device(c, out.get()) == want, "%dx%d: the device's bytes differ", w, h);
            // GStreamer copies the tensor to the host if it is mapped there.
            std::string d = differs(out.get(), want);
            c.check(d.empty(), "%dx%d: %s", w, h, d.c_str());
            const BufferPtr copy = own(gst_buffer_copy_deep(out.get()));
            d = differs(copy.get(), want);
            c.check(d.empty(), "%dx%d: the copy's %s", w, h, d.c_str());
            if (i != 1) held.push_back(out);
          }
          c.check(!gst_buffer_get_video_meta(held[0].get()), "a tensor has a video meta");
        }
      });
}

void tensor_memory_case(Suite& s, const std::string& on, const Row& row, const GstVideoInfo& info) {
  s.run(on + "memory that tensors are made in", [&](Case& c) {
    if (!usable(c, row)) return;
    const char* const tensor = "format=static,num_tensors=1,types=uint8,dimensions=3:32:32:1";
    const auto in_memory = [&](const std::string& caps) {
      Letterbox l(row);
      l.out(caps.c_str());
      l.in(info);
      const BufferPtr out = l.push(make_frame(row.cuda_caps, info, 5));
      c.check(out != nullptr, "%s: nothing came out: %s", caps.c_str(), l.error().c_str());
      const bool cuda = out && gstvf::cuda_memory(out.get());
      c.check(cuda == (l.out_caps().find("CUDAMemory") != std::string::npos),
              "memory is not as in %s", l.out_caps().c_str());
      return cuda;
    };
    const std::string cuda = std::string("other/tensors(memory:CUDAMemory),") + tensor;
    const std::string system = std::string("other/tensors,") + tensor;
    c.check(!in_memory(system), "CUDA memory was not asked for");
    // Tensors stay in the memory in which they are made if downstream takes both memories.
    const bool made_in_cuda = row.cuda_caps || row.library_backend() == Backend::cuda;
    for (const std::string& both :
         {cuda + ";" + system, system + ";" + cuda, std::string("other/tensors(ANY),") + tensor})
      c.check(in_memory(both) == made_in_cuda, "%s: tensors left their memory", both.c_str());
    if (cuda_context()) return c.check(in_memory(cuda), "CUDA memory was asked for");
    Letterbox l(row);
    l.out(cuda.c_str());
    l.in(info);
    l.push(make_frame(false, info, 5));
    const std::string error = l.error();
    c.check(VF_HAVE_GST_CUDA ? error.find("There is no CUDA device") != std::string::npos
                             : l.flow() == GST_FLOW_NOT_NEGOTIATED,
            "error \"%s\"", error.c_str());
  });
}

void change_of_size_cases(Suite& s, const std::string& on, const Row& row,
                          const GstVideoInfo& info) {
  s.run(on + "sizes that change", [&](Case& c) {
    if (!usable(c, row)) return;
    Letterbox l(row);
    l.out("other/tensors,format=static,num_tensors=1,types=uint8,dimensions=3:48:48:1");
    for (const auto& [w, h] : {std::pair{160, 90}, {31, 77}, {48, 48}, {5, 300}, {1, 1}}) {
      const GstVideoInfo now = video_info("RGB", w, h);
      l.in(now);
      const BufferPtr in = make_frame(row.cuda_caps, now, 5);
      const BufferPtr out = l.push(in);
      const auto want = directly(c, packed_copy(now, in.get()).get(), now, Type::u8, false, false,
                                 false, 48, 48, {});
      const std::string d = differs(out.get(), want);
      c.check(d.empty(), "%dx%d: %s %s", w, h, d.c_str(), l.error().c_str());
    }
  });

  s.run(on + "output sizes that change", [&](Case& c) {
    if (!usable(c, row)) return;
    Letterbox l(row);
    const BufferPtr in = make_frame(row.cuda_caps, info, 5);
    const BufferPtr packed = packed_copy(info, in.get());
    bool first = true;
    for (const auto& [w, h] : {std::pair{48, 48}, {31, 77}, {160, 90}, {5, 300}, {48, 48}}) {
      char caps[120];
      snprintf(caps, sizeof caps,
               "other/tensors,format=static,num_tensors=1,types=uint8,dimensions=(string)3:%d:%d:1",
               w, h);
      l.out(caps);
      if (first) l.in(info);
      first = false;
      const BufferPtr out = l.push(in);
      const auto want = directly(c, packed.get(), info, Type::u8, false, false, false, w, h, {});
      const std::string d = differs(out.get(), want);
      c.check(d.empty(), "%dx%d: %s %s", w, h, d.c_str(), l.error().c_str());
    }
  });
}

void input_format_case(Suite& s, const std::string& on, const Row& row) {
  s.run(on + "every input format", [&](Case& c) {
    if (!usable(c, row)) return;
    for (const char* format :
         {"I420", "NV12", "NV21", "YV12", "Y42B", "Y444", "P010_10LE", "I420_10LE", "RGBA", "BGRx",
          "ARGB", "RGBP", "GBRA", "GRAY8", "GRAY16_LE", "AYUV", "YUY2", "A420", "ARGB64"}) {
      const GstVideoInfo from = video_info(format, 66, 38);
      Letterbox l(row);
      l.out("other/tensors,format=static,num_tensors=1,types=float32,dimensions=32:32:3:1");
      if (row.cuda_caps) {
        GstPad* pad = gst_element_get_static_pad(l.element(), "sink");
        GstCaps* sink = gst_pad_query_caps(pad, nullptr);
        gst_object_unref(pad);
        GstVideoInfo copy = from;
        GstCaps* caps = gst_video_info_to_caps(&copy);
        gstvf::set_caps_in_cuda(caps);
        const bool can = gst_caps_can_intersect(sink, caps);
        gst_caps_unref(sink);
        gst_caps_unref(caps);
        if (!can) continue;
      }
      l.in(from);
      const BufferPtr out = l.push(make_frame(row.cuda_caps, from, 6));
      c.check(out && gst_buffer_get_size(out.get()) == 32 * 32 * 3 * 4, "%s: %s", format,
              l.error().c_str());
      if (!out) continue;
      GstMapInfo map;
      gst_buffer_map(out.get(), &map, GST_MAP_READ);
      const auto* v = reinterpret_cast<const float*>(map.data);
      bool good = v[0] == 114.0f / 255;  // padding has this value for any input
      for (int i = 0; i < 32 * 32 * 3; i++) good = good && v[i] >= 0 && v[i] <= 1;
      gst_buffer_unmap(out.get(), &map);
      c.check(good, "%s: values are off", format);
    }
  });
}

void places_case(Suite& s, const std::string& at, const GstVideoInfo& info) {
  const Row& row = kRows[0];
  s.run(at + "regions and events are mapped both ways", [&](Case& c) {
    for (const char* rule : {"ultralytics", "affine"}) {
      Letterbox l(row);
      gst_util_set_object_arg(G_OBJECT(l.element()), "rule", rule);
      l.out("video/x-raw,format=RGB,width=64,height=64");
      l.in(info);
      const BufferPtr in = make_frame(false, info, 3);
      GstVideoRegionOfInterestMeta* roi =
          gst_buffer_add_video_region_of_interest_meta(in.get(), "face", 40, 20, 50, 30);
      gst_video_region_of_interest_meta_add_param(
          roi, gst_structure_new("p", "k", G_TYPE_INT, 7, nullptr));
      const BufferPtr out = l.push(in);
      GstVideoRegionOfInterestMeta* moved =
          out ? gst_buffer_get_video_region_of_interest_meta_id(out.get(), roi->id) : nullptr;
      if (!moved) return c.fail("the region is gone: %s", l.error().c_str());
      c.check(moved->x == 16 && moved->y == 22 && moved->w == 20 && moved->h == 12 &&
                  gst_video_region_of_interest_meta_get_param(moved, "p"),
              "%s: region at %u,%u %ux%u", rule, moved->x, moved->y, moved->w, moved->h);
      GstCudaLetterboxGeometry geometry;
      c.check(gst_buffer_get_cuda_letterbox_geometry(out.get(), &geometry) &&
                  geometry.output_width == 64 && geometry.output_height == 64,
              "%s: the output is %dx%d", rule, geometry.output_width, geometry.output_height);
      // The scale is that of the documentation's formula, to half a pixel of the source.
      const double cw = meta_double(out.get(), "content-width"),
                   ch = meta_double(out.get(), "content-height");
      const double x = (moved->x - meta_double(out.get(), "left")) * 160 / cw;
      const double y = (moved->y - meta_double(out.get(), "top")) * 90 / ch;
      c.check(std::abs(x - 40) <= 0.5 && std::abs(y - 20) <= 0.5, "%s: back at %g, %g", rule, x, y);

      while (GstEvent* e = gst_harness_try_pull_upstream_event(l.harness())) gst_event_unref(e);
      gst_harness_push_upstream_event(
          l.harness(), gst_navigation_event_new_mouse_move(32, 32, GST_NAVIGATION_MODIFIER_NONE));
      bool seen = false;
      while (GstEvent* e = gst_harness_try_pull_upstream_event(l.harness())) {
        gdouble ex, ey;
        if (GST_EVENT_TYPE(e) == GST_EVENT_NAVIGATION &&
            gst_navigation_event_get_coordinates(e, &ex, &ey)) {
          seen = true;
          c.check(std::abs(ex - 80) <= 0.5 && std::abs(ey - 45) <= 0.5, "%s: event at %g, %g", rule,
                  ex, ey);
        }
        gst_event_unref(e);
      }
      c.check(seen, "no event came through");
    }
  });
}

void geometry_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
  const Row& row = kRows[0];
  s.run(at + "pixel aspect ratio", [&](Case& c) {
    Letterbox l(row);
    l.out("video/x-raw,format=RGB,width=64,height=64");
    GstVideoInfo wide = video_info("RGB", 80, 90);
    wide.par_n = 2;
    wide.par_d = 1;
    l.in(wide);
    const BufferPtr out = l.push(make_frame(false, wide, 3));
    c.check(meta_double(out.get(), "content-width") == 64 &&
                meta_double(out.get(), "content-height") == 36,
            "%gx%g", meta_double(out.get(), "content-width"),
            meta_double(out.get(), "content-height"));
  });

  s.run(at + "stride", [&](Case& c) {
    Letterbox l(row);
    g_object_set(l.element(), "stride", 32, nullptr);
    l.out("video/x-raw,format=RGB,width=[1,640],height=[1,640]");
    const GstVideoInfo hd = video_info("RGB", 1920, 1080);
    l.in(hd);
    const BufferPtr out = l.push(make_frame(false, hd, 3));
    c.check(out && meta_double(out.get(), "top") == 12 &&
                l.out_caps().find("height=(int)384") != std::string::npos &&
                l.out_caps().find("width=(int)640") != std::string::npos,
            "caps %s, top %g", l.out_caps().c_str(), meta_double(out.get(), "top"));
  });

  s.run(at + "stride and a size that fits in one direction only", [&](Case& c) {
    // The next multiples are 640x384 and 384x640. The caps want more rows or columns: all are used.
    for (const auto& [w, h, behind, border] :
         {std::tuple{1920, 1080, "width=[1,640],height=[400,640]", "top"},
          {1080, 1920, "width=[400,640],height=[1,640]", "left"}}) {
      Letterbox l(row);
      g_object_set(l.element(), "stride", 32, nullptr);
      l.out((std::string("video/x-raw,format=RGB,") + behind).c_str());
      const GstVideoInfo hd = video_info("RGB", w, h);
      l.in(hd);
      const BufferPtr out = l.push(make_frame(false, hd, 3));
      c.check(out && l.out_caps().find("(int)400") != std::string::npos &&
                  meta_double(out.get(), border) == 20,
              "caps %s, %s %g", l.out_caps().c_str(), border, meta_double(out.get(), border));
    }
  });

  s.run(at + "stride without a size in downstream caps", [&](Case& c) {
    // The output is 333x77 with borders up to the next multiples of the stride. The size ranges
    // that videoconvert offers do not count as a size.
    for (const char* behind :
         {"video/x-raw,format=RGB", "video/x-raw,format=RGB,width=[1,32767],height=[1,32767]",
          "other/tensors,format=static,num_tensors=1,types=uint8"}) {
      Letterbox l(row);
      g_object_set(l.element(), "stride", 32, nullptr);
      l.out(behind);
      const GstVideoInfo odd = video_info("RGB", 333, 77);
      l.in(odd);
      const BufferPtr out = l.push(make_frame(false, odd, 3));
      const std::string caps = l.out_caps();
      c.check(out && (caps.find("352:96:3:1") != std::string::npos ||
                      (caps.find("width=(int)352") != std::string::npos &&
                       caps.find("height=(int)96") != std::string::npos)),
              "%s: caps %s", behind, caps.c_str());
      c.check(meta_double(out.get(), "content-width") == 333 &&
                  meta_double(out.get(), "content-height") == 77 &&
                  meta_double(out.get(), "left") == 9 && meta_double(out.get(), "top") == 9,
              "%s: %gx%g at %g,%g", behind, meta_double(out.get(), "content-width"),
              meta_double(out.get(), "content-height"), meta_double(out.get(), "left"),
              meta_double(out.get(), "top"));
    }
  });

  s.run(at + "settings of the geometry change while playing", [&](Case& c) {
    Letterbox l(row);
    l.out("video/x-raw,format=RGB,width=64,height=64");
    l.in(info);
    l.push(make_frame(false, info, 3));
    for (const auto& [name, value, top] :
         {std::tuple{"align", 1, 0.0}, {"rule", 1, 0.0}, {"align", 0, 14.0}, {"rule", 0, 14.0}}) {
      g_object_set(l.element(), name, value, nullptr);
      const BufferPtr out = l.push(make_frame(false, info, 3));
      c.check(out && std::fabs(meta_double(out.get(), "top") - top) < 1e-4, "%s=%d: top %g: %s",
              name, value, meta_double(out.get(), "top"), out ? "" : l.error().c_str());
    }
  });
}

void class_case(Suite& s, const std::string& at) {
  s.run(at + "neither autovideoconvert nor GES selects it", [&](Case& c) {
    // autovideoconvert looks for "Converter" in the class of every element before 1.24. GES looks
    // for Scaler without Colorspace from 1.30 on.
    GstElementFactory* factory = gst_element_factory_find("cudaletterbox");
    const char* klass = gst_element_factory_get_metadata(factory, GST_ELEMENT_METADATA_KLASS);
    const bool with = gstvf::gstreamer_is(29);
    c.check(strstr(klass, "Scaler") && !strstr(klass, "Converter") == !with &&
                !strstr(klass, "Colorspace") == !with,
            "klass is %s", klass);
    gst_object_unref(factory);
  });
}

void conversion_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
  const Row& row = kRows[0];
  s.run(at + "the meta outlives a conversion", [&](Case& c) {
    // The test makes the calls that videoconvertscale makes.
    Letterbox l(row);
    l.out("video/x-raw,format=RGB,width=64,height=64");
    l.in(info);
    const BufferPtr out = l.push(make_frame(false, info, 3));
    GstCustomMeta* meta = out ? gst_buffer_get_custom_meta(out.get(), kMeta) : nullptr;
    if (!meta) return c.fail("no meta: %s", l.error().c_str());
    GstVideoInfo from = video_info("RGB", 64, 64), to = video_info("RGB", 128, 32);
    to.par_d = 4;
    GstVideoMetaTransform scale = {&from, &to};
    const BufferPtr scaled = own(gst_buffer_new());
    meta->meta.info->transform_func(scaled.get(), &meta->meta, out.get(),
                                    gst_video_meta_transform_scale_get_quark(), &scale);
    c.check(meta_double(scaled.get(), "top") == 7 &&
                meta_double(scaled.get(), "content-width") == 128 &&
                meta_double(scaled.get(), "content-height") == 18 &&
                meta_double(scaled.get(), "source-width") == 160 &&
                meta_double(scaled.get(), "output-width") == 128 &&
                meta_double(scaled.get(), "output-height") == 32,
            "top %g, content %gx%g", meta_double(scaled.get(), "top"),
            meta_double(scaled.get(), "content-width"),
            meta_double(scaled.get(), "content-height"));
    const BufferPtr copied = own(gst_buffer_copy(out.get()));
    c.check(meta_double(copied.get(), "top") == 14, "the copy's top is %g",
            meta_double(copied.get(), "top"));
  });

  s.run(at + "same size, another pixel aspect ratio: regions move", [&](Case& c) {
    Letterbox l(row);
    l.out("video/x-raw,format=RGB,width=160,height=90,pixel-aspect-ratio=1/1");
    GstVideoInfo wide = info;
    wide.par_n = 2;
    wide.par_d = 1;
    l.in(wide);
    const BufferPtr in = make_frame(false, wide, 3);
    gst_buffer_add_video_region_of_interest_meta(in.get(), "face", 0, 0, 160, 90);
    const BufferPtr out = l.push(in);
    const auto* roi = out ? reinterpret_cast<GstVideoRegionOfInterestMeta*>(gst_buffer_get_meta(
                                out.get(), GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE))
                          : nullptr;
    c.check(roi && roi->x == 0 && roi->y == 22 && roi->w == 160 && roi->h == 45,
            "region at %u,%u %ux%u", roi ? roi->x : 0, roi ? roi->y : 0, roi ? roi->w : 0,
            roi ? roi->h : 0);
  });
}

void caps_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
  const Row& row = kRows[0];
  s.run(at + "one given side keeps the aspect ratio", [&](Case& c) {
    const GstVideoInfo yuv = video_info("I420", 160, 90);
    for (const auto& [given, other] :
         {std::pair{"width=80", "height=(int)45"}, {"height=45", "width=(int)80"}}) {
      Letterbox l(row);
      l.out(("video/x-raw,format=RGB," + std::string(given)).c_str());
      l.in(yuv);
      l.push(make_frame(false, yuv, 3));
      c.check(l.out_caps().find(other) != std::string::npos, "%s: caps %s", given,
              l.out_caps().c_str());
      // The matrix of YUV is none of RGB's.
      c.check(l.out_caps().find("colorimetry=(string)bt") == std::string::npos, "caps %s",
              l.out_caps().c_str());
    }
  });

  s.run(at + "caps name the default values", [&](Case& c) {
    Letterbox l(row);
    l.out("video/x-raw,format=RGB,width=64,height=64");
    l.in(info);
    l.push(make_frame(false, info, 3));
    // A downstream element that asks for the default value needs the field to be present.
    for (const char* field :
         {"interlace-mode=(string)progressive", "pixel-aspect-ratio=(fraction)1/1"})
      c.check(l.out_caps().find(field) != std::string::npos, "no %s in %s", field,
              l.out_caps().c_str());
  });
}

void refusal_cases(Suite& s, const std::string& at, const GstVideoInfo& info) {
  const Row& row = kRows[0];
  s.run(at + "impossible dimensions", [&](Case& c) {
    for (const char* dimensions : {"640:640:4:1", "0:640:3:1", "640", "a:b:3:1", "64:64:3:2"}) {
      Letterbox l(row);
      l.out((std::string(
                 "other/tensors,format=static,num_tensors=1,types=float32,dimensions=(string)") +
             dimensions)
                .c_str());
      l.in(info);
      const BufferPtr out = l.push(make_frame(false, info, 3));
      const std::string error = l.error();
      c.check(!out && error.find("dimensions W:H:3:1") != std::string::npos &&
                  error.find(std::string("dimensions ") + dimensions + ".") != std::string::npos,
              "%s: error \"%s\"", dimensions, error.c_str());
    }
  });

  s.run(at + "video that is too large", [&](Case& c) {
    Letterbox l(row);
    l.out("video/x-raw,format=RGB,width=100000,height=90000");
    l.in(info);
    const BufferPtr out = l.push(make_frame(false, info, 3));
    const std::string error = l.error();
    c.check(!out && error.find("100000x90000") != std::string::npos &&
                error.find("4 GiB") != std::string::npos,
            "error \"%s\"", error.c_str());
  });

  s.run(at + "interlaced video is refused", [&](Case& c) {
    Letterbox l(row);
    l.out("video/x-raw,format=RGB,width=64,height=64");
    const GstVideoInfo fields = video_info("RGB", 160, 90, GST_VIDEO_INTERLACE_MODE_INTERLEAVED);
    l.in(fields);
    l.push(make_frame(false, fields, 3));
    const std::string error = l.error();
    c.check(error.find("interlaced") != std::string::npos, "error \"%s\"", error.c_str());
  });
}

void cases(Suite& s) {
  const std::string at = "cudaletterbox/";
  const GstVideoInfo info = video_info("RGB", 160, 90);

  property_cases(s, at);
  for (const Row& row : kRows) {
    const std::string on = at + row.name + "/";
    video_cases(s, on, row, info);
    tensor_cases(s, on, row, info);
    cuda_tensor_cases(s, on, row, info);
    tensor_memory_case(s, on, row, info);
    change_of_size_cases(s, on, row, info);
    input_format_case(s, on, row);
  }
  places_case(s, at, info);
  geometry_cases(s, at, info);
  class_case(s, at);
  letterbox_meta_cases(s, at, info);
  conversion_cases(s, at, info);
  caps_cases(s, at, info);
  refusal_cases(s, at, info);
  s.run(at + "limits/tensors as large as they can be", hostile_tensors);
  s.run(at + "limits/a frame of more than 2 GiB", large_frame);
}

}  // namespace

extern const Element letterbox_element = [] {
  Element e;
  e.name = "cudaletterbox";
  e.own_cases = cases;
  e.not_common = "the caps behind it are not those before it";
  e.changes = {{"interpolation",
                {"bilinear", "nearest", "area"},
                {},
                {"I420", "RGBA", "NV12", "P010_10LE"},
                {"video/x-raw,format=RGB,width=64,height=64,pixel-aspect-ratio=1/1",
                 "other/tensors,format=static,num_tensors=1,types=float32,dimensions=40:24:3:1",
                 "video/x-raw,format=NV12,width=30,height=50,pixel-aspect-ratio=1/1"}}};
  e.faults = {{{{"align", "center"}}, {"RGBA", "I420"}, {"RGBA", "NV12"}, 16, 20}};
  e.out_caps = "video/x-raw,width=16,height=16";
  return e;
}();

}  // namespace vf::test
