// Values of constants from their text.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>

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

/// Whether the word is an integer of `bits` bits.
template <typename T>
bool is_integer(std::string_view word, int bits) {
  T value = 0;
  const char* const end = word.data() + word.size();
  const auto parsed = std::from_chars(word.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return false;
  const int spare = std::numeric_limits<uint64_t>::digits - bits;
  const T most = std::numeric_limits<T>::max() >> spare;
  return value <= most && (std::is_unsigned_v<T> || value >= -most - 1);
}

/// False for a word that no element of the type can be.
bool can_hold(PrimitiveType type, std::string_view word) {
  const std::string_view name = primitive_type_name(type);
  if (type == PrimitiveType::kPred)
    return word == "true" || word == "false" || is_integer<uint64_t>(word, 1);
  if (name.starts_with('s'))
    return is_integer<int64_t>(word, primitive_type_bits(type));
  if (name.starts_with('u'))
    return is_integer<uint64_t>(word, primitive_type_bits(type));
  return true;
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
  if (parsed.ptr != end) return false;
  if (parsed.ec == std::errc::result_out_of_range) {
    // An infinity or a denormal, which from_chars leaves to the caller.
    *out = std::strtod(std::string(magnitude).c_str(), nullptr);
  } else if (parsed.ec != std::errc()) {
    return false;
  }
  if (negative) *out = -*out;
  return true;
}

bool is_separator(char c) {
  return c == ' ' || c == ',' || c == '{' || c == '}';
}

}  // namespace

Result<std::vector<std::string_view>> literal_words(
    const Instruction& constant) {
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
  std::vector<std::string_view> words;
  for (size_t i = 0; i < text.size();) {
    if (is_separator(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && !is_separator(text[end])) ++end;
    words.push_back(text.substr(i, end - i));
    i = end;
    double value = 0;
    if (can_hold(shape.type, words.back()) &&
        parse_number(words.back(), &value)) {
      continue;
    }
    return fail(ErrorKind::kInvalid,
                "constant `{}`: expected a number of type {}, found `{}`",
                constant.name, primitive_type_name(shape.type),
                words.back().substr(0, kMaxShown));
  }
  const int64_t expected = element_count(shape);
  if (static_cast<int64_t>(words.size()) != expected) {
    return fail(ErrorKind::kInvalid,
                "constant `{}`: expected {} values of {}, found {}",
                constant.name, expected, shape_text(shape, false),
                words.size());
  }
  return words;
}

Result<std::vector<double>> literal_values(const Instruction& constant) {
  const Result<std::vector<std::string_view>> words = literal_words(constant);
  if (!words) return tl::unexpected<Error>(words.error());
  std::vector<double> values(words->size());
  for (size_t i = 0; i < values.size(); ++i)
    parse_number((*words)[i], &values[i]);
  return values;
}

std::optional<int64_t> integer_constant(const Instruction& instruction) {
  if (instruction.opcode != Opcode::kConstant ||
      !instruction.shape.dimensions.empty())
    return std::nullopt;
  const auto values = literal_values(instruction);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!values || !(std::abs((*values)[0]) <= kExact) ||
      std::trunc((*values)[0]) != (*values)[0])
    return std::nullopt;
  return static_cast<int64_t>((*values)[0]);
}

}  // namespace reprise
