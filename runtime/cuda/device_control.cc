// While, conditional and what is expanded: schedules inside a unit, as on the
// CPU (runtime/cpu/loop_routines.cc), but the host walks them and the device
// runs what it enqueues. Passes of a known number are enqueued one after the
// other, so that a graph can hold them; else the host waits for the device's
// choice before each. Constants of called programs lie in memory of their own,
// which nothing else uses.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "data/schedule/called_program.h"
#include "runtime/cpu/constants.h"
#include "runtime/cuda/device_unit_calls.h"

namespace reprise {
namespace {

/// A called schedule bound to its memory.
class DeviceCallee {
 public:
  /// Of a loop or a conditional. Errors: those of units; kDevice.
  static Result<DeviceCallee> bind(const DeviceUnitContext& caller,
                                   const RoutineSpec& spec, size_t callee,
                                   const CalledPlaces& places,
                                   const DeviceArrays& arrays) {
    const RoutineCallee& called = spec.callees[callee];
    std::vector<int32_t> kernels;
    for (const int32_t kernel : called.kernels)
      kernels.push_back(caller.kernels[static_cast<size_t>(kernel)]);
    return bind(caller.resources, *called.program, std::move(kernels),
                arrays.workspace +
                    static_cast<CUdeviceptr>(workspace_begin(spec, callee)),
                places, arrays);
  }

  /// `kernels`: as DeviceUnitContext's. Errors: as above.
  static Result<DeviceCallee> bind(DeviceResources& resources,
                                   const CalledProgram& program,
                                   std::vector<int32_t> kernels,
                                   CUdeviceptr workspace,
                                   const CalledPlaces& places,
                                   const DeviceArrays& arrays) {
    DeviceUnitContext context{.resources = resources,
                              .module = program.module,
                              .schedule = program.schedule,
                              .kernels = std::move(kernels),
                              .buffers = {},
                              .is_step = false};
    for (const Buffer& buffer : program.schedule.buffers) {
      Result<CUdeviceptr> address =
          buffer.kind == BufferKind::kConstant ? add_constant(context, buffer)
          : buffer.kind == BufferKind::kParameter
              ? address_in(arrays, places.parameters.at(
                                       static_cast<size_t>(buffer.parameter)))
              : workspace + static_cast<CUdeviceptr>(buffer.arena_offset);
      if (!address) return pass(address.error());
      context.buffers.push_back(*address);
    }
    DeviceCallee bound;
    const Status status = bound.calls_.bind(context);
    if (!status) return pass(status.error());
    for (const OutputBinding& output : program.schedule.outputs) {
      bound.outputs_.push_back(
          {.base = context.address_of(output.location),
           .size_bytes = static_cast<size_t>(output.location.size_bytes)});
    }
    return bound;
  }

  Status enqueue(CUstream stream) const { return calls_.enqueue_all(stream); }
  int64_t operations() const { return calls_.operations(); }
  const std::vector<DeviceSpan>& outputs() const { return outputs_; }

 private:
  static CUdeviceptr address_in(const DeviceArrays& arrays,
                                CalledPlaces::Array array) {
    return (array.is_result ? arrays.results : arrays.operands)[array.number]
        .base;
  }

  static Result<CUdeviceptr> add_constant(const DeviceUnitContext& context,
                                          const Buffer& buffer) {
    DeviceResources& resources = context.resources;
    std::vector<std::byte> bytes(static_cast<size_t>(buffer.size_bytes));
    Status written = write_constant(
        context.module, context.module.entry_computation().at(buffer.constant),
        {.rank = resources.binding.rank, .ranks = context.schedule.ranks},
        bytes);
    if (!written) return pass(written.error());
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(resources.driver, bytes.size());
    if (!memory) return pass(memory.error(), "a constant");
    written = write_device(resources.driver, memory->address(), bytes,
                           resources.binding.timeout_s);
    if (!written) return pass(written.error());
    resources.constants.push_back(*std::move(memory));
    return resources.constants.back().address();
  }

