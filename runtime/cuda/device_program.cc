// Every unit becomes one of a few bound actions (a kernel launch with its
// parameters, a matrix product, a copy) in a vector, so that enqueueing is a
// walk without lookups or allocation.
#include "runtime/cuda/device_program.h"

#include <algorithm>

#include "data/schedule/memory_plan.h"
#include "runtime/cpu/constants.h"

namespace reprise {

Result<std::unique_ptr<DeviceProgram>> DeviceProgram::create(
    const DeviceContext& context, const Module& inlined,
    const Schedule& schedule, const Cubins& cubins, CublasLibrary& cublas,
    int64_t rank) {
  std::unique_ptr<DeviceProgram> program(
      new DeviceProgram(context.driver(), schedule));
  Status status = program->allocate(cubins);
  if (status) status = program->load_modules(cubins);
  if (status) status = program->write_constants(inlined, rank);
  if (status) status = program->bind(cubins, cublas);
  if (!status) return pass(status.error());
  return program;
}

Status DeviceProgram::allocate(const Cubins& cubins) {
  Schedule planned = schedule_;
  plan_memory(&planned, kDeviceAlignmentBytes);
  for (const Buffer& buffer : planned.buffers)
    offsets_.push_back(buffer.arena_offset);
  const auto bytes = static_cast<size_t>(planned.arena_bytes);
  Result<DeviceMemory> arena = DeviceMemory::allocate(driver_, bytes);
  if (!arena) return pass(arena.error(), "arena");
  arena_ = std::move(*arena);
  int64_t workspace_bytes = 0;
  for (const CubinKernel& kernel : cubins.kernels)
    workspace_bytes = std::max(workspace_bytes, kernel.workspace_bytes);
  Result<DeviceMemory> workspace =
      DeviceMemory::allocate(driver_, static_cast<size_t>(workspace_bytes));
  if (!workspace) return pass(workspace.error(), "workspace of kernels");
  workspace_ = std::move(*workspace);
  Result<DeviceMemory> scratch = DeviceMemory::allocate(
      driver_, static_cast<size_t>(packed_.scratch_bytes));
  if (!scratch) return pass(scratch.error(), "scratch of dots");
  scratch_ = std::move(*scratch);
  // As the CPU's arena: what nothing writes, such as padding, is zero.
  Status zeroed =
      driver_.check(driver_.memset_async(arena_.address(), 0, bytes, nullptr),
                    "cuMemsetD8Async");
  if (!zeroed) return zeroed;
  return driver_.synchronize(nullptr);
}

Status DeviceProgram::load_modules(const Cubins& cubins) {
  for (const std::string& image : cubins.images) {
    CUmodule module = nullptr;
    Status loaded = driver_.check(
        driver_.module_load_data(&module, image.data()), "cuModuleLoadData");
    if (!loaded) return loaded;
    modules_.emplace_back(
        module, DriverDeleter<CUmod_st>{&driver_, &Driver::module_unload});
  }
  return {};
}

Status DeviceProgram::write_constants(const Module& inlined, int64_t rank) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
    const Buffer& buffer = schedule_.buffers[i];
    if (buffer.kind != BufferKind::kConstant) continue;
    const Instruction& literal =
        inlined.entry_computation().at(buffer.constant);
    bytes.resize(static_cast<size_t>(buffer.size_bytes));
    Status written = write_constant(
        inlined, literal, {.rank = rank, .ranks = schedule_.ranks}, bytes);
    if (written) {
      written = write_device(
          driver_, arena_.address() + static_cast<CUdeviceptr>(offsets_[i]),
          bytes);
    }
    if (!written) return pass(written.error(), literal.name);
  }
  return {};
}

Status DeviceProgram::bind(const Cubins& cubins, CublasLibrary& cublas) {
  REPRISE_CHECK(cubins.kernels.size() ==
                schedule_.kernels.size() + packed_.kernels.size());
  for (size_t i = 0; i < schedule_.units.size(); ++i) {
    thunks_.emplace_back();
    const Status bound = bind_unit(static_cast<UnitId>(i), cubins, cublas);
    if (!bound) return pass(bound.error(), schedule_.units[i].name);
  }
  // Only now do addresses stay where they are.
  for (CUdeviceptr& address : addresses_) parameters_.push_back(&address);
  return {};
}

