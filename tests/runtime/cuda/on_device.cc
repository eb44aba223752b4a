#include "tests/runtime/cuda/on_device.h"

#include <algorithm>
#include <utility>

#include "data/hlo/hlo.h"
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

std::unique_ptr<OnDevice> put_on_device(const std::string& hlo,
                                        DeviceCommunicator& communicator,
                                        const CudaExecutor::Options& options,
                                        int64_t ranks, bool cudnn) {
  auto on = std::make_unique<OnDevice>();
  Result<InlinedModule> module = parse_inlined(hlo);
  EXPECT_TRUE(module) << module.error().message;
  on->module = *std::move(module);
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
                        .extent = outer_extent(on->kernels[i])});
  }
  auto executor = make_executor(on->bound, on->module, on->schedule,
                                host_cubins(on->kernels, on->code),
                                communicator, options, on->code);
  EXPECT_TRUE(executor) << executor.error().message;
  if (executor) on->executor = *std::move(executor);
  return on;
}

}  // namespace reprise
