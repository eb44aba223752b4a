// Callees are extracted as programs (data/hlo/routine.h) and lowered as any
// program is. A plan of the caller does not reach into them: their elementwise
// ops are fused by rule (called_fusion.h), their collectives joined by another
// (called_buckets.h).
#include "data/schedule/called_program.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "data/hlo/cost_analysis.h"
#include "data/hlo/hlo.h"
#include "data/hlo/routine.h"
#include "data/hlo/sort_key.h"
#include "data/kernel/lower_kernel.h"
#include "data/schedule/called_buckets.h"
#include "data/schedule/lane_function.h"
#include "data/schedule/memory_plan.h"
#include "data/schedule/schedule_cache.h"
#include "data/schedule/takeovers.h"

namespace reprise {
namespace {

bool calls_programs(Opcode opcode) {
  return opcode == Opcode::kWhile || opcode == Opcode::kConditional;
}

/// Routines that reduce many results side by side.
bool takes_lanes(Opcode opcode) {
  return opcode == Opcode::kReduce || opcode == Opcode::kReduceWindow;
}

/// Condition before body, select before scatter, branches by number, whatever
/// the text's order.
std::vector<ComputationId> callees_of(const Instruction& instruction) {
  constexpr std::string_view kNames[] = {"condition",
                                         "body",
                                         "true_computation",
                                         "false_computation",
                                         "branch_computations",
                                         "comparator",
                                         "to_apply",
                                         "select",
                                         "scatter"};
  std::vector<ComputationId> callees;
  for (const std::string_view name : kNames) {
    const Attribute* found = instruction.find_attribute(name);
    if (found == nullptr) continue;
    if (const auto* one = std::get_if<ComputationId>(&found->value)) {
      callees.push_back(*one);
    } else if (const auto* many =
                   std::get_if<std::vector<ComputationId>>(&found->value)) {
      callees.insert(callees.end(), many->begin(), many->end());
    }
  }
  return callees;
}

size_t output_count(const Module& module) {
  const Computation& entry = module.entry_computation();
  return entry.at(entry.root).operands.size();
}

/// Output k of a body replaces its parameter k.
std::vector<int32_t> each_its_own(const Module& body) {
  std::vector<int32_t> replaced(output_count(body));
  std::iota(replaced.begin(), replaced.end(), 0);
  return replaced;
}

/// `replaced`: [output] parameter, or -1.
void add_aliases(const std::vector<int32_t>& replaced, Module* module) {
  for (size_t k = 0; k < replaced.size(); ++k) {
    if (replaced[k] < 0) continue;
    module->aliases.push_back({.output_index = {static_cast<int64_t>(k)},
                               .parameter = replaced[k],
                               .parameter_index = {},
                               .must_alias = true});
  }
}

/// Every use of a buffer is one of `instead`. Requires: they are as large, and
/// used where no collective is.
void replace_buffers(const std::vector<BufferId>& instead, Schedule* schedule) {
  const auto replace = [&](Location& at) {
    at.buffer = instead[index_of(at.buffer)];
  };
  for (Unit& unit : schedule->units) {
    for (Location& at : unit.reads) replace(at);
    for (Location& at : unit.writes) replace(at);
    if (unit.kind != UnitKind::kLibrary) continue;
    for (MatrixView* view : {&unit.dot.lhs, &unit.dot.rhs, &unit.dot.out})
      replace(view->location);
    if (unit.dot.bias) replace(*unit.dot.bias);
    if (unit.dot.accumulate) replace(*unit.dot.accumulate);
  }
  for (uint32_t b = 0; b < instead.size(); ++b) {
    if (index_of(instead[b]) != b) schedule->buffers[b].size_bytes = 0;
  }
}

/// Makes a parameter of each output that fills a temporary of its own, and of
/// those that it is written over: what a loop begins with is made in place.
void move_outputs_to_caller(Schedule* branch) {
  const std::vector<LiveInterval> live = live_intervals(*branch);
  const Takeovers takeovers(*branch, live);
  std::vector<BufferId> instead;
  for (uint32_t b = 0; b < branch->buffers.size(); ++b)
    instead.push_back(BufferId{b});
  std::vector<int> bound(branch->buffers.size(), 0);
  for (const OutputBinding& output : branch->outputs)
    ++bound[index_of(output.location.buffer)];
  for (const OutputBinding& output : branch->outputs) {
    Buffer& buffer = branch->buffers[index_of(output.location.buffer)];
    if (buffer.kind != BufferKind::kTemporary ||
        bound[index_of(output.location.buffer)] > 1 ||
        output.location.size_bytes != buffer.size_bytes)
      continue;
    buffer.kind = BufferKind::kParameter;
    buffer.parameter =
        static_cast<int64_t>(branch->parameter_buffers.size()) + output.output;
    uint32_t over = takeovers.from()[index_of(output.location.buffer)];
    for (; over != Takeovers::kOwnBytes; over = takeovers.from()[over])
      instead[over] = output.location.buffer;
  }
  replace_buffers(instead, branch);
}

/// Payload of the collectives in one pass of a program; nothing where it has
/// none.
std::optional<int64_t> communicated_bytes(const CalledProgram& program) {
  std::optional<int64_t> bytes;
  for (const Unit& unit : program.schedule.units) {
    if (unit.kind == UnitKind::kCollective)
      bytes = bytes.value_or(0) + unit.collective.bytes;
    if (unit.routine.communicates)
      bytes = bytes.value_or(0) + unit.routine.communicated_bytes;
  }
  return bytes;
}

Result<std::shared_ptr<CalledProgram>> lower_program(InlinedModule module,
                                                     const std::string& caller,
                                                     int64_t ranks,
                                                     CalledFusion fusion) {
  auto program = std::make_shared<CalledProgram>();
  program->module = std::move(module);
  ScheduleCache cache;
  const Status opened = open_cache(program->module, &cache);
  if (!opened) return pass(opened.error(), caller);
  cache.called_fusion = fusion;
  const std::vector<ChosenBucket> joined = join_called(cache.graph, ranks);
  const auto lower = [&](std::vector<ChosenGroup> groups) {
    return lower_schedule(
        PlanChoice{
            .ranks = ranks, .fusion = std::move(groups), .buckets = joined},
        &cache, ParameterBytes::kElsewhere);
  };
  Result<Schedule> schedule = lower(fuse_called(cache.graph, fusion));
  // A group may still be more than one kernel can hold.
  if (!schedule && fusion == CalledFusion::kLaunches)
    schedule = lower(fuse_called(cache.graph, CalledFusion::kLoops));
  if (!schedule) schedule = lower({});
  if (!schedule) return pass(schedule.error(), caller);
  program->schedule = *std::move(schedule);
  return program;
}

/// Sets the kernel of a function and what its arguments are.
Status add_kernel(const InlinedModule& function, CalledProgram* program) {
  const Computation& entry = function.entry_computation();
  const std::vector<InstructionId>& outputs = entry.at(entry.root).operands;
  std::vector<InstructionId> ops;
  for (uint32_t i = 0; i < entry.instructions.size(); ++i) {
    const Opcode opcode = entry.instructions[i].opcode;
    if (opcode != Opcode::kParameter && !is_view(opcode))
      ops.push_back(InstructionId{i});
  }
  Result<Kernel> kernel = lower_kernel(function, ops, outputs);
  if (!kernel) return pass(kernel.error());
  size_t output = 0;
  program->arguments.clear();
  for (const KernelArgument& argument : kernel->arguments) {
    program->arguments.push_back(static_cast<int32_t>(
        argument.is_output ? static_cast<int64_t>(output++)
                           : entry.at(argument.instruction).parameter_number));
  }
  program->schedule.kernels = {*std::move(kernel)};
  return {};
}

/// `in_lanes`: for many results at once, where it can be.
Result<std::shared_ptr<CalledProgram>> lower_function(InlinedModule module,
                                                      const std::string& caller,
                                                      bool in_lanes) {
  auto program = std::make_shared<CalledProgram>();
  program->module = std::move(module);
  if (in_lanes) {
    const std::optional<InlinedModule> lanes = over_lanes(program->module);
    if (lanes && add_kernel(*lanes, program.get()) &&
        has_lanes(program->schedule.kernels[0]))
      return program;
  }
  if (Status made = add_kernel(program->module, program.get()); !made)
    return pass(made.error(), caller);
  return program;
}

RoutineCallee keyed(std::shared_ptr<CalledProgram> program) {
  for (const Kernel& kernel : program->schedule.kernels)
    program->kernel_keys.push_back(kernel_key(kernel));
  return {.program = std::move(program), .kernels = {}};
}

}  // namespace

Result<std::vector<RoutineCallee>> lower_callees(
    const InlinedModule& module, const Instruction& instruction, int64_t ranks,
    CalledFusion fusion, const std::vector<std::vector<int32_t>>& old_value) {
  const bool programs = calls_programs(instruction.opcode);
  const std::optional<ComputationId> body =
      called_computation(instruction, "body");
  std::vector<RoutineCallee> callees;
  for (const ComputationId id : callees_of(instruction)) {
    Result<InlinedModule> extracted = extract_computation(
        module, id, programs ? CalleeForm::kProgram : CalleeForm::kFunction);
    if (!extracted) return pass(extracted.error(), instruction.name);
    extracted->device = module.device;
    const bool is_branch = instruction.opcode == Opcode::kConditional;
    if (is_branch) add_aliases(old_value.at(callees.size()), &*extracted);
    if (body == std::optional(id))
      add_aliases(each_its_own(*extracted), &*extracted);
    auto program = programs
                       ? lower_program(*std::move(extracted), instruction.name,
                                       ranks, fusion)
                       : lower_function(*std::move(extracted), instruction.name,
                                        takes_lanes(instruction.opcode));
    if (!program) return pass(program.error());
    Schedule& schedule = (*program)->schedule;
    if (is_branch) {
      move_outputs_to_caller(&schedule);
      plan_memory(&schedule, kAlignmentBytes, ParameterBytes::kElsewhere);
    }
    callees.push_back(keyed(*std::move(program)));
  }
  if (instruction.opcode == Opcode::kSort && callees.size() == 1) {
    std::optional<InlinedModule> key = sort_key(callees[0].program->module);
    if (!key) return callees;
    auto function = lower_function(*std::move(key), instruction.name, true);
    if (function) callees.push_back(keyed(*std::move(function)));
  }
  return callees;
}

Result<std::shared_ptr<const CalledProgram>> lower_device_program(
    InlinedModule module, const std::string& caller, int64_t ranks) {
  Result<std::shared_ptr<CalledProgram>> program =
      lower_program(std::move(module), caller, ranks, CalledFusion::kLaunches);
  if (!program) return pass(program.error());
  Schedule& schedule = (*program)->schedule;
  move_outputs_to_caller(&schedule);
  plan_memory(&schedule, kAlignmentBytes, ParameterBytes::kElsewhere);
  return *std::move(program);
}

void add_communication(int64_t passes, RoutineSpec* routine) {
  for (size_t c = 0; c < routine->callees.size(); ++c) {
    const std::optional<int64_t> bytes =
        communicated_bytes(*routine->callees[c].program);
    if (!bytes) continue;
    routine->communicates = true;
    const bool is_last = c + 1 == routine->callees.size();
    int64_t all = 0;
    if (__builtin_mul_overflow(*bytes, is_last ? passes : 1, &all)) continue;
    routine->communicated_bytes = std::max(routine->communicated_bytes, all);
  }
}

int64_t workspace_begin(const RoutineSpec& routine, size_t callee) {
  int64_t begin = 0;
  for (size_t c = 0; routine.is_loop && c < callee; ++c)
    begin += routine.callees[c].program->schedule.arena_bytes;
  return begin;
}

int64_t workspace_bytes(const RoutineSpec& routine) {
  int64_t end = 0;
  for (size_t c = 0; c < routine.callees.size(); ++c) {
    end = std::max(end, workspace_begin(routine, c) +
                            routine.callees[c].program->schedule.arena_bytes);
  }
  return end;
}

Result<CalledPlaces> loop_places(const RoutineSpec& loop, size_t operands,
                                 size_t results) {
  if (loop.callees.size() != 2 || operands != results) {
    return fail(ErrorKind::kInvalid, "a while without condition or body");
  }
  CalledPlaces places;
  for (size_t k = 0; k < results; ++k) {
    places.parameters.push_back(
        {.is_result = !is_invariant(loop.callees[1].program->schedule, k),
         .number = k});
    places.before.push_back({.operand = k, .result = k});
  }
  return places;
}

Result<CalledPlaces> branch_places(const RoutineSpec& conditional,
                                   size_t branch, size_t operands,
                                   size_t results) {
  const CalledProgram& called = *conditional.callees[branch].program;
  size_t operand = 1;
  for (size_t b = 0; b < branch; ++b) {
    operand +=
        conditional.callees[b].program->schedule.parameter_buffers.size();
  }
  const size_t taken = called.schedule.parameter_buffers.size();
  if (called.schedule.outputs.size() != results || operand + taken > operands) {
    return fail(ErrorKind::kInvalid,
                "a branch that takes {} and gives {} arrays", taken,
                called.schedule.outputs.size());
  }
  CalledPlaces places;
  for (size_t n = 0; n < taken; ++n)
    places.parameters.push_back({.is_result = false, .number = operand + n});
  for (const InputOutputAlias& alias : called.module.aliases) {
    auto& place = places.parameters.at(static_cast<size_t>(alias.parameter));
    const auto result = static_cast<size_t>(alias.output_index.front());
    places.before.push_back({.operand = place.number, .result = result});
    place = {.is_result = true, .number = result};
  }
  for (size_t k = 0; k < results; ++k)
    places.parameters.push_back({.is_result = true, .number = k});
  return places;
}

std::string callees_text(const std::vector<RoutineCallee>& callees) {
  std::string text;
  for (const RoutineCallee& callee : callees) {
    const Schedule& schedule = callee.program->schedule;
    if (callee.program->is_function()) {
      text += " " + callee.program->kernel_keys.front();
      continue;
    }
    for (const Unit& unit : schedule.units) text += " " + unit.key;
    text += ';';
  }
  return text;
}

bool is_invariant(const Schedule& body, size_t number) {
  const BufferId buffer = body.parameter_buffers[number];
  return std::none_of(
      body.units.begin(), body.units.end(), [&](const Unit& unit) {
        return std::any_of(unit.writes.begin(), unit.writes.end(),
                           [&](const Location& location) {
                             return location.buffer == buffer;
                           });
      });
}

}  // namespace reprise
