#include "replay/findings/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "data/parallel.h"
#include "replay/findings/finding_kinds.h"
#include "replay/findings/source_line.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

constexpr FindingKind kKinds[] = {
    {"unequal-stages", find_pipeline_stages},
    {"pipeline-bubble", find_pipeline_bubble},
    {"unequal-experts", find_experts},
    {"data-loading", find_data_loading},
    {"serial-copies", find_serial_copies},
    {"blocking-calls", find_blocking_calls},
    {"collective-choice", find_collective_choice},
    {"slow-link", find_slow_link},
    {"small-buckets", find_small_buckets},
    {"late-rank", find_late_rank},
    {"missing-overlap", find_missing_overlap},
    {"communication-bound", find_communication_bound},
    {"small-kernels", find_small_kernels},
    {"set-up", find_set_up},
    {"launch-bound", find_launch_bound},
};

size_t place_of(std::string_view kind) {
  const auto found =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const FindingKind& one) { return one.name == kind; });
  return static_cast<size_t>(found - std::begin(kKinds));
}

/// What a replay without each candidate takes, by two threads: each edits a
/// graph of its own, again and again.
std::vector<int64_t> spans_without(const std::vector<Candidate>& candidates,
                                   const TimedGraph& graph) {
  constexpr size_t kThreads = 2;
  std::vector<int64_t> span_ns(candidates.size());
  parallel_for(kThreads, kThreads, [&](size_t first) {
    TimedGraph edited;
    GraphTimes times;
    for (size_t at = first; at < candidates.size(); at += kThreads) {
      edited = graph;
      candidates[at].remove(edited);
      keep_under_way(graph, edited);
      times = evaluate(edited, std::move(times));
      span_ns[at] = replayed_span_ns(edited, times);
    }
  });
  return span_ns;
}

/// Prices the candidates; keeps the best of each kind.
void price(std::vector<Candidate> candidates, const TimedGraph& graph,
           Findings& findings, std::vector<Candidate>& kept) {
  const std::vector<int64_t> span_ns = spans_without(candidates, graph);
  std::map<size_t, Candidate> best;  // By kind.
  for (size_t at = 0; at < candidates.size(); ++at) {
    Candidate& candidate = candidates[at];
    Finding& finding = candidate.finding;
    finding.gain_ns = findings.replayed_ns - span_ns[at];
    if (finding.gain_ns > candidate.most_ns) {
      finding.gain_ns = candidate.most_ns;
      finding.what_if.clear();
    }
    if (finding.gain_ns < findings.threshold_ns) continue;
    finding.gain_share = static_cast<double>(finding.gain_ns) /
                         static_cast<double>(findings.replayed_ns);
    const auto [known, added] =
        best.try_emplace(place_of(finding.kind), candidate);
    if (!added && known->second.finding.gain_ns < finding.gain_ns) {
      known->second = std::move(candidate);
    }
  }
  for (auto& [kind, candidate] : best) kept.push_back(std::move(candidate));
}

std::set<uint32_t> ranks_without_device(const Analysis& analysis) {
  std::set<uint32_t> ranks;
  for (const RankAnalysis& rank : analysis.ranks) {
    if (rank.host_only) ranks.insert(rank.rank);
  }
  return ranks;
}

void rank_by_gain(std::vector<Candidate>& kept) {
  std::stable_sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
    return a.finding.gain_ns > b.finding.gain_ns;
  });
  for (size_t at = 1; at < kept.size(); ++at) {
    for (size_t place = at; place > 0; --place) {
      const Finding& before = kept[place - 1].finding;
      const Finding& own = kept[place].finding;
      const bool same =
          static_cast<double>(before.gain_ns - own.gain_ns) <=
          Findings::kSameGain * static_cast<double>(before.gain_ns);
      if (!same || place_of(before.kind) < place_of(own.kind)) break;
      std::swap(kept[place - 1], kept[place]);
    }
  }
}

}  // namespace

std::span<const FindingKind> finding_kinds() { return kKinds; }

