// One rule after the other, the surer first: what the user says, a number
// behind "rank", "worker", "gpu" or "device" in the path, names that are equal
// but for one number (a name becomes a skeleton with '#' for its numbers, and
// skeletons are compared), the other record of the same run, and last that one
// input alone is rank 0. Nothing is guessed beyond that: what stays unknown, or
// is claimed twice, is an error that names the flag.
#include "data/formats/ranks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <set>
#include <utility>

#include "data/formats/process_ranks.h"

namespace reprise {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)); }

/// The number at `at`, if digits stand there and a rank may be as large.
std::optional<uint32_t> number_at(std::string_view text, size_t at) {
  uint32_t value = 0;
  const char* const begin = text.data() + std::min(at, text.size());
  const auto [rest, error] =
      std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || value >= kLargestRank) return std::nullopt;
  return value;
}

std::optional<uint32_t> number_behind(std::string_view text,
                                      std::string_view word) {
  std::string lower(text);
  for (char& c : lower) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (size_t at = lower.find(word); at != std::string::npos;
       at = lower.find(word, at + 1)) {
    if (at > 0 && (is_letter(lower[at - 1]) || is_digit(lower[at - 1])))
      continue;
    size_t next = at + word.size();
    constexpr std::string_view kBetween = "-_. =";
    if (next < lower.size() && kBetween.find(lower[next]) != kBetween.npos)
      ++next;
    const size_t end =
        std::min(lower.find_first_not_of("0123456789", next), lower.size());
    if (end > next && (end == lower.size() || !is_letter(lower[end]))) {
      return number_at(lower, next);
    }
  }
  return std::nullopt;
}

// "chakra.3.et": the last part in front of the ending.
std::optional<uint32_t> number_before_et(std::string_view name) {
  if (!name.ends_with(".et")) return std::nullopt;
  name.remove_suffix(3);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size())
    return std::nullopt;
  const std::string_view digits = name.substr(dot + 1);
  if (!std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  return number_at(name, dot + 1);
}

/// A name cut at its numbers: the text with each number as one '#', and the
/// numbers as they are written.
struct Skeleton {
  std::string text;
  std::vector<std::string> numbers;
};

Skeleton skeleton_of(std::string_view name) {
  Skeleton skeleton;
  for (size_t i = 0; i < name.size();) {
    if (!is_digit(name[i])) {
      skeleton.text += name[i++];
      continue;
    }
    size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    skeleton.text += '#';
    skeleton.numbers.emplace_back(name.substr(i, end - i));
    i = end;
  }
  return skeleton;
}

/// Not steps or times: ranks, or some of them, begin low or follow each other.
bool may_be_ranks(const std::vector<uint32_t>& distinct) {
  const auto [least, most] =
      std::minmax_element(distinct.begin(), distinct.end());
  return *least < 4 * distinct.size() || *most - *least < distinct.size();
}

bool ends_at_border(const std::string& name, const std::string& end) {
  if (name == end) return true;
  if (end.empty() || !name.ends_with(end)) return false;
  const char before = name[name.size() - end.size() - 1];
  return before == '/' || before == ':';
}

/// Of an input's steps the first and the last.
struct Steps {
  int32_t first = 0, last = -1;
  bool empty() const { return last < first; }
};

Steps steps_of(const RankedInput& input) {
  Steps steps;
  for (const StepMark& mark : input.spool->steps()) {
    if (steps.empty()) steps = {mark.step, mark.step};
    steps.first = std::min(steps.first, mark.step);
    steps.last = std::max(steps.last, mark.step);
  }
  return steps;
}

bool overlap(const Steps& a, const Steps& b) {
  return !a.empty() && !b.empty() && a.first <= b.last && b.first <= a.last;
}

std::string text(const Steps& steps) {
  return steps.first == steps.last
             ? std::to_string(steps.first)
             : fmt::format("{} to {}", steps.first, steps.last);
}

class RankAssignment {
 public:
  RankAssignment(std::span<const RankedInput> inputs,
                 const std::map<std::string, uint32_t>& overrides)
      : overrides_(overrides) {
    for (const RankedInput& input : inputs) {
      if (input.spool->rank_count() > 0) inputs_.push_back(input);
    }
  }

  Status run() {
    forget_impossible();
    if (Status done = apply_overrides(); !done) return done;
    take_from_names();
    take_varying_numbers();
    take_from_partners();
    number_alone();
    if (Status known = check_known(); !known) return known;
    return check_distinct();
  }

 private:
  static uint32_t& number(const RankedInput& input, uint32_t local) {
    return input.spool->rank(local).rank;
  }
  static bool is_unknown(const RankedInput& input) {
    for (uint32_t i = 0; i < input.spool->rank_count(); ++i) {
      if (number(input, i) == kUnknownRank) return true;
    }
    return false;
  }
  static bool is_single_unknown(const RankedInput& input) {
    return input.spool->rank_count() == 1 && is_unknown(input);
  }
  static void set_from(const RankedInput& input, uint32_t first) {
    for (uint32_t i = 0; i < input.spool->rank_count(); ++i) {
      number(input, i) = first + i;
    }
  }

