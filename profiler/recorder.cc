// A ring a stream with one producer and one consumer: the producer owns `head`,
// the flusher owns `tail`, and each reads the other's with acquire (Lamport's
// queue). The producer remembers the last tail it saw, so that a record usually
// touches no line that another thread writes. Slots are touched at creation: no
// page fault within a step.
#include "profiler/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "profiler/shard.h"

namespace reprise {
namespace {

/// 2.7 GB of ring, far above any use; keeps a segment's length within 32 bits.
constexpr size_t kMaximumEventsPerStream = size_t{1} << 26;
constexpr size_t kExpectedStepsPerFlush = 1024;

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

}  // namespace

Recorder::Recorder() = default;
Recorder::~Recorder() = default;

Result<std::unique_ptr<Recorder>> Recorder::create(const Options& options) {
  if (options.events_per_stream == 0 ||
      options.events_per_stream > kMaximumEventsPerStream) {
    return fail(ErrorKind::kInvalid,
                "recorder: events per stream must lie in 1..{}, got {}",
                kMaximumEventsPerStream, options.events_per_stream);
  }
  std::unique_ptr<Recorder> recorder(new Recorder);
  recorder->rank_ = {.rank = options.rank,
                     .host = host_name(),
                     .process = ::getpid(),
                     .device = options.device};
  recorder->writer_ = std::make_unique<ShardWriter>();
  if (Status opened = recorder->writer_->open(options.shard_path,
                                              recorder->rank_, options.streams);
      !opened) {
    return pass(opened.error());
  }
  recorder->stream_count_ = options.streams.size();
  recorder->rings_ = std::make_unique<Ring[]>(options.streams.size());
  for (size_t stream = 0; stream < options.streams.size(); ++stream) {
    Ring& ring = recorder->rings_[stream];
    ring.capacity = std::bit_ceil(options.events_per_stream);
    ring.slots.resize(
        ring.capacity);  // Value-initialised: every page is touched here.
  }
  recorder->steps_.reserve(kExpectedStepsPerFlush);
  return recorder;
}

bool Recorder::is_full(Ring& ring, uint64_t head) {
  ring.known_tail = ring.tail.load(std::memory_order_acquire);
  if (head - ring.known_tail < ring.capacity) return false;
  ring.lost.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Recorder::mark_step(int32_t step, bool warmup, int64_t start_ns,
                         int64_t end_ns) {
  steps_.push_back({.rank = rank_.rank,
                    .step = step,
                    .start_ns = start_ns,
                    .end_ns = end_ns,
                    .warmup = warmup});
}

Status Recorder::flush() {
  for (uint32_t stream = 0; stream < stream_count_; ++stream) {
    Ring& ring = rings_[stream];
    const uint64_t head = ring.head.load(std::memory_order_acquire);
    const uint64_t tail = ring.tail.load(std::memory_order_relaxed);
    if (head == tail) continue;
    const size_t begin = tail & (ring.capacity - 1);
    const size_t count = head - tail;
    const size_t straight = std::min<size_t>(count, ring.capacity - begin);
    const std::span<const ShardEvent> slots(ring.slots);
    if (Status appended =
            writer_->append_events(stream, slots.subspan(begin, straight),
                                   slots.first(count - straight));
        !appended) {
      return appended;
    }
    ring.tail.store(head, std::memory_order_release);
  }
  if (steps_.empty()) return {};
  Status appended = writer_->append_steps(steps_);
  if (appended) steps_.clear();
  return appended;
}

Status Recorder::finish(const RankInfo& rank) {
  if (Status flushed = flush(); !flushed) return flushed;
  std::vector<uint64_t> lost;
  for (size_t stream = 0; stream < stream_count_; ++stream) {
    lost.push_back(rings_[stream].lost.load(std::memory_order_relaxed));
  }
  rank_.clock_offset_ns = rank.clock_offset_ns;
  rank_.clock_drift_ppm = rank.clock_drift_ppm;
  rank_.clock_reference_ns = rank.clock_reference_ns;
  rank_.clock_residual_ns = rank.clock_residual_ns;
  return writer_->close(rank_, lost);
}

uint64_t Recorder::lost_events() const {
  uint64_t sum = 0;
  for (size_t stream = 0; stream < stream_count_; ++stream) {
    sum += rings_[stream].lost.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace reprise
