// Makes GLib's locks visible to ThreadSanitizer. GLib is built without it and locks with futexes,
// so that all accesses under a GMutex would look like races. These functions replace GLib's in the
// tests and in all libraries, and tell ThreadSanitizer what they lock.
#include <dlfcn.h>
#include <glib.h>
#include <sanitizer/tsan_interface.h>

#define VF_VISIBLE extern "C" __attribute__((visibility("default")))

namespace {

template <class F>
F real(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define VF_LOCKS(function, type)                               \
  VF_VISIBLE void function(type* lock) {                       \
    static const auto call = real<void (*)(type*)>(#function); \
    call(lock);                                                \
    __tsan_acquire(lock);                                      \
  }
#define VF_TRIES(function, type)                                   \
  VF_VISIBLE gboolean function(type* lock) {                       \
    static const auto call = real<gboolean (*)(type*)>(#function); \
    const gboolean locked = call(lock);                            \
    if (locked) __tsan_acquire(lock);                              \
    return locked;                                                 \
  }
#define VF_UNLOCKS(function, type)                             \
  VF_VISIBLE void function(type* lock) {                       \
    static const auto call = real<void (*)(type*)>(#function); \
    __tsan_release(lock);                                      \
    call(lock);                                                \
  }

VF_LOCKS(g_mutex_lock, GMutex)
VF_TRIES(g_mutex_trylock, GMutex)
VF_UNLOCKS(g_mutex_unlock, GMutex)
VF_LOCKS(g_rec_mutex_lock, GRecMutex)
VF_TRIES(g_rec_mutex_trylock, GRecMutex)
VF_UNLOCKS(g_rec_mutex_unlock, GRecMutex)
VF_LOCKS(g_rw_lock_writer_lock, GRWLock)
VF_UNLOCKS(g_rw_lock_writer_unlock, GRWLock)
VF_LOCKS(g_rw_lock_reader_lock, GRWLock)
VF_UNLOCKS(g_rw_lock_reader_unlock, GRWLock)

VF_VISIBLE void g_cond_wait(GCond* cond, GMutex* mutex) {
  static const auto call = real<void (*)(GCond*, GMutex*)>("g_cond_wait");
  __tsan_release(mutex);
  call(cond, mutex);
  __tsan_acquire(mutex);
}

VF_VISIBLE gboolean g_cond_wait_until(GCond* cond, GMutex* mutex, gint64 end) {
  static const auto call = real<gboolean (*)(GCond*, GMutex*, gint64)>("g_cond_wait_until");
  __tsan_release(mutex);
  const gboolean signalled = call(cond, mutex, end);
  __tsan_acquire(mutex);
  return signalled;
}

#undef g_once_init_leave
VF_VISIBLE void g_once_init_leave(volatile void* location, gsize result) {
  static const auto call = real<void (*)(volatile void*, gsize)>("g_once_init_leave");
  __tsan_release(const_cast<void*>(location));
  call(location, result);
}