  // What cannot be a rank; and numbers of a part of the job, which tell nothing
  // where two processes have one.
  void forget_impossible() {
    std::map<uint32_t, std::pair<std::string, int64_t>> process_of;
    std::vector<uint32_t*> assumed;
    bool contradicted = false;
    for (const RankedInput& input : inputs_) {
      for (uint32_t i = 0; i < input.spool->rank_count(); ++i) {
        RankInfo& info = input.spool->rank(i);
        if (info.rank >= kLargestRank) info.rank = kUnknownRank;
        if (info.rank == kUnknownRank || !input.spool->is_assumed(i)) continue;
        const std::pair process(info.host, info.process);
        contradicted |=
            process_of.try_emplace(info.rank, process).first->second != process;
        assumed.push_back(&info.rank);
      }
    }
    if (!contradicted || number_processes(inputs_)) return;
    for (uint32_t* const rank : assumed) *rank = kUnknownRank;
  }

  Status apply_overrides() {
    for (const auto& [name, rank] : overrides_) {
      std::vector<const RankedInput*> found;
      for (const RankedInput& input : inputs_) {
        if (ends_at_border(input.name, name)) found.push_back(&input);
      }
      if (found.empty()) {
        return fail(ErrorKind::kInvalid,
                    "--rank {}={}: no input of that name has ranks", name,
                    rank);
      }
      if (found.size() > 1) {
        return fail(ErrorKind::kInvalid,
                    "--rank {}={}: both {} and {} are named so; give more of "
                    "the path",
                    name, rank, found[0]->name, found[1]->name);
      }
      set_from(*found[0], rank);
    }
    return {};
  }

  void take_from_names() {
    for (const RankedInput& input : inputs_) {
      if (!is_single_unknown(input)) continue;
      if (const auto rank = rank_in_name(input.name)) set_from(input, *rank);
    }
  }

  // Inputs of one kind that are named alike but for a number.
  void take_varying_numbers() {
    std::map<std::string, std::vector<const RankedInput*>> kinds;
    for (const RankedInput& input : inputs_) {
      if (is_single_unknown(input)) kinds[input.kind].push_back(&input);
    }
    for (const auto& [kind, members] : kinds) {
      std::vector<std::string> names;
      for (const RankedInput* input : members) names.push_back(input->name);
      const std::vector<uint32_t> numbers = varying_numbers(names);
      for (size_t i = 0; i < numbers.size(); ++i) {
        set_from(*members[i], numbers[i]);
      }
    }
  }

  // One input of a kind beside one of another kind that describes the same.
  void take_from_partners() {
    for (const RankedInput& input : inputs_) {
      if (!is_single_unknown(input) || count_of(input.kind) != 1) continue;
      for (const RankedInput& other : inputs_) {
        if (!kinds_join(input.kind, other.kind) || count_of(other.kind) != 1 ||
            other.spool->rank_count() != 1) {
          continue;
        }
        if (is_unknown(other)) number(other, 0) = 0;
        number(input, 0) = number(other, 0);
      }
    }
  }

  size_t count_of(const std::string& kind) const {
    return static_cast<size_t>(
        std::count_if(inputs_.begin(), inputs_.end(),
                      [&](const RankedInput& i) { return i.kind == kind; }));
  }

  // Nothing says a rank: one input is rank 0 and on, and so are several of
  // many ranks each (the devices of each host), in their order; of XLA's
  // profiles those of one device too, as they never say a rank.
  void number_alone() {
    const bool many_each = std::all_of(
        inputs_.begin(), inputs_.end(), [&](const RankedInput& input) {
          return input.kind == inputs_[0].kind &&
                 (input.spool->rank_count() > 1 || input.kind == "xplane");
        });
    if (inputs_.size() != 1 && !many_each) return;
    uint32_t next = 0;
    for (const RankedInput& input : inputs_) {
      for (uint32_t i = 0; i < input.spool->rank_count(); ++i) {
        if (number(input, i) != kUnknownRank) return;
      }
    }
    for (const RankedInput& input : inputs_) {
      set_from(input, next);
      next += input.spool->rank_count();
    }
  }

  Status check_known() const {
    std::vector<std::string> unknown;
    for (const RankedInput& input : inputs_) {
      if (is_unknown(input)) unknown.push_back(input.name);
    }
    if (unknown.empty()) return {};
    const std::string others =
        unknown.size() > 1 ? fmt::format(" and {} more", unknown.size() - 1)
                           : "";
    return fail(ErrorKind::kInvalid,
                "{}{}: neither the content nor the name says which rank this "
                "is; say so by `import --rank {}=N`",
                unknown[0], others, unknown[0]);
  }

