#include "runtime/cuda/device_programs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/hlo/expand_convolution.h"
#include "data/hlo/expand_select_and_scatter.h"

namespace reprise {
namespace {

/// Of arrays beside each other.
constexpr int64_t kAlignmentBytes = 256;

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

int64_t bytes_of(PrimitiveType type, const ArrayExtents& shape) {
  return product(shape) * primitive_type_bits(type) / 8;
}

/// What has to be written anew for the library's order of dimensions.
int64_t arranged_bytes(const ArrangedConvolution& made) {
  const CanonicalConvolution& c = made.convolution;
  return (made.lhs ? bytes_of(c.type, c.lhs_shape()) : 0) +
         (made.rhs ? bytes_of(c.type, c.rhs_shape()) : 0) +
         (made.result ? bytes_of(c.type, c.result_shape()) : 0);
}

/// What stands for an instruction that the device has no routine for; nothing:
/// the host runs it.
std::optional<InlinedModule> expand_instruction(
    const Module& module, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kConvolution:
      return expand_convolution(module.entry_computation(), instruction);
    case Opcode::kSelectAndScatter:
      return expand_select_and_scatter(module, instruction);
    default:
      return std::nullopt;
  }
}

class Collector {
 public:
  Collector(const Schedule& step, const ConvolutionLibrary& library)
      : library_(library) {
    all_.kernels = step.kernels;
  }

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
    const Instruction& instruction =
        module.entry_computation().at(unit.routine.instruction);
    if (library_.takes && instruction.opcode == Opcode::kConvolution &&
        arrange(module.entry_computation(), instruction, schedule, unit))
      return;
    std::optional<InlinedModule> made = expand_instruction(module, instruction);
    if (!made) return;
    const auto program =
        lower_device_program(*std::move(made), unit.name, schedule.ranks);
    if (!program) return;  // The host runs it.
    all_.expanded[&unit] = take(*program);
    reserve((*program)->schedule.arena_bytes);
  }

  ExpandedRoutine take(const std::shared_ptr<const CalledProgram>& program) {
    const Schedule& schedule = program->schedule;
    ExpandedRoutine routine{program, all_.kernels.size()};
    all_.kernels.insert(all_.kernels.end(), schedule.kernels.begin(),
                        schedule.kernels.end());
    add(program->module, schedule);
    return routine;
  }

  void reserve(int64_t bytes) {
    all_.expansion_bytes = std::max(all_.expansion_bytes, bytes);
  }

  /// As the library has it; false where it takes neither order of dimensions.
  bool arrange(const Computation& entry, const Instruction& instruction,
               const Schedule& schedule, const Unit& unit) {
    std::vector<ArrangedConvolution> ways;
    for (const bool features_last : {true, false}) {
      auto made = arrange_convolution(entry, instruction, features_last);
      if (made) ways.push_back(*std::move(made));
    }
    std::ranges::stable_sort(ways, {}, [&](const ArrangedConvolution& way) {
      const bool is_unwanted =
          way.convolution.features_last &&
          library_.wants_features_first(way.convolution.type);
      return std::pair(is_unwanted, arranged_bytes(way));
    });
    for (ArrangedConvolution& way : ways) {
      if (library_.takes(way.convolution) &&
          add_library_routine(std::move(way), schedule, unit))
        return true;
    }
    return false;
  }

  bool add_library_routine(ArrangedConvolution way, const Schedule& schedule,
                           const Unit& unit) {
    std::array<std::shared_ptr<const CalledProgram>, 3> programs;
    const std::array made = {&way.lhs, &way.rhs, &way.result};
    int64_t needed = 0;
    for (size_t i = 0; i < made.size(); ++i) {
      if (!*made[i]) continue;
      const auto program =
          lower_device_program(*std::move(*made[i]), unit.name, schedule.ranks);
      if (!program) return false;
      programs[i] = *program;
      needed = std::max(needed, programs[i]->schedule.arena_bytes);
    }
    const CanonicalConvolution& c = way.convolution;
    LibraryRoutine routine;
    routine.convolution = c;
    const std::array parts = {&routine.lhs, &routine.rhs, &routine.result};
    const std::array offsets = {&routine.lhs_offset, &routine.rhs_offset,
                                &routine.result_offset};
    const std::array shapes = {c.lhs_shape(), c.rhs_shape(), c.result_shape()};
    int64_t end = aligned(needed);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (programs[i] == nullptr) continue;
      *parts[i] = take(programs[i]);
      *offsets[i] = end;
      end += aligned(bytes_of(c.type, shapes[i]));
    }
    reserve(end);
    all_.convolutions.emplace(&unit, std::move(routine));
    return true;
  }

  const ConvolutionLibrary& library_;
  DevicePrograms all_;
};

}  // namespace

DevicePrograms device_programs(const Module& module, const Schedule& step,
                               const ConvolutionLibrary& library) {
  Collector collector(step, library);
  collector.add(module, step);
  return collector.take();
}

}  // namespace reprise
