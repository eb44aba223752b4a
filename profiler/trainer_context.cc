#include "profiler/trainer_context.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/io/json_tree.h"
#include "data/plan/plan.h"
#include "data/schedule/timed_schedule.h"
#include "data/trace/recording_cost.h"
#include "profiler/recorder.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "reprise.trainer/1";

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) == 0)
      return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

/// Empty where all ranks meet.
std::vector<std::vector<uint32_t>> groups_of(const CollectiveSpec& collective,
                                             int64_t ranks) {
  std::vector<std::vector<uint32_t>> groups;
  for (const std::vector<int64_t>& group : collective.groups) {
    if (group.size() == static_cast<size_t>(ranks)) return {};
    groups.emplace_back(group.begin(), group.end());
    std::sort(groups.back().begin(), groups.back().end());
  }
  return groups;
}

UnitLabel label_of(const Unit& unit, int64_t ranks) {
  UnitLabel label{.name = unit.name};
  if (unit.kind != UnitKind::kCollective) {
    label.bytes = unit.routine.communicated_bytes;
    return label;
  }
  label.kind = EventKind::kCollective;
  label.bytes = unit.collective.bytes;
  label.collective = unit.collective.kind;
  label.groups = groups_of(unit.collective, ranks);
  return label;
}

/// False when they are malformed.
bool read_collective(const Json& json, UnitLabel& unit) {
  if (json.contains("collective")) {
    const auto kind = collective_from_name(text_of(json, "collective"));
    if (!kind) return false;
    unit.collective = *kind;
  }
  const auto groups = json.find("groups");
  if (groups == json.end()) return true;
  if (!groups->is_array()) return false;
  for (const Json& group : *groups) {
    if (!group.is_array()) return false;
    std::vector<uint32_t>& ranks = unit.groups.emplace_back();
    for (const Json& rank : group) {
      if (!rank.is_number_unsigned() || rank > UINT32_MAX) return false;
      ranks.push_back(rank.get<uint32_t>());
    }
  }
  return true;
}

/// False when it is none.
bool read_unit(const Json& json, UnitLabel& unit) {
  if (!json.is_object()) return false;
  const std::string kind = text_of(json, "kind");
  unit.name = text_of(json, "name");
  unit.kind = kind == name_of(EventKind::kCollective) ? EventKind::kCollective
                                                      : EventKind::kCompute;
  const auto bytes = json.find("bytes");
  const bool has_bytes = bytes != json.end() && bytes->is_number_integer();
  unit.bytes = has_bytes ? std::max<int64_t>(0, bytes->get<int64_t>()) : 0;
  return !unit.name.empty() && read_collective(json, unit) &&
         (kind == name_of(EventKind::kCompute) ||
          kind == name_of(EventKind::kCollective));
}

}  // namespace

TrainerContext trainer_context(const LoweredProgram& lowered,
                               const std::string& program_path,
                               const std::string& device, bool solo) {
  TrainerContext context;
  context.program_text = lowered.program_text;
  context.manifest_text = lowered.manifest_text;
  context.plan_text = print_plan(lowered.plan);
  context.environment = {
      {"cpu", cpu_model()},
      {"cores", std::to_string(std::thread::hardware_concurrency())},
      {"device", device},
      {"program_path", std::filesystem::absolute(program_path).string()},
      {"solo", solo ? "1" : "0"}};
  if (device == "cpu") {
    if (const Result<int64_t> event_ns = Recorder::event_cost_ns())
      context.environment[kEventCost] = std::to_string(*event_ns);
  }
  // Where a device runs units, events are its own.
  const TimedSchedule timed(lowered.schedule, device == "cpu");
  if (timed.has_parts()) context.environment[kTimedParts] = "1";
  for (const Unit& unit : timed.schedule().units)
    context.units.push_back(label_of(unit, lowered.schedule.ranks));
  return context;
}

std::string print_trainer_context(const TrainerContext& context) {
  Json json = {{"schema", kSchema},
               {"program_text", context.program_text},
               {"manifest_text", context.manifest_text},
               {"plan_text", context.plan_text},
               {"environment", context.environment},
               {"units", Json::array()}};
  for (const UnitLabel& unit : context.units) {
    Json& written = json["units"].emplace_back(
        Json{{"name", unit.name},
             {"kind", std::string(name_of(unit.kind))},
             {"bytes", unit.bytes}});
    if (unit.kind != EventKind::kCollective) continue;
    written["collective"] = std::string(name_of(unit.collective));
    if (!unit.groups.empty()) written["groups"] = unit.groups;
  }
  return json_text(json) + "\n";
}

Result<TrainerContext> parse_trainer_context(const std::string& text,
                                             const std::string& file) {
  const Json json = parse_json_or_discard<Json>(text);
  if (!json.is_object() || text_of(json, "schema") != kSchema) {
    return fail(ErrorKind::kParse, "{}: not a {} object", file, kSchema);
  }
  TrainerContext context;
  context.program_text = text_of(json, "program_text");
  context.manifest_text = text_of(json, "manifest_text");
  context.plan_text = text_of(json, "plan_text");
  const auto environment = json.find("environment");
  if (environment != json.end() && environment->is_object()) {
    for (const auto& [name, value] : environment->items()) {
      if (value.is_string()) context.environment[name] = value;
    }
  }
  const auto units = json.find("units");
  if (units == json.end() || !units->is_array() ||
      context.program_text.empty()) {
    return fail(ErrorKind::kParse, "{}: it lacks the program or its units",
                file);
  }
  for (const Json& unit : *units) {
    if (!read_unit(unit, context.units.emplace_back())) {
      return fail(ErrorKind::kParse, "{}: unit {} has no name or kind", file,
                  context.units.size() - 1);
    }
  }
  return context;
}

}  // namespace reprise
