// Functions of functions, as XLA's simplifier writes them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// What is known of the ops that stand before one.
struct OpsBefore {
  std::vector<Instruction>* ops = nullptr;  ///< Ops are appended here.
  /// The number that every element of an op is.
  std::function<std::optional<double>(InstructionId)> constant;
  std::function<bool(InstructionId)> is_read_once;
  /// Exponentials meet, and roots of squares and logarithms undo them: so up to
  /// JAX 0.11.
  bool merges = true;
};

/// Makes of `op`, of floats, what XLA's CPU and GPU compilers make of it after
/// the pass whose dump is a program here (AlgebraicSimplifier::HandleDivide,
/// HandleLog, HandlePower, HandleSqrt; JAX 0.4.30 to 0.12 give these bits):
///   x / sqrt(y) = x rsqrt(y)     x / rsqrt(y) = x sqrt(y)
/// where nothing else reads the root,
///   x / y^z = x y^(-z)           (x / y) / z = x / (y z)
///   x / (y / z) = (x z) / y      (x / y) / (z / w) = (x w) / (y z)
///   log(sqrt(x)) = 0.5 log(x)    log(x^y) = y log|x|, 0 where y is 0
///   x^2 = x x    x^3 = x (x x)   x^-1 = 1 / x
/// and where it merges:
///   x / exp(y) = x exp(-y)       exp(x) exp(y) = exp(x + y)
///   exp(x)^y = exp(x y)          log(exp(x)) = x      sqrt(x x) = |x|
/// This is the last bit of most, which f16 rounds, but all of what overflows on
/// the way: log(exp(100)) is 100. True if it made something else of it; what
/// was in between may be left without a reader.
bool simplify_nested(const OpsBefore& before, Instruction* op);

}  // namespace reprise
