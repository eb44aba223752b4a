#include "cli/trainer_device.h"

#ifdef REPRISE_WITH_CUDA
#include "runtime/cuda/cuda_device.h"
#endif

namespace reprise {
namespace {

#ifdef REPRISE_WITH_CUDA
Result<std::unique_ptr<TrainingDevice>> make_gpu(
    const TrainerDeviceFlags& flags) {
  const Status present = check_cuda();
  if (!present) return pass(present.error());
  using Collectives = CudaOptions::Collectives;
  return make_cuda_device(
      {.collectives = flags.collectives == "nccl"   ? Collectives::kNccl
                      : flags.collectives == "gloo" ? Collectives::kGloo
                                                    : Collectives::kAutomatic,
       .graph = !flags.no_graph,
       .math = flags.math == "tf32" ? MatrixMath::kTf32 : MatrixMath::kF32});
}
#else
Result<std::unique_ptr<TrainingDevice>> make_gpu(const TrainerDeviceFlags&) {
  return fail(ErrorKind::kDevice,
              "this build has no CUDA runtime, as there was no CUDA toolkit "
              "when it was configured; use --device cpu");
}
#endif

}  // namespace

void add_device_flags(Flags& app, TrainerDeviceFlags& flags) {
  app.add_option("--device", flags.device, "cpu (default) or cuda")
      .one_of({"cpu", "cuda"});
  app.add_option("--collectives", flags.collectives,
                 "what moves data between GPUs: auto (default), nccl, or gloo, "
                 "through the host, which auto takes where ranks share a GPU")
      .one_of({"auto", "nccl", "gloo"});
  app.add_option("--math", flags.math,
                 "dots of f32 on a GPU: f32 (default), or tf32, which rounds "
                 "operands to 10 bits")
      .one_of({"f32", "tf32"});
  app.add_flag("--no-graph", flags.no_graph,
               "launch every unit of a step on a GPU, not one CUDA graph");
}

Result<std::unique_ptr<TrainingDevice>> make_training_device(
    const TrainerDeviceFlags& flags) {
  if (flags.device == "cuda") return make_gpu(flags);
  return make_cpu_device();
}

}  // namespace reprise
