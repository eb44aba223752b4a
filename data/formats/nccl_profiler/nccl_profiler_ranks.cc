#include "data/formats/nccl_profiler/nccl_profiler_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/formats/ranks.h"
#include "data/formats/spool_tables.h"

namespace reprise {

uint32_t NcclRanks::local(const std::string& communicator, int64_t rank,
                          int64_t size, bool* added) {
  Communicator& known = communicators_[communicator];
  known.size = std::max(known.size, size);
  if (added != nullptr) *added = !known.locals.contains(rank);
  return find_or_add(known.locals, rank,
                     [&] { return add_unknown_rank(spool_); });
}

/// By its stated size, else by its highest rank: a rank's number never is
/// higher in a part of the job than in all of it.
const NcclRanks::Communicator* NcclRanks::largest() const {
  const Communicator* best = nullptr;
  const auto weight = [](const Communicator& communicator) {
    return std::pair(communicator.size, communicator.locals.rbegin()->first);
  };
  for (const auto& [name, communicator] : communicators_) {
    if (best == nullptr || weight(communicator) > weight(*best))
      best = &communicator;
  }
  return best;
}

void NcclRanks::finish(FileReport& report) {
  const Communicator* world = largest();
  if (world == nullptr || world->size == 1) return;
  const auto number_of = [](int64_t rank) {
    return rank >= 0 && rank < kLargestRank ? static_cast<uint32_t>(rank)
                                            : kUnknownRank;
  };
  int64_t matched = 0;
  for (const auto& [name, communicator] : communicators_) {
    auto peer = world->locals.begin();
    for (const auto& [rank, local] : communicator.locals) {
      const bool paired = peer != world->locals.end();
      spool_.assume_rank(local, number_of(paired ? peer->first : rank));
      if (!paired) continue;
      RankInfo& same = spool_.rank(local);
      if (same.process == 0) {  // This record did not say.
        same.process = spool_.rank(peer->second).process;
        same.host = spool_.rank(peer->second).host;
      }
      ++peer;
    }
    matched += &communicator != world && world->locals.size() > 1;
  }
  if (matched > 0) {
    report.missing.push_back(fmt::format(
        "The process has {} ranks, and the file does not say which of them "
        "takes part in {} smaller communicators: matched in ascending order.",
        world->locals.size(), matched));
  }
}

}  // namespace reprise
