#include "runtime/process/thread_setup.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#ifdef __SSE__
#include <immintrin.h>
#endif

namespace reprise {
namespace {

/// struct sched_attr (linux/sched/types.h), first version; glibc has none
/// before 2.41.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;  ///< Of SCHED_OTHER: the slice; 0: the default.
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};

void ask_for_slice(uint64_t slice_ns) {
#ifdef SYS_sched_setattr
  SchedulingAttributes attributes;
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 ||
      attributes.policy != SCHED_OTHER) {
    return;  // Somebody chose otherwise for us.
  }
  attributes.size = sizeof attributes;
  attributes.runtime_ns = slice_ns;
  ::syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

}  // namespace

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

void pin_this_thread(std::span<const int> cores) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &allowed);
  pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
}

void prefer_prompt_turns() {
  constexpr uint64_t kShortestSlice_ns = 100'000;  // The kernel's least.
  ask_for_slice(kShortestSlice_ns);
}

void accept_usual_turns() { ask_for_slice(0); }

}  // namespace reprise
