// Runs cudaletterbox between fixed caps, and reads the meta that it attaches.
#pragma once

#include "tests/elements/harness.h"

namespace vf::test {

extern const Element letterbox_element;

constexpr char kMeta[] = "GstCudaLetterboxMeta";

// Runs the element between fixed caps, on a row of the table.
class Letterbox : public Bench {
 public:
  explicit Letterbox(const Row& row) : Bench(letterbox_element, row) {}
  void out(const char* caps) { gst_harness_set_sink_caps_str(harness(), caps); }
  void in(const GstVideoInfo& info) { caps(info); }
  std::string error() { return message(GST_MESSAGE_ERROR); }
  std::string out_caps() {
    GstCaps* caps = gst_pad_get_current_caps(harness()->sinkpad);
    gchar* text = caps ? gst_caps_to_string(caps) : g_strdup("none");
    std::string s = text;
    g_free(text);
    if (caps) gst_caps_unref(caps);
    return s;
  }
};

inline double meta_double(GstBuffer* buffer, const char* field) {
  GstCustomMeta* meta = buffer ? gst_buffer_get_custom_meta(buffer, kMeta) : nullptr;
  double v = NAN;
  int i;
  if (!meta) return v;
  GstStructure* s = gst_custom_meta_get_structure(meta);
  if (gst_structure_get_int(s, field, &i)) return i;
  gst_structure_get_double(s, field, &v);
  return v;
}

// Tests the metas of the element's frames.
void letterbox_meta_cases(Suite& s, const std::string& at, const GstVideoInfo& info);

}  // namespace vf::test
