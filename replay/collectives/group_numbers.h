// Numbers groups of ranks: equal groups have one number, their place in a list.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace reprise {

/// Ranks, ascending and each once.
using RankGroup = std::vector<uint32_t>;

/// Of a list of distinct groups, to which it adds those that are new.
class GroupNumbers {
 public:
  /// `groups` must outlive this, and grow by it alone meanwhile.
  explicit GroupNumbers(std::vector<RankGroup>& groups) : groups_(groups) {
    for (const RankGroup& group : groups)
      numbers_.try_emplace(group, static_cast<int32_t>(numbers_.size()));
  }

  int32_t of(const RankGroup& group) {
    const auto [at, fresh] =
        numbers_.try_emplace(group, static_cast<int32_t>(groups_.size()));
    if (fresh) groups_.push_back(group);
    return at->second;
  }

 private:
  std::vector<RankGroup>& groups_;
  std::map<RankGroup, int32_t> numbers_;
};

}  // namespace reprise
