// Reads the tensors of a clip in C++: letterbox_appsink CLIP
//
// Decodes the clip and lets cudaletterbox make float32 tensors of 640 x 640. For each it prints the
// mean colour, and where a box of the network lies in the source, as a detector would.
#include <gst/app/gstappsink.h>
#include <gst/gst.h>

#include <cstdio>
#include <memory>
#include <string>

namespace {

constexpr int kSize = 640;

struct Unref {
  void operator()(gpointer object) const { gst_object_unref(object); }
  void operator()(GstSample* sample) const { gst_sample_unref(sample); }
  void operator()(GError* error) const { g_error_free(error); }
  void operator()(gchar* text) const { g_free(text); }
};
template <class T>
using Owned = std::unique_ptr<T, Unref>;

double number(const GstStructure* s, const char* field) {
  double v = 0;
  int i = 0;
  if (gst_structure_get_int(s, field, &i)) return i;
  gst_structure_get_double(s, field, &v);
  return v;
}

void show(GstBuffer* buffer) {
  GstMapInfo map;
  if (!gst_buffer_map(buffer, &map, GST_MAP_READ)) return;
  const auto* planes = reinterpret_cast<const float*>(map.data);  // red, green, blue
  double mean[3] = {};
  for (int c = 0; c < 3; c++) {
    for (int i = 0; i < kSize * kSize; i++) mean[c] += planes[c * kSize * kSize + i];
    mean[c] /= kSize * kSize;
  }
  gst_buffer_unmap(buffer, &map);
  printf("mean %.3f %.3f %.3f", mean[0], mean[1], mean[2]);

  // Moves the network's middle quarter to pixels of the source.
  if (GstCustomMeta* meta = gst_buffer_get_custom_meta(buffer, "GstCudaLetterboxMeta")) {
    const GstStructure* s = gst_custom_meta_get_structure(meta);
    const auto source = [&](double v, const char* border, const char* size, const char* content) {
      return (v - number(s, border)) * number(s, size) / number(s, content);
    };
    printf(", middle quarter at %.1f, %.1f to %.1f, %.1f",
           source(kSize * 0.25, "left", "source-width", "content-width"),
           source(kSize * 0.25, "top", "source-height", "content-height"),
           source(kSize * 0.75, "left", "source-width", "content-width"),
           source(kSize * 0.75, "top", "source-height", "content-height"));
  }
  printf("\n");
}

int run(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s CLIP\n", argv[0]);
    return 2;
  }
  GError* failed = nullptr;
  Owned<gchar> uri(gst_filename_to_uri(argv[1], &failed));
  if (!uri) {
    fprintf(stderr, "%s\n", failed->message);
    g_error_free(failed);
    return 2;
  }
  const std::string size = std::to_string(kSize);
  const std::string line =
      std::string("uridecodebin uri=\"") + uri.get() +
      "\" ! videoconvert ! cudaletterbox ! other/tensors,format=static,num_tensors=1,"
      "types=float32,dimensions=(string)" +
      size + ":" + size + ":3:1 ! appsink name=sink sync=false max-buffers=4";
  Owned<GstElement> pipeline(gst_parse_launch(line.c_str(), &failed));
  if (!pipeline || failed) {
    fprintf(stderr, "%s\n", failed ? failed->message : "no pipeline");
    g_clear_error(&failed);
    return 1;
  }
  Owned<GstElement> sink(gst_bin_get_by_name(GST_BIN(pipeline.get()), "sink"));
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  int frames = 0;
  while (Owned<GstSample> sample{gst_app_sink_pull_sample(GST_APP_SINK(sink.get()))}) {
    if (frames++ % 25 == 0) show(gst_sample_get_buffer(sample.get()));
  }

  int status = 0;
  Owned<GstBus> bus(gst_element_get_bus(pipeline.get()));
  if (GstMessage* message = gst_bus_pop_filtered(bus.get(), GST_MESSAGE_ERROR)) {
    gst_message_parse_error(message, &failed, nullptr);
    fprintf(stderr, "%s\n", failed->message);
    g_clear_error(&failed);
    gst_message_unref(message);
    status = 1;
  }
  gst_element_set_state(pipeline.get(), GST_STATE_NULL);
  printf("%d tensors\n", frames);
  return status ? status : frames ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  const int status = run(argc, argv);
  // This comes after everything is freed. GStreamer's threads end here, so that they cannot use
  // objects that exit() destroys.
  gst_deinit();
  return status;
}
