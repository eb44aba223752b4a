// One vocabulary and one implementation for every graph. A transfer is latency,
// waiting for ranks that are not here, and the wire, whether it was recorded or
// priced; a priced step has its credit and its dispatch beside its nodes
// (StepRules).
#include "replay/simulate/what_if.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <regex>

#include "replay/graph/step_rules.h"
#include "replay/simulate/graph_edits.h"
#include "replay/simulate/rank_count.h"

namespace reprise {
namespace {

constexpr size_t kLongestPattern = 256;
constexpr double kMostRanks = 1e6;
constexpr size_t kLongestName = 2048;  // std::regex needs stack a character.

struct Target {
  std::string_view word;
  WhatIfKind kind;
};
constexpr Target kTargets[] = {
    {"bandwidth", WhatIfKind::kBandwidth}, {"latency", WhatIfKind::kLatency},
    {"ranks", WhatIfKind::kRanks},         {"launch", WhatIfKind::kLaunch},
    {"device", WhatIfKind::kDevice},       {"host", WhatIfKind::kHost}};
/// The forms without a quantity.
constexpr Target kWholes[] = {{"straggler=none", WhatIfKind::kStraggler},
                              {"overlap=ideal", WhatIfKind::kOverlap},
                              {"launch=0", WhatIfKind::kLaunch},
                              {"launch=0x", WhatIfKind::kLaunch},
                              {"launch=graph", WhatIfKind::kCapture},
                              {"latency=0", WhatIfKind::kLatency},
                              {"sync=none", WhatIfKind::kSync},
                              {"copies=overlapped", WhatIfKind::kCopies},
                              {"data=none", WhatIfKind::kData}};

tl::unexpected<Error> misunderstood(std::string_view text) {
  return fail(ErrorKind::kInvalid, "--what-if '{}': expected one of {}", text,
              kWhatIfForms);
}

struct Quantity {
  double number = 0;  // Positive.
  std::string_view suffix;
};

Result<Quantity> parse_quantity(std::string_view text, std::string_view whole) {
  Quantity quantity;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), quantity.number);
  const bool positive = quantity.number > 0 && quantity.number < 1e12;
  if (error != std::errc() || !positive) return misunderstood(whole);
  quantity.suffix = text.substr(static_cast<size_t>(end - text.data()));
  return quantity;
}

double unit_of(std::string_view suffix) {
  if (suffix == "ns") return 1;
  if (suffix == "us") return 1e3;
  if (suffix == "ms") return 1e6;
  return suffix == "s" ? 1e9 : 0;
}

Result<WhatIf> parse_target(std::string_view target, std::string_view text) {
  WhatIf what_if;
  for (const auto& [word, kind] : kTargets) {
    what_if.kind = kind;
    if (target == word) return what_if;
  }
  if (target.substr(0, 3) == "op:" && target.size() > 3 &&
      target.size() < kLongestPattern) {
    what_if.kind = WhatIfKind::kOp;
    what_if.pattern = target.substr(3);
    try {
      const std::regex checked(what_if.pattern);
    } catch (const std::regex_error& error) {
      return fail(ErrorKind::kInvalid, "--what-if '{}': bad pattern: {}", text,
                  error.what());
    }
    return what_if;
  }
  if (target.substr(0, 5) == "rank:") {
    what_if.kind = WhatIfKind::kRank;
    const std::string_view number = target.substr(5);
    const auto [end, error] = std::from_chars(
        number.data(), number.data() + number.size(), what_if.rank);
    if (error == std::errc() && end == number.data() + number.size()) {
      return what_if;
    }
  }
  return misunderstood(text);
}

Status nothing(std::string_view form, std::string_view what) {
  return fail(ErrorKind::kInvalid, "--what-if {}: the trace has no {}", form,
              what);
}

double edited_transfer(const WhatIf& what_if, double whole_ns,
                       double latency_ns, double absent_ns) {
  absent_ns = std::min(absent_ns, whole_ns);
  latency_ns = std::min(latency_ns, whole_ns - absent_ns);
  const double wire_ns = whole_ns - absent_ns - latency_ns;
  if (what_if.kind == WhatIfKind::kBandwidth) {
    return absent_ns + latency_ns + wire_ns / what_if.factor;
  }
  return absent_ns + wire_ns +
         (what_if.latency_ns >= 0 ? what_if.latency_ns
                                  : latency_ns * what_if.factor);
}

