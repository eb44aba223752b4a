#include "runtime/cpu/kernel_loader.h"

#include "data/kernel/kernel_parts.h"
#include "runtime/kernels/compiler.h"
#include "runtime/kernels/interpreter.h"

namespace reprise {
namespace {

// Why a rank cannot run compiled code; empty when all can. Collective.
Result<std::string> first_reason(ProcessGroup& group, const Status& mine) {
  const Result<std::vector<std::string>> all =
      group.all_gather(mine ? std::string() : mine.error().message);
  if (!all) return pass(all.error());
  for (const std::string& reason : *all) {
    if (!reason.empty()) return reason;
  }
  return std::string();
}

LoadedKernels interpreted(const Schedule& schedule) {
  LoadedKernels loaded;
  for (const Kernel& kernel : schedule.kernels) {
    loaded.code.push_back({.function = nullptr,
                           .interpret = interpret_kernel,
                           .kernel = &kernel,
                           .iterations = kernel_iterations(kernel)});
  }
  return loaded;
}

}  // namespace

Result<LoadedKernels> load_kernels(const Schedule& schedule,
                                   const KernelOptions& options,
                                   ProcessGroup& group) {
  LoadedKernels loaded = interpreted(schedule);
  if (options.interpret) return loaded;
  CompileOptions compile;
  compile.cache_directory = options.cache_directory;
  compile.watch = options.watch;
  Result<CompiledKernels> compiled;
  for (const bool first_on_host : {true, false}) {
    Status status;
    if ((group.local_rank() == 0) == first_on_host) {
      compiled = compile_kernels(schedule.kernels, compile);
      if (!compiled) status = pass(compiled.error());
    }
    const Result<std::string> reason = first_reason(group, status);
    if (!reason) return pass(reason.error());
    if (reason->empty()) continue;
    loaded.note = "kernels are interpreted, many times slower: " + *reason;
    return loaded;
  }
  for (size_t i = 0; i < loaded.code.size(); ++i)
    loaded.code[i].function = compiled->functions[i];
  loaded.libraries = std::move(compiled->libraries);
  return loaded;
}

}  // namespace reprise
