#include "data/formats/process_ranks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace reprise {
namespace {

// Whether all of its ranks, one a communicator, are taken for the same one.
bool is_one_rank(TraceSpool& spool) {
  for (uint32_t i = 0; i < spool.rank_count(); ++i) {
    if (!spool.is_assumed(i) || spool.rank(i).rank != spool.rank(0).rank ||
        spool.rank(i).process != spool.rank(0).process)
      return false;
  }
  return spool.rank_count() > 0;
}

}  // namespace

bool number_processes(std::span<const RankedInput> inputs) {
  std::map<std::string, size_t> hosts;
  // By the place of its host among these, and its number.
  std::map<std::pair<size_t, int64_t>, const RankedInput*> processes;
  for (const RankedInput& input : inputs) {
    if (!input.kind.starts_with("nccl-") || !is_one_rank(*input.spool))
      return false;
    const RankInfo& info = input.spool->rank(0);
    const size_t host =
        hosts.try_emplace(info.host, hosts.size()).first->second;
    if (info.process <= 0 ||
        !processes.try_emplace({host, info.process}, &input).second)
      return false;
  }
  uint32_t next = 0;
  for (const auto& [process, input] : processes) {
    for (uint32_t i = 0; i < input->spool->rank_count(); ++i)
      input->spool->rank(i).rank = next;
    ++next;
    if (input->missing == nullptr) continue;
    input->missing->push_back(
        "The file knows places in communicators, not the rank in the job: "
        "ranks are numbered by host and process.");
  }
  return true;
}

}  // namespace reprise
