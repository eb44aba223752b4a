// Coordinate descent over sizes: from the recorded run, each size in turn takes
// the configuration under which the whole step replays fastest; of equals the
// one of fewest channels, and else what was recorded.
#include "replay/estimates/nccl_choices.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "data/median.h"
#include "replay/estimates/collective_estimates.h"
#include "replay/graph/evaluate.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

/// Rounds over all sizes: the second hardly ever changes anything.
constexpr int kMostRounds = 3;

/// The kinds that NCCL's example tuner knows.
bool is_tuned(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return true;
    default:
      return false;
  }
}

std::string_view next_part(std::string_view& text) {
  const size_t end = std::min(text.find(':'), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::optional<int64_t> whole(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

int64_t hosts_of(const MatchedCollective& one, const Trace& frame) {
  std::set<std::string_view> hosts;
  for (const CollectiveMember& member : one.members) {
    for (const RankInfo& rank : frame.ranks) {
      if (rank.rank == member.rank) hosts.insert(rank.host);
    }
  }
  return hosts.contains("") || !one.missing.empty()
             ? -1
             : static_cast<int64_t>(hosts.size());
}

/// Collectives alike in the graph, and what they may become.
struct SizeClass {
  NcclChoice choice;
  std::vector<std::pair<uint32_t, int64_t>> nodes;  ///< Recorded durations.
  std::vector<int64_t> transfers_ns;
  double share = 1;  ///< Of recorded durations, by the choice.
};

using ClassKey = std::tuple<CollectiveKind, int64_t, int64_t>;

class ChoiceSearch {
 public:
  ChoiceSearch(const AlignedTrace& trace, const TimedGraph& graph,
               const NcclPrices& prices)
      : trace_(trace), graph_(graph), edited_(graph), prices_(prices) {}

  NcclChoices run() {
    gather();
    result_.recorded_ns = result_.predicted_ns = replay();
    std::vector<SizeClass*> order;
    for (auto& [key, one] : classes_) order.push_back(&one);
    std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) {
      return total_ns(*a) > total_ns(*b);
    });
    bool changed = true;
    for (int round = 0; round < kMostRounds && changed; ++round) {
      changed = false;
      for (SizeClass* one : order) changed |= improve(*one);
    }
    for (auto& [key, one] : classes_) result_.list.push_back(one.choice);
    return std::move(result_);
  }

 private:
  static int64_t total_ns(const SizeClass& one) {
    return one.choice.recorded_ns * one.choice.calls;
  }

  void gather() {
    const CollectiveMatching& matching = trace_.matching();
    const std::vector<NcclConfiguration> recorded =
        nccl_configurations(trace_.by_rank(), matching);
    std::set<int32_t> seen;
    for (uint32_t node = 0; node < graph_.size(); ++node) {
      const int32_t place = graph_.collective[node];
      if (place < 0) continue;
      const MatchedCollective& one =
          matching.collectives[static_cast<size_t>(place)];
      if (!is_tuned(one.kind)) continue;
      const bool first = seen.insert(place).second;
      if (one.bytes <= 0 || one.group_size < 2 || !one.missing.empty()) {
        result_.unknown += first;
        continue;
      }
      SizeClass& own = classes_[{one.kind, one.group_size, one.bytes}];
      if (own.nodes.empty()) {
        own.choice = {.kind = one.kind,
                      .group_size = one.group_size,
                      .bytes = one.bytes,
                      .nodes = hosts_of(one, trace_.frame()),
                      .recorded = recorded[static_cast<size_t>(place)],
                      .kept = true};
      }
      own.nodes.emplace_back(node, graph_.duration[node]);
      own.choice.calls += first;
      if (first) {
        own.transfers_ns.push_back(transfer_ns(one, trace_.frame()));
      }
    }
    for (auto& [key, own] : classes_) {
      own.choice.recorded_ns = own.choice.chosen_ns = median(own.transfers_ns);
      own.choice.chosen = own.choice.recorded;
    }
  }

  int64_t replay() {
    ++result_.replays;
    return replayed_span_ns(edited_, evaluate(edited_));
  }

  /// The class's transfers by a configuration, as shares of the recorded ones;
  /// none where it is not known what they would take.
  std::optional<double> share(const SizeClass& own,
                              const NcclConfiguration& other) const {
    const NcclChoice& choice = own.choice;
    const auto price = [&](const NcclConfiguration& configuration) {
      return prices_.price_ns(choice.kind, choice.group_size, choice.bytes,
                              configuration);
    };
    const std::optional<double> after = price(other);
    if (!after || choice.recorded_ns <= 0) return std::nullopt;
    const std::optional<double> before = price(choice.recorded);
    return *after / before.value_or(static_cast<double>(choice.recorded_ns));
  }

  void apply(const SizeClass& own, double share) {
    for (const auto& [node, recorded_ns] : own.nodes) {
      edited_.duration[node] = std::llround(
          std::clamp(static_cast<double>(recorded_ns) * share, 0.0, 1e18));
    }
  }

  bool improve(SizeClass& own) {
    NcclChoice& choice = own.choice;
    bool changed = false;
    for (const NcclConfiguration& other :
         prices_.configurations(choice.kind, choice.group_size)) {
      const std::optional<double> factor = share(own, other);
      if (!factor || other == choice.chosen) continue;
      apply(own, *factor);
      const int64_t step_ns = replay();
      const bool frees = step_ns == result_.predicted_ns &&
                         other.channels > 0 && choice.chosen.channels > 0 &&
                         other.channels < choice.chosen.channels;
      if (step_ns >= result_.predicted_ns && !frees) continue;
      result_.predicted_ns = step_ns;
      own.share = *factor;
      choice.chosen = other;
      choice.kept = other == choice.recorded;
      choice.chosen_ns =
          std::llround(static_cast<double>(choice.recorded_ns) * *factor);
      changed = true;
    }
    apply(own, own.share);
    return changed;
  }

  const AlignedTrace& trace_;
  const TimedGraph& graph_;
  TimedGraph edited_;
  const NcclPrices& prices_;
  std::map<ClassKey, SizeClass> classes_;
  NcclChoices result_;
};

}  // namespace