void edit_priced_transfers(const WhatIf& what_if, TimedGraph& graph) {
  StepRules& rules = *graph.rules;
  const bool bandwidth = what_if.kind == WhatIfKind::kBandwidth;
  for (StepRules::Transfer& transfer : rules.transfers) {
    const auto edit = [&](double whole_ns) {
      return edited_transfer(what_if, whole_ns, transfer.latency_ns, 0);
    };
    transfer.duration_ns = edit(transfer.duration_ns);
    transfer.floor_ns = edit(transfer.floor_ns);
    if (bandwidth) {
      transfer.wire_ns /= what_if.factor;
    } else {
      transfer.latency_ns = edit(transfer.latency_ns);
    }
  }
  if (bandwidth) rules.burst_ns = scaled(rules.burst_ns, 1 / what_if.factor);
  renew_transfers(graph);
}

Status edit_transfers(const WhatIf& what_if, const NodeFacts& facts,
                      TimedGraph& graph) {
  const bool bandwidth = what_if.kind == WhatIfKind::kBandwidth;
  bool any = false;
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.collective[node] < 0) continue;
    any = any || graph.rules;
    if (graph.rules) break;
    const size_t place = static_cast<size_t>(graph.collective[node]);
    const TimedGraph::Transfer& transfer = graph.transfers[place];
    any |= !bandwidth || transfer.group.kind != CollectiveKind::kBarrier;
    graph.duration[node] = std::llround(std::min(
        edited_transfer(what_if, static_cast<double>(graph.duration[node]),
                        static_cast<double>(transfer.latency_ns),
                        static_cast<double>(transfer.absent_ns)),
        kLongestEdit_ns));
  }
  if (!any) return no_transfers(facts, graph);
  if (graph.rules) edit_priced_transfers(what_if, graph);
  return {};
}

// Whether an origin's name matches; each name is searched once.
class NameMatch {
 public:
  NameMatch(const NodeFacts& facts, const std::string& pattern)
      : facts_(facts), pattern_(pattern), known_(facts.name_count()) {}

  bool operator()(uint32_t origin) {
    const uint32_t number = facts_.name_number(origin);
    std::optional<bool>& known = known_[number];
    if (!known) {
      const auto names = facts_.names(number);
      const auto matches = [&](std::string_view name) {
        const std::string text(name.substr(0, kLongestName));
        return std::regex_search(text, pattern_);
      };
      known = std::any_of(names.begin(), names.end(), matches);
    }
    return *known;
  }

 private:
  const NodeFacts& facts_;
  std::regex pattern_;
  std::vector<std::optional<bool>> known_;  // [name number] Once searched.
};

// Of a gap, the part within a named range; the rest stays. A priced step has
// none.
void scale_named(size_t node, double factor, TimedGraph& graph) {
  if (graph.named.empty()) return;
  const int64_t named_ns = graph.named[node];
  graph.named[node] = scaled(named_ns, factor);
  graph.gap[node] += graph.named[node] - named_ns;
}

Status scale_ops(const WhatIf& what_if, const NodeFacts& facts,
                 TimedGraph& graph) {
  NameMatch matches(facts, what_if.pattern);
  bool any = false;
  std::vector<double> transfers;  // [collective] of a priced step: factor.
  if (graph.rules) transfers.assign(graph.rules->transfers.size(), 1);
  for (size_t node = 0; node < graph.size(); ++node) {
    if (matches(graph.origin[node])) {
      any = true;
      graph.duration[node] = scaled(graph.duration[node], what_if.factor);
      if (graph.rules && graph.collective[node] >= 0) {
        transfers[static_cast<size_t>(graph.collective[node])] = what_if.factor;
      }
    }
    if (!graph.named.empty() && graph.named[node] > 0 &&
        matches(graph.range[node])) {
      any = true;
      scale_named(node, what_if.factor, graph);
    }
  }
  if (!any) {
    return fail(ErrorKind::kInvalid, "--what-if op:{}: no event's name matches",
                what_if.pattern);
  }
  if (!graph.rules) return {};
  for (size_t place = 0; place < transfers.size(); ++place) {
    StepRules::Transfer& transfer = graph.rules->transfers[place];
    for (double* time_ns : {&transfer.duration_ns, &transfer.latency_ns,
                            &transfer.wire_ns, &transfer.floor_ns}) {
      *time_ns *= transfers[place];
    }
  }
  renew_transfers(graph);
  return {};
}

