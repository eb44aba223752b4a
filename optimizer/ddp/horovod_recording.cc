// One pass over a rank's events finds its reductions and the stages that bear
// their names, one over its dependencies what each of them waited for. Cost:
// O(events log events).
#include "optimizer/ddp/horovod_recording.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "data/collective/collective_names.h"
#include "data/io/json_tree.h"
#include "data/trace/intervals.h"
#include "replay/clocks/clock_alignment.h"
#include "replay/collectives/collective_description.h"
#include "replay/collectives/collectives.h"

namespace reprise {
namespace {

/// One reduction of one rank and step, on rank 0's clock.
struct TensorReduction {
  uint32_t transfer = 0;  ///< Event.
  int64_t start_ns = 0, end_ns = 0;
  int64_t ready_ns = INT64_MIN;  ///< INT64_MIN: nothing says.
};
/// By name: "Comm.3".
using TensorReductions = std::map<std::string_view, TensorReduction>;

class HorovodReading {
 public:
  explicit HorovodReading(Trace& trace) : trace_(trace) {}

  Result<DdpRecording> run() {
    align_clocks(trace_, match_collectives(trace_));
    for (uint32_t place = 0; place < trace_.ranks.size(); ++place)
      places_[trace_.ranks[place].rank] = place;
    recording_.ranks = trace_.ranks.size();
    find_reductions();
    find_ready_times();
    if (const Status found = find_gradients(); !found)
      return pass(found.error());
    for (const auto& [step, ranks] : steps_) add_step(step, ranks);
    if (recording_.steps.empty()) {
      return fail(ErrorKind::kInvalid,
                  "no step in which every rank reduces the same {} tensors",
                  names_.size());
    }
    for (uint32_t i = 0; i < names_.size(); ++i)
      recording_.buckets.push_back({.gradients = {i}});
    keep_middle_steps(recording_);
    collect_compute();
    return std::move(recording_);
  }

 private:
  int64_t at(const Event& event, int64_t time_ns) const {
    return to_rank0_ns(trace_.ranks[places_.at(event.rank)], time_ns);
  }

  bool is_reduction(const Event& event) const {
    if (event.kind != EventKind::kCollective || event.bytes <= 0) return false;
    const CollectiveInfo* const info = info_of(trace_, event);
    return info != nullptr && info->kind == CollectiveKind::kAllReduce;
  }

  /// The reduction that the event is a stage of, or null.
  TensorReduction* reduction_of(const Event& event) {
    const auto step = steps_.find(event.step);
    if (step == steps_.end()) return nullptr;
    TensorReductions& all = step->second[places_.at(event.rank)];
    const std::string_view name = trace_.text(event.name);
    auto found = all.find(name);
    if (found == all.end()) found = all.find(name.substr(0, name.rfind('.')));
    return found == all.end() ? nullptr : &found->second;
  }

  void find_reductions() {
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.step < 0 || !is_reduction(event)) continue;
      auto& ranks = steps_[event.step];
      ranks.resize(trace_.ranks.size());
      ranks[places_.at(event.rank)].try_emplace(
          trace_.text(event.name),
          TensorReduction{
              .transfer = i, .start_ns = INT64_MAX, .end_ns = INT64_MIN});
    }
    for (const Event& event : trace_.events) {
      if (steps_.contains(event.step)) widen(windows_[event.step], event);
      if (event.kind == EventKind::kCompute) continue;
      TensorReduction* const reduction = reduction_of(event);
      if (reduction == nullptr) continue;
      reduction->start_ns =
          std::min(reduction->start_ns, at(event, event.start_ns));
      reduction->end_ns = std::max(reduction->end_ns, at(event, event.end_ns));
    }
  }

  void widen(Interval& window, const Event& event) const {
    const Interval own{at(event, event.start_ns), at(event, event.end_ns)};
    if (window.end_ns == 0) window = own;
    window.start_ns = std::min(window.start_ns, own.start_ns);
    window.end_ns = std::max(window.end_ns, own.end_ns);
  }

