#include "replay/simulate/node_facts.h"

#include <array>

namespace reprise {

std::string_view name_of(PathKind kind) {
  constexpr std::array<std::string_view, kPathKinds> kNames = {
      "kernel", "collective",  "copy",     "host", "launch",
      "range",  "unexplained", "dispatch", "feed", "overhead"};
  return kNames[static_cast<size_t>(kind)];
}

PathKind NodeFacts::kind(uint32_t origin) const {
  if (trace_ == nullptr) {
    return schedule_->units[origin].stream == Stream::kCompute
               ? PathKind::kKernel
               : PathKind::kCollective;
  }
  const EventKind kind = event_kind(origin);
  if (kind == EventKind::kCollective) return PathKind::kCollective;
  if (stream_kind(origin) == StreamKind::kHostThread) return PathKind::kHost;
  switch (kind) {
    case EventKind::kCopy:
    case EventKind::kMemset:
      return PathKind::kCopy;
    case EventKind::kCompute:
      return PathKind::kKernel;
    default:
      return PathKind::kHost;
  }
}

bool NodeFacts::on_host(uint32_t origin) const {
  return trace_ != nullptr && stream_kind(origin) != StreamKind::kDeviceStream;
}

bool NodeFacts::is_call(uint32_t origin) const {
  return trace_ != nullptr && event_kind(origin) == EventKind::kRuntime;
}

std::string_view NodeFacts::name(uint32_t origin) const {
  return trace_ != nullptr ? std::string_view(trace_->text(event_name(origin)))
                           : std::string_view(schedule_->units[origin].name);
}

uint32_t NodeFacts::name_number(uint32_t origin) const {
  return trace_ != nullptr ? index_of(event_name(origin)) : origin;
}

size_t NodeFacts::name_count() const {
  return trace_ != nullptr ? trace_->strings.size() : schedule_->units.size();
}

std::vector<std::string_view> NodeFacts::names(uint32_t name_number) const {
  if (trace_ != nullptr) return {trace_->text(StringId{name_number})};
  const Unit& unit = schedule_->units[name_number];
  std::vector<std::string_view> names = {unit.name};
  if (module_ == nullptr) return names;
  const auto& instructions = module_->entry_computation().instructions;
  for (const InstructionId id : unit.ops) {
    if (index_of(id) < instructions.size()) {
      names.push_back(instructions[index_of(id)].name);
    }
  }
  return names;
}

uint32_t NodeFacts::rank_number(uint32_t place) const {
  return trace_ != nullptr ? trace_->ranks[place].rank : place;
}

}  // namespace reprise
