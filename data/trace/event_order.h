// The order of Trace::events: (rank, start_ns, stream), stable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

/// Returns the places of the events in order; empty when they already are.
/// Requires: fewer than 2^32 events. Cost: linear (a radix sort of 8 bytes an
/// event).
std::vector<uint32_t> event_order(std::span<const Event> events);

/// Sorts in place; beside the events it takes 20 bytes for each of them.
void sort_events(std::span<Event> events);
/// By what event_order returned.
void put_in_order(std::span<Event> events, std::vector<uint32_t> order);
/// Through `room`, whose memory it takes: a core waits for many events at once,
/// not for one after the other. Half the time.
void put_in_order(std::vector<Event>& events, std::span<const uint32_t> order,
                  std::vector<Event>& room);

}  // namespace reprise
