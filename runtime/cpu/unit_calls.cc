#include "runtime/cpu/unit_calls.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "data/kernel/kernel_parts.h"

namespace reprise {
namespace {

DotMemory dot_memory(const UnitContext& context, const DotSpec& spec) {
  DotMemory memory{.lhs = context.bytes_of(spec.lhs.location).data(),
                   .rhs = context.bytes_of(spec.rhs.location).data(),
                   .out = context.bytes_of(spec.out.location).data()};
  if (spec.bias) memory.bias = context.bytes_of(*spec.bias).data();
  if (spec.accumulate)
    memory.accumulate = context.bytes_of(*spec.accumulate).data();
  return memory;
}

/// Whose parts lie where; see Unit::reads and writes of a routine.
RoutineCall routine_call(const UnitContext& context, const Unit& unit) {
  RoutineCall call{.entry = context.module.entry_computation(),
                   .instruction = context.module.entry_computation().at(
                       unit.routine.instruction),
                   .spec = unit.routine,
                   .operands = {},
                   .results = {},
                   .workspace = {},
                   .kernels = context.kernels,
                   .scratch = context.scratch,
                   .team = context.team,
                   .rank = context.rank,
                   .collectives = context.collectives,
                   .caller = context.entries};
  for (const Location& location : unit.reads)
    call.operands.push_back(context.bytes_of(location));
  for (const Location& location : unit.writes)
    call.results.push_back(context.bytes_of(location));
  const Shape& shape = call.instruction.shape;
  const size_t results = shape.is_tuple() ? shape.elements.size() : 1;
  if (call.results.size() > results) {
    call.workspace = call.results.back();
    call.results.pop_back();
  }
  return call;
}

Result<CalledCollective> called_collective(const UnitContext& context,
                                           const Unit& unit) {
  REPRISE_CHECK(context.entries != nullptr && context.collectives != nullptr);
  std::vector<ArrayBytes> arrays;
  for (const CollectiveArray& array : unit.collective.arrays) {
    arrays.push_back({context.bytes_of(array.input).data(),
                      context.bytes_of(array.output).data()});
  }
  return CalledCollective::bind(unit, std::move(arrays), *context.entries,
                                *context.collectives);
}

}  // namespace

/// One compute unit, bound to its memory.
struct UnitCalls::Call {
  enum class Kind : uint8_t { kKernel, kDot, kRoutine, kCollective, kCopy };
  Kind kind = Kind::kKernel;
  KernelCode code;
  size_t first_argument = 0;  ///< In arguments_.
  SharedParts shared;
  std::vector<std::pair<int64_t, int64_t>> ranges;  ///< [part] Of iterations.
  std::optional<DotCall> dot;
  std::vector<DotCall> dot_parts;
  std::unique_ptr<Routine> routine;
  std::optional<CalledCollective> collective;
  std::byte* target = nullptr;  ///< kCopy.
  const std::byte* source = nullptr;
  size_t size_bytes = 0;
};

UnitCalls::UnitCalls() = default;
UnitCalls::~UnitCalls() = default;
UnitCalls::UnitCalls(UnitCalls&&) noexcept = default;
UnitCalls& UnitCalls::operator=(UnitCalls&&) noexcept = default;

Status UnitCalls::bind(const UnitContext& context, const Unit& unit) {
  Result<Call> call = make_call(context, unit);
  if (!call) return pass(call.error(), unit.name);
  const Status shared = share(context, unit, &*call);
  if (!shared) return pass(shared.error(), unit.name);
  calls_.push_back(std::move(*call));
  return {};
}

Result<UnitCalls::Call> UnitCalls::make_call(const UnitContext& context,
                                             const Unit& unit) {
  Call call;
  switch (unit.kind) {
    case UnitKind::kKernel: {
      call.code = context.kernels[static_cast<size_t>(unit.kernel)];
      call.first_argument = arguments_.size();
      for (const auto* locations : {&unit.reads, &unit.writes}) {
        for (const Location& location : *locations)
          arguments_.push_back(context.bytes_of(location).data());
      }
      return call;
    }
    case UnitKind::kLibrary: {
      call.kind = Call::Kind::kDot;
      Result<DotCall> dot = dots_.bind(unit.dot, dot_memory(context, unit.dot));
      if (!dot) return pass(dot.error());
      call.dot = std::move(*dot);
      return call;
    }
    case UnitKind::kRoutine: {
      call.kind = Call::Kind::kRoutine;
      Result<std::unique_ptr<Routine>> routine =
          make_routine(routine_call(context, unit));
      if (!routine) return pass(routine.error());
      call.routine = std::move(*routine);
      return call;
    }
    case UnitKind::kCopy:
      REPRISE_CHECK(unit.reads.size() == 1 && unit.writes.size() == 1);
      call.kind = Call::Kind::kCopy;
      call.source = context.bytes_of(unit.reads[0]).data();
      call.target = context.bytes_of(unit.writes[0]).data();
      call.size_bytes = context.bytes_of(unit.writes[0]).size();
      return call;
    case UnitKind::kCollective: {
      call.kind = Call::Kind::kCollective;
      Result<CalledCollective> collective = called_collective(context, unit);
      if (!collective) return pass(collective.error());
      call.collective = *collective;
      return call;
    }
  }
  return fail(ErrorKind::kUnsupported, "a unit of no kind");
}

/// Of a kernel's parts, each whose share is worth it in several ranges; whole
/// where one of them could overwrite what the next begins with.
std::vector<size_t> UnitCalls::share_kernel(const SharedWork& team,
                                            double estimate_ns,
                                            Call* call) const {
  const KernelParts parts = kernel_parts(*call->code.kernel);
  const std::vector<KernelArgument>& arguments = call->code.kernel->arguments;
  for (const int32_t read : parts.read_always) {
    const size_t first = call->first_argument;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].is_output &&
          arguments_[first + i] ==
              arguments_[first + static_cast<size_t>(read)])
        return {1};
    }
  }
  std::vector<size_t> stages;
  for (const KernelPart& part : parts.parts) {
    const int64_t extent = part.end - part.begin;
    const auto count = static_cast<int64_t>(
        team.parts(estimate_ns * part.share, static_cast<size_t>(extent)));
    stages.push_back(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      call->ranges.emplace_back(part.begin + extent * i / count,
                                part.begin + extent * (i + 1) / count);
    }
  }
  return stages;
}

