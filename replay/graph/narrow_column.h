// A column of integers that are nearly all small: each takes as little as
// `Small`, and those that do not fit stand aside: in a map, and where they are
// many, in a second column.
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

  size_t size() const { return small_.size(); }
  bool empty() const { return small_.empty(); }
  Value operator[](size_t at) const { return get(at); }
  Place operator[](size_t at) { return {*this, at}; }
  std::vector<Value> values() const {
    std::vector<Value> all(size());
    for (size_t at = 0; at < all.size(); ++at) all[at] = get(at);
    return all;
  }

  void reserve(size_t count) { small_.reserve(count); }
  size_t capacity() const { return small_.capacity(); }
  void resize(size_t count) { small_.resize(count); }
  void assign(size_t count, Value value) {
    *this = {};
    small_.resize(count);
    if (value == Value{}) return;
    for (size_t at = 0; at < count; ++at) set(at, value);
  }
  void push_back(Value value) {
    small_.push_back(Small{});
    set(small_.size() - 1, value);
  }

 private:
  static constexpr Small kAside = std::numeric_limits<Small>::max();

  [[gnu::always_inline]] Value get(size_t at) const {
    const Small small = small_[at];
    return small == kAside ? look_aside(at) : Value{small};
  }
  static bool is_small(Value value) {
    return value < Value{kAside} &&
           value >= Value{std::numeric_limits<Small>::min()};
  }
  [[gnu::always_inline]] void set(size_t at, Value value) {
    if (is_small(value)) {
      small_[at] = static_cast<Small>(value);
    } else {
      put_aside(at, value);
    }
  }
  [[gnu::noinline]] Value look_aside(size_t at) const {
    return at < wide_.size() ? wide_[at] : aside_.find(at)->second;
  }
  [[gnu::noinline]] void put_aside(size_t at, Value value) {
    small_[at] = kAside;
    if (at < wide_.size()) {
      wide_[at] = value;
      return;
    }
    aside_[at] = value;
    constexpr size_t kFew = 1024, kPart = 32;
    if (aside_.size() <= kFew + small_.size() / kPart) return;
    wide_.resize(small_.capacity());
    for (const auto& [place, large] : aside_) wide_[place] = large;
    aside_.clear();
  }

  std::vector<Small> small_;
  std::vector<Value> wide_;  ///< Of the first so many, what stands aside …
  std::unordered_map<size_t, Value> aside_;  ///< … and of those behind.
};

/// Times in ticks: 32 bits are two seconds of nanoseconds.
using TickColumn = NarrowColumn<int64_t, int32_t>;

}  // namespace reprise
