// Host threads of an imported trace: nested ranges cut into the stretches that
// each event spends itself, in order.
#include <algorithm>
#include <tuple>
#include <utility>

#include "replay/collectives/collective_description.h"
#include "replay/graph/data_loading_name.h"
#include "replay/graph/posted_messages.h"
#include "replay/graph/trace_graph_draft.h"

namespace reprise {
namespace {

bool waits_for_device(CallClass call) {
  return call == CallClass::kSyncDevice || call == CallClass::kSyncStream ||
         call == CallClass::kSyncEvent;
}

// Outer ranges before inner ones that start with them.
int nesting_rank(EventKind kind) {
  if (kind == EventKind::kAnnotation) return 0;
  return kind == EventKind::kRuntime ? 2 : 1;
}

// An op or call of which, where it ends before the window, its end alone
// matters: nothing waits in it, and its own stretches are no named range's.
bool only_lasts(const GraphDraft& draft, const Event& event) {
  const CallClass call = draft.call(event);
  return (event.kind == EventKind::kHostOp ||
          event.kind == EventKind::kRuntime) &&
         (call == CallClass::kPlain || call == CallClass::kRecord);
}

// Walks one thread's events by start, a stack of open ranges in hand.
class ThreadWalk {
 public:
  ThreadWalk(GraphDraft& draft, uint32_t stream)
      : draft_(draft),
        stream_(stream),
        rank_(draft.rank_place[stream]),
        window_(draft.ranks[rank_]),
        messages_(draft, stream),
        next_wait_(std::lower_bound(
            window_.operator_waits.begin(), window_.operator_waits.end(),
            stream, [](const OperatorWait& wait, uint32_t wanted) {
              return wait.stream < wanted;
            })) {}

  void run(const std::vector<uint32_t>& events) {
    for (const uint32_t event : events) {
      visit(event);
      // What comes later can only begin later.
      const int64_t start_ns = draft_.time[event].start_ns;
      if (start_ns > window_.end_ns && start_ns >= whole_until_) break;
    }
    close_until(std::numeric_limits<int64_t>::max());
  }

  PostedMessages& messages() { return messages_; }

 private:
  struct Open {
    uint32_t event = 0;
    int64_t end_ns = 0;
    bool annotation = false;  // Its own time is no node but a gap.
    bool forced = false;      // Has a node, even an empty one.
  };

  void visit(uint32_t index) {
    const Event& event = draft_.trace.events[index];
    if (event.kind == EventKind::kOverhead) return;
    const int64_t start_ns = draft_.time[index].start_ns;
    const int64_t end_ns = std::max(start_ns, draft_.time[index].end_ns);
    if (start_ns < whole_until_) {  // Part of a collective.
      draft_.first_node[index] = draft_.last_node[index] = whole_node_;
      return;
    }
    if (end_ns < window_.start_ns && only_lasts(draft_, event)) {
      cursor_ns_ = std::max(cursor_ns_, end_ns);
      if (end_ns > start_ns) named_ns_ = 0;
      return;
    }
    close_until(start_ns);
    close_crossed(event, start_ns, end_ns);
    if (!open_.empty()) own_time(open_.back(), start_ns);
    cursor_ns_ = std::max(cursor_ns_, start_ns);
    if (is_posted_message(draft_.trace, event)) {
      messages_.post(index, last_added_);
      return;
    }
    if (event.kind == EventKind::kCollective) {
      add_whole(index, start_ns, end_ns);
      return;
    }
    note_call(index, event, start_ns, end_ns);
    if (draft_.call(event) == CallClass::kStepMark) {
      marks_.push_back({.event = index, .end_ns = end_ns});
      return;
    }
    const bool annotation = event.kind == EventKind::kAnnotation;
    open_.push_back(
        {.event = index,
         .end_ns = end_ns,
         .annotation = annotation,
         .forced = !annotation &&
                   (event.kind == EventKind::kRuntime || keep_empty())});
  }

