#include "runtime/cuda/host_work.h"

#include <algorithm>
#include <utility>

#include "data/schedule/called_program.h"
#include "runtime/cpu/routine.h"
#include "runtime/process/thread_setup.h"

namespace reprise {
namespace {

constexpr size_t kStagingAlignment = 64;  ///< As the CPU's arena.

/// A CPU routine and what it refers to.
struct StagedRoutine {
  RoutineScratch scratch;
  std::vector<std::byte> scratch_bytes;
  std::vector<KernelCode> functions;
  std::unique_ptr<Routine> routine;
};

/// Where the arrays of a routine's operands and results lie.
struct StagedArrays {
  struct Array {
    size_t offset = 0, size_bytes = 0;
    std::span<std::byte> in(std::byte* staging) const {
      if (size_bytes == 0) return {};
      return {staging + offset, size_bytes};
    }
  };
  std::vector<Array> operands, results;
};

Result<std::function<bool()>> bind_routine(const Computation& entry,
                                           const RoutineSpec& spec,
                                           int64_t rank,
                                           std::vector<KernelCode> functions,
                                           const StagedArrays& arrays,
                                           std::byte* staging) {
  auto made = std::make_shared<StagedRoutine>();
  made->functions = std::move(functions);
  RoutineCall call{.entry = entry,
                   .instruction = entry.at(spec.instruction),
                   .spec = spec,
                   .operands = {},
                   .results = {},
                   .workspace = {},
                   .kernels = made->functions,
                   .scratch = &made->scratch,
                   .rank = rank};
  for (const StagedArrays::Array& array : arrays.operands)
    call.operands.push_back(array.in(staging));
  for (const StagedArrays::Array& array : arrays.results)
    call.results.push_back(array.in(staging));
  Result<std::unique_ptr<Routine>> routine = make_routine(call);
  if (!routine) return pass(routine.error());
  made->routine = *std::move(routine);
  const size_t bytes = made->scratch.size_bytes();
  made->scratch_bytes.resize(bytes + RoutineScratch::kAlignment);
  const size_t odd = reinterpret_cast<uintptr_t>(made->scratch_bytes.data()) %
                     RoutineScratch::kAlignment;
  made->scratch.place(made->scratch_bytes.data() +
                      (odd == 0 ? 0 : RoutineScratch::kAlignment - odd));
  return std::function<bool()>([made] { return made->routine->run(); });
}

}  // namespace

size_t HostWork::reserve(int64_t size_bytes) {
  const size_t offset = staging_bytes_;
  staging_bytes_ += (static_cast<size_t>(size_bytes) + kStagingAlignment - 1) /
                    kStagingAlignment * kStagingAlignment;
  return offset;
}

size_t HostWork::add_operand(CUdeviceptr device, int64_t size_bytes) {
  const size_t offset = reserve(size_bytes);
  operands_.push_back({device, offset, static_cast<size_t>(size_bytes)});
  return offset;
}

size_t HostWork::add_result(CUdeviceptr device, int64_t size_bytes) {
  const size_t offset = reserve(size_bytes);
  results_.push_back({device, offset, static_cast<size_t>(size_bytes)});
  return offset;
}

Status HostWork::place(std::byte* staging) {
  staging_ = staging;
  Result<std::function<bool()>> run = bind_(staging);
  if (!run) return pass(run.error());
  run_ = *std::move(run);
  return {};
}

// On a thread of the driver's, which may not call the driver.
void HostWork::run_on_host(void* work) {
  thread_local const bool prepared = (prepare_compute_thread(), true);
  static_cast<void>(prepared);
  flush_denormals();
  auto& self = *static_cast<HostWork*>(work);
  if (!self.run_()) self.shared_.host_failed = true;
}

// One staging memory serves all: units of a stream run one after the other.
Status HostWork::enqueue(CUstream stream) {
  const Driver& driver = shared_.driver;
  Status status;
  for (const Transfer& operand : operands_) {
    if (!status || operand.size_bytes == 0) continue;
    status = driver.check(
        driver.copy_to_host_async(staging_ + operand.offset, operand.device,
                                  operand.size_bytes, stream),
        "cuMemcpyDtoHAsync");
  }
  if (status) {
    status =
        driver.check(driver.launch_host_function(stream, run_on_host, this),
                     "cuLaunchHostFunc");
  }
  for (const Transfer& result : results_) {
    if (!status || result.size_bytes == 0) continue;
    status = driver.check(
        driver.copy_to_device_async(result.device, staging_ + result.offset,
                                    result.size_bytes, stream),
        "cuMemcpyHtoDAsync");
  }
  return status;
}

std::unique_ptr<DeviceRoutine> make_host_routine(
    const DeviceUnitContext& context, const Unit& unit) {
  auto work = std::make_unique<HostWork>(context.resources);
  StagedArrays arrays;
  for (const Location& location : unit.reads) {
    arrays.operands.push_back(
        {work->add_operand(context.address_of(location), location.size_bytes),
         static_cast<size_t>(location.size_bytes)});
  }
  for (const Location& location : unit.writes) {
    arrays.results.push_back(
        {work->add_result(context.address_of(location), location.size_bytes),
         static_cast<size_t>(location.size_bytes)});
  }
  // As many as this schedule has kernels, as the routine counts them.
  std::vector<KernelCode> functions(context.kernels.size());
  for (const RoutineCallee& callee : unit.routine.callees) {
    for (const int32_t kernel : callee.kernels) {
      const auto at = static_cast<size_t>(kernel);
      functions[at] = context.resources.binding
                          .functions[static_cast<size_t>(context.kernels[at])];
    }
  }
  work->set_bind([&entry = context.module.entry_computation(),
                  &spec = unit.routine, rank = context.resources.binding.rank,
                  functions, arrays](std::byte* staging) {
    return bind_routine(entry, spec, rank, functions, arrays, staging);
  });
  context.resources.host_work.push_back(work.get());
  context.resources.on_host.push_back(unit.name);
  return work;
}

}  // namespace reprise
