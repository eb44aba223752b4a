// Turns CUPTI's activity records into process records: names instead of
// numbers, waits tied to the call that recorded the event, device work to the
// unit that launched it. What has no times is counted instead.
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/cupti/cupti_library.h"
#include "profiler/cupti/cupti_records.h"
#include "profiler/process_recorder.h"

namespace reprise::cupti {

/// The newer half of a map that forgets its older half when it is full.
template <typename Value>
class RecentMap {
 public:
  static constexpr size_t kHalf = size_t{1} << 16;

  void set(uint64_t key, const Value& value) {
    if (newer_.size() >= kHalf) {
      older_ = std::move(newer_);
      newer_.clear();
    }
    newer_[key] = value;
  }
  const Value* find(uint64_t key) const {
    for (const auto* half : {&newer_, &older_}) {
      const auto found = half->find(key);
      if (found != half->end()) return &found->second;
    }
    return nullptr;
  }

 private:
  std::unordered_map<uint64_t, Value> newer_, older_;
};

class RecordDecoder {
 public:
  /// `version` is cuptiGetVersion's: it says which fields there are. Times get
  /// `shift_ns` added, for a clock that is not CLOCK_MONOTONIC.
  RecordDecoder(const Functions& functions, uint32_t version, int64_t shift_ns);

  /// Decodes the records of one buffer. `is_copy`: of a guest's buffer, where
  /// memory that records point to is the guest's, as are kinds that only it
  /// asked for.
  void decode(uint8_t* buffer, size_t valid_bytes, bool is_copy,
              ProcessRecorder& recorder);
  /// Ends a batch of buffers. Waits whose event is not known yet, and driver
  /// calls that a runtime call may have made, are kept for the next batch,
  /// unless this is the last one.
  void end_batch(bool is_last, ProcessRecorder& recorder);
  /// Says on which device a context is, from any batch before.
  void set_context_device(uint32_t context, uint32_t device);

 private:
  /// The call that recorded an event, and on which stream.
  struct RecordedEvent {
    uint32_t correlation = 0;
    uint32_t stream = 0;
  };
  /// Grid, block, registers, static and dynamic shared memory.
  using KernelShape = std::array<int64_t, 9>;
  struct Wait {
    ProcessRecord record;
    uint32_t type = 0;
    uint64_t event_key = 0;
  };

  void decode_one(const void* record, ProcessRecorder& recorder);
  void add_kernel(const KernelRecord& kernel, ProcessRecorder& recorder);
  void add_copy(const CopyRecord& copy, ProcessRecorder& recorder);
  void add_peer_copy(const PeerCopyRecord& copy, ProcessRecorder& recorder);
  void add_memset(const MemsetRecord& set, ProcessRecorder& recorder);
  void add_call(const ApiRecord& call, ProcessRecorder& recorder);
  void add_call_record(const ApiRecord& call, ProcessRecorder& recorder);
  void add_external(const ExternalRecord& external, ProcessRecorder& recorder);
  void add_event(const EventRecord& event);
  void add_synchronization(const SynchronizationRecord& synchronization,
                           ProcessRecorder& recorder);
  void add_overhead(const OverheadRecord& overhead, ProcessRecorder& recorder);

  /// Sets times and hands over; counts what has none.
  void emit(ProcessRecord record, uint64_t start, uint64_t end,
            ProcessRecorder& recorder);
  void emit_wait(const Wait& wait, ProcessRecorder& recorder);
  void emit_held_calls(bool is_last, ProcessRecorder& recorder);
  /// Fields of work on a device stream.
  template <typename Work>
  ProcessRecord device_record(RecordKind kind, const Work& work);
  uint32_t kernel_name(const char* mangled, ProcessRecorder& recorder);
  uint32_t kernel_info(const KernelRecord& kernel, ProcessRecorder& recorder);
  uint32_t call_name(bool is_runtime, uint32_t id, ProcessRecorder& recorder);

  Functions functions_;
  uint32_t version_ = 0;
  int64_t shift_ns_ = 0;
  bool is_copy_ = false;  ///< What is decoded now.
  std::unordered_map<std::string, uint32_t> kernel_names_;
  std::unordered_map<uint64_t, uint32_t> call_names_;
  std::map<KernelShape, uint32_t> kernel_infos_;
  std::unordered_map<uint32_t, uint32_t> device_of_context_;
  RecentMap<int64_t> external_of_correlation_;
  RecentMap<RecordedEvent> events_;
  std::vector<Wait> waits_;  ///< For an event not seen yet.
  struct HeldCall {
    ApiRecord call;
    int64_t since_ns = 0;
  };
  /// By thread, its last driver call: a runtime call of the same correlation
  /// may follow, which made it, in the same buffer or the thread's next.
  std::map<uint32_t, HeldCall> held_calls_;
};

}  // namespace reprise::cupti
