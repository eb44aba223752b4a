// Products that XLA computes anew in each kernel that reads them.
#pragma once

#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// Of one computation, of which sums may change since this was made. What a
/// library computes (`reprise_result="unrounded"`, data/hlo/unrounded_reads.h)
/// is not repeated. Source: XLA's
/// InstructionFusion::ComputeGloballyUnfusible lets a product be repeated that
/// reads one array beside broadcasts and constants, or no more elements than it
/// gives (`x*x`), also where it is computed for others besides: scores that are
/// scaled, then reduced to their maximum and shifted by it. Looked up on CPUs
/// in JAX 0.5.3, 0.7.2, 0.10.2 and 0.12.
class RepeatedProducts {
 public:
  explicit RepeatedProducts(const Module& module,
                            const Computation& computation);

  /// Whether `sum`, which reads `product`, repeats it for itself: once, and no
  /// other op of its kernel reads it. (Where that reads another element, XLA
  /// repeats it all the same, which is not looked at.) Cost: what may be in one
  /// kernel with the readers.
  bool is_alone(InstructionId product, InstructionId sum) const;

 private:
  bool is_repeated(InstructionId product) const;
  bool is_broadcast(InstructionId id) const;
  bool is_shared_shift(InstructionId product, InstructionId sum) const;
  bool is_maximum_of(InstructionId reader, InstructionId product) const;
  bool passes_on(InstructionId id) const;
  std::vector<InstructionId> in_kernels_of(InstructionId reader) const;

  const Module& module_;
  const Computation& computation_;
  const std::vector<std::vector<InstructionId>> users_;
  /// [instruction] Read by operands alone.
  std::vector<bool> is_operand_alone_;
  /// The header says `frontend_attributes={reprise_shifts="shared"}`, which
  /// `reprise.jax.export` writes: what is reduced to its maximum and shifted
  /// by it before an exponential is computed once. So XLA of JAX 0.12 does.
  const bool shares_shifts_;
};

}  // namespace reprise