// What a rank does itself: all but its transfers.
Status scale_rank(const WhatIf& what_if, const NodeFacts& facts,
                  TimedGraph& graph) {
  const auto found = std::find_if(
      graph.ranks.begin(), graph.ranks.end(), [&](const auto& span) {
        return facts.rank_number(span.rank) == what_if.rank;
      });
  if (found == graph.ranks.end()) {
    return fail(ErrorKind::kInvalid, "--what-if rank:{}: no such rank among {}",
                what_if.rank, graph.ranks.size());
  }
  const auto place = static_cast<uint32_t>(found - graph.ranks.begin());
  for (size_t node = 0; node < graph.size(); ++node) {
    if (graph.rank[node] != place) continue;
    scale_gap(node, what_if.factor, graph);
    if (communicates(facts, graph, node)) continue;
    graph.duration[node] = scaled(graph.duration[node], what_if.factor);
  }
  return {};
}

// All device work but what crosses a link; or all host work and the named time
// around it, while gaps that nothing explains stay.
Status scale_side(const WhatIf& what_if, const NodeFacts& facts,
                  TimedGraph& graph) {
  const bool host = what_if.kind == WhatIfKind::kHost;
  const NodeSet links = host_copies(facts, graph);
  bool any = false;
  for (size_t node = 0; node < graph.size(); ++node) {
    if (communicates(facts, graph, node) || (!host && links[node]) ||
        facts.on_host(graph.origin[node]) != host)
      continue;
    any = true;
    graph.duration[node] = scaled(graph.duration[node], what_if.factor);
    scale_named(node, what_if.factor, graph);
  }
  const std::string_view side = host ? "host" : "device";
  return any ? Status{} : nothing(side, fmt::format("{} work", side));
}

// The calls that launch device work, and what passes until it starts; in a
// priced step, what handing a unit to its stream takes.
Status scale_launches(const WhatIf& what_if, const NodeFacts& facts,
                      TimedGraph& graph) {
  if (graph.rules) {
    set_dispatch(*graph.rules, graph.rules->dispatch_ns * what_if.factor);
    for (size_t node = 0; node < graph.size(); ++node) {
      if (graph.collective[node] < 0) graph.gap[node] = graph.rules->gap;
    }
    return {};
  }
  std::vector<bool> launches(graph.size(), false);
  bool any = false;
  for (size_t at = 0; at < graph.edges.size(); ++at) {
    TimedGraph::Edge edge = graph.edges[at];
    if (edge.kind != EdgeKind::kLaunch) continue;
    any = launches[edge.from] = true;
    if (edge.delay_ns > 0) {
      edge.delay_ns = scaled(edge.delay_ns, what_if.factor);
      graph.edges.set(at, edge);
    }
  }
  if (!any) return nothing("launch", "launches");
  for (size_t node = 0; node < graph.size(); ++node) {
    if (!launches[node] || !facts.is_call(graph.origin[node])) continue;
    graph.duration[node] = scaled(graph.duration[node], what_if.factor);
  }
  return {};
}

bool any_of(const NodeSet& nodes) {
  return std::find(nodes.begin(), nodes.end(), true) != nodes.end();
}

// Of nodes that there must be some of.
Status edit_nodes(std::string_view form, std::string_view what,
                  const NodeSet& nodes, TimedGraph& graph,
                  void (*edit)(const NodeSet& nodes, TimedGraph& graph)) {
  if (!any_of(nodes)) return nothing(form, what);
  edit(nodes, graph);
  return {};
}

Status capture(const NodeFacts& facts, TimedGraph& graph) {
  bool any = false;
  for (size_t at = 0; at < graph.edges.size(); ++at) {
    any = any || graph.edges[at].kind == EdgeKind::kLaunch;
  }
  if (!any) return nothing("launch=graph", "launches");
  capture_launches(data_loading(facts, graph), facts, graph);
  return {};
}

Status overlap_all_copies(const NodeFacts& facts, TimedGraph& graph) {
  if (!any_of(host_copies(facts, graph))) {
    return nothing("copies=overlapped", "copies between host and device");
  }
  overlap_copies(facts, graph);
  return {};
}

Status load_no_data(const NodeFacts& facts, TimedGraph& graph) {
  const DataLoading data = data_loading(facts, graph);
  if (!any_of(data.nodes) && !any_of(data.gaps)) {
    return nothing("data=none", "ranges of data loaders");
  }
  remove_data_loading(data, graph);
  return {};
}

}  // namespace

