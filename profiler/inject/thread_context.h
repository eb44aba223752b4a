// What a host thread is in the middle of: units of our trainer and NVTX ranges.
// Kept in the thread itself, in fixed room: no lock, no allocation.
#pragma once

#include <array>
#include <cstdint>

namespace reprise::inject {

/// A pushed NVTX range.
struct OpenRange {
  int64_t start_ns = 0;
  int64_t step = 0;              ///< Number of a range that marks one; or -1.
  const void* domain = nullptr;  ///< Ranges nest within their domain only.
  uint32_t name = 0;
  uint32_t info = 0;
};

/// A stack of fixed depth; what is pushed beyond is only counted.
template <typename Value, uint32_t kDepth>
class FixedStack {
 public:
  bool is_empty() const { return size_ == 0; }
  uint32_t depth() const { return size_ + beyond_; }
  const Value& top() const { return values_[size_ - 1]; }
  /// False when it is only counted.
  bool push(const Value& value) {
    if (size_ == kDepth) {
      ++beyond_;
      return false;
    }
    values_[size_++] = value;
    return true;
  }
  /// Takes out the topmost value for which `matches`; false without one.
  template <typename Matches>
  bool pop(const Matches& matches, Value* taken) {
    if (beyond_ > 0) {
      --beyond_;
      return false;
    }
    for (uint32_t place = size_; place > 0; --place) {
      if (!matches(values_[place - 1])) continue;
      *taken = values_[place - 1];
      for (; place < size_; ++place) values_[place - 1] = values_[place];
      --size_;
      return true;
    }
    return false;
  }
  void clear() { size_ = beyond_ = 0; }

 private:
  std::array<Value, kDepth> values_{};
  uint32_t size_ = 0;
  uint32_t beyond_ = 0;
};

/// A unit, and whether CUPTI was told of it.
struct OpenUnit {
  int64_t unit = 0;
  bool is_pushed = false;
};

struct ThreadContext {
  FixedStack<OpenUnit, 32> units;
  FixedStack<OpenRange, 64> ranges;
};

inline ThreadContext& this_thread() {
  static thread_local constinit ThreadContext context;
  return context;
}

}  // namespace reprise::inject
