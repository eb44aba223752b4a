// While and conditional: schedules inside a unit. A called schedule's
// parameters lie where the caller says, everything else in its workspace,
// constants written at each entry, since other units use that memory between.
// Collectives run in their places (called_collectives.h).
//
// Where their state lives, CalledPlaces says. Where a result lies over the
// step's parameter, the state is there already.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/schedule/called_program.h"
#include "runtime/cpu/constants.h"
#include "runtime/cpu/routine.h"
#include "runtime/cpu/unit_calls.h"

namespace reprise {
namespace {

/// A called schedule bound to its memory.
class BoundProgram {
 public:
  /// Errors: those of units.
  static Result<BoundProgram> bind(const RoutineCall& call, size_t callee,
                                   const CalledPlaces& places) {
    const RoutineCallee& called = call.spec.callees[callee];
    const CalledProgram& program = *called.program;
    const Schedule& schedule = program.schedule;
    BoundProgram bound;
    bound.entries_->caller = call.caller;
    UnitContext context{.module = program.module,
                        .schedule = schedule,
                        .kernels = {},
                        .buffers = {},
                        .scratch = call.scratch,
                        .team = call.team,
                        .rank = call.rank,
                        .collectives = call.collectives,
                        .entries = bound.entries_.get()};
    for (const int32_t kernel : called.kernels)
      context.kernels.push_back(call.kernels[static_cast<size_t>(kernel)]);
    // Of a program without temporaries the workspace may be nowhere.
    const int64_t begin = workspace_begin(call.spec, callee);
    for (const Buffer& buffer : schedule.buffers) {
      context.buffers.push_back(
          buffer.kind == BufferKind::kParameter
              ? first_byte(call, places.parameters.at(
                                     static_cast<size_t>(buffer.parameter)))
              : call.workspace.data() + (begin + buffer.arena_offset));
    }
    const Status constants = bound.add_constants(context);
    if (!constants) return pass(constants.error());
    for (const Unit& unit : schedule.units) {
      const Status status = bound.calls_.bind(context, unit);
      if (!status) return pass(status.error());
    }
    for (const OutputBinding& output : schedule.outputs)
      bound.outputs_.push_back(context.bytes_of(output.location));
    return bound;
  }

  /// To be called before the first run, as other units use the workspace.
  void enter() const {
    ++entries_->count;
    for (const Constant& constant : constants_) {
      std::memcpy(constant.to, constant.bytes.data(), constant.bytes.size());
    }
  }
  bool run() { return calls_.run_all(); }
  const std::vector<std::span<std::byte>>& outputs() const { return outputs_; }

 private:
  struct Constant {
    std::byte* to = nullptr;
    std::vector<std::byte> bytes;
  };

  static std::byte* first_byte(const RoutineCall& call,
                               CalledPlaces::Array array) {
    const auto& arrays = array.is_result ? call.results : call.operands;
    return arrays[array.number].data();
  }

  Status add_constants(const UnitContext& context) {
    for (size_t b = 0; b < context.buffers.size(); ++b) {
      const Buffer& buffer = context.schedule.buffers[b];
      if (buffer.kind != BufferKind::kConstant) continue;
      Constant constant{.to = context.buffers[b],
                        .bytes = std::vector<std::byte>(
                            static_cast<size_t>(buffer.size_bytes))};
      const Status written = write_constant(
          context.module,
          context.module.entry_computation().at(buffer.constant),
          {.rank = context.rank, .ranks = context.schedule.ranks},
          constant.bytes);
      if (!written) return written;
      constants_.push_back(std::move(constant));
    }
    return {};
  }

