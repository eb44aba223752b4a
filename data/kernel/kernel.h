// The kernel IR: one fused loop nest as a value. Lowered from a group of HLO ops
// by `lower_kernel`, printed to C++ and interpreted by the runtime.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/result.h"

namespace reprise {

struct KernelArgument {
  InstructionId instruction{};   ///< Whose value (entry computation of the lowered module).
  PrimitiveType type = PrimitiveType::kF32;
  int64_t elements = 0;
  bool is_output = false;
};

struct Kernel {
  std::vector<KernelArgument> arguments;  ///< Inputs in order of first use, then outputs.
  // … (the body: owned by whoever builds data/kernel)
};

}  // namespace reprise
