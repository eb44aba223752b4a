// A column of integers as bytes: zigzag varints, plain or as differences, or
// runs of equal values. Byte layout: data/trace/format.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

enum class ColumnEncoding : uint8_t {
  kPlain = 0,  ///< zigzag(v[i])
  kDelta = 1,  ///< zigzag(v[i] - v[i-1]), v[-1] = 0, modulo 2^64
  kRuns = 2,   ///< zigzag(value), how many times (1 or more), and so on
};

/// Encodes one column of one segment, block by block. The bytes depend on the
/// values and the size of the blocks alone.
class ColumnEncoder {
 public:
  /// Starts a column that is written as runs as long as these are few
  /// (`may_run`), and as `otherwise` when not.
  void start(ColumnEncoding otherwise, bool may_run);
  void put(std::span<const int64_t> values);
  /// Ends the column; its bytes stay until the next start.
  std::string_view finish();
  ColumnEncoding encoding() const { return encoding_; }

 private:
  struct Run {
    int64_t value = 0;
    uint64_t count = 0;
  };
  void put_runs(std::span<const int64_t> values);
  void put_values(std::span<const int64_t> values);
  void leave_runs();
  /// The end of the bytes, with room for `values` more varints.
  char* end_with_room(size_t values);

  ColumnEncoding encoding_ = ColumnEncoding::kPlain;
  ColumnEncoding otherwise_ = ColumnEncoding::kPlain;
  uint64_t count_ = 0;    ///< Values so far.
  int64_t previous_ = 0;  ///< Last value, of kDelta.
  std::vector<Run> runs_;
  std::vector<char> bytes_;  ///< Room, used up to size_.
  size_t size_ = 0;
};

/// Decodes what ColumnEncoder wrote, from bytes that nobody vouches for.
class ColumnDecoder {
 public:
  ColumnDecoder(ColumnEncoding encoding, std::string_view bytes)
      : encoding_(encoding), bytes_(bytes) {}

  /// Fills `values` from the front; returns how many there were.
  size_t take(std::span<int64_t> values);
  /// Whether every value was taken.
  bool at_end() const { return bytes_.empty() && run_left_ == 0; }
  size_t bytes_left() const { return bytes_.size(); }

 private:
  size_t take_runs(std::span<int64_t> values);
  size_t take_values(std::span<int64_t> values);

  ColumnEncoding encoding_;
  std::string_view bytes_;
  int64_t previous_ = 0;
  uint64_t run_left_ = 0;
};

/// Returns how many values a kPlain or kDelta column holds.
size_t count_values(std::string_view bytes);

}  // namespace reprise
