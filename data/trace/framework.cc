#include "data/trace/framework.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace reprise {
namespace {

/// JAX names the modules that it compiles by how it came to them.
bool is_of_jax(std::string_view module) {
  return module.starts_with("jit_") || module.starts_with("pmap_");
}

bool is_jax(std::string_view name) {
  return name.starts_with("PjitFunction") ||
         name.find("hlo_module=jit_") != std::string_view::npos;
}

/// Operators of PyTorch, its profiler's ranges, its calls of collectives, and
/// the namespace of its kernels.
bool is_pytorch(std::string_view name) {
  constexpr std::array<std::string_view, 13> kPrefixes = {
      "aten::",
      "c10d::",
      "torch::",
      "torch.",
      "autograd::",
      "ProfilerStep#",
      "nn.Module: ",
      "Optimizer.step#",
      "_c10d_",
      "gloo:",
      "nccl:",
      "record_param_comms",
      "enumerate(DataLoader)"};
  return std::any_of(
             kPrefixes.begin(), kPrefixes.end(),
             [&](std::string_view one) { return name.starts_with(one); }) ||
         name.find("at::native::") != std::string_view::npos ||
         name.find("torch/nn/") != std::string_view::npos;
}

}  // namespace

Framework framework_of(const Trace& frame) {
  const auto any = [&](bool (*is)(std::string_view)) {
    return std::any_of(frame.strings.begin(), frame.strings.end(), is);
  };
  const auto& modules = frame.modules;
  if (std::any_of(modules.begin(), modules.end(),
                  [](const auto& module) { return is_of_jax(module.first); }) ||
      any(is_jax)) {
    return Framework::kJax;
  }
  // What XLA compiled for others follows their names no more.
  return modules.empty() && any(is_pytorch) ? Framework::kPyTorch
                                            : Framework::kUnknown;
}

}  // namespace reprise
