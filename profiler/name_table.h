// Texts and their ids in one process shard: 1, 2, … in the order of first use;
// 0 is the empty text. Threads: any; a known text is found without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

namespace reprise {

class NameTable {
 public:
  static constexpr size_t kMaximumTextBytes = 4096;
  static constexpr uint32_t kMaximumNames = 1 << 20;
  static constexpr size_t kMaximumBytes = size_t{1} << 27;  ///< Of all texts.

  /// is_valid() is false without memory.
  NameTable();
  ~NameTable();
  NameTable(const NameTable&) = delete;
  NameTable& operator=(const NameTable&) = delete;
  bool is_valid() const { return slots_ != nullptr; }

  /// The id of `text`, cut to kMaximumTextBytes; 0 when the table is full.
  uint32_t id(std::string_view text);
  /// Moves the texts that are new since the last call to `payload`, as a
  /// kStrings segment has them; empty when there are none.
  void take_new(std::string* payload);

 private:
  /// A view that a reader may use once it has seen the id in a slot.
  struct Text {
    const char* bytes;
    size_t size;
  };
  uint32_t find(std::string_view text, uint32_t hash) const;
  uint32_t add(std::string_view text, uint32_t hash);

  std::atomic<uint64_t>* slots_ = nullptr;  ///< hash << 32 | id; 0 is empty.
  Text* texts_ = nullptr;                   ///< By id.
  std::mutex mutex_;                        ///< Of what follows.
  std::deque<std::string> storage_;         ///< Never moves its strings.
  size_t storage_bytes_ = 0;
  uint32_t last_id_ = 0;
  uint32_t taken_id_ = 0;
};

}  // namespace reprise
