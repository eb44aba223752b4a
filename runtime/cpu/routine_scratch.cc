#include "runtime/cpu/routine_scratch.h"

#include <utility>

#include "data/schedule/memory_plan.h"

namespace reprise {

Status ScratchMemory::allocate(const Schedule& schedule, std::byte* arena) {
  const IdleBytes idle(schedule);
  std::vector<RoutineScratch*> beside;
  for (size_t place = 0; place < units_.size(); ++place) {
    RoutineScratch& scratch = units_[place];
    if (scratch.size_bytes() == 0) continue;
    const int64_t offset =
        idle.find(static_cast<int64_t>(place),
                  static_cast<int64_t>(scratch.size_bytes()));
    if (offset >= 0) {
      scratch.place(arena + offset);
      continue;
    }
    beside.push_back(&scratch);
    size_bytes_ = std::max(size_bytes_, scratch.size_bytes());
  }
  if (beside.empty()) return {};
  Result<Arena> memory = Arena::create(size_bytes_);
  if (!memory) return pass(memory.error(), "scratch of routines");
  memory_.emplace(std::move(*memory));
  for (RoutineScratch* scratch : beside) scratch->place(memory_->data());
  return {};
}

}  // namespace reprise
