// Messages that a host thread posts (Gloo's isend and irecv; send and recv are
// those that it awaits at once). Their ranges lie on the thread that posts,
// from the call to wait(), but the thread goes on with its work, and the data
// may be there long before anybody waits: a message is a node beside its
// thread, from the start of the call that posts it, which only what follows the
// end of the range waits for.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/graph/trace_graph_draft.h"

namespace reprise {

class PostedMessages {
 public:
  PostedMessages(GraphDraft& draft, uint32_t stream)
      : draft_(draft), stream_(stream) {}

  /// The thread posts a message after node `from`, or kNoNode.
  void post(uint32_t event, uint32_t from);
  /// The thread goes on with `node`, its next.
  void go_on(uint32_t node) {
    if (!open_.empty()) close_until(draft_.nodes[node].start_ns, node);
    worked_until_ns_ = draft_.nodes[node].end_ns;
  }
  /// Adds the messages that lie in the window, with their edges. Requires: the
  /// thread's nodes are there.
  StreamNodes add_nodes();

 private:
  struct Message {
    uint32_t event = 0;
    uint32_t from = kNoNode, to = kNoNode;  ///< Nodes before and after it.
    bool awaited = false;                   ///< The thread stood still for it.
  };

  void close_until(int64_t time_ns, uint32_t to);
  int64_t over_ns(const Message& message) const;
  bool begins_with(uint32_t call, const Interval& range) const;
  void add_node(const Message& message);

  GraphDraft& draft_;
  uint32_t stream_;
  std::vector<Message> messages_;  // In the order of posting.
  std::vector<size_t> open_;       // Places in messages_, by end of range.
  int64_t worked_until_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace reprise
