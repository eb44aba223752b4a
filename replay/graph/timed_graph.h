// The one graph that is replayed: what ran (or is to run), on which rank, for
// how long, and what it waited for. Built from the trace of somebody else's run
// (trace_graph.h) or from a schedule x its ranks (schedule_graph.h), replayed
// by `decide` and `evaluate` (replay/simulate).
//
// A node starts when its edges allow it and its gap has passed. Members of a
// collective that are here meet: they stand side by side, and a transfer begins
// when the last has come. What may be added to either kind of graph: slow-down
// while computing and communicating at once, links that transfers share, and
// resources that run a bounded number of nodes at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/collective/collective.h"
#include "replay/graph/narrow_column.h"

namespace reprise {

/// Why a node cannot start earlier; the less trusted come later, and are the
/// first to go where a cycle must be opened.
enum class EdgeKind : uint8_t {
  kThread,           ///< Order of a host thread.
  kLaunch,           ///< A host call and the device work that it started.
  kDependency,       ///< Recorded, or of the program.
  kEvent,            ///< Recorded wait of a stream for an event.
  kSynchronization,  ///< Device work that a host call waited for.
  kStream,           ///< Order of a stream.
  kHandoff,          ///< A host thread that waited for another.
  kInferred,         ///< A stream's wait that calls and times suggest.
};
constexpr size_t kEdgeKinds = 8;
std::string_view name_of(EdgeKind kind);

/// NCCL's own model of latency in one host: what a call takes, and what each of
/// its hops. Source: github.com/NVIDIA/nccl at
/// 5067397c2676d5aed50042fc39e5c8ee96eb0027 (2.30.7), src/graph/tuning.cc,
/// ncclTunerConstantsDefaults, protocol LL over NVLink.
constexpr int64_t kCallLatency_ns = 6600, kHopLatency_ns = 600;

/// Who meets in a collective, for what depends on their number.
struct MeetingGroup {
  CollectiveKind kind = CollectiveKind::kUnknown;
  uint32_t ranks = 0;      ///< 0: unknown.
  bool on_device = false;  ///< NCCL and its like; else between hosts' memory.
  uint32_t apart = 0;      ///< Its first two ranks' numbers; 0: unknown.
  bool by_ring = false;    ///< All-reduces are, whatever their ranks.
};

/// Slow-down is counted in these: kAlone is none.
constexpr int kAloneBits = 10;
constexpr uint32_t kAlone = 1 << kAloneBits;

/// What holds in a step of our trainer beside its nodes and edges: how streams
/// wake, how far ranks drift apart, what a link has in store.
struct StepRules {
  /// What a compute unit's gap is made of: handing it over, and its share of
  /// what the fit did not explain (set_dispatch).
  double dispatch_ns = 0, unexplained_ns = 0;
  double compute_wake_ns = 0;  ///< More, if a transfer let it begin.
  int64_t gap = 0, wake = 0;   ///< Both in ticks.
  /// Before a transfer that compute, or another transfer, let begin.
  double arrival_wake_ns = 0, arrival_gap_ns = 0;
  /// CostModel::jitter_sqrt_ns; 0 for a single rank.
  double jitter_sqrt_ns = 0;
  double overhead_ns = 0;  ///< Ending the step.
  int64_t burst_ns = 0;    ///< Most credit of a rank's link; 0: none.
  struct Transfer {
    double duration_ns = 0;  ///< Sustained.
    double wire_ns = 0;      ///< Credit that it uses.
    double floor_ns = 0;     ///< It takes no less.
    double latency_ns = 0;   ///< Of its duration, what no bandwidth shrinks.
    MeetingGroup group = {};
  };
  std::vector<Transfer> transfers;  ///< [TimedGraph::collective]
};

/// CSR by target: the edges into node n are edges[first[n] .. first[n+1]).
/// Nodes stand in a topological order: every edge comes from a lower number.
struct TimedGraph {
  struct Edge {
    int64_t delay_ns = 0;  ///< From the end (or start) of `from`; may be < 0.
    uint32_t from = 0;     ///< Node.
    EdgeKind kind = EdgeKind::kThread;
    bool from_start = false;  ///< Counts from the start of `from`.
  };
  /// [node] Number of its event (Trace::events), or unit of the schedule.
  std::vector<uint32_t> origin;
  NarrowColumn<uint32_t, uint16_t> rank;  ///< [node] place in `ranks`.
  TickColumn duration;  ///< [node] ticks, alone, waits taken out.
  TickColumn gap;       ///< [node] ticks before its start.
  std::vector<uint32_t> first;
  /// Column by column: nine bytes an edge.
  class Edges {
   public:
    Edges() = default;
    /// `kind`: as code_of.
    Edges(TickColumn delay_ns, std::vector<uint32_t> from,
          std::vector<uint8_t> kind)
        : delay_ns_(std::move(delay_ns)),
          from_(std::move(from)),
          kind_(std::move(kind)) {}
    static uint8_t code_of(EdgeKind kind, bool from_start) {
      return static_cast<uint8_t>(static_cast<unsigned>(kind) << 1 |
                                  (from_start ? 1U : 0U));
    }
    size_t size() const { return from_.size(); }
    Edge operator[](size_t at) const {
      return {delay_ns_[at], from_[at], static_cast<EdgeKind>(kind_[at] >> 1),
              (kind_[at] & 1) != 0};
    }
    void set(size_t at, const Edge& edge) {
      delay_ns_[at] = edge.delay_ns;
      from_[at] = edge.from;
      kind_[at] = code_of(edge.kind, edge.from_start);
    }
    void push_back(const Edge& edge) {
      delay_ns_.push_back(0);
      from_.push_back(0);
      kind_.push_back(0);
      set(size() - 1, edge);
    }
    void reserve(size_t count) {
      delay_ns_.reserve(count);
      from_.reserve(count);
      kind_.reserve(count);
    }

