// Calls that were launched as one (a group) make a unit; kernels of NCCL's and
// created graph nodes make launches. For each unit the few launches of its
// thread that lie nearest in time and may be of its operation are candidates;
// all candidates are taken nearest first, each unit and launch once (a greedy
// matching: neither side is given away while it is another's nearer one). Calls
// that a driver's thread repeats at each replay of a graph are first moved to
// the capture that they repeat; replays whose capture nobody told are paired
// with the nodes by order, where all are of one operation and one communicator.
// Cost: sorting.
#include "data/formats/process_shard/process_shard_pairing.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "data/formats/nccl_names.h"
#include "data/integers.h"

namespace reprise {
namespace {

/// A call's record follows its launch at once, or is around it.
constexpr int64_t kMostApartNs = 1'000'000;
/// Launches that are looked at on either side of a call.
constexpr size_t kMostLooked = 8;

using Calls = std::vector<NcclCallPlace>;

}  // namespace

/// What was launched as one.
struct NcclPairing::Unit {
  HostMoment at;  ///< Thread -1: where it was captured is not known.
  std::vector<Calls> instances;  ///< One, or those of each replay of a graph.
  std::set<CollectiveKind> kinds;
  bool is_replay = false;
};

/// A kernel's launch, or the creation of a graph's node.
struct NcclPairing::Launch {
  HostMoment at;
  size_t shard = 0, kernel = 0;
  std::optional<size_t> node;
  CollectiveKind kind{};  ///< kUnknown: any.
  auto key() const { return std::pair(at.thread, at.start_ns); }
};

/// Puts calls that were launched as one together.
struct NcclPairing::Draft {
  explicit Draft(const std::vector<SurveyedShard>& all) : shards(all) {}

  void add_calls(size_t shard);
  void add_launches(size_t shard);
  void add_nodes(const std::vector<NcclGraphNode>& nodes);
  void join_replays();

  const std::vector<SurveyedShard>& shards;
  std::vector<Unit> units;
  std::vector<Launch> launches;

 private:
  void extend(Unit& unit, const NcclCall& call, const ShardSurvey& survey);
  /// What calls of all replays of a node share; empty: the unit is none of a
  /// replay.
  using Signature = std::vector<std::tuple<int64_t, int64_t, uint64_t>>;
  Signature by_api(const Unit& unit) const;
  Signature by_sequence(const Unit& unit) const;
  void move_to_capture(Unit& unit) const;
  const NcclCall& call_at(NcclCallPlace place) const {
    return shards[place.shard].survey.nccl_calls[place.call];
  }

  std::map<std::pair<size_t, int64_t>, size_t> grouped_;
  std::set<int64_t> launching_threads_;
};

void NcclPairing::Draft::extend(Unit& unit, const NcclCall& call,
                                const ShardSurvey& survey) {
  unit.at.end_ns = std::max(unit.at.end_ns, call.end_ns);
  // What a group gathers is launched at its end, after the last call.
  const auto end = survey.group_ends.find(call.group);
  if (end != survey.group_ends.end()) {
    unit.at.start_ns = std::max(unit.at.start_ns, call.start_ns);
    unit.at.end_ns = std::max(unit.at.end_ns, end->second);
  }
  unit.kinds.insert(survey.info_of(call).kind);
}

void NcclPairing::Draft::add_calls(size_t shard) {
  const ShardSurvey& survey = shards[shard].survey;
  for (size_t i = 0; i < survey.nccl_calls.size(); ++i) {
    const NcclCall& call = survey.nccl_calls[i];
    const auto known =
        call.group < 0
            ? grouped_.end()
            : grouped_.try_emplace({shard, call.group}, units.size()).first;
    const size_t place = known == grouped_.end() ? units.size() : known->second;
    if (place == units.size()) {
      units.push_back(
          {{call.thread, call.start_ns, call.end_ns}, {Calls()}, {}, false});
    }
    units[place].instances.front().push_back({shard, i});
    extend(units[place], call, survey);
  }
}

void NcclPairing::Draft::add_launches(size_t shard) {
  const ShardSurvey& survey = shards[shard].survey;
  for (size_t i = 0; i < survey.nccl_kernels.size(); ++i) {
    const NcclKernel& kernel = survey.nccl_kernels[i];
    if (kernel.thread < 0) continue;  // Of a graph, or its launch was lost.
    const std::string_view name = shards[shard].contents.text(kernel.name);
    launches.push_back(
        {{kernel.thread, kernel.call_start_ns, kernel.call_end_ns},
         shard,
         i,
         std::nullopt,
         describe_nccl_kernel(name).kind});
  }
}

void NcclPairing::Draft::add_nodes(const std::vector<NcclGraphNode>& nodes) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    launches.push_back({nodes[i].created, nodes[i].shard, 0, i, nodes[i].kind});
  }
}

