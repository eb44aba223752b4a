// By which algorithm, protocol and channels NCCL had better run each size of
// collective: by the replayed step, not by the collective alone. One that is
// hidden behind compute gains nothing by being faster, and is given the fewest
// channels that keep the step, since each takes a multiprocessor from compute.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "data/result.h"
#include "replay/clocks/aligned_trace.h"
#include "replay/collectives/nccl_configuration.h"
#include "replay/graph/timed_graph.h"

namespace reprise {

/// Measured transfers by configuration. Between two sizes a line through
/// log(bytes) and log(time); beyond what was measured nothing is known.
class NcclPrices {
 public:
  void add(CollectiveKind kind, int64_t group_size, int64_t bytes,
           const NcclConfiguration& configuration, double transfer_ns);
  /// All points of collectives of a trace of nccl-tests (its Measurements).
  /// Returns their number.
  size_t add_all(const Trace& points, const NcclConfiguration& configuration);
  /// Transfers of a recorded run, where it says how they ran.
  void add_recorded(const AlignedTrace& trace);

  /// Of several points of one size, their median; none outside all points.
  std::optional<double> price_ns(CollectiveKind kind, int64_t group_size,
                                 int64_t bytes,
                                 const NcclConfiguration& configuration) const;
  /// First and last measured size.
  std::pair<int64_t, int64_t> range(
      CollectiveKind kind, int64_t group_size,
      const NcclConfiguration& configuration) const;
  /// In their order; empty where nothing was measured.
  std::vector<NcclConfiguration> configurations(CollectiveKind kind,
                                                int64_t group_size) const;

 private:
  using Key = std::tuple<CollectiveKind, int64_t, NcclConfiguration>;
  std::map<Key, std::map<int64_t, std::vector<double>>> points_;
};

/// What is best for collectives of one kind, group size and size.
struct NcclChoice {
  CollectiveKind kind = CollectiveKind::kUnknown;
  int64_t group_size = 0, bytes = 0, calls = 0;
  int64_t nodes = -1;  ///< Hosts of its group; -1: unknown.
  NcclConfiguration recorded = {}, chosen = {};
  /// Median transfers, as recorded and by the choice.
  int64_t recorded_ns = 0, chosen_ns = 0;
  bool kept = false;  ///< As recorded: nothing measured is better.
};

struct NcclChoices {
  std::vector<NcclChoice> list;  ///< By kind, group size and bytes.
  int64_t recorded_ns = 0, predicted_ns = 0;  ///< The replayed window.
  int64_t replays = 0;
  /// Calls whose size, group or members are not known.
  int64_t unknown = 0;
};

/// Tries each size's configurations in turn until none shortens the replay.
/// A price is scaled by what the recorded configuration takes in the run over
/// what it is measured to take, where both are known. Requires: `graph` is of
/// `trace`. Deterministic. Cost: a replay a size and configuration, at most
/// three times.
NcclChoices choose_nccl(const AlignedTrace& trace, const TimedGraph& graph,
                        const NcclPrices& prices);

}  // namespace reprise
