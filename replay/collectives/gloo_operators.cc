#include "replay/collectives/gloo_operators.h"

#include <deque>

#include "data/collective/collective_names.h"
#include "replay/collectives/collective_description.h"

namespace reprise {
namespace {

using K = CollectiveKind;

K kind_of(const Trace& trace, uint32_t index) {
  return collective_named(trace.text(trace.events[index].name));
}

/// Operators and calls of one queue take each other's place.
K queue_of(const Trace& trace, uint32_t index) {
  const K kind = kind_of(trace, index);
  return kind == K::kReduceScatter ? K::kAllReduce : kind;
}

/// The operator may make a call of that name, and its largest tensor holds what
/// the call was handed.
bool fits(const Trace& trace, uint32_t made_by, uint32_t call) {
  const K asked = kind_of(trace, made_by);
  if (asked != kind_of(trace, call) && asked != K::kReduceScatter) return false;
  const int64_t all = dimension_bytes(trace, trace.events[made_by]);
  return all == 0 || all >= dimension_bytes(trace, trace.events[call]);
}

}  // namespace

bool is_gloo_call(const Trace& trace, const Event& event) {
  return trace.text(event.name).starts_with("gloo:");
}

bool is_gloo_operator(const Trace& trace, const Event& event) {
  return event.kind == EventKind::kHostOp &&
         trace.text(event.name).starts_with("c10d::");
}

GlooOperators::GlooOperators(const RankEvents& events,
                             std::span<const uint32_t> operators,
                             std::span<const uint32_t> calls) {
  const Trace& trace = events.trace;
  std::map<K, std::deque<uint32_t>> open;
  size_t next = 0;
  for (const uint32_t call : calls) {
    if (!is_gloo_call(trace, trace.events[call])) continue;
    // Of one start the operator comes first, whatever the order of streams.
    for (; next < operators.size() && trace.events[operators[next]].start_ns <=
                                          trace.events[call].start_ns;
         ++next) {
      open[queue_of(trace, operators[next])].push_back(operators[next]);
    }
    std::deque<uint32_t>& waiting = open[queue_of(trace, call)];
    while (!waiting.empty() && !operator_of_.contains(call)) {
      if (fits(trace, waiting.front(), call))
        operator_of_.emplace(call, waiting.front());
      waiting.pop_front();
    }
  }
}

uint32_t GlooOperators::of(uint32_t call) const {
  const auto found = operator_of_.find(call);
  return found == operator_of_.end() ? kNone : found->second;
}

}  // namespace reprise