  /// Stays where it is when this moves.
  std::unique_ptr<ProgramEntries> entries_ = std::make_unique<ProgramEntries>();
  UnitCalls calls_;
  std::vector<Constant> constants_;
  std::vector<std::span<std::byte>> outputs_;
};

void copy_bytes(std::span<std::byte> from, std::span<std::byte> to) {
  // An empty result is one that nothing reads.
  if (to.data() != from.data() && !to.empty())
    std::memcpy(to.data(), from.data(), from.size());
}

/// State, from where it was to where a program replaces it.
struct StateCopy {
  std::span<std::byte> from, to;
};

std::vector<StateCopy> copies_of(const RoutineCall& call,
                                 const CalledPlaces& places) {
  std::vector<StateCopy> copies;
  for (const CalledPlaces::Copy& copy : places.before) {
    copies.push_back(
        {.from = call.operands[copy.operand], .to = call.results[copy.result]});
  }
  return copies;
}

class While final : public Routine {
 public:
  /// `trips`: how often the body runs, if that is known.
  While(std::vector<StateCopy> state, std::optional<int64_t> trips,
        BoundProgram condition, BoundProgram body)
      : state_(std::move(state)),
        trips_(trips),
        condition_(std::move(condition)),
        body_(std::move(body)) {}

  bool run() override {
    for (const StateCopy& state : state_) copy_bytes(state.from, state.to);
    body_.enter();
    for (int64_t trip = 0; trips_ && trip < *trips_; ++trip) {
      if (!body_.run()) return false;
    }
    if (trips_) return true;
    condition_.enter();
    for (;;) {
      if (!condition_.run()) return false;
      if (condition_.outputs()[0][0] == std::byte{0}) return true;
      if (!body_.run()) return false;
    }
  }

 private:
  std::vector<StateCopy> state_;
  std::optional<int64_t> trips_;
  BoundProgram condition_, body_;
};

/// A branch, and the state to be copied to the result before it runs.
struct Branch {
  BoundProgram program;
  std::vector<StateCopy> state;
};

class Conditional final : public Routine {
 public:
  Conditional(const RoutineCall& call, std::vector<Branch> branches)
      : chooser_(call.operands[0]),
        is_predicate_(call.operand_shape(0).type == PrimitiveType::kPred),
        results_(call.results),
        branches_(std::move(branches)) {}

  bool run() override {
    Branch& branch = branches_[chosen()];
    for (const StateCopy& state : branch.state)
      copy_bytes(state.from, state.to);
    branch.program.enter();
    if (!branch.program.run()) return false;
    for (size_t k = 0; k < results_.size(); ++k)
      copy_bytes(branch.program.outputs()[k], results_[k]);
    return true;
  }

 private:
  /// True is the first of two; an index out of range is the last.
  size_t chosen() const {
    if (is_predicate_) return chooser_[0] != std::byte{0} ? 0 : 1;
    int32_t index = 0;
    std::memcpy(&index, chooser_.data(), sizeof index);
    const size_t last = branches_.size() - 1;
    return index < 0 || static_cast<size_t>(index) > last
               ? last
               : static_cast<size_t>(index);
  }

  std::span<std::byte> chooser_;
  bool is_predicate_;
  std::vector<std::span<std::byte>> results_;
  std::vector<Branch> branches_;
};

}  // namespace

Result<std::unique_ptr<Routine>> make_while(const RoutineCall& call) {
  const Result<CalledPlaces> places =
      loop_places(call.spec, call.operands.size(), call.results.size());
  if (!places) return pass(places.error());
  Result<BoundProgram> condition = BoundProgram::bind(call, 0, *places);
  if (!condition) return pass(condition.error());
  Result<BoundProgram> body = BoundProgram::bind(call, 1, *places);
  if (!body) return pass(body.error());
  return std::make_unique<While>(copies_of(call, *places), call.spec.trips,
                                 std::move(*condition), std::move(*body));
}

Result<std::unique_ptr<Routine>> make_conditional(const RoutineCall& call) {
  std::vector<Branch> branches;
  for (size_t b = 0; b < call.spec.callees.size(); ++b) {
    const Result<CalledPlaces> places =
        branch_places(call.spec, b, call.operands.size(), call.results.size());
    if (!places) return pass(places.error());
    Result<BoundProgram> program = BoundProgram::bind(call, b, *places);
    if (!program) return pass(program.error());
    branches.push_back({*std::move(program), copies_of(call, *places)});
  }
  if (branches.empty() || (call.operand_shape(0).type == PrimitiveType::kPred &&
                           branches.size() != 2)) {
    return fail(ErrorKind::kInvalid, "a conditional of {} branches",
                branches.size());
  }
  return std::make_unique<Conditional>(call, std::move(branches));
}

}  // namespace reprise
