#include "tests/replay/simulate/schedule_text.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>

namespace reprise {
namespace {

std::vector<std::vector<int64_t>> parse_groups(const std::string& text) {
  std::vector<std::vector<int64_t>> groups;
  std::stringstream lists(text);
  for (std::string list; std::getline(lists, list, ';');) {
    auto& group = groups.emplace_back();
    std::stringstream members(list);
    for (std::string member; std::getline(members, member, ',');) {
      group.push_back(std::stoll(member));
    }
  }
  return groups;
}

struct Reader {
  std::map<std::string, uint32_t> places;
  std::vector<double> durations, slowdowns;
  Schedule& schedule;

  void read_line(std::istringstream& words) {
    Unit unit;
    std::string kind, word, mode;
    double duration = 0, slowdown = 1;
    words >> kind >> unit.name >> duration;
    const uint32_t place = static_cast<uint32_t>(schedule.units.size());
    unit.key = unit.name;
    if (kind == "transfer") {
      unit.kind = UnitKind::kCollective;
      unit.stream = Stream::kCommunication;
    } else {
      REPRISE_CHECK(kind == "compute");
    }
    while (words >> word) {
      if (word == "after" || word == "slow" || word == "bytes" ||
          word == "groups") {
        mode = word;
      } else if (mode == "after") {
        REPRISE_CHECK(places.count(word) == 1);
        schedule.dependencies.push_back(
            {UnitId{places[word]}, UnitId{place}, 0});
      } else if (mode == "slow") {
        slowdown = std::stod(word);
      } else if (mode == "bytes") {
        unit.collective.bytes = std::stoll(word);
      } else {
        REPRISE_CHECK(mode == "groups");
        unit.collective.groups = parse_groups(word);
      }
    }
    places[unit.name] = place;
    durations.push_back(duration);
    slowdowns.push_back(slowdown);
    schedule.units.push_back(unit);
  }
};

}  // namespace

void parse_schedule(std::string_view text, int64_t ranks,
                    TextSchedule& result) {
  result.schedule = {};
  result.schedule.ranks = ranks;
  Reader reader{.places = {},
                .durations = {},
                .slowdowns = {},
                .schedule = result.schedule};
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    if ((words >> std::ws).eof()) continue;
    reader.read_line(words);
  }
  result.priced = price_schedule(result.schedule, CostModel{});
  result.priced.duration_ns = reader.durations;
  result.priced.floor_ns = reader.durations;
  result.priced.slowdown = reader.slowdowns;
}

}  // namespace reprise
