// Records of NCCL's profiler plugins: a real file of pha-Z's, and small ones
// written after the sources of NVIDIA's example and Inspector plugins.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include "data/file.h"
#include "data/formats/nccl_inspector/nccl_inspector_reader.h"
#include "data/formats/nccl_profiler/nccl_profiler_reader.h"
#include "tests/testing/directories.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

const std::string kNcclTraces = shared_directory() + "/traces/nccl_profiler/";

std::vector<Event> of_kind(const Trace& trace, EventKind kind) {
  std::vector<Event> events;
  std::copy_if(trace.events.begin(), trace.events.end(),
               std::back_inserter(events),
               [&](const Event& event) { return event.kind == kind; });
  return events;
}

const CollectiveInfo& info_of(const Trace& trace, const Event& event) {
  return trace.collectives.at(static_cast<size_t>(event.detail));
}

int64_t total(const std::map<std::string, int64_t>& counts) {
  int64_t sum = 0;
  for (const auto& [reason, count] : counts) sum += count;
  return sum;
}

// Four GPUs of one process, an all-reduce of 33554432 floats each.
TEST(NcclProfiler, ReadsARealFile) {
  const std::string path =
      kNcclTraces +
      "phaz_jsonl/trace_-_2762285_collectives_all_reduces_single_node_-_"
      "Copy.jsonl";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "no third-party traces here";
  }
  ReadInput input = read_input(nccl_profiler_reader(), read_file(path).value());
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status);
  const FileReport& report = input.report;
  EXPECT_TRUE(report.dropped.empty());
  // By type, of the file's 287 lines: 4 CollApi, 1 GroupApi, 4 KernelLaunch
  // and 4 Coll with 4 KERNEL (one event each pair) are events; the rest is
  // ignored: 8 ProfilerLifecycle, 138 states, 96 KernelCh, 4 Group, 24
  // ProxyCtrl.
  EXPECT_EQ(input.spool.event_count(), 13);
  EXPECT_EQ(report.collectives, 4);
  EXPECT_EQ(report.kernels, 4);
  EXPECT_EQ(total(report.ignored), 287 - 13 - 4);
  EXPECT_EQ(report.ignored.at("state of a record"), 138);
  EXPECT_EQ(report.ignored.at("channel of a kernel"), 96);
  const Trace trace = input.gather();
  ASSERT_EQ(trace.ranks.size(), 4u);
  const std::vector<Event> calls = of_kind(trace, EventKind::kCollective);
  ASSERT_EQ(calls.size(), 4u);
  // The KERNEL records: extCorrId 4, 3, 2, 1 were launched by ranks 0 to 3.
  const int64_t base = 8993954000000000;
  const std::array<std::pair<int64_t, int64_t>, 4> expected = {
      {{366983000, 625500},
       {362449750, 5141500},
       {357989750, 9597500},
       {353442000, 14163250}}};
  for (size_t rank = 0; rank < 4; ++rank) {
    const Event& call = calls[rank];
    EXPECT_EQ(call.rank, rank);
    EXPECT_EQ(call.start_ns, base + expected[rank].first);
    EXPECT_EQ(call.end_ns - call.start_ns, expected[rank].second);
    EXPECT_EQ(call.bytes, int64_t{33554432} * 4);
    EXPECT_EQ(call.sequence, 0);
    EXPECT_EQ(call.correlation, 4 - static_cast<int64_t>(rank));
    EXPECT_EQ(trace.streams[call.stream].device, rank);
    EXPECT_EQ(trace.text(call.name), "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    const CollectiveInfo& info = info_of(trace, call);
    EXPECT_EQ(info.kind, CollectiveKind::kAllReduce);
    EXPECT_EQ(info.type, PrimitiveType::kF32);
    EXPECT_EQ(info.communicator, "8612235153520363772");
    EXPECT_EQ(info.group_size, 4);
  }
  EXPECT_EQ(of_kind(trace, EventKind::kRuntime).size(), 4u);
  // One call, of which rank 0 came last: 625.5 us.
  ASSERT_EQ(trace.measurements.size(), 1u);
  EXPECT_EQ(trace.measurements[0].key, "collective:all-reduce:4:134217728:f32");
  EXPECT_EQ(trace.measurements[0].median_ns, 625500);
  EXPECT_EQ(trace.measurements[0].samples, 1);
}

