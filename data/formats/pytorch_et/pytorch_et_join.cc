// Neither record names the other's ids, so the join goes by order. Nodes and
// ops of a thread are two sequences of names that are alike but for gaps on
// either side, and hashes of runs of six names find where they meet (as diff
// tools find matching blocks); a node then gives its op what it was given.
// Which thread is which is tried out, the longest first, by how much agrees.
// Numbers that both records have (record function ids) decide before names do.
// Cost: linear in practice; what may repeat is bounded (kMostStarts, kGap).
#include "data/formats/pytorch_et/pytorch_et_join.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

constexpr std::string_view kStreamPrefix = "execution trace thread ";

/// Places in Trace::events, in order of execution.
using Places = std::vector<size_t>;
using Pairs = std::vector<std::pair<size_t, size_t>>;

/// Aligns a thread's nodes with a thread's ops, both as sequences of names:
/// where both go on alike, they are the same; a small gap on either side is
/// stepped over; after a large one, or at the start, the longest of the next
/// runs that are alike is looked for.
class Alignment {
 public:
  Alignment(const Trace& trace, const Places& nodes, const Places& ops)
      : trace_(trace), nodes_(nodes), ops_(ops) {
    for (size_t op = 0; op + kRun <= ops.size(); ++op) {
      starts_[hash(ops_, op)].push_back(op);
    }
  }

  /// (node, op), by places in Trace::events.
  Pairs run() {
    Pairs pairs;
    size_t node = 0, op = 0;
    bool aligned = false;
    while (node < nodes_.size() && op < ops_.size()) {
      if (aligned && equal(node, op)) {
        pairs.emplace_back(nodes_[node++], ops_[op++]);
      } else if (aligned && step_over_gap(node, op)) {
        continue;
      } else if (find_run(node, op)) {
        aligned = true;
      } else {
        ++node;
        aligned = false;
      }
    }
    return pairs;
  }

 private:
  static constexpr size_t kRun = 6;
  static constexpr size_t kGap = 48;
  static constexpr size_t kMostStarts = 64;

  StringId name(const Places& places, size_t at) const {
    return trace_.events[places[at]].name;
  }
  bool equal(size_t node, size_t op) const {
    return name(nodes_, node) == name(ops_, op);
  }
  uint64_t hash(const Places& places, size_t at) const {
    uint64_t value = 0;
    for (size_t i = at; i < at + kRun; ++i) {
      value = value * 0x9e3779b97f4a7c15 + index_of(name(places, i)) + 1;
    }
    return value;
  }

  size_t common_run(size_t node, size_t op, size_t most) const {
    size_t length = 0;
    while (length < most && node + length < nodes_.size() &&
           op + length < ops_.size() && equal(node + length, op + length)) {
      ++length;
    }
    return length;
  }

  /// Moves to where at least three names, or all that are left, are alike.
  bool step_over_gap(size_t& node, size_t& op) const {
    for (size_t gap = 1; gap <= kGap; ++gap) {
      for (size_t skipped = 0; skipped <= gap; ++skipped) {
        const size_t at_node = node + skipped, at_op = op + gap - skipped;
        if (at_node >= nodes_.size() || at_op >= ops_.size()) continue;
        const size_t enough =
            std::min<size_t>({3, nodes_.size() - at_node, ops_.size() - at_op});
        if (common_run(at_node, at_op, enough) < enough) continue;
        node = at_node;
        op = at_op;
        return true;
      }
    }
    return false;
  }

  /// The op at or behind `op` from where most names follow alike.
  bool find_run(size_t node, size_t& op) const {
    constexpr size_t kLongEnough = 4096;
    if (node + kRun > nodes_.size()) return find_short_run(node, op);
    const auto found = starts_.find(hash(nodes_, node));
    if (found == starts_.end()) return false;
    const std::vector<size_t>& starts = found->second;
    auto start = std::lower_bound(starts.begin(), starts.end(), op);
    size_t best = 0, best_op = 0;
    for (size_t n = 0; n < kMostStarts && start != starts.end(); ++n, ++start) {
      const size_t length = common_run(node, *start, kLongEnough);
      if (length > best) std::tie(best, best_op) = std::pair(length, *start);
    }
    if (best < kRun) return false;
    op = best_op;
    return true;
  }

  /// The end of a short thread: all of it, at the first place.
  bool find_short_run(size_t node, size_t& op) const {
    const size_t left = nodes_.size() - node;
    for (size_t at = op; at + left <= ops_.size() && at < op + kGap; ++at) {
      if (common_run(node, at, left) < left) continue;
      op = at;
      return true;
    }
    return false;
  }

  const Trace& trace_;
  const Places& nodes_;
  const Places& ops_;
  std::unordered_map<uint64_t, std::vector<size_t>> starts_;
};

