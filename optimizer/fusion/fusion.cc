// Greedy merging on a priority queue of pairs, best gain first; a merge pushes
// the pairs of what it made. Each candidate is lowered to learn its flops and
// bytes, at most once for each pattern (structure of both, shared arguments,
// outputs), since a network repeats its blocks. Merges are kept as a binary
// tree, so that measured prices choose later, bottom up, whether a whole or its
// parts are cheaper.
//
// The graph of op groups: fusion_graph.h. XLA's GPU priority fusion works the
// same way (xla/service/gpu/transforms/priority_fusion.cc).
#include "optimizer/fusion/fusion.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_map>

#include "data/kernel/kernel_flops.h"
#include "optimizer/fusion/fusion_graph.h"

namespace reprise {
namespace {

/// What feeds a collective may be delayed by merging with later work by this
/// share of all compute.
constexpr double kLongestDelay = 0.02;
/// Groups of more ops than this in all are merged only where their kernel reads
/// and writes few arrays, or no more than one of theirs: the compiler no longer
/// vectorizes one of many well, and beyond 32 streams processors no longer
/// fetch ahead (of 42 arrays 4.5 to 6.5 GB/s, of 32 7 to 12).
constexpr size_t kManyOps = 120, kFewArguments = 32;
/// Nor does a host compiler like a kernel of more statements than this: its
/// time grows faster than they do.
constexpr size_t kMostStatementsOfGroup = 512;
/// A merge is undone when its parts cost less than this share of it: prices of
/// parts and whole come from different runs, and the smaller of two noisy sums
/// is biased.
constexpr double kLeastGainOfSplit = 0.9;
/// A roofline is no reason to think that a merge saves less than this leaves.
constexpr double kMostOfParts = 0.9;

/// A dot wins an op over a kernel only where it saves more by this factor: on a
/// CPU its epilogue is a pass over the result, in a kernel the op is free.
constexpr double kGainOfEpilogue = 0.95;

struct Figures {
  std::string key;
  double flops = 0, bytes = 0;
  UnitKind kind = UnitKind::kKernel;
  size_t arguments = 0;  ///< Of a kernel.
};

Unit unit_of(const Figures& figures) {
  Unit unit;
  unit.kind = figures.kind;
  unit.key = figures.key;
  unit.flops = figures.flops;
  unit.bytes = figures.bytes;
  return unit;
}

}  // namespace

class FusionTree::Builder {
 public:
  Builder(ScheduleCache& cache, const CostModel& costs,
          const FusionOptions& options)
      : cache_(cache), costs_(costs), options_(options), graph_(cache.graph) {}

  Result<FusionTree> build() {
    if (Status ok = price_ops(); !ok) return pass(ok.error());
    for (uint32_t node = 0; node < graph_.nodes().size(); ++node)
      push_candidates(node);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      take(best);
    }
    for (uint32_t node = 0; node < graph_.nodes().size(); ++node) {
      const FusionNode& last = graph_.nodes()[node];
      tree_.nodes_[node].is_root =
          last.alive && (last.is_kernel || last.is_dot);
    }
    return std::move(tree_);
  }

 private:
  struct Candidate {
    double gain_ns = 0;
    uint32_t a = 0, b = 0;
    bool operator<(
        const Candidate& other) const {  // Best first; ties by the earlier ops.
      if (gain_ns != other.gain_ns) return gain_ns < other.gain_ns;
      return std::pair(a, b) > std::pair(other.a, other.b);
    }
  };

  std::optional<Figures> lower(const std::vector<InstructionId>& ops) {
    PlannedUnit unit;
    unit.name = "candidate";
    unit.ops = ops;
    unit.outputs = graph_.outputs_of(ops);
    const auto kernel = find_kernel(unit, &cache_);
    if (!kernel) return std::nullopt;
    if (ops.size() > 1 &&
        statement_count((*kernel)->kernel) > kMostStatementsOfGroup)
      return std::nullopt;
    return Figures{(*kernel)->key, (*kernel)->flops, (*kernel)->bytes,
                   UnitKind::kKernel, (*kernel)->kernel.arguments.size()};
  }

