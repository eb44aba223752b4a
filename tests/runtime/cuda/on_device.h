// One program on the fake device, compiled by the CPU's compiler.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/kernels/compiler.h"
#include "tests/runtime/cpu/jax_values.h"
#include "tests/runtime/cuda/device_training.h"

namespace reprise {

/// A program on the fake device, with all that its executor refers to.
struct OnDevice {
  InlinedModule module;
  Schedule schedule;
  std::vector<Kernel> kernels;
  CompiledKernels compiled;
  std::vector<KernelCode> code;
  Bound bound;
  std::unique_ptr<CudaExecutor> executor;

  std::vector<std::byte> output(int64_t number) const {
    const auto bytes = executor->read_output(number);
    EXPECT_TRUE(bytes) << bytes.error().message;
    return bytes ? std::vector<std::byte>(bytes->begin(), bytes->end())
                 : std::vector<std::byte>();
  }
  template <typename T>
  void feed(int64_t number, const std::vector<T>& values) const {
    const auto to = executor->edit_parameter(number);
    ASSERT_EQ(to.size(), values.size() * sizeof(T));
    std::memcpy(to.data(), values.data(), to.size());
    ASSERT_TRUE(executor->commit_parameter(number));
  }
};

bool has_routine(const Schedule& schedule);

/// Runs three steps on a case's inputs, of which the first is eager and the
/// last a graph where one can hold it, and holds the last outputs against
/// JAX's.
void expect_as_in_jax(const JaxCase& one, const OnDevice& on);

/// Without executor where nothing of the program is a routine. With `cudnn` the
/// device has a library of convolutions.
std::unique_ptr<OnDevice> put_on_device(const std::string& hlo,
                                        DeviceCommunicator& communicator,
                                        const CudaExecutor::Options& options,
                                        int64_t ranks = 1, bool cudnn = false);

}  // namespace reprise
