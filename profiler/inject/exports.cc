// What the injection library shows to others: the driver's and NVTX's entry
// points, and what our trainer calls on a GPU. exports.map hides the rest.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "profiler/cupti/cupti_library.h"
#include "profiler/inject/injection.h"
#include "profiler/inject/nvtx_callbacks.h"

namespace {

constexpr int kNotInitialized = 15;  // CUPTI_ERROR_NOT_INITIALIZED.

/// Calls what an old CUPTI may lack.
template <typename Function, typename... Arguments>
int call_known(Function* function, Arguments... arguments) {
  return function == nullptr ? kNotInitialized : function(arguments...);
}

/// To our session where there is one, else straight to CUPTI.
template <typename ToSession, typename ToCupti>
int of_cupti(const ToSession& to_session, const ToCupti& to_cupti) {
  try {
    if (auto* session = reprise::inject::session()) return to_session(*session);
    const auto* cupti = reprise::cupti::loaded_functions();
    return cupti == nullptr ? kNotInitialized : to_cupti(*cupti);
  } catch (...) {
    return kNotInitialized;
  }
}

/// Ours subscribes first, also where the other tool comes before CUDA's start:
/// CUPTI itself starts the driver, and with it us, when somebody subscribes.
int subscribe_guest(void** handle, reprise::cupti::Callback function,
                    void* user) {
  try {
    reprise::inject::start_cuda();
  } catch (...) {
    // Without device records; the host goes on.
  }
  return of_cupti(
      [&](auto& session) {
        return session.guest_subscribes(handle, function, user);
      },
      [&](auto& cupti) { return cupti.subscribe(handle, function, user); });
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

/// Called by the driver in cuInit (CUDA_INJECTION64_PATH). 1: all is well.
int InitializeInjection() {
  try {
    reprise::inject::start_cuda();
  } catch (...) {
    // Without device records; the host goes on.
  }
  return 1;
}

/// Called by each NVTX instance at its first range (NVTX_INJECTION64_PATH). 0:
/// NVTX is off, its calls cost nothing.
int InitializeInjectionNvtx2(reprise::nvtx::GetExportTable get_export_table) {
  if (reprise::inject::recorder() == nullptr) return 0;
  return reprise::nvtx::install(get_export_table) ? 1 : 0;
}

/// Work that this thread launches until the matching pop belongs to `unit`;
/// under graph capture, so do the nodes that it creates.
void reprise_push_unit(int64_t unit) { reprise::inject::push_unit(unit); }
void reprise_pop_unit(void) { reprise::inject::pop_unit(); }

/// A training step has ended. Times of CLOCK_MONOTONIC in ns.
void reprise_mark_step(int32_t step, int32_t warmup, int64_t start_ns,
                       int64_t end_ns) {
  reprise::inject::mark_step(step, warmup != 0, start_ns, end_ns);
}

/// Nothing is recorded until reprise_let_go: of graphs CUPTI goes on recording
/// what was switched on before their context was made, also where it is
/// switched off (H200, CUPTI 13.0.1; what is switched on later obeys).
void reprise_hold(void) { reprise::inject::hold(); }
void reprise_let_go(void) { reprise::inject::let_go(); }

/// Steps `first` to `end` - 1 are marked, but not recorded unless the user
/// asked for them: they show what recording costs. Called before any is marked.
void reprise_leave_out_steps(int32_t first, int32_t end) {
  reprise::inject::leave_out_steps(first, end);
}

/// Whether work that starts now is recorded: the libraries that record NCCL
/// keep to one window with this one.
int reprise_is_window_open(void) {
  return reprise::inject::is_window_open() ? 1 : 0;
}

/// Hands everything recorded so far to the file. Call it when the device is
/// idle.
void reprise_flush(void) { reprise::inject::flush(); }

// In front of CUPTI's, for other tools in the process that are linked with it:
// what they ask for changes what we are given (cupti/buffer_guest.h,
// cupti/guest_subscriber.h).
// NOLINTBEGIN(readability-identifier-naming): CUPTI's names.

int cuptiSubscribe(void** handle, reprise::cupti::Callback function,
                   void* user) {
  return subscribe_guest(handle, function, user);
}
int cuptiSubscribe_v2(void** handle, reprise::cupti::Callback function,
                      void* user, void*) {
  return subscribe_guest(handle, function, user);
}
int cuptiUnsubscribe(void* handle) {
  return of_cupti(
      [&](auto& session) { return session.guest_unsubscribes(handle); },
      [&](auto& cupti) { return call_known(cupti.unsubscribe, handle); });
}
int cuptiEnableCallback(uint32_t enable, void* handle, uint32_t domain,
                        uint32_t id) {
  return of_cupti(
      [&](auto& session) {
        return session.guest_wants(enable != 0, handle, domain, id);
      },
      [&](auto& cupti) {
        return cupti.enable_callback(enable, handle, domain, id);
      });
}
int cuptiEnableDomain(uint32_t enable, void* handle, uint32_t domain) {
  return of_cupti(
      [&](auto& session) {
        return session.guest_wants_all(enable != 0, handle, domain);
      },
      [&](auto& cupti) {
        return call_known(cupti.enable_domain, enable, handle, domain);
      });
}
/// Would end our recording with the other tool's.
int cuptiFinalize() {
  return of_cupti([](auto&) { return reprise::cupti::kSuccess; },
                  [](auto& cupti) { return call_known(cupti.finalize); });
}
int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t enable) {
  return of_cupti(
      [&](auto& session) {
        return session.guest_switches_call(enable != 0, true, id);
      },
      [&](auto& cupti) {
        return call_known(cupti.enable_runtime_api, id, enable);
      });
}
int cuptiActivityEnableDriverApi(uint32_t id, uint8_t enable) {
  return of_cupti(
      [&](auto& session) {
        return session.guest_switches_call(enable != 0, false, id);
      },
      [&](auto& cupti) {
        return call_known(cupti.enable_driver_api, id, enable);
      });
}

int cuptiActivityRegisterCallbacks(reprise::cupti::RequestBuffer request,
                                   reprise::cupti::CompleteBuffer complete) {
  return of_cupti(
      [&](auto& session) { return session.guest_registers(request, complete); },
      [&](auto& cupti) { return cupti.register_callbacks(request, complete); });
}
int cuptiActivityRegisterTimestampCallback(reprise::cupti::Timestamp clock) {
  return of_cupti(
      [&](auto& session) { return session.guest_registers_clock(clock); },
      [&](auto& cupti) { return cupti.register_timestamp(clock); });
}
int cuptiActivityEnable(uint32_t kind) {
  return of_cupti([&](auto& session) { return session.guest_enables(kind); },
                  [&](auto& cupti) { return cupti.activity_enable(kind); });
}
int cuptiActivityDisable(uint32_t kind) {
  return of_cupti([&](auto& session) { return session.guest_disables(kind); },
                  [&](auto& cupti) { return cupti.activity_disable(kind); });
}
int cuptiActivityFlushAll(uint32_t flag) {
  return of_cupti([&](auto& session) { return session.guest_flushes(flag); },
                  [&](auto& cupti) { return cupti.flush_all(flag); });
}
// NOLINTEND(readability-identifier-naming)

/// In front of libc's, for programs that end without their exit handlers: many
/// shells do, and workers that Python forks.
void _exit(int status) {
  reprise::inject::finish_quickly();
  while (true) ::syscall(SYS_exit_group, status);
}
void _Exit(int status) noexcept {
  reprise::inject::finish_quickly();
  while (true) ::syscall(SYS_exit_group, status);
}
}
#pragma GCC visibility pop
