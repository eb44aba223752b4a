// Prints a kernel as C++: a function of plain loops that the host compiler
// vectorizes. The text holds numbers and identifiers of its own only; nothing
// of the program.
#pragma once

#include <string>
#include <string_view>

#include "data/kernel/kernel.h"

namespace reprise {

/// The function `extern "C" void NAME(void* const* args, long long begin, long
/// long end)`.
std::string print_kernel(const Kernel& kernel, std::string_view name);

/// The math prelude that must precede printed kernels.
std::string_view kernel_prelude();

}  // namespace reprise
