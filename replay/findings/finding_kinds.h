// The kinds of findings. Each `find` adds what it saw, priced by nobody yet; it
// may propose several edits of one kind, of which the best counts.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "data/trace/framework.h"
#include "replay/analysis/analysis.h"
#include "replay/findings/finding.h"
#include "replay/graph/evaluate.h"
#include "replay/graph/timed_graph.h"
#include "replay/simulate/graph_edits.h"
#include "replay/simulate/node_facts.h"

namespace reprise {

constexpr std::string_view kPlanBuckets =
    "reprise optimize TRACE --only buckets -o plan.json";

/// What is looked at. Borrows all of it.
struct FindingInput {
  const TraceByRank& trace;
  const Analysis& analysis;
  const NodeFacts& facts;
  const TimedGraph& graph;
  const GraphTimes& times;       ///< As recorded: of the unedited graph.
  int64_t least_ns = 0;          ///< Gains below this are not shown.
  std::vector<PathKind> kinds;   ///< [node]
  std::vector<uint32_t> thread;  ///< [node] First of its host thread's.
  /// [node] Host node that launched it, or itself.
  std::vector<uint32_t> launch;
  std::vector<uint32_t> stream_before;  ///< [node] On its stream, or itself.
  /// [node] Computes: a kernel, of a rank without device work an operator.
  std::vector<bool> computes;
  /// What ends within this of another's start made it wait: as in the graph.
  static constexpr int64_t kAtOnce = 10'000;

  std::string_view name(uint32_t node) const {
    return facts.name(graph.origin[node]);
  }
  Framework framework = Framework::kUnknown;
  /// What to do, as the user's framework has it; in `other`, no framework's
  /// names.
  struct Words {
    std::string_view torch, jax, other = {};
  };
  std::string_view words(const Words& of) const {
    return framework == Framework::kPyTorch ? of.torch
           : framework == Framework::kJax   ? of.jax
                                            : of.other;
  }
  /// Whether `reprise optimize` plans the buckets of such a collective: of
  /// PyTorch's DDP, and of Horovod where dPRO recorded it.
  bool plans_buckets(const MatchedCollective& one) const {
    return one.kind == CollectiveKind::kAllReduce &&
           (framework == Framework::kPyTorch || one.communicator == "horovod");
  }
  /// Whether a message goes to a parameter server or comes from one: it carries
  /// gradients, and its ends are no stages of a pipeline.
  static bool meets_server(const MatchedCollective& one) {
    return is_message(one.kind) && one.communicator == "byteps";
  }
  uint32_t rank_number(uint32_t node) const {
    return facts.rank_number(graph.ranks[graph.rank[node]].rank);
  }
};
FindingInput finding_input(const TraceByRank& trace, const Analysis& analysis,
                           const NodeFacts& facts, const TimedGraph& graph,
                           const GraphTimes& times);

using Candidates = std::vector<Candidate>;

void find_pipeline_stages(const FindingInput& input, Candidates& found);
void find_pipeline_bubble(const FindingInput& input, Candidates& found);
void find_experts(const FindingInput& input, Candidates& found);
void find_slow_link(const FindingInput& input, Candidates& found);
void find_late_rank(const FindingInput& input, Candidates& found);
void find_data_loading(const FindingInput& input, Candidates& found);
void find_serial_copies(const FindingInput& input, Candidates& found);
void find_blocking_calls(const FindingInput& input, Candidates& found);
void find_set_up(const FindingInput& input, Candidates& found);
void find_launch_bound(const FindingInput& input, Candidates& found);
void find_small_kernels(const FindingInput& input, Candidates& found);
void find_small_buckets(const FindingInput& input, Candidates& found);
void find_missing_overlap(const FindingInput& input, Candidates& found);
void find_communication_bound(const FindingInput& input, Candidates& found);
void find_collective_choice(const FindingInput& input, Candidates& found);

/// Whether ranks send before they receive, as in no pipeline: its stages beyond
/// the first have nothing to send then; or send to servers. False where no
/// message tells who sends.
bool is_exchange(const FindingInput& input);

/// Host calls that set a device up: 100 ms or more while it does nothing.
NodeSet set_up_calls(const FindingInput& input);

struct FindingKind {
  std::string_view name;
  void (*find)(const FindingInput& input, Candidates& found);
};
/// In the order in which they go before others of the same gain: the more
/// special first.
std::span<const FindingKind> finding_kinds();

/// "1.23 ms", "45.6 us" and "12 %", as findings' sentences have them.
std::string finding_time(int64_t time_ns);
std::string finding_share(double share);

}  // namespace reprise
