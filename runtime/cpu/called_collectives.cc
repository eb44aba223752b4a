#include "runtime/cpu/called_collectives.h"

#include <utility>

namespace reprise {

Result<CalledCollective> CalledCollective::bind(const Unit& unit,
                                                std::vector<ArrayBytes> arrays,
                                                const ProgramEntries& entries,
                                                CalledCollectives& among) {
  REPRISE_CHECK(among.communicator != nullptr);
  const Status runs = among.communicator->check(unit.collective);
  if (!runs) return pass(runs.error(), unit.name);
  CalledCollective bound;
  bound.unit_ = &unit;
  bound.arrays_ = std::move(arrays);
  bound.entries_ = &entries;
  bound.among_ = &among;
  bound.number_ = ++among.bound;
  return bound;
}

uint32_t CalledCollective::tag() const {
  // FNV-1a over words. Source: draft-eastlake-fnv.
  uint32_t hash = 2166136261U;
  const auto add = [&](uint32_t word) { hash = (hash ^ word) * 16777619U; };
  add(number_);
  for (const ProgramEntries* at = entries_; at != nullptr; at = at->caller)
    add(at->count);
  return hash;
}

bool CalledCollective::run() const {
  const Status done =
      among_->communicator->run(unit_->collective, arrays_, tag());
  if (done) return true;
  among_->error = {done.error().kind,
                   fmt::format("{}: {} (ranks must go through a loop that "
                               "communicates equally often)",
                               unit_->name, done.error().message)};
  return false;
}

}  // namespace reprise
