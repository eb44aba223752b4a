#include "tests/runtime/cuda/on_device.h"

#include <algorithm>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/kernel/kernel_parts.h"
#include "runtime/cuda/device_program.h"
#include "runtime/cuda/device_programs.h"
#include "tests/runtime/cuda/host_cubins.h"
#include "tests/testing/directories.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {

bool has_routine(const Schedule& schedule) {
  return std::any_of(
      schedule.units.begin(), schedule.units.end(),
      [](const Unit& unit) { return unit.kind == UnitKind::kRoutine; });
}

void expect_as_in_jax(const JaxCase& one, const OnDevice& on) {
  ASSERT_NE(on.executor, nullptr);
  for (int32_t step = 0; step < 3; ++step) {
    for (size_t n = 0; n < one.inputs.size(); ++n) {
      on.feed(static_cast<int64_t>(n),
              std::vector<char>(one.inputs[n].begin(), one.inputs[n].end()));
    }
    const Status done = on.executor->run_step(step);
    ASSERT_TRUE(done) << done.error().message;
  }
  const Computation& entry = on.module.entry_computation();
  const Shape& shape = entry.at(entry.root).shape;
  for (size_t k = 0; k < one.outputs.size(); ++k) {
    expect_close(fmt::format("output {}", k),
                 shape.is_tuple() ? shape.elements[k] : shape,
                 on.output(static_cast<int64_t>(k)), one.outputs[k],
                 rounding_of(one));
  }
}

std::unique_ptr<OnDevice> put_on_device(const std::string& hlo,
                                        DeviceCommunicator& communicator,
                                        const CudaExecutor::Options& options,
                                        int64_t ranks, bool cudnn) {
  auto on = std::make_unique<OnDevice>();
  Result<InlinedModule> module = parse_inlined(hlo);
  EXPECT_TRUE(module) << module.error().message;
  on->module = *std::move(module);
  on->module.device = LoweredFor::kGpu;
  Result<Schedule> schedule =
      lower_schedule(on->module, identity_plan(on->module, ranks));
  EXPECT_TRUE(schedule) << schedule.error().message;
  on->schedule = *std::move(schedule);
  if (!has_routine(on->schedule)) return on;
  if (cudnn && !open_cudnn(on->bound)) return on;
  on->kernels = device_programs(on->module, on->schedule,
                                library_of(on->bound.cudnn.get()))
                    .kernels;
  Result<CompiledKernels> compiled = compile_kernels(
      on->kernels, {.cache_directory = build_directory() + "/kernel_cache"});
  EXPECT_TRUE(compiled) << compiled.error().message;
  on->compiled = *std::move(compiled);
  for (size_t i = 0; i < on->kernels.size(); ++i) {
    on->code.push_back({.function = on->compiled.functions[i],
                        .kernel = &on->kernels[i],
                        .iterations = kernel_iterations(on->kernels[i])});
  }
  auto executor = make_executor(on->bound, on->module, on->schedule,
                                host_cubins(on->kernels, on->code),
                                communicator, options, on->code);
  EXPECT_TRUE(executor) << executor.error().message;
  if (executor) on->executor = *std::move(executor);
  return on;
}

}  // namespace reprise
