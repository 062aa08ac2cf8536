// Tests what elements hold while they live and what is left of them, and how they choose a backend.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "tests/elements/basefeatures.h"
#include "tests/emulation/device.h"
#include "tests/process.h"

namespace vf::test {
namespace {

// Counts, with GStreamer's leaks tracer, the objects that were made since construction and still
// live.
class Leaks {
 public:
  Leaks() {
    GList* tracers = gst_tracing_get_active_tracers();
    for (GList* l = tracers; l; l = l->next)
      if (!strcmp(G_OBJECT_TYPE_NAME(l->data), "GstLeaksTracer")) tracer_ = gst_object_ref(l->data);
    g_list_free_full(tracers, gst_object_unref);
    if (tracer_) g_signal_emit_by_name(tracer_, "activity-start-tracking");
  }
  ~Leaks() {
    if (tracer_) g_signal_emit_by_name(tracer_, "activity-stop-tracking");
    if (tracer_) gst_object_unref(tracer_);
  }
  bool active() const { return tracer_; }
  // Returns the names of the types of leaked objects, or an empty string. Counts from the previous
  // call, if there was one.
  std::string left() {
    std::string text = count();
    // GStreamer's tasks are freed by their own threads, which a busy machine holds up.
    for (int i = 0; i < 1500 && !text.empty(); i++) {
      g_usleep(20000);
      text = count();
    }
    alive_.clear();
    return text;
  }

 private:
  std::string count() {
    GstStructure* activity = nullptr;
    g_signal_emit_by_name(tracer_, "activity-get-checkpoint", &activity);
    for (const char* list : {"objects-created-list", "objects-removed-list"}) {
      const GValue* values = gst_structure_get_value(activity, list);
      for (guint i = 0; i < gst_value_list_get_size(values); i++) {
        const GstStructure* o = gst_value_get_structure(gst_value_list_get_value(values, i));
        alive_[gst_structure_get_string(o, "type-name")] += list[8] == 'c' ? 1 : -1;
      }
    }
    gst_structure_free(activity);
    std::string text;
    for (const auto& [type, n] : alive_)
      if (n > 0) text += " " + std::to_string(n) + " " + type;
    return text;
  }

