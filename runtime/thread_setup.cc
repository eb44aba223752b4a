#include "runtime/thread_setup.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#ifdef __SSE__
#include <immintrin.h>
#endif

namespace reprise {

void flush_denormals() {
#ifdef __SSE__
  constexpr unsigned kFlushToZero = 1u << 15, kDenormalsAreZero = 1u << 6;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

void prepare_compute_thread() {
  flush_denormals();
  // Whichever OpenMP runtime oneDNN was linked with.
  using SetThreads = void (*)(int);
  if (void* symbol = ::dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
    reinterpret_cast<SetThreads>(symbol)(1);
  }
}

void pin_this_thread(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

}  // namespace reprise
