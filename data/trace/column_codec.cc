// Most columns of real traces hardly change from row to row, so runs are tried
// first. A column that turns out to have more than a run in four values goes on
// as varints, and what was gathered so far is written out once. Differences
// wrap around in 64 bits, so any values fit. Cost: one pass; one byte for a
// small value, four bytes a run.
#include "data/trace/column_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "data/integers.h"

namespace reprise {
namespace {

constexpr size_t kVarintBytes = 10;  // Of 64 bits, 7 a byte.

constexpr uint64_t zigzag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t unzigzag(uint64_t code) {
  return static_cast<int64_t>(code >> 1 ^ (~(code & 1) + 1));
}

/// Writes at `out`, which has room, and returns the place behind.
inline char* put_varint(char* out, uint64_t value) {
  if (value < 0x80) {
    *out = static_cast<char>(value);
    return out + 1;
  }
  if (value < uint64_t{1} << 28) {
    // Four groups of seven bits at once: no branch on how many there are.
    const auto low = static_cast<uint32_t>(value);
    uint32_t word = (low & 0x7f) | (low & 0x3f80) << 1 | (low & 0x1fc000) << 2 |
                    (low & 0xfe00000) << 3;
    const auto groups = static_cast<unsigned>(std::bit_width(low) + 6) / 7;
    word |= 0x80808080U >> (8 * (5 - groups));
    std::memcpy(out, &word, sizeof word);
    return out + groups;
  }
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

/// Takes one varint off the front; false when it is cut short or over 64 bits.
inline bool take_varint(std::string_view& bytes, uint64_t& value) {
  if (!bytes.empty() && static_cast<uint8_t>(bytes.front()) < 0x80) {
    value = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    return true;
  }
  value = 0;
  size_t used = 0;
  for (unsigned shift = 0; shift < 64 && used < bytes.size(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes[used++]);
    if (shift == 63 && byte > 1) return false;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      bytes.remove_prefix(used);
      return true;
    }
  }
  return false;
}

/// Varints that are whole within eight bytes, as long as so many are left: no
/// branch on how many there are. Returns how many were taken.
template <typename Take>
size_t take_short_varints(std::string_view& bytes, size_t most,
                          const Take& take) {
  constexpr uint64_t kMore = 0x8080808080808080;
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  size_t taken = 0;
  for (; taken < most && end - at >= 8; ++taken) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    if constexpr (std::endian::native == std::endian::big)
      word = __builtin_bswap64(word);
    const uint64_t ends = ~word & kMore;
    if (ends == 0) break;
    const int bits = std::countr_zero(ends) + 1;
    word &= ~kMore & (~uint64_t{0} >> (64 - bits));
    // Groups of seven bits, joined two by two.
    word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
    word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
    word = (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
    at += bits / 8;
    take(taken, word);
  }
  bytes.remove_prefix(static_cast<size_t>(at - bytes.data()));
  return taken;
}

}  // namespace

void ColumnEncoder::start(ColumnEncoding otherwise, bool may_run) {
  encoding_ = may_run ? ColumnEncoding::kRuns : otherwise;
  otherwise_ = otherwise;
  count_ = 0;
  previous_ = 0;
  runs_.clear();
  size_ = 0;
}

void ColumnEncoder::put(std::span<const int64_t> values) {
  if (encoding_ == ColumnEncoding::kRuns) {
    put_runs(values);
  } else {
    put_values(values);
  }
}

void ColumnEncoder::put_runs(std::span<const int64_t> values) {
  // A run takes about four bytes, a value one or two.
  constexpr uint64_t kValuesPerRun = 4, kFreeRuns = 64;
  for (size_t i = 0; i < values.size();) {
    const int64_t value = values[i];
    size_t end = i + 1;
    while (end < values.size() && values[end] == value) ++end;
    if (runs_.empty() || runs_.back().value != value)
      runs_.push_back({value, 0});
    runs_.back().count += end - i;
    i = end;
  }
  count_ += values.size();
  if (runs_.size() > kFreeRuns + count_ / kValuesPerRun) leave_runs();
}

void ColumnEncoder::leave_runs() {
  encoding_ = otherwise_;
  std::vector<int64_t> values;
  values.reserve(count_);
  for (const Run& run : runs_)
    values.insert(values.end(), run.count, run.value);
  runs_.clear();
  put_values(values);
}

char* ColumnEncoder::end_with_room(size_t values) {
  const size_t needed = size_ + values * kVarintBytes;
  if (needed > bytes_.size()) bytes_.resize(needed + needed / 2);
  return bytes_.data() + size_;
}

void ColumnEncoder::put_values(std::span<const int64_t> values) {
  char* out = end_with_room(values.size());
  if (encoding_ == ColumnEncoding::kDelta) {
    int64_t previous = previous_;
    for (const int64_t value : values) {
      out = put_varint(out, zigzag(wrapping_subtract(value, previous)));
      previous = value;
    }
    previous_ = previous;
  } else {
    for (const int64_t value : values) out = put_varint(out, zigzag(value));
  }
  size_ = static_cast<size_t>(out - bytes_.data());
}

std::string_view ColumnEncoder::finish() {
  if (encoding_ == ColumnEncoding::kRuns) {
    char* out = end_with_room(runs_.size() * 2);
    for (const Run& run : runs_) {
      out = put_varint(out, zigzag(run.value));
      out = put_varint(out, run.count);
    }
    size_ = static_cast<size_t>(out - bytes_.data());
  }
  return {bytes_.data(), size_};
}

size_t ColumnDecoder::take(std::span<int64_t> values) {
  return encoding_ == ColumnEncoding::kRuns ? take_runs(values)
                                            : take_values(values);
}

size_t ColumnDecoder::take_runs(std::span<int64_t> values) {
  size_t taken = 0;
  while (taken < values.size()) {
    if (run_left_ == 0) {
      uint64_t code = 0;
      if (!take_varint(bytes_, code) || !take_varint(bytes_, run_left_) ||
          run_left_ == 0) {
        break;
      }
      previous_ = unzigzag(code);
    }
    const size_t count = std::min<uint64_t>(run_left_, values.size() - taken);
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(taken), count,
                previous_);
    run_left_ -= count;
    taken += count;
  }
  return taken;
}

size_t ColumnDecoder::take_values(std::span<int64_t> values) {
  const bool is_delta = encoding_ == ColumnEncoding::kDelta;
  std::string_view bytes = bytes_;
  int64_t previous = previous_;
  const auto put = [&](size_t place, uint64_t code) {
    const int64_t value = wrapping_add(previous, unzigzag(code));
    values[place] = value;
    if (is_delta) previous = value;
  };
  size_t taken = 0;
  while (taken < values.size()) {
    const size_t first = taken;
    taken += take_short_varints(
        bytes, values.size() - first,
        [&](size_t place, uint64_t code) { put(first + place, code); });
    uint64_t code = 0;
    if (taken == values.size() || !take_varint(bytes, code)) break;
    put(taken++, code);
  }
  bytes_ = bytes;
  previous_ = previous;
  return taken;
}

size_t count_values(std::string_view bytes) {
  return static_cast<size_t>(
      std::count_if(bytes.begin(), bytes.end(),
                    [](char byte) { return (byte & 0x80) == 0; }));
}

}  // namespace reprise
