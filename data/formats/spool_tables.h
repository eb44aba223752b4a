// Ranks and streams that a reader adds to its spool when it first meets them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "data/trace/trace_spool.h"

namespace reprise {

/// The value of `key` in `map`; what `make()` returns when the key is new.
template <typename Map, typename Make>
typename Map::mapped_type& find_or_add(Map& map, typename Map::key_type key,
                                       const Make& make) {
  const auto [place, is_new] = map.try_emplace(std::move(key));
  if (is_new) place->second = make();
  return place->second;
}

/// Adds a rank whose number is not known yet, and returns its local one.
inline uint32_t add_unknown_rank(
    TraceSpool& spool, std::string clock_domain = RankInfo().clock_domain,
    int64_t process = 0) {
  RankInfo rank;
  rank.rank = kUnknownRank;
  rank.process = process;
  rank.clock_domain = std::move(clock_domain);
  return spool.add_rank(std::move(rank));
}

}  // namespace reprise
