// Communication that nothing runs beside, and why nothing does.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/integers.h"
#include "data/trace/intervals.h"
#include "replay/findings/finding_kinds.h"

namespace reprise {
namespace {

enum class Reason : uint8_t {
  kStream,
  kThread,
  kConsumer,
  kHost,
  kNothingLeft
};
constexpr size_t kReasons = 5;

struct ReasonWords {
  std::string_view because;
  FindingInput::Words action;
};
constexpr std::string_view kSplit =
    "leave XLA something to run beside it: split the step's batch or gradients "
    "into parts within the jitted function, so that one part's collective "
    "needs nothing of the next";
constexpr std::string_view kMessage =
    "post it before other work and wait for it after that (isend, irecv): what "
    "another micro-batch computes runs beside it";
/// Of a ring's step.
constexpr std::string_view kExchange =
    "post it (isend, irecv) before computing on the block that is there "
    "already, and wait for it after that";
/// Of what a model's next layer needs: tensor parallelism, experts.
constexpr FindingInput::Words kLayers = {
    "split the batch or sequence into parts, so that one part's collective "
    "runs beside what another computes (Megatron-LM: --tp-comm-overlap, "
    "--overlap-moe-expert-parallel-comm; torch.compile: "
    "torch._inductor.config._micro_pipeline_tp)",
    kSplit,
    "split the batch into parts, so that one part's collective runs beside "
    "what another computes"};
/// Of what gathers a layer's parameters, or its activations: both stand alike.
constexpr FindingInput::Words kGathers = {
    "of parameters (FSDP), prefetch: set_modules_to_forward_prefetch; of "
    "activations (tensor parallelism), split the sequence, so that one part's "
    "collective runs beside what another computes (Megatron-LM: "
    "--tp-comm-overlap; torch.compile: "
    "torch._inductor.config._micro_pipeline_tp)",
    kSplit,
    "prefetch parameters; of activations, split the batch, so that one part's "
    "collective runs beside what another computes"};
constexpr std::string_view kSmallEnd =
    "make the last bucket small, or begin the next step's work before it ends";
constexpr std::array<ReasonWords, kReasons> kWords = {{
    {"it runs on a compute stream",
     {"run collectives on a stream of their own (async_op=True; "
      "communicators of their own)",
      kSplit, "run collectives on a stream of their own"}},
    {"it runs on a thread that computes",
     {"leave it to another thread (async_op=True; isend and irecv)", kSplit,
      "leave it to another thread"}},
    {"what comes next waits for it at once",
     {"issue it earlier, or prefetch: smaller buckets, "
      "set_modules_to_forward_prefetch (FSDP2)",
      kSplit, "issue it earlier, or prefetch: smaller buckets"}},
    {"the host waits for it",
     {"wait for it later: keep its Work handle",
      "wait for it later: block_until_ready() after the next step is called",
      "wait for it later"}},
    {"nothing is left to run beside it",
     {kSmallEnd, "call the next step before this one's results are read",
      kSmallEnd}},
}};

/// [rank place] When it computes.
std::vector<IntervalSet> computing(const FindingInput& input) {
  std::vector<std::vector<Interval>> busy(input.graph.ranks.size());
  for (uint32_t node = 0; node < input.graph.size(); ++node) {
    if (!input.computes[node]) continue;
    busy[input.graph.rank[node]].push_back(
        {input.times.start_ns[node], input.times.end_ns[node]});
  }
  std::vector<IntervalSet> sets;
  sets.reserve(busy.size());
  for (auto& intervals : busy) sets.emplace_back(std::move(intervals));
  return sets;
}

/// [node] Whether it computes on the stream on which its rank computes most.
/// What copies into and out of a collective's buffers on its stream does not.
NodeSet computing_most(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  std::vector<uint32_t> row(graph.size());  // First node of its stream.
  std::vector<int64_t> busy_ns(graph.size(), 0);
  std::vector<uint32_t> most(graph.ranks.size(), 0);  // Row.
  std::vector<int64_t> most_ns(graph.ranks.size(), 0);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const uint32_t before = input.stream_before[node];
    row[node] = before == node ? node : row[before];
    if (!input.computes[node]) continue;
    int64_t& busy = busy_ns[row[node]];
    busy = saturating_add(busy, graph.duration[node]);
    if (busy <= most_ns[graph.rank[node]]) continue;
    most_ns[graph.rank[node]] = busy;
    most[graph.rank[node]] = row[node];
  }
  NodeSet nodes(graph.size(), false);
  for (uint32_t node = 0; node < graph.size(); ++node)
    nodes[node] = input.computes[node] && row[node] == most[graph.rank[node]];
  return nodes;
}

/// Why the edge keeps compute from running beside the collective at one of its
/// ends, which is `into` or where it comes from.
Reason reason_of(const FindingInput& input, const NodeSet& compute_stream,
                 const TimedGraph::Edge& edge, uint32_t to, bool into) {
  if (edge.kind == EdgeKind::kThread) return Reason::kThread;
  const uint32_t other = into ? edge.from : to;
  if (edge.kind == EdgeKind::kStream && input.computes[other])
    return compute_stream[other] ? Reason::kStream : Reason::kNothingLeft;
  if (into) return Reason::kNothingLeft;
  if (edge.kind == EdgeKind::kSynchronization) return Reason::kHost;
  if (edge.kind == EdgeKind::kHandoff) return Reason::kConsumer;
  const int64_t after_ns =
      input.times.start_ns[to] - input.times.end_ns[edge.from];
  return after_ns <= FindingInput::kAtOnce ? Reason::kConsumer
                                           : Reason::kNothingLeft;
}

/// [node] Of collectives; the first that applies.
std::vector<Reason> reasons_of(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  const NodeSet compute_stream = computing_most(input);
  std::vector<Reason> reasons(graph.size(), Reason::kNothingLeft);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const bool into = graph.collective[node] >= 0;
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      const TimedGraph::Edge edge = graph.edges[at];
      if (into == (graph.collective[edge.from] >= 0)) continue;
      Reason& reason = reasons[into ? node : edge.from];
      reason =
          std::min(reason, reason_of(input, compute_stream, edge, node, into));
    }
  }
  return reasons;
}

