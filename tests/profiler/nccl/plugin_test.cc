// The real plugin, loaded and called as NCCL does, in processes of its own; the
// shard that each leaves is held against the script that was played.
#include "tests/profiler/fake_nccl/plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <vector>

#include "profiler/nccl/event_writer.h"
#include "tests/profiler/nccl/nccl_host.h"
#include "tests/profiler/nccl/other_tables.h"
#include "tests/profiler/nccl/plugin_script.h"

namespace reprise {
namespace {

using fake_nccl::ProfilerPlugin;
using nlohmann::json;

constexpr const char* kFull =
    "nccl: more events at once than there is room for";
constexpr const char* kNoEnd = "nccl: events without an end";
constexpr const char* kNoTimer =
    "nccl: no device timer at a channel's start or end";

/// The records of a shard by the call that they belong to.
class CallsOfShard {
 public:
  explicit CallsOfShard(const StrictShardContents& shard) {
    for (const ProcessRecord& record : shard.records) {
      if (record.kind == RecordKind::kRange) {
        ranges_[record.correlation] = record;
      } else if (record.kind == RecordKind::kCollective) {
        calls_[{shard.info(record)["rank"], record.bytes}] = record;
      } else {
        parts_[record.correlation].push_back(record);
      }
    }
  }

  const ProcessRecord& call(size_t thread, int64_t bytes) const {
    return calls_.at({static_cast<int>(thread), bytes});
  }
  const ProcessRecord& range(int64_t id) const { return ranges_.at(id); }
  std::vector<ProcessRecord> parts(int64_t id, RecordKind kind,
                                   uint16_t flags = 0) const {
    std::vector<ProcessRecord> found;
    for (const ProcessRecord& part : parts_.at(id)) {
      if (part.kind == kind && part.flags == flags) found.push_back(part);
    }
    return found;
  }
  size_t calls() const { return calls_.size(); }
  size_t ranges() const { return ranges_.size(); }

 private:
  std::map<std::pair<int, int64_t>, ProcessRecord> calls_;
  std::map<int64_t, ProcessRecord> ranges_;
  std::map<int64_t, std::vector<ProcessRecord>> parts_;
};

class NcclPlugin : public testing::TestWithParam<int> {
 protected:
  int play(const std::function<int()>& host) {
    return run_host(
        directory_.path(),
        {{"FAKE_NCCL_PROFILER_VERSION", std::to_string(GetParam())}}, host);
  }
  StrictShardContents shard() const { return only_shard(directory_.path()); }
  bool has_api() const { return GetParam() >= 5; }

  void expect_call(const CallsOfShard& calls, const Call& script, size_t thread,
                   size_t i) const;
  void expect_ranges(const CallsOfShard& calls, const ProcessRecord& record,
                     const Call& script, size_t i) const;
  void expect_steps(const CallsOfShard& calls, int64_t id, const Call& script,
                    size_t i) const;
  void expect_channels(const CallsOfShard& calls, int64_t id,
                       const Call& script, size_t i) const;

