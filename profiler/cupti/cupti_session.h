// CUPTI's side of the injection library: subscribes, hands full buffers to the
// decoder, names the nodes of graphs, and switches recording on and off. One
// per process, for its whole life: CUPTI is never finalized, since tearing it
// down under CUDA graphs crashes drivers before 12.6.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "profiler/cupti/activity_buffers.h"
#include "profiler/cupti/buffer_guest.h"
#include "profiler/cupti/cupti_library.h"
#include "profiler/cupti/guest_clock.h"
#include "profiler/cupti/guest_subscriber.h"
#include "profiler/cupti/record_decoder.h"
#include "profiler/process_recorder.h"

namespace reprise::cupti {

class Session {
 public:
  /// What the session asks of the rest of the library, from any thread.
  struct Hooks {
    ProcessRecorder* (*recorder)();  ///< Null when nothing is recorded.
    int64_t (*active_unit)();        ///< Of the calling thread; -1 without.
    uint32_t (*active_range)();      ///< Name of its innermost NVTX range.
    void (*profiler_range)(bool starts);  ///< cudaProfilerStart, …Stop.
    void (*context_made)();
    bool wants_profiler_range = false;
  };

  /// Finds CUPTI and subscribes. Null, with the reason as the shard's note
  /// "cupti", when there is none, no driver, or another tool holds it.
  /// Requires: at most one call in the life of a process.
  static Session* start(const Hooks& hooks);

  /// What is recorded from now on; nothing is torn down. Whoever wants units
  /// of calls has calls recorded when a context is made: switched on later
  /// alone they bring no units (CUPTI 13.0.1, H100).
  enum class Recorded { kNothing, kCalls, kAll };
  void record(Recorded recorded);
  /// Decodes what CUPTI has completed, every 100 ms and after `flush` all that
  /// it holds complete. Requires: one caller at a time.
  void collect(ProcessRecorder& recorder);
  /// The next `collect` asks CUPTI for what it holds; `is_last` also for what
  /// is not complete. A store: signal handlers may call it.
  void flush(bool is_last);
  void push_unit(int64_t unit);
  void pop_unit();

  /// What another tool calls, caught on its way to CUPTI (buffer_guest.h,
  /// guest_subscriber.h).
  Result guest_subscribes(void** handle, Callback function, void* user);
  Result guest_unsubscribes(void* handle);
  Result guest_wants(bool is_wanted, void* handle, uint32_t domain,
                     uint32_t id);
  Result guest_wants_all(bool is_wanted, void* handle, uint32_t domain);
  Result guest_switches_call(bool is_enabled, bool is_runtime, uint32_t id);
  Result guest_registers(RequestBuffer request, CompleteBuffer complete);
  Result guest_registers_clock(Timestamp clock);
  Result guest_enables(uint32_t kind);
  Result guest_disables(uint32_t kind);
  Result guest_flushes(uint32_t flag);

 private:
  explicit Session(const Hooks& hooks, Library library)
      : hooks_(hooks), library_(std::move(library)) {}
  bool subscribe(ProcessRecorder& recorder);
  Result ask(bool shares, std::string* holder);
  void set_up_activity(ProcessRecorder& recorder);
  void set_up_callbacks();
  std::string describe(Result result) const;
  void switch_kind(uint32_t kind, bool is_enabled, std::string* refused);
  void switch_device(bool is_enabled, std::string* refused);
  void switch_calls(bool is_enabled, std::string* refused);

  static void on_callback(void* user, uint32_t domain, uint32_t id,
                          const void* data);
  static void on_request(uint8_t** buffer, size_t* size, size_t* most_records);
  static void on_complete(void* context, uint32_t stream, uint8_t* buffer,
                          size_t size, size_t valid_size);
  void flush_if_due();
  Result flush_all(uint32_t flag);
  void note_guest();
  static uint64_t time();
  void on_graph_node(bool is_clone, const GraphData& graph);
  void on_context(void* context);
  void on_api(bool is_runtime, uint32_t id, const ApiCallback& call);

  /// A guest's completed buffer, until the writer reads it.
  struct Copy {
    std::vector<uint64_t> words;  // Records are aligned to 8 bytes.
    size_t valid_bytes = 0;
  };
  void keep_copy(const uint8_t* buffer, size_t valid_bytes);
  void decode_copies(ProcessRecorder& recorder);

  /// Contexts seen; more of them than this go without a device.
  static constexpr size_t kMaximumContexts = 64;

  Hooks hooks_;
  Library library_;
  uint32_t version_ = 0;
  int64_t shift_ns_ = 0;  ///< Of records, to CLOCK_MONOTONIC.
  void* subscriber_ = nullptr;
  ActivityBuffers buffers_;
  BufferGuest guest_;
  GuestClock guest_clock_;
  std::mutex copies_mutex_;
  std::vector<Copy> copies_;  ///< Under copies_mutex_.
  GuestSubscriber guest_subscriber_;
  std::unique_ptr<RecordDecoder> decoder_;
  std::atomic<uint64_t> dropped_{0};
  std::atomic<bool> is_last_{false};
  std::atomic<bool> wants_flush_{false};
  int64_t last_flush_ns_ = 0;  ///< Of `collect` alone.
  /// Context << 32 | device + 1; 0 is empty.
  std::array<std::atomic<uint64_t>, kMaximumContexts> contexts_{};
  std::mutex switch_mutex_;
  std::mutex flush_mutex_;  ///< Who flushes has all when it returns.
  /// Written under switch_mutex_.
  std::atomic<Recorded> recorded_{Recorded::kNothing};
  bool has_switched_ = false;
};

}  // namespace reprise::cupti
