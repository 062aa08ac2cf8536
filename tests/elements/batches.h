// Runs cudaletterboxbatch, and cudaletterboxunbatch behind it, with sources and sinks of the test.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gst/gstcudaletterboxbatchmeta.h"
#include "tests/elements/harness.h"

namespace vf::test {

// A batch or a message that has not come in this time will not come. It is long because machines
// are busy.
constexpr GstClockTime kPatience = 60 * GST_SECOND;

// Describes a stream: the format and size of its frames, and its frame rate.
struct StreamKind {
  const char* format = "NV12";
  int width = 32, height = 20, fps = 25;
};

// Is a pipeline of a queue for each stream, the batcher and a sink of the application. The test
// pushes frames into the queues. Streams are named by the number of their pad.
class Batches {
 public:
  // `settings` are properties of the batcher in the syntax of launch lines. `dimensions` and `types`
  // are those of the caps behind it, and `behind` are elements that end the line, in place of the
  // sink that pull() reads.
  Batches(const Row& row, const std::string& settings, const std::string& dimensions,
          const std::string& types = "float32", const std::string& behind = "");
  ~Batches();
  Batches(const Batches&) = delete;

  GstElement* batcher() const { return batcher_; }
  GstElement* pipeline() const { return pipeline_; }
  // Adds a source for the pad sink_N, also while the pipeline plays.
  void add(guint stream, const StreamKind& kind, bool live = false);
  // Sends the segment that the next frames belong to.
  void segment(guint stream);
  void remove(guint stream);
  void play();
  GstPad* pad(guint stream) const { return sources_.at(stream).pad; }
  // Returns the pad that pushes the frames of a stream.
  GstPad* source(guint stream) const { return sources_.at(stream).source; }
  const GstVideoInfo& info(guint stream) const { return sources_.at(stream).info; }
  // Changes the format of the frames that follow.
  void change(guint stream, const StreamKind& kind);
  // Makes the next frame of a stream and pushes it. Returns the frame. The frame's time is its
  // number times the stream's frame duration, plus `offset`.
  BufferPtr push(guint stream, guint32 seed, GstClockTime offset = 0);
  // Pushes a frame of the test's own (taken).
  GstFlowReturn push(guint stream, GstBuffer* frame);
  // Sends a GAP event in place of the next frame.
  void gap(guint stream);
  void end(guint stream);
  void flush(guint stream);
  // Begins the stream anew, after a flush if it has ended.
  void restart(guint stream);
  // Returns the next batch, or null if none comes within this time.
  BufferPtr pull(GstClockTime wait = kPatience);
  bool ended() const;
  GstCaps* caps() const;
  // Waits for an error message and returns its text, or an empty string. `property` (may be null)
  // becomes the property that its details name, if they do.
  std::string error(GstClockTime wait = 0, std::string* property = nullptr);
  // Returns the text of the next warning message, or an empty string. `pad` likewise becomes the pad.
  std::string warning(std::string* pad = nullptr, std::string* property = nullptr);
  // Returns the text of the next message of the type INFO, or an empty string.
  std::string info_message();
  guint64 stat(guint stream, const char* field) const;

 private:
  struct Source {
    GstPad* source;
    GstElement* queue;
    GstPad* pad;
    GstVideoInfo info;
    guint64 frames;
  };
  void start(guint stream, const StreamKind& kind);
  void drop(Source& s);
  std::string message(GstMessageType type, GstClockTime wait, std::string* pad,
                      std::string* property);

  const Row& row_;
  GstElement *pipeline_, *batcher_;
  GstElement* sink_;
  std::map<guint, Source> sources_;
};

// Returns the bytes of a buffer in system memory.
std::string bytes_of(GstBuffer* buffer);
// Returns row `n` of a batch.
std::string row_of(GstBuffer* batch, guint n);
// Returns the tensor that cudaletterbox makes of a frame, with these settings and caps behind.
std::string letterboxed(Case& c, const Row& row, const GstVideoInfo& info, GstBuffer* frame,
                        const std::string& settings, const std::string& dimensions,
                        const std::string& types);

// Runs the cases of batchfaults.cpp, which need the emulated device.
void batch_fault_cases(Suite& suite);

}  // namespace vf::test
