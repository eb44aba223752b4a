#include "runtime/cuda/cuda_device.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "runtime/cpu/kernel_loader.h"
#include "runtime/cuda/cubins.h"
#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/device_program.h"
#include "runtime/cuda/device_programs.h"
#include "runtime/cuda/device_watch.h"
#include "runtime/cuda/dot_algorithms.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/host_staged_communicator.h"
#include "runtime/cuda/nccl_communicator.h"
#include "runtime/process/communicator.h"

namespace reprise {
namespace {

bool has_convolution(const Module& module) {
  return std::ranges::any_of(
      module.computations, [](const Computation& computation) {
        return std::ranges::any_of(
            computation.instructions, [](const Instruction& instruction) {
              return instruction.opcode == Opcode::kConvolution;
            });
      });
}

template <typename T>
Status status_of(const Result<T>& result) {
  return result ? Status() : Status(pass(result.error()));
}

/// Makes one rank's executor, stage by stage; every stage that can fail on one
/// rank alone is agreed upon.
class CudaDevice : public TrainingDevice {
 public:
  explicit CudaDevice(const CudaOptions& options) : options_(options) {}

  std::string kind() const override { return "cuda"; }
  bool is_abandoned() const override {
    return context_ != nullptr && context_->driver().is_abandoned();
  }
  Result<BoundDevice> bind(const TrainingProgram& program,
                           const DeviceOptions& device, Recorder* recorder,
                           ProcessGroup& group) override {
    Status status = agree(group, check(device));
    if (status) status = agree(group, open_device(group));
    if (status) open_cudnn(program);
    if (status)
      status = compile(program.module, program.schedule, device, group);
    if (status) status = compile_functions(program.schedule, device, group);
    if (status) status = agree(group, open_cublas());
    if (status) status = connect(device, group);
    if (status)
      status = agree(group, bind_units(program, device, group.rank()));
    if (status) status = choose_algorithms(device, group);
    if (!status) return pass(status.error());
    Result<std::unique_ptr<CudaExecutor>> executor =
        make_executor(program, device, recorder, group);
    status = agree(group, status_of(executor));
    if (!status) return pass(status.error());
    BoundDevice bound;
    bound.facts = facts(**executor);
    bound.notes = std::move(notes_);
    bound.executor = std::move(*executor);
    return bound;
  }

 private:
  static Status check(const DeviceOptions& device) {
    if (!device.interpret) return {};
    return fail(ErrorKind::kInvalid,
                "kernels are interpreted on --device cpu only");
  }

  Status open_device(const ProcessGroup& group) {
    const Result<int> count = device_count();
    if (!count) return pass(count.error());
    auto context = DeviceContext::open(group.local_rank() % *count);
    if (!context) return pass(context.error());
    context_ = std::move(*context);
    return {};
  }

  // The first rank of each host compiles, on all cores: the others wait, then
  // find its cubins.
  Status compile(const Module& module, const Schedule& schedule,
                 const DeviceOptions& device, ProcessGroup& group) {
    for (const bool first_on_host : {true, false}) {
      Status mine;
      if ((group.local_rank() == 0) == first_on_host) {
        Result<Cubins> cubins = compile_cubins(
            device_programs(module, schedule, library_of(cudnn_.get())).kernels,
            context_->architecture(),
            {.cache_directory = device.cache_directory,
             .jobs = static_cast<int>(std::thread::hardware_concurrency()),
             .driver_cuda = context_->driver().version,
             .takes = [this](const std::string& image) {
               return context_->try_image(image);
             }});
        mine = status_of(cubins);
        if (cubins) cubins_ = std::move(*cubins);
      }
      Status agreed = agree(group, mine);
      if (!agreed) return agreed;
    }
    return {};
  }

