// A range that ends in a number may number a step or anything else. Of the
// candidates those are steps whose numbers rise, whose times do not overlap and
// that take the most time; numbers that begin anew with an epoch are counted
// on.
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

constexpr std::string_view kSeparators = " _#:=-[](),|";

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

/// "Step 5/100", "step 5 of 100", "iter[5]" without what follows the number.
std::string_view up_to_number(std::string_view name) {
  const auto strip = [&](std::string_view characters) {
    const size_t last = name.find_last_not_of(characters);
    name = name.substr(0, last == name.npos ? 0 : last + 1);
  };
  const std::string_view whole = name;
  strip("])");
  const std::string_view closed = name;
  strip("0123456789");
  if (name.size() == closed.size()) return whole;
  strip(" ");
  for (const std::string_view of : {"/", "of"}) {
    if (!name.ends_with(of)) continue;
    name.remove_suffix(of.size());
    strip(" ");
    if (!name.empty() && is_decimal(name.back())) return name;
  }
  return closed;
}

/// What stands before a step's number: its letters in lower case, and with
/// "epoch 12" as "epoch N".
struct StepWords {
  std::string letters, pattern;
  int64_t epoch = 0;

  /// False where the text is no such thing.
  bool read(std::string_view text) {
    for (size_t at = 0; at < text.size(); ++at) {
      const char c = text[at];
      pattern += c;
      if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        letters += static_cast<char>(c | 0x20);
      } else if (is_decimal(c)) {
        if (!letters.ends_with("epoch")) return false;
        const auto read =
            std::from_chars(text.data() + at, text.data() + text.size(), epoch);
        if (read.ec != std::errc()) return false;
        at = static_cast<size_t>(read.ptr - text.data()) - 1;
        pattern.back() = 'N';
      } else if (kSeparators.find(c) == kSeparators.npos) {
        return false;
      }
    }
    return true;
  }
};

/// Names that say "a step" where they have no number: an optimizer's step or a
/// micro-batch is none.
bool is_step_word(std::string_view letters) {
  for (const std::string_view trains :
       {"training", "trainone", "train", "one"}) {
    if (!letters.starts_with(trains)) continue;
    letters.remove_prefix(trains.size());
    break;
  }
  return letters == "step" || letters == "iter" || letters == "iteration" ||
         letters == "batch";
}

/// Numbers that begin anew, as those of an epoch do, go on where they had come
/// to.
void continue_numbers(std::vector<StepRange>& ranges) {
  int64_t shift = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    const int64_t before = ranges[i - 1].number;
    const bool is_first = ranges[i].number == ranges.front().number ||
                          ranges[i].epoch > ranges[i - 1].epoch;
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

double time_of(const std::vector<StepRange>& ranges) {
  double sum_ns = 0;
  for (const StepRange& range : ranges)
    sum_ns += static_cast<double>(range.end_ns - range.start_ns);
  return sum_ns;
}

/// Whether ranges without a number are all that the program does from the first
/// to the last: a phase of the step would leave the others between them.
bool fill_their_time(const std::vector<StepRange>& ranges) {
  constexpr size_t kFewest = 3;
  constexpr double kMostOf = 0.8;
  const auto whole_ns =
      static_cast<double>(ranges.back().end_ns - ranges.front().start_ns);
  return ranges.size() >= kFewest && time_of(ranges) >= kMostOf * whole_ns;
}

/// Of one pattern, by start; none where they are no steps.
std::vector<StepRange> as_steps(std::vector<StepRange> ranges) {
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](const StepRange& a, const StepRange& b) {
                     return a.start_ns < b.start_ns;
                   });
  if (ranges.front().number >= 0) {
    continue_numbers(ranges);
  } else if (fill_their_time(ranges)) {
    int64_t number = 0;
    for (StepRange& range : ranges) range.number = ++number;
  }
  if (!in_sequence(ranges)) ranges.clear();
  return ranges;
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
  constexpr size_t kLongest = 48, kMostDigits = 9;
  if (name.size() > kLongest) return std::nullopt;
  name = up_to_number(name);
  const size_t before = name.find_last_not_of("0123456789");
  if (before == name.npos || name.size() - before - 1 > kMostDigits)
    return std::nullopt;
  const std::string_view digits = name.substr(before + 1);
  StepWords words;
  if (!words.read(name.substr(0, before + 1))) return std::nullopt;
  const std::string_view letters = words.letters;
  const bool names_step = digits.empty() ? is_step_word(letters)
                                         : letters.ends_with("step") ||
                                               letters.ends_with("iter") ||
                                               letters.ends_with("iteration") ||
                                               letters.ends_with("batch");
  if (!names_step) return std::nullopt;
  StepRange range{
      .pattern = std::move(words.pattern), .number = -1, .epoch = words.epoch};
  std::from_chars(digits.data(), digits.data() + digits.size(), range.number);
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

bool names_evaluation(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
      letters += static_cast<char>(c | 0x20);
  }
  return letters.find("eval") != letters.npos ||
         letters.find("valid") != letters.npos || letters.starts_with("test");
}

std::vector<StepRange> steps_among(const std::vector<StepRange>& candidates) {
  // Of training: numbered, or not; then of evaluation likewise.
  std::map<std::string_view, std::vector<StepRange>> patterns[4];
  for (const StepRange& range : candidates) {
    const int place =
        (names_evaluation(range.pattern) ? 2 : 0) + (range.number < 0 ? 1 : 0);
    patterns[place][range.pattern].push_back(range);
  }
  std::vector<StepRange> steps;
  for (auto& named : patterns) {
    for (auto& [pattern, ranges] : named) {
      std::vector<StepRange> these = as_steps(std::move(ranges));
      if (time_of(these) > time_of(steps)) steps = std::move(these);
    }
    if (!steps.empty()) break;
  }
  return steps;
}

}  // namespace reprise
