// What the NCCL profiler plugin does, for any version of its table: begins and
// ends events for NCCL's threads, and brings them to the process shard.
//
// Threads: any. Beginning, updating and ending an event take no lock and no
// memory; when the pool is full, NCCL gets no handle and the event is counted.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "profiler/nccl/event_pool.h"
#include "profiler/nccl/event_writer.h"
#include "profiler/nccl/recorded_window.h"
#include "profiler/process_recorder.h"

namespace reprise {

class NcclSession {
 public:
  /// The session of this process, made at the first call; null when there is
  /// nothing to record: no REPRISE_PROFILE_DIRECTORY, no room, or the
  /// interposer records already. Never destroyed: NCCL's threads outlive
  /// everything.
  static NcclSession* instance();
  /// The session if `instance` has made it, else null.
  static NcclSession* existing();

  /// False in the child of a fork, and once the shard is closed.
  bool is_recording() const { return recorder_->is_recording(); }

  /// Registers a communicator; the result is NCCL's context for it. Null
  /// without memory.
  void* open(NcclCommunicatorInfo communicator);
  /// No event of the communicator comes any more.
  void close();

  /// Begins an event; its handle is null when the pool is full, or when it is
  /// not to be recorded: outside the window only what a graph captures is, as
  /// replays within it run that, and what belongs to calls within it. The
  /// caller fills in what it knows before NCCL sees the handle. `is_captured`
  /// is what NCCL says of a call of the host program.
  NcclEvent* begin(void* context, NcclEventType type, void* parent,
                   bool is_captured, void** handle);
  /// Says of a group that one of its calls is recorded; else, begun outside the
  /// window, it is not.
  void keep_group(void* group);
  /// A parent that is a call, or belongs to one: what its children belong to.
  void inherit(void* parent, NcclEvent* event);
  void end(void* handle);
  void record_state(void* handle, int state,
                    const NcclStateArguments* arguments);

  /// Writes everything and closes the shard, at the end of the process.
  void finish();

 private:
  NcclSession() = default;
  bool start(const char* directory);
  bool admits(NcclEventType type, uint64_t parent, bool is_captured) const;
  void note_in_window(uint64_t id);
  void collect(ProcessRecorder& recorder);

  NcclEventPool pool_;
  std::unique_ptr<ProcessRecorder> recorder_;
  RecordedWindow window_;
  /// Of events begun within the window, where it has limits; 0: none yet.
  std::atomic<uint64_t> first_in_window_{0}, last_in_window_{0};
  std::atomic<uint64_t> turned_away_{0};  ///< For want of a free place.
  std::mutex mutex_;                      ///< Of what follows.
  std::deque<NcclCommunicatorInfo> communicators_;
};

}  // namespace reprise
