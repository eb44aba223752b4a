// Distinct texts numbered in the order in which they came.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// A hash table with open addressing: one hash a lookup, nothing allocated for
/// a text that is there.
class StringTable {
 public:
  StringTable();

  /// Returns the number of `text`, a new one for a new text.
  uint32_t intern(std::string_view text);
  uint32_t size() const { return static_cast<uint32_t>(texts_.size()); }
  const std::string& text(uint32_t id) const { return texts_[id]; }
  const std::vector<std::string>& texts() const { return texts_; }
  /// Hands the texts over; the table is of no use afterwards.
  std::vector<std::string> take() && { return std::move(texts_); }

 private:
  struct Slot {
    uint32_t tag = 0;  ///< The upper half of the hash.
    uint32_t id = 0;   ///< From 1; 0: free.
  };
  void grow();

  std::vector<std::string> texts_;
  std::vector<Slot> slots_;  ///< A power of two, half full at most.
};

}  // namespace reprise