  gpointer tracer_ = nullptr;
  std::map<std::string, int> alive_;
};

// Runs `cycle` again and again, each time with a new element, and checks that nothing is left of it.
void leak_cases(Suite& s, const Element& e, const char* what,
                const std::function<void(Case&, Bench&, const Row&)>& cycle) {
  for (const Row& row : kRows)
    s.run(std::string(e.name) + "/" + row.name + "/" + what, [&](Case& c) {
      if (!usable(c, row)) return;
      std::string left;
      Leaks leaks;
      if (!leaks.active()) return c.skip("no leaks tracer");
      // Classes allocate what they keep in the first round.
      for (const int cycles : {1, 25}) {
        for (int i = 0; i < cycles && c.ok(); i++) {
          Bench b(e, row);
          e.set(b.element(), 0);
          cycle(c, b, row);
        }
        left = leaks.left();
      }
      c.check(left.empty(), "left behind:%s", left.c_str());
    });
}

}  // namespace

void lifetime_cases(Suite& s, const Element& e) {
  const std::string at = std::string(e.name) + "/";

  for (const Row& row : kRows)
    s.run(at + row.name + "/repeated starts and stops", [&](Case& c) {
      if (!usable(c, row)) return;
      const std::string line =
          std::string(
              "videotestsrc num-buffers=2 ! video/x-raw,format=I420,width=64,height=48 ! ") +
          (row.cuda_caps ? "cudaupload ! video/x-raw(memory:CUDAMemory) ! " : "") + e.name +
          " name=e backend=" + row.backend + " ! fakesink sync=false";
      GError* error = nullptr;
      GstElement* pipeline = gst_parse_launch(line.c_str(), &error);
      if (error) {
        c.skip("%s", error->message);
        g_clear_error(&error);
        if (pipeline) gst_object_unref(pipeline);
        return;
      }
      GstElement* element = gst_bin_get_by_name(GST_BIN(pipeline), "e");
      e.set(element, 0);
      GstBus* bus = gst_element_get_bus(pipeline);
      int threads = 0;
      [[maybe_unused]] long resident = 0;
      int cycles = c.options().cycles;
      const int warm = cycles / 10 + 1;
#if !VF_EMULATION
      // The driver needs some milliseconds to start on a GPU, one process at a time.
      if (row.needs_device()) cycles = (cycles + 3) / 4;
#endif
      // At first the pipeline makes its own context. After these cycles it gets the test's.
      const int with_own_context = cycles / 20 + warm;
      cuda_context();
#if VF_EMULATION
      const int contexts = emulation::live().contexts;
#endif
      for (int i = 0; i < cycles + warm && c.ok(); i++) {
        if (i == with_own_context && row.needs_device()) give_context(pipeline);
        gst_element_set_state(pipeline, GST_STATE_PLAYING);
        GstMessage* message = gst_bus_timed_pop_filtered(
            bus, 60 * GST_SECOND, GstMessageType(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
        c.check(message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS, "cycle %d: %s", i,
                message ? "an error" : "no EOS");
        if (message) gst_message_unref(message);
#if VF_EMULATION
        // All elements of a pipeline share one context: their own, or the application's.
        const int own = emulation::live().contexts - contexts;
        c.check(own == (row.needs_device() && i < with_own_context), "cycle %d: %d contexts more",
                i, own);
#endif
        gst_element_set_state(pipeline, GST_STATE_READY);
        gst_bus_set_flushing(bus, TRUE);
        gst_bus_set_flushing(bus, FALSE);
        if (i == warm) {
          threads = process_threads();
          resident = resident_kib();
        }
      }
      // Idle threads of GLib's pool are no leak. They end after a moment, and those of the last
      // cycle need a moment to become idle.
      for (int i = 0; i < 1500 && process_threads() > threads + 2; i++) {
        g_thread_pool_stop_unused_threads();
        g_usleep(20000);
      }
      c.check(process_threads() <= threads + 2, "%d threads became %d", threads, process_threads());
#ifndef __SANITIZE_ADDRESS__
      // The limit is 2 KiB per cycle, less than the smallest frame. Drivers grow for a while.
      const long grown = resident_kib() - resident, allowed = row.needs_device() ? 8192 : 1024;
      c.check(grown < allowed + 2 * cycles, "memory grew by %ld KiB in %d cycles", grown, cycles);
#endif
      gst_element_set_state(pipeline, GST_STATE_NULL);
      gst_object_unref(bus);
      gst_object_unref(element);
      gst_object_unref(pipeline);
    });

  s.run(at + "nothing is left behind", [&](Case& c) {
    const GstVideoInfo info = video_info("I420", 64, 48);
    std::string left;
    Leaks leaks;
    if (!leaks.active()) return c.skip("no leaks tracer");
    for (int i = 0; i < 3; i++) {
      for (const Row& row : kRows) {
        if (row.needs_device() && !cuda_context()) continue;
        Bench b(e, row);
        e.set(b.element(), 0);
        for (int n = 0; n < 2; n++) {
          gst_element_set_state(b.element(), GST_STATE_PLAYING);
          b.caps(info);
          b.push(make_frame(row.cuda_caps, info, 1));
          gst_element_set_state(b.element(), GST_STATE_READY);
        }
      }
      // Classes allocate what they keep in the first round.
      left = leaks.left();
    }
    c.check(left.empty(), "left behind:%s", left.c_str());
  });

  // This happens when a filter restarts in a running pipeline.
  leak_cases(s, e, "frames come while it starts", [&e](Case& c, Bench& b, const Row& row) {
    const GstVideoInfo info = video_info("I420", 64, 48);
    gst_element_set_state(b.element(), GST_STATE_READY);
    const BufferPtr in = make_frame(row.cuda_caps, info, 1);
    std::atomic<bool> pushing{false};
    std::atomic<int> came{0};
    std::thread upstream([&] {
      for (const gint64 end = g_get_monotonic_time() + 60 * G_USEC_PER_SEC;
           came < 3 && g_get_monotonic_time() < end;) {
        b.caps(info);
        const BufferPtr out = b.push(in);
        if (out) expect(c, e, row, info, in.get(), out.get(), 0);
        came += out != nullptr;
        pushing = true;
      }
    });
    while (!pushing) std::this_thread::yield();
    gst_element_set_state(b.element(), GST_STATE_PLAYING);
    upstream.join();
    c.check(came == 3, "%d frames came", int(came));
  });

  // GstPad still passes ALLOCATION queries to elements that are being stopped.
  leak_cases(s, e, "upstream asks for memory while it stops", [](Case&, Bench& b, const Row& row) {
    const GstVideoInfo info = video_info("I420", 64, 48);
    b.caps(info);
    b.push(make_frame(row.cuda_caps, info, 1));
    const auto caps = std::shared_ptr<GstCaps>(b.make_caps(info), gst_caps_unref);
    std::atomic<bool> asking{false}, done{false};
    std::thread upstream([&] {
      while (!done) {
        GstQuery* query = gst_query_new_allocation(caps.get(), TRUE);
        gst_pad_peer_query(b.harness()->srcpad, query);
        gst_query_unref(query);
        asking = true;
      }
    });
    while (!asking) std::this_thread::yield();
    gst_element_set_state(b.element(), GST_STATE_READY);
    done = true;
    upstream.join();
  });
}

void backend_cases(Suite& s, const Element& e) {
  const std::string at = std::string(e.name) + "/";
  const GstVideoInfo info = video_info("I420", 64, 48);

  s.run(at + "backend=cuda without a device", [&](Case& c) {
    if (cuda_context()) return c.skip("there is a device");
    GstElement* element = gst_element_factory_make(e.name, nullptr);
    gst_object_ref_sink(element);
    GstBus* bus = gst_bus_new();
    gst_element_set_bus(element, bus);
    gst_util_set_object_arg(G_OBJECT(element), "backend", "cuda");
    c.check(gst_element_set_state(element, GST_STATE_PAUSED) == GST_STATE_CHANGE_FAILURE,
            "it started");
    GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    if (message) {
      GError* error = nullptr;
      gst_message_parse_error(message, &error, nullptr);
      c.check(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND) &&
                  strstr(error->message, "backend=cpu"),
              "error is %s", error->message);
      g_clear_error(&error);
      gst_message_unref(message);
    } else {
      c.fail("no error message");
    }
    // The element starts with another backend.
    gst_element_set_state(element, GST_STATE_NULL);
    gst_util_set_object_arg(G_OBJECT(element), "backend", "cpu");
    c.check(gst_element_set_state(element, GST_STATE_PAUSED) != GST_STATE_CHANGE_FAILURE,
            "it did not start with backend=cpu");
    gst_element_set_state(element, GST_STATE_NULL);
    gst_element_set_bus(element, nullptr);
    gst_object_unref(bus);
    gst_object_unref(element);
  });

  s.run(at + "backend=auto says once what it does", [&](Case& c) {
    const Row row = {"auto", false, "auto"};
    Bench b(e, row);
    e.set(b.element(), 0);
    b.caps(info);
    const BufferPtr in = make_frame(false, info, 1);
    const Row& as = cuda_context() ? kRows[1] : kRows[0];
    for (int i = 0; i < 3; i++) expect(c, e, as, info, in.get(), b.push(in).get(), 0);
    int messages = 0;
    while (!b.message(GST_MESSAGE_INFO).empty()) messages++;
    c.check(messages == 1, "%d info messages", messages);
  });

  s.run(at + "backend=auto says what it does where gst-launch-1.0 prints it", [&](Case& c) {
    if (cuda_context()) return c.skip("there is a device");
    GstElement* element = gst_element_factory_make(e.name, nullptr);
    gst_object_ref_sink(element);
    GstBus* bus = gst_bus_new();
    gst_element_set_bus(element, bus);
    gst_element_set_state(element, GST_STATE_PAUSED);
    GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_INFO);
    if (message) {
      GError* error = nullptr;
      gchar* debug = nullptr;
      gst_message_parse_info(message, &error, &debug);
      // gst-launch-1.0 prints only the debug text of an info message.
      c.check(debug && strstr(debug, error->message) && strstr(debug, "on the CPU"),
              "the debug text is \"%s\"", debug ? debug : "");
      g_clear_error(&error);
      g_free(debug);
      gst_message_unref(message);
    } else {
      c.fail("no info message");
    }
    gst_element_set_state(element, GST_STATE_NULL);
    gst_element_set_bus(element, nullptr);
    gst_object_unref(bus);
    gst_object_unref(element);
  });

  s.run(at + "registered in every build and on every machine", [&](Case& c) {
    GstElementFactory* factory = gst_element_factory_find(e.name);
    c.check(factory != nullptr, "not registered");
    if (factory) gst_object_unref(factory);
    GstElement* element = gst_element_factory_make(e.name, nullptr);
    c.check(gst_base_transform_is_qos_enabled(GST_BASE_TRANSFORM(element)), "QoS is off");
    gst_object_unref(element);
  });

  s.run(at + "impossible caps", [&](Case& c) {
    Bench b(e, kRows[0]);
    b.caps(video_info("I420", 64, 48, GST_VIDEO_INTERLACE_MODE_FIELDS));
    const BufferPtr in = make_frame(false, info, 1);
    b.push(in);
    c.check(b.flow() == GST_FLOW_NOT_NEGOTIATED, "interlace-mode=fields: flow %s",
            gst_flow_get_name(b.flow()));
    c.check(b.message(GST_MESSAGE_ERROR).find("deinterlace") != std::string::npos,
            "no helpful error message");
  });
}

}  // namespace vf::test
