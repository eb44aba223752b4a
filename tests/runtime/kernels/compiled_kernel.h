// A kernel as a test writes it down, compiled.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/group.h"
#include "data/kernel/lower_kernel.h"
#include "runtime/kernels/compiler.h"
#include "tests/testing/directories.h"
#include "tests/testing/kernel_runner.h"

namespace reprise {

/// A module of one kernel.
struct Compiled {
  Module module;
  Kernel kernel;
  CompiledKernels library;
  KernelFunction function() const { return library.functions.front(); }
};

/// One kernel of everything but views in the entry.
inline Compiled compiled(const std::string& entry,
                         const std::vector<std::string>& outputs) {
  Compiled made;
  made.module = *parse_hlo(
      fmt::format("HloModule m\ntimes {{ a = f32[] parameter(0)  b = "
                  "f32[] parameter(1)  ROOT r = f32[] multiply(a, "
                  "b) }}\nENTRY main {{{}}}\n",
                  entry));
  std::vector<InstructionId> results;
  const Computation& computation = made.module.entry_computation();
  for (const InstructionId op : kernel_ops(made.module)) {
    if (std::count(outputs.begin(), outputs.end(), computation.at(op).name) > 0)
      results.push_back(op);
  }
  Result<Kernel> kernel =
      lower_kernel(made.module, kernel_ops(made.module), results);
  EXPECT_TRUE(kernel) << kernel.error().message;
  made.kernel = std::move(*kernel);
  Result<CompiledKernels> library =
      compile_kernels({&made.kernel, 1},
                      {.cache_directory = build_directory() + "/kernel_cache"});
  EXPECT_TRUE(library) << library.error().message;
  made.library = std::move(*library);
  return made;
}

}  // namespace reprise
