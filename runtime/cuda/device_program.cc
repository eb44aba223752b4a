#include "runtime/cuda/device_program.h"

#include <algorithm>

#include "data/schedule/memory_plan.h"
#include "runtime/cpu/constants.h"
#include "runtime/cuda/host_work.h"

namespace reprise {

namespace {

/// A graph of more is not worth its memory, hundreds of bytes a node, nor the
/// time that instantiating it takes.
constexpr int64_t kMostGraphNodes = 100'000;
/// Of a loop's predicate, or a conditional's index.
constexpr size_t kMostChoiceBytes = 8;

}  // namespace

ConvolutionLibrary library_of(CudnnLibrary* cudnn) {
  if (cudnn == nullptr) return {};
  return {.takes =
              [cudnn](const CanonicalConvolution& convolution) {
                return cudnn->takes(convolution);
              },
          .wants_features_first =
              [cudnn](PrimitiveType type) {
                return cudnn->wants_features_first(type);
              }};
}

DeviceProgram::DeviceProgram(const Driver& driver, const Module& inlined,
                             const Schedule& schedule, const Cubins& cubins,
                             CublasLibrary& cublas,
                             const DeviceBinding& binding)
    : driver_(driver),
      schedule_(schedule),
      shared_{.driver = driver,
              .cubins = cubins,
              .cublas = cublas,
              .binding = binding,
              .programs = device_programs(inlined, schedule,
                                          library_of(binding.cudnn))} {}

Result<std::unique_ptr<DeviceProgram>> DeviceProgram::create(
    const DeviceContext& context, const Module& inlined,
    const Schedule& schedule, const Cubins& cubins, CublasLibrary& cublas,
    const DeviceBinding& binding) {
  std::unique_ptr<DeviceProgram> program(new DeviceProgram(
      context.driver(), inlined, schedule, cubins, cublas, binding));
  Status status = program->allocate();
  if (status) status = program->load_modules();
  if (status) status = program->write_constants(inlined);
  if (status) status = program->bind(inlined);
  if (status) status = program->place_host_work();
  if (!status) return pass(status.error());
  return program;
}

Status DeviceProgram::allocate() {
  Schedule planned = schedule_;
  plan_memory(&planned, kDeviceAlignmentBytes);
  for (const Buffer& buffer : planned.buffers)
    offsets_.push_back(buffer.arena_offset);
  const auto bytes = static_cast<size_t>(planned.arena_bytes);
  Result<DeviceMemory> arena = DeviceMemory::allocate(driver_, bytes);
  if (!arena) return pass(arena.error(), "arena");
  arena_ = std::move(*arena);
  int64_t workspace_bytes = 0;
  for (const CubinKernel& kernel : shared_.cubins.kernels)
    workspace_bytes = std::max(workspace_bytes, kernel.workspace_bytes);
  Result<DeviceMemory> workspace =
      DeviceMemory::allocate(driver_, static_cast<size_t>(workspace_bytes));
  if (!workspace) return pass(workspace.error(), "workspace of kernels");
  shared_.workspace = std::move(*workspace);
  Result<DeviceMemory> scratch = DeviceMemory::allocate(
      driver_, static_cast<size_t>(shared_.programs.packed_bytes));
  if (!scratch) return pass(scratch.error(), "scratch of dots");
  shared_.scratch = std::move(*scratch);
  Result<DeviceMemory> expansion = DeviceMemory::allocate(
      driver_, static_cast<size_t>(shared_.programs.expansion_bytes));
  if (!expansion) return pass(expansion.error(), "memory of convolutions");
  shared_.expansion = std::move(*expansion);
  Result<PinnedMemory> choice =
      PinnedMemory::allocate(driver_, kMostChoiceBytes);
  if (!choice) return pass(choice.error());
  shared_.choice = std::move(*choice);
  // As the CPU's arena: what nothing writes, such as padding, is zero.
  Status zeroed =
      driver_.check(driver_.memset_async(arena_.address(), 0, bytes, nullptr),
                    "cuMemsetD8Async");
  if (!zeroed) return zeroed;
  return driver_.synchronize(nullptr);
}

Status DeviceProgram::load_modules() {
  for (const std::string& image : shared_.cubins.images) {
    CUmodule module = nullptr;
    Status loaded = driver_.check(
        driver_.module_load_data(&module, image.data()), "cuModuleLoadData");
    if (!loaded) return loaded;
    shared_.modules.emplace_back(
        module, DriverDeleter<CUmod_st>{&driver_, &Driver::module_unload});
  }
  return {};
}

Status DeviceProgram::write_constants(const Module& inlined) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
    const Buffer& buffer = schedule_.buffers[i];
    if (buffer.kind != BufferKind::kConstant) continue;
    const Instruction& literal =
        inlined.entry_computation().at(buffer.constant);
    bytes.resize(static_cast<size_t>(buffer.size_bytes));
    Status written = write_constant(
        inlined, literal,
        {.rank = shared_.binding.rank, .ranks = schedule_.ranks}, bytes);
    if (written) {
      written = write_device(
          driver_, arena_.address() + static_cast<CUdeviceptr>(offsets_[i]),
          bytes);
    }
    if (!written) return pass(written.error(), literal.name);
  }
  return {};
}