   private:
    TickColumn delay_ns_;
    std::vector<uint32_t> from_;
    std::vector<uint8_t> kind_;  ///< And, in the lowest bit, from_start.
  };
  Edges edges;
  /// [node] Place in the matching or the communication order, or -1.
  NarrowColumn<int32_t, int16_t> collective;
  /// [node] Members that meet here: their number at the first of them, 0 at the
  /// others; 1 for every other node.
  NarrowColumn<uint32_t, uint8_t> meeting;
  /// [node] Whether it ends no earlier than the meeting's last arrival plus its
  /// duration (a broadcast's root may leave before others come); of one that
  /// has partners, than theirs and its own.
  std::vector<uint8_t> waits;
  /// A node, and another of its meeting that it waits for; sorted. Of members
  /// that wait for some of the others alone (kernels of several messages).
  struct Partner {
    uint32_t node = 0, awaited = 0;
    auto operator<=>(const Partner&) const = default;
  };
  std::vector<Partner> partners;
  std::span<const Partner> partners_of(uint32_t node) const {
    const auto from = std::lower_bound(partners.begin(), partners.end(),
                                       Partner{.node = node});
    const auto to = std::find_if(
        from, partners.end(),
        [&](const Partner& partner) { return partner.node != node; });
    return {from, to};
  }
  /// A tick is 2^-tick_bits ns: 0 of recorded times, 10 of prices.
  int tick_bits = 0;

  // Of traces; empty in the graph of a schedule.
  /// [node] Place in `steps`, or -1, or kUnderWay.
  NarrowColumn<int32_t, int16_t> step;
  /// Of one step's window: what a device stream still had to do of the steps
  /// before, as one node. No edit concerns it, as no step's time holds it.
  static constexpr int32_t kUnderWay = -2;
  bool under_way(size_t node) const {
    return node < step.size() && step[node] == kUnderWay;
  }
  TickColumn named;             ///< [node] of its gap, in a named range.
  std::vector<uint32_t> range;  ///< [node] that range's event.

  /// [node] Queue that runs it: its slot among equal times. Empty: none.
  std::vector<uint32_t> resource;
  /// [resource] Nodes at a time, the lowest that is ready first; 0 or beyond
  /// the end: any number, as edges order them.
  std::vector<uint32_t> capacity;
  /// [node] Takes this times as long (in 1/kAlone) while its rank does the
  /// other one of computing and communicating; 0: takes no part. Empty: none.
  std::vector<uint32_t> slowdown;
  /// Present in the graph of a schedule: gaps keep their stream busy there.
  std::optional<StepRules> rules;

  /// Of a collective's transfer, what does not shrink with bandwidth: latency,
  /// by a line through the least transfers of its kind (operation and group
  /// size) at each size, or, of a kind with one size, another operation's, or
  /// else assumed (which `notes` say); and waiting for
  /// members that the trace lacks, by which it exceeds the least one of its
  /// kind and size.
  struct Transfer {
    static constexpr uint32_t kNoLink = std::numeric_limits<uint32_t>::max();
    int64_t latency_ns = 0, absent_ns = 0;
    bool is_assumed = false;  ///< Its latency.
    /// Transfers of one number share its bandwidth evenly, once their latency
    /// has passed.
    uint32_t link = kNoLink;
    MeetingGroup group = {};
  };
  std::vector<Transfer> transfers;  ///< [collective]; empty: no links.

  /// Recorded times of a rank in the window, and of a step on it, on rank 0's
  /// clock. A step ends when its host work and all device work launched in it
  /// have ended.
  struct Span {
    uint32_t rank = 0;  ///< Place in Trace::ranks.
    int32_t step = 0;   ///< Number of the step.
    int64_t start_ns = 0, end_ns = 0;
    bool is_warmup = false;
    static constexpr int64_t kNever = std::numeric_limits<int64_t>::min();
    /// Of a rank in one step's window: when what its device still had to do of
    /// the steps before was done, so that no work of this one could begin
    /// earlier; start_ns if there was nothing. Of other windows kNever.
    int64_t busy_until_ns = kNever;
    /// Of a rank: when its own time in the window begins.
    int64_t begin_ns() const {
      return std::max(start_ns, std::min(busy_until_ns, end_ns));
    }
    bool is_recorded() const { return end_ns >= start_ns; }
  };
  std::vector<Span> ranks;  ///< [rank place]; start > end: nothing recorded.
  std::vector<Span> steps;  ///< By (rank, step); of the window.
  /// Nodes, ascending, of collectives on a thread beside the step's that ended
  /// so long after its mark: nobody in the step waited for that.
  std::vector<std::pair<uint32_t, int64_t>> beyond_ns;
  bool of_one_step() const {
    return std::any_of(ranks.begin(), ranks.end(), [](const Span& span) {
      return span.busy_until_ns != Span::kNever;
    });
  }
  /// Of one step's window: when the step before it ended (end_before_ns).
  std::optional<int64_t> before_ns;

  size_t job_ranks = 0;  ///< Of the whole job, at least; 0: unknown.
  bool timed = true;  ///< False: durations and dependencies only were recorded.
  int64_t cycles_repaired = 0;
  std::vector<std::string> notes;  ///< What was missing or contradictory.

  size_t size() const { return origin.size(); }
};

}  // namespace reprise
