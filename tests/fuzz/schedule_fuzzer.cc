// Any HLO text: an error that says why, or a schedule inside its arena, under
// the identity plan and under one group of all ops.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "data/hlo/hlo.h"
#include "data/schedule/schedule.h"

namespace {

using namespace reprise;

void check(const InlinedModule& module, const Plan& plan) {
  // A mutated extent may ask for terabytes; planning them costs nothing.
  const auto schedule = lower_schedule(module, plan);
  if (!schedule) {
    if (schedule.error().message.empty()) std::abort();
    return;
  }
  print_schedule(*schedule);
  for (const Buffer& buffer : schedule->buffers) {
    if (buffer.arena_offset < 0 || buffer.size_bytes < 0 ||
        buffer.arena_offset > schedule->arena_bytes - buffer.size_bytes)
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kLargest = 1 << 16;
  if (size > kLargest) return 0;
  const auto parsed = parse_hlo({reinterpret_cast<const char*>(data), size});
  if (!parsed) return 0;
  const auto module = inline_calls(*parsed);
  if (!module) return 0;
  Plan plan = identity_plan(*module, 2);
  check(*module, plan);
  FusionGroup all{.unit = "all", .ops = {}};
  for (const Instruction& op : module->entry_computation().instructions) {
    if (op.opcode != Opcode::kParameter && op.opcode != Opcode::kDot &&
        !is_collective(op.opcode))
      all.ops.push_back(op.name);
  }
  plan.fusion = {all};
  check(*module, plan);
  return 0;
}