  bool keep_empty() const { return !draft_.trace.dependencies.empty(); }

  // A call that blocks: an empty stretch where it begins, so that its copy can
  // start, and one where it returns.
  void note_call(uint32_t index, const Event& event, int64_t start_ns,
                 int64_t end_ns) {
    const CallClass call = event.kind == EventKind::kRuntime
                               ? draft_.call(event)
                               : CallClass::kPlain;
    if (call == CallClass::kStreamWait) {
      window_.stream_waits.push_back({index, stream_, start_ns, recorded_});
    } else if (event.kind == EventKind::kRuntime) {
      recorded_ = call == CallClass::kRecord;
    }
    const uint32_t copy = draft_.child_of[index];
    const bool blocks = call == CallClass::kCopy && copy != kNoNode &&
                        copy_within(copy, start_ns, end_ns);
    if (blocks) add_node(index, start_ns, start_ns);
    const CallClass waited = blocks ? CallClass::kCopy : waits(event, call);
    if (waited == CallClass::kPlain) return;
    waiting_.push_back({.called_ns = start_ns,
                        .call = waited,
                        .event = index,
                        .copy = blocks ? copy : kNoNode});
  }

  // What a host event waits for, if anything.
  CallClass waits(const Event& event, CallClass call) const {
    if (event.kind == EventKind::kWait) return CallClass::kSyncEvent;
    if (event.kind == EventKind::kRuntime) {
      return waits_for_device(call) ? call : CallClass::kPlain;
    }
    if (event.kind != EventKind::kSynchronization) return CallClass::kPlain;
    if (event.detail < 0) return CallClass::kSyncEvent;
    const size_t detail = static_cast<size_t>(event.detail);
    switch (draft_.trace.synchronizations[detail].kind) {
      case SynchronizationKind::kStream:
        return CallClass::kSyncStream;
      case SynchronizationKind::kDevice:
        return CallClass::kSyncDevice;
      case SynchronizationKind::kStreamWait:
        return CallClass::kPlain;
      default:
        return CallClass::kSyncEvent;
    }
  }

  bool copy_within(uint32_t copy, int64_t start_ns, int64_t end_ns) const {
    const Interval& time = draft_.time[copy];
    return time.start_ns >= start_ns - kClockTolerance &&
           time.end_ns <= end_ns + kClockTolerance;
  }

  void close_until(int64_t time_ns) {
    while (true) {
      const bool closes = !open_.empty() && open_.back().end_ns <= time_ns;
      const auto mark = first_mark();
      if (mark != marks_.end() && mark->end_ns <= time_ns &&
          !(closes && open_.back().end_ns <= mark->end_ns)) {
        end_step(*mark);
        marks_.erase(mark);
      } else if (closes) {
        close_last();
      } else {
        return;
      }
    }
  }

  void close_last() {
    const Open last = open_.back();
    open_.pop_back();
    own_time(last, last.end_ns);
    cursor_ns_ = std::max(cursor_ns_, last.end_ns);
    finish_wait(last);
    const bool bare = last.forced && draft_.last_node[last.event] == kNoNode;
    if (bare) add_node(last.event, cursor_ns_, cursor_ns_);
  }

  // Ranges of a thread nest. Where rounded clocks have one begin just before
  // the end of another that it outlasts, that one has ended.
  void close_crossed(const Event& event, int64_t start_ns, int64_t end_ns) {
    if (draft_.call(event) == CallClass::kStepMark ||
        is_posted_message(draft_.trace, event)) {
      return;
    }
    while (!open_.empty() && open_.back().end_ns < end_ns &&
           open_.back().end_ns - start_ns <= kClockTolerance) {
      open_.back().end_ns = start_ns;
      close_last();
    }
  }

  // Of the steps that are open, the one that ends first. Steps follow each
  // other, so there are few.
  std::vector<Open>::iterator first_mark() {
    return std::min_element(
        marks_.begin(), marks_.end(),
        [](const Open& a, const Open& b) { return a.end_ns < b.end_ns; });
  }

