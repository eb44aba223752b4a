// A schedule: a program lowered under a plan. The same value feeds the
// replayer, the optimizer and the runtime: what is predicted is what is run.
//
// Units stand in execution order (the plan's `order`; every stream runs its
// subsequence in order). Dependencies may reach into the next step (`steps` 1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/collective/collective.h"
#include "data/hlo/module.h"
#include "data/hlo/opcode.h"
#include "data/kernel/kernel.h"
#include "data/manifest/manifest.h"
#include "data/plan/dot_epilogue.h"
#include "data/plan/plan_choice.h"
#include "data/result.h"
#include "data/schedule/routine_spec.h"

namespace reprise {

/// Index of a unit in its schedule = its place in the order.
enum class UnitId : uint32_t {};
enum class BufferId : uint32_t {};
constexpr uint32_t index_of(UnitId id) { return static_cast<uint32_t>(id); }
constexpr uint32_t index_of(BufferId id) { return static_cast<uint32_t>(id); }

enum class UnitKind : uint8_t {
  kKernel,      ///< A generated kernel.
  kLibrary,     ///< A dot with its epilogue (oneDNN, cuBLASLt).
  kRoutine,     ///< One op that no kernel computes.
  kCollective,  ///< A bucket, or a chunk of one.
  kCopy,        ///< Plain bytes from one location to another.
};
enum class Stream : uint8_t { kCompute = 0, kCommunication = 1 };

/// Bytes in a buffer.
struct Location {
  BufferId buffer{};
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
  bool operator==(const Location&) const = default;
};

enum class BufferKind : uint8_t {
  /// Lives across steps: state (updated in place) or a batch tensor.
  kParameter,
  kConstant,   ///< Written once: a literal, or the number of the device.
  kTemporary,  ///< Shares arena bytes with others by live interval.
};

struct Buffer {
  BufferKind kind = BufferKind::kTemporary;
  int64_t size_bytes = 0;
  int64_t arena_offset = 0;  ///< 64-byte aligned.
  int64_t parameter = -1;    ///< kParameter: its number.
  InstructionId constant{};  ///< kConstant: the literal's instruction.
};

/// One operand of a library dot as a strided batch of matrices over its
/// location.
struct MatrixView {
  Location location;
  std::vector<int64_t> dimensions;  ///< (batch…, rows, columns).
  std::vector<int64_t> strides;     ///< Elements.
};
/// out[b, m, n] = activation(alpha * sum_k lhs[b, m, k] * rhs[b, k, n]
///                           + bias[n] + accumulate[b, m, n]),
/// where every step after the sum is rounded to `result_type` on its own, in
/// this order; what is absent is left out.
struct DotSpec {
  PrimitiveType type = PrimitiveType::kF32;         ///< Of lhs and rhs.
  PrimitiveType result_type = PrimitiveType::kF32;  ///< `type`, or f32.
  MatrixView lhs, rhs, out;
  float alpha = 1;
  bool multiply_add = false;  ///< alpha and the first addend round together.
  std::optional<Location> bias = std::nullopt;  ///< Dense, one for each column.
  /// In the dimensions and strides of `out`.
  std::optional<Location> accumulate = std::nullopt;
  DotActivation activation = DotActivation::kNone;

  bool is_plain() const {
    return alpha == 1 && !bias && !accumulate &&
           activation == DotActivation::kNone;
  }
};

/// Where one of the operands that a unit communicates lies, and its result; one
/// and the same where it runs in place.
struct CollectiveArray {
  Location input, output;
};

/// What one unit communicates. Rank r of a group has its part r.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Reduction reduction = Reduction::kSum;  ///< Where the kind reduces.
  PrimitiveType type = PrimitiveType::kF32;
  int64_t elements = 0;  ///< Of the payload, the larger of the two buffers.
  int64_t bytes = 0;     ///< Of the same.
  /// Ranks that meet, each group in the order of its parts. A rank in none
  /// neither waits nor has others wait for it; see fills_with_zeros.
  std::vector<std::vector<int64_t>> groups;
  /// Of a permute: from which rank to which.
  std::vector<std::pair<int64_t, int64_t>> pairs;
  /// One, or of a bucket whose members do not share a buffer, its members.
  std::vector<CollectiveArray> arrays;
  int32_t bucket = -1;  ///< Place in the plan's buckets, or -1.
  int32_t chunk = 0;
};