  /// A dot with its epilogue, if that is what the ops are.
  std::optional<Figures> lower_dot(const std::vector<InstructionId>& ops) {
    const auto epilogue = match_dot_epilogue(graph_.ops(), ops);
    if (!epilogue) return std::nullopt;
    DotFigures dot = dot_figures(ops, *epilogue, &cache_);
    return Figures{std::move(dot.key), dot.flops, dot.bytes,
                   UnitKind::kLibrary};
  }

  /// A dot that may be merged.
  bool is_dot(uint32_t id) const {
    return options_.dot_epilogues && graph_.nodes()[id].is_dot;
  }

  static void fill(const Figures& figures, Node* entry) {
    entry->key = figures.key;
    entry->flops = figures.flops;
    entry->bytes = figures.bytes;
    entry->kind = figures.kind;
  }

  /// Single ops: their prices, and when each runs if all run in text order.
  Status price_ops() {
    double now = 0;
    for (const FusionNode& node : graph_.nodes()) {
      Node entry;
      entry.ops = node.ops;
      size_t arguments = 0;
      const bool dot = node.is_dot && options_.dot_epilogues;
      if (node.is_kernel || dot) {
        const auto figures = dot ? lower_dot(node.ops) : lower(node.ops);
        if (!figures) {
          return fail(ErrorKind::kUnsupported, "{}: no kernel can express it",
                      graph_.ops().at(node.ops.front()).name);
        }
        fill(*figures, &entry);
        arguments = figures->arguments;
        entry.estimate_ns = costs_.price(unit_of(*figures)).alone_ns;
      }
      arguments_.push_back(arguments);
      starts_.push_back(now);
      now += (dot ? 0 : entry.estimate_ns) + costs_.dispatch_ns;
      tree_.nodes_.push_back(std::move(entry));
    }
    total_ns_ = now;
    return {};
  }

  /// The fused price from the parts' own: less one launch and the traffic
  /// saved, not below the roofline; of a dot, not below its larger part.
  /// Measured prices of fused kernels are left to `choose`, so that merges do
  /// not depend on what happened to be measured.
  double fused_price(const Figures& fused, const Node& a, const Node& b) const {
    double estimate = a.estimate_ns + b.estimate_ns - costs_.unit_overhead_ns;
    if (costs_.bytes_per_s > 0) {
      estimate -= (a.bytes + b.bytes - fused.bytes) / costs_.bytes_per_s *
                  kNanosecondsPerSecond;
    }
    if (costs_.flops_per_s > 0) {
      const double recomputed = std::max(0.0, fused.flops - a.flops - b.flops);
      estimate += recomputed / costs_.flops_per_s * kNanosecondsPerSecond;
    }
    if (fused.kind == UnitKind::kLibrary)
      return std::max({estimate, a.estimate_ns, b.estimate_ns});
    const Roofline roofline{.flops_per_s = costs_.flops_per_s,
                            .bytes_per_s = costs_.bytes_per_s,
                            .overhead_ns = costs_.unit_overhead_ns};
    const double floor =
        std::min(roofline.price_ns(fused.flops, fused.bytes),
                 kMostOfParts * (a.estimate_ns + b.estimate_ns));
    return std::max(estimate, floor);
  }

  /// Structure of a pair: both kernels, which arguments they share, and what is
  /// written after.
  std::string pattern(uint32_t a, uint32_t b,
                      const std::vector<InstructionId>& outputs) {
    const Node& first = tree_.nodes_[a];
    const Node& second = tree_.nodes_[b];
    std::string text = first.key + "|" + second.key;
    std::vector<InstructionId> names[2];
    for (const auto& [node, list] :
         {std::pair(&first, &names[0]), {&second, &names[1]}}) {
      PlannedUnit unit;
      unit.ops = node->ops;
      unit.outputs = graph_.outputs_of(node->ops);
      const auto kernel = find_kernel(unit, &cache_);
      if (!kernel) return {};
      for (const KernelArgument& argument : (*kernel)->kernel.arguments) {
        list->push_back(argument.instruction);
      }
    }
    for (const InstructionId name : names[1]) {
      const auto shared = std::find(names[0].begin(), names[0].end(), name);
      text += fmt::format(",{}", shared - names[0].begin());
    }
    for (const auto& list : names) {
      text += '|';
      for (const InstructionId name : list) {
        text += std::binary_search(outputs.begin(), outputs.end(), name) ? '1'
                                                                         : '0';
      }
    }
    return text;
  }

