// The plugin in a process where a window of steps is recorded: this program
// stands in for the injection library, and opens and closes it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "profiler/nccl/event_writer.h"
#include "tests/profiler/fake_nccl/plugin.h"
#include "tests/profiler/nccl/nccl_host.h"
#include "tests/profiler/nccl/plugin_script.h"

namespace {
std::atomic<int> is_open{0};
}  // namespace

extern "C" [[gnu::visibility("default")]] int reprise_is_window_open() {
  return is_open;
}

namespace reprise {
namespace {

using fake_nccl::ProfilerPlugin;

/// One communicator of the plugin, as NCCL plays to it.
class WindowPlayer {
 public:
  WindowPlayer()
      : plugin_(*ProfilerPlugin::loaded()),
        context_(plugin_.open(0xc, "", 1, 2, 0)) {}

  /// Calls as the host program makes them, each of its own count; the handles.
  std::vector<void*> call(const std::vector<uint64_t>& counts, bool captured) {
    auto start = descriptor(kNcclGroupApi);
    start.group_api.graph_captured = captured;
    group_ = plugin_.start(context_, start);
    std::vector<void*> calls;
    for (const uint64_t count : counts) {
      start = descriptor(kNcclCollectiveApi, group_);
      start.collective_api = {"AllReduce", count,   "ncclFloat32",
                              0,           nullptr, captured};
      calls.push_back(plugin_.start(context_, start));
      plugin_.stop(calls.back());  // A call in a group has ended before that.
    }
    return calls;
  }
  void end_call() { plugin_.stop(group_); }

  /// NCCL launches calls of `counts` together, made by the calls `apis`.
  std::vector<void*> launch(const std::vector<uint64_t>& counts,
                            const std::vector<void*>& apis) {
    void* group = plugin_.start(context_, descriptor(kNcclGroup));
    std::vector<void*> calls;
    for (size_t i = 0; i < counts.size(); ++i) {
      auto start = descriptor(kNcclCollective, apis[i]);
      start.collective.function = "AllReduce";
      start.collective.data_type = "ncclFloat32";
      start.collective.count = counts[i];
      start.collective.group = group;
      calls.push_back(plugin_.start(context_, start));
      plugin_.stop(calls.back());
    }
    plugin_.stop(group);
    return calls;
  }

  /// A channel of the kernel, and one step of the proxy.
  void run(void* call) {
    auto start = descriptor(kNcclKernelChannel, call);
    start.kernel_channel.device_ns = 1000;
    void* channel = plugin_.start(context_, start);
    plugin_.record_state(channel, kNcclKernelChannelStop, 2000);
    start = descriptor(kNcclProxyOperation, call);
    start.proxy_operation.process = ::getpid();
    void* operation = plugin_.start(context_, start);
    void* step = plugin_.start(context_, descriptor(kNcclProxyStep, operation));
    for (void* handle : {step, operation, channel}) plugin_.stop(handle);
  }