  /// Comparators and reducers of what the host runs.
  Status compile_functions(const Schedule& schedule,
                           const DeviceOptions& device, ProcessGroup& group) {
    const std::vector<int32_t> places = host_functions(schedule);
    if (places.empty()) return {};
    for (const int32_t place : places)
      functions_.kernels.push_back(
          schedule.kernels[static_cast<size_t>(place)]);
    Result<LoadedKernels> loaded = load_kernels(
        functions_, {.cache_directory = device.cache_directory}, group);
    if (!loaded) return pass(loaded.error());
    loaded_ = std::move(*loaded);
    if (!loaded_.note.empty()) notes_.push_back(loaded_.note);
    function_code_.resize(schedule.kernels.size());
    for (size_t i = 0; i < places.size(); ++i)
      function_code_[static_cast<size_t>(places[i])] = loaded_.code[i];
    return {};
  }

  /// Only where it is of use; without it convolutions are expanded.
  void open_cudnn(const TrainingProgram& program) {
    if (!has_convolution(program.module)) return;
    Result<std::unique_ptr<CudnnLibrary>> cudnn =
        CudnnLibrary::create(context_->driver(), {.math = options_.math});
    if (cudnn) {
      cudnn_ = std::move(*cudnn);
    } else {
      notes_.push_back("convolutions are products of matrices: " +
                       cudnn.error().message);
    }
  }

  Status open_cublas() {
    Result<std::unique_ptr<CublasLibrary>> cublas =
        CublasLibrary::create(context_->driver(), {.math = options_.math});
    if (!cublas) return pass(cublas.error());
    cublas_ = std::move(*cublas);
    return {};
  }

  Status connect(const DeviceOptions& device, ProcessGroup& group) {
    collectives_ = "none";
    if (device.solo || group.size() == 1) {
      communicator_ = make_solo_device_communicator();
      return {};
    }
    const Result<std::vector<std::string>> devices =
        group.all_gather(context_->uuid());
    if (!devices) return pass(devices.error());
    const bool shared =
        std::set(devices->begin(), devices->end()).size() < devices->size();
    using Collectives = CudaOptions::Collectives;
    const bool staged =
        options_.collectives == Collectives::kGloo ||
        (options_.collectives == Collectives::kAutomatic && shared);
    collectives_ = staged ? "gloo" : "nccl";
    if (staged) {
      notes_.push_back(
          shared ? "ranks share a device: collectives go through the host, and "
                   "times say nothing of several devices"
                 : "collectives go through the host");
    }
    Result<std::unique_ptr<DeviceCommunicator>> made =
        staged
            ? connect_through_host(device, group)
            : make_nccl_communicator(
                  group,
                  {.make_current = [this] { return context_->make_current(); },
                   .clear =
                       [this](uint64_t address, size_t bytes,
                              CUstream_st* stream) {
                         const Driver& driver = context_->driver();
                         return driver.check(
                             driver.memset_async(address, 0, bytes, stream),
                             "cuMemsetD8Async");
                       }},
                  device.timeout_s);
    Status agreed = agree(group, status_of(made));
    if (!agreed) return agreed;
    communicator_ = std::move(*made);
    return {};
  }

  Result<std::unique_ptr<DeviceCommunicator>> connect_through_host(
      const DeviceOptions& device, ProcessGroup& group) const {
    Result<std::unique_ptr<Communicator>> host =
        make_gloo_communicator(group, device.timeout_s);
    if (!host) return pass(host.error());
    return make_host_staged_communicator(context_->driver(), std::move(*host),
                                         device.timeout_s);
  }

  Status bind_units(const TrainingProgram& program, const DeviceOptions& device,
                    int rank) {
    Result<std::unique_ptr<DeviceProgram>> bound = DeviceProgram::create(
        *context_, program.module, program.schedule, cubins_, *cublas_,
        {.rank = rank,
         .communicator = communicator_.get(),
         .functions = function_code_,
         .timeout_s = device.timeout_s,
         .cudnn = cudnn_.get()});
    if (!bound) return pass(bound.error());
    units_ = std::move(*bound);
    tell_what_is_slow();
    return {};
  }