Status DeviceProgram::bind_unit(UnitId id, const Cubins& cubins,
                                CublasLibrary& cublas) {
  const Unit& unit = schedule_.units[index_of(id)];
  Thunk& thunk = thunks_[index_of(id)];
  thunk.kind = unit.kind;
  switch (unit.kind) {
    case UnitKind::kKernel: {
      std::vector<CUdeviceptr> arguments;
      for (const auto* locations : {&unit.reads, &unit.writes}) {
        for (const Location& location : *locations)
          arguments.push_back(address_of(location));
      }
      return bind_kernel(cubins.kernels[static_cast<size_t>(unit.kernel)],
                         arguments, thunk);
    }
    case UnitKind::kLibrary:
      return bind_dot(id, cubins, cublas, thunk);
    case UnitKind::kCopy:
      REPRISE_CHECK(unit.reads.size() == 1 && unit.writes.size() == 1);
      thunk.source = address_of(unit.reads[0]);
      thunk.target = address_of(unit.writes[0]);
      thunk.size_bytes = static_cast<size_t>(unit.writes[0].size_bytes);
      return {};
    case UnitKind::kRoutine:
      return fail(ErrorKind::kUnsupported, "it does not run on GPUs yet");
    case UnitKind::kCollective:
      return {};  // The communicator's.
  }
  return {};
}

Status DeviceProgram::bind_dot(UnitId id, const Cubins& cubins,
                               CublasLibrary& cublas, Thunk& thunk) {
  DotSpec spec = schedule_.units[index_of(id)].dot;
  CublasMemory memory{.lhs = address_of(spec.lhs.location),
                      .rhs = address_of(spec.rhs.location),
                      .out = address_of(spec.out.location)};
  if (spec.bias) memory.bias = address_of(*spec.bias);
  if (spec.accumulate) memory.accumulate = address_of(*spec.accumulate);
  const auto found = packed_.operands.find(id);
  if (found != packed_.operands.end()) {
    for (const PackedOperand& operand : found->second) {
      CUdeviceptr& address = operand.is_rhs ? memory.rhs : memory.lhs;
      MatrixView& view = operand.is_rhs ? spec.rhs : spec.lhs;
      const CUdeviceptr dense =
          scratch_.address() + static_cast<CUdeviceptr>(operand.scratch_offset);
      const size_t kernel =
          schedule_.kernels.size() + static_cast<size_t>(operand.kernel);
      Status bound =
          bind_kernel(cubins.kernels[kernel], {address, dense}, thunk);
      if (!bound) return bound;
      address = dense;
      view = dense_view(view);
    }
  }
  Result<CublasLibrary::Call> dot = cublas.bind(spec, memory);
  if (!dot) return pass(dot.error());
  thunk.dot = std::move(*dot);
  return {};
}

Status DeviceProgram::bind_kernel(const CubinKernel& kernel,
                                  const std::vector<CUdeviceptr>& arguments,
                                  Thunk& thunk) {
  const size_t first_parameter = addresses_.size();
  addresses_.insert(addresses_.end(), arguments.begin(), arguments.end());
  // One workspace serves all: kernels run one after the other.
  addresses_.push_back(workspace_.address());
  for (const CubinLaunch& launch : kernel.launches) {
    CUfunction function = nullptr;
    const Status found = driver_.check(
        driver_.module_get_function(&function, modules_[kernel.image].get(),
                                    launch.entry.c_str()),
        "cuModuleGetFunction");
    if (!found) return pass(found.error(), launch.entry);
    thunk.launches.push_back({.function = function,
                              .grid_blocks = launch.grid_blocks,
                              .block_threads = launch.block_threads,
                              .first_parameter = first_parameter});
  }
  return {};
}

Status DeviceProgram::enqueue(UnitId unit, CUstream stream) const {
  const Thunk& thunk = thunks_[index_of(unit)];
  Status done;
  for (const Launch& launch : thunk.launches) {
    if (!done) break;
    // The driver reads the parameters only.
    void** parameters =
        const_cast<void**>(parameters_.data()) + launch.first_parameter;
    done =
        driver_.check(driver_.launch_kernel(launch.function, launch.grid_blocks,
                                            1, 1, launch.block_threads, 1, 1, 0,
                                            stream, parameters, nullptr),
                      "cuLaunchKernel");
  }
  switch (thunk.kind) {
    case UnitKind::kKernel:
      break;
    case UnitKind::kLibrary:
      if (done) done = thunk.dot.enqueue(stream);
      break;
    case UnitKind::kCopy:
      done =
          driver_.check(driver_.copy_on_device_async(thunk.target, thunk.source,
                                                     thunk.size_bytes, stream),
                        "cuMemcpyDtoDAsync");
      break;
    case UnitKind::kRoutine:
    case UnitKind::kCollective:
      REPRISE_CHECK(false);
  }
  if (!done) return pass(done.error(), schedule_.units[index_of(unit)].name);
  return {};
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
