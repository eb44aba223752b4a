// Names of kernels for people.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// A kernel's name without return type, template arguments, parameters and
/// outer namespaces, cut to `width` characters (0: never) in the middle.
/// "void at::native::vectorized_elementwise_kernel<4, …>(int)" gives
/// "vectorized_elementwise_kernel", and "_ZN7ck_tile6kentryILi1E…" "kentry".
std::string short_kernel_name(std::string_view name, size_t width = 0);

/// The short names of different kernels; where some come out alike, with the
/// words of the whole name that tell them apart: "elementwise_kernel [add]".
std::vector<std::string> distinct_kernel_names(
    std::span<const std::string_view> names, size_t width);

}  // namespace reprise