  std::vector<InstructionId> ops_of(uint32_t a, uint32_t b) const {
    std::vector<InstructionId> ops;
    const auto& left = graph_.nodes()[a].ops;
    const auto& right = graph_.nodes()[b].ops;
    std::merge(left.begin(), left.end(), right.begin(), right.end(),
               std::back_inserter(ops));
    return ops;
  }

  /// What a merge would be, as its pattern was when it was first seen: arrays
  /// of one size and other shapes may make one pattern, of which one fuses.
  std::optional<Figures> likely_fused(uint32_t a, uint32_t b) {
    const std::vector<InstructionId> ops = ops_of(a, b);
    if (is_dot(a) || is_dot(b)) return lower_dot(ops);
    const std::string key = pattern(a, b, graph_.outputs_of(ops));
    const auto known = patterns_.find(key);
    if (known == patterns_.end()) return patterns_[key] = lower_both(a, b, ops);
    return known->second;
  }

  /// Two kernels as one.
  std::optional<Figures> lower_both(uint32_t a, uint32_t b,
                                    const std::vector<InstructionId>& ops) {
    std::optional<Figures> both = lower(ops);
    const size_t most = std::max({kFewArguments, arguments_[a], arguments_[b]});
    if (both && ops.size() > kManyOps && both->arguments > most)
      return std::nullopt;
    return both;
  }

  /// What a merge is.
  std::optional<Figures> fused(uint32_t a, uint32_t b) {
    const std::vector<InstructionId> ops = ops_of(a, b);
    if (is_dot(a) || is_dot(b)) return lower_dot(ops);
    return lower_both(a, b, ops);
  }

  /// Merging must not make anyone wait for a collective that he did not wait
  /// for.
  bool delays_nothing(uint32_t a, uint32_t b) const {
    const FusionNode& first = graph_.nodes()[a];
    const FusionNode& second = graph_.nodes()[b];
    if (first.feeds_collective || second.feeds_collective) {
      if (std::abs(starts_[a] - starts_[b]) > kLongestDelay * total_ns_)
        return false;
    }
    if (first.waits_for == second.waits_for) return true;
    return only_feeds(a, b) || only_feeds(b, a);
  }

  /// True if `producer` waits for no collective and nothing but `consumer`
  /// needs it.
  bool only_feeds(uint32_t producer, uint32_t consumer) const {
    const FusionNode& node = graph_.nodes()[producer];
    const bool waits = std::any_of(node.waits_for.begin(), node.waits_for.end(),
                                   [](uint64_t bits) { return bits != 0; });
    return !waits && !node.read_outside &&
           node.after == std::vector<uint32_t>{consumer};
  }

  bool is_producer_rule(uint32_t producer, uint32_t consumer) const {
    const FusionNode& node = graph_.nodes()[producer];
    return !node.read_outside && node.after == std::vector<uint32_t>{consumer};
  }

  void push(uint32_t a, uint32_t b) {
    if (!delays_nothing(a, b)) return;
    if (options_.producers_only && !is_producer_rule(a, b) &&
        !is_producer_rule(b, a))
      return;
    const auto figures = likely_fused(a, b);
    if (!figures) return;
    double gain = tree_.nodes_[a].estimate_ns + tree_.nodes_[b].estimate_ns +
                  costs_.dispatch_ns -
                  fused_price(*figures, tree_.nodes_[a], tree_.nodes_[b]);
    if (figures->kind == UnitKind::kLibrary) gain *= kGainOfEpilogue;
    if (gain > 0 || options_.producers_only) queue_.push({gain, a, b});
  }

  void push_candidates(uint32_t id) {
    const FusionNode& node = graph_.nodes()[id];
    if (!node.is_kernel && !is_dot(id)) return;
    const bool is_new = node.ops.size() > 1;
    for (const uint32_t next : node.after) {
      if (graph_.nodes()[next].is_kernel) push(id, next);
    }
    if (is_new) {
      for (const uint32_t before : node.before) {
        if (graph_.nodes()[before].is_kernel || is_dot(before))
          push(before, id);
      }
    }
    if (is_dot(id)) return;
    if (!options_.siblings || options_.producers_only) return;
    for (const uint32_t other : graph_.siblings(id)) {
      if (!is_new && other < id) continue;  // Pushed by the other one.
      const bool adjacent =
          std::binary_search(node.after.begin(), node.after.end(), other) ||
          std::binary_search(node.before.begin(), node.before.end(), other);
      if (!adjacent) push(std::min(id, other), std::max(id, other));
    }
  }

