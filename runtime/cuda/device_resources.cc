#include "runtime/cuda/device_resources.h"

#include <algorithm>
#include <set>

#include "data/schedule/called_program.h"

namespace reprise {
namespace {

/// `kernels`: [kernel of the schedule] its place in the step's.
void add_functions(const Schedule& schedule,
                   const std::vector<int32_t>& kernels,
                   std::set<int32_t>* functions) {
  for (const Unit& unit : schedule.units) {
    for (const RoutineCallee& callee : unit.routine.callees) {
      std::vector<int32_t> places;
      for (const int32_t kernel : callee.kernels)
        places.push_back(kernels[static_cast<size_t>(kernel)]);
      if (callee.program->is_function())
        functions->insert(places.begin(), places.end());
      else
        add_functions(callee.program->schedule, places, functions);
    }
  }
}

}  // namespace

Result<std::span<const std::byte>> read_choice(DeviceResources& resources,
                                               CUdeviceptr address,
                                               size_t choice_bytes,
                                               CUstream stream) {
  const Driver& driver = resources.driver;
  const std::span<std::byte> choice =
      resources.choice.bytes().first(choice_bytes);
  Status status = driver.check(
      driver.copy_to_host_async(choice.data(), address, choice.size(), stream),
      "cuMemcpyDtoHAsync");
  if (status) status = driver.synchronize(stream, resources.binding.timeout_s);
  if (!status) return pass(status.error());
  if (resources.waited) resources.waited();
  return choice;
}

std::vector<int32_t> host_functions(const Schedule& step) {
  std::vector<int32_t> itself(step.kernels.size());
  for (size_t i = 0; i < itself.size(); ++i)
    itself[i] = static_cast<int32_t>(i);
  std::set<int32_t> functions;
  add_functions(step, itself, &functions);
  return {functions.begin(), functions.end()};
}

}  // namespace reprise