/// Calls that name captured ones and were not made by the capturing thread.
NcclPairing::Draft::Signature NcclPairing::Draft::by_api(
    const Unit& unit) const {
  Signature signature;
  for (const NcclCallPlace& place : unit.instances.front()) {
    const NcclCall& call = call_at(place);
    const auto& captured = shards[place.shard].survey.captured_apis;
    const auto api = captured.find(call.api);
    if (api == captured.end() || api->second.thread == call.thread) return {};
    signature.emplace_back(call.api, 0, 0);
  }
  std::sort(signature.begin(), signature.end());
  return signature;
}

/// Calls of threads that launch nothing, told by what they are.
NcclPairing::Draft::Signature NcclPairing::Draft::by_sequence(
    const Unit& unit) const {
  Signature signature;
  if (launching_threads_.contains(unit.at.thread)) return {};
  for (const NcclCallPlace& place : unit.instances.front()) {
    const NcclCall& call = call_at(place);
    if (call.api >= 0 || call.sequence < 0) return {};
    signature.emplace_back(call.sequence, call.bytes,
                           ShardSurvey::info_key(call.info, call.name));
  }
  std::sort(signature.begin(), signature.end());
  return signature;
}

void NcclPairing::Draft::move_to_capture(Unit& unit) const {
  std::optional<HostMoment> at;
  for (const NcclCallPlace& place : unit.instances.front()) {
    const auto& captured = shards[place.shard].survey.captured_apis;
    const auto api = captured.find(call_at(place).api);
    if (api == captured.end()) continue;
    if (!at) at = api->second;
    at->start_ns = std::min(at->start_ns, api->second.start_ns);
    at->end_ns = std::max(at->end_ns, api->second.end_ns);
  }
  unit.at = at.value_or(HostMoment());
}

/// Units are in the order of their first calls, so replays are in theirs.
void NcclPairing::Draft::join_replays() {
  bool has_graphs = false;
  for (const Launch& launch : launches) {
    has_graphs |= launch.node.has_value();
    launching_threads_.insert(launch.at.thread);
  }
  if (!has_graphs) return;
  std::map<std::pair<bool, Signature>, size_t> known;
  std::vector<Unit> joined;
  for (Unit& unit : units) {
    Signature signature = by_api(unit);
    const bool is_named = !signature.empty();
    if (!is_named) signature = by_sequence(unit);
    unit.is_replay = !signature.empty();
    const auto [place, is_new] =
        unit.is_replay
            ? known.try_emplace({is_named, std::move(signature)}, joined.size())
            : std::pair(known.end(), true);
    if (is_new) {
      if (unit.is_replay) move_to_capture(unit);
      joined.push_back(std::move(unit));
    } else {
      joined[place->second].instances.push_back(
          std::move(unit.instances.front()));
    }
  }
  units = std::move(joined);
}

NcclPairing::NcclPairing(const std::vector<SurveyedShard>& shards,
                         const RecordedProcess& process)
    : shards_(shards),
      nodes_(nccl_graph_nodes(shards, process)),
      is_node_known_(nodes_.size()) {
  Draft draft(shards);
  for (const size_t shard : process.shards) {
    draft.add_calls(shard);
    draft.add_launches(shard);
  }
  draft.add_nodes(nodes_);
  draft.join_replays();
  std::stable_sort(
      draft.launches.begin(), draft.launches.end(),
      [](const Launch& a, const Launch& b) { return a.key() < b.key(); });
  pair(draft.units, draft.launches);
  pair_by_order(draft.units);
  learn_timer(process);
}

/// Nearest first: neither may be another's nearer one.
void NcclPairing::pair(std::vector<Unit>& units,
                       const std::vector<Launch>& launches) {
  std::vector<std::tuple<int64_t, size_t, size_t>> candidates;
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    const auto near = static_cast<size_t>(
        std::lower_bound(launches.begin(), launches.end(),
                         std::pair(unit.at.thread, unit.at.start_ns),
                         [](const Launch& launch, const auto& key) {
                           return launch.key() < key;
                         }) -
        launches.begin());
    const size_t last = std::min(launches.size(), near + kMostLooked);
    for (size_t k = near - std::min(near, kMostLooked); k < last; ++k) {
      const Launch& launch = launches[k];
      const bool fits = launch.kind == CollectiveKind::kUnknown ||
                        unit.kinds.contains(launch.kind);
      if (launch.at.thread != unit.at.thread || !fits ||
          (unit.is_replay && !launch.node)) {
        continue;
      }
      const int64_t apart = std::max(
          {int64_t{0}, saturating_subtract(launch.at.start_ns, unit.at.end_ns),
           saturating_subtract(unit.at.start_ns, launch.at.end_ns)});
      if (apart <= kMostApartNs) candidates.emplace_back(apart, k, i);
    }
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<uint8_t> taken(launches.size());
  for (const auto& [apart, k, i] : candidates) {
    if (taken[k] != 0 || units[i].instances.empty()) continue;
    taken[k] = 1;
    give(launches[k], units[i]);
  }
}

