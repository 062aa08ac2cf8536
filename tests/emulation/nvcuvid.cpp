// Replaces libnvcuvid.so.1. GStreamer's nvcodec plugin registers cudaupload and cudadownload only
// if it finds that library. This one decodes nothing.
#define NOT_SUPPORTED(name)                                      \
  extern "C" __attribute__((visibility("default"))) int name() { \
    constexpr int kCudaErrorNotSupported = 801;                  \
    return kCudaErrorNotSupported;                               \
  }

NOT_SUPPORTED(cuvidCtxLockCreate)
NOT_SUPPORTED(cuvidCtxLockDestroy)
NOT_SUPPORTED(cuvidCtxLock)
NOT_SUPPORTED(cuvidCtxUnlock)
NOT_SUPPORTED(cuvidCreateDecoder)
NOT_SUPPORTED(cuvidDestroyDecoder)
NOT_SUPPORTED(cuvidDecodePicture)
NOT_SUPPORTED(cuvidCreateVideoParser)
NOT_SUPPORTED(cuvidParseVideoData)
NOT_SUPPORTED(cuvidDestroyVideoParser)
NOT_SUPPORTED(cuvidMapVideoFrame64)
NOT_SUPPORTED(cuvidUnmapVideoFrame64)
NOT_SUPPORTED(cuvidGetDecoderCaps)
