#include "tests/profiler/fake_nccl/work.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/profiler/fake_nccl/numbers.h"
#include "tests/profiler/fake_nccl/plugin.h"

namespace fake_nccl {
namespace {

using reprise::NcclDescriptorV5;

bool is_point_to_point(const Work& work) {
  return work.function == Function::kSend || work.function == Function::kRecv;
}

/// Whether every rank cuts its operand into one part for each rank.
bool is_in_parts(const Work& work) {
  return work.function == Function::kReduceScatter ||
         work.function == Function::kAlltoAll;
}

/// Elements, of each part, that go through an area at once.
size_t slice_count(const Work& work) {
  const auto parts = static_cast<size_t>(
      is_in_parts(work) ? work.communicator->exchange->ranks() : 1);
  return Exchange::kAreaBytes / element_bytes(work.data_type) / parts;
}

/// Elements `begin`, `count` of what all ranks have in their areas, reduced.
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

void Performance::write_slice(const Work& work) {
  if (work.send == nullptr) return;
  Exchange& exchange = *work.communicator->exchange;
  const size_t size = element_bytes(work.data_type);
  const size_t count = std::min(slice_count(work), work.count - at_);
  const int parts = is_in_parts(work) ? exchange.ranks() : 1;
  const auto* from = static_cast<const std::byte*>(work.send) + at_ * size;
  std::byte* into = exchange.area(exchange.rank());
  for (int part = 0; part < parts; ++part) {
    std::memcpy(into, from, count * size);
    from += work.count * size;
    into += count * size;
  }
}

void Performance::read_slice(const Work& work) {
  Exchange& exchange = *work.communicator->exchange;
  const size_t size = element_bytes(work.data_type);
  const size_t count = std::min(slice_count(work), work.count - at_);
  const size_t own = static_cast<size_t>(exchange.rank()) * count;
  auto* into = static_cast<std::byte*>(work.receive) + at_ * size;
  switch (work.function) {
    case Function::kReduce:
      if (exchange.rank() != work.peer) return;
      return reduce_areas(exchange, work, into, 0, count);
    case Function::kAllReduce:
      return reduce_areas(exchange, work, into, 0, count);
    case Function::kReduceScatter:
      return reduce_areas(exchange, work, into, own, count);
    case Function::kBroadcast:
      std::memcpy(into, exchange.area(work.peer), count * size);
      return;
    case Function::kAllGather:
    case Function::kAlltoAll:
      for (int rank = 0; rank < exchange.ranks(); ++rank) {
        const size_t begin = work.function == Function::kAlltoAll ? own : 0;
        std::memcpy(into, exchange.area(rank) + begin * size, count * size);
        into += work.count * size;
      }
      return;
    default:
      return;
  }
}

/// True when the collective is done.
bool Performance::advance_collective() {
  const Work& work = group_[current_];
  Exchange& exchange = *work.communicator->exchange;
  for (;;) {
    if (phase_ == 0) {
      if (at_ >= work.count) return true;
      write_slice(work);
      round_ = exchange.arrive();
      phase_ = 1;
    }
    if (!exchange.all_arrived(round_)) return false;
    if (phase_ == 1) {
      read_slice(work);
      round_ = exchange.arrive();
      phase_ = 2;
      if (!exchange.all_arrived(round_)) return false;
    }
    at_ += slice_count(work);
    phase_ = 0;
  }
}

/// Sends and receives go on side by side.
bool Performance::advance_messages() {
  if (!std::exchange(has_messages_, true)) {
    for (const Work& work : group_) {
      if (!is_point_to_point(work)) continue;
      messages_.push_back(
          {&work, 0, work.count * element_bytes(work.data_type)});
    }
  }
  std::erase_if(messages_, [](Message& one) {
    const Work& work = *one.work;
    Exchange& exchange = *work.communicator->exchange;
    const size_t part =
        std::min(Exchange::kMessageBytes, one.size_bytes - one.done_bytes);
    const auto* from = static_cast<const std::byte*>(work.send);
    auto* into = static_cast<std::byte*>(work.receive);
    const bool moved =
        work.function == Function::kSend
            ? exchange.try_send(work.peer, from + one.done_bytes, part)
            : exchange.try_receive(work.peer, into + one.done_bytes, part);
    if (moved) one.done_bytes += part;
    return one.done_bytes == one.size_bytes;
  });
  return messages_.empty();
}

bool Performance::is_late() {
  const auto now = std::chrono::steady_clock::now();
  if (begin_ == std::chrono::steady_clock::time_point{}) begin_ = now;
  return now - begin_ > std::chrono::duration<double>(patience_s());
}

bool Performance::advance() {
  ncclComm& communicator = *group_[0].communicator;
  if (communicator.exchange->is_aborted() || is_late()) {
    communicator.asynchronous_error = kRemoteError;
    return true;
  }
  while (current_ < group_.size()) {
    if (!is_point_to_point(group_[current_]) && !advance_collective()) {
      return false;
    }
    ++current_;
    at_ = 0;
  }
  return advance_messages();
}

void Performance::finish() {
  while (!advance()) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
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
