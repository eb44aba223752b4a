#include "replay/graph/posted_messages.h"

#include <algorithm>

namespace reprise {

void PostedMessages::post(uint32_t event, uint32_t from) {
  const auto later = [&](uint32_t posted, size_t place) {
    return draft_.time[posted].end_ns <
           draft_.time[messages_[place].event].end_ns;
  };
  open_.insert(std::upper_bound(open_.begin(), open_.end(), event, later),
               messages_.size());
  messages_.push_back({.event = event, .from = from});
}

// Of the messages whose ranges end by a time the thread awaited those that it
// did nothing before.
void PostedMessages::close_until(int64_t time_ns, uint32_t to) {
  auto next = open_.begin();
  for (; next != open_.end(); ++next) {
    Message& message = messages_[*next];
    const Interval& time = draft_.time[message.event];
    if (time.end_ns > time_ns) break;
    const int64_t still_ns = std::max(worked_until_ns_, time.start_ns);
    message.awaited = time.end_ns - still_ns >= kShortestHostWait;
    message.to = to;
    worked_until_ns_ = std::max(worked_until_ns_, time.end_ns);
  }
  open_.erase(open_.begin(), next);
}

StreamNodes PostedMessages::add_nodes() {
  close_until(kLatest, kNoNode);
  StreamNodes added = {.stream = stream_, .is_messages = true};
  added.first = static_cast<uint32_t>(draft_.nodes.size());
  for (const Message& message : messages_) add_node(message);
  added.last = static_cast<uint32_t>(draft_.nodes.size());
  return added;
}

// A receiver that awaited its data went on when they were there. Any other
// range says only that they were there by its end, or by when the message is
// taken to be over (settle_posted_messages).
int64_t PostedMessages::over_ns(const Message& message) const {
  const Interval& time = draft_.time[message.event];
  const int32_t place = draft_.collective_of(message.event);
  if (place < 0) return time.end_ns;
  const MatchedCollective& matched =
      draft_.matching.collectives[static_cast<size_t>(place)];
  const uint32_t rank = draft_.trace.ranks[draft_.rank_place[stream_]].rank;
  const bool sends = static_cast<int64_t>(rank) == matched.sender;
  int64_t over_ns = time.end_ns;
  for (const CollectiveMember& member : matched.members) {
    const uint32_t place_of_member = draft_.place_of(member.rank);
    if (place_of_member == kNoNode) continue;
    const int64_t end_ns = draft_.at(place_of_member, member.end_ns);
    if (message.awaited && !sends && member.rank == rank) return end_ns;
    over_ns = std::min(over_ns, end_ns);
  }
  return over_ns;
}

// A call that lasts may have posted its message long before the range of that
// begins: a receiver's 7 ms, while the data came, on a host whose cores were
// taken (PyTorch 2.15's pipelining on two ranks).
bool PostedMessages::begins_with(uint32_t call, const Interval& range) const {
  return call != kNoNode && draft_.nodes[call].end_ns == range.start_ns &&
         draft_.trace.text(draft_.trace.events[draft_.nodes[call].event].name)
             .starts_with("c10d::");
}

void PostedMessages::add_node(const Message& message) {
  const uint32_t rank = draft_.rank_place[stream_];
  const RankDraft& window = draft_.ranks[rank];
  const Interval& time = draft_.time[message.event];
  if (time.end_ns <= window.start_ns || time.start_ns >= window.end_ns) return;
  const auto node = static_cast<uint32_t>(draft_.nodes.size());
  const bool with_call = begins_with(message.from, time);
  const int64_t start_ns = with_call ? draft_.nodes[message.from].start_ns
                                     : std::max(time.start_ns, window.start_ns);
  draft_.nodes.push_back({.start_ns = start_ns,
                          .end_ns = std::max(start_ns, over_ns(message)),
                          .event = message.event,
                          .rank = rank,
                          .collective = draft_.collective_of(message.event),
                          .cut = time.start_ns < window.start_ns});
  draft_.first_node[message.event] = draft_.last_node[message.event] = node;
  if (message.from != kNoNode)
    draft_.add_edge(message.from, node, EdgeKind::kHandoff, 0, with_call);
  if (message.to != kNoNode)
    draft_.add_edge(node, message.to, EdgeKind::kHandoff);
}

}  // namespace reprise