  ScratchDirectory directory_;
  StrictShardContents shard_;
};

void NcclPlugin::expect_ranges(const CallsOfShard& calls,
                               const ProcessRecord& record, const Call& script,
                               size_t i) const {
  const ProcessRecord& group = calls.range(record.graph_node);
  EXPECT_EQ(shard_.name(group), "NCCL group");
  EXPECT_TRUE(script.group.holds(group));
  if (!has_api()) {
    EXPECT_EQ(record.external_id, -1);
    return;
  }
  const ProcessRecord& api = calls.range(record.external_id);
  EXPECT_EQ(api.external_id, record.external_id);
  EXPECT_EQ(shard_.name(api), is_send(i) ? "ncclSend" : "ncclAllReduce");
  EXPECT_TRUE(script.api.holds(api));
  EXPECT_EQ(api.stream, script.thread);
  EXPECT_EQ(api.bytes, record.bytes);
  const json info = shard_.info(api);
  EXPECT_EQ(info["stream_address"], "0x77");
  EXPECT_EQ(info.value("graph_captured", 0), is_send(i) ? 0 : 1);
}

void NcclPlugin::expect_steps(const CallsOfShard& calls, int64_t id,
                              const Call& script, size_t i) const {
  const bool sends = i % 2 == 0;
  const auto operations =
      calls.parts(id, RecordKind::kNetworkStep, kNetworkOperation);
  ASSERT_EQ(operations.size(), 1U);
  EXPECT_TRUE(script.operation.holds(operations[0]));
  EXPECT_EQ(operations[0].bytes, 0);
  const json info = shard_.info(operations[0]);
  EXPECT_EQ(info["direction"], sends ? "send" : "receive");
  EXPECT_EQ(info["channel"], i % 3);
  EXPECT_EQ(info["peer"], 5);
  EXPECT_EQ(info["steps"], kSteps);
  EXPECT_EQ(info["chunk_bytes"], 4096);
  EXPECT_FALSE(info.contains("parent_process"));

  const auto steps = calls.parts(id, RecordKind::kNetworkStep);
  const auto waits = calls.parts(id, RecordKind::kNetworkStep, kNetworkWait);
  ASSERT_EQ(steps.size(), kSteps);
  ASSERT_EQ(waits.size(), kSteps * 3);
  for (size_t step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(script.steps[step].holds(steps[step]));
    EXPECT_EQ(steps[step].sequence, step);
    EXPECT_EQ(steps[step].bytes, 1000 * (step + 1));
    EXPECT_EQ(steps[step].stream, script.proxy_thread);
    EXPECT_EQ(shard_.info(steps[step])["channel"], i % 3);
    for (size_t wait = 0; wait < 3; ++wait) {
      const ProcessRecord& record = waits[step * 3 + wait];
      EXPECT_TRUE(script.waits[step][wait].holds(record.start_ns));
      EXPECT_EQ(record.bytes, 0);
      const int64_t end =
          wait == 2 ? steps[step].end_ns : waits[step * 3 + wait + 1].start_ns;
      EXPECT_EQ(record.end_ns, end);
    }
    EXPECT_EQ(
        shard_.name(waits[step * 3 + 1]),
        sends ? "send: wait for the peer" : "receive: wait for the flush");
  }
}

void NcclPlugin::expect_channels(const CallsOfShard& calls, int64_t id,
                                 const Call& script, size_t i) const {
  const auto channels = calls.parts(id, RecordKind::kDeviceTimer);
  ASSERT_EQ(channels.size(), 2U);
  for (size_t channel = 0; channel < 2; ++channel) {
    const ProcessRecord& record = channels[channel];
    const uint64_t end = device_end(i, channel);
    EXPECT_EQ(record.start_ns, device_start(i, channel));
    EXPECT_EQ(record.end_ns, end == 0 ? -1 : static_cast<int64_t>(end));
    EXPECT_TRUE(script.channel_ends[channel].holds(record.sequence));
    EXPECT_EQ(shard_.info(record)["channel"], channel);
  }
}

void NcclPlugin::expect_call(const CallsOfShard& calls, const Call& script,
                             size_t thread, size_t i) const {
  const auto count = static_cast<int64_t>(count_of(thread, i));
  const int64_t bytes = count * (is_send(i) ? 4 : 2);  // f32, bf16.
  const ProcessRecord& record = calls.call(thread, bytes);
  EXPECT_EQ(shard_.name(record), is_send(i) ? "Send" : "AllReduce");
  EXPECT_TRUE(script.call.holds(record));
  EXPECT_EQ(record.stream, script.thread);
  EXPECT_EQ(record.sequence, is_send(i) ? -1 : static_cast<int64_t>(i));
  EXPECT_GE(record.correlation, kFirstNcclId);
  json expected = {{"communicator", "0xabc" + std::to_string(thread)},
                   {"communicator_name", "grad \"sum\""},
                   {"rank", thread},
                   {"ranks", 8},
                   {"nodes", 2},
                   {"channels", 2}};
  if (is_send(i)) {
    expected.update(
        {{"op", "Send"}, {"data_type", "ncclFloat32"}, {"peer", 6}});
  } else {
    expected.update({{"op", "AllReduce"},
                     {"data_type", "ncclBfloat16"},
                     {"count", count},
                     {"root", 0},
                     {"algorithm", "NVLS_TREE"},
                     {"protocol", "SIMPLE"},
                     {"warps", 16}});
  }
  EXPECT_EQ(shard_.info(record), expected);
  expect_ranges(calls, record, script, i);
  expect_steps(calls, record.correlation, script, i);
  expect_channels(calls, record.correlation, script, i);
}

TEST_P(NcclPlugin, LeavesAShardThatEqualsTheScript) {
  Script* script = shared_with_child<Script>();
  ASSERT_EQ(play([&] { return play_script(script); }), 0);
  shard_ = shard();
  EXPECT_EQ(shard_.header["source"], "nccl");
  // Of each call: itself, its group, one operation, 3 steps with 3 waits each
  // and 2 channels are 17 records; its API call is one more in version 5.
  constexpr size_t kTotal = kThreads * kCalls;
  EXPECT_EQ(shard_.records.size(), kTotal * (has_api() ? 18 : 17));
  const CallsOfShard calls(shard_);
  EXPECT_EQ(calls.calls(), kTotal);
  EXPECT_EQ(calls.ranges(), kTotal * (has_api() ? 2 : 1));
  for (size_t thread = 0; thread < kThreads; ++thread) {
    for (size_t i = 0; i < kCalls; ++i) {
      expect_call(calls, (*script)[thread][i], thread, i);
      if (HasFailure()) return;
    }
  }
  // i = 6, 13, … 244: ⌊250 / 7⌋ = 35 of each thread.
  EXPECT_EQ(shard_.end["lost"], json({{kNoTimer, 35 * kThreads}}));
}

TEST_P(NcclPlugin, GivesNoHandleWhenItIsFullAndCountsThat) {
  constexpr size_t kMore = 100;
  size_t* given = shared_with_child<size_t>();
  ASSERT_EQ(
      play([&] {
        ProfilerPlugin* plugin = ProfilerPlugin::loaded();
        void* context = plugin->open(1, nullptr, 1, 2, 0);
        std::vector<void*> handles;
        for (size_t i = 0; i < NcclEventPool::kPlaces + kMore; ++i) {
          handles.push_back(plugin->start(context, descriptor(kNcclGroup)));
          *given += handles.back() != nullptr;
        }
        // The last one has no handle; NCCL uses it all the same.
        void* call =
            plugin->start(context, descriptor(kNcclCollective, nullptr));
        plugin->record_state(call, kNcclStepSendWait, 5);
        for (void* handle : handles) plugin->stop(handle);
        plugin->stop(call);
        return 0;
      }),
      0);
  EXPECT_EQ(*given, NcclEventPool::kPlaces);
  const StrictShardContents left = shard();
  EXPECT_EQ(left.records.size(), NcclEventPool::kPlaces);
  EXPECT_EQ(left.end["lost"], json({{kFull, kMore + 1}}));
}

TEST_P(NcclPlugin, SaysWhoseEventAForeignParentIs) {
  ASSERT_EQ(play([] {
              ProfilerPlugin* plugin = ProfilerPlugin::loaded();
              void* context = plugin->open(0xf00, "", 1, 2, 1);
              // Event 77 of another process; ours in that place is another.
              void* own = plugin->start(context, descriptor(kNcclGroup));
              const auto place = reinterpret_cast<uint64_t>(own) &
                                 (NcclEventPool::kPlaces - 1);
              auto start = descriptor(
                  kNcclProxyOperation,
                  reinterpret_cast<void*>(
                      uint64_t{77} << NcclEventPool::kPlaceBits | place));
              start.proxy_operation = {::getpid() + 1, 3, 0, 1, 64, 0};
              void* operation = plugin->start(context, start);
              void* step =
                  plugin->start(context, descriptor(kNcclProxyStep, operation));
              plugin->record_state(step, kNcclStepReceiveWait, 64);
              for (void* handle : {step, operation, own}) plugin->stop(handle);
              return 0;
            }),
            0);
  const StrictShardContents left = shard();
  const auto steps = left.of(RecordKind::kNetworkStep);
  ASSERT_EQ(steps.size(), 3U);  // Step, its wait, the operation.
  for (const ProcessRecord& record : steps) {
    EXPECT_EQ(record.correlation, -1);
    EXPECT_EQ(record.external_id, kFirstNcclId + 77);
    EXPECT_EQ(left.info(record)["parent_process"],
              left.header["process"].get<int>() + 1);
  }
  EXPECT_EQ(steps[0].bytes, 64);
}

TEST_P(NcclPlugin, TakesWhatNcclGetsWrong) {
  ASSERT_EQ(play([] {
              ProfilerPlugin* plugin = ProfilerPlugin::loaded();
              void* context = plugin->open(2, "x", 1, 1, 0);
              void* group = plugin->start(context, descriptor(kNcclGroup));
              plugin->stop(group);
              plugin->stop(group);  // Twice, as of a stale API event.
              plugin->record_state(group, kNcclKernelChannelStop, 9);
              plugin->stop(nullptr);
              // A proxy operation and its step whose parents got no handle.
              auto start = descriptor(kNcclProxyOperation);
              start.proxy_operation.process = ::getpid();
              void* operation = plugin->start(context, start);
              void* step = plugin->start(context, descriptor(kNcclProxyStep));
              plugin->stop(step);
              plugin->stop(operation);
              // Of these two, no context and an event that never ends.
              const bool none =
                  plugin->start(nullptr, descriptor(kNcclGroup)) == nullptr;
              plugin->start(context, descriptor(kNcclGroup));
              plugin->close(context);
              return none ? 0 : 1;
            }),
            0);
  const StrictShardContents left = shard();
  EXPECT_EQ(left.of(RecordKind::kRange).size(), 1U);
  const auto steps = left.of(RecordKind::kNetworkStep);
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].correlation, -1);
  EXPECT_EQ(steps[1].correlation, -1);
  EXPECT_EQ(left.end["lost"], json({{kNoEnd, 1}}));
}

