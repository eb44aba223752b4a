#include "replay/collectives/gloo_operators.h"

#include <deque>
#include <limits>
#include <string>

#include "data/collective/collective_names.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"
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

int32_t peer_of_operator(const Trace& trace, const Event& event) {
  // "send(Tensor[] tensors, ProcessGroup process_group, int dst, int tag)", and
  // recv_ likewise with src. Source: torch/csrc/distributed/c10d/Ops.cpp of
  // PyTorch 2.15; c10d::recv_any_source_ has no such argument.
  constexpr size_t kPeer = 2;
  const std::string& name = trace.text(event.name);
  if (name != "c10d::send" && name != "c10d::recv_") return -1;
  if (event.attributes < 0) return -1;
  JsonScanner members(trace.strings[static_cast<size_t>(event.attributes)]);
  while (members.next()) {
    if (members.key() != "concrete_inputs") continue;
    JsonScanner inputs(members.value());
    for (size_t i = 0; inputs.next(); ++i) {
      if (i != kPeer) continue;
      const auto peer = parse_integer(json_unescaped(inputs.value()));
      const bool is_rank =
          peer && *peer >= 0 && *peer <= std::numeric_limits<int32_t>::max();
      return is_rank ? static_cast<int32_t>(*peer) : -1;
    }
  }
  return -1;
}

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
