// Kineto traces read the obvious way, over a whole tree of JSON: slow, short,
// and sharing no code with the reader that it checks.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

/// One event as both readers must see it.
struct NaiveEvent {
  int64_t start_ns = 0, end_ns = 0;
  EventKind kind = EventKind::kOther;
  std::string name;
  /// "device/stream" of device work, "process/thread" of a host's.
  std::string stream;
  int64_t correlation = -1, external_id = -1, graph_node = -1;
  int64_t copied_bytes = 0;
  auto operator<=>(const NaiveEvent&) const = default;
};

/// Sorted events of a text; nothing if it is no JSON with trace events.
std::optional<std::vector<NaiveEvent>> read_naively(std::string_view text);

/// The same of a trace.
std::vector<NaiveEvent> naive_events(const Trace& trace);

}  // namespace reprise
