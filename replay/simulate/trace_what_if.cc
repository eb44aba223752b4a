// What-ifs on the graph of an imported trace. What a what-if does not name
// stays as recorded, gaps too.
#include <algorithm>
#include <cmath>
#include <regex>
#include <string>

#include "data/median.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

constexpr double kLongestDuration = 1e18;  // ns; sums stay within 64 bits.
constexpr size_t kLongestName = 2048;  // std::regex needs stack a character.

int64_t scaled(int64_t time_ns, double factor) {
  return std::llround(
      std::min(static_cast<double>(time_ns) * factor, kLongestDuration));
}

const Event& event_of(const Trace& trace, const TimedGraph& graph,
                      size_t node) {
  return trace.events[graph.origin[node]];
}

bool is_host(const Trace& trace, const TimedGraph& graph, size_t node) {
  const uint32_t stream = event_of(trace, graph, node).stream;
  return trace.streams[stream].kind != StreamKind::kDeviceStream;
}

// A transfer is latency, waiting for ranks that are not here, and the wire.
int64_t edited_transfer(const WhatIf& what_if, int64_t duration_ns,
                        const TimedGraph::Transfer& transfer) {
  const int64_t absent_ns = std::min(transfer.absent_ns, duration_ns);
  const int64_t latency_ns =
      std::min(transfer.latency_ns, duration_ns - absent_ns);
  const int64_t wire_ns = duration_ns - absent_ns - latency_ns;
  if (what_if.kind == WhatIfKind::kBandwidth) {
    return absent_ns + latency_ns + scaled(wire_ns, 1 / what_if.factor);
  }
  const int64_t other_ns = what_if.latency_ns >= 0
                               ? scaled(1, what_if.latency_ns)
                               : scaled(latency_ns, what_if.factor);
  return absent_ns + other_ns + wire_ns;
}

Status edit_transfers(const WhatIf& what_if, TimedGraph& graph) {
  bool any = false;
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    any = true;
    const size_t place = static_cast<size_t>(graph.collective[node]);
    graph.duration[node] =
        edited_transfer(what_if, graph.duration[node], graph.transfers[place]);
  }
  if (any) return {};
  return fail(ErrorKind::kInvalid,
              "--what-if bandwidth or latency: the trace has no collectives");
}

// Whether an event's name matches; each name is searched once.
class NameMatch {
 public:
  NameMatch(const Trace& trace, const std::string& pattern)
      : trace_(trace), pattern_(pattern), known_(trace.strings.size(), -1) {}

  bool operator()(uint32_t event) {
    const StringId name = trace_.events[event].name;
    int8_t& known = known_[index_of(name)];
    if (known < 0) {
      const std::string text = trace_.text(name).substr(0, kLongestName);
      known = std::regex_search(text, pattern_) ? 1 : 0;
    }
    return known == 1;
  }

 private:
  const Trace& trace_;
  std::regex pattern_;
  std::vector<int8_t> known_;  // [StringId] -1: not searched yet.
};

Status scale_events(const WhatIf& what_if, const Trace& trace,
                    TimedGraph& graph) {
  NameMatch matches(trace, what_if.pattern);
  bool any = false;
  for (size_t node = 0; node < graph.size(); ++node) {
    if (matches(graph.origin[node])) {
      any = true;
      graph.duration[node] = scaled(graph.duration[node], what_if.factor);
    }
    const int64_t named_ns = graph.named[node];
    if (named_ns > 0 && matches(graph.range[node])) {
      any = true;
      graph.named[node] = scaled(named_ns, what_if.factor);
      graph.gap[node] += graph.named[node] - named_ns;
    }
  }
  if (any) return {};
  return fail(ErrorKind::kInvalid, "--what-if op:{}: no event's name matches",
              what_if.pattern);
}

void scale_gap(size_t node, double factor, TimedGraph& graph) {
  graph.gap[node] = scaled(graph.gap[node], factor);
  graph.named[node] =
      std::min(graph.gap[node], scaled(graph.named[node], factor));
}

// What a rank does itself: all but its transfers.
void scale_rank(uint32_t place, double factor, TimedGraph& graph) {
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.rank[node] != place) continue;
    scale_gap(node, factor, graph);
    if (graph.collective[node] >= 0) continue;
    graph.duration[node] = scaled(graph.duration[node], factor);
  }
}

Status scale_one_rank(const WhatIf& what_if, const Trace& trace,
                      TimedGraph& graph) {
  for (uint32_t place = 0; place < trace.ranks.size(); ++place) {
    if (trace.ranks[place].rank != what_if.rank) continue;
    scale_rank(place, what_if.factor, graph);
    return {};
  }
  return fail(ErrorKind::kInvalid, "--what-if rank:{}: no such rank among {}",
              what_if.rank, trace.ranks.size());
}