TEST_P(NcclPlugin, DoesNothingUnlessItIsAskedTo) {
  const ScratchDirectory elsewhere;
  const auto host = [] {
    ProfilerPlugin* plugin = ProfilerPlugin::loaded();
    void* context = plugin->open(3, "", 1, 1, 0);
    return plugin->mask() == 0 && context == nullptr ? 0 : 1;
  };
  EXPECT_EQ(run_host("", {}, host), 0);
  EXPECT_EQ(run_host(elsewhere.path() / "missing", {}, host), 0);
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere.path()));
  // Loaded and left alone, it leaves nothing either.
  EXPECT_EQ(run_host(elsewhere.path(), {},
                     [] { return ProfilerPlugin::loaded() ? 0 : 1; }),
            0);
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere.path()));
}

// NCCL 2.23 to 2.26 then goes on without a profiler, and so does any tuner.
TEST(NcclPluginTables, AreThoseThatNameACommunicatorsRanks) {
  void* library = ::dlopen(std::getenv("NCCL_PROFILER_PLUGIN"), RTLD_NOW);
  ASSERT_NE(library, nullptr);
  for (const char* symbol :
       {"ncclProfiler_v4", "ncclProfiler_v5", "ncclProfiler_v6"}) {
    EXPECT_NE(::dlsym(library, symbol), nullptr) << symbol;
  }
  for (const char* symbol :
       {"ncclProfiler_v1", "ncclProfiler_v2", "ncclProfiler_v3",
        "ncclTunerPlugin_v2", "ncclTunerPlugin_v3", "ncclTunerPlugin_v4",
        "ncclTunerPlugin_v5", "ncclTunerPlugin_v6"}) {
    EXPECT_EQ(::dlsym(library, symbol), nullptr) << symbol;
  }
  ::dlclose(library);
}