/// Kernels are split along outer loops, whose iterations are independent, dots
/// along rows, columns or matrices: never along a sum.
Status UnitCalls::share(const UnitContext& context, const Unit& unit,
                        Call* call) {
  const double estimate_ns = SharedWork::estimate_ns(unit);
  std::vector<size_t> stages{1};
  if (unit.kind == UnitKind::kKernel) {
    stages = share_kernel(context.team, estimate_ns, call);
  } else if (unit.kind == UnitKind::kLibrary &&
             context.team.parts(estimate_ns, SIZE_MAX) > 1) {
    Result<std::vector<DotCall>> dots =
        dots_.bind_parts(unit.dot, dot_memory(context, unit.dot),
                         context.team.team->size(), context.team.trials);
    if (!dots) return pass(dots.error());
    call->dot_parts = std::move(*dots);
    stages = {std::max<size_t>(call->dot_parts.size(), 1)};
  }
  call->shared = SharedParts(context.team, std::move(stages));
  return {};
}

size_t UnitCalls::size() const { return calls_.size(); }

bool UnitCalls::run_part(const Call& call, size_t part) const {
  if (call.kind == Call::Kind::kDot) return call.dot_parts[part].run();
  const auto [begin, end] = call.ranges[part];
  call.code.run(arguments_.data() + call.first_argument, begin, end);
  return true;
}

bool UnitCalls::run(size_t place) { return run(calls_[place]); }

bool UnitCalls::run_all() {
  return std::ranges::all_of(calls_, [&](Call& call) { return run(call); });
}

/// Of what no thread shares, as most of a loop's small units, the call alone.
bool UnitCalls::run(Call& call) {
  return call.shared.is_whole() ? run_whole(call) : run_shared(call);
}

bool UnitCalls::run_shared(Call& call) {
  return call.shared.run([&] { return run_whole(call); },
                         [&](size_t part) { return run_part(call, part); });
}

bool UnitCalls::run_whole(const Call& call) const {
  switch (call.kind) {
    case Call::Kind::kKernel:
      call.code.run(arguments_.data() + call.first_argument);
      return true;
    case Call::Kind::kDot:
      return call.dot->run();
    case Call::Kind::kRoutine:
      return call.routine->run();
    case Call::Kind::kCollective:
      return call.collective->run();
    case Call::Kind::kCopy:
      std::memcpy(call.target, call.source, call.size_bytes);
      return true;
  }
  return false;
}

}  // namespace reprise