// All device work but collectives; or all host work and the named time around
// it, while gaps that nothing explains stay.
Status scale_side(const WhatIf& what_if, const Trace& trace,
                  TimedGraph& graph) {
  const bool host = what_if.kind == WhatIfKind::kHost;
  bool any = false;
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] >= 0 || is_host(trace, graph, node) != host) {
      continue;
    }
    any = true;
    graph.duration[node] = scaled(graph.duration[node], what_if.factor);
    const int64_t named_ns = graph.named[node];
    graph.named[node] = scaled(named_ns, what_if.factor);
    graph.gap[node] += graph.named[node] - named_ns;
  }
  if (any) return {};
  return fail(ErrorKind::kInvalid, "--what-if {}: the trace has no {} work",
              host ? "host" : "device", host ? "host" : "device");
}

// No rank needs more host time or device time in total than the median rank,
// and all begin with the median rank.
Status level_ranks(const Trace& trace, TimedGraph& graph) {
  std::vector<double> host_ns(graph.ranks.size(), 0);
  std::vector<double> device_ns(graph.ranks.size(), 0);
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] >= 0) continue;
    const bool host = is_host(trace, graph, node);
    (host ? host_ns : device_ns)[graph.rank[node]] += static_cast<double>(
        graph.duration[node] + (host ? graph.gap[node] : 0));
  }
  std::vector<double> hosts, devices, starts;
  for (const TimedGraph::Span& rank : graph.ranks) {
    if (rank.end_ns < rank.start_ns) continue;
    hosts.push_back(host_ns[rank.rank]);
    devices.push_back(device_ns[rank.rank]);
    starts.push_back(static_cast<double>(rank.start_ns));
  }
  if (starts.size() < 2) {
    return fail(ErrorKind::kInvalid,
                "--what-if straggler=none: the trace has one rank");
  }
  // The lower one: of two ranks, one is the straggler.
  const double host = lower_median(hosts), device = lower_median(devices);
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] >= 0) continue;
    const uint32_t rank = graph.rank[node];
    const bool on_host = is_host(trace, graph, node);
    const double own_ns = (on_host ? host_ns : device_ns)[rank];
    const double most_ns = on_host ? host : device;
    const double factor = own_ns > most_ns ? most_ns / own_ns : 1;
    graph.duration[node] = scaled(graph.duration[node], factor);
    if (on_host) scale_gap(node, factor, graph);
  }
  const int64_t start_ns = static_cast<int64_t>(lower_median(starts));
  for (TimedGraph::Span& rank : graph.ranks) {
    if (rank.end_ns < rank.start_ns) continue;
    rank.end_ns += start_ns - rank.start_ns;
    rank.start_ns = start_ns;
  }
  return {};
}

// The calls that launch device work, and what passes until it starts.
Status scale_launches(const WhatIf& what_if, const Trace& trace,
                      TimedGraph& graph) {
  std::vector<bool> launches(graph.size(), false);
  bool any = false;
  for (TimedGraph::Edge& edge : graph.edges) {
    if (edge.kind != EdgeKind::kLaunch) continue;
    any = launches[edge.from] = true;
    if (edge.delay_ns > 0)
      edge.delay_ns = scaled(edge.delay_ns, what_if.factor);
  }
  if (!any) {
    return fail(ErrorKind::kInvalid,
                "--what-if launch: the trace has no launches");
  }
  for (size_t node = 0; node < graph.size(); ++node) {
    if (!launches[node] ||
        event_of(trace, graph, node).kind != EventKind::kRuntime) {
      continue;
    }
    graph.duration[node] = scaled(graph.duration[node], what_if.factor);
  }
  return {};
}

// Only collectives wait for a collective's end.
Status free_collectives(TimedGraph& graph) {
  bool any = false;
  for (size_t node = 0; node < graph.size(); ++node) {
    any = any || graph.collective[node] >= 0;
    if (graph.collective[node] >= 0) continue;
    for (uint32_t at = graph.first[node]; at < graph.first[node + 1]; ++at) {
      TimedGraph::Edge& edge = graph.edges[at];
      if (graph.collective[edge.from] >= 0) edge.from_start = true;
    }
  }
  if (any) return {};
  return fail(ErrorKind::kInvalid,
              "--what-if overlap=ideal: the trace has no collectives");
}

}  // namespace

Status apply_what_if(const WhatIf& what_if, const Trace& trace,
                     TimedGraph& graph) {
  switch (what_if.kind) {
    case WhatIfKind::kBandwidth:
    case WhatIfKind::kLatency:
      return edit_transfers(what_if, graph);
    case WhatIfKind::kOp:
      return scale_events(what_if, trace, graph);
    case WhatIfKind::kRank:
      return scale_one_rank(what_if, trace, graph);
    case WhatIfKind::kDevice:
    case WhatIfKind::kHost:
      return scale_side(what_if, trace, graph);
    case WhatIfKind::kLaunch:
      return scale_launches(what_if, trace, graph);
    case WhatIfKind::kStraggler:
      return level_ranks(trace, graph);
    case WhatIfKind::kOverlap:
      return free_collectives(graph);
  }
  return {};
}

}  // namespace reprise