Status DeviceProgram::bind(const Module& inlined) {
  REPRISE_CHECK(shared_.cubins.kernels.size() ==
                shared_.programs.kernels.size());
  DeviceUnitContext context{.resources = shared_,
                            .module = inlined,
                            .schedule = schedule_,
                            .kernels = {},
                            .buffers = {}};
  for (size_t i = 0; i < schedule_.kernels.size(); ++i)
    context.kernels.push_back(static_cast<int32_t>(i));
  for (const int64_t offset : offsets_) {
    context.buffers.push_back(arena_.address() +
                              static_cast<CUdeviceptr>(offset));
  }
  return calls_.bind(context);
}

Status DeviceProgram::place_host_work() {
  size_t bytes = 0;
  for (const HostWork* work : shared_.host_work)
    bytes = std::max(bytes, work->staging_bytes());
  if (bytes == 0) return {};
  Result<PinnedMemory> staging = PinnedMemory::allocate(driver_, bytes);
  if (!staging) return pass(staging.error(), "staging of work on the host");
  shared_.staging = std::move(*staging);
  for (size_t i = 0; i < shared_.host_work.size(); ++i) {
    const Status placed =
        shared_.host_work[i]->place(shared_.staging.bytes().data());
    if (!placed) return pass(placed.error(), shared_.on_host[i]);
  }
  return {};
}

Status DeviceProgram::enqueue(UnitId unit, CUstream stream) const {
  const Status done = calls_.enqueue(unit, stream);
  if (!done) return pass(done.error(), schedule_.units[index_of(unit)].name);
  return {};
}

Status DeviceProgram::host_failure() const {
  if (!shared_.host_failed) return {};
  return fail(ErrorKind::kDevice, "a library failed in what the host runs");
}

bool DeviceProgram::is_capturable() const {
  return !shared_.reads_back && calls_.operations() <= kMostGraphNodes;
}

CUdeviceptr DeviceProgram::address_of(const Location& location) const {
  return arena_.address() +
         static_cast<CUdeviceptr>(offsets_[index_of(location.buffer)] +
                                  location.offset_bytes);
}

Location DeviceProgram::parameter(int64_t number) const {
  const BufferId id = schedule_.parameter_buffers[static_cast<size_t>(number)];
  return {.buffer = id,
          .offset_bytes = 0,
          .size_bytes = schedule_.buffers[index_of(id)].size_bytes};
}

Location DeviceProgram::output(int64_t number) const {
  return schedule_.outputs[static_cast<size_t>(number)].location;
}

}  // namespace reprise
