// A range that ends in a number may number a step or anything else. Of the
// candidates those are steps whose pattern is the most frequent, whose numbers
// rise and whose times do not overlap; numbers that begin anew with an epoch
// are counted on.
#include "data/formats/nvtx_ranges.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

namespace reprise {
namespace {

/// The number behind `key`; -1 if there is none.
int64_t id_behind(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return -1;
  const std::string_view rest = text.substr(at + key.size());
  int64_t value = -1;
  std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return value;
}

/// Numbers that begin anew, as those of an epoch do, go on where they had come
/// to.
void continue_numbers(std::vector<StepRange>& ranges) {
  int64_t shift = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    const int64_t before = ranges[i - 1].number;
    const bool is_first = ranges[i].number == ranges.front().number;
    ranges[i].number += shift;
    if (!is_first || ranges[i].number > before) continue;
    shift += before + 1 - ranges[i].number;
    ranges[i].number = before + 1;
  }
}

bool in_sequence(const std::vector<StepRange>& ranges) {
  if (ranges.size() == 1) return ranges.front().pattern == "ProfilerStep#";
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].number <= ranges[i - 1].number ||
        ranges[i].start_ns < ranges[i - 1].end_ns) {
      return false;
    }
  }
  constexpr int64_t kMostSteps = std::numeric_limits<int32_t>::max();
  return !ranges.empty() && ranges.back().number <= kMostSteps;
}

}  // namespace

std::optional<TorchRange> torch_range(std::string_view name) {
  constexpr std::string_view kId = ", op_id = ";
  constexpr std::string_view kSequence = ", seq = ";
  constexpr std::string_view kSizes = ", sizes = ";
  TorchRange range{name, id_behind(name, kId), {}};
  if (range.id < 0) return std::nullopt;
  range.name = name.substr(0, std::min(name.find(kId), name.find(kSequence)));
  const size_t sizes = name.find(kSizes);
  if (sizes != std::string_view::npos) {
    range.sizes = name.substr(sizes + kSizes.size());
  }
  return range;
}

std::optional<StepRange> step_range(std::string_view name) {
  constexpr size_t kLongest = 48;
  const size_t digits = name.find_last_not_of("0123456789");
  if (digits == std::string_view::npos || digits + 1 >= name.size() ||
      name.size() > kLongest || name.size() - digits - 1 > 9) {
    return std::nullopt;
  }
  const std::string_view pattern = name.substr(0, digits + 1);
  std::string lower;
  for (const char c : pattern) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) lower += static_cast<char>(c | 0x20);
    if (!letter && std::string_view(" _#:=-[").find(c) == std::string::npos) {
      return std::nullopt;
    }
  }
  if (!lower.ends_with("step") && !lower.ends_with("iter") &&
      !lower.ends_with("iteration") && !lower.ends_with("batch")) {
    return std::nullopt;
  }
  StepRange range{std::string(pattern), 0, 0, 0};
  std::from_chars(name.data() + digits + 1, name.data() + name.size(),
                  range.number);
  return range;
}

void note_step_range(std::string_view name, int64_t start_ns, int64_t end_ns,
                     std::vector<StepRange>& candidates) {
  constexpr size_t kMost = 1'000'000;
  std::optional<StepRange> range = step_range(name);
  if (!range || candidates.size() >= kMost) return;
  range->start_ns = start_ns;
  range->end_ns = end_ns;
  candidates.push_back(*std::move(range));
}

std::vector<StepRange> steps_among(const std::vector<StepRange>& candidates) {
  if (candidates.empty()) return {};
  std::map<std::string_view, size_t> counts;
  for (const StepRange& range : candidates) ++counts[range.pattern];
  const auto most = std::max_element(
      counts.begin(), counts.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<StepRange> steps;
  for (const StepRange& range : candidates) {
    if (range.pattern == most->first) steps.push_back(range);
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const StepRange& a, const StepRange& b) {
                     return a.start_ns < b.start_ns;
                   });
  continue_numbers(steps);
  if (!in_sequence(steps)) steps.clear();
  return steps;
}

}  // namespace reprise