  void take(const Candidate& candidate) {
    const auto& [gain, a, b] = candidate;
    if (!graph_.nodes()[a].alive || !graph_.nodes()[b].alive) return;
    if (!graph_.is_convex(a, b)) return;
    const auto figures = fused(a, b);
    if (!figures) return;
    const double price =
        fused_price(*figures, tree_.nodes_[a], tree_.nodes_[b]);
    const uint32_t merged = graph_.merge(a, b);
    Node entry;
    entry.ops = graph_.nodes()[merged].ops;
    entry.left = a;
    entry.right = b;
    fill(*figures, &entry);
    entry.estimate_ns = price;
    tree_.nodes_.push_back(std::move(entry));
    arguments_.push_back(figures->arguments);
    starts_.push_back(std::max(starts_[a], starts_[b]));
    push_candidates(merged);
  }

  ScheduleCache& cache_;
  const CostModel& costs_;
  const FusionOptions& options_;
  FusionGraph graph_;
  FusionTree tree_;
  std::priority_queue<Candidate> queue_;
  std::unordered_map<std::string, std::optional<Figures>> patterns_;
  std::vector<size_t> arguments_;  ///< [node] Of its kernel.
  std::vector<double> starts_;     ///< [node] in text order, ns.
  double total_ns_ = 0;
};

Result<FusionTree> FusionTree::build(ScheduleCache& cache,
                                     const CostModel& costs,
                                     const FusionOptions& options) {
  return Builder(cache, costs, options).build();
}

std::vector<double> FusionTree::prices(const CostModel& costs,
                                       UnknownPrices unknown) const {
  std::vector<double> price(nodes_.size(), 0);
  std::vector<double> above(nodes_.size(), 1);  // Measured over estimated.
  for (size_t i = nodes_.size(); i-- > 0;) {    // Wholes before their parts.
    const Node& node = nodes_[i];
    const UnitPrice known =
        costs.price(unit_of({node.key, node.flops, node.bytes, node.kind}));
    price[i] = node.estimate_ns * above[i];
    if (!node.key.empty() && known.source != PriceSource::kModelled) {
      price[i] = known.alone_ns;
      if (node.estimate_ns > 0) {
        above[i] = std::max(1.0, known.alone_ns / node.estimate_ns);
      }
    }
    if (node.left < 0 || unknown == UnknownPrices::kEstimate) continue;
    above[static_cast<size_t>(node.left)] = above[i];
    above[static_cast<size_t>(node.right)] = above[i];
  }
  return price;
}

std::vector<ChosenGroup> FusionTree::choose(const CostModel& costs,
                                            UnknownPrices unknown) const {
  std::vector<double> best = prices(costs, unknown);
  std::vector<bool> split(nodes_.size(), false);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    best[i] += costs.dispatch_ns;
    if (nodes_[i].left < 0) continue;
    const double parts = best[static_cast<size_t>(nodes_[i].left)] +
                         best[static_cast<size_t>(nodes_[i].right)];
    split[i] = parts < kLeastGainOfSplit * best[i];
    if (split[i]) best[i] = parts;
  }
  return groups(split);
}

std::vector<ChosenGroup> FusionTree::merged() const {
  return groups(std::vector<bool>(nodes_.size(), false));
}

std::vector<ChosenGroup> FusionTree::groups(
    const std::vector<bool>& split) const {
  std::vector<const Node*> chosen;
  std::vector<size_t> stack;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].is_root) stack.push_back(i);
  }
  while (!stack.empty()) {
    const Node& node = nodes_[stack.back()];
    const bool taken_apart = split[stack.back()];
    stack.pop_back();
    if (taken_apart) {
      stack.push_back(static_cast<size_t>(node.left));
      stack.push_back(static_cast<size_t>(node.right));
    } else if (node.left >= 0) {
      chosen.push_back(&node);
    }
  }
  std::sort(chosen.begin(), chosen.end(),
            [](const Node* a, const Node* b) { return a->ops < b->ops; });
  std::vector<ChosenGroup> result;
  result.reserve(chosen.size());
  for (const Node* node : chosen) result.push_back({.ops = node->ops});
  return result;
}

}  // namespace reprise
