// A ring a stream with one producer and one consumer: the producer owns `head`,
// the flusher owns `tail`, and each reads the other's with acquire (Lamport's
// queue). The producer remembers the last tail it saw, so that a record usually
// touches no line that another thread writes. Slots are touched at creation: no
// page fault within a step.
#include "profiler/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

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

/// What an executor runs, small: each copies 4 KiB. The least that an event
/// costs: 22 ns here, where steps of 184 to 325 units took 36 to 60 ns an event
/// longer, as a clock that is read ends what units of wide vectors overlap
/// (Xeon, 2.5 GHz, 2026-11-28).
class SmallUnits {
 public:
  static constexpr int64_t kUnits = 256;

  /// The time that all take, an event each where they are recorded.
  int64_t run_ns(Recorder* recorder) {
    const int64_t begin_ns = Recorder::now_ns();
    int64_t start_ns = begin_ns;
    for (int32_t unit = 0; unit < kUnits; ++unit) {
      const size_t place = static_cast<size_t>(unit) % (kArrays - 1);
      run_(arrays_[place], arrays_[place + 1]);
      if (recorder == nullptr) continue;
      const int64_t end_ns = Recorder::now_ns();
      recorder->record(0, EventKind::kCompute, unit, 0, start_ns, start_ns,
                       end_ns, -1);
      start_ns = end_ns;
    }
    return Recorder::now_ns() - begin_ns;
  }

 private:
  static constexpr size_t kArrays = 8;
  using Values = std::array<float, 1024>;

  static void copy(Values& to, const Values& from) {
    std::memcpy(to.data(), from.data(), sizeof to);
  }

  std::vector<Values> arrays_{kArrays, Values{}};
  void (*volatile run_)(Values&,
                        const Values&) = copy;  // Called, as units are.
};

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

Result<int64_t> Recorder::event_cost_ns() {
  constexpr int kPairs = 32;
  const Result<std::unique_ptr<Recorder>> recorder =
      create({.shard_path = "/dev/null", .events_per_stream = size_t{1} << 12});
  if (!recorder) return pass(recorder.error());
  SmallUnits units;
  std::vector<int64_t> costs_ns;
  for (int pair = 0; pair < kPairs; ++pair) {
    const int64_t bare_ns = units.run_ns(nullptr);
    costs_ns.push_back(units.run_ns(recorder->get()) - bare_ns);
    if (Status flushed = (*recorder)->flush(); !flushed)
      return pass(flushed.error());
  }
  const auto middle = costs_ns.begin() + kPairs / 2;
  std::nth_element(costs_ns.begin(), middle, costs_ns.end());
  return std::max<int64_t>(0, *middle / SmallUnits::kUnits);
}

uint64_t Recorder::lost_events() const {
  uint64_t sum = 0;
  for (size_t stream = 0; stream < stream_count_; ++stream) {
    sum += rings_[stream].lost.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace reprise
