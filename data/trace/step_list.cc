#include "data/trace/step_list.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/io/json_tree.h"

namespace reprise {
namespace {

using Json = nlohmann::json;
constexpr double kSecond = 1e9;
constexpr std::string_view kBlanks = " \t\r";

std::string_view next_word(std::string_view& line) {
  const size_t start = std::min(line.find_first_not_of(", \t\r"), line.size());
  line.remove_prefix(start);
  const std::string_view word =
      line.substr(0, std::min(line.find_first_of(", \t\r"), line.size()));
  line.remove_prefix(word.size());
  return word;
}

/// Nanoseconds of a unit; 0 of none.
double scale_of(std::string_view unit) {
  if (unit.empty() || unit == "s") return kSecond;
  if (unit == "ms") return 1e6;
  for (const std::string_view micro : {"us", "\u00b5s", "\u03bcs"})
    if (unit == micro) return 1e3;
  if (unit == "ns") return 1;
  return 0;
}

/// "12.3ms", or "12.3" with the unit as the next word of `rest`; 0 of none.
double time_of(std::string_view word, std::string_view& rest) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc()) return 0;
  std::string_view unit(end,
                        word.size() - static_cast<size_t>(end - word.data()));
  std::string_view ahead = rest;
  const std::string_view next = next_word(ahead);
  if (unit.empty() && scale_of(next) > 0 && !next.empty()) {
    unit = next;
    rest = ahead;
  }
  return value * scale_of(unit);
}

Result<StepList> parse_lines(std::string_view text, std::string_view file) {
  StepList list;
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const std::string_view word = next_word(line);
    if (word.empty()) continue;
    const double step = time_of(word, line);
    const std::string_view second = next_word(line);
    const bool refers = !second.empty();
    const double reference = refers ? time_of(second, line) : 1;
    if (!(step > 0) || !(reference > 0) ||
        line.find_first_not_of(kBlanks) != line.npos) {
      return fail(ErrorKind::kParse,
                  "{}:{}: expected a step's time above zero, such as 12.3 ms "
                  "(ns, us, ms or s), and a reference's behind it or nothing",
                  file, number);
    }
    if (!list.step_ns.empty() && refers == list.reference_ns.empty()) {
      return fail(ErrorKind::kParse,
                  "{}:{}: references stand in all lines or in none", file,
                  number);
    }
    list.step_ns.push_back(step);
    if (refers) list.reference_ns.push_back(reference);
  }
  return list;
}

/// Numbers of an array; nothing of anything else.
std::optional<std::vector<double>> numbers_of(const Json& array, double scale) {
  if (!array.is_array()) return std::nullopt;
  std::vector<double> numbers;
  for (const Json& each : array) {
    if (!each.is_number()) return std::nullopt;
    numbers.push_back(each.get<double>() * scale);
  }
  return numbers;
}

Result<StepList> parse_list_json(std::string_view text, std::string_view file) {
  const Result<Json> json = parse_json(text, file);
  if (!json) return pass(json.error());
  StepList list;
  std::optional<std::vector<double>> steps, references{std::in_place};
  if (json->is_array()) {
    steps = numbers_of(*json, kSecond);
  } else if (json->is_object()) {
    Json times = json->value("step_time_ns", Json());
    if (times.is_object()) times = times.value("all", Json());  // Our trainer.
    steps = numbers_of(times, 1);
    if (json->contains("reference_ns")) {
      references = numbers_of(json->at("reference_ns"), 1);
    }
    auto program = json->find("program_fingerprint");  // Our trainer's.
    if (program == json->end()) program = json->find("program");
    if (program != json->end() && program->is_string()) {
      list.program = program->get<std::string>();
    }
    const auto ranks = json->find("ranks");
    if (ranks != json->end() && ranks->is_number_integer()) {
      list.ranks = ranks->get<int64_t>();
    }
  }
  if (!steps || !references) {
    return fail(ErrorKind::kParse,
                "{}: expected an array of seconds, or an object with arrays "
                "step_time_ns and, if any, reference_ns",
                file);
  }
  list.step_ns = *std::move(steps);
  list.reference_ns = *std::move(references);
  return list;
}

}  // namespace

bool may_be_step_list(std::string_view head) {
  const size_t start = head.find_first_not_of(" \t\r\n");
  if (start == head.npos) return false;
  head.remove_prefix(start);
  const char first = head.front();
  if (first == '#' || first == '.' || (first >= '0' && first <= '9')) {
    return true;
  }
  if (first == '[') {
    head.remove_prefix(1);
    const size_t inner = head.find_first_not_of(" \t\r\n");
    return inner != head.npos && head[inner] >= '0' && head[inner] <= '9';
  }
  return first == '{' && head.find("\"step_time_ns\"") != head.npos &&
         head.find("\"traceEvents\"") == head.npos;
}

Result<StepList> parse_step_list(std::string_view text, std::string_view file) {
  const size_t start = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const bool json =
      start < text.size() && (text[start] == '[' || text[start] == '{');
  Result<StepList> list =
      json ? parse_list_json(text, file) : parse_lines(text, file);
  if (!list) return list;
  if (list->step_ns.empty()) {
    return fail(ErrorKind::kInvalid, "{}: it has no step", file);
  }
  return list;
}

}  // namespace reprise
