// Records of one process, from any thread, into its process shard
// (data/trace/process_shard.h). Lives inside strangers' processes: it never
// throws, prints, aborts or blocks a thread that records.
//
// Threads: `record` from any thread, without a lock; names take a lock when
// they are new; a writer thread of its own, started by the first record,
// appends to the file. The child of a fork has no recorder: there, every call
// does nothing, and it may start one of its own.
#pragma once

#include <time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/trace/process_shard.h"

namespace reprise {

class ProcessRecorder {
 public:
  /// Brings records that wait elsewhere, by calling `record`: called before
  /// each drain, by one thread at a time, often the writer. While it runs, its
  /// thread's records are never lost for want of room.
  using Collect = void (*)(void* context, ProcessRecorder& recorder);

  struct Options {
    std::string directory;        ///< Where HOST.PID.SOURCE.shard is made.
    std::string source;           ///< "process", "nccl".
    uint32_t capacity = 1 << 16;  ///< Records between two drains; 88 B each.
    int64_t drain_period_ns = 50'000'000;
    Collect collect = nullptr;
    void* collect_context = nullptr;
  };

  /// Makes the shard and writes its header; without records, that is all that
  /// it costs. Null when that cannot be done (no directory, disk full): then
  /// there is nothing to record.
  static std::unique_ptr<ProcessRecorder> start(const Options& options);
  /// Finishes.
  ~ProcessRecorder();
  ProcessRecorder(const ProcessRecorder&) = delete;
  ProcessRecorder& operator=(const ProcessRecorder&) = delete;

  /// CLOCK_MONOTONIC: one clock for all processes of a host.
  static int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  }
  /// System id of the calling thread, kept per thread.
  static int64_t thread_id();

  /// The shard's id of a text (at most 4 KiB of it), the same for equal texts;
  /// 0 when there is no room for more texts.
  uint32_t string_id(std::string_view text);
  /// Hands one record over; false, and counted as lost ("ring full"), when
  /// there is no room.
  bool record(const ProcessRecord& record);
  /// Counts what could not become a record: "cupti dropped", "no timestamp".
  void count_lost(std::string_view reason, uint64_t count);
  /// Says something of the process once: "cupti" -> "held by Nsight Systems".
  /// A later text under the same name replaces the one before.
  void note(std::string_view name, std::string_view text);
  /// Starts the writer, so that what `collect` brings is written in time.
  void start_writer();
  /// Has the writer drain soon.
  void wake();
  /// Returns when everything recorded so far has been handed to the file.
  void flush();
  /// Flushes, writes the end segment and closes. Later calls do nothing.
  void finish();
  /// As finish, in a process that ends at once (_exit): may be called in a
  /// signal handler and in the child of a vfork, where it touches nothing, and
  /// waits for the writer 200 ms at most.
  void finish_quickly();
  /// False after `finish` and in the child of a fork.
  bool is_recording() const;
  /// The process ends: what `collect` does not bring now is lost.
  bool is_ending() const;

 private:
  struct State;
  explicit ProcessRecorder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace reprise
