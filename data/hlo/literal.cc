// Values of constants from their text.
#include <charconv>
#include <limits>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

constexpr size_t kMaxShown = 40;

/// The text after an optional leading shape: `f32[2] {1, 2}` -> `{1, 2}`.
std::string_view without_shape(std::string_view literal) {
  const size_t brace = literal.find('{');
  const size_t bracket = literal.find('[');
  if (bracket == std::string_view::npos ||
      (brace != std::string_view::npos && brace < bracket)) {
    return literal;
  }
  const size_t space = literal.find(' ', bracket);
  return space == std::string_view::npos ? literal : literal.substr(space + 1);
}

bool parse_number(std::string_view word, double* out) {
  if (word == "true" || word == "false") {
    *out = word == "true" ? 1 : 0;
    return true;
  }
  const bool negative = word.starts_with('-');
  const std::string_view magnitude = negative ? word.substr(1) : word;
  if (magnitude.starts_with("nan")) {
    *out = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  if (magnitude.empty() || magnitude.starts_with('-')) return false;
  const char* end = magnitude.data() + magnitude.size();
  const auto parsed = std::from_chars(magnitude.data(), end, *out);
  if (parsed.ec == std::errc::result_out_of_range)
    *out = 0;  // Underflow of a denormal's text.
  if ((parsed.ec != std::errc() &&
       parsed.ec != std::errc::result_out_of_range) ||
      parsed.ptr != end) {
    return false;
  }
  if (negative) *out = -*out;
  return true;
}

bool is_separator(char c) {
  return c == ' ' || c == ',' || c == '{' || c == '}';
}

}  // namespace

Result<std::vector<double>> literal_values(const Instruction& constant) {
  const Shape& shape = constant.shape;
  if (!shape.is_array() || shape.type == PrimitiveType::kC64 ||
      shape.type == PrimitiveType::kC128) {
    return fail(ErrorKind::kUnsupported,
                "constant `{}`: values of type {} are not read", constant.name,
                shape_text(shape, false));
  }
  if (constant.literal.find("...") != std::string::npos) {
    return fail(ErrorKind::kUnsupported,
                "constant `{}`: its values are elided (`{{...}}`)",
                constant.name);
  }
  const std::string_view text = without_shape(constant.literal);
  const int64_t expected = element_count(shape);
  std::vector<double> values;
  for (size_t i = 0; i < text.size();) {
    if (is_separator(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && !is_separator(text[end])) ++end;
    const std::string_view word = text.substr(i, end - i);
    double value = 0;
    if (!parse_number(word, &value)) {
      return fail(ErrorKind::kInvalid,
                  "constant `{}`: expected a number, found `{}`", constant.name,
                  word.substr(0, kMaxShown));
    }
    values.push_back(value);
    i = end;
  }
  if (static_cast<int64_t>(values.size()) != expected) {
    return fail(ErrorKind::kInvalid,
                "constant `{}`: expected {} values of {}, found {}",
                constant.name, expected, shape_text(shape, false),
                values.size());
  }
  return values;
}

}  // namespace reprise
