#include "data/trace/string_table.h"

#include <functional>

namespace reprise {
namespace {

constexpr size_t kFirstSlots = 1024;

}  // namespace

StringTable::StringTable() : slots_(kFirstSlots) {}

uint32_t StringTable::intern(std::string_view text) {
  const size_t hash = std::hash<std::string_view>{}(text);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  size_t place = hash & mask;
  for (; slots_[place].id != 0; place = (place + 1) & mask) {
    const Slot& slot = slots_[place];
    if (slot.tag == tag && texts_[slot.id - 1] == text) return slot.id - 1;
  }
  texts_.emplace_back(text);
  const auto id = static_cast<uint32_t>(texts_.size());
  slots_[place] = {tag, id};
  if (texts_.size() * 2 > slots_.size()) grow();
  return id - 1;
}

void StringTable::grow() {
  slots_.assign(slots_.size() * 2, {});
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < texts_.size(); ++i) {
    const size_t hash = std::hash<std::string_view>{}(texts_[i]);
    size_t place = hash & mask;
    while (slots_[place].id != 0) place = (place + 1) & mask;
    slots_[place] = {static_cast<uint32_t>(hash >> 32),
                     static_cast<uint32_t>(i + 1)};
  }
}

}  // namespace reprise
