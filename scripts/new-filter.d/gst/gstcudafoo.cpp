/**
 * SECTION:element-cudafoo
 * @title: cudafoo
 *
 * Sharpens video on an NVIDIA GPU or on the CPU. Each sample moves away from the mean of the 3 x 3
 * samples around it. All settings can change while the pipeline plays, and by a controller.
 *
 * Frames in CUDA memory stay there. Frames in system memory are filtered on the GPU too where there
 * is one, and on the CPU where there is none or #GstCudaVideoFilter:backend says so. Fields of
 * interlaced frames are filtered separately.
 *
 * ## Example launch lines
 * |[
 * gst-launch-1.0 videotestsrc ! cudafoo strength=1 ! videoconvert ! autovideosink
 * ]| Frames in system memory.
 */
#include "filters/foo.h"
#include "gst/base/enabled.h"
#include "gst/base/planesettings.h"

using Settings = gstvf::PlaneSelection<vf::FooParams>;

typedef struct _GstCudaFoo {
  GstCudaVideoFilter parent;

  Settings settings;  // under the object's lock
} GstCudaFoo;
using GstCudaFooClass = GstCudaVideoFilterClass;

#define GST_CUDA_FOO(obj) (G_TYPE_CHECK_INSTANCE_CAST((obj), gst_cuda_foo_get_type(), GstCudaFoo))

G_DEFINE_TYPE(GstCudaFoo, gst_cuda_foo, GST_TYPE_CUDA_VIDEO_FILTER)
GST_ELEMENT_REGISTER_DEFINE(cudafoo, "cudafoo", GST_RANK_NONE, gst_cuda_foo_get_type())

static Settings* settings(GObject* object) {
  return &GST_CUDA_FOO(object)->settings;
}

static vf::FooParams params(GstCudaVideoFilter* filter, const gstvf::Format& format) {
  return gstvf::locked(filter, GST_CUDA_FOO(filter)->settings).params_for(format);
}

static gboolean is_identity(GstCudaVideoFilter* filter, const gstvf::Format& in,
                            const gstvf::Format&) {
  return vf::is_identity(params(filter, in));
}

static vf::Status make_plan(GstCudaVideoFilter* filter, vf::Queue& queue, const gstvf::Format& in,
                            const gstvf::Format&, vf::Placement placement,
                            std::unique_ptr<vf::Plan>* plan) {
  return vf::make_foo(queue, in.layout, params(filter, in), placement, plan);
}

static void gst_cuda_foo_init(GstCudaFoo* self) {
  self->settings = Settings();
}

static void gst_cuda_foo_class_init(GstCudaFooClass* klass) {
  gstvf::install_properties<Settings>(
      G_OBJECT_CLASS(klass), settings,
      {
          {"strength", "Strength", &Settings::strength, Settings::kStrength,
           "Factor on the difference between a sample and the mean of the 3 x 3 samples around it. "
           "0 passes frames through"},
      });
  Settings::install_planes(G_OBJECT_CLASS(klass), settings);
  gstvf::install_enabled(G_OBJECT_CLASS(klass));

  gstvf::describe_filter(GST_ELEMENT_CLASS(klass), "CUDA foo",
                         "Sharpens video on an NVIDIA GPU or on the CPU");
  klass->is_identity = is_identity;
  klass->make_plan = make_plan;
}
