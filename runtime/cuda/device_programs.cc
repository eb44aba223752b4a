#include "runtime/cuda/device_programs.h"

#include <algorithm>
#include <utility>

#include "data/hlo/expand_convolution.h"

namespace reprise {
namespace {

class Collector {
 public:
  explicit Collector(const Schedule& step) { all_.kernels = step.kernels; }

  void add(const Module& module, const Schedule& schedule) {
    if (!all_.packed.try_emplace(&schedule).second) return;
    const size_t first_kernel = all_.kernels.size();
    PackedDots dots = pack_dots(schedule);
    for (const Kernel& kernel : dots.kernels) all_.kernels.push_back(kernel);
    all_.packed_bytes = std::max(all_.packed_bytes, dots.scratch_bytes);
    all_.packed[&schedule] = {std::move(dots), first_kernel};
    for (const Unit& unit : schedule.units) {
      for (const RoutineCallee& callee : unit.routine.callees) {
        if (!callee.program->is_function())
          add(callee.program->module, callee.program->schedule);
      }
      if (unit.kind == UnitKind::kRoutine) expand(module, schedule, unit);
    }
  }

  DevicePrograms take() { return std::move(all_); }

 private:
  void expand(const Module& module, const Schedule& schedule,
              const Unit& unit) {
    const Computation& entry = module.entry_computation();
    const Instruction& instruction = entry.at(unit.routine.instruction);
    if (instruction.opcode != Opcode::kConvolution) return;
    std::optional<InlinedModule> made = expand_convolution(entry, instruction);
    if (!made) return;
    const auto program =
        lower_device_program(*std::move(made), unit.name, schedule.ranks);
    if (!program) return;  // The host runs it.
    const Schedule& expansion = (*program)->schedule;
    all_.expanded[&unit] = {*program, all_.kernels.size()};
    all_.kernels.insert(all_.kernels.end(), expansion.kernels.begin(),
                        expansion.kernels.end());
    all_.expansion_bytes =
        std::max(all_.expansion_bytes, expansion.arena_bytes);
    add((*program)->module, expansion);
  }

  DevicePrograms all_;
};

}  // namespace

DevicePrograms device_programs(const Module& module, const Schedule& step) {
  Collector collector(step);
  collector.add(module, step);
  return collector.take();
}

}  // namespace reprise
