// Recording is on or off for the whole process, by one atomic that every record
// asks. Steps are told by the ranges that number them, or by the profiler API
// that the host program calls itself.
#include "profiler/inject/window.h"

#include <charconv>
#include <cstdlib>
#include <limits>

namespace reprise::inject {
namespace {

/// Longer names are no marks of steps.
constexpr size_t kLongestRange = 48;

/// Digits only, from the front; empty text is `otherwise`.
std::optional<int64_t> number(std::string_view text, int64_t otherwise) {
  if (text.empty()) return otherwise;
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole =
      error == std::errc() && end == text.data() + text.size() && value >= 0;
  return is_whole ? std::optional(value) : std::nullopt;
}

std::string_view digits_at_end(std::string_view text) {
  return text.substr(text.find_last_not_of("0123456789") + 1);
}

/// Letters and separators with the word "step" or "iter" in them.
bool is_step_word(std::string_view text) {
  std::string lower;
  for (const char letter : text) {
    const auto low = static_cast<char>(letter | 0x20);
    const bool is_letter = low >= 'a' && low <= 'z';
    const bool is_separator =
        std::string_view(" _#:=-[").find(letter) != std::string_view::npos;
    if (!is_letter && !is_separator) return false;
    lower += is_letter ? low : letter;
  }
  return lower.find("step") != std::string::npos ||
         lower.find("iter") != std::string::npos;
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace

std::optional<int64_t> step_number(std::string_view range,
                                   std::string_view chosen) {
  const std::string_view digits = digits_at_end(range);
  const std::string_view word = range.substr(0, range.size() - digits.size());
  if (!chosen.empty()) {
    if (!range.starts_with(chosen)) return std::nullopt;
    return number(digits_at_end(range.substr(chosen.size())), 0);
  }
  if (range.size() > kLongestRange || digits.empty() || !is_step_word(word)) {
    return std::nullopt;
  }
  return number(digits, 0);
}

void Window::read_environment() {
  chosen_range_ = variable("REPRISE_PROFILE_RANGE");
  if (variable("REPRISE_PROFILE_WINDOW") == "api") {
    mode_ = Mode::kProfilerApi;
    is_open_.store(false);
    has_opened_.store(false);
    return;
  }
  const std::string steps = variable("REPRISE_PROFILE_STEPS");
  const size_t colon = steps.find(':');
  if (colon == std::string::npos) return;
  const std::string_view text = steps;
  const auto first = number(text.substr(0, colon), 0);
  const auto end =
      number(text.substr(colon + 1), std::numeric_limits<int64_t>::max());
  if (!first || !end || *first >= *end) return;
  mode_ = Mode::kSteps;
  first_ = *first;
  end_ = *end;
  steps_ = steps;
  is_open_.store(holds(0));
  has_opened_.store(holds(0));
}

std::string Window::describe() const {
  if (mode_ == Mode::kAll) return {};
  std::string text = mode_ == Mode::kSteps ? "steps " : "cudaProfilerStart";
  text += steps_;
  if (!has_opened_.load()) {
    text += mode_ == Mode::kSteps
                ? ": never came, no step mark or range was in them"
                : ": never called";
  }
  return text;
}

bool Window::set_open(bool is_open) {
  if (is_open) has_opened_.store(true);
  return is_open_.exchange(is_open) != is_open;
}

bool Window::begin_step(int64_t step) {
  return takes_ranges() && set_open(holds(step));
}

bool Window::end_step(int64_t step) {
  return takes_ranges() && set_open(holds(step + 1));
}

bool Window::mark_step(int64_t step) {
  if (mode_ == Mode::kProfilerApi) return false;
  has_marks_.store(true);
  return set_open(holds(step + 1));
}

void Window::leave_out(int64_t first, int64_t end) {
  if (mode_ != Mode::kAll) return;
  first_ = first;
  end_ = end;
}

bool Window::profiler_range(bool starts) {
  return mode_ == Mode::kProfilerApi && set_open(starts);
}

std::optional<int64_t> Window::number_of(std::string_view name) {
  const auto found = step_number(name, chosen_range_);
  const bool is_numbered = !digits_at_end(name).empty();
  if (!found || is_numbered || chosen_range_.empty()) return found;
  return unnumbered_.fetch_add(1);
}

}  // namespace reprise::inject
