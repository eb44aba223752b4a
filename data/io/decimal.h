// Numbers of trace files as integers, read from their decimal text: a double
// cannot hold today's epoch in microseconds to the nanosecond.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise {

/// Times farther from zero are refused, so that the sum of two of them fits.
constexpr int64_t kLargestTimeNs = 4'000'000'000'000'000'000;

/// Returns nanoseconds for microseconds written as JSON number, in quotes or
/// not ("1712195495505583.0", "-1.5", "1.7e15"), rounded half away from zero.
/// Nothing for any other text ("inf", "N/A") and beyond kLargestTimeNs.
std::optional<int64_t> parse_microseconds(std::string_view text);

/// Returns a whole number in quotes or not; nothing for any other text and for
/// what an int64 cannot hold.
std::optional<int64_t> parse_integer(std::string_view text);

}  // namespace reprise
