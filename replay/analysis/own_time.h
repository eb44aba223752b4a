// Own time of ranges that nest on their streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/integers.h"

namespace reprise {

/// Takes the time of each item out of the innermost one that holds it on its
/// stream (own_ns). `event_of(item)` points to its stream (below `streams`),
/// start_ns and end_ns; nullptr leaves it out. Requires: on each stream by
/// start, what encloses before what it encloses. Cost: linear.
template <typename Item, typename EventOf>
void take_out_nested(std::vector<Item>& items, size_t streams,
                     const EventOf& event_of) {
  std::vector<std::vector<size_t>> open(streams);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto* event = event_of(items[i]);
    if (event == nullptr) continue;
    std::vector<size_t>& stack = open[event->stream];
    while (!stack.empty() &&
           event_of(items[stack.back()])->end_ns <= event->start_ns)
      stack.pop_back();
    if (!stack.empty() &&
        event->end_ns <= event_of(items[stack.back()])->end_ns) {
      int64_t& own_ns = items[stack.back()].own_ns;
      own_ns = saturating_subtract(
          own_ns, saturating_subtract(event->end_ns, event->start_ns));
    }
    stack.push_back(i);
  }
}

}  // namespace reprise
