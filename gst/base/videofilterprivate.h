// Holds the private state of the base class, for its own files: gstcudavideofilter.cpp (start,
// frames, events), videofiltercaps.cpp (negotiation, pools and metas) and videofiltersettings.cpp
// (changes of settings).
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "gst/base/backendsettings.h"
#include "gst/base/gstcudavideofilter.h"
#include "gst/base/inflight.h"
#include "gst/base/livesettings.h"
#include "gst/base/lookahead.h"
#include "gst/base/stats.h"

struct _GstCudaVideoFilterPrivate final : gstvf::PlanSource {
  explicit _GstCudaVideoFilterPrivate(GstCudaVideoFilter* filter)
      : self(filter), cuda(GST_ELEMENT(filter)), frames(*this, cuda, stats) {}
  vf::Status make_plan(vf::Queue& queue, const gstvf::Format& in, const gstvf::Format& out,
                       vf::Placement placement, std::unique_ptr<vf::Plan>* plan) override;
  vf::Status prepare_frame(GstBuffer* in, gstvf::Rows rows, vf::Plan& plan) override;
  vf::Status set_later(vf::Plan& plan, const vf::Image* frames, int count) override;

  GstCudaVideoFilter* const self;

  // These are under the object's lock.
  gstvf::BackendSettings settings;
  bool uses_start_settings = false;  // the element has started, so `settings` must not change
  GstClockTime latency = 0;
  GstClockTime frame_time = 0;  // duration of a frame by the caps, rounded up; 0 if unknown
  gstvf::LiveSettings live;

  std::recursive_mutex setting;  // a thread that sets a property holds it
  std::atomic<bool> settings_changed{false};
  std::atomic<bool> enabled{true};            // the property
  std::atomic<bool> running{false};           // between start and stop
  std::atomic<GThread*> controlled{nullptr};  // the thread on which controllers set properties

  gstvf::FrameStats stats;
  gstvf::CudaContextHolder cuda;  // cudacontext.h says which threads may use it

  // These belong to the streaming thread, or to start and stop.
  gstvf::BackendSettings started;  // the settings at start
  bool after_drop = false;         // the previous frame came too late and was dropped
  bool off = false;                // frames pass, because `enabled` was false before the last one
  bool asks_layout = true;         // it is not known yet which layouts the next element takes
  bool bypasses_all = true;        // the next element takes frames that pass in any layout
  // set_caps() sets these.
  bool negotiated = false, same_format = false, cuda_caps = false;
  bool passes = false;     // frames pass through
  bool passes_all = true;  // downstream takes frames that pass through as they are
  bool in_place = false;   // frames of system memory are filtered in place
  bool proven = false;     // a frame has come out since the start
  bool renewed = false;    // all plans are newer than the last changes
  bool says_modes = true;  // the warning about passthrough is still to come
  gstvf::Format in, out;
  gstvf::InFlight frames;
  gstvf::WaitingFrames waiting;
  // The buffers that downstream asked for, and those of them that upstream was asked for.
  guint frames_behind = 0, frames_asked = G_MAXUINT;
  std::string refused;  // the last error about caps or their memory, until both are taken
};

namespace gstvf {

// Call this when a frame leaves in the buffer that it came in. Upstream then needs as many buffers
// as the elements behind keep, and is made to ask again if it has been told of fewer.
void pass_buffer_on(GstCudaVideoFilter* self);
// Tells GstBaseTransform whether frames pass through and are filtered in place.
void set_modes(GstCudaVideoFilter* self, bool passes, bool in_place);
// Sets both modes again if an application has changed them, and warns once.
void keep_modes(GstCudaVideoFilter* self);
// Lets controllers set properties for the time of a frame.
void sync_controllers(GstCudaVideoFilter* self, GstBuffer* buffer);
// Follows changes of settings before a frame: decides whether it passes through, and outdates the
// plans.
void renew_settings(GstCudaVideoFilter* self);
// Makes the plans for a frame if they are missing. Puts settings back that changed since the
// previous frame if no plan can be made with them.
vf::Status settle_settings(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out);
// Tells whether other settings may avoid an error.
bool is_of_settings(GstCudaVideoFilter* self, const vf::Status& status);
// Records that a frame was filtered, or passes through, with the current settings.
void settings_hold(GstCudaVideoFilter* self);

bool describe(GstCudaVideoFilter* self, GstPadDirection direction, GstCaps* caps, Format* format);
bool is_identity(GstCudaVideoFilter* self);
// Returns the property cuda-device-id.
int device_wanted(GstCudaVideoFilter* self);

// videofiltercaps.cpp implements these functions of the class.
gboolean set_caps(GstBaseTransform* trans, GstCaps* incaps, GstCaps* outcaps);
gboolean get_unit_size(GstBaseTransform* trans, GstCaps* caps, gsize* size);
gboolean transform_size(GstBaseTransform* trans, GstPadDirection direction, GstCaps* caps,
                        gsize size, GstCaps* other, gsize* other_size);
gboolean propose_allocation(GstBaseTransform* trans, GstQuery* decide_query, GstQuery* query);
gboolean decide_allocation(GstBaseTransform* trans, GstQuery* query);
gboolean filter_meta(GstBaseTransform* trans, GstQuery* query, GType api,
                     const GstStructure* params);
gboolean transform_meta(GstBaseTransform* trans, GstBuffer* outbuf, GstMeta* meta,
                        GstBuffer* inbuf);

// Drops the plans of a stateful filter: the next frame does not follow the previous one.
void forget_frames(GstCudaVideoFilter* self);
// Makes the whole element treat the next frame as its first one.
void restart_frames(GstCudaVideoFilter* self);

}  // namespace gstvf
