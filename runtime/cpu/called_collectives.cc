#include "runtime/cpu/called_collectives.h"

#include <utility>

namespace reprise {

void PartRecorder::begin_collective() {
  // The last part is no collective: a unit without parts is its own last.
  if (recorder_ == nullptr || part_ == last_) return;
  const int64_t now_ns = Recorder::now_ns();
  end_unit(now_ns);
  ++part_;
  start_ns_ = now_ns;
}

void PartRecorder::end_collective() {
  if (recorder_ == nullptr || part_ == last_) return;
  const int64_t now_ns = Recorder::now_ns();
  recorder_->record(stream_, EventKind::kCollective,
                    static_cast<int32_t>(part_), step_, start_ns_, start_ns_,
                    now_ns, -1);
  ++part_;
  start_ns_ = now_ns;
}

void PartRecorder::end_unit(int64_t end_ns) {
  if (recorder_ == nullptr) return;
  recorder_->record(stream_, EventKind::kCompute, static_cast<int32_t>(part_),
                    step_, start_ns_, start_ns_, end_ns, -1);
}

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
  among_->parts->begin_collective();
  const Status done =
      among_->communicator->run(unit_->collective, arrays_, tag());
  among_->parts->end_collective();
  if (done) return true;
  among_->error = {done.error().kind,
                   fmt::format("{}: {} (ranks must go through a loop that "
                               "communicates equally often)",
                               unit_->name, done.error().message)};
  return false;
}

}  // namespace reprise