  DeviceUnitCalls calls_;
  std::vector<DeviceSpan> outputs_;
};

/// Nothing where an array lies there already, or nothing reads the result.
struct DeviceCopy {
  DeviceSpan from, to;
  Status enqueue(const Driver& driver, CUstream stream) const {
    if (to.base == from.base || to.size_bytes == 0) return {};
    return driver.check(driver.copy_on_device_async(to.base, from.base,
                                                    from.size_bytes, stream),
                        "cuMemcpyDtoDAsync");
  }
};

std::vector<DeviceCopy> copies_of(const DeviceArrays& arrays,
                                  const CalledPlaces& places) {
  std::vector<DeviceCopy> copies;
  for (const CalledPlaces::Copy& copy : places.before) {
    copies.push_back({.from = arrays.operands[copy.operand],
                      .to = arrays.results[copy.result]});
  }
  return copies;
}

Status enqueue_copies(const std::vector<DeviceCopy>& copies,
                      const Driver& driver, CUstream stream) {
  Status status;
  for (const DeviceCopy& copy : copies) {
    if (status) status = copy.enqueue(driver, stream);
  }
  return status;
}

class DeviceLoop final : public DeviceRoutine {
 public:
  DeviceLoop(DeviceResources& resources, std::optional<int64_t> passes,
             std::vector<DeviceCopy> state, DeviceCallee condition,
             DeviceCallee body)
      : shared_(resources),
        passes_(passes),
        state_(std::move(state)),
        condition_(std::move(condition)),
        body_(std::move(body)) {
    shared_.reads_back |= !passes_;
  }

  Status enqueue(CUstream stream) override {
    Status status = enqueue_copies(state_, shared_.driver, stream);
    for (int64_t pass = 0; status; ++pass) {
      const Result<bool> goes_on = wants_pass(pass, stream);
      if (!goes_on) return reprise::pass(goes_on.error());
      if (!*goes_on) break;
      status = body_.enqueue(stream);
    }
    return status;
  }

  int64_t operations() const override {
    int64_t all = 0;
    return __builtin_mul_overflow(body_.operations(), passes_.value_or(1), &all)
               ? std::numeric_limits<int64_t>::max() / 2
               : all + static_cast<int64_t>(state_.size());
  }

 private:
  Result<bool> wants_pass(int64_t pass, CUstream stream) {
    if (passes_) return pass < *passes_;
    const Status asked = condition_.enqueue(stream);
    if (!asked) return reprise::pass(asked.error());
    const auto said =
        read_choice(shared_, condition_.outputs()[0].base, 1, stream);
    if (!said) return reprise::pass(said.error());
    return said->front() != std::byte{0};
  }

  DeviceResources& shared_;
  std::optional<int64_t> passes_;  ///< Where the program tells.
  std::vector<DeviceCopy> state_;
  DeviceCallee condition_, body_;
};

/// A branch, the state to be copied to the result before it runs, and results
/// to be copied after.
struct DeviceBranch {
  DeviceCallee program;
  std::vector<DeviceCopy> before, after;
};

class DeviceConditional final : public DeviceRoutine {
 public:
  DeviceConditional(DeviceResources& resources, DeviceSpan chooser,
                    bool is_predicate, std::vector<DeviceBranch> branches)
      : shared_(resources),
        chooser_(chooser),
        is_predicate_(is_predicate),
        branches_(std::move(branches)) {
    shared_.reads_back = true;
  }

  Status enqueue(CUstream stream) override {
    const auto choice =
        read_choice(shared_, chooser_.base, is_predicate_ ? 1 : 4, stream);
    if (!choice) return pass(choice.error());
    const DeviceBranch& branch = branches_[chosen(*choice)];
    Status status = enqueue_copies(branch.before, shared_.driver, stream);
    if (status) status = branch.program.enqueue(stream);
    if (status) status = enqueue_copies(branch.after, shared_.driver, stream);
    return status;
  }

  int64_t operations() const override {
    int64_t most = 0;
    for (const DeviceBranch& branch : branches_)
      most = std::max(most, branch.program.operations());
    return most;
  }

 private:
  /// True is the first of two; an index out of range is the last.
  size_t chosen(std::span<const std::byte> choice) const {
    if (is_predicate_) return (choice[0] != std::byte{0} ? 0 : 1);
    int32_t index = 0;
    std::memcpy(&index, choice.data(), sizeof index);
    const size_t last = branches_.size() - 1;
    return index < 0 || static_cast<size_t>(index) > last
               ? last
               : static_cast<size_t>(index);
  }

  DeviceResources& shared_;
  DeviceSpan chooser_;
  bool is_predicate_;
  std::vector<DeviceBranch> branches_;
};

/// One program in the place of a routine.
class DeviceExpansion final : public DeviceRoutine {
 public:
  DeviceExpansion(const Driver& driver, DeviceCallee program,
                  std::vector<DeviceCopy> after)
      : driver_(driver),
        program_(std::move(program)),
        after_(std::move(after)) {}

  Status enqueue(CUstream stream) override {
    const Status status = program_.enqueue(stream);
    return status ? enqueue_copies(after_, driver_, stream) : status;
  }
  int64_t operations() const override {
    return program_.operations() + static_cast<int64_t>(after_.size());
  }