std::string finding_time(int64_t time_ns) {
  // Of three digits, 999.5 would be 1e+03.
  const double time = static_cast<double>(time_ns);
  if (time_ns < 999'500) return fmt::format("{:.3g} us", time / 1e3);
  if (time_ns < 999'500'000) return fmt::format("{:.3g} ms", time / 1e6);
  return fmt::format("{:.3g} s", time / 1e9);
}

std::string finding_share(double share) {
  return fmt::format("{:.{}f} %", share * 100, share < 0.0995 ? 1 : 0);
}

FindingInput finding_input(const TraceByRank& trace, const Analysis& analysis,
                           const NodeFacts& facts, const TimedGraph& graph,
                           const GraphTimes& times) {
  FindingInput input = {.trace = trace,
                        .analysis = analysis,
                        .facts = facts,
                        .graph = graph,
                        .times = times,
                        .least_ns = 0,
                        .kinds = {},
                        .thread = {},
                        .launch = {},
                        .stream_before = {},
                        .computes = {},
                        .framework = framework_of(trace.frame())};
  const size_t count = graph.size();
  const std::set<uint32_t> host_only = ranks_without_device(analysis);
  input.kinds.resize(count);
  input.thread.resize(count);
  input.launch.resize(count);
  input.stream_before.resize(count);
  input.computes.resize(count);
  for (uint32_t node = 0; node < count; ++node) {
    input.kinds[node] = facts.kind(graph.origin[node]);
    input.computes[node] = input.kinds[node] == PathKind::kKernel ||
                           (input.kinds[node] == PathKind::kHost &&
                            !facts.is_call(graph.origin[node]) &&
                            host_only.contains(input.rank_number(node)));
    input.thread[node] = input.launch[node] = input.stream_before[node] = node;
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      const TimedGraph::Edge edge = graph.edges[at];
      if (edge.kind == EdgeKind::kThread) {
        input.thread[node] = input.thread[edge.from];
      } else if (edge.kind == EdgeKind::kLaunch) {
        input.launch[node] = edge.from;
      } else if (edge.kind == EdgeKind::kStream) {
        input.stream_before[node] = edge.from;
      }
    }
  }
  return input;
}

Findings find_findings(const TraceByRank& trace, const Analysis& analysis) {
  Findings findings;
  if (!analysis.graph) {
    findings.not_replayed =
        trace.frame().program_text.empty()
            ? "the trace cannot be replayed"
            : "its program is what `reprise optimize` searches: fusion, "
              "buckets and order";
    return findings;
  }
  const TimedGraph& graph = *analysis.graph;
  if (graph.size() > Findings::kMostNodes) {
    findings.not_replayed = fmt::format(
        "its graph of {} nodes is too large to try what-ifs on; `--step N` "
        "looks at one step",
        graph.size());
    return findings;
  }
  const NodeFacts facts(trace);
  findings.replayed_ns = replayed_span_ns(graph, analysis.graph_times);
  findings.measured_ns = recorded_span_ns(graph);
  findings.threshold_ns = std::max<int64_t>(
      1, static_cast<int64_t>(Findings::kLeastShare *
                              static_cast<double>(findings.replayed_ns)));
  findings.unexplained_share =
      sources_of(analysis.critical_path.entries, nullptr).unexplained;
  if (findings.replayed_ns <= 0) {
    findings.not_replayed = "nothing in it takes any time";
    return findings;
  }
  FindingInput input =
      finding_input(trace, analysis, facts, graph, analysis.graph_times);
  input.least_ns = findings.threshold_ns;
  std::vector<Candidate> candidates, kept;
  for (const FindingKind& kind : kKinds) {
    const size_t before = candidates.size();
    kind.find(input, candidates);
    for (size_t at = before; at < candidates.size(); ++at) {
      candidates[at].finding.kind = kind.name;
    }
  }
  price(std::move(candidates), graph, findings, kept);
  rank_by_gain(kept);
  for (Candidate& candidate : kept) {
    Finding finding = std::move(candidate.finding);
    finding.step = analysis.critical_path.step;
    if (candidate.origin != TimedGraph::Transfer::kNoLink) {
      finding.where.source = source_line(trace, candidate.origin);
    }
    findings.list.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace reprise
