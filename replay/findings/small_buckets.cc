// Many small collectives in a row, each of which pays its latency.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "replay/findings/finding_kinds.h"
#include "replay/simulate/merge_collectives.h"

namespace reprise {
namespace {

/// Fewer are no pattern.
constexpr size_t kFewestInARow = 4;
/// So many in place of all are tried.
constexpr std::array<int64_t, 4> kTried = {1, 2, 4, 8};

using Lane = std::tuple<CollectiveKind, std::string, std::vector<uint32_t>>;

bool is_mergeable(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce ||
         kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kAllGather;
}

/// [lane] Places in the graph's window, in order.
std::map<Lane, std::vector<uint32_t>> lanes_of(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  std::map<Lane, std::vector<uint32_t>> lanes;
  std::vector<bool> seen(graph.transfers.size(), false);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    const auto place = static_cast<uint32_t>(graph.collective[node]);
    if (seen[place]) continue;
    seen[place] = true;
    const MatchedCollective& one = input.analysis.matching.collectives[place];
    if (!is_mergeable(one.kind)) continue;
    lanes[{one.kind, one.communicator, one.group}].push_back(place);
  }
  return lanes;
}

struct LaneSum {
  int64_t bytes = 0, latency_ns = 0, wire_ns = 0;
  bool is_assumed = false;  ///< The latency of one of them.
};

LaneSum sum_of(const FindingInput& input, const std::vector<uint32_t>& places) {
  const TimedGraph& graph = input.graph;
  std::map<uint32_t, int64_t> duration_ns;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    int64_t& longest =
        duration_ns[static_cast<uint32_t>(graph.collective[node])];
    longest = std::max<int64_t>(longest, graph.duration[node]);
  }
  LaneSum sum;
  for (const uint32_t place : places) {
    const int64_t latency_ns =
        std::min(graph.transfers[place].latency_ns, duration_ns[place]);
    sum.bytes += input.analysis.matching.collectives[place].bytes;
    sum.latency_ns = saturating_add(sum.latency_ns, latency_ns);
    sum.wire_ns = saturating_add(sum.wire_ns, duration_ns[place] - latency_ns);
    sum.is_assumed |= graph.transfers[place].is_assumed;
  }
  return sum;
}

/// `bytes`: of a bucket, where sizes are known.
void advise(const FindingInput& input, const MatchedCollective& one,
            int64_t bytes, Finding& finding) {
  finding.action = input.words(
      {one.kind == CollectiveKind::kAllReduce
           ? "put more tensors into a bucket"
           : "have more modules share one (FSDP2: fully_shard([...]))",
       "raise the size to which XLA combines collectives, or reduce several "
       "arrays as one",
       "put more tensors into one"});
  if (!input.plans_buckets(one)) return;
  finding.command = kPlanBuckets;
  if (bytes <= 0) return;
  finding.command =
      (one.communicator == "horovod"
           ? fmt::format("HOROVOD_FUSION_THRESHOLD={}", bytes)
           : fmt::format("DistributedDataParallel(bucket_cap_mb={:.3g})",
                         static_cast<double>(bytes) / (1 << 20))) +
      ", or exactly: " + finding.command;
}

/// Replaces the lane by `count` collectives, as far as order allows.
void add_candidate(const FindingInput& input, const Lane& lane,
                   const std::vector<uint32_t>& places, const LaneSum& sum,
                   int64_t count, Candidates& found) {
  CollectiveGroups groups =
      mergeable(places, std::max<int64_t>(1, sum.wire_ns / count), input.graph);
  if (groups.empty()) return;
  size_t merged = 0;
  for (const auto& group : groups) merged += group.size();
  const size_t left = places.size() - merged + groups.size();
  Candidate candidate;
  Finding& finding = candidate.finding;
  const std::string kind(name_of(std::get<0>(lane)));
  finding.what =
      fmt::format("{} {}s are small: {} would do", places.size(), kind, left);
  finding.where.collective = kind;
  finding.evidence.push_back(
      sum.is_assumed
          ? fmt::format("all have one size: {} of their {} are assumed to be "
                        "latency, and all may be",
                        finding_time(sum.latency_ns),
                        finding_time(sum.latency_ns + sum.wire_ns))
          : fmt::format("their latency takes {}, their bytes {}",
                        finding_time(sum.latency_ns),
                        finding_time(sum.wire_ns)));
  if (sum.bytes > 0) {
    const double mib = static_cast<double>(sum.bytes) / (1 << 20);
    finding.evidence.push_back(
        fmt::format("{:.3g} MiB in all, {:.3g} MiB each", mib,
                    mib / static_cast<double>(places.size())));
  }
  advise(input, input.analysis.matching.collectives[places[0]],
         sum.bytes / static_cast<int64_t>(left), finding);
  // A record of communication alone does not tell what each waited for, and
  // fewer could come no earlier for all that is known.
  const bool any_computes =
      std::find(input.computes.begin(), input.computes.end(), true) !=
      input.computes.end();
  if (!any_computes) {
    candidate.most_ns = sum.latency_ns / static_cast<int64_t>(places.size()) *
                        static_cast<int64_t>(places.size() - left);
  }
  candidate.remove = [groups = std::move(groups)](TimedGraph& edited) {
    merge_collectives(groups, edited);
  };
  found.push_back(std::move(candidate));
}

}  // namespace

void find_small_buckets(const FindingInput& input, Candidates& found) {
  const std::vector<uint32_t>* longest = nullptr;
  const Lane* of = nullptr;
  const std::map<Lane, std::vector<uint32_t>> lanes = lanes_of(input);
  for (const auto& [lane, places] : lanes) {
    if (longest != nullptr && places.size() <= longest->size()) continue;
    longest = &places;
    of = &lane;
  }
  if (longest == nullptr || longest->size() < kFewestInARow) return;
  const LaneSum sum = sum_of(input, *longest);
  for (const int64_t count : kTried) {
    add_candidate(input, *of, *longest, sum, count, found);
  }
}

}  // namespace reprise