 private:
  const Driver& driver_;
  DeviceCallee program_;
  std::vector<DeviceCopy> after_;
};

std::vector<DeviceCopy> result_copies(const DeviceCallee& program,
                                      const DeviceArrays& arrays) {
  std::vector<DeviceCopy> copies;
  for (size_t k = 0; k < arrays.results.size(); ++k) {
    copies.push_back({.from = program.outputs()[k], .to = arrays.results[k]});
  }
  return copies;
}

}  // namespace

DeviceArrays arrays_of(const DeviceUnitContext& context, const Unit& unit) {
  const Shape& shape =
      context.module.entry_computation().at(unit.routine.instruction).shape;
  DeviceArrays arrays;
  const auto span_of = [&](const Location& location) {
    return DeviceSpan{.base = context.address_of(location),
                      .size_bytes = static_cast<size_t>(location.size_bytes)};
  };
  for (const Location& location : unit.reads)
    arrays.operands.push_back(span_of(location));
  for (const Location& location : unit.writes)
    arrays.results.push_back(span_of(location));
  const size_t results = shape.is_tuple() ? shape.elements.size() : 1;
  if (arrays.results.size() > results) {
    arrays.workspace = arrays.results.back().base;
    arrays.results.pop_back();
  }
  return arrays;
}

Result<std::unique_ptr<DeviceRoutine>> make_expanded(
    DeviceResources& resources, const ExpandedRoutine& expanded,
    const DeviceArrays& arrays) {
  const CalledProgram& program = *expanded.program;
  CalledPlaces places;
  for (size_t n = 0; n < arrays.operands.size(); ++n)
    places.parameters.push_back({.is_result = false, .number = n});
  for (size_t k = 0; k < arrays.results.size(); ++k)
    places.parameters.push_back({.is_result = true, .number = k});
  std::vector<int32_t> kernels(program.schedule.kernels.size());
  std::iota(kernels.begin(), kernels.end(),
            static_cast<int32_t>(expanded.first_kernel));
  Result<DeviceCallee> bound = DeviceCallee::bind(
      resources, program, std::move(kernels), arrays.workspace, places, arrays);
  if (!bound) return pass(bound.error());
  std::vector<DeviceCopy> after = result_copies(*bound, arrays);
  return std::make_unique<DeviceExpansion>(resources.driver, *std::move(bound),
                                           std::move(after));
}

Result<std::unique_ptr<DeviceRoutine>> make_device_loop(
    const DeviceUnitContext& context, const Unit& unit) {
  const DeviceArrays arrays = arrays_of(context, unit);
  const Result<CalledPlaces> places =
      loop_places(unit.routine, arrays.operands.size(), arrays.results.size());
  if (!places) return pass(places.error());
  Result<DeviceCallee> condition =
      DeviceCallee::bind(context, unit.routine, 0, *places, arrays);
  if (!condition) return pass(condition.error());
  Result<DeviceCallee> body =
      DeviceCallee::bind(context, unit.routine, 1, *places, arrays);
  if (!body) return pass(body.error());
  return std::make_unique<DeviceLoop>(context.resources, unit.routine.trips,
                                      copies_of(arrays, *places),
                                      std::move(*condition), std::move(*body));
}

Result<std::unique_ptr<DeviceRoutine>> make_device_conditional(
    const DeviceUnitContext& context, const Unit& unit) {
  const Computation& entry = context.module.entry_computation();
  const Instruction& instruction = entry.at(unit.routine.instruction);
  const DeviceArrays arrays = arrays_of(context, unit);
  const bool is_predicate =
      entry.at(instruction.operands[0]).shape.type == PrimitiveType::kPred;
  std::vector<DeviceBranch> branches;
  for (size_t b = 0; b < unit.routine.callees.size(); ++b) {
    const Result<CalledPlaces> places = branch_places(
        unit.routine, b, arrays.operands.size(), arrays.results.size());
    if (!places) return pass(places.error());
    Result<DeviceCallee> program =
        DeviceCallee::bind(context, unit.routine, b, *places, arrays);
    if (!program) return pass(program.error());
    std::vector<DeviceCopy> after;
    for (size_t k = 0; k < arrays.results.size(); ++k)
      after.push_back({.from = program->outputs()[k], .to = arrays.results[k]});
    branches.push_back(
        {*std::move(program), copies_of(arrays, *places), std::move(after)});
  }
  if (branches.empty() || (is_predicate && branches.size() != 2)) {
    return fail(ErrorKind::kInvalid, "a conditional of {} branches",
                branches.size());
  }
  return std::make_unique<DeviceConditional>(
      context.resources, arrays.operands[0], is_predicate, std::move(branches));
}

}  // namespace reprise
