// What another tool in the process asks of CUPTI, on its way there: the calls
// that exports.cc catches.
#include <cstring>
#include <utility>

#include "profiler/cupti/cupti_calls.h"
#include "profiler/cupti/cupti_session.h"

namespace reprise::cupti {

Result Session::guest_subscribes(void** handle, Callback function, void* user) {
  return guest_subscriber_.begin(handle, function, user);
}

Result Session::guest_unsubscribes(void* handle) {
  if (!guest_subscriber_.owns(handle)) return kInvalidParameter;
  guest_subscriber_.end();
  return kSuccess;
}

/// What the guest no longer wants stays switched on: ours may want it, and a
/// callback that nobody wants costs little.
Result Session::guest_wants(bool is_wanted, void* handle, uint32_t domain,
                            uint32_t id) {
  if (!guest_subscriber_.owns(handle)) return kInvalidParameter;
  const Result known = guest_subscriber_.want(is_wanted, domain, id);
  if (known != kSuccess || !is_wanted) return known;
  return library_.functions.enable_callback(1, subscriber_, domain, id);
}

Result Session::guest_wants_all(bool is_wanted, void* handle, uint32_t domain) {
  if (!guest_subscriber_.owns(handle)) return kInvalidParameter;
  const auto forward = library_.functions.enable_domain;
  if (forward == nullptr) return kUnknownError;
  const Result known = guest_subscriber_.want_all(is_wanted, domain);
  if (known != kSuccess) return known;
  const Result result = forward(is_wanted ? 1 : 0, subscriber_, domain);
  if (!is_wanted) set_up_callbacks();  // Ours were of the domain.
  return result;
}

/// Calls are the process's, too: those of ours stay on while ours records.
Result Session::guest_switches_call(bool is_enabled, bool is_runtime,
                                    uint32_t id) {
  const std::lock_guard lock(switch_mutex_);
  if (!is_enabled && recorded_ != Recorded::kNothing &&
      is_recorded_call(is_runtime, id))
    return kSuccess;
  const auto forward = is_runtime ? library_.functions.enable_runtime_api
                                  : library_.functions.enable_driver_api;
  return forward == nullptr ? kUnknownError : forward(id, is_enabled ? 1 : 0);
}

/// CUPTI keeps our callbacks. Our buffers come back, so that the guest's work
/// finds none of them half full.
Result Session::guest_registers(RequestBuffer request,
                                CompleteBuffer complete) {
  guest_.begin(request, complete);
  note_guest();
  return flush_all(kFlushForced);
}

Result Session::guest_registers_clock(Timestamp clock) {
  guest_clock_.set(clock);
  return kSuccess;
}

void Session::keep_copy(const uint8_t* buffer, size_t valid_bytes) {
  Copy copy{.words = std::vector<uint64_t>((valid_bytes + 7) / 8),
            .valid_bytes = valid_bytes};
  if (valid_bytes > 0) std::memcpy(copy.words.data(), buffer, valid_bytes);
  const std::lock_guard lock(copies_mutex_);
  copies_.push_back(std::move(copy));
}

void Session::decode_copies(ProcessRecorder& recorder) {
  std::vector<Copy> copies;
  {
    const std::lock_guard lock(copies_mutex_);
    copies.swap(copies_);
  }
  for (Copy& copy : copies) {
    decoder_->decode(reinterpret_cast<uint8_t*>(copy.words.data()),
                     copy.valid_bytes, /*is_copy=*/true, recorder);
  }
}

Result Session::guest_enables(uint32_t kind) {
  guest_.enable(kind);
  return library_.functions.activity_enable(kind);
}

/// Kinds are the process's, so the guest has switched off ours too.
Result Session::guest_disables(uint32_t kind) {
  const Result result = library_.functions.activity_disable(kind);
  if (!guest_.disable(kind)) return result;
  note_guest();
  const std::lock_guard lock(switch_mutex_);
  const Recorded recorded = recorded_;
  std::string refused;
  if (recorded != Recorded::kNothing)
    switch_calls(/*is_enabled=*/true, &refused);
  if (recorded == Recorded::kAll) switch_device(/*is_enabled=*/true, &refused);
  return result;
}

/// The guest reads its buffers when this returns, also one that another flush
/// is about to hand over.
Result Session::guest_flushes(uint32_t flag) { return flush_all(flag); }

void Session::note_guest() {
  ProcessRecorder* recorder = hooks_.recorder();
  if (recorder != nullptr) recorder->note("cupti guest", guest_.describe());
}

}  // namespace reprise::cupti