  // A step's end is a node, wherever the ranges around it end. A wait that
  // outlasts it by what clocks are rounded by is over.
  void end_step(const Open& mark) {
    const bool waits = !open_.empty() && !waiting_.empty() &&
                       waiting_.back().event == open_.back().event;
    if (waits && open_.back().end_ns - mark.end_ns <= kClockTolerance) {
      open_.back().end_ns = mark.end_ns;
      close_last();
    }
    if (!open_.empty()) own_time(open_.back(), mark.end_ns);
    cursor_ns_ = std::max(cursor_ns_, mark.end_ns);
    add_node(mark.event, cursor_ns_, cursor_ns_);
  }

  // The wait that the stretch up to a time begins with, if it does.
  const OperatorWait* wait_of(const Open& open, int64_t until_ns) {
    for (; next_wait_ != window_.operator_waits.end() &&
           next_wait_->stream == stream_;
         ++next_wait_) {
      const int64_t start_ns = draft_.at(rank_, next_wait_->start_ns);
      if (start_ns >= until_ns) return nullptr;
      if (next_wait_->event == open.event && start_ns >= cursor_ns_)
        return &*next_wait_++;
    }
    return nullptr;
  }

  // A wait is no work: a node begins, even an empty one, when it is over.
  void own_time(const Open& open, int64_t until_ns) {
    if (until_ns <= cursor_ns_) return;
    const OperatorWait* const wait = wait_of(open, until_ns);
    if (wait != nullptr)
      cursor_ns_ = std::min(until_ns, draft_.at(rank_, wait->end_ns));
    if (!open.annotation) {
      const uint32_t node = add_node(open.event, cursor_ns_, until_ns);
      if (wait != nullptr && node != kNoNode)
        window_.awaited.emplace_back(node, wait->collective);
    } else if (cursor_ns_ < until_ns && names_time(open)) {
      const int64_t part_ns = until_ns - cursor_ns_;
      if (named_ns_ == 0 || part_ns >= range_ns_) {
        range_ns_ = part_ns;
        range_ = open.event;
      }
      named_ns_ += part_ns;
    }
    cursor_ns_ = until_ns;
  }

  // A range about as wide as a step says nothing of what runs in it, but where
  // it says that the step waits for its data.
  bool names_time(const Open& open) const {
    const Interval& time = draft_.time[open.event];
    return time.end_ns - time.start_ns < window_.widest_range_ns ||
           names_data_loading(
               draft_.trace.text(draft_.trace.events[open.event].name));
  }

  // The call's last stretch, if it lies in the window, ends its wait.
  void finish_wait(const Open& open) {
    if (waiting_.empty() || waiting_.back().event != open.event) return;
    HostWait wait = waiting_.back();
    waiting_.pop_back();
    const uint32_t last = draft_.last_node[open.event];
    const bool empty = last == kNoNode || last != last_added_ ||
                       draft_.nodes[last].end_ns == draft_.nodes[last].start_ns;
    wait.node = empty ? add_node(open.event, cursor_ns_, cursor_ns_) : last;
    if (wait.node != kNoNode) window_.host_waits.push_back(wait);
  }

  void add_whole(uint32_t index, int64_t start_ns, int64_t end_ns) {
    const int64_t from_ns = std::max(start_ns, cursor_ns_);
    const uint32_t node = add_node(index, from_ns, std::max(from_ns, end_ns));
    if (node == kNoNode) return;
    draft_.nodes[node].collective = draft_.collective_of(index);
    whole_node_ = node;
    whole_until_ = cursor_ns_ = std::max(from_ns, end_ns);
  }

