#include "runtime/cuda/device_unit_calls.h"

#include <algorithm>
#include <utility>

#include "runtime/cuda/host_work.h"

namespace reprise {

/// One launch of a kernel; its parameters are addresses and the first block.
struct DeviceUnitCalls::Launch {
  CUfunction function = nullptr;
  uint32_t grid_blocks = 1, block_threads = 1;
  size_t first_parameter = 0;
};

struct DeviceUnitCalls::Call {
  enum class Kind : uint8_t { kLaunches, kDot, kCopy, kRoutine, kCollective };
  Kind kind = Kind::kLaunches;
  std::vector<Launch> launches;  ///< Of a dot, what is packed before it.
  CublasLibrary::Call dot;
  std::vector<ArrayAddresses> arrays;  ///< kCopy, kCollective.
  std::vector<size_t> copied_bytes;    ///< kCopy: [array].
  std::unique_ptr<DeviceRoutine> routine;
  DeviceCommunicator* communicator = nullptr;
};

/// Binds a schedule's units, one after the other.
class DeviceUnitCalls::Binder {
 public:
  Binder(const DeviceUnitContext& context, DeviceUnitCalls& calls)
      : context_(context),
        shared_(context.resources),
        packed_(shared_.programs.packed.at(&context.schedule)),
        calls_(calls) {}

  Status bind(UnitId id) {
    const Unit& unit = context_.schedule.units[index_of(id)];
    Call& call = calls_.calls_.emplace_back();
    switch (unit.kind) {
      case UnitKind::kKernel: {
        std::vector<ArgumentPlace> arguments;
        for (const auto* locations : {&unit.reads, &unit.writes}) {
          for (const Location& location : *locations)
            arguments.push_back(place_of(location));
        }
        const auto kernel = static_cast<size_t>(
            context_.kernels[static_cast<size_t>(unit.kernel)]);
        return bind_kernel(kernel, arguments, call);
      }
      case UnitKind::kLibrary:
        return bind_dot(id, unit, call);
      case UnitKind::kCopy:
        REPRISE_CHECK(unit.reads.size() == 1 && unit.writes.size() == 1);
        call.kind = Call::Kind::kCopy;
        call.arrays = {{context_.address_of(unit.reads[0]),
                        context_.address_of(unit.writes[0])}};
        call.copied_bytes = {static_cast<size_t>(unit.writes[0].size_bytes)};
        return {};
      case UnitKind::kRoutine:
        return bind_routine(unit, call);
      case UnitKind::kCollective:
        return bind_collective(unit, call);
    }
    return {};
  }

 private:
  ArgumentPlace place_of(const Location& location) const {
    return {.address = context_.address_of(location),
            .size_bytes = static_cast<uint64_t>(location.size_bytes)};
  }

  Status bind_kernel(size_t kernel, const std::vector<ArgumentPlace>& arguments,
                     Call& call) {
    const CubinKernel& cubin = shared_.cubins.kernels[kernel];
    for (const LaunchedBlocks& blocks : launched_blocks(cubin, arguments)) {
      const PrintedLaunch& launch = cubin.launches[blocks.launch];
      CUfunction function = nullptr;
      const Status found = shared_.driver.check(
          shared_.driver.module_get_function(&function,
                                             shared_.modules[cubin.image].get(),
                                             launch.entry.c_str()),
          "cuModuleGetFunction");
      if (!found) return pass(found.error(), launch.entry);
      call.launches.push_back({.function = function,
                               .grid_blocks = blocks.blocks,
                               .block_threads = launch.block_threads,
                               .first_parameter = calls_.addresses_.size()});
      for (const ArgumentPlace& argument : arguments)
        calls_.addresses_.push_back(argument.address);
      // One workspace serves all: kernels run one after the other.
      calls_.addresses_.push_back(shared_.workspace.address());
      calls_.addresses_.push_back(blocks.first_block);
    }
    return {};
  }

  Status bind_dot(UnitId id, const Unit& unit, Call& call) {
    DotSpec spec = unit.dot;
    CublasMemory memory{.lhs = context_.address_of(spec.lhs.location),
                        .rhs = context_.address_of(spec.rhs.location),
                        .out = context_.address_of(spec.out.location)};
    if (spec.bias) memory.bias = context_.address_of(*spec.bias);
    if (spec.accumulate)
      memory.accumulate = context_.address_of(*spec.accumulate);
    const auto found = packed_.dots.operands.find(id);
    if (found != packed_.dots.operands.end()) {
      for (const PackedOperand& operand : found->second) {
        CUdeviceptr& address = operand.is_rhs ? memory.rhs : memory.lhs;
        MatrixView& view = operand.is_rhs ? spec.rhs : spec.lhs;
        const CUdeviceptr dense =
            shared_.scratch.address() +
            static_cast<CUdeviceptr>(operand.scratch_offset);
        Status bound = bind_kernel(
            packed_.first_kernel + static_cast<size_t>(operand.kernel),
            {{address, 0}, {dense, 0}}, call);
        if (!bound) return bound;
        address = dense;
        view = dense_view(view);
      }
    }
    Result<CublasLibrary::Call> dot = shared_.cublas.bind(spec, memory);
    if (!dot) return pass(dot.error());
    call.kind = Call::Kind::kDot;
    call.dot = std::move(*dot);
    return {};
  }

