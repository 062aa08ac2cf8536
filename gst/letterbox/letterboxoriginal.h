// Hands the originals of letterboxed frames from cudaletterbox to cudaletterboxrestore, in a meta of
// each frame. docs/design.md says how the originals of dropped frames travel.
#pragma once

#include <gst/base/gstbasetransform.h>

#include <atomic>
#include <deque>
#include <mutex>

#include "filters/letterbox.h"
#include "gst/gstcudaletterboxmeta.h"

namespace gstvf {

// Lists originals whose frames have not arrived yet, in order. Any thread may use it.
class Originals {
 public:
  // The list is reference counted, and has a boxed type so that events can hold it. It has at most
  // `maximum` originals (0: no limit).
  Originals(GstCaps* caps, guint maximum) : caps_(gst_caps_ref(caps)), max_(maximum) {}
  static Originals* ref(Originals* originals);
  static void unref(Originals* originals);
  static GType type();

  // Returns the caps of all originals.
  GstCaps* caps() const { return caps_; }
  // Adds an original and takes a reference. Drops the oldest one if there are too many.
  void add(guint64 serial, GstBuffer* buffer);
  // Takes the oldest original with a number below `serial` out of the list (a full reference), or
  // returns null.
  GstBuffer* take_before(guint64 serial);
  // Drops the original with this number.
  void arrived(guint64 serial);
  // Records that no more originals will be added.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }
  void clear();

 private:
  ~Originals();

  struct Original {
    guint64 serial;
    GstBuffer* buffer;
  };
  gint refs_ = 1;
  GstCaps* const caps_;
  const guint max_;
  std::mutex mutex_;
  std::deque<Original> list_;
  std::atomic<bool> closed_{false};
};

// Describes the complete GstCudaLetterboxOriginalMeta, with its private fields.
struct OriginalMeta {
  GstCudaLetterboxOriginalMeta base;
  guint64 serial;
  Originals* originals;  // may be null
  // Holds the metas of the original as the letterbox moved them, on a buffer without memory. May be
  // null.
  GstBuffer* moved;
};

// Returns null if the buffer has none.
OriginalMeta* get_original(GstBuffer* buffer);
bool is_original_meta(const GstMeta* meta);

// Adds the meta of `original`, whose caps are `caps`, to a buffer without a list of originals.
// `moved` (taken) holds the metas of the original that the buffer has, and may be null.
void attach_original(GstBuffer* buffer, GstBuffer* original, GstCaps* caps, GstBuffer* moved);

// Copies the metas of a buffer to a new one without memory (a full reference). Returns null if
// there are none.
GstBuffer* copy_metas(GstBuffer* buffer);

// Holds what a restorer asks of its letterbox.
struct RestorerWants {
  bool dropped = false;  // it wants the originals of dropped frames
  guint maximum = 0;     // maximum number of these; 0: no limit
};
// Answers a letterbox's query. Returns false if `query` is another one.
bool answer_letterbox(GstQuery* query, const RestorerWants& wants);

// Returns the list that an event names (owned by the event), or null for other events.
Originals* originals_of(GstEvent* event);

// Attaches originals to the frames of a letterbox. Belongs to the streaming thread, or to start and
// stop. Zero bytes are a valid start.
class OriginalKeeper {
 public:
  // Adds the meta of `original`, the frame that came in, to `outbuf`, after all other metas.
  // `moved` (taken) holds the metas of the original that are among them.
  void attach(GstBaseTransform* trans, GstBuffer* original, GstBuffer* outbuf, GstBuffer* moved);
  // Returns a new buffer (a full reference) with the same memory, for a frame that passes through
  // with its original.
  GstBuffer* pass(GstBaseTransform* trans, GstBuffer* original,
                  const vf::LetterboxGeometry& geometry);
  // Ends the list: originals that follow do not belong to the earlier ones.
  void close();
  // Ends the list and drops all originals in it.
  void drop();

 private:
  void announce(GstPad* srcpad, GstCaps* caps);
  bool announced_;        // the restorer behind was asked
  guint64 serial_;        // number of the next original
  Originals* originals_;  // null unless a restorer wants those of dropped frames
};

}  // namespace gstvf