 private:
  ProfilerPlugin& plugin_;
  void* context_;
  void* group_ = nullptr;
};

class NcclPluginWindow : public testing::TestWithParam<int> {
 protected:
  StrictShardContents play(const std::function<int()>& host,
                           const char* steps = "2:4") {
    const int status =
        run_host(directory_.path(),
                 {{"FAKE_NCCL_PROFILER_VERSION", std::to_string(GetParam())},
                  {"REPRISE_PROFILE_STEPS", steps}},
                 host);
    EXPECT_EQ(status, 0);
    return only_shard(directory_.path());
  }
  ScratchDirectory directory_;
};

/// Bytes of the calls of a shard (four for each element), in their order.
std::vector<int64_t> bytes_of(const StrictShardContents& shard) {
  std::vector<int64_t> bytes;
  for (const ProcessRecord& call : shard.of(RecordKind::kCollective)) {
    bytes.push_back(call.bytes);
  }
  return bytes;
}

void call_and_run(WindowPlayer& player, uint64_t count) {
  const auto apis = player.call({count}, false);
  const auto calls = player.launch({count}, apis);
  player.end_call();
  player.run(calls[0]);
}

TEST_P(NcclPluginWindow, HoldsTheCallsThatStartInIt) {
  const StrictShardContents shard = play([] {
    WindowPlayer player;
    call_and_run(player, 1);
    is_open = 1;
    call_and_run(player, 2);
    // Starts within it; its kernel runs later.
    const auto apis = player.call({3}, false);
    const auto calls = player.launch({3}, apis);
    player.end_call();
    is_open = 0;
    player.run(calls[0]);
    call_and_run(player, 4);
    return 0;
  });
  EXPECT_EQ(bytes_of(shard), (std::vector<int64_t>{8, 12}));
  EXPECT_EQ(shard.of(RecordKind::kDeviceTimer).size(), 2U);
  EXPECT_EQ(shard.of(RecordKind::kNetworkStep).size(), 4U);
  // Of each call its launch and, in version 5, itself and its group.
  EXPECT_EQ(shard.of(RecordKind::kRange).size(), GetParam() >= 5 ? 6U : 2U);
  for (const ProcessRecord& record : shard.records) {
    EXPECT_EQ(record.flags & kOutsideWindow, 0);
  }
  EXPECT_TRUE(shard.end["lost"].empty());
}

// Version 4 does not say what is captured, but tells of each replay.
TEST_P(NcclPluginWindow, KeepsWhatGraphsCaptureBeforeIt) {
  if (GetParam() < 5) GTEST_SKIP() << "version 4 does not say it";
  const StrictShardContents shard = play([] {
    WindowPlayer player;
    const auto apis = player.call({1, 2}, true);
    const auto captured = player.launch({1, 2}, apis);
    player.end_call();
    player.run(captured[0]);
    const auto replay = [&] {
      std::thread driver([&] {
        const auto calls = player.launch({1, 2}, apis);
        for (void* call : calls) player.run(call);
      });
      driver.join();
    };
    replay();
    is_open = 1;
    replay();
    is_open = 0;
    replay();
    return 0;
  });
  EXPECT_EQ(bytes_of(shard), (std::vector<int64_t>{4, 8, 4, 8}));
  const auto calls = shard.of(RecordKind::kCollective);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(calls[i].flags, i < 2 ? kOutsideWindow : 0);
    EXPECT_EQ(calls[i].external_id, calls[i % 2].external_id);
    EXPECT_NE(calls[i].external_id, -1);
  }
  std::map<int64_t, ProcessRecord> ranges;
  for (const ProcessRecord& range : shard.of(RecordKind::kRange)) {
    ranges[range.correlation] = range;
  }
  // The captured calls, their group, and both launches.
  EXPECT_EQ(ranges.size(), 5U);
  EXPECT_EQ(calls[0].graph_node, calls[1].graph_node);
  EXPECT_EQ(ranges.at(calls[0].graph_node).flags, kOutsideWindow);
  EXPECT_EQ(ranges.at(calls[2].graph_node).flags, 0);
  EXPECT_EQ(shard.info(ranges.at(calls[0].external_id))["graph_captured"], 1);
  EXPECT_EQ(shard.of(RecordKind::kDeviceTimer).size(), 2U);
}

TEST_P(NcclPluginWindow, HasNoLimitsUnlessTheyAreAskedFor) {
  const StrictShardContents shard = play(
      [] {
        WindowPlayer player;
        call_and_run(player, 1);
        return 0;
      },
      "");
  EXPECT_EQ(bytes_of(shard), (std::vector<int64_t>{4}));
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclPluginWindow, testing::Values(6, 5, 4),
                         [](const auto& version) {
                           return "V" + std::to_string(version.param);
                         });

}  // namespace
}  // namespace reprise