  void tell_what_is_slow() {
    const std::vector<std::string>& units = units_->on_host();
    if (!units.empty()) {
      notes_.push_back(fmt::format(
          "no device code for {}{}: the host runs {}, between copies",
          units.front(),
          units.size() > 1 ? fmt::format(" and {} others", units.size() - 1)
                           : "",
          units.size() > 1 ? "them" : "it"));
    }
    if (options_.graph && !units_->is_capturable()) {
      notes_.push_back(
          "a loop or a branch waits for what the device computes, or is long: "
          "steps are no CUDA graph");
    }
  }

  Status choose_algorithms(const DeviceOptions& device, ProcessGroup& group) {
    const Result<DotAlgorithms> chosen = choose_dot_algorithms(
        *cublas_, *context_, device.cache_directory, group);
    if (!chosen) return pass(chosen.error());
    if (!chosen->note.empty()) notes_.push_back(chosen->note);
    return {};
  }

  Result<std::unique_ptr<CudaExecutor>> make_executor(
      const TrainingProgram& program, const DeviceOptions& device,
      Recorder* recorder, const ProcessGroup& group) {
    CudaExecutor::Options options{.graph = options_.graph,
                                  .timeout_s = device.timeout_s,
                                  .recorder = recorder};
    watch(program.schedule, device, group.rank());
    options.watch = watch_.get();
    if (group.size() == 2)
      options.peers = fmt::format("rank {}", 1 - group.rank());
    for (const ManifestParameter& parameter : program.manifest.parameters) {
      if (parameter.role == ParameterRole::kBatch)
        options.fed.push_back(parameter.index);
    }
    return CudaExecutor::create(context_, program.schedule, std::move(units_),
                                *communicator_, options);
  }

  // Beyond what waits that ask for themselves take to give up.
  void watch(const Schedule& schedule, const DeviceOptions& device, int rank) {
    if (!device.stuck) return;
    constexpr double kGraceSeconds = 6;
    watch_ = std::make_unique<DeviceWatch>(
        device.timeout_s + kGraceSeconds,
        [&schedule, stuck = device.stuck, rank](const DeviceWatch::Place& at) {
          const std::string what =
              at.call != nullptr ? at.call : schedule.units[at.unit].name;
          stuck(fmt::format(
              "rank {}{}: {} has not come back from the NVIDIA "
              "driver for {} s",
              rank, at.step < 0 ? "" : fmt::format(", step {}", at.step), what,
              at.seconds));
        });
  }

  std::map<std::string, std::string> facts(const CudaExecutor& executor) const {
    const int version = context_->driver().version;
    return {{"device_name", context_->name()},
            {"driver_version",
             fmt::format("{}.{}", version / 1000, version % 1000 / 10)},
            {"steps_run_as", executor.wants_graph() ? "graph" : "eager"},
            {"math", options_.math == MatrixMath::kTf32 ? "tf32" : "f32"},
            {"collectives", collectives_}};
  }

  CudaOptions options_;
  std::shared_ptr<const DeviceContext> context_;
  Cubins cubins_;
  Schedule functions_;    ///< Kernels that the host calls, alone,
  LoadedKernels loaded_;  ///< their code, and the same by the program's.
  std::vector<KernelCode> function_code_;
  std::unique_ptr<CublasLibrary> cublas_;
  std::unique_ptr<CudnnLibrary> cudnn_;
  std::unique_ptr<DeviceProgram> units_;  ///< Until the executor has it.
  std::unique_ptr<DeviceCommunicator> communicator_;
  std::unique_ptr<DeviceWatch> watch_;
  std::string collectives_;
  std::vector<std::string> notes_;
};

}  // namespace

std::unique_ptr<TrainingDevice> make_cuda_device(const CudaOptions& options) {
  return std::make_unique<CudaDevice>(options);
}

Status check_cuda() { return status_of(device_count()); }

}  // namespace reprise
