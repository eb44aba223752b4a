// What the interposer does around each call of NCCL: times it, numbers it in
// its communicator and records it, unless the profiler plugin does all that.
//
// Threads: any. A call is recorded without a lock but for the first one, and
// texts not seen before.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "profiler/nccl/preload_communicators.h"
#include "profiler/nccl/recorded_window.h"
#include "profiler/process_recorder.h"

namespace reprise {

/// ncclResult_t as far as the interposer reads it.
inline constexpr int kNcclInvalidUsage = 5;
inline constexpr int kNcclInProgress = 7;
inline bool nccl_accepted(int result) {
  return result == 0 || result == kNcclInProgress;
}

/// A collective or point-to-point call, as the host program makes it.
struct PreloadCall {
  const char* op;  ///< NCCL's word: "AllReduce".
  void* communicator = nullptr;
  void* stream = nullptr;
  size_t count = 0;
  int data_type = -1;  ///< ncclDataType_t.
  int peer = -1;       ///< Or the root.
  bool is_point_to_point = false;
};

class PreloadSession {
 public:
  /// The session of this process; null without REPRISE_PROFILE_DIRECTORY.
  /// Never destroyed.
  static PreloadSession* instance();

  /// Stops for good before anything was recorded; false when it is too late.
  bool yield();

  PreloadCommunicators& communicators() { return communicators_; }
  /// Whether calls are to be recorded now; true without a session.
  static bool is_window_open();
  /// Counts an accepted call that took from `start_ns` to `end_ns`, and records
  /// it if it began within the window, or if a graph captured it: replays
  /// within the window run it.
  void record(const PreloadCall& call, bool in_window, int64_t start_ns,
              int64_t end_ns);

  /// ncclGroupStart and ncclGroupEnd of the calling thread, which nest.
  void begin_group(int64_t start_ns);
  /// True when the outermost group has ended.
  bool end_group(int64_t end_ns);
  static bool in_group();

  /// Writes everything and closes the shard, at the end of the process.
  static void finish();

 private:
  explicit PreloadSession(const char* directory) : directory_(directory) {
    window_.find();
  }
  /// Null when the plugin records, or nothing can be.
  ProcessRecorder* recorder();
  void start();
  PreloadCommunicator* communicator_of(void* handle);
  uint32_t info_of(const PreloadCall& call, PreloadCommunicator* communicator,
                   ProcessRecorder& recorder);

  enum class Role { kUndecided, kStarts, kRecords, kYielded };
  const std::string directory_;
  RecordedWindow window_;
  std::atomic<Role> role_{Role::kUndecided};
  std::mutex start_mutex_;
  std::atomic<ProcessRecorder*> recorder_{nullptr};
  std::atomic<uint64_t> last_id_{0};
  PreloadCommunicators communicators_;
};

/// NCCL's own function behind ours, or null when NCCL lacks it.
void* next_nccl_function(const char* name);

}  // namespace reprise
