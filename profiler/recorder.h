// The recorder of one rank: every thunk's times into one preallocated ring per
// stream, written to the rank's shard (profiler/shard.h) between steps.
//
// Threads: `record` for stream s is called by the one thread that owns s;
// `mark_step`, `flush` and `finish` by one thread (any), also while streams
// record. No locks. Off means no Recorder: callers hold a pointer and test it,
// which is one branch.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

/// One event as it lies in the ring and in the shard (40 bytes, little-endian).
struct ShardEvent {
  int64_t enqueue_ns = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t correlation = -1;
  int32_t unit = -1;
  uint32_t step_and_kind = 0;  ///< Low 4 bits: EventKind; the rest: step + 1.
};
static_assert(sizeof(ShardEvent) == 40);

class ShardWriter;

class Recorder {
 public:
  struct Options {
    uint32_t rank = 0;
    std::string shard_path;  ///< An existing file is replaced.
    /// Events that fit between two flushes; 40 B each.
    size_t events_per_stream = 1 << 16;
    std::string device = "cpu";
    std::vector<std::string> streams = {"compute", "communication"};
  };

  /// Allocates and touches the rings and writes the shard's header (host and
  /// pid are found out). Errors: kIo.
  static Result<std::unique_ptr<Recorder>> create(const Options& options);
  ~Recorder();

  /// Time of the clock that all events use: CLOCK_MONOTONIC, 28 ns a call
  /// (2026-11-21, Xeon, vDSO).
  static int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  }

  /// Records one event; when the ring is full, counts it as lost instead.
  /// Requires: stream < Options::streams.size(); -1 <= step < 2^28 - 1.
  void record(uint32_t stream, EventKind kind, int32_t unit, int32_t step,
              int64_t enqueue_ns, int64_t start_ns, int64_t end_ns,
              int64_t correlation) {
    Ring& ring = rings_[stream];
    const uint64_t head = ring.head.load(std::memory_order_relaxed);
    if (head - ring.known_tail >= ring.capacity && is_full(ring, head)) return;
    ring.slots[head & (ring.capacity - 1)] = {
        .enqueue_ns = enqueue_ns,
        .start_ns = start_ns,
        .end_ns = end_ns,
        .correlation = correlation,
        .unit = unit,
        .step_and_kind =
            static_cast<uint32_t>(step + 1) << 4 | static_cast<uint32_t>(kind)};
    ring.head.store(head + 1, std::memory_order_release);
  }

  /// Marks a step that has ended on this rank.
  void mark_step(int32_t step, bool warmup, int64_t start_ns, int64_t end_ns);

  /// Appends what was recorded to the shard. Call it between steps, outside the
  /// measured time. Errors: kIo (disk full …); the shard stays valid up to the
  /// flush before, and later flushes give the same error.
  Status flush();

  /// Flushes, then closes the shard with the rank's measured clock.
  /// `rank.rank`, host, process and device are filled in here; only the clock
  /// fields are read. Call it once.
  Status finish(const RankInfo& rank);

  /// The least that an event costs a thread that runs units and reads the clock
  /// once for each, as one ends when the next begins: the median of some
  /// batches, here and now. Takes 3 ms. Errors: kIo where there is no
  /// /dev/null.
  static Result<int64_t> event_cost_ns();

  /// Events lost so far because a ring was full.
  uint64_t lost_events() const;

 private:
  /// Single producer (the stream's thread), single consumer (flush).
  struct alignas(64) Ring {
    std::vector<ShardEvent> slots;  ///< Size is a power of two.
    uint64_t capacity = 0;
    uint64_t known_tail = 0;  ///< Producer's last look at `tail`.
    std::atomic<uint64_t> lost{0};
    alignas(64) std::atomic<uint64_t> head{0};
    alignas(64) std::atomic<uint64_t> tail{0};
  };

  Recorder();
  static bool is_full(Ring& ring, uint64_t head);

  std::unique_ptr<Ring[]> rings_;
  size_t stream_count_ = 0;
  RankInfo rank_;
  std::vector<StepMark> steps_;  ///< Since the last flush.
  std::unique_ptr<ShardWriter> writer_;
};

}  // namespace reprise
