// Which rank an input is, when its content does not say so.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/result.h"
#include "data/trace/trace_spool.h"

namespace reprise {

/// Ranks from this number on are no ranks but timestamps or garbage.
constexpr uint32_t kLargestRank = 1 << 20;

/// An input whose ranks are to be known.
struct RankedInput {
  std::string name;  ///< "run/a.tar.gz:rank0.json".
  std::string kind;
  TraceSpool* spool = nullptr;
  /// Where to say that its rank is not told but taken from something else.
  std::vector<std::string>* missing = nullptr;
};

/// Gives every rank of every input its number: what the spools know already,
/// over it `overrides`, then names, as import_files says.
/// Errors: kInvalid, naming the inputs and the flag that helps.
Status assign_ranks(std::span<const RankedInput> inputs,
                    const std::map<std::string, uint32_t>& overrides);

/// The number behind "rank", "worker", "gpu" or "device" in a path ("rank-3",
/// "worker3"), or in front of ".et" ("chakra.3.et"); the innermost one counts.
std::optional<uint32_t> rank_in_name(std::string_view name);

/// For names that are equal but for one number: that number of each. Empty
/// when there is no such number or more than one.
std::vector<uint32_t> varying_numbers(std::span<const std::string> names);

/// Whether inputs of these kinds may describe the same rank.
bool kinds_join(std::string_view a, std::string_view b);

/// "0-7", "0,2,5-9".
std::string rank_list(std::vector<uint32_t> ranks);

}  // namespace reprise