  void find_ready_times() {
    using Node = std::pair<uint32_t, int64_t>;  // Rank, external id.
    std::map<Node, uint32_t> events;
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.external_id >= 0) events[{event.rank, event.external_id}] = i;
    }
    for (const EventDependency& each : trace_.dependencies) {
      const auto before = events.find({each.rank, each.before});
      const auto after = events.find({each.rank, each.after});
      if (before == events.end() || after == events.end()) continue;
      const Event& made = trace_.events[before->second];
      const Event& stage = trace_.events[after->second];
      if (made.kind != EventKind::kCompute || stage.kind == EventKind::kCompute)
        continue;
      if (TensorReduction* const reduction = reduction_of(stage)) {
        reduction->ready_ns =
            std::max(reduction->ready_ns, at(made, made.end_ns));
      }
    }
  }

  /// Those of the first step, in the order in which its first rank made them.
  Status find_gradients() {
    if (steps_.empty()) {
      return fail(ErrorKind::kInvalid,
                  "the trace holds no all-reduce of known size within a step; "
                  "of dPRO's directories those of Horovod with NCCL and with "
                  "metadata.json can be optimized");
    }
    const TensorReductions& first = steps_.begin()->second.front();
    std::vector<std::tuple<int64_t, std::string_view>> order;
    for (const auto& [name, reduction] : first) {
      if (reduction.ready_ns == INT64_MIN) {
        return fail(ErrorKind::kInvalid,
                    "the data-flow graph does not say which operator makes "
                    "what '{}' reduces: has dag.gml its edges?",
                    name);
      }
      order.emplace_back(reduction.ready_ns, name);
    }
    std::sort(order.begin(), order.end());
    size_t groups = 0;
    for (const auto& [ready_ns, name] : order) {
      names_.emplace_back(name);
      recording_.gradients.push_back(
          gradient_of(trace_.events[first.at(name).transfer], groups));
    }
    if (groups > 0) {
      recording_.notes.push_back(fmt::format(
          "{} of {} reductions carried several tensors and stay whole", groups,
          names_.size()));
    }
    return {};
  }

  DdpGradient gradient_of(const Event& transfer, size_t& groups) {
    const CollectiveInfo& info = *info_of(trace_, transfer);
    DdpGradient gradient{.name = trace_.text(transfer.name),
                         .type = std::string(name_of(info.type)),
                         .shape = std::to_string(info.input_elements),
                         .bytes = transfer.bytes};
    recording_.group_size =
        std::max(recording_.group_size, static_cast<size_t>(info.group_size));
    if (recording_.collective_key.empty()) {
      recording_.collective_key = fmt::format("{}/{}/{}", name_of(info.kind),
                                              gradient.type, info.group_size);
    }
    if (transfer.attributes < 0) return gradient;
    const auto attributes = parse_json_or_discard(
        trace_.strings[static_cast<size_t>(transfer.attributes)]);
    if (!attributes.is_object() || !attributes.contains("tensors"))
      return gradient;
    std::string names;
    for (const auto& tensor : attributes["tensors"]) {
      if (!tensor.is_string()) return gradient;
      names += (names.empty() ? "" : "+") + tensor.get<std::string>();
    }
    groups += attributes["tensors"].size() > 1;
    if (!names.empty()) gradient.name = std::move(names);
    return gradient;
  }

  /// Keeps the step if all ranks reduce what the gradients are.
  void add_step(int32_t number, const std::vector<TensorReductions>& ranks) {
    DdpStep step;
    step.step = number;
    step.start_ns = windows_.at(number).start_ns;
    step.time_ns = windows_.at(number).end_ns - step.start_ns;
    step.transfers.resize(names_.size());
    for (const TensorReductions& rank : ranks) {
      std::vector<int64_t> ready;
      for (size_t i = 0; i < names_.size(); ++i) {
        const auto found = rank.find(names_[i]);
        if (found == rank.end() || found->second.ready_ns == INT64_MIN) return;
        const TensorReduction& each = found->second;
        ready.push_back(
            std::max(each.ready_ns, ready.empty() ? INT64_MIN : ready.back()));
        DdpTransfer& transfer = step.transfers[i];
        transfer.bytes = recording_.gradients[i].bytes;
        transfer.arrival_ns = std::max(transfer.arrival_ns, each.start_ns);
        transfer.end_ns = std::max(transfer.end_ns, each.end_ns);
        transfer.collective = names_[i];
      }
      step.ready_ns.push_back(std::move(ready));
    }
    std::stable_sort(step.transfers.begin(), step.transfers.end(),
                     [](const DdpTransfer& a, const DdpTransfer& b) {
                       return a.arrival_ns < b.arrival_ns;
                     });
    recording_.steps.push_back(std::move(step));
  }

  void collect_compute() {
    std::set<int32_t> kept;
    std::vector<Interval> flights;
    for (const DdpStep& step : recording_.steps) {
      kept.insert(step.step);
      for (const DdpTransfer& each : step.transfers)
        flights.push_back({each.arrival_ns, each.end_ns});
    }
    const IntervalSet in_flight(std::move(flights));
    for (const Event& event : trace_.events) {
      if (event.kind != EventKind::kCompute || !kept.contains(event.step) ||
          event.end_ns <= event.start_ns)
        continue;
      const int64_t start_ns = at(event, event.start_ns);
      const int64_t end_ns = at(event, event.end_ns);
      recording_.compute[trace_.text(event.name)].samples.push_back(
          {.duration_ns = static_cast<double>(end_ns - start_ns),
           .beside_ns = static_cast<double>(
               in_flight.length_within_ns(start_ns, end_ns))});
    }
  }

  Trace& trace_;
  std::map<uint32_t, uint32_t> places_;  // By rank, in Trace::ranks.
  std::map<int32_t, std::vector<TensorReductions>> steps_;  // [rank place]
  std::map<int32_t, Interval> windows_;  // From first to last event.
  std::vector<std::string> names_;       // [gradient], as its reduction's.
  DdpRecording recording_;
};

}  // namespace

Result<DdpRecording> horovod_recording(Trace& trace) {
  return HorovodReading(trace).run();
}

}  // namespace reprise
