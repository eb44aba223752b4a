// A message's begin and end carry the same name on the same row, and several of
// one name may be under way: the first to begin is the first to end.
#include "data/formats/dpro/dpro_pairs.h"

#include <map>
#include <utility>
#include <vector>

#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Equal names of one row that are under way at once.
constexpr size_t kMostOpen = 256;

}  // namespace

std::optional<int64_t> number_at_end(std::string_view name) {
  const size_t last = name.find_last_not_of("0123456789");
  return parse_integer(name.substr(last == name.npos ? 0 : last + 1));
}

Status DproPairs::read(ByteSource& source, const Take& take) {
  using Key = std::pair<std::string, std::string>;
  std::map<std::string, std::string> names;  // Of processes.
  std::map<std::pair<Key, std::string>, std::vector<int64_t>> open;
  const auto visit = [&](const ChromeEvent& event) {
    if (event.phase == 'M' && event.name == "\"process_name\"") {
      names[std::string(event.process)] =
          json_unescaped(timeline_argument(event, "name"));
    }
    if (event.phase != 'B' && event.phase != 'E') {
      return count_ignored(event, report_);
    }
    const Key key(event.process, event.thread);
    std::vector<int64_t>& starts = open[{key, std::string(event.name)}];
    const auto time = parse_microseconds(event.start);
    if (!time) {
      ++report_.dropped["no usable time"];
    } else if (event.phase == 'B' && starts.size() < kMostOpen) {
      starts.push_back(*time);
    } else if (event.phase == 'B') {
      ++report_.dropped["too many of one name at once"];
    } else if (starts.empty() || starts.front() > *time) {
      ++report_.dropped["end without a begin"];
    } else {
      const TimelineSpan span{starts.front(), *time};
      starts.erase(starts.begin());
      take({names[key.first], json_unescaped(key.second)},
           json_unescaped(event.name), span);
    }
  };
  const Result<bool> read = read_timeline(source, report_, visit);
  if (!read) return pass(read.error());
  for (const auto& [key, starts] : open) {
    if (starts.empty()) continue;
    report_.dropped["begin without an end"] += std::ssize(starts);
  }
  return {};
}

}  // namespace reprise
