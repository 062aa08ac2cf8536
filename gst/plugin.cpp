/**
 * plugin-cudafilters:
 *
 * The elements filter video on NVIDIA GPUs with CUDA, or on the CPU of machines without such a GPU.
 */
#include <gst/gst.h>

GST_ELEMENT_REGISTER_DECLARE(cudadenoise)
GST_ELEMENT_REGISTER_DECLARE(cudagaussian)
GST_ELEMENT_REGISTER_DECLARE(cudaguidedmatte)
GST_ELEMENT_REGISTER_DECLARE(cudaletterbox)
GST_ELEMENT_REGISTER_DECLARE(cudaletterboxbatch)
GST_ELEMENT_REGISTER_DECLARE(cudaletterboxrestore)
GST_ELEMENT_REGISTER_DECLARE(cudaletterboxunbatch)
GST_ELEMENT_REGISTER_DECLARE(cudamedian)
GST_ELEMENT_REGISTER_DECLARE(cudapixelate)

// Elements register on every machine, since they filter on the CPU if there is no GPU. An error
// here would put the plugin on the registry's blacklist.
static gboolean plugin_init(GstPlugin* plugin) {
  gboolean ok = GST_ELEMENT_REGISTER(cudadenoise, plugin);
  ok &= GST_ELEMENT_REGISTER(cudagaussian, plugin);
  ok &= GST_ELEMENT_REGISTER(cudaguidedmatte, plugin);
  ok &= GST_ELEMENT_REGISTER(cudaletterbox, plugin);
  ok &= GST_ELEMENT_REGISTER(cudaletterboxbatch, plugin);
  ok &= GST_ELEMENT_REGISTER(cudaletterboxrestore, plugin);
  ok &= GST_ELEMENT_REGISTER(cudaletterboxunbatch, plugin);
  ok &= GST_ELEMENT_REGISTER(cudamedian, plugin);
  ok &= GST_ELEMENT_REGISTER(cudapixelate, plugin);
  return ok;
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, cudafilters,
                  "CUDA video filters with a CPU fallback", plugin_init, PACKAGE_VERSION, "LGPL",
                  PACKAGE_NAME, PACKAGE_ORIGIN)
