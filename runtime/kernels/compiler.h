// Generated kernels to machine code: prints C++, compiles it in batches with
// the host compiler, and keeps the shared libraries in a private
// content-addressed cache.
//
// A kernel is looked up by the digest of its printed text, in a directory for
// the digest of compiler, flags, CPU and prelude; only kernels that no cached
// batch holds are compiled, so plans that share kernels share code. A library
// is loaded only if its content still has the hash noted when it was written,
// from a directory that only its user can write.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/kernel/kernel.h"
#include "data/progress.h"
#include "data/result.h"

namespace reprise {

/// Runs a kernel: arguments as in Kernel::arguments, its iterations [begin,
/// end) (kernel_parts.h); [0, kernel_iterations(kernel)) is all of it.
using KernelFunction = void (*)(void* const* arguments, int64_t begin,
                                int64_t end);

struct CompileOptions {
  /// Empty: $XDG_CACHE_HOME/reprise or ~/.cache/reprise.
  std::string cache_directory;
  /// Looked up in PATH; never run through a shell.
  std::string compiler = "g++";
  int jobs = 2;                ///< Compilers run at once.
  ProgressWatcher watch = {};  ///< Told before compiling, after each batch.
};

struct CompiledKernels {
  std::vector<KernelFunction> functions;  ///< In order of the kernels given.
  std::shared_ptr<const void> libraries;  ///< Keeps the code loaded.
  int compiled = 0;                       ///< Kernels that no cache held.
};

/// Errors: kDevice when there is no compiler, it fails, or the cache cannot be
/// used; the caller may then interpret.
Result<CompiledKernels> compile_kernels(std::span<const Kernel> kernels,
                                        const CompileOptions& options = {});

}  // namespace reprise
