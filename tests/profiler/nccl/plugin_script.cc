#include "tests/profiler/nccl/plugin_script.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/profiler/fake_nccl/plugin.h"

namespace reprise {

using fake_nccl::ProfilerPlugin;

NcclDescriptorV5 descriptor(NcclEventType type, void* parent) {
  NcclDescriptorV5 made;
  std::memset(&made, 0, sizeof made);
  made.type = type;
  made.parent = parent;
  return made;
}

namespace {

class Player {
 public:
  Player(ProfilerPlugin& plugin, Script& script)
      : plugin_(plugin), script_(script) {
    for (size_t thread = 0; thread < kThreads; ++thread) {
      contexts_[thread] = plugin.open(0xabc0 + thread, "grad \"sum\"", 2, 8,
                                      static_cast<int>(thread));
    }
  }

  void play_host(size_t thread, size_t i) {
    Call& call = script_[thread][i];
    call.thread = ProcessRecorder::thread_id();
    void* context = contexts_[thread];
    void* api = call.api.start.around([&] { return start_api(thread, i); });
    call.api.stop.around([&] { plugin_.stop(api); });
    void* group = call.group.start.around(
        [&] { return plugin_.start(context, descriptor(kNcclGroup)); });
    call.handle = call.call.start.around(
        [&] { return start_call(thread, i, api, group); });
    call.call.stop.around([&] { plugin_.stop(call.handle); });
    call.group.stop.around([&] { plugin_.stop(group); });
  }

  void play_proxy(size_t thread, size_t i) {
    Call& call = script_[thread][i];
    call.proxy_thread = ProcessRecorder::thread_id();
    auto start = descriptor(kNcclProxyOperation, call.handle);
    start.proxy_operation = {
        ::getpid(), static_cast<uint8_t>(i % 3), 5, kSteps, 4096, i % 2 == 0};
    void* operation = call.operation.start.around(
        [&] { return plugin_.start(contexts_[thread], start); });
    plugin_.record_state(operation, kNcclOperationInProgress);
    for (size_t step = 0; step < kSteps; ++step) {
      play_step(thread, i, step, operation);
    }
    call.operation.stop.around([&] { plugin_.stop(operation); });
    for (size_t channel = 0; channel < 2; ++channel) {
      play_channel(thread, i, channel);
    }
  }

 private:
  void* start_api(size_t thread, size_t i) {
    if (is_send(i)) {
      auto start = descriptor(kNcclPointToPointApi);
      start.point_to_point_api = {"Send", count_of(thread, i), "ncclFloat32",
                                  reinterpret_cast<void*>(0x77), false};
      return plugin_.start(contexts_[thread], start);
    }
    auto start = descriptor(kNcclCollectiveApi);
    start.collective_api = {
        "AllReduce", count_of(thread, i),           "ncclBfloat16",
        0,           reinterpret_cast<void*>(0x77), true};
    return plugin_.start(contexts_[thread], start);
  }

  void* start_call(size_t thread, size_t i, void* api, void* group) {
    if (is_send(i)) {
      auto start = descriptor(kNcclPointToPoint, api);
      start.point_to_point.function = "Send";
      start.point_to_point.data_type = "ncclFloat32";
      start.point_to_point.count = count_of(thread, i);
      start.point_to_point.peer = 6;
      start.point_to_point.channels = 2;
      start.point_to_point.group = group;
      return plugin_.start(contexts_[thread], start);
    }
    auto start = descriptor(kNcclCollective, api);
    start.collective.sequence = i;
    start.collective.function = "AllReduce";
    start.collective.count = count_of(thread, i);
    start.collective.data_type = "ncclBfloat16";
    start.collective.channels = 2;
    start.collective.warps = 16;
    start.collective.algorithm = "NVLS_TREE";
    start.collective.protocol = "SIMPLE";
    start.collective.group = group;
    return plugin_.start(contexts_[thread], start);
  }

  void play_step(size_t thread, size_t i, size_t step, void* operation) {
    Call& call = script_[thread][i];
    auto start = descriptor(kNcclProxyStep, operation);
    start.proxy_step = static_cast<int>(step);
    void* handle = call.steps[step].start.around(
        [&] { return plugin_.start(contexts_[thread], start); });
    const bool sends = i % 2 == 0;
    const std::array<int, 3> states =
        sends ? std::array<int, 3>{kNcclStepSendGpuWait, kNcclStepSendPeerWait,
                                   kNcclStepSendWait}
              : std::array<int, 3>{kNcclStepReceiveWait,
                                   kNcclStepReceiveFlushWait,
                                   kNcclStepReceiveGpuWait};
    for (size_t wait = 0; wait < 3; ++wait) {
      // The size is known from the last state on, as NCCL's is.
      call.waits[step][wait].around([&] {
        plugin_.record_state(handle, states[wait],
                             wait == 2 ? 1000 * (step + 1) : 0);
      });
    }
    call.steps[step].stop.around([&] { plugin_.stop(handle); });
  }

  void play_channel(size_t thread, size_t i, size_t channel) {
    auto start = descriptor(kNcclKernelChannel, script_[thread][i].handle);
    start.kernel_channel = {static_cast<uint8_t>(channel),
                            device_start(i, channel)};
    void* handle = plugin_.start(contexts_[thread], start);
    plugin_.record_state(handle, kNcclKernelChannelStop,
                         device_end(i, channel));
    script_[thread][i].channel_ends[channel].around(
        [&] { plugin_.stop(handle); });
  }

  ProfilerPlugin& plugin_;
  Script& script_;
  std::array<void*, kThreads> contexts_{};
};

}  // namespace

int play_script(Script* script) {
  ProfilerPlugin* plugin = ProfilerPlugin::loaded();
  if (plugin == nullptr) return 1;
  Player player(*plugin, *script);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::atomic<size_t> ready{0};
      std::thread proxy([&] {
        for (size_t i = 0; i < kCalls; ++i) {
          while (ready <= i) std::this_thread::yield();
          player.play_proxy(thread, i);
        }
      });
      for (size_t i = 0; i < kCalls; ++i) {
        player.play_host(thread, i);
        ready = i + 1;
      }
      proxy.join();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;  // Without finalize, as many host programs end.
}

}  // namespace reprise