/// The number of a member of an attributes object, -1 without.
int64_t number_in(const Trace& trace, const Event& event,
                  std::string_view member) {
  if (event.attributes < 0) return -1;
  const std::string& text =
      trace.strings[static_cast<size_t>(event.attributes)];
  if (text.find(member) == std::string::npos) return -1;
  JsonScanner members(text);
  while (members.next()) {
    if (members.key() == member) {
      return parse_integer(members.value()).value_or(-1);
    }
  }
  return -1;
}

/// The members of `a`, then those of `b` that `a` lacks.
std::string merged_objects(std::string_view a, std::string_view b) {
  std::set<std::string_view> keys;
  std::string text = "{";
  for (const std::string_view object : {a, b}) {
    JsonScanner members(object);
    while (members.next()) {
      if (!keys.insert(members.key()).second) continue;
      text += text.size() > 1 ? ", " : "";
      text += fmt::format("\"{}\": {}", members.key(), members.value());
    }
  }
  return text + "}";
}

/// One rank's two records.
struct RankRecords {
  std::vector<Places> nodes, ops;  // By stream.
};

class Join {
 public:
  explicit Join(Trace& trace) : trace_(trace), removed_(trace.events.size()) {}

  ExecutionTraceJoin run() {
    std::vector<RankRecords> ranks = collect();
    for (RankRecords& rank : ranks) {
      if (rank.nodes.empty() || rank.ops.empty()) continue;
      ++result_.ranks;
      for (const auto& [node, op] : pair_up(rank)) give(node, op);
      for (const Places& nodes : rank.nodes) {
        for (const size_t node : nodes) removed_[node] = true;
      }
    }
    if (result_.ranks > 0) remove_nodes();
    return result_;
  }

 private:
  bool is_node(const Event& event) const {
    return trace_.streams[event.stream].name.starts_with(kStreamPrefix);
  }