TEST_P(NcclPlugin, KeepsOneShardWhenItIsClosedAndOpenedAgain) {
  ASSERT_EQ(
      play([] {
        for (const uint64_t communicator : {uint64_t{4}, uint64_t{5}}) {
          void* library =
              ::dlopen(std::getenv("NCCL_PROFILER_PLUGIN"), RTLD_NOW);
          auto* table =
              static_cast<NcclProfilerV5*>(::dlsym(library, "ncclProfiler_v5"));
          void *context, *handle;
          int mask = 0;
          table->init(&context, communicator, &mask, "", 1, 1, 0, nullptr);
          auto start = descriptor(kNcclCollective);
          table->start_event(context, &handle, &start);
          table->stop_event(handle);
          table->finalize(context);
          ::dlclose(library);
        }
        return 0;
      }),
      0);
  EXPECT_EQ(shard().of(RecordKind::kCollective).size(), 2U);
}

TEST_P(NcclPlugin, HasWrittenWhatAKilledProcessRecorded) {
  const auto path = directory_.path();
  const int status = play([path] {
    ProfilerPlugin* plugin = ProfilerPlugin::loaded();
    void* context = plugin->open(6, "", 1, 1, 0);
    plugin->stop(plugin->start(context, descriptor(kNcclGroup)));
    // The plugin's own writer brings it to the file.
    for (int i = 0; i < 2000; ++i) {
      ::usleep(5000);
      if (!only_shard(path).records.empty()) break;
    }
    return ::kill(::getpid(), SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(shard().records.size(), 1U);
  EXPECT_TRUE(shard().end.is_null());
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclPlugin, testing::Values(6, 5, 4),
                         [](const auto& version) {
                           return "V" + std::to_string(version.param);
                         });

}  // namespace
}  // namespace reprise
