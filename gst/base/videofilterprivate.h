// What the base class keeps, for its own files: gstcudavideofilter.cpp (start, frames, events),
// videofiltercaps.cpp (negotiation) and videofiltersettings.cpp (settings that change).
#pragma once

#include <atomic>
#include <string>

#include "gst/base/backendsettings.h"
#include "gst/base/gstcudavideofilter.h"
#include "gst/base/inflight.h"
#include "gst/base/livesettings.h"
#include "gst/base/stats.h"

struct _GstCudaVideoFilterPrivate final : gstvf::PlanSource {
  explicit _GstCudaVideoFilterPrivate(GstCudaVideoFilter* filter)
      : self(filter), cuda(GST_ELEMENT(filter)), frames(*this, cuda, stats) {}
  vf::Status make_plan(vf::Queue& queue, const gstvf::Format& in, const gstvf::Format& out,
                       vf::Placement placement, std::unique_ptr<vf::Plan>* plan) override;
  vf::Status prepare_frame(GstBuffer* in, gstvf::Rows rows, vf::Plan& plan) override;

  GstCudaVideoFilter* const self;

  // Under the object's lock.
  gstvf::BackendSettings settings;
  bool uses_start_settings = false;  // from start on: those of `settings` stay
  GstClockTime latency = 0;
  gstvf::LiveSettings live;

  std::atomic<bool> settings_changed{false};
  std::atomic<bool> enabled{true};            // the property
  std::atomic<bool> running{false};           // between start and stop
  std::atomic<GThread*> controlled{nullptr};  // that controllers set properties on

  gstvf::FrameStats stats;
  gstvf::CudaContextHolder cuda;  // has its own rules

  // The streaming thread's, or start's and stop's.
  gstvf::BackendSettings started;  // the settings at start
  bool after_drop = false;         // the frame before the next was dropped as too late
  bool off = false;                // frames pass, as `enabled` was false before the last one
  bool asks_layout = true;         // whether it is not known what the next element takes
  bool bypasses_all = true;        // whether it takes frames that pass as they lie
  // Of the negotiated caps.
  bool negotiated = false, same_format = false, cuda_caps = false;
  bool passes = false;     // whether frames pass through
  bool passes_all = true;  // whether frames that pass through are as downstream takes them
  bool in_place = false;   // whether frames of system memory are filtered where they lie
  bool proven = false;     // a frame has come out since the start
  bool renewed = false;    // no plan of before the last changes is left
  bool says_modes = true;  // whether the application has not heard yet that these are not its own
  gstvf::Format in, out;
  gstvf::InFlight frames;
  std::string refused;  // the last error about caps, until caps are taken
};

namespace gstvf {

// Tells GstBaseTransform whether frames pass through and are filtered in place.
void set_modes(GstCudaVideoFilter* self, bool passes, bool in_place);
// Undoes what an application told it.
void keep_modes(GstCudaVideoFilter* self);
// Sets properties by their controllers, at a stream time.
void sync_controllers(GstCudaVideoFilter* self, GstClockTime time);
// Follows changes of settings, before a frame: whether it passes through, and other plans.
void renew_settings(GstCudaVideoFilter* self);
// Makes the plans for a frame. Settings that changed since the frame before and that no plan can be
// made with are put back. `always`: also where none changed.
vf::Status settle_settings(GstCudaVideoFilter* self, GstBuffer* in, GstBuffer* out,
                           bool always = false);
// Whether other settings may do.
bool is_of_settings(GstCudaVideoFilter* self, const vf::Status& status);
// A frame was filtered, or passes through.
void settings_hold(GstCudaVideoFilter* self);

bool describe(GstCudaVideoFilter* self, GstPadDirection direction, GstCaps* caps, Format* format);
bool is_identity(GstCudaVideoFilter* self);
gboolean set_caps(GstBaseTransform* trans, GstCaps* incaps, GstCaps* outcaps);
// What plans remember is not of the frames before the next.
void forget_frames(GstCudaVideoFilter* self);
// The next frame is as the first one, for the whole element.
void restart_frames(GstCudaVideoFilter* self);

}  // namespace gstvf
