// Declares a source that costs next to nothing: it pushes the textured frames of a pool again and
// again.
#pragma once

#include <gst/base/gstpushsrc.h>
#include <gst/video/video.h>

G_BEGIN_DECLS

typedef struct _BenchSource {
  GstPushSrc parent;
  GstVideoInfo info;
  GstCaps* caps;
  // The source's own pool, which is not configured yet.
  GstBufferPool* own;
  // Number of different frames in a round.
  guint frames;
  // Uses downstream's pool if it offers one, as decoders do.
  gboolean take_offered;
  // This is the time between two frames.
  GstClockTime interval;

  GstBufferPool* pool;
  gboolean offered;
  guint64 filled, pushed;
} BenchSource;
typedef struct _BenchSourceClass {
  GstPushSrcClass parent_class;
} BenchSourceClass;

GType bench_source_get_type(void);

G_END_DECLS

// Makes the source. Takes references to the caps and the pool.
BenchSource* bench_source_new(GstCaps* caps, GstBufferPool* own, guint frames,
                              gboolean take_offered);
// Makes frames come as a camera's: at this rate, and none before its time.
void bench_source_set_live(BenchSource* self, double rate);