const char* const kWhatIfForms =
    "bandwidth=2x, latency=0.5x, latency=50us, ranks=64, op:REGEX=0.5x, "
    "rank:N=1.2x, device=0.5x, host=0.5x, launch=0, launch=graph, "
    "straggler=none, overlap=ideal, sync=none, copies=overlapped, data=none";

Result<WhatIf> parse_what_if(std::string_view text) {
  for (const auto& [whole, kind] : kWholes) {
    if (text == whole) return WhatIf{.kind = kind, .factor = 0, .pattern = {}};
  }
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) return misunderstood(text);
  Result<WhatIf> what_if = parse_target(text.substr(0, equals), text);
  if (!what_if) return what_if;
  const auto quantity = parse_quantity(text.substr(equals + 1), text);
  if (!quantity) return pass(quantity.error());
  if (what_if->kind == WhatIfKind::kRanks) {
    const double ranks = quantity->number;
    if (!quantity->suffix.empty() || ranks != std::floor(ranks) ||
        ranks > kMostRanks)
      return misunderstood(text);
    what_if->rank = static_cast<uint32_t>(ranks);
  } else if (quantity->suffix == "x") {
    what_if->factor = quantity->number;
  } else if (what_if->kind == WhatIfKind::kLatency &&
             unit_of(quantity->suffix) > 0) {
    what_if->latency_ns = quantity->number * unit_of(quantity->suffix);
  } else {
    return misunderstood(text);
  }
  return what_if;
}

Result<std::vector<WhatIf>> parse_what_ifs(
    const std::vector<std::string>& texts) {
  std::vector<WhatIf> what_ifs;
  for (const std::string& text : texts) {
    Result<WhatIf> what_if = parse_what_if(text);
    if (!what_if) return pass(what_if.error());
    what_ifs.push_back(*std::move(what_if));
  }
  return what_ifs;
}

bool tells_ranks_apart(std::span<const WhatIf> what_ifs) {
  return std::any_of(what_ifs.begin(), what_ifs.end(),
                     [](const WhatIf& what_if) {
                       return what_if.kind == WhatIfKind::kRank ||
                              what_if.kind == WhatIfKind::kStraggler;
                     });
}

// What waits for other ranks must not be taken for work.
static Status check_waits_known(const WhatIf& what_if, const NodeFacts& facts,
                                const TimedGraph& graph) {
  using enum WhatIfKind;
  constexpr WhatIfKind kOfOneSide[] = {kHost, kLaunch, kCapture,
                                       kSync, kCopies, kData};
  const bool one_side = std::find(std::begin(kOfOneSide), std::end(kOfOneSide),
                                  what_if.kind) != std::end(kOfOneSide);
  if (one_side || !graphs_hide_collectives(facts, graph)) return {};
  return fail(ErrorKind::kInvalid,
              "--what-if: the ranks' collectives are inside CUDA graphs that "
              "were traced whole, where waits and transfers cannot be told "
              "from work; profile with --cuda-graph-trace=node");
}

Status apply_what_if(const WhatIf& what_if, const NodeFacts& facts,
                     TimedGraph& graph) {
  const Status known = check_waits_known(what_if, facts, graph);
  if (!known) return known;
  switch (what_if.kind) {
    case WhatIfKind::kBandwidth:
    case WhatIfKind::kLatency:
      return edit_transfers(what_if, facts, graph);
    case WhatIfKind::kRanks:
      return change_rank_count(what_if.rank, graph);
    case WhatIfKind::kOp:
      return scale_ops(what_if, facts, graph);
    case WhatIfKind::kRank:
      return scale_rank(what_if, facts, graph);
    case WhatIfKind::kDevice:
    case WhatIfKind::kHost:
      return scale_side(what_if, facts, graph);
    case WhatIfKind::kLaunch:
      return scale_launches(what_if, facts, graph);
    case WhatIfKind::kStraggler:
      return level_ranks(facts, graph);
    case WhatIfKind::kOverlap:
      return edit_nodes("overlap=ideal", "collectives", collective_nodes(graph),
                        graph, [](const NodeSet&, TimedGraph& edited) {
                          overlap_collectives(edited);
                        });
    case WhatIfKind::kCapture:
      return capture(facts, graph);
    case WhatIfKind::kSync:
      return edit_nodes("sync=none", "host calls that wait for the device",
                        blocking_nodes(facts, graph), graph, drop_host_waits);
    case WhatIfKind::kCopies:
      return overlap_all_copies(facts, graph);
    case WhatIfKind::kData:
      return load_no_data(facts, graph);
  }
  return {};
}

}  // namespace reprise