/// Of one kind of collective in one communicator, for one reason.
struct Part {
  int64_t exposed_ns = 0, longest_ns = 0;
  uint32_t longest = 0;  ///< Node.
};

struct Exposure {
  std::array<int64_t, kReasons> by_reason_ns{};
  using Kind = std::pair<CollectiveKind, std::string_view>;
  std::array<std::map<Kind, Part>, kReasons> parts;
  std::vector<IntervalSet> busy;  ///< As computing().
  int64_t exposed_ns = 0, transfer_ns = 0;
  bool any_compute = false;  ///< That it could run beside.
};

/// Of all ranks; transfers alone, waits for others are not communication's.
Exposure exposure_of(const FindingInput& input) {
  const TimedGraph& graph = input.graph;
  const std::vector<Reason> reasons = reasons_of(input);
  Exposure exposure;
  exposure.busy = computing(input);
  for (uint32_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) {
      exposure.any_compute |= input.computes[node];
      continue;
    }
    const int64_t end_ns = input.times.end_ns[node];
    const int64_t begin_ns = end_ns - graph.duration[node];
    const int64_t exposed_ns =
        graph.duration[node] -
        exposure.busy[graph.rank[node]].length_within_ns(begin_ns, end_ns);
    exposure.transfer_ns =
        saturating_add(exposure.transfer_ns, graph.duration[node]);
    exposure.exposed_ns = saturating_add(exposure.exposed_ns, exposed_ns);
    const auto reason = static_cast<size_t>(reasons[node]);
    exposure.by_reason_ns[reason] =
        saturating_add(exposure.by_reason_ns[reason], exposed_ns);
    const auto place = static_cast<size_t>(graph.collective[node]);
    const MatchedCollective& one = input.analysis.matching.collectives[place];
    Part& part = exposure.parts[reason][{one.kind, one.communicator}];
    part.exposed_ns = saturating_add(part.exposed_ns, exposed_ns);
    if (exposed_ns <= part.longest_ns) continue;
    part.longest_ns = exposed_ns;
    part.longest = node;
  }
  return exposure;
}

/// Whether the like of the collective at `node` stand between layers: most
/// begin when their ranks have computed since the one before, and run beside
/// nothing on all of them. Buckets of gradients follow each other, or run
/// beside compute, if only on the rank that the others wait for.
bool is_between_layers(const FindingInput& input, const Exposure& exposure,
                       uint32_t node) {
  constexpr size_t kFew = 4;
  const TimedGraph& graph = input.graph;
  const auto of = [&](uint32_t at) -> const MatchedCollective& {
    return input.analysis.matching
        .collectives[static_cast<size_t>(graph.collective[at])];
  };
  std::map<int32_t, bool> between;  // By place among the collectives.
  std::vector<int64_t> last_ns(exposure.busy.size(),
                               std::numeric_limits<int64_t>::min());
  for (uint32_t at = 0; at < graph.size(); ++at) {
    if (graph.collective[at] < 0 || of(at).kind != of(node).kind ||
        of(at).communicator != of(node).communicator) {
      continue;
    }
    const IntervalSet& busy = exposure.busy[graph.rank[at]];
    const int64_t end_ns = input.times.end_ns[at];
    const int64_t begin_ns = end_ns - graph.duration[at];
    int64_t& last = last_ns[graph.rank[at]];
    const bool alone = busy.length_within_ns(begin_ns, end_ns) == 0;
    const bool computed = busy.length_within_ns(last, begin_ns) > 0;
    bool& all = between.try_emplace(graph.collective[at], true).first->second;
    all = all && alone && computed;
    last = end_ns;
  }
  const auto count = static_cast<size_t>(
      std::count_if(between.begin(), between.end(),
                    [](const auto& one) { return one.second; }));
  return between.size() >= kFew && 2 * count > between.size();
}