struct Unit {
  std::string name;  ///< Plan's name: instruction, "f0", "b0", "b0#1".
  UnitRef ref;       ///< What the plan calls it by id.
  UnitKind kind = UnitKind::kKernel;
  Stream stream = Stream::kCompute;
  /// Of the inlined entry computation; views left out.
  std::vector<InstructionId> ops;
  std::string key;  ///< Structural key: equal keys cost the same.
  double flops = 0;
  double bytes = 0;  ///< Memory traffic (kernel_traffic.h).
  /// For a kernel, in order of its arguments; for a routine, of its operands'
  /// and its result's arrays, where a last write is its workspace.
  std::vector<Location> reads, writes;
  int32_t kernel = -1;        ///< kKernel: index in Schedule::kernels.
  DotSpec dot;                ///< kLibrary.
  RoutineSpec routine;        ///< kRoutine.
  CollectiveSpec collective;  ///< kCollective.
};

/// `before` must have ended before `after` starts, `steps` steps later.
struct Dependency {
  UnitId before{}, after{};
  uint32_t steps = 0;
  /// For the sake of memory and by the order alone: another order has others.
  bool paces = false;
  bool operator==(const Dependency&) const = default;
};

/// Where the value of an entry output or parameter lives.
struct OutputBinding {
  int64_t output = 0;
  Location location;
};

struct Schedule {
  std::string program_fingerprint;
  int64_t ranks = 1;
  std::vector<Unit> units;
  /// One for each distinct kernel text, those of callees included.
  std::vector<Kernel> kernels;
  /// Sorted by (after, before, steps), each once.
  std::vector<Dependency> dependencies;
  std::vector<Buffer> buffers;
  std::vector<BufferId> parameter_buffers;  ///< By parameter number.
  /// By output; state outputs alias their parameter.
  std::vector<OutputBinding> outputs;
  int64_t arena_bytes = 0;
  int64_t peak_temporary_bytes = 0;
};

struct ScheduleCache;
/// Where parameters lie: in the schedule's arena, or, of a program that a
/// routine calls, where the caller says.
enum class ParameterBytes : uint8_t { kHere, kElsewhere };

/// Lowers a program under a plan, which is checked as by
/// `validate_plan` but for its fingerprint.
///
/// - Order: the plan's, or else default_order's, where an update of a parameter
///   waits for the parameter's other readers. All-gathers keep their place in
///   it: one starts no sooner than the computing unit before it, so that bytes
///   of those that are read are free for those to come. On one rank, where
///   nobody waits for another, and in called programs, whose collectives run in
///   their places, that of memory_order takes the place of the text's where it
///   takes fewer bytes.
/// - A bytewise collective (is_bytewise), or a rank's gather or scatter with
///   itself alone, runs in place, any other from its operand to a buffer of its
///   own, also in a bucket. Its producer writes an operand straight into the
///   collective's buffer; a bytewise one's parameter, or what others read too,
///   is copied there by a unit `copy:COLLECTIVE[:OPERAND]` just before the
///   collective (its first chunk that needs it). Members of a bucket are
///   64-byte aligned; padding between them is reduced with whatever it holds
///   and never read.
/// - State outputs are written into the parameter that they alias when every
///   other reader of the old value runs before; else into a temporary that a
///   unit `update:OUTPUT` copies at the end. An output that is the old value
///   of a parameter which the step updates is first copied, by a unit
///   `output:OUTPUT` at the start. A plan's order may name these copies; their
///   places stay.
/// - Temporaries share arena bytes when every use of one has ended before any
///   use of the other starts, whatever the two streams' relative speed.
/// - Dependencies with `steps` 1 cover parameters; temporaries count on a
///   barrier between steps.
///
/// `cache`, if given, keeps the analysis of the program and lowered kernels
/// between calls. It serves one module (which must stay where it is) and one
/// thread at a time. Errors: kUnsupported naming the first instruction that
/// cannot run; kInvalid for a plan that contradicts the program, and for a
/// group that cannot be one kernel, naming it and why.
Result<Schedule> lower_schedule(const InlinedModule& inlined, const Plan& plan,
                                ScheduleCache* cache = nullptr);

/// The same of a plan by ids, for the program that `cache` has been opened for.
/// The schedule carries no fingerprint.
Result<Schedule> lower_schedule(
    const PlanChoice& plan, ScheduleCache* cache,
    ParameterBytes parameters = ParameterBytes::kHere);

/// The ranks that meet `rank` in a collective, itself included, in the order of
/// their parts; null where it is in no group.
const std::vector<int64_t>* group_of(const CollectiveSpec& collective,
                                     int64_t rank);

/// Digest of the sequence of (kind, type, bytes, groups) of collectives, those
/// inside loops and branches too; equal on all ranks.
std::string collective_digest(const Schedule& schedule);

/// One line for each unit: place, stream, name, kind, what it waits for, what
/// it reads and writes; a dot's epilogue stands with its kind. For tests and
/// debugging.
std::string print_schedule(const Schedule& schedule);

}  // namespace reprise
