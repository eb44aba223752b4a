#include "data/program/step_memory.h"

#include <set>

#include "data/hlo/hlo.h"
#include "data/manifest/infer.h"
#include "data/plan/plan.h"
#include "data/schedule/schedule.h"

namespace reprise {

Result<StepMemory> step_memory(const Module& module) {
  const Result<InlinedModule> inlined = inline_calls(module);
  if (!inlined) return tl::unexpected<Error>(inlined.error());
  const Result<Schedule> schedule =
      lower_schedule(*inlined, identity_plan(*inlined, ranks_of(*inlined)));
  if (!schedule) return tl::unexpected<Error>(schedule.error());
  StepMemory memory{.peak_bytes = schedule->arena_bytes,
                    .temporary_bytes = schedule->peak_temporary_bytes};
  for (const Buffer& buffer : schedule->buffers) {
    if (buffer.kind == BufferKind::kParameter)
      memory.parameter_bytes += buffer.size_bytes;
    if (buffer.kind == BufferKind::kConstant)
      memory.constant_bytes += buffer.size_bytes;
  }
  std::set<uint32_t> results;
  for (const OutputBinding& output : schedule->outputs) {
    const uint32_t id = index_of(output.location.buffer);
    const Buffer& buffer = schedule->buffers[id];
    if (buffer.kind == BufferKind::kTemporary && results.insert(id).second)
      memory.output_bytes += buffer.size_bytes;
  }
  return memory;
}

}  // namespace reprise