/// What a layer waits for at once, by its kind; none where it may be buckets
/// of gradients. An all-to-all is never one, and nothing prefetches it.
const FindingInput::Words* words_between_layers(const FindingInput& input,
                                                const Exposure& exposure,
                                                uint32_t node) {
  using K = CollectiveKind;
  const K kind =
      input.analysis.matching
          .collectives[static_cast<size_t>(input.graph.collective[node])]
          .kind;
  if (kind == K::kAllToAll) return &kLayers;
  const bool gathers = kind == K::kAllGather || kind == K::kReduceScatter;
  if (kind != K::kAllReduce && !gathers) return nullptr;
  if (!is_between_layers(input, exposure, node)) return nullptr;
  return gathers ? &kGathers : &kLayers;
}

bool runs_on_tpu(const Trace& trace) {
  return std::any_of(trace.ranks.begin(), trace.ranks.end(),
                     [](const RankInfo& rank) {
                       return rank.device.find("TPU") != rank.device.npos;
                     });
}

/// What to do, in words and by a command.
void advise(const FindingInput& input, const Exposure& exposure, size_t reason,
            uint32_t node, Finding& finding) {
  const MatchedCollective& one =
      input.analysis.matching
          .collectives[static_cast<size_t>(input.graph.collective[node])];
  const FindingInput::Words* const between_layers =
      static_cast<Reason>(reason) == Reason::kConsumer
          ? words_between_layers(input, exposure, node)
          : nullptr;
  const FindingInput::Words& words =
      between_layers ? *between_layers : kWords[reason].action;
  const bool messages = (one.exchange >= 0 || is_message(one.kind)) &&
                        !FindingInput::meets_server(one);
  finding.action = std::string(!messages            ? input.words(words)
                               : is_exchange(input) ? kExchange
                                                    : kMessage);
  if (input.framework == Framework::kJax &&
      !input.facts.on_host(input.graph.origin[node])) {
    finding.command =
        runs_on_tpu(input.trace.frame())
            ? "LIBTPU_INIT_ARGS=--xla_tpu_enable_async_collective_fusion=true"
            : "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true";
  } else if (input.plans_buckets(one) && between_layers == nullptr) {
    finding.command = kPlanBuckets;
  }
}

}  // namespace

void find_missing_overlap(const FindingInput& input, Candidates& found) {
  const Exposure exposure = exposure_of(input);
  if (exposure.exposed_ns < input.least_ns || !exposure.any_compute) return;
  const auto most =
      static_cast<size_t>(std::max_element(exposure.by_reason_ns.begin(),
                                           exposure.by_reason_ns.end()) -
                          exposure.by_reason_ns.begin());
  const auto& parts = exposure.parts[most];
  const Part& part =
      std::max_element(parts.begin(), parts.end(),
                       [](const auto& a, const auto& b) {
                         return a.second.exposed_ns < b.second.exposed_ns;
                       })
          ->second;
  const uint32_t node = part.longest;
  const auto place = static_cast<size_t>(input.graph.collective[node]);
  const MatchedCollective& one = input.analysis.matching.collectives[place];
  const std::string kind = one.kind == CollectiveKind::kUnknown
                               ? "collective"
                               : std::string(name_of(one.kind));
  Candidate candidate;
  Finding& finding = candidate.finding;
  const double share = static_cast<double>(exposure.exposed_ns) /
                       static_cast<double>(exposure.transfer_ns);
  finding.what = fmt::format(
      "{} of communication runs beside no compute; mostly because {}",
      finding_share(share), kWords[most].because);
  finding.where.ranks = {input.rank_number(node)};
  finding.where.collective = fmt::format("{} c{}", kind, place);
  finding.evidence.push_back(fmt::format(
      "{} of {} of transfers, over ranks; the longest is {} on rank {}, {}",
      finding_time(exposure.exposed_ns), finding_time(exposure.transfer_ns),
      finding.where.collective, finding.where.ranks[0],
      finding_time(part.longest_ns)));
  advise(input, exposure, most, node, finding);
  finding.what_if = "overlap=ideal";
  candidate.remove = [](TimedGraph& edited) { overlap_collectives(edited); };
  found.push_back(std::move(candidate));
}

}  // namespace reprise
