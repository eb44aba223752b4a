// Who waits for the device: host calls that synchronize or copy, and streams
// that wait for each other; as recorded, else inferred from calls and times.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

// Recorded waits that must have come last of all that their work needed, before
// they say what a wait takes; and how many of ten of them it may take longer.
constexpr size_t kFewestWaits = 16;
constexpr size_t kTenthsWithin = 9;

int64_t wait_latency(const RankDraft& window) {
  return window.wait_latency_ns.value_or(kAssumedWaitLatency);
}

using Issue = std::pair<int64_t, uint32_t>;  // When its call began; node.

// One rank's device nodes in the order in which the host issued them.
class IssueOrder {
 public:
  IssueOrder(const GraphDraft& draft, const RankDraft& rank)
      : draft_(draft), rank_(rank) {
    for (const StreamNodes& stream : rank.streams) {
      if (issued_.size() == kMostSearched) break;
      std::vector<Issue>& issued = issued_.emplace_back();
      for (uint32_t node = stream.first; node < stream.last; ++node) {
        issued.emplace_back(draft.nodes[node].issued_ns, node);
      }
      if (!std::is_sorted(issued.begin(), issued.end())) {
        std::sort(issued.begin(), issued.end());
      }
    }
  }

  size_t streams() const { return issued_.size(); }

  uint32_t last_before(size_t stream, int64_t time_ns) const {
    const auto& issued = issued_[stream];
    const auto after =
        std::lower_bound(issued.begin(), issued.end(), Issue{time_ns, 0});
    return after == issued.begin() ? kNoNode : std::prev(after)->second;
  }

  uint32_t first_after(size_t stream, int64_t time_ns) const {
    const auto& issued = issued_[stream];
    const auto after =
        std::lower_bound(issued.begin(), issued.end(), Issue{time_ns, 0});
    return after == issued.end() ? kNoNode : after->second;
  }

  // The latest work issued before a time that had ended by another.
  uint32_t latest_done(size_t stream, int64_t issued_before_ns,
                       int64_t ended_by_ns) const {
    const auto& issued = issued_[stream];
    auto at = std::lower_bound(issued.begin(), issued.end(),
                               Issue{issued_before_ns, 0});
    for (int64_t step = 0; step < kSearchDepth; ++step) {
      if (at == issued.begin()) break;
      --at;
      if (draft_.nodes[at->second].end_ns <= ended_by_ns) return at->second;
    }
    return kNoNode;
  }

  // The rank's stream with a number; streams() if there is none.
  size_t find(int64_t number) const {
    size_t place = 0;
    while (place < streams() &&
           draft_.trace.streams[rank_.streams[place].stream].number != number) {
      ++place;
    }
    return place;
  }

 private:
  const GraphDraft& draft_;
  const RankDraft& rank_;
  std::vector<std::vector<Issue>> issued_;  // [stream of the rank]
};

using SyncOfCall = std::pair<uint32_t, const SynchronizationInfo*>;

