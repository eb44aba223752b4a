// Kernels for the fake driver: "cubins" whose entries are functions of this
// process.
#pragma once

#include <fmt/format.h>

#include <span>

#include "runtime/cpu/executor.h"
#include "runtime/cuda/cubins.h"

namespace reprise {

/// One launch for each kernel, of code that was compiled for the host.
inline Cubins host_cubins(std::span<const Kernel> kernels,
                          std::span<const KernelCode> code) {
  Cubins cubins;
  cubins.images = {"host functions"};
  for (size_t i = 0; i < code.size(); ++i) {
    CubinKernel& kernel = cubins.kernels.emplace_back();
    kernel.launches.push_back(
        {.entry = fmt::format("{:x}:{}:{}",
                              reinterpret_cast<uintptr_t>(code[i].function),
                              code[i].iterations, kernels[i].arguments.size()),
         .grid_blocks = 1,
         .block_threads = 128});
  }
  return cubins;
}

}  // namespace reprise