  // Adds a stretch if it lies in the window, cut where the window begins.
  uint32_t add_node(uint32_t index, int64_t start_ns, int64_t end_ns) {
    const bool before =
        end_ns < window_.start_ns ||
        (start_ns < window_.start_ns && end_ns == window_.start_ns);
    const int64_t named_ns = std::exchange(named_ns_, 0);
    const bool mark =
        draft_.call(draft_.trace.events[index]) == CallClass::kStepMark;
    if (before || start_ns > window_.end_ns) return kNoNode;
    if (start_ns == window_.end_ns && !mark) return kNoNode;
    const uint32_t node = static_cast<uint32_t>(draft_.nodes.size());
    draft_.nodes.push_back({.start_ns = std::max(start_ns, window_.start_ns),
                            .end_ns = end_ns,
                            .event = index,
                            .rank = rank_,
                            .named_ns = named_ns,
                            .range = range_,
                            .cut = start_ns < window_.start_ns});
    if (last_added_ != kNoNode) {
      draft_.add_edge(last_added_, node, EdgeKind::kThread);
    }
    last_added_ = node;
    messages_.go_on(node);
    if (draft_.first_node[index] == kNoNode) draft_.first_node[index] = node;
    draft_.last_node[index] = node;
    return node;
  }

  GraphDraft& draft_;
  uint32_t stream_, rank_;
  RankDraft& window_;
  PostedMessages messages_;
  std::vector<Open> open_;
  std::vector<Open> marks_;  // Open steps, beside the nesting.
  std::vector<HostWait> waiting_;
  bool recorded_ = false;  // The last call, but for stream waits, was a record.
  std::vector<OperatorWait>::const_iterator next_wait_;
  int64_t cursor_ns_ = std::numeric_limits<int64_t>::min();
  int64_t whole_until_ = std::numeric_limits<int64_t>::min();
  int64_t named_ns_ = 0;  // Within ranges, since the last node.
  uint32_t range_ = 0;    // That with the longest part of it,
  int64_t range_ns_ = 0;  // which is so long.
  uint32_t whole_node_ = kNoNode;
  uint32_t last_added_ = kNoNode;
};

// A watchdog's thread: calls that start nothing and wait for nothing. It runs
// beside the step, not in it.
bool only_polls(const GraphDraft& draft, const std::vector<uint32_t>& events) {
  return std::all_of(events.begin(), events.end(), [&](uint32_t index) {
    const Event& event = draft.trace.events[index];
    return event.kind == EventKind::kOverhead ||
           (event.kind == EventKind::kRuntime &&
            draft.call(event) == CallClass::kPlain &&
            draft.child_of[index] == kNoNode);
  });
}

}  // namespace

void add_host_thread(GraphDraft& draft, uint32_t stream) {
  const auto sorted_by_nesting = [&](uint32_t a, uint32_t b) {
    const Event& left = draft.trace.events[a];
    const Event& right = draft.trace.events[b];
    return std::tuple(left.start_ns, right.end_ns, nesting_rank(left.kind), a) <
           std::tuple(right.start_ns, left.end_ns, nesting_rank(right.kind), b);
  };
  const std::span<const uint32_t> recorded = draft.events_of(stream);
  std::vector<uint32_t> events(recorded.begin(), recorded.end());
  // By start they are sorted already: few begin together.
  for (auto first = events.begin(); first != events.end();) {
    const auto last = std::find_if(first, events.end(), [&](uint32_t event) {
      return draft.trace.events[event].start_ns !=
             draft.trace.events[*first].start_ns;
    });
    if (last - first > 1) std::sort(first, last, sorted_by_nesting);
    first = last;
  }
  if (only_polls(draft, events)) {
    draft.tally.polls += static_cast<int64_t>(events.size());
    return;
  }
  const uint32_t first = static_cast<uint32_t>(draft.nodes.size());
  ThreadWalk walk(draft, stream);
  walk.run(events);
  const uint32_t last = static_cast<uint32_t>(draft.nodes.size());
  std::vector<StreamNodes>& threads =
      draft.ranks[draft.rank_place[stream]].threads;
  if (last > first) threads.push_back({stream, first, last});
  const StreamNodes messages = walk.messages().add_nodes();
  if (messages.size() > 0) threads.push_back(messages);
}

}  // namespace reprise
