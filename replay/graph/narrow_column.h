// A column of integers that are nearly all small: each takes as little as
// `Small`, the few that do not fit stand aside. Where many do not fit, all are
// kept whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <unordered_map>
#include <vector>

namespace reprise {

template <typename Value, typename Small>
class NarrowColumn {
 public:
  NarrowColumn() = default;
  NarrowColumn(std::initializer_list<Value> values) {
    for (const Value value : values) push_back(value);
  }

  /// A place that can be assigned to.
  class Place {
   public:
    Place(NarrowColumn& column, size_t at) : column_(column), at_(at) {}
    Place(const Place&) = default;
    operator Value() const {  // NOLINT(google-explicit-constructor)
      return column_.get(at_);
    }
    Place& operator=(Value value) {
      column_.set(at_, value);
      return *this;
    }
    Place& operator=(const Place& other) { return *this = Value{other}; }
    Place& operator+=(Value value) { return *this = Value{*this} + value; }

   private:
    NarrowColumn& column_;
    size_t at_;
  };

  size_t size() const { return wide_.empty() ? small_.size() : wide_.size(); }
  bool empty() const { return size() == 0; }
  Value operator[](size_t at) const { return get(at); }
  Place operator[](size_t at) { return {*this, at}; }
  std::vector<Value> values() const {
    std::vector<Value> all(size());
    for (size_t at = 0; at < all.size(); ++at) all[at] = get(at);
    return all;
  }

  void reserve(size_t count) {
    if (wide_.empty()) small_.reserve(count);
  }
  size_t capacity() const {
    return wide_.empty() ? small_.capacity() : wide_.capacity();
  }
  void resize(size_t count) { assign(count, Value{}); }
  void assign(size_t count, Value value) {
    *this = {};
    small_.resize(count);
    if (value == Value{}) return;
    for (size_t at = 0; at < count; ++at) set(at, value);
  }
  void push_back(Value value) {
    if (!wide_.empty()) return wide_.push_back(value);
    const bool small = is_small(value);
    small_.push_back(small ? static_cast<Small>(value) : kAside);
    if (!small) put_aside(small_.size() - 1, value);
  }

 private:
  static constexpr Small kAside = std::numeric_limits<Small>::max();

  Value get(size_t at) const {
    if (!wide_.empty()) return wide_[at];
    const Small small = small_[at];
    return small == kAside ? aside_.find(at)->second : Value{small};
  }
  static bool is_small(Value value) {
    return value < Value{kAside} &&
           value >= Value{std::numeric_limits<Small>::min()};
  }
  [[gnu::always_inline]] void set(size_t at, Value value) {
    if (!wide_.empty()) {
      wide_[at] = value;
    } else if (is_small(value)) {
      small_[at] = static_cast<Small>(value);
    } else {
      put_aside(at, value);
    }
  }
  [[gnu::noinline]] void put_aside(size_t at, Value value) {
    small_[at] = kAside;
    aside_[at] = value;
    constexpr size_t kFew = 1024, kPart = 32;
    if (aside_.size() > kFew + small_.size() / kPart) widen();
  }
  void widen() {
    std::vector<Value> all;
    all.reserve(small_.capacity());
    for (size_t at = 0; at < small_.size(); ++at) all.push_back(get(at));
    *this = {};
    wide_ = std::move(all);
  }

  std::vector<Small> small_;
  std::vector<Value> wide_;  ///< All, where many are not small.
  std::unordered_map<size_t, Value> aside_;
};

/// Times in ticks: 32 bits are two seconds of nanoseconds.
using TickColumn = NarrowColumn<int64_t, int32_t>;

}  // namespace reprise
