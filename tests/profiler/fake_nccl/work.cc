#include "tests/profiler/fake_nccl/work.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "tests/profiler/fake_nccl/numbers.h"
#include "tests/profiler/fake_nccl/plugin.h"

namespace fake_nccl {
namespace {

using reprise::NcclDescriptorV5;

bool is_point_to_point(const Work& work) {
  return work.function == Function::kSend || work.function == Function::kRecv;
}

/// Elements of the operand that a collective reads: all ranks' parts of it.
size_t operand_count(const Work& work, int ranks) {
  const bool in_parts = work.function == Function::kReduceScatter ||
                        work.function == Function::kAlltoAll;
  return in_parts ? work.count * static_cast<size_t>(ranks) : work.count;
}

/// Part `begin`, `count` of what all ranks have put into their areas, reduced.
void reduce_areas(Exchange& exchange, const Work& work, std::byte* into,
                  size_t begin, size_t count) {
  const size_t size = element_bytes(work.data_type);
  std::memcpy(into, exchange.area(0) + begin * size, count * size);
  for (int rank = 1; rank < exchange.ranks(); ++rank) {
    reduce(work.data_type, work.operation, into,
           exchange.area(rank) + begin * size, count);
  }
  finish(work.data_type, work.operation, into, count, exchange.ranks());
}

/// Writes this rank's result of a slice of `count` elements at `at`, of which
/// each rank has its own in its area.
void read_slice(Exchange& exchange, const Work& work, size_t at, size_t count) {
  const size_t size = element_bytes(work.data_type);
  auto* into = static_cast<std::byte*>(work.receive);
  switch (work.function) {
    case Function::kReduce:
      if (exchange.rank() != work.peer) return;
      [[fallthrough]];
    case Function::kAllReduce:
      return reduce_areas(exchange, work, into + at * size, 0, count);
    case Function::kBroadcast:
      std::memcpy(into + at * size, exchange.area(work.peer), count * size);
      return;
    case Function::kAllGather:
      for (int rank = 0; rank < exchange.ranks(); ++rank) {
        const size_t place = static_cast<size_t>(rank) * work.count + at;
        std::memcpy(into + place * size, exchange.area(rank), count * size);
      }
      return;
    default:
      return;
  }
}

/// Collectives whose operand every rank cuts into one part for each: slice by
/// slice of a part.
bool perform_in_parts(const Work& work) {
  Exchange& exchange = *work.communicator->exchange;
  const size_t size = element_bytes(work.data_type);
  const auto ranks = static_cast<size_t>(exchange.ranks());
  const auto own = static_cast<size_t>(exchange.rank());
  const size_t slice = Exchange::kAreaBytes / size / ranks;
  const auto* from = static_cast<const std::byte*>(work.send);
  auto* into = static_cast<std::byte*>(work.receive);
  for (size_t at = 0; at < work.count; at += slice) {
    const size_t count = std::min(slice, work.count - at);
    for (size_t part = 0; part < ranks; ++part) {
      std::memcpy(exchange.area(exchange.rank()) + part * count * size,
                  from + (part * work.count + at) * size, count * size);
    }
    if (!exchange.barrier()) return false;
    if (work.function == Function::kReduceScatter) {
      reduce_areas(exchange, work, into + at * size, own * count, count);
    } else {
      for (size_t rank = 0; rank < ranks; ++rank) {
        std::memcpy(into + (rank * work.count + at) * size,
                    exchange.area(static_cast<int>(rank)) + own * count * size,
                    count * size);
      }
    }
    if (!exchange.barrier()) return false;
  }
  return true;
}

bool perform_collective(const Work& work) {
  Exchange& exchange = *work.communicator->exchange;
  if (operand_count(work, 2) != work.count) return perform_in_parts(work);
  const size_t size = element_bytes(work.data_type);
  const size_t slice = Exchange::kAreaBytes / size;
  const auto* from = static_cast<const std::byte*>(work.send);
  for (size_t at = 0; at < work.count; at += slice) {
    const size_t count = std::min(slice, work.count - at);
    if (from != nullptr) {
      std::memcpy(exchange.area(exchange.rank()), from + at * size,
                  count * size);
    }
    if (!exchange.barrier()) return false;
    read_slice(exchange, work, at, count);
    if (!exchange.barrier()) return false;
  }
  return true;
}

/// Sends and receives of a group go on side by side.
bool perform_messages(const std::vector<Work>& all) {
  struct Progress {
    const Work* work;
    size_t done_bytes = 0, size_bytes;
  };
  std::vector<Progress> open;
  for (const Work& work : all) {
    if (!is_point_to_point(work)) continue;
    open.push_back({&work, 0, work.count * element_bytes(work.data_type)});
  }
  if (open.empty()) return true;
  Exchange& exchange = *open[0].work->communicator->exchange;
  return exchange.wait_for([&] {
    std::erase_if(open, [&](Progress& one) {
      const size_t part =
          std::min(Exchange::kMessageBytes, one.size_bytes - one.done_bytes);
      const Work& work = *one.work;
      const bool moved =
          work.function == Function::kSend
              ? exchange.try_send(
                    work.peer,
                    static_cast<const std::byte*>(work.send) + one.done_bytes,
                    part)
              : exchange.try_receive(
                    work.peer,
                    static_cast<std::byte*>(work.receive) + one.done_bytes,
                    part);
      if (moved) one.done_bytes += part;
      return one.done_bytes == one.size_bytes;
    });
    return open.empty();
  });
}

void* start_call(ProfilerPlugin& plugin, const Work& work, void* group) {
  NcclDescriptorV5 descriptor;
  std::memset(&descriptor, 0, sizeof descriptor);
  descriptor.parent = work.api;
  descriptor.rank = work.communicator->exchange->rank();
  if (is_point_to_point(work)) {
    descriptor.type = reprise::kNcclPointToPoint;
    auto& call = descriptor.point_to_point;
    call.function = word(work.function);
    call.data_type = data_type_word(work.data_type);
    call.count = work.count;
    call.peer = work.peer;
    call.channels = 2;
    call.group = group;
  } else {
    descriptor.type = reprise::kNcclCollective;
    auto& call = descriptor.collective;
    call.sequence = static_cast<uint64_t>(work.communicator->collectives++);
    call.function = word(work.function);
    call.data_type = data_type_word(work.data_type);
    call.count = work.count;
    call.root = work.peer;
    call.channels = 2;
    call.warps = 16;
    call.algorithm = "RING";
    call.protocol = "SIMPLE";
    call.group = group;
  }
  return plugin.start(work.communicator->profiler, descriptor);
}

/// The device's timer counts from an epoch of its own.
uint64_t device_ns() {
  constexpr uint64_t kEpoch = 1'000'000'000'000'000'000;
  return kEpoch + static_cast<uint64_t>(
                      std::chrono::steady_clock::now().time_since_epoch() /
                      std::chrono::nanoseconds(1));
}

void play_channels(ProfilerPlugin& plugin, const Work& work, void* call) {
  for (uint8_t channel = 0; channel < 2; ++channel) {
    NcclDescriptorV5 descriptor;
    std::memset(&descriptor, 0, sizeof descriptor);
    descriptor.type = reprise::kNcclKernelChannel;
    descriptor.parent = call;
    descriptor.kernel_channel = {channel, device_ns()};
    void* handle = plugin.start(work.communicator->profiler, descriptor);
    plugin.record_state(handle, reprise::kNcclKernelChannelStop, device_ns());
    plugin.stop(handle);
  }
}

}  // namespace

const char* word(Function function) {
  static constexpr std::array kWords = {
      "AllReduce",     "Reduce",   "Broadcast", "AllGather",
      "ReduceScatter", "AlltoAll", "Send",      "Recv"};
  return kWords[static_cast<size_t>(function)];
}

bool perform(const std::vector<Work>& group) {
  for (const Work& work : group) {
    if (!is_point_to_point(work) && !perform_collective(work)) return false;
  }
  return perform_messages(group);
}

void announce_call(Work& work, void* group_api) {
  ProfilerPlugin* plugin = ProfilerPlugin::loaded();
  if (plugin == nullptr || plugin->version() < 5) return;
  NcclDescriptorV5 descriptor;
  std::memset(&descriptor, 0, sizeof descriptor);
  descriptor.parent = group_api;
  if (is_point_to_point(work)) {
    descriptor.type = reprise::kNcclPointToPointApi;
    descriptor.point_to_point_api = {word(work.function), work.count,
                                     data_type_word(work.data_type),
                                     work.stream, false};
  } else {
    descriptor.type = reprise::kNcclCollectiveApi;
    descriptor.collective_api = {
        word(work.function), work.count,  data_type_word(work.data_type),
        work.peer,           work.stream, false};
  }
  work.api = plugin->start(work.communicator->profiler, descriptor);
  plugin->stop(work.api);
}

void announce_launch(const std::vector<Work>& group) {
  ProfilerPlugin* plugin = ProfilerPlugin::loaded();
  if (plugin == nullptr || group.empty()) return;
  NcclDescriptorV5 descriptor;
  std::memset(&descriptor, 0, sizeof descriptor);
  descriptor.type = reprise::kNcclGroup;
  void* launched = plugin->start(group[0].communicator->profiler, descriptor);
  std::vector<void*> calls;
  for (const Work& work : group) {
    calls.push_back(start_call(*plugin, work, launched));
  }
  for (void* call : calls) plugin->stop(call);
  plugin->stop(launched);
  // The proxy hears of the channels after the calls have ended.
  for (size_t i = 0; i < group.size(); ++i) {
    play_channels(*plugin, group[i], calls[i]);
  }
}

}  // namespace fake_nccl