void NcclPairing::give(const Launch& launch, Unit& unit) {
  if (launch.node) {
    is_node_known_[*launch.node] = 1;
    return give(nodes_[*launch.node], unit);
  }
  const NcclKernel& kernel =
      shards_[launch.shard].survey.nccl_kernels[launch.kernel];
  Calls& calls = unit.instances.front();
  for (const NcclCallPlace& call : calls) {
    kernel_start_[call] = kernel.start_ns;
  }
  of_kernel_[{launch.shard, kernel.correlation, kernel.graph_node}].calls =
      std::move(calls);
  unit.instances.clear();
}

/// Each replay has its own calls where NCCL told of all of them.
void NcclPairing::give(const NcclGraphNode& node, Unit& unit) {
  const bool is_shared = std::ssize(unit.instances) != node.replays;
  for (const auto& [place, replay] : node.kernels) {
    const NcclKernel& kernel = shards_[node.shard].survey.nccl_kernels[place];
    const Calls& calls =
        unit.instances[is_shared ? 0 : static_cast<size_t>(replay)];
    of_kernel_[{node.shard, kernel.correlation, kernel.graph_node}] = {
        calls, replay, is_shared};
    if (is_shared) continue;
    for (const NcclCallPlace& call : calls) {
      kernel_start_[call] = kernel.start_ns;
    }
  }
  for (const Calls& calls : unit.instances) {
    shared_.insert(calls.begin(), calls.end());
  }
  unit.instances.clear();
}

/// Of replays whose capture nobody told: the captured calls of a communicator
/// are as its nodes, in order, where these are of one communicator alone.
void NcclPairing::pair_by_order(std::vector<Unit>& units) {
  std::map<CollectiveKind, std::vector<size_t>> nodes, replayed;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (is_node_known_[i] == 0) nodes[nodes_[i].kind].push_back(i);
  }
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    if (unit.instances.empty() || !unit.is_replay) continue;
    if (unit.at.thread < 0 && unit.kinds.size() == 1)
      replayed[*unit.kinds.begin()].push_back(i);
  }
  const auto first_of = [&](size_t i) -> const NcclCall& {
    return call_at(units[i].instances.front().front());
  };
  for (auto& [kind, places] : replayed) {
    const std::vector<size_t>& same = nodes[kind];
    std::set<std::string> communicators;
    std::set<int64_t> threads;
    for (const size_t i : places) {
      const size_t shard = units[i].instances.front().front().shard;
      communicators.insert(
          shards_[shard].survey.info_of(first_of(i)).communicator);
    }
    for (const size_t i : same) {
      threads.insert(nodes_[i].created.thread);
    }
    if (kind == CollectiveKind::kUnknown || same.size() != places.size() ||
        communicators.size() != 1 || threads.size() != 1) {
      continue;
    }
    std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
      return first_of(a).sequence < first_of(b).sequence;
    });
    for (size_t k = 0; k < same.size(); ++k) {
      is_node_known_[same[k]] = 1;
      give(nodes_[same[k]], units[places[k]]);
    }
  }
}

void NcclPairing::learn_timer(const RecordedProcess& process) {
  for (const size_t shard : process.shards) {
    const std::vector<NcclCall>& calls = shards_[shard].survey.nccl_calls;
    for (size_t i = 0; i < calls.size(); ++i) {
      const NcclCall& call = calls[i];
      const auto kernel = kernel_start_.find({shard, i});
      const bool has_own = kernel != kernel_start_.end();
      if (!call.timer.is_set() || (!has_own && shared_.contains({shard, i}))) {
        continue;
      }
      if (has_own) timer_.add_pair(call.timer.start_ns, kernel->second);
      if (call.timer_ahead_ns) {
        timer_.add_upper_bound(saturating_subtract(0, *call.timer_ahead_ns));
      }
      timer_.add_lower_bound(
          saturating_subtract(call.start_ns, call.timer.start_ns));
    }
  }
  timer_.finish();
}

const NcclKernelRun* NcclPairing::run_of(size_t shard, int64_t correlation,
                                         int64_t graph_node) const {
  const auto found = of_kernel_.find({shard, correlation, graph_node});
  return found == of_kernel_.end() ? nullptr : &found->second;
}

}  // namespace reprise
