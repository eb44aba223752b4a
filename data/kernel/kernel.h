// The kernel IR: one fused loop nest as a value. Lowered from a group of HLO
// ops by `lower_kernel` (lower_kernel.h), printed to C++ and interpreted by the
// runtime.
//
// A kernel is a tree of statements over scalars: loops, lets, accumulations and
// stores. Every argument is a dense row-major array of its logical shape
// (layouts of the HLO text are ignored). All references are indices into the
// kernel's tables; statements refer only to values that an enclosing or earlier
// statement has let.
//
// Numerics contract: an op's arithmetic is the same in every kernel that
// contains it, so any fusion gives bit-identical results.
// - A multiply and an add are contracted only where inlining made one op of
//   them (data/hlo/contract_products.h); bf16 and f16 are computed in f32 and
//   rounded after every op; transcendental functions are those of the
//   runtime's math prelude.
// - A reduce whose minor (last non-degenerate) operand dimension is reduced, of
//   more than kShortRow elements (group.h), keeps kLanes partial results per
//   output element, lane = position in that dimension mod kLanes, each starting
//   from the identity and taking elements in row-major order. The lanes are
//   combined by halving (lane l with lane l + 8, then 4, 2, 1), and the total
//   is combined last with the initial value on its left. A sum that rounds to
//   16 bits at each is none of these.
// - Any other reduce starts from the initial value and takes elements one
//   after the other in row-major order. Scatter applies updates in row-major
//   order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/kernel/index_expression.h"
#include "data/result.h"

namespace reprise {

/// Partial results of a reduction over a minor dimension.
inline constexpr int kLanes = 16;

struct KernelArgument {
  /// Whose value (entry computation of the lowered module).
  InstructionId instruction{};
  PrimitiveType type = PrimitiveType::kF32;
  int64_t elements = 0;
  bool is_output = false;
};

/// One scalar, computed once for each iteration of the loops around its let.
struct KernelValue {
  enum class Kind : uint8_t {
    kLiteral,  ///< `literal`, the bits of one element, zero-extended.
    kLoad,     ///< arguments[source][index].
    kScratch,  ///< scratches[source][index].
    kIndex,    ///< The index expression itself, converted to `type`.
    kTotal,    ///< The combined lanes of accumulators[source].
    kApply,    ///< `opcode` of the operands, as HLO defines it for one element.
  };
  Kind kind = Kind::kLiteral;
  Opcode opcode = Opcode::kParameter;  ///< kApply.
  PrimitiveType type = PrimitiveType::kF32;
  char comparison[3] = {0, 0, 0};      ///< kApply of kCompare: "EQ", "LT", …
  int32_t operands[3] = {-1, -1, -1};  ///< kApply: values.
  int32_t source = -1;
  int32_t index = -1;  ///< Expression.
  uint64_t literal = 0;
};

struct KernelLoop {
  int64_t extent = 1;
  /// Iterations touch disjoint memory: vectorizable in any order.
  bool independent = true;
};

/// kLanes partial results, reset and filled by statements.
struct KernelAccumulator {
  /// kAdd, kMultiply, kMaximum, kMinimum, kAnd, kOr, kXor.
  Opcode combine = Opcode::kAdd;
  PrimitiveType type = PrimitiveType::kF32;
  int32_t lane_loop = -1;  ///< Lane = this loop's variable mod kLanes.
};

/// An array private to the kernel, small enough for the stack.
struct KernelScratch {
  PrimitiveType type = PrimitiveType::kF32;
  int64_t elements = 0;
};

struct KernelStatement {
  enum class Kind : uint8_t {
    kLet,         ///< Computes `value`.
    kLoop,        ///< Runs `body` for loops[target] = 0 … extent − 1.
    kReset,       ///< Sets all lanes of accumulators[target] to the identity.
    kAccumulate,  ///< Lane of accumulators[target] = combine(lane, value).
    kStore,       ///< arguments[target][index] = value, or combine(old, value).
    kScratchStore,  ///< scratches[target][index] = value.
  };
  Kind kind = Kind::kLet;
  /// kStore: kParameter for a plain store.
  Opcode combine = Opcode::kParameter;
  int32_t value = -1;
  int32_t target = -1;
  int32_t index = -1;
  int32_t guard = -1;  ///< kStore: a pred value; nothing is stored when false.
  std::vector<KernelStatement> body;  ///< kLoop.
};

struct Kernel {
  /// Inputs in order of first use, then outputs.
  std::vector<KernelArgument> arguments;
  IndexTable indices;  ///< Expressions over loops and values.
  std::vector<KernelLoop> loops;
  std::vector<KernelValue> values;
  std::vector<KernelAccumulator> accumulators;
  std::vector<KernelScratch> scratches;
  std::vector<KernelStatement> body;
  double flops = 0;  ///< By XLA's rules for the ops in it, each run once.
};

/// Canonical SHA-256: kernels of the same code and shapes have the same key,
/// whatever the names and ids of the instructions they came from.
std::string kernel_key(const Kernel& kernel);

/// True if the memory of `output` may be that of `input` (indices in
/// `arguments`): every load of the input is of the element which the same
/// iteration stores, and not after the store.
bool in_place_safe(const Kernel& kernel, size_t input, size_t output);

/// The loops from `loop` to the innermost, each alone in the one before but for
/// lets, where all are independent and the innermost stores plainly: they may
/// run in any order of loops and iterations. Empty where it is no such nest.
std::vector<const KernelStatement*> plain_nest(const Kernel& kernel,
                                               const KernelStatement& loop);

/// Readable dump, for tests and debugging.
std::string kernel_text(const Kernel& kernel);

}  // namespace reprise