// What was recorded about synchronizing calls, by call.
std::vector<SyncOfCall> recorded_synchronizations(
    const GraphDraft& draft, std::span<const uint32_t> of) {
  std::vector<SyncOfCall> found;
  for (const uint32_t index : of) {
    const Event& event = draft.trace.events[index];
    if (event.detail < 0) continue;
    const uint32_t call = draft.launch_of[index];
    found.emplace_back(
        call == kNoNode ? index : call,
        &draft.trace.synchronizations[static_cast<size_t>(event.detail)]);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<uint32_t> synchronizations_of(const GraphDraft& draft,
                                          uint32_t rank) {
  std::vector<uint32_t> found;
  for (const uint32_t stream : draft.ranks[rank].recorded_streams) {
    for (const uint32_t index : draft.events_of(stream)) {
      const Event& event = draft.trace.events[index];
      if (event.kind == EventKind::kSynchronization) found.push_back(index);
    }
  }
  return found;
}

class HostWaits {
 public:
  HostWaits(GraphDraft& draft, uint32_t rank)
      : draft_(draft),
        window_(draft.ranks[rank]),
        order_(draft, window_),
        recorded_(recorded_synchronizations(
            draft, synchronizations_of(draft, rank))) {}

  void run() {
    for (const HostWait& wait : window_.host_waits) {
      if (wait.call == CallClass::kCopy) {
        wait_for(wait, draft_.first_node[wait.copy]);
      } else if (wait.call == CallClass::kSyncDevice) {
        wait_for_device(wait);
      } else {
        wait_for_some(wait);
      }
    }
  }

 private:
  int64_t latest_end(const HostWait& wait) const {
    return draft_.nodes[wait.node].end_ns + kClockTolerance;
  }

  bool wait_for(const HostWait& wait, uint32_t source) {
    if (source == kNoNode) return false;
    DraftNode& node = draft_.nodes[wait.node];
    const int64_t done_ns = draft_.nodes[source].end_ns;
    if (done_ns > latest_end(wait)) return false;
    draft_.add_edge(source, wait.node, EdgeKind::kSynchronization,
                    std::min<int64_t>(0, node.end_ns - done_ns));
    node.start_ns = std::clamp(done_ns, node.start_ns, node.end_ns);
    return true;
  }

  void wait_for_device(const HostWait& wait) {
    for (size_t stream = 0; stream < order_.streams(); ++stream) {
      wait_for(wait, order_.last_before(stream, wait.called_ns));
    }
  }

  void wait_for_some(const HostWait& wait) {
    const auto known = std::lower_bound(recorded_.begin(), recorded_.end(),
                                        SyncOfCall{wait.event, nullptr});
    if (known != recorded_.end() && known->first == wait.event &&
        wait_as_recorded(wait, *known->second)) {
      return;
    }
    if (!wait_for(wait, likely_source(wait))) {
      ++draft_.tally.waits_without_source;
    }
  }

  bool wait_as_recorded(const HostWait& wait,
                        const SynchronizationInfo& recorded) {
    const bool event = recorded.kind == SynchronizationKind::kEvent;
    const size_t stream =
        order_.find(event ? recorded.waited_stream : recorded.stream);
    if (stream == order_.streams()) return false;
    int64_t before_ns = wait.called_ns;
    const uint32_t record =
        event ? window_.calls.of(recorded.waited_correlation) : kNoNode;
    if (record != kNoNode) {
      before_ns = draft_.time[record].start_ns;
    }
    return wait_for(wait, order_.last_before(stream, before_ns));
  }

  // Of all streams' work issued before the call: what ended last while the call
  // waited; if nothing did, what was issued last.
  uint32_t likely_source(const HostWait& wait) const {
    uint32_t ended = kNoNode, issued = kNoNode;
    for (size_t stream = 0; stream < order_.streams(); ++stream) {
      const uint32_t done =
          order_.latest_done(stream, wait.called_ns, latest_end(wait));
      if (done == kNoNode) continue;
      const DraftNode& node = draft_.nodes[done];
      if (node.end_ns > wait.called_ns &&
          (ended == kNoNode || node.end_ns > draft_.nodes[ended].end_ns)) {
        ended = done;
      }
      if (issued == kNoNode ||
          node.issued_ns > draft_.nodes[issued].issued_ns) {
        issued = done;
      }
    }
    return ended != kNoNode ? ended : issued;
  }

  GraphDraft& draft_;
  RankDraft& window_;
  IssueOrder order_;
  std::vector<SyncOfCall> recorded_;
};

class StreamWaits {
 public:
  StreamWaits(GraphDraft& draft, uint32_t rank)
      : draft_(draft),
        rank_(rank),
        window_(draft.ranks[rank]),
        order_(draft, window_) {}

  bool run() {
    if (window_.streams.size() < 2) return false;
    if (add_recorded()) return true;
    infer_from_calls();
    return !window_.stream_waits.empty();
  }

 private:
  struct Join {
    uint32_t source = kNoNode, target = kNoNode;
  };

  // Whether stream waits were recorded at all. Of those for an event whose
  // recording was not, what it followed is inferred.
  bool add_recorded() {
    bool any = false;
    std::vector<Join> joins, unknown;
    for (const uint32_t index : synchronizations_of(draft_, rank_)) {
      const Event& event = draft_.trace.events[index];
      if (event.detail < 0) continue;
      const SynchronizationInfo& recorded =
          draft_.trace.synchronizations[static_cast<size_t>(event.detail)];
      if (recorded.kind != SynchronizationKind::kStreamWait) continue;
      any = true;
      const uint32_t call = draft_.launch_of[index];
      const int64_t called_ns = start_of(call == kNoNode ? index : call);
      const bool known = recorded.waited_stream >= 0;
      const Join found = known ? joined_by(recorded, called_ns)
                               : likely_join(recorded, called_ns);
      if (found.source != kNoNode && found.target != kNoNode)
        (known ? joins : unknown).push_back(found);
    }
    measure_waits(joins);
    for (const Join& each : joins)
      join(each.source, each.target, EdgeKind::kEvent);
    for (const Join& each : unknown)
      join(each.source, each.target, EdgeKind::kInferred);
    return any;
  }

  int64_t start_of(uint32_t event) const { return draft_.time[event].start_ns; }

  Join joined_by(const SynchronizationInfo& recorded, int64_t called_ns) const {
    const size_t to = order_.find(recorded.stream);
    const size_t from = order_.find(recorded.waited_stream);
    if (to == order_.streams() || from == order_.streams() || to == from) {
      return {};
    }
    const uint32_t record = window_.calls.of(recorded.waited_correlation);
    const int64_t recorded_ns =
        record == kNoNode ? called_ns : start_of(record);
    return {order_.last_before(from, recorded_ns),
            order_.first_after(to, called_ns)};
  }

  Join likely_join(const SynchronizationInfo& recorded,
                   int64_t called_ns) const {
    const size_t to = order_.find(recorded.stream);
    if (to == order_.streams()) return {};
    const uint32_t target = order_.first_after(to, called_ns);
    if (target == kNoNode) return {};
    return {likely_source(target, called_ns), target};
  }

  // What waiting for an event takes, of waits for work that ended when all else
  // that the waiting work needed was there.
  void measure_waits(const std::vector<Join>& joins) {
    std::vector<int64_t> lags_ns;
    for (const auto& [source, target] : joins) {
      const int64_t done_ns = draft_.nodes[source].end_ns;
      const DraftNode& work = draft_.nodes[target];
      const bool is_queued =
          work.issued_ns < done_ns && before_on_stream_ns(target) < done_ns;
      if (is_queued && work.start_ns >= done_ns)
        lags_ns.push_back(work.start_ns - done_ns);
    }
    if (lags_ns.size() < kFewestWaits) return;
    const auto within =
        lags_ns.begin() +
        static_cast<std::ptrdiff_t>(lags_ns.size() * kTenthsWithin / 10);
    std::nth_element(lags_ns.begin(), within, lags_ns.end());
    window_.wait_latency_ns = *within;
  }

  // When the work before `node` on its stream ended.
  int64_t before_on_stream_ns(uint32_t node) const {
    for (const StreamNodes& stream : window_.streams) {
      if (node > stream.first && node < stream.last)
        return draft_.nodes[node - 1].end_ns;
    }
    return std::numeric_limits<int64_t>::min();
  }

  // Explained up to what waiting for an event takes.
  bool join(uint32_t source, uint32_t target, EdgeKind kind) {
    if (source == kNoNode || target == kNoNode) return false;
    const int64_t lag_ns =
        draft_.nodes[target].start_ns - draft_.nodes[source].end_ns;
    if (lag_ns < -kClockTolerance) {
      ++draft_.tally.contradicted;
      return false;
    }
    draft_.add_edge(source, target, kind,
                    lag_ns <= wait_latency(window_) ? lag_ns : 0);
    return true;
  }

  // A wait call concerns the next launch of its thread: that work waits for
  // what another stream was given before.
  void infer_from_calls() {
    std::vector<std::pair<uint32_t, Issue>> launches;  // Thread, issue.
    for (const StreamNodes& stream : window_.streams) {
      for (uint32_t node = stream.first; node < stream.last; ++node) {
        const DraftNode& work = draft_.nodes[node];
        if (work.launch == kNoNode) continue;
        const uint32_t call = draft_.nodes[work.launch].event;
        launches.push_back(
            {draft_.trace.events[call].stream, {work.issued_ns, node}});
      }
    }
    std::sort(launches.begin(), launches.end());
    std::vector<std::pair<uint32_t, uint32_t>> joined;  // Target, source.
    std::map<uint32_t, AwaitingWork> awaiting;          // By node.
    for (const StreamWaitCall& wait : window_.stream_waits) {
      const auto next =
          std::lower_bound(launches.begin(), launches.end(),
                           std::pair(wait.stream, Issue{wait.called_ns, 0}));
      if (next == launches.end() || next->first != wait.stream) continue;
      const uint32_t target = next->second.second;
      // An event that was recorded just before, and not behind a collective, is
      // for all that a stream was given so far.
      const bool of_all = wait.of_last && next != launches.begin() &&
                          !follows_collective(*std::prev(next), wait, target);
      if (!of_all) {
        AwaitingWork& work =
            awaiting.try_emplace(target, AwaitingWork{.node = target})
                .first->second;
        ++work.calls;
        work.called_ns = std::max(work.called_ns, wait.called_ns);
      }
      const uint32_t source = likely_source(target, wait.called_ns);
      if (source != kNoNode) joined.emplace_back(target, source);
    }
    take_turns(awaiting, joined);
    std::sort(joined.begin(), joined.end());
    joined.erase(std::unique(joined.begin(), joined.end()), joined.end());
    for (const auto& [target, source] : joined) {
      join(source, target, EdgeKind::kInferred);
    }
  }

  // A call that makes work wait in turn makes it wait for nothing else.
  void take_turns(const std::map<uint32_t, AwaitingWork>& awaiting,
                  std::vector<std::pair<uint32_t, uint32_t>>& joined) const {
    std::vector<AwaitingWork> works;
    works.reserve(awaiting.size());
    for (const auto& [node, work] : awaiting) works.push_back(work);
    const std::vector<WaitInTurn> turns = waits_in_turn(draft_, rank_, works);
    std::erase_if(joined, [&](const std::pair<uint32_t, uint32_t>& one) {
      auto turn = std::lower_bound(turns.begin(), turns.end(),
                                   WaitInTurn{.node = one.first});
      uint32_t told = 0;
      for (; turn != turns.end() && turn->node == one.first; ++turn, ++told) {
        if (stream_of(turn->awaited) == stream_of(one.second)) return true;
      }
      return told > 0 && told == awaiting.at(one.first).calls;
    });
    for (const WaitInTurn& turn : turns)
      joined.emplace_back(turn.node, turn.awaited);
  }

  // Whether the launch before a wait was a collective's on another stream than
  // the work that waits.
  bool follows_collective(const std::pair<uint32_t, Issue>& launch,
                          const StreamWaitCall& wait, uint32_t target) const {
    const uint32_t node = launch.second.second;
    return launch.first == wait.stream && draft_.nodes[node].collective >= 0 &&
           stream_of(node) != stream_of(target);
  }

  uint32_t stream_of(uint32_t node) const {
    return draft_.trace.events[draft_.nodes[node].event].stream;
  }

  // What was issued last before the wait, if it had ended; or what ended just
  // before the target began.
  uint32_t likely_source(uint32_t target, int64_t called_ns) const {
    const DraftNode& work = draft_.nodes[target];
    const uint32_t own = draft_.trace.events[work.event].stream;
    uint32_t best = kNoNode;
    for (size_t stream = 0; stream < order_.streams(); ++stream) {
      if (window_.streams[stream].stream == own) continue;
      const uint32_t done =
          order_.latest_done(stream, called_ns, work.start_ns);
      if (done == kNoNode) continue;
      const bool last = done == order_.last_before(stream, called_ns);
      const bool binding =
          work.start_ns - draft_.nodes[done].end_ns <= wait_latency(window_);
      if (!last && !binding) continue;
      if (best == kNoNode ||
          draft_.nodes[done].end_ns > draft_.nodes[best].end_ns) {
        best = done;
      }
    }
    return best;
  }

  GraphDraft& draft_;
  uint32_t rank_;
  RankDraft& window_;
  IssueOrder order_;
};

}  // namespace

void add_host_waits(GraphDraft& draft, uint32_t rank) {
  if (draft.ranks[rank].host_waits.empty()) return;
  HostWaits(draft, rank).run();
}

bool add_stream_waits(GraphDraft& draft, uint32_t rank) {
  return StreamWaits(draft, rank).run();
}

}  // namespace reprise