void NcclPrices::add(CollectiveKind kind, int64_t group_size, int64_t bytes,
                     const NcclConfiguration& configuration,
                     double transfer_ns) {
  if (bytes <= 0 || group_size < 2 || !(transfer_ns > 0)) return;
  points_[{kind, group_size, configuration}][bytes].push_back(transfer_ns);
}

size_t NcclPrices::add_all(const Trace& points,
                           const NcclConfiguration& configuration) {
  size_t count = 0;
  for (const Measurement& one : points.measurements) {
    // "collective:all-reduce:8:1048576:f32"
    std::string_view key = one.key;
    if (next_part(key) != "collective") continue;
    const auto kind = collective_from_name(next_part(key));
    const auto group_size = whole(next_part(key));
    const auto bytes = whole(next_part(key));
    if (!kind || !group_size || !bytes || !is_tuned(*kind)) continue;
    if (*bytes <= 0 || *group_size < 2 || one.median_ns <= 0) continue;
    add(*kind, *group_size, *bytes, configuration,
        static_cast<double>(one.median_ns));
    ++count;
  }
  return count;
}

void NcclPrices::add_recorded(const AlignedTrace& trace) {
  const CollectiveMatching& matching = trace.matching();
  const std::vector<NcclConfiguration> recorded =
      nccl_configurations(trace.by_rank(), matching);
  for (size_t place = 0; place < recorded.size(); ++place) {
    const MatchedCollective& one = matching.collectives[place];
    if (!recorded[place].known() || !one.missing.empty()) continue;
    add(one.kind, one.group_size, one.bytes, recorded[place],
        static_cast<double>(transfer_ns(one, trace.frame())));
  }
}

std::optional<double> NcclPrices::price_ns(
    CollectiveKind kind, int64_t group_size, int64_t bytes,
    const NcclConfiguration& configuration) const {
  const auto found = points_.find({kind, group_size, configuration});
  if (found == points_.end()) return std::nullopt;
  const auto& sizes = found->second;
  const auto above = sizes.lower_bound(bytes);
  if (above == sizes.end()) return std::nullopt;
  const double high_ns = median(above->second);
  if (above->first == bytes) return high_ns;
  if (above == sizes.begin()) return std::nullopt;
  const auto below = std::prev(above);
  const double low_ns = median(below->second);
  const auto logarithm = [](int64_t size) {
    return std::log(static_cast<double>(size));
  };
  const double part = (logarithm(bytes) - logarithm(below->first)) /
                      (logarithm(above->first) - logarithm(below->first));
  return std::exp(std::log(low_ns) +
                  part * (std::log(high_ns) - std::log(low_ns)));
}

std::pair<int64_t, int64_t> NcclPrices::range(
    CollectiveKind kind, int64_t group_size,
    const NcclConfiguration& configuration) const {
  const auto found = points_.find({kind, group_size, configuration});
  if (found == points_.end()) return {0, 0};
  return {found->second.begin()->first, found->second.rbegin()->first};
}

std::vector<NcclConfiguration> NcclPrices::configurations(
    CollectiveKind kind, int64_t group_size) const {
  std::vector<NcclConfiguration> found;
  for (const auto& [key, sizes] : points_) {
    if (std::get<0>(key) == kind && std::get<1>(key) == group_size) {
      found.push_back(std::get<2>(key));
    }
  }
  return found;
}

NcclChoices choose_nccl(const AlignedTrace& trace, const TimedGraph& graph,
                        const NcclPrices& prices) {
  return ChoiceSearch(trace, graph, prices).run();
}

}  // namespace reprise
