// One loop nest of a kernel before emission: its loops, its nodes and its
// stores.
#pragma once

#include <memory>
#include <vector>

#include "data/kernel/canonical_maps.h"
#include "data/kernel/group.h"
#include "data/kernel/trace.h"

namespace reprise {

/// A store, or an accumulation into memory.
struct Sink {
  size_t output = 0;  ///< Place in the group's outputs.
  int32_t node = -1;
  int32_t index = -1;
  int32_t guard = -1;
  Opcode combine = Opcode::kParameter;  ///< kParameter: a plain store.
  bool ordered = false;  ///< Iterations may hit the same element.
  uint64_t loops = 0;    ///< Loops it runs in: a prefix, or all.
};

/// Stays where it is made: the trace refers to the other members.
struct Nest {
  Nest() = default;
  Nest(const Nest&) = delete;
  Nest& operator=(const Nest&) = delete;

  IndexTable indices;
  NestSpace space;
  std::unique_ptr<ElementTrace> trace;
  std::vector<Sink> sinks;
};

/// The nests of a kernel in order of execution, and the arrays that they read.
struct NestList {
  std::vector<std::unique_ptr<Nest>> nests;
  std::vector<InstructionId> sources;
};

/// Builds nests for all outputs of the group. Errors: kUnsupported,
/// kInfeasible.
Result<NestList> build_nests(const Group& group);

/// Appends the statements of the nests and the arguments to the kernel.
void emit_nests(const Group& group, const NestList& list, Kernel& kernel);

}  // namespace reprise
