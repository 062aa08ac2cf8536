// The originals of letterboxed frames: how cudaletterbox hands them to cudaletterboxrestore.
//
// Each frame brings its original in a meta (gstcudaletterboxmeta.h). Frames that never arrive bring
// nothing. For those, a letterbox with a restorer behind that wants them (a query asks) also puts
// the originals into a list that both share. An event names the list, in order with the frames. A
// list ends where the letterbox's caps or segment do, so that what is left in it then was dropped.
#pragma once

#include <gst/base/gstbasetransform.h>

#include <deque>
#include <mutex>

#include "filters/letterbox.h"
#include "gst/gstcudaletterboxmeta.h"

namespace gstvf {

// Originals whose frames have not arrived yet, in order. Any thread.
class Originals {
 public:
  // Reference counted, and a boxed type to be in events.
  static Originals* make(GstCaps* caps, guint most);
  static Originals* ref(Originals* originals);
  static void unref(Originals* originals);
  static GType type();

  // Of all.
  GstCaps* caps() const { return caps_; }
  // Takes a reference. Lets the oldest go where there are more than `most` (0: any number).
  void add(guint64 serial, GstBuffer* buffer);
  // The oldest with a number below `serial` (full), which then is no longer in the list; or null.
  GstBuffer* take_before(guint64 serial);
  // Takes out the one of this number.
  void arrived(guint64 serial);
  // No more will be added.
  void close();
  bool closed();
  void clear();

 private:
  Originals(GstCaps* caps, guint most) : caps_(gst_caps_ref(caps)), most_(most) {}
  ~Originals();

  struct Original {
    guint64 serial;
    GstBuffer* buffer;
  };
  gint refs_ = 1;
  GstCaps* const caps_;
  const guint most_;
  std::mutex mutex_;
  std::deque<Original> list_;
  bool closed_ = false;
};

// All of GstCudaLetterboxOriginalMeta.
struct OriginalMeta {
  GstCudaLetterboxOriginalMeta base;
  guint64 serial;
  Originals* originals;  // may be null
  // The metas of the original as the letterbox moved them: a buffer without memory; may be null.
  GstBuffer* moved;
};

// Null where there is none.
OriginalMeta* get_original(GstBuffer* buffer);
bool is_original_meta(const GstMeta* meta);

// The metas of a buffer on one without memory (full); null where it has none.
GstBuffer* copy_metas(GstBuffer* buffer);

// What a restorer wants of its letterbox.
struct RestorerWants {
  bool dropped = false;
  guint most = 0;  // originals of dropped frames; 0: any number
};
// Answers a letterbox's query. False where `query` is another one.
bool answer_letterbox(GstQuery* query, const RestorerWants& wants);

// The list that an event names (the event's own); null of any other event.
Originals* originals_of(GstEvent* event);

// Attaches originals in a letterbox. For the streaming thread, or start and stop; starts as zeros.
class OriginalKeeper {
 public:
  // Adds the meta of `original`, the frame that came in, to the one that goes out, after all other
  // metas. `moved` (taken) are those of the original among them.
  void attach(GstBaseTransform* trans, GstBuffer* original, GstBuffer* outbuf, GstBuffer* moved);
  // A frame that passes through with its original: another buffer (full) with the same memory.
  GstBuffer* pass(GstBaseTransform* trans, GstBuffer* original,
                  const vf::LetterboxGeometry& geometry);
  // No original follows that belongs to those before.
  void close();
  // Nor does anybody want those before.
  void drop();

 private:
  void announce(GstPad* srcpad, GstCaps* caps);
  bool announced_;        // whether a restorer behind was asked
  guint64 serial_;        // of the next original
  Originals* originals_;  // null where no restorer wants those of dropped frames
};

}  // namespace gstvf
