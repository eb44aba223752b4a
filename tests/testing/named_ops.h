// Instructions of a test's program by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// Of the entry, in the order of the names; what is not there is left out.
inline std::vector<InstructionId> named_ops(
    const Module& module, const std::vector<std::string>& names) {
  std::vector<InstructionId> found;
  const auto& all = module.entry_computation().instructions;
  for (const std::string& name : names) {
    for (uint32_t i = 0; i < all.size(); ++i) {
      if (all[i].name == name) found.push_back(InstructionId{i});
    }
  }
  return found;
}

}  // namespace reprise
