// An instruction may be several kernels; it ran as often as the kernel of it
// that ran most.
#include "replay/estimates/instruction_estimates.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/io/json_tree.h"
#include "data/median.h"
#include "replay/analysis/device_work.h"
#include "replay/estimates/collective_estimates.h"

namespace reprise {
namespace {

using InstructionKey = std::pair<std::string, std::string>;  // Module, name.

/// Of one rank.
struct RankRuns {
  int64_t time_ns = 0;
  std::map<StringId, int64_t> of_kernel;
  int64_t executions() const {
    int64_t most = 0;
    for (const auto& [kernel, count] : of_kernel) most = std::max(most, count);
    return most;
  }
};

struct InstructionRuns {
  std::vector<int64_t> times, transfers;
  int64_t executions = 0;
};

/// Reads which instruction an event is of, each distinct text once.
class InstructionReader {
 public:
  /// Null where it names none.
  const InstructionKey* of(const Trace& trace, const Event& event) {
    if (event.attributes < 0) return nullptr;
    const auto [known, added] = known_.try_emplace(event.attributes);
    if (added) {
      const nlohmann::json told = parse_json_or_discard(
          trace.strings[static_cast<size_t>(event.attributes)]);
      known->second = {text_of(told, "hlo_module"), text_of(told, "hlo_op")};
    }
    return known->second.second.empty() ? nullptr : &known->second;
  }

 private:
  static std::string text_of(const nlohmann::json& object, const char* key) {
    if (!object.is_object()) return {};
    const auto found = object.find(key);
    return found != object.end() && found->is_string()
               ? found->get<std::string>()
               : std::string();
  }

  std::map<int32_t, InstructionKey> known_;
};

}  // namespace

std::vector<InstructionEstimate> estimate_instructions(
    const AlignedTrace& trace) {
  std::map<InstructionKey, InstructionRuns> all;
  InstructionReader reader;
  const CollectiveMatching& matching = trace.matching();
  for (size_t part = 0; part < trace.by_rank().size(); ++part) {
    const RankEvents events = trace.by_rank().at(part);
    std::map<InstructionKey, RankRuns> of_rank;
    for (const DeviceEvent& each :
         device_work(events.trace, events.rank).events) {
      const Event& event = events.trace.events[each.event];
      const InstructionKey* key = reader.of(events.trace, event);
      if (key == nullptr) continue;
      const int32_t place = matching.place_of(events.number(each.event));
      if (place >= 0) {
        all[*key].transfers.push_back(transfer_ns(
            matching.collectives[static_cast<size_t>(place)], trace.frame()));
      }
      RankRuns& runs = of_rank[*key];
      runs.time_ns += each.end_ns - each.start_ns;
      ++runs.of_kernel[event.name];
    }
    for (const auto& [key, runs] : of_rank) {
      InstructionRuns& instruction = all[key];
      const int64_t executions = runs.executions();
      instruction.times.push_back(runs.time_ns / executions);
      instruction.executions = std::max(instruction.executions, executions);
    }
  }
  std::vector<InstructionEstimate> estimates;
  for (auto& [key, runs] : all) {
    const bool collective = !runs.transfers.empty();
    estimates.push_back({.module = key.first,
                         .name = key.second,
                         .device_ns = median(std::move(
                             collective ? runs.transfers : runs.times)),
                         .executions = runs.executions,
                         .collective = collective});
  }
  return estimates;
}

}  // namespace reprise
