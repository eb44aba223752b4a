#include "data/schedule/schedule.h"

#include <algorithm>
#include <map>

#include "data/sha256.h"

namespace reprise {
namespace {

std::string location_text(const Location& location) {
  return fmt::format("{}[{}+{}]", index_of(location.buffer),
                     location.offset_bytes, location.size_bytes);
}

std::string locations_text(const std::vector<Location>& locations) {
  std::vector<std::string> texts;
  texts.reserve(locations.size());
  for (const Location& location : locations)
    texts.push_back(location_text(location));
  return fmt::format("{}", fmt::join(texts, " "));
}

constexpr const char* kKindNames[] = {"kernel", "library", "routine",
                                      "collective", "copy"};

std::string kind_text(const Unit& unit) {
  const std::string name = kKindNames[static_cast<size_t>(unit.kind)];
  const DotSpec& dot = unit.dot;
  if (unit.kind != UnitKind::kLibrary || dot.is_plain()) return name;
  return fmt::format("{} ({})", name,
                     epilogue_text(dot.alpha, dot.bias.has_value(),
                                   dot.accumulate.has_value(), dot.activation));
}

}  // namespace

const std::vector<int64_t>* group_of(const CollectiveSpec& collective,
                                     int64_t rank) {
  for (const std::vector<int64_t>& group : collective.groups) {
    if (std::find(group.begin(), group.end(), rank) != group.end())
      return &group;
  }
  return nullptr;
}

std::string collective_digest(const Schedule& schedule) {
  std::string text;
  for (const Unit& unit : schedule.units) {
    if (unit.kind == UnitKind::kCollective || unit.routine.communicates)
      text += unit.key + "\n";
  }
  return "sha256:" + sha256_hex(text);
}

std::string print_schedule(const Schedule& schedule) {
  std::vector<std::vector<std::string>> waits(schedule.units.size());
  for (const Dependency& dependency : schedule.dependencies) {
    waits[index_of(dependency.after)].push_back(fmt::format(
        "{}{}", index_of(dependency.before), dependency.steps > 0 ? "'" : ""));
  }
  std::string text;
  for (size_t u = 0; u < schedule.units.size(); ++u) {
    const Unit& unit = schedule.units[u];
    text += fmt::format(
        "{} {} {} {} after {{{}}}: {} -> {}\n", u,
        unit.stream == Stream::kCompute ? "compute" : "communication",
        unit.name, kind_text(unit), fmt::join(waits[u], " "),
        locations_text(unit.reads), locations_text(unit.writes));
  }
  return text;
}

}  // namespace reprise
