#include "runtime/cpu/routine_scratch.h"

#include <utility>

namespace reprise {

Status RoutineScratch::allocate() {
  if (size_bytes_ == 0) return {};
  Result<Arena> memory = Arena::create(size_bytes_);
  if (!memory) return pass(memory.error(), "scratch of routines");
  memory_.emplace(std::move(*memory));
  return {};
}

}  // namespace reprise
