// The digits become a 64-bit integer and a power of ten, as far as 19 digits
// go, and a table of powers of ten scales it; no floating point anywhere, so
// that the same text gives the same nanosecond on every machine.
#include "data/io/decimal.h"

#include <array>
#include <limits>

namespace reprise {
namespace {

constexpr int kMostDigits = 19;  ///< That any uint64 holds.

constexpr auto kPowersOfTen = [] {
  std::array<uint64_t, kMostDigits + 1> powers{};
  powers[0] = 1;
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

/// mantissa * 10^exponent.
struct Decimal {
  uint64_t mantissa = 0;
  int exponent = 0;
  bool negative = false;
};

/// Digits from `at` on, with a point or without; false if there are none.
/// Digits that the mantissa has no room for only move the exponent.
bool read_digits(std::string_view text, size_t& at, Decimal& number) {
  int kept = 0;
  bool any = false, after_point = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !after_point) {
      after_point = true;
      continue;
    }
    if (!is_digit(c)) break;
    any = true;
    if (kept < kMostDigits) {
      number.mantissa = number.mantissa * 10 + static_cast<uint64_t>(c - '0');
      kept += number.mantissa != 0;
      number.exponent -= after_point;
    } else {
      if (!after_point && number.exponent < kMostDigits) ++number.exponent;
    }
  }
  return any;
}

/// An exponent from the 'e' at `at` on; false if it is malformed.
bool read_exponent(std::string_view text, size_t& at, Decimal& number) {
  constexpr int kHuge = 10'000;
  ++at;
  bool negative = false;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
    negative = text[at++] == '-';
  }
  if (at == text.size() || !is_digit(text[at])) return false;
  int exponent = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    if (exponent < kHuge) exponent = exponent * 10 + (text[at] - '0');
  }
  number.exponent += negative ? -exponent : exponent;
  return true;
}

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal number;
  size_t at = 0;
  if (!text.empty() && text[0] == '-') number.negative = ++at > 0;
  if (!read_digits(text, at, number)) return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E') &&
      !read_exponent(text, at, number)) {
    return std::nullopt;
  }
  if (at != text.size()) return std::nullopt;
  return number;
}

/// Plain digits with a point among them or none, as profilers print times; -1
/// for any other text.
int64_t parse_plain_microseconds(std::string_view text) {
  constexpr size_t kMostPlainDigits = 16;  // 64 bits hold their nanoseconds.
  uint64_t value = 0;
  size_t at = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    value = value * 10 + static_cast<uint64_t>(text[at] - '0');
  }
  if (at == 0 || at > kMostPlainDigits) return -1;
  size_t decimals = 0;
  if (at < text.size() && text[at] == '.') {
    for (++at; at < text.size() && is_digit(text[at]) && decimals < 3; ++at) {
      value = value * 10 + static_cast<uint64_t>(text[at] - '0');
      ++decimals;
    }
  }
  // Less than a nanosecond: its first digit decides.
  const bool up = at < text.size() && text[at] >= '5';
  while (decimals == 3 && at < text.size() && is_digit(text[at])) ++at;
  if (at != text.size()) return -1;
  value = value * kPowersOfTen[3 - decimals] + up;
  return value <= kLargestTimeNs ? static_cast<int64_t>(value) : -1;
}

}  // namespace

std::optional<int64_t> parse_microseconds(std::string_view text) {
  if (const int64_t time = parse_plain_microseconds(text); time >= 0) {
    return time;
  }
  const std::optional<Decimal> number = parse_decimal(unquoted(text));
  if (!number) return std::nullopt;
  const int exponent = number->exponent + 3;  // Nanoseconds.
  uint64_t value = number->mantissa;
  if (value == 0 || exponent < -kMostDigits) return 0;
  if (exponent > kMostDigits) return std::nullopt;
  if (exponent >= 0) {
    const uint64_t power = kPowersOfTen[static_cast<size_t>(exponent)];
    if (value > kLargestTimeNs / power) return std::nullopt;
    value *= power;
  } else {
    const uint64_t power = kPowersOfTen[static_cast<size_t>(-exponent)];
    value = value / power + (value % power >= power / 2);
  }
  if (value > kLargestTimeNs) return std::nullopt;
  const auto time = static_cast<int64_t>(value);
  return number->negative ? -time : time;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  text = unquoted(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > 19) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    if (!is_digit(c)) return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  const auto number = static_cast<int64_t>(value);
  return negative ? -number : number;
}

}  // namespace reprise
