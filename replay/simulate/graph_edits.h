// Edits of a timed graph that what-ifs and findings are made of: who no longer
// waits for whom, and what takes no time any more. Each takes the nodes that it
// concerns; what is not named stays as recorded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/result.h"
#include "replay/graph/timed_graph.h"
#include "replay/simulate/node_facts.h"

namespace reprise {

/// No edit makes anything longer; sums stay within 64 bits.
constexpr double kLongestEdit_ns = 1e18;
int64_t scaled(int64_t time, double factor);

/// [node] Whether an edit concerns it.
using NodeSet = std::vector<bool>;

/// The gap before a node, of the graph of a trace; a priced step's gaps are
/// what handing over takes, not what a rank does.
void scale_gap(size_t node, double factor, TimedGraph& graph);

/// Whether all communication of several ranks is within CUDA graphs that were
/// traced whole, so that their time in it cannot be told from their work.
bool graphs_hide_collectives(const NodeFacts& facts, const TimedGraph& graph);

/// Whether a node is part of a collective, be it that nothing tells of which.
bool communicates(const NodeFacts& facts, const TimedGraph& graph, size_t node);

/// Why no transfer can be made longer or shorter: nobody communicates or moves
/// any data, or nothing tells who with whom.
Status no_transfers(const NodeFacts& facts, const TimedGraph& graph);

/// [node] Whether the gap before it is its rank's own time: on host threads;
/// where none was recorded (timelines of devices alone), before device work,
/// since nothing else shows what the host does; where none of that was either
/// (NCCL's Inspector), before collectives.
NodeSet own_gaps(const NodeFacts& facts, const TimedGraph& graph);

/// What was under way when the window began is again as in `recorded`, the
/// graph that was edited.
void keep_under_way(const TimedGraph& recorded, TimedGraph& edited);

/// Transfers of a priced step last what its rules say.
void renew_transfers(TimedGraph& graph);

/// All nodes that are members of collectives.
NodeSet collective_nodes(const TimedGraph& graph);

/// Of them, messages from one rank to another.
NodeSet message_nodes(const TimedGraph& graph);

/// Host calls that wait for the device, but for copies to it.
NodeSet blocking_nodes(const NodeFacts& facts, const TimedGraph& graph);

/// Copies between host and device.
NodeSet host_copies(const NodeFacts& facts, const TimedGraph& graph);

/// What host threads do in ranges that are called after data loaders. A range
/// is known by the stretches that its thread spends in it itself: what lies
/// between two of these lies in the range.
struct DataLoading {
  NodeSet nodes;
  NodeSet gaps;  ///< Whose named gap is one of such a range.
};
DataLoading data_loading(const NodeFacts& facts, const TimedGraph& graph);

/// What waits for the end of one of `nodes` waits for its start alone, but for
/// nodes of the set itself: those of one stream or thread stay in order, also
/// where only others between them held that up. Cost: O(nodes + edges).
void free_ends(const NodeSet& nodes, TimedGraph& graph);

/// Nothing but collectives waits for the end of one. Who needs a message waits
/// until it was sent: it is what the sender just computed, as a pipeline's
/// stages need it of each other. Cost: O(nodes + edges).
void overlap_collectives(TimedGraph& graph);

/// Host calls among `nodes` do not wait for the device.
void drop_host_waits(const NodeSet& nodes, TimedGraph& graph);

/// Nothing else waits for copies between host and device, and the host for none
/// to the device at all: they were made ahead, from pinned memory.
void overlap_copies(const NodeFacts& facts, TimedGraph& graph);

/// `nodes` take no time, and nor do the gaps before them.
void remove_time(const NodeSet& nodes, TimedGraph& graph);

/// Data loaders take no time.
void remove_data_loading(const DataLoading& data, TimedGraph& graph);

/// Handing device work over takes no time, as when graphs of all of it are
/// launched: the threads that launch do nothing else than loading data and
/// waiting for the device, and what takes them a millisecond or more at once
/// (an operator on the CPU, a sleep, a checkpoint): no launch takes as long.
void capture_launches(const DataLoading& data, const NodeFacts& facts,
                      TimedGraph& graph);

/// No rank needs more host time or device time in total than the median rank,
/// and all begin with the median rank. What a rank has too much of is taken
/// from the ops and gaps that take it longer than the median rank. Errors:
/// kInvalid of one rank.
Status level_ranks(const NodeFacts& facts, TimedGraph& graph);

/// A share of each part's work, by rank: nodes of part p last
/// factor[p * ranks + rank] times as long. `part`: [node], or -1.
void scale_parts(std::span<const int32_t> part, std::span<const double> factor,
                 TimedGraph& graph);

/// Device work in runs of consecutive nodes of a stream, each run to be one
/// kernel: behind its first node nothing is launched or dispatched, and each
/// node lasts `floor_ns` less: what a kernel lasts that does nothing.
/// `freed`: host nodes that launched it.
void fuse_kernels(const std::vector<std::vector<uint32_t>>& runs,
                  int64_t floor_ns, const NodeSet& freed, TimedGraph& graph);

}  // namespace reprise
