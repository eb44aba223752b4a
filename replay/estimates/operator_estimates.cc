// Rank by rank: the operators of each host thread nest, so that one walk in
// order of start, with a stack, finds the innermost one around each launch.
#include "replay/estimates/operator_estimates.h"

#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "data/io/json_tree.h"
#include "data/median.h"
#include "replay/analysis/device_work.h"

namespace reprise {
namespace {

constexpr uint32_t kNobody = DeviceEvent::kNoEvent;

/// One rank's operators: by external id, and around its launching calls.
class Owners {
 public:
  Owners(const Trace& trace, uint32_t first, uint32_t last) : trace_(trace) {
    std::unordered_map<uint32_t, std::vector<uint32_t>> open;  // By stream.
    for (uint32_t i = first; i < last; ++i) {
      const Event& event = trace.events[i];
      if (event.kind == EventKind::kHostOp) {
        if (event.external_id >= 0) by_id_.emplace(event.external_id, i);
        std::vector<uint32_t>& stack = open[event.stream];
        close(stack, event.start_ns);
        push(stack, i);
      } else if (event.kind == EventKind::kRuntime && event.correlation >= 0) {
        std::vector<uint32_t>& stack = open[event.stream];
        close(stack, event.start_ns);
        if (!stack.empty()) around_[i] = stack.back();
      }
    }
  }

  /// The operator that the kernel belongs to, or kNobody.
  uint32_t of(const DeviceEvent& kernel) const {
    const int64_t id = trace_.events[kernel.event].external_id;
    if (const auto found = by_id_.find(id); id >= 0 && found != by_id_.end())
      return found->second;
    const auto found = around_.find(kernel.launch);
    return found == around_.end() ? kNobody : found->second;
  }

 private:
  void close(std::vector<uint32_t>& stack, int64_t time_ns) const {
    while (!stack.empty() && trace_.events[stack.back()].end_ns <= time_ns) {
      stack.pop_back();
    }
  }

  /// Of two that start together the longer one is outside.
  void push(std::vector<uint32_t>& stack, uint32_t place) const {
    stack.push_back(place);
    if (stack.size() < 2) return;
    const Event& inner = trace_.events[place];
    const Event& outer = trace_.events[stack[stack.size() - 2]];
    if (inner.start_ns == outer.start_ns && inner.end_ns > outer.end_ns) {
      std::swap(stack.back(), stack[stack.size() - 2]);
    }
  }

  const Trace& trace_;
  std::unordered_map<int64_t, uint32_t> by_id_;
  std::unordered_map<uint32_t, uint32_t> around_;  ///< Launch -> operator.
};

/// What tells one operator's calls from another's.
struct OperatorKey {
  std::string name, dims, strides, type;
  auto operator<=>(const OperatorKey&) const = default;
};
using OperatorCalls = std::map<OperatorKey, std::vector<int64_t>>;

/// The lists of `all` that are not empty: those of tensors. "" of none.
std::string of_tensors(const nlohmann::json& all) {
  nlohmann::json tensors = nlohmann::json::array();
  if (!all.is_array()) return {};
  for (const nlohmann::json& each : all) {
    if (each.is_array() && !each.empty()) tensors.push_back(each);
  }
  return tensors.empty() ? std::string() : json_text(tensors);
}

/// Reads what an operator was called with, each distinct text once.
class ArgumentReader {
 public:
  explicit ArgumentReader(const Trace& trace) : trace_(trace) {}

  OperatorKey key_of(const Event& event) {
    OperatorKey key;
    if (event.attributes >= 0) {
      const auto [known, added] = known_.try_emplace(event.attributes);
      if (added) known->second = read(event.attributes);
      key = known->second;
    }
    key.name = trace_.text(event.name);
    return key;
  }

 private:
  OperatorKey read(int32_t attributes) const {
    const nlohmann::json told =
        parse_json_or_discard(trace_.strings[static_cast<size_t>(attributes)]);
    OperatorKey key;
    if (!told.is_object()) return key;
    key.dims = of_tensors(told.value("input_dims", nlohmann::json()));
    key.strides = of_tensors(told.value("input_strides", nlohmann::json()));
    const auto types = told.find("input_types");
    if (types != told.end() && types->is_array() && !types->empty() &&
        types->front().is_string()) {
      key.type = types->front().get<std::string>();
    }
    return key;
  }

  const Trace& trace_;
  std::map<int32_t, OperatorKey> known_;
};

void add_rank(const RankEvents& events, OperatorCalls& calls,
              OperatorEstimates& estimates) {
  const Trace& trace = events.trace;
  const RankWork work = device_work(trace, events.rank);
  if (work.host_only) return;
  const Owners owners(trace, events.first, events.last);
  ArgumentReader arguments(trace);
  std::map<uint32_t, int64_t> time_ns;  // By operator.
  for (const DeviceEvent& each : work.events) {
    if (each.work != WorkClass::kCompute) continue;
    ++estimates.kernels;
    const uint32_t owner = owners.of(each);
    estimates.unowned += owner == kNobody;
    if (owner != kNobody) time_ns[owner] += each.end_ns - each.start_ns;
  }
  for (const auto& [owner, time] : time_ns) {
    calls[arguments.key_of(trace.events[owner])].push_back(time);
  }
}

}  // namespace

OperatorEstimates estimate_operators(const TraceByRank& trace) {
  OperatorEstimates estimates;
  OperatorCalls calls;
  for (size_t part = 0; part < trace.size(); ++part) {
    add_rank(trace.at(part), calls, estimates);
  }
  for (auto& [key, times] : calls) {
    const auto count = static_cast<int64_t>(times.size());
    estimates.operators.push_back({.name = key.name,
                                   .dims = key.dims,
                                   .strides = key.strides,
                                   .type = key.type,
                                   .device_ns = median(std::move(times)),
                                   .calls = count});
  }
  return estimates;
}

}  // namespace reprise
