// What the NCCL profiler plugin costs the threads of NCCL that call it: CPU
// time of the calls alone, the writer drains between batches.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/profiler/fake_nccl/plugin.h"

namespace reprise {
namespace {

using fake_nccl::ProfilerPlugin;

/// Calls between two drains: their events fit into the plugin's pool.
constexpr int kBatch = 1000;

struct Opened {
  ProfilerPlugin* plugin = ProfilerPlugin::loaded();
  void* context = plugin->open(1, "bench", 1, 2, 0);
};
Opened& opened() {
  static Opened one;
  return one;
}

NcclDescriptorV5 descriptor(NcclEventType type, void* parent) {
  NcclDescriptorV5 made;
  std::memset(&made, 0, sizeof made);
  made.type = type;
  made.parent = parent;
  return made;
}

/// Runs `call` in batches; fails when the plugin turned one away.
template <typename Call>
void run_batches(benchmark::State& state, Call&& call) {
  int64_t turned_away = 0;
  while (state.KeepRunningBatch(kBatch)) {
    for (int i = 0; i < kBatch; ++i) turned_away += call() ? 0 : 1;
    state.PauseTiming();
    opened().plugin->close(opened().context);  // Wakes the writer.
    ::usleep(40'000);
    state.ResumeTiming();
  }
  if (turned_away > 0) state.SkipWithError("the pool was full");
}

/// A collective of one group: three events, as the host thread has them.
void BM_Collective(benchmark::State& state) {
  ProfilerPlugin& plugin = *opened().plugin;
  void* context = opened().context;
  run_batches(state, [&] {
    auto start = descriptor(kNcclCollectiveApi, nullptr);
    start.collective_api = {"AllReduce", 1024,    "ncclFloat32",
                            0,           nullptr, false};
    void* api = plugin.start(context, start);
    plugin.stop(api);
    void* group = plugin.start(context, descriptor(kNcclGroup, nullptr));
    start = descriptor(kNcclCollective, api);
    start.collective.function = "AllReduce";
    start.collective.data_type = "ncclFloat32";
    start.collective.algorithm = "RING";
    start.collective.protocol = "SIMPLE";
    start.collective.count = 1024;
    start.collective.group = group;
    void* call = plugin.start(context, start);
    plugin.stop(call);
    plugin.stop(group);
    return call != nullptr;
  });
}
BENCHMARK(BM_Collective);

/// One transfer with its three waits, as the proxy thread has them.
void BM_ProxyStep(benchmark::State& state) {
  ProfilerPlugin& plugin = *opened().plugin;
  void* context = opened().context;
  auto start = descriptor(kNcclProxyOperation, nullptr);
  start.proxy_operation.process = ::getpid();
  void* operation = plugin.start(context, start);
  run_batches(state, [&] {
    void* step = plugin.start(context, descriptor(kNcclProxyStep, operation));
    plugin.record_state(step, kNcclStepSendGpuWait);
    plugin.record_state(step, kNcclStepSendPeerWait);
    plugin.record_state(step, kNcclStepSendWait, 65536);
    plugin.stop(step);
    return step != nullptr;
  });
  plugin.stop(operation);
}
BENCHMARK(BM_ProxyStep);

}  // namespace
}  // namespace reprise

int main(int count, char** arguments) {
  std::string directory =
      std::filesystem::temp_directory_path() / "nccl_bench.XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return 1;
  ::setenv("REPRISE_PROFILE_DIRECTORY", directory.c_str(), 1);
  ::setenv("NCCL_PROFILER_PLUGIN", REPRISE_BENCH_PLUGIN, 1);
  benchmark::Initialize(&count, arguments);
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove_all(directory);
  return 0;
}
