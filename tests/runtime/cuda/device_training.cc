#include "tests/runtime/cuda/device_training.h"

#include "tests/runtime/cuda/host_cubins.h"

namespace reprise {

Status open_cudnn(Bound& bound) {
  auto context = DeviceContext::open(0);
  if (!context) return pass(context.error());
  bound.context = *context;
  auto cudnn = CudnnLibrary::create(bound.context->driver(), {});
  if (!cudnn) return pass(cudnn.error());
  bound.cudnn = std::move(*cudnn);
  return {};
}

Result<std::unique_ptr<CudaExecutor>> make_executor(
    Bound& bound, const Module& inlined, const Schedule& schedule,
    const Cubins& cubins, DeviceCommunicator& communicator,
    const CudaExecutor::Options& options, std::span<const KernelCode> functions,
    int64_t rank) {
  if (bound.context == nullptr) {
    auto context = DeviceContext::open(0);
    if (!context) return pass(context.error());
    bound.context = *context;
  }
  auto cublas = CublasLibrary::create(bound.context->driver(),
                                      {.workspace_bytes = 1 << 20});
  if (!cublas) return pass(cublas.error());
  bound.cublas = std::move(*cublas);
  auto program = DeviceProgram::create(*bound.context, inlined, schedule,
                                       cubins, *bound.cublas,
                                       {.rank = rank,
                                        .communicator = &communicator,
                                        .functions = functions,
                                        .timeout_s = options.timeout_s,
                                        .cudnn = bound.cudnn.get()});
  if (!program) return pass(program.error());
  return CudaExecutor::create(bound.context, schedule, std::move(*program),
                              communicator, options);
}

Result<Trained> train_on_device(const TestProgram& program, const Plan& plan,
                                bool graph, int32_t steps, int64_t rank,
                                DeviceCommunicator& communicator) {
  // The schedule and its kernels are those of the CPU's run.
  Result<std::unique_ptr<TestRun>> host = make_test_run(program, plan);
  if (!host) return pass(host.error());
  const Schedule& schedule = (*host)->schedule;
  CudaExecutor::Options options{.graph = graph, .timeout_s = 100};
  for (const ManifestParameter& parameter : program.manifest.parameters) {
    if (parameter.role == ParameterRole::kBatch)
      options.fed.push_back(parameter.index);
  }
  Bound bound;
  auto executor =
      make_executor(bound, program.module, schedule,
                    host_cubins(schedule.kernels, (*host)->kernels.code),
                    communicator, options, (*host)->kernels.code, rank);
  if (!executor) return pass(executor.error());
  const TrainingProgram training{.module = program.module,
                                 .manifest = program.manifest,
                                 .schedule = schedule};
  auto run = TrainingRun::create(training, std::move(*executor), nullptr, rank);
  if (!run) return pass(run.error());
  Trained trained;
  for (int32_t step = 0; step < steps; ++step) {
    const auto outcome = (*run)->step(step, false);
    if (!outcome) return pass(outcome.error());
    trained.losses.push_back(outcome->loss);
  }
  auto digests = (*run)->state_digests();
  if (!digests) return pass(digests.error());
  trained.digests = std::move(*digests);
  return trained;
}

}  // namespace reprise