  Status check_distinct() const {
    std::map<uint32_t, std::vector<const RankedInput*>> claims;
    for (const RankedInput& input : inputs_) {
      for (uint32_t i = 0; i < input.spool->rank_count(); ++i) {
        std::vector<const RankedInput*>& others = claims[number(input, i)];
        for (const RankedInput* other : others) {
          if (other->spool == input.spool ||
              kinds_join(other->kind, input.kind))
            continue;
          if (const auto repeated = repeats(*other); repeated.size() > 1)
            return other_steps(repeated);
          return fail(
              ErrorKind::kInvalid,
              "{} and {} are both of rank {}; import them into two "
              "traces, or give one of them its rank by `import --rank FILE=N`",
              other->name, input.name, number(input, i));
        }
        others.push_back(&input);
      }
    }
    return {};
  }

  /// All of the input's rank and kind, if each has steps that no other has.
  std::vector<const RankedInput*> repeats(const RankedInput& of) const {
    std::vector<const RankedInput*> same;
    for (const RankedInput& input : inputs_) {
      if (input.kind != of.kind || input.spool->rank_count() != 1 ||
          number(input, 0) != number(of, 0))
        continue;
      const Steps steps = steps_of(input);
      const bool apart =
          !steps.empty() &&
          std::none_of(same.begin(), same.end(), [&](const auto* other) {
            return overlap(steps, steps_of(*other));
          });
      if (!apart) return {};
      same.push_back(&input);
    }
    return same;
  }

  /// What schedule(repeat=) leaves: names the first repeat's files.
  tl::unexpected<Error> other_steps(
      const std::vector<const RankedInput*>& repeated) const {
    std::vector<std::string> told, first;
    for (const RankedInput* input : repeated) {
      told.push_back(
          fmt::format("{} (steps {})", input->name, text(steps_of(*input))));
    }
    const Steps steps = steps_of(*repeated.front());
    for (const RankedInput& input : inputs_) {
      if (overlap(steps, steps_of(input))) first.push_back(input.name);
    }
    constexpr size_t kShown = 4;
    for (std::vector<std::string>* names : {&told, &first}) {
      if (names->size() <= kShown) continue;
      names->resize(kShown);
      names->emplace_back("…");
    }
    return fail(ErrorKind::kInvalid,
                "{} are rank {} at other steps, as schedule(repeat=) leaves "
                "them: import the files of one repeat at a time: {}",
                fmt::join(told, ", "), number(*repeated.front(), 0),
                fmt::join(first, " "));
  }

  std::vector<RankedInput> inputs_;
  const std::map<std::string, uint32_t>& overrides_;
};

}  // namespace

bool kinds_join(std::string_view a, std::string_view b) {
  // Kinds that say different things of one run: what ran when, what depends
  // on what, which program it was.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2>
      kPartners = {{{"kineto", "pytorch-et"}, {"xplane", "hlo-proto"}}};
  return std::any_of(kPartners.begin(), kPartners.end(), [&](const auto& pair) {
    return pair == std::pair(a, b) || pair == std::pair(b, a);
  });
}

std::optional<uint32_t> rank_in_name(std::string_view name) {
  constexpr std::array<std::string_view, 4> kWords = {"rank", "worker", "gpu",
                                                      "device"};
  while (!name.empty()) {
    const size_t border = name.find_last_of("/:");
    const std::string_view part =
        border == std::string_view::npos ? name : name.substr(border + 1);
    for (const std::string_view word : kWords) {
      if (const auto rank = number_behind(part, word)) return rank;
    }
    if (const auto rank = number_before_et(part)) return rank;
    name = name.substr(0, border == std::string_view::npos ? 0 : border);
  }
  return std::nullopt;
}

std::vector<uint32_t> varying_numbers(std::span<const std::string> names) {
  if (names.size() < 2) return {};
  std::vector<Skeleton> skeletons;
  for (const std::string& name : names) skeletons.push_back(skeleton_of(name));
  std::vector<std::vector<uint32_t>> candidates;
  for (size_t place = 0; place < skeletons[0].numbers.size(); ++place) {
    std::vector<uint32_t> numbers;
    for (const Skeleton& skeleton : skeletons) {
      if (skeleton.text != skeletons[0].text) return {};
      const auto value = number_at(skeleton.numbers[place], 0);
      if (value) numbers.push_back(*value);
    }
    const std::set<uint32_t> distinct(numbers.begin(), numbers.end());
    if (distinct.size() == names.size()) candidates.push_back(numbers);
  }
  // A timestamp may vary too; ranks then are those that count from 0.
  std::vector<std::vector<uint32_t>> counting;
  for (const auto& numbers : candidates) {
    if (*std::max_element(numbers.begin(), numbers.end()) + 1 == names.size())
      counting.push_back(numbers);
  }
  // "HOST_PID.TIME.pt.trace.json" is tensorboard_trace_handler's.
  const bool is_process =
      skeletons[0].text.find("_#.#.pt.trace.json") != std::string::npos;
  if (candidates.size() == 1 && !is_process && may_be_ranks(candidates[0]))
    return candidates[0];
  return counting.size() == 1 ? counting[0] : std::vector<uint32_t>{};
}

Status assign_ranks(std::span<const RankedInput> inputs,
                    const std::map<std::string, uint32_t>& overrides) {
  return RankAssignment(inputs, overrides).run();
}

std::string rank_list(std::vector<uint32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
      ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", ranks[i])
                      : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace reprise