  Status bind_routine(const Unit& unit, Call& call) {
    switch (context_.module.entry_computation()
                .at(unit.routine.instruction)
                .opcode) {
      case Opcode::kWhile:
        return take(make_device_loop(context_, unit), call);
      case Opcode::kConditional:
        return take(make_device_conditional(context_, unit), call);
      default:
        break;
    }
    const auto expanded = shared_.programs.expanded.find(&unit);
    if (expanded != shared_.programs.expanded.end()) {
      DeviceArrays arrays = arrays_of(context_, unit);
      arrays.workspace = shared_.expansion.address();
      return take(make_expanded(shared_, expanded->second, arrays), call);
    }
    const auto found = shared_.programs.convolutions.find(&unit);
    if (found != shared_.programs.convolutions.end()) {
      return take(make_library_convolution(shared_, found->second,
                                           arrays_of(context_, unit)),
                  call);
    }
    return take(make_host_routine(context_, unit), call);
  }

  // What several ranks would leave, one that is alone needs not.
  Status bind_collective(const Unit& unit, Call& call) {
    const CollectiveSpec& spec = unit.collective;
    DeviceCommunicator* communicator = shared_.binding.communicator;
    REPRISE_CHECK(context_.is_step || communicator != nullptr);
    const bool alone = communicator != nullptr && communicator->is_immediate();
    for (const CollectiveArray& array : spec.arrays) {
      const ArrayAddresses addresses{context_.address_of(array.input),
                                     context_.address_of(array.output)};
      if (alone && addresses.input == addresses.output) continue;
      call.arrays.push_back(addresses);
      call.copied_bytes.push_back(static_cast<size_t>(
          std::min(array.input.size_bytes, array.output.size_bytes)));
    }
    if (alone) {
      call.kind = Call::Kind::kCopy;
    } else if (!context_.is_step) {
      call.kind = Call::Kind::kCollective;
      call.communicator = communicator;
      shared_.called_collectives.push_back(&unit);
    }
    return {};
  }

  static Status take(Result<std::unique_ptr<DeviceRoutine>> routine,
                     Call& call) {
    if (!routine) return pass(routine.error());
    call.kind = Call::Kind::kRoutine;
    call.routine = *std::move(routine);
    return {};
  }

  const DeviceUnitContext& context_;
  DeviceResources& shared_;
  const DevicePrograms::Packed& packed_;
  DeviceUnitCalls& calls_;
};

DeviceUnitCalls::DeviceUnitCalls() = default;
DeviceUnitCalls::~DeviceUnitCalls() = default;
DeviceUnitCalls::DeviceUnitCalls(DeviceUnitCalls&&) noexcept = default;
DeviceUnitCalls& DeviceUnitCalls::operator=(DeviceUnitCalls&&) noexcept =
    default;

Status DeviceUnitCalls::bind(const DeviceUnitContext& context) {
  driver_ = &context.resources.driver;
  schedule_ = &context.schedule;
  Binder binder(context, *this);
  for (size_t i = 0; i < context.schedule.units.size(); ++i) {
    const Status bound = binder.bind(static_cast<UnitId>(i));
    if (!bound) return pass(bound.error(), context.schedule.units[i].name);
  }
  // Only now do addresses stay where they are.
  for (CUdeviceptr& address : addresses_) parameters_.push_back(&address);
  return {};
}

Status DeviceUnitCalls::enqueue(UnitId unit, CUstream stream) const {
  const Call& call = calls_[index_of(unit)];
  for (const Launch& launch : call.launches) {
    // The driver reads the parameters only.
    void** parameters =
        const_cast<void**>(parameters_.data()) + launch.first_parameter;
    Status launched = driver_->check(
        driver_->launch_kernel(launch.function, launch.grid_blocks, 1, 1,
                               launch.block_threads, 1, 1, 0, stream,
                               parameters, nullptr),
        "cuLaunchKernel");
    if (!launched) return launched;
  }
  switch (call.kind) {
    case Call::Kind::kLaunches:
      return {};
    case Call::Kind::kDot:
      return call.dot.enqueue(stream);
    case Call::Kind::kCopy:
      for (size_t a = 0; a < call.arrays.size(); ++a) {
        const Status copied =
            driver_->check(driver_->copy_on_device_async(
                               call.arrays[a].output, call.arrays[a].input,
                               call.copied_bytes[a], stream),
                           "cuMemcpyDtoDAsync");
        if (!copied) return copied;
      }
      return {};
    case Call::Kind::kRoutine:
      return call.routine->enqueue(stream);
    case Call::Kind::kCollective:
      return call.communicator->enqueue(
          schedule_->units[index_of(unit)].collective, call.arrays, stream);
  }
  return {};
}

Status DeviceUnitCalls::enqueue_all(CUstream stream) const {
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Status done = enqueue(static_cast<UnitId>(i), stream);
    if (!done) return pass(done.error(), schedule_->units[i].name);
  }
  return {};
}

int64_t DeviceUnitCalls::operations() const {
  int64_t operations = 0;
  for (const Call& call : calls_) {
    operations += static_cast<int64_t>(call.launches.size());
    operations += call.routine != nullptr ? call.routine->operations() : 1;
    if (call.kind == Call::Kind::kCopy && call.arrays.size() > 1)
      operations += static_cast<int64_t>(call.arrays.size()) - 1;
  }
  return operations;
}

}  // namespace reprise
