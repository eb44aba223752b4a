// Checks of kernels cut and printed for a GPU against the interpreter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/hlo/module.h"
#include "data/kernel/kernel.h"
#include "tests/runtime/kernels/cuda_twin.h"
#include "tests/testing/kernel_runner.h"

namespace reprise {

/// Expects that the stages of a kernel, each run by the interpreter, and its
/// twin (kernel `place` of `twins`) compute `want`; also with outputs in the
/// memory of inputs, where any allows that: then returns true.
bool expect_cuda_agrees(const Module& module, const Kernel& kernel,
                        const Memory& want, const CudaTwins& twins,
                        size_t place);

}  // namespace reprise
