// A reading takes the middle of a round trip as the moment of rank 0's stamp,
// so its error is at most half the round trip (Cristian, "Probabilistic Clock
// Synchronization", 1989); the shortest of 200 round trips is kept. Ranks on
// one boot and one time namespace read the same clock and need no reading.
#include "runtime/process/clock_offset.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string>

#include "data/file.h"
#include "profiler/recorder.h"

namespace reprise {
namespace {

constexpr int kRoundTrips = 200;

// What must agree for two processes to read one CLOCK_MONOTONIC.
std::string clock_identity() {
  char space[64] = {};
  const ssize_t length =
      ::readlink("/proc/self/ns/time", space, sizeof space - 1);
  const Result<std::string> boot = read_file("/proc/sys/kernel/random/boot_id");
  if (!boot || boot->empty()) return {};
  return *boot +
         std::string(space, static_cast<size_t>(std::max<ssize_t>(length, 0)));
}

Result<ClockReading> ping_rank_0(ProcessGroup& group) {
  ClockReading best{.residual_ns = std::numeric_limits<int64_t>::max()};
  for (int i = 0; i < kRoundTrips; ++i) {
    const int64_t sent = Recorder::now_ns();
    const Result<int64_t> stamp = group.ping(0);
    if (!stamp) return pass(stamp.error());
    const int64_t received = Recorder::now_ns();
    const int64_t residual = (received - sent + 1) / 2;
    if (residual >= best.residual_ns) continue;
    best = {.at_ns = sent + residual,
            .offset_ns = *stamp - (sent + residual),
            .residual_ns = residual};
  }
  return best;
}

}  // namespace

Result<ClockReading> read_clock(ProcessGroup& group) {
  const Result<std::vector<std::string>> clocks =
      group.all_gather(clock_identity());
  if (!clocks) return pass(clocks.error());
  const auto shares_clock = [&](int rank) {
    const std::string& first = (*clocks)[0];
    return !first.empty() && (*clocks)[static_cast<size_t>(rank)] == first;
  };
  ClockReading mine{.at_ns = Recorder::now_ns()};
  for (int rank = 1; rank < group.size(); ++rank) {
    if (shares_clock(rank)) continue;
    if (group.rank() == rank) {
      Result<ClockReading> reading = ping_rank_0(group);
      if (!reading) return reading;
      mine = *reading;
    } else if (group.rank() == 0) {
      for (int i = 0; i < kRoundTrips; ++i) {
        const Status answered = group.answer_ping(rank);
        if (!answered) return pass(answered.error());
      }
    }
  }
  return mine;
}

void set_clock(const ClockReading& first, const ClockReading& last,
               RankInfo& rank) {
  const int64_t elapsed = std::max<int64_t>(last.at_ns - first.at_ns, 1);
  rank.clock_offset_ns = first.offset_ns;
  rank.clock_reference_ns = first.at_ns;
  rank.clock_drift_ppm = 1e6 *
                         static_cast<double>(last.offset_ns - first.offset_ns) /
                         static_cast<double>(elapsed);
  rank.clock_residual_ns = std::max(first.residual_ns, last.residual_ns);
}

}  // namespace reprise