std::string line(std::string_view type, std::string_view address,
                 std::string_view parent, int64_t start, int64_t stop,
                 const std::string& details) {
  return fmt::format(
      R"({{"recordType":"event","type":"{}","gpuUuid":"g","commId":9,"rank":2,)"
      R"("start":{{"ts":{},"pid":1,"tid":2}},"stop":{{"ts":{},"pid":1,"tid":2}},)"
      R"("extCorrId":7,"parentObj":"{}","eventAddr":"{}","details":{}}})"
      "\n",
      type, start, stop, parent, address, details);
}

TEST(NcclProfiler, OperationsOfOneKernelAreOneEvent) {
  const std::string init =
      R"({"type":"ProfilerLifecycle","func":"ProfilerInit","gpuUuid":"g",)"
      R"("commId":9,"rank":2,"start":{"ts":1,"pid":1,"tid":2},)"
      R"("details":{"nranks":4}})"
      "\n";
  const auto details = [](std::string_view func, int64_t count) {
    return fmt::format(
        R"({{"func":"{}","seq":3,"count":{},"dtype":"ncclBfloat16"}})", func,
        count);
  };
  const std::string text =
      init +
      line("ncclProfileCollApi", "a1", "g1", 10, 11, details("AllGather", 8)) +
      line("ncclProfileCollApi", "a2", "g1", 12, 13, details("AllGather", 16)) +
      line("ncclProfileKernelLaunch", "k", "g1", 14, 15, "{}") +
      line("ncclProfileColl", "c1", "a1", 16, 17, details("AllGather", 8)) +
      line("ncclProfileColl", "c2", "a2", 16, 17, details("AllGather", 16)) +
      R"({"recordType":"cuptiActivity","type":"KERNEL","extCorrId":7,"deviceId":0,)"
      R"("start":{"ts":20},"stop":{"ts":30},"name":"k","stream":"0x1"})"
      "\n" +
      // Without a kernel: its channels, then its launch alone. The addresses
      // come again.
      line("ncclProfileColl", "c1", "?", 40, 41, details("Broadcast", 8)) +
      line("ncclProfileKernelCh", "x", "c1", 42, 45, "{}") +
      line("ncclProfileKernelCh", "y", "c1", 41, 44, "{}") +
      line("ncclProfileColl", "c1", "?", 50, 51, details("Broadcast", 8)) +
      "{\"recordType\":\"event\",\"type\":\n" +
      R"({"recordType":"cuptiActivity","type":"KERNEL","extCorrId":99})"
      "\n";
  ReadInput input = read_input(nccl_profiler_reader(), text);
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status);
  const std::map<std::string, int64_t> dropped = {
      {"kernel without its launch", 1}, {"record cut by a line break", 1}};
  EXPECT_EQ(input.report.dropped, dropped);
  const Trace trace = input.gather();
  EXPECT_EQ(trace.ranks[0].rank, 2u);
  const std::vector<Event> calls = of_kind(trace, EventKind::kCollective);
  ASSERT_EQ(calls.size(), 2u);
  // (8 + 16) elements of 2 bytes from each of 4 ranks.
  EXPECT_EQ(calls[0].bytes, 24 * 2 * 4);
  EXPECT_EQ(calls[0].start_ns, 20'000);
  EXPECT_EQ(calls[0].enqueue_ns, 16'000);
  EXPECT_EQ(calls[1].start_ns, 41'000);
  EXPECT_EQ(calls[1].end_ns, 45'000);
  EXPECT_EQ(info_of(trace, calls[1]).kind, CollectiveKind::kBroadcast);
  // ncclAllGather twice, and the launch of the last broadcast.
  const std::vector<Event> host = of_kind(trace, EventKind::kHostOp);
  ASSERT_EQ(host.size(), 3u);
  EXPECT_EQ(host[2].start_ns, 50'000);
  EXPECT_EQ(info_of(trace, host[2]).kind, CollectiveKind::kBroadcast);
  // The gathers have no time of their own: one cost point.
  ASSERT_EQ(trace.measurements.size(), 1u);
  EXPECT_EQ(trace.measurements[0].key, "collective:broadcast:4:16:bf16");
  EXPECT_EQ(trace.measurements[0].median_ns, 4'000);
}

// As the plugin of NCCL 2.23 printed it: a type and a pointer without quotes,
// commas behind every line, no end.
constexpr std::string_view kExample = R"([
{"name": "Group", "cat": "GROUP", "ph": "b", "id": 0, "pid": 41, "tid": 1, "ts": 100.5, "args": {"groupId": 0}},
{"name": "AllReduce", "cat": "COLL_API", "ph": "b", "id": 0, "pid": 41, "tid": 1, "ts": 99.0, "args": {"count": 64, "datatype": ncclFloat32, "root": 0, "Stream": 0x4142e90}},
{"name": "AllReduce", "cat": "COLL_API", "ph": "e", "id": 0, "pid": 41, "tid": 1, "ts": 99.5},
{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 0, "pid": 41, "tid": 1, "ts": 101.0, "args": {"SeqNum": 5, "CommHash": 673864846479792718, "Rank": 3, "Count": 64, "Datatype": ncclFloat32, "Algorithm": "RING", "Protocol": "LL", "nMaxChannels": 2}},
{"name": "KernelCh", "cat": "GPU", "ph": "b", "id": 0, "pid": 41, "tid": 1, "ts": 110.0, "args": {"Channel": 0, "StartGpuClk": 5, "StopGpuClk": 0}},
{"name": "KernelCh", "cat": "GPU", "ph": "e", "id": 0, "pid": 41, "tid": 1, "ts": 120.25},
{"name": "KernelCh", "cat": "GPU", "ph": "b", "id": 1, "pid": 41, "tid": 1, "ts": 0.000000, "args": {"Channel": 1, "StartGpuClk": 0, "StopGpuClk": 0}},
{"name": "KernelCh", "cat": "GPU", "ph": "e", "id": 1, "pid": 41, "tid": 1, "ts": 121.0},
{"name": "AllReduce", "cat": "COLL", "ph": "e", "id": 0, "pid": 41, "tid": 1, "ts": 103.0},
{"name": "Group", "cat": "GROUP", "ph": "e", "id": 0, "pid": 41, "tid": 1, "ts": 104.0},
{"name": "Send", "cat": "P2P", "ph": "b", "id": 0, "pid": 41, "tid": 1, "ts": 200.0, "args": {"CommHash": 673864846479792718, "Rank": 3, "Peer": 1, "Count": 128, "Datatype": ncclInt8}},
{"name": "Send", "cat": "PROXY", "ph": "b", "id": 0, "pid": 41, "tid": 1, "ts": 201.0, "args": {"Channel": 0}},
{"name": "Send", "cat": "PROXY", "ph": "e", "id": 0, "pid": 41, "tid": 1, "ts": 219.0},
{"name": "Send", "cat": "P2P", "ph": "e", "id": 0, "pid": 41, "tid": 1, "ts": 220.0},
{"name": "Broadcast", "cat": "COLL", "ph": "b", "id": 1, "pid": 41, "tid": 1, "ts": 300.0, "args": {"SeqNum": 0, "CommHash": 673864846479792718, "Rank": 3, "Count": 9, "Datatype": ncclInt8}},
{"name": "Broadcast", "cat": "COLL", "ph": "e", "id": 1, "pid": 41, "tid": 1, "ts": 302.0},
{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 2, "pid": 41, "tid": 1, "ts": 400.0, "args": {"SeqNum": 6, "CommHash": 673864846479792718, "Rank": 3, "Count": 64, "Datatype": ncclFloat32}},
)";

TEST(NcclProfiler, ReadsTheExamplePluginsEvents) {
  ReadInput input = read_input(nccl_profiler_reader(), std::string(kExample));
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status);
  const std::map<std::string, int64_t> dropped = {{"begin without an end", 1}};
  EXPECT_EQ(input.report.dropped, dropped);
  EXPECT_EQ(input.report.missing.size(), 1u);  // A launch alone.
  const Trace trace = input.gather();
  EXPECT_EQ(trace.ranks[0].rank, 3u);
  const std::vector<Event> calls = of_kind(trace, EventKind::kCollective);
  ASSERT_EQ(calls.size(), 2u);
  // The channel that has both times.
  EXPECT_EQ(calls[0].start_ns, 110'000);
  EXPECT_EQ(calls[0].end_ns, 120'250);
  EXPECT_EQ(calls[0].enqueue_ns, 101'000);
  EXPECT_EQ(calls[0].bytes, 256);
  EXPECT_EQ(calls[0].sequence, 5);
  EXPECT_EQ(info_of(trace, calls[0]).communicator, "673864846479792718");
  EXPECT_EQ(trace.strings.at(static_cast<size_t>(calls[0].attributes)),
            R"({"algorithm":"RING","protocol":"LL","channels":"2"})");
  // To the end of its proxy.
  EXPECT_EQ(calls[1].start_ns, 200'000);
  EXPECT_EQ(calls[1].end_ns, 220'000);
  EXPECT_EQ(info_of(trace, calls[1]).kind, CollectiveKind::kSend);
  EXPECT_EQ(info_of(trace, calls[1]).peer, 1);
  const std::vector<Event> host = of_kind(trace, EventKind::kHostOp);
  ASSERT_EQ(host.size(), 2u);
  EXPECT_EQ(trace.text(host[0].name), "ncclAllReduce");
  EXPECT_EQ(trace.text(host[1].name), "Broadcast");
}

/// A record of the Inspector's, verbose or not.
std::string inspected(int rank, int sequence, std::string_view coll,
                      int64_t bytes, int64_t exec_us,
                      const std::string& more = {},
                      std::string_view id = "0x7f8c496ae9f661", int ranks = 8) {
  return fmt::format(
      R"({{"header":{{"id":"{}","rank":{},"n_ranks":{},"nnodes":1}},)"
      R"("metadata":{{"inspector_output_format_version":"v4.0","git_rev":"",)"
      R"("rec_mechanism":"profiler_plugin","dump_timestamp_us":1748030377748202,)"
      R"("hostname":"node7","pid":1639453}},"coll_perf":{{"coll":"{}","coll_sn":{},)"
      R"("coll_msg_size_bytes":{},"coll_exec_time_us":{},"coll_algobw_gbs":277.2,)"
      R"("coll_busbw_gbs":485.1{}}}}})"
      "\n",
      id, rank, ranks, coll, sequence, bytes, exec_us, more);
}

TEST(NcclInspector, DurationsFollowOneAnother) {
  // The README's own two examples: an all-reduce, and a reduce-scatter whose
  // size is a rank's part: at 418.4 GB/s 41057 us move 8 times of it.
  ReadInput input = read_input(
      nccl_inspector_reader(),
      inspected(2, 1407, "AllReduce", 17179869184, 61974) +
          inspected(2, 1231, "ReduceScatter", 2147483648, 41057) +
          inspected(0, 4, "AllReduce", 1024, 20, "", "0xab", 2) +
          "not a record\n" + inspected(2, 1408, "AllReduce", 1, -1) +
          R"({"header":{"id":"0xab"},"metadata":{},"dump_stats":{}})" + "\n" +
          inspected(2, 1409, "AllReduce", 17179869184, 61976) +
          R"({"header":{"id":"0x7f8c)");
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status);
  EXPECT_EQ(input.report.dialect, "v4.0");
  EXPECT_EQ(input.report.collectives, 4);
  const std::map<std::string, int64_t> dropped = {
      {"call without an execution time", 1}, {"truncated", 1}};
  EXPECT_EQ(input.report.dropped, dropped);
  EXPECT_EQ(input.report.ignored.at("statistics of the plugin"), 1);
  const Trace trace = input.gather();
  // One process with one rank in each communicator: that of the largest.
  ASSERT_EQ(trace.ranks.size(), 1u);
  EXPECT_EQ(trace.ranks[0].rank, 2u);
  EXPECT_EQ(trace.ranks[0].host, "node7");
  EXPECT_EQ(trace.ranks[0].clock_domain, "none");
  std::vector<Event> world;
  for (const Event& event : trace.events) {
    if (info_of(trace, event).group_size == 8) world.push_back(event);
  }
  ASSERT_EQ(world.size(), 3u);
  EXPECT_EQ(world[0].end_ns, 61'974'000);
  EXPECT_EQ(world[1].start_ns, 61'974'000);
  EXPECT_EQ(world[1].end_ns, 61'974'000 + 41'057'000);
  EXPECT_EQ(world[1].bytes, int64_t{2147483648} * 8);
  EXPECT_EQ(world[1].sequence, 1231);
  // Two all-reduces of 16 GiB are one point of two samples.
  ASSERT_EQ(trace.measurements.size(), 3u);
  const auto point =
      std::find_if(trace.measurements.begin(), trace.measurements.end(),
                   [](const Measurement& m) { return m.samples == 2; });
  ASSERT_NE(point, trace.measurements.end());
  EXPECT_EQ(point->key, "collective:all-reduce:8:17179869184:");
  EXPECT_EQ(point->median_ns, 61'975'000);
}

TEST(NcclInspector, VerboseRecordsHaveTimes) {
  const std::string times =
      R"(,"coll_timing_source":"kernel_gpu","event_trace_ts":{"coll_start_ts":1752867229235059,)"
      R"("coll_stop_ts":1752867229235064,"kernel_events":[{"channel_id":0,)"
      R"("kernel_start_ts":1752867229235181,"kernel_stop_ts":1752867229275811,)"
      R"("kernel_record_ts":1752867229275811},{"channel_id":1,"kernel_start_ts":0,)"
      R"("kernel_stop_ts":1752867229275999}]})";
  // Two GPUs of one process; the second arrived last and was faster.
  ReadInput input =
      read_input(nccl_inspector_reader(),
                 inspected(4, 7, "AllReduce", 4096, 41057, times) +
                     inspected(5, 7, "AllReduce", 4096, 100, times) +
                     inspected(4, 8, "AllReduce", 4096, 50));
  ASSERT_TRUE(input.status);
  EXPECT_TRUE(input.report.missing.empty());
  EXPECT_EQ(input.report.ignored.at("call without times: a cost point alone"),
            1);
  const Trace trace = input.gather();
  ASSERT_EQ(trace.ranks.size(), 2u);
  EXPECT_EQ(trace.ranks[0].rank, 4u);
  EXPECT_EQ(trace.ranks[1].rank, 5u);
  EXPECT_EQ(trace.ranks[0].clock_domain, "epoch");
  ASSERT_EQ(trace.events.size(), 2u);
  const Event& call = trace.events[0];
  EXPECT_EQ(call.enqueue_ns, 1752867229235059000);
  EXPECT_EQ(call.start_ns, 1752867229235181000);
  EXPECT_EQ(call.end_ns, 1752867229275811000);
  EXPECT_EQ(trace.strings.at(static_cast<size_t>(call.attributes)),
            R"({"timing_source":"kernel_gpu"})");
  // Call 7 took 100 us once all were there, call 8 50 us.
  ASSERT_EQ(trace.measurements.size(), 1u);
  EXPECT_EQ(trace.measurements[0].samples, 2);
  EXPECT_EQ(trace.measurements[0].median_ns, 75'000);
}

/// Since v4.3 a dump's mark says once whose calls follow it.
std::string dump_mark(int rank, std::string_view id, int ranks) {
  return fmt::format(
      R"({{"header":{{"id":"{}","rank":{},"n_ranks":{},"nnodes":1}},)"
      R"("metadata":{{"inspector_output_format_version":"v4.3",)"
      R"("hostname":"node7","pid":16}},"dump_stats":{{"coll_records":1,)"
      R"("coll_dropped_total":0,"p2p_records":0,"proxy_records":1}}}})"
      "\n",
      id, rank, ranks);
}

TEST(NcclInspector, CallsAreOfTheMarkBeforeThem) {
  const auto call = [](int sequence) {
    return fmt::format(
        R"({{"coll_perf":{{"coll":"AllReduce","coll_algo":"RING",)"
        R"("coll_proto":"LL","coll_sn":{},"coll_msg_size_bytes":4096,)"
        R"("coll_exec_time_us":50}}}})"
        "\n",
        sequence);
  };
  ReadInput input =
      read_input(nccl_inspector_reader(),
                 call(1) + dump_mark(2, "0x7f", 8) + call(7) +
                     R"({"proxy_trace":{"record_type":"proxy_op","rank":2}})" +
                     "\n" + dump_mark(0, "0xab", 2) + call(9));
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status);
  EXPECT_EQ(input.report.dialect, "v4.3");
  EXPECT_EQ(input.report.collectives, 2);
  // Nothing says whose the first call is.
  EXPECT_EQ(input.report.dropped.at("call without a rank"), 1);
  EXPECT_EQ(input.report.ignored.at("record of a network proxy"), 1);
  const Trace trace = input.gather();
  ASSERT_EQ(trace.ranks.size(), 1u);
  EXPECT_EQ(trace.ranks[0].rank, 2u);
  EXPECT_EQ(trace.ranks[0].host, "node7");
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(info_of(trace, trace.events[0]).communicator, "0x7f");
  EXPECT_EQ(info_of(trace, trace.events[1]).communicator, "0xab");
  EXPECT_EQ(trace.events[1].sequence, 9);
  EXPECT_EQ(trace.strings.at(static_cast<size_t>(trace.events[0].attributes)),
            R"({"algorithm":"RING","protocol":"LL"})");
}

TEST(NcclInspector, SendsNameTheirPeer) {
  ReadInput input = read_input(
      nccl_inspector_reader(),
      R"({"header":{"id":"0xabc","rank":0,"n_ranks":2,"nnodes":1},"metadata":)"
      R"({"inspector_output_format_version":"v5.2","hostname":"n","pid":1},)"
      R"("p2p_perf":{"p2p":"Send","p2p_sn":8,"p2p_peer":1,)"
      R"("p2p_msg_size_bytes":524288,"p2p_exec_time_us":50,"events":[)"
      R"({"event_type":"KernelCh","event_trace_ts":{"kernel_start_ts":1000,)"
      R"("kernel_stop_ts":1050}}]}})");
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status);
  const Trace trace = input.gather();
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].start_ns, 1'000'000);
  EXPECT_EQ(trace.events[0].bytes, 524288);
  EXPECT_EQ(info_of(trace, trace.events[0]).kind, CollectiveKind::kSend);
  EXPECT_EQ(info_of(trace, trace.events[0]).peer, 1);
  EXPECT_TRUE(trace.measurements.empty());
}

TEST(NcclProfiler, LeavesOtherFilesAlone) {
  const std::string kineto =
      R"([{"ph": "X", "cat": "Kernel", "name": "nccl", "ts": 1, "dur": 1},)"
      R"({"ph": "b", "cat": "COLL", "ts": 1}])";
  EXPECT_FALSE(read_input(nccl_profiler_reader(), kineto).recognized);
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), kineto,
        std::string(R"({"schema": "1.0.1", "nodes": [], "header": 1})")}) {
    EXPECT_FALSE(read_input(nccl_profiler_reader(), text).recognized) << text;
    EXPECT_FALSE(read_input(nccl_inspector_reader(), text).recognized) << text;
  }
  // Told apart from one another too.
  EXPECT_FALSE(
      read_input(nccl_inspector_reader(), std::string(kExample)).recognized);
  EXPECT_FALSE(
      read_input(nccl_profiler_reader(), inspected(0, 1, "AllReduce", 1, 1))
          .recognized);
}

}  // namespace
}  // namespace reprise
