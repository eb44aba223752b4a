// Events as columns of integers, and columns as bytes: zigzag varints, plain or
// as differences. Byte layout and column list: data/trace/format.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/result.h"
#include "data/trace/trace.h"

namespace reprise {

/// Events of one segment at most.
constexpr size_t kSegmentEvents = 1 << 16;

enum class ColumnEncoding : uint8_t {
  kPlain = 0,  ///< zigzag(v[i])
  kDelta = 1,  ///< zigzag(v[i] - v[i-1]), v[-1] = 0, modulo 2^64
};

/// One column of the event table.
struct ColumnSpec {
  std::string_view name;
  ColumnEncoding encoding;
  /// Value of the column for an event.
  int64_t (*get)(const Event& event);
  /// Sets it; false when the value does not fit. Times relative to the start
  /// need the start set before.
  bool (*set)(Event& event, int64_t value);
};

/// All columns in their order in a segment; the start comes first.
std::span<const ColumnSpec> event_columns();

/// Appends the encoded values of one column over `events`.
std::string encode_column(const ColumnSpec& column,
                          std::span<const Event> events);

/// Returns how many values an encoded column holds.
size_t count_values(std::string_view bytes);

/// Sets one column of all `events`. Errors: kParse (cut short, trailing bytes,
/// a value that does not fit), without the file's name.
Status decode_column(const ColumnSpec& column, ColumnEncoding encoding,
                     std::string_view bytes, std::span<Event> events);

}  // namespace reprise
