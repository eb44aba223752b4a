// Dependencies of a schedule from what its units read and write.
#pragma once

#include <cstdint>
#include <vector>

#include "data/schedule/schedule.h"

namespace reprise {

/// Finds every dependency between units whose reads and writes touch the same
/// bytes of a buffer, taking the units' order as the meaning of the program:
/// read after write, write after read, write after write, and, for parameters,
/// the same into the next step (`steps` 1). Those that follow from others
/// through a write of the same bytes are left out. Sorted by (after, before,
/// steps), each once.
std::vector<Dependency> find_dependencies(const std::vector<Unit>& units,
                                          const std::vector<Buffer>& buffers);

/// By (after, before, steps), each once.
void sort_dependencies(std::vector<Dependency>* dependencies);

/// [unit] Most collectives of the step, one waiting for the other, that it
/// waits for. Those of one number may run as one.
std::vector<uint32_t> collectives_before(const Schedule& schedule);

}  // namespace reprise
