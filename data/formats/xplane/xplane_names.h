// What XLA's profiler calls devices, lines, steps and what ran.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/formats/xplane/xplane_proto.h"

namespace reprise {

/// Of the devices "GPU:4" and "TPU:0 SparseCore 1", or -1.
int32_t xplane_ordinal(std::string_view device);

/// A chip's cores have planes of their own: "TPU:0 SparseCore 1".
std::string_view xplane_chip(std::string_view device);

/// The number in the line "Stream #16(Kernel)"; -1 for other lines.
int64_t xplane_stream(std::string_view line);

/// Of a step, whose name is that alone, or -1.
int32_t xplane_step(std::string_view name);

/// "$train.py:12 step": calls of Python's functions, on the lines of threads.
bool is_python_call(std::string_view name);

/// Of these, JAX's that return when the work before them is done:
/// `jax.block_until_ready`, and what reads an array's value (`float`, NumPy).
bool is_python_wait(std::string_view name);

/// Whether the name is that of an HLO instruction whose span is that of the
/// instructions inside ("while.3").
bool is_hlo_container(std::string_view name);

/// "NVIDIA GPU:4": a device's chip behind what its plane says of it.
std::string xplane_device_label(const Xplane& plane, std::string_view chip);

}  // namespace reprise
