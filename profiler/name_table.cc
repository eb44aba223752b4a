// Open addressing over slots of 64 bits, half a hash and an id, each written
// once: a reader that finds its slot needs no lock, since texts never move or
// go away. New texts take the lock and are published by the slot's release
// store. All memory is reserved at once and touched only as it fills.
#include "profiler/name_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <functional>

namespace reprise {
namespace {

constexpr size_t kSlots = size_t{NameTable::kMaximumNames} * 2;
constexpr size_t kSlotBytes = kSlots * sizeof(uint64_t);

/// Zeroed pages that cost nothing until they are touched, and then 4 KiB each:
/// a huge page would be zeroed whole, on a thread of the host.
void* reserve(size_t bytes) {
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  ::madvise(pages, bytes, MADV_NOHUGEPAGE);
  return pages;
}

void append_u32(std::string* bytes, uint32_t value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

NameTable::NameTable() {
  slots_ = static_cast<std::atomic<uint64_t>*>(reserve(kSlotBytes));
  texts_ =
      static_cast<Text*>(reserve(sizeof(Text) * (size_t{kMaximumNames} + 1)));
  if (texts_ == nullptr && slots_ != nullptr) {
    ::munmap(slots_, kSlotBytes);
    slots_ = nullptr;
  }
}

NameTable::~NameTable() {
  if (slots_ != nullptr) ::munmap(slots_, kSlotBytes);
  if (texts_ != nullptr) {
    ::munmap(texts_, sizeof(Text) * (size_t{kMaximumNames} + 1));
  }
}

uint32_t NameTable::id(std::string_view text) {
  text = text.substr(0, kMaximumTextBytes);
  if (text.empty()) return 0;
  const auto hash =
      static_cast<uint32_t>(std::hash<std::string_view>{}(text) >> 16);
  if (const uint32_t known = find(text, hash); known != 0) return known;
  const std::lock_guard lock(mutex_);
  if (const uint32_t known = find(text, hash); known != 0) return known;
  return add(text, hash);
}

uint32_t NameTable::find(std::string_view text, uint32_t hash) const {
  for (size_t place = hash;; ++place) {
    const uint64_t slot =
        slots_[place & (kSlots - 1)].load(std::memory_order_acquire);
    if (slot == 0) return 0;
    if (static_cast<uint32_t>(slot >> 32) != hash) continue;
    const auto id = static_cast<uint32_t>(slot);
    if (text == std::string_view(texts_[id].bytes, texts_[id].size)) return id;
  }
}

uint32_t NameTable::add(std::string_view text, uint32_t hash) {
  if (last_id_ >= kMaximumNames ||
      storage_bytes_ + text.size() > kMaximumBytes) {
    return 0;
  }
  const std::string& kept = storage_.emplace_back(text);
  storage_bytes_ += kept.size();
  const uint32_t id = ++last_id_;
  texts_[id] = {.bytes = kept.data(), .size = kept.size()};
  size_t place = hash;  // Half of the slots at least stay empty.
  while (slots_[place & (kSlots - 1)].load(std::memory_order_relaxed) != 0) {
    ++place;
  }
  slots_[place & (kSlots - 1)].store(uint64_t{hash} << 32 | id,
                                     std::memory_order_release);
  return id;
}

void NameTable::take_new(std::string* payload) {
  payload->clear();
  const std::lock_guard lock(mutex_);
  if (taken_id_ == last_id_) return;
  append_u32(payload, taken_id_ + 1);
  append_u32(payload, last_id_ - taken_id_);
  for (; taken_id_ < last_id_; ++taken_id_) {
    const std::string& text = storage_[taken_id_];
    append_u32(payload, static_cast<uint32_t>(text.size()));
    payload->append(text);
  }
}

}  // namespace reprise