  std::vector<RankRecords> collect() const {
    std::vector<Places> streams(trace_.streams.size());
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      const bool op = event.kind == EventKind::kHostOp ||
                      event.kind == EventKind::kAnnotation;
      if (is_node(event) || op) streams[event.stream].push_back(i);
    }
    std::vector<RankRecords> ranks(trace_.ranks.size());
    for (size_t stream = 0; stream < streams.size(); ++stream) {
      Places& places = streams[stream];
      if (places.empty()) continue;
      const Event& first = trace_.events[places[0]];
      const auto rank =
          std::lower_bound(trace_.ranks.begin(), trace_.ranks.end(), first.rank,
                           [](const RankInfo& info, uint32_t number) {
                             return info.rank < number;
                           });
      if (rank == trace_.ranks.end() || rank->rank != first.rank) continue;
      RankRecords& records =
          ranks[static_cast<size_t>(rank - trace_.ranks.begin())];
      if (is_node(first)) {
        records.nodes.push_back(std::move(places));
        continue;
      }
      // Callers before what they call.
      std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) {
        const Event &x = trace_.events[a], &y = trace_.events[b];
        return std::tuple(x.start_ns, -x.end_ns, x.external_id) <
               std::tuple(y.start_ns, -y.end_ns, y.external_id);
      });
      records.ops.push_back(std::move(places));
    }
    return ranks;
  }

  Pairs pair_up(const RankRecords& rank) {
    std::vector<Places> nodes(rank.nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      std::copy_if(rank.nodes[i].begin(), rank.nodes[i].end(),
                   std::back_inserter(nodes[i]), [&](size_t place) {
                     return trace_.events[place].kind != EventKind::kOther;
                   });
      result_.nodes += static_cast<int64_t>(nodes[i].size());
    }
    Pairs pairs = pair_by_record_function(nodes, rank.ops);
    if (pairs.empty()) pairs = pair_by_order(nodes, rank.ops);
    return pairs;
  }

  Pairs pair_by_record_function(const std::vector<Places>& nodes,
                                const std::vector<Places>& ops) const {
    std::unordered_map<int64_t, size_t> by_id;
    for (const Places& places : ops) {
      for (const size_t op : places) {
        const int64_t id =
            number_in(trace_, trace_.events[op], "record_function_id");
        if (id > 0) by_id.try_emplace(id, op);
      }
    }
    Pairs pairs;
    if (by_id.empty()) return pairs;
    for (const Places& places : nodes) {
      for (const size_t node : places) {
        const auto op =
            by_id.find(number_in(trace_, trace_.events[node], "rf_id"));
        if (op != by_id.end() &&
            trace_.events[op->second].name == trace_.events[node].name) {
          pairs.emplace_back(node, op->second);
        }
      }
    }
    return pairs;
  }

  /// Each thread of the execution trace takes the thread of Kineto's that
  /// agrees best, the longest threads first.
  Pairs pair_by_order(std::vector<Places> nodes,
                      const std::vector<Places>& ops) const {
    std::stable_sort(
        nodes.begin(), nodes.end(),
        [](const Places& a, const Places& b) { return a.size() > b.size(); });
    std::vector<bool> taken(ops.size());
    Pairs pairs;
    for (const Places& thread : nodes) {
      Pairs best;
      size_t best_thread = 0;
      for (size_t i = 0; i < ops.size(); ++i) {
        if (taken[i]) continue;
        Pairs found = Alignment(trace_, thread, ops[i]).run();
        if (found.size() <= best.size()) continue;
        best = std::move(found);
        best_thread = i;
      }
      if (best.empty()) continue;
      taken[best_thread] = true;
      pairs.insert(pairs.end(), best.begin(), best.end());
    }
    return pairs;
  }

  void give(size_t from, size_t to) {
    const Event& node = trace_.events[from];
    Event& op = trace_.events[to];
    if (node.detail >= 0) {
      op.detail = op.detail < 0 ? node.detail : merged_detail(node, op);
      if (op.bytes == 0) op.bytes = node.bytes;
      if (op.sequence < 0) op.sequence = node.sequence;
    }
    if (op.attributes < 0) {
      op.attributes = node.attributes;
    } else if (node.attributes >= 0) {
      op.attributes = merged_attributes(node.attributes, op.attributes);
    }
    ++result_.joined;
  }

  /// Kineto's description where it says something, else the node's.
  int32_t merged_detail(const Event& node, const Event& op) {
    if (op.kind == EventKind::kSynchronization) return op.detail;
    const auto& node_info =
        trace_.collectives[static_cast<size_t>(node.detail)];
    CollectiveInfo info = trace_.collectives[static_cast<size_t>(op.detail)];
    if (info.kind == CollectiveKind::kUnknown) info.kind = node_info.kind;
    if (info.communicator.empty()) info.communicator = node_info.communicator;
    if (!info.type) info.type = node_info.type;
    if (info.group.empty()) info.group = node_info.group;
    if (info.group_size < 0) info.group_size = node_info.group_size;
    if (info.input_elements < 0) info.input_elements = node_info.input_elements;
    if (info.output_elements < 0) {
      info.output_elements = node_info.output_elements;
    }
    if (info.peer < 0) info.peer = node_info.peer;
    const auto found =
        std::find(trace_.collectives.begin(), trace_.collectives.end(), info);
    const auto place = found - trace_.collectives.begin();
    if (found == trace_.collectives.end()) {
      trace_.collectives.push_back(std::move(info));
    }
    return static_cast<int32_t>(place);
  }

  int32_t merged_attributes(int32_t of_node, int32_t of_op) {
    std::string text =
        merged_objects(trace_.strings[static_cast<size_t>(of_op)],
                       trace_.strings[static_cast<size_t>(of_node)]);
    const auto [place, added] = added_strings_.try_emplace(
        std::move(text), static_cast<int32_t>(trace_.strings.size()));
    if (added) trace_.strings.push_back(place->first);
    return place->second;
  }

  void remove_nodes() {
    std::vector<std::pair<uint32_t, int64_t>> gone;
    size_t kept = 0;
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (removed_[i]) {
        gone.emplace_back(event.rank, event.external_id);
      } else {
        trace_.events[kept++] = event;
      }
    }
    trace_.events.resize(kept);
    std::sort(gone.begin(), gone.end());
    const auto is_gone = [&](uint32_t rank, int64_t id) {
      return std::binary_search(gone.begin(), gone.end(), std::pair(rank, id));
    };
    std::erase_if(trace_.dependencies, [&](const EventDependency& one) {
      return is_gone(one.rank, one.before) && is_gone(one.rank, one.after);
    });
    remove_empty_streams();
  }

  void remove_empty_streams() {
    std::vector<bool> used(trace_.streams.size());
    for (const Event& event : trace_.events) used[event.stream] = true;
    std::vector<uint32_t> places(trace_.streams.size());
    std::vector<StreamInfo> streams;
    for (size_t i = 0; i < trace_.streams.size(); ++i) {
      places[i] = static_cast<uint32_t>(streams.size());
      const bool node_stream =
          trace_.streams[i].name.starts_with(kStreamPrefix);
      if (used[i] || !node_stream) streams.push_back(trace_.streams[i]);
    }
    trace_.streams = std::move(streams);
    for (Event& event : trace_.events) event.stream = places[event.stream];
  }

  Trace& trace_;
  std::vector<bool> removed_;
  std::unordered_map<std::string, int32_t> added_strings_;
  ExecutionTraceJoin result_;
};

}  // namespace

std::string execution_trace_stream(int64_t thread) {
  return fmt::format("{}{}", kStreamPrefix, thread);
}

ExecutionTraceJoin join_execution_traces(Trace& trace) {
  return Join(trace).run();
}

}  // namespace reprise
