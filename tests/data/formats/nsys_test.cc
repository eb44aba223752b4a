// Databases made by SQL, a few rows each.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "data/formats/nccl_names.h"
#include "data/io/sqlite.h"
#include "tests/data/formats/nsys_import.h"

namespace reprise {
namespace {

/// Writes a database from SQL and imports it.
Imported import_sql(const std::string& sql) {
  const std::string path =
      ::testing::TempDir() + "/nsys_" + std::to_string(::getpid()) + "_" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name() +
      ".sqlite";
  std::remove(path.c_str());
  {
    sqlite3* raw = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
    const Database database(raw);
    const Status done = execute(raw, "BEGIN;" + sql + "COMMIT;");
    EXPECT_TRUE(done.has_value()) << done.error().message;
  }
  Imported result = import_path(path);
  std::remove(path.c_str());
  return result;
}

/// globalPid of process `pid`; the machine's number stands above it.
int64_t global_pid(int64_t pid) { return (int64_t{1} << 48) | pid << 24; }
int64_t global_tid(int64_t pid, int64_t tid) { return global_pid(pid) | tid; }

constexpr std::string_view kMinimal = R"(
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.20.3');
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'gemm<float>(int)'),
  (3, 'cudaLaunchKernel'),
  (4, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)'),
  (5, 'not_ncclKernel');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
  contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER, shortName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER);
)";

std::string kernel(int64_t start, int64_t end, int64_t device, int64_t stream,
                   int64_t correlation, int64_t pid, int64_t name) {
  return fmt::format(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, {}, {}, {}, {}, "
      "{}, {}, 1);",
      start, end, device, device + 1, stream, correlation, global_pid(pid),
      name);
}

std::string call(int64_t start, int64_t end, int64_t pid, int64_t tid,
                 int64_t correlation) {
  return fmt::format(
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, {}, {}, 3);",
      start, end, global_tid(pid, tid), correlation);
}

TEST(Nsys, ReadsAMinimalFileOfAnOldSchema) {
  const Imported result = import_sql(
      std::string(kMinimal) + kernel(100, 200, 0, 7, 11, 500, 2) +
      kernel(200, 260, 0, 9, 12, 500, 4) + call(50, 60, 500, 501, 11));
  ASSERT_TRUE(result.status.has_value()) << result.status.error().message;
  const Trace& trace = result.trace;
  EXPECT_EQ(result.report.dialect, "schema 3.20.3");
  EXPECT_EQ(result.report.events, 3);
  EXPECT_EQ(result.report.kernels, 2);
  EXPECT_EQ(result.report.collectives, 1);
  // No NVTX, and no start of the session.
  EXPECT_EQ(result.report.missing.size(), 2u);
  ASSERT_EQ(trace.ranks.size(), 1u);
  EXPECT_EQ(trace.ranks[0].process, 500);
  EXPECT_EQ(trace.ranks[0].clock_domain, "capture");
  const Event* gemm = find_event(trace, "gemm<float>(int)");
  ASSERT_NE(gemm, nullptr);
  EXPECT_EQ(gemm->kind, EventKind::kCompute);
  EXPECT_EQ(gemm->start_ns, 100);
  EXPECT_EQ(gemm->end_ns, 200);
  EXPECT_EQ(gemm->correlation, 11);
  EXPECT_EQ(gemm->graph_node, -1);
  const StreamInfo& stream = trace.streams[gemm->stream];
  EXPECT_EQ(stream.kind, StreamKind::kDeviceStream);
  EXPECT_EQ(stream.device, 0);
  EXPECT_EQ(stream.number, 7);
  const Event* launch = find_event(trace, "cudaLaunchKernel");
  ASSERT_NE(launch, nullptr);
  EXPECT_EQ(launch->kind, EventKind::kRuntime);
  EXPECT_EQ(launch->correlation, 11);
  EXPECT_EQ(trace.streams[launch->stream].number, 501);
  const auto nccl = std::find_if(
      trace.events.begin(), trace.events.end(),
      [](const Event& e) { return e.kind == EventKind::kCollective; });
  ASSERT_NE(nccl, trace.events.end());
  ASSERT_GE(nccl->detail, 0);
  const CollectiveInfo& info =
      trace.collectives[static_cast<size_t>(nccl->detail)];
  EXPECT_EQ(info.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(info.type, PrimitiveType::kBF16);
}

TEST(Nsys, RanksAreProcessesOnDevicesAndCorrelationsTheirOwn) {
  // Process 20 runs kernels on devices 0 and 1, process 10 on device 2 and only
  // copies on device 0; correlation 5 occurs in both processes.
  const Imported result = import_sql(
      std::string(kMinimal) +
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, "
      "deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid "
      "INTEGER, bytes INTEGER, copyKind INTEGER);" +
      fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10, 20, 0, "
                  "7, 4, {}, 64, 1);",
                  global_pid(10)) +
      kernel(100, 200, 0, 7, 5, 20, 2) + kernel(100, 200, 1, 7, 6, 20, 2) +
      kernel(300, 400, 2, 7, 5, 10, 2) + call(50, 60, 20, 21, 5) +
      call(61, 70, 20, 21, 6) + call(71, 72, 20, 21, 7) +
      call(250, 260, 10, 11, 5) + call(1, 2, 99, 99, 5));
  ASSERT_TRUE(result.status.has_value());
  const Trace& trace = result.trace;
  ASSERT_EQ(trace.ranks.size(), 3u);
  EXPECT_EQ(trace.ranks[0].process, 10);  // On device 2.
  EXPECT_EQ(trace.ranks[1].process, 20);  // On device 0.
  EXPECT_EQ(trace.ranks[2].process, 20);  // On device 1.
  const Event* copy = find_event(trace, "Memcpy HtoD");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->rank, 0u);
  EXPECT_EQ(copy->bytes, 64);
  EXPECT_EQ(trace.streams[copy->stream].device, 0);
  EXPECT_EQ(trace.streams[copy->stream].name, "stream 7 of device 0");
  std::vector<std::pair<uint32_t, int64_t>> calls;
  for (const Event& event : trace.events) {
    if (event.kind == EventKind::kRuntime) {
      calls.emplace_back(event.rank, event.correlation);
    }
  }
  // Calls follow their kernel's device; the one without work goes to the
  // process's first rank; process 99 has no rank.
  EXPECT_EQ(calls, (std::vector<std::pair<uint32_t, int64_t>>{
                       {0, 5}, {1, 5}, {1, 7}, {2, 6}}));
  EXPECT_EQ(
      result.report.dropped.at("host event of a process without GPU work"), 1);
}

TEST(Nsys, CountsRowsThatCannotBe) {
  const Imported result = import_sql(
      std::string(kMinimal) + kernel(100, 200, 0, 7, 1, 5, 2) +
      kernel(200, 100, 0, 7, 2, 5, 2) +
      kernel(INT64_MAX - 1, INT64_MAX, 0, 7, 3, 5, 2) +
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (NULL, 1, 0, 1, 7, 4, 5, "
      "2, 1);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('x', 1, 0, 1, 7, 4, 5, "
      "2, 1);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, NULL, 1, 7, 4, 5, "
      "2, 1);" +
      kernel(300, 400, 0, 7, 5, 5, 77));
  ASSERT_TRUE(result.status.has_value());
  EXPECT_EQ(result.report.events, 2);
  EXPECT_EQ(result.report.dropped,
            (std::map<std::string, int64_t>{
                {"end before start", 1},
                {"time out of range", 1},
                {"no start or end", 2},
                {"device work without a process or device", 1}}));
  EXPECT_EQ(result.report.repaired.at("name not in StringIds"), 1);
}

TEST(Nsys, JoinsWaitsWithTheRecordingOfTheirEvents) {
  const std::string pid = std::to_string(global_pid(5));
  const Imported result = import_sql(
      std::string(kMinimal) + kernel(100, 200, 3, 7, 1, 5, 2) +
      "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER, "
      "contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid "
      "INTEGER, eventId INTEGER, eventSyncId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (3, 4, 7, 40, " +
      pid + ", 8, 90), (3, 4, 9, 41, " + pid +
      ", 8, 91);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end "
      "INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
      "correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId "
      "INTEGER, eventSyncId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES"
      // Device 0 is what nsys writes on every device; context 4 is device 3's.
      "(1, 2, 0, 4, 13, 50, " +
      pid + ", 2, 8, 91), (3, 4, 0, 4, 4294967295, 51, " + pid +
      ", 1, 8, 92), (5, 6, 0, 4, 7, 52, " + pid +
      ", 3, 4294967295, 0), (7, 8, 0, 4, 4294967295, 53, " + pid +
      ", 4, 4294967295, 0);");
  ASSERT_TRUE(result.status.has_value());
  const Trace& trace = result.trace;
  const Event* wait = find_event(trace, "Stream Wait Event");
  ASSERT_NE(wait, nullptr);
  EXPECT_EQ(wait->correlation, 50);
  EXPECT_EQ(trace.streams[wait->stream].number, 13);
  EXPECT_EQ(trace.streams[wait->stream].device, 3);
  const SynchronizationInfo expected{SynchronizationKind::kStreamWait, 13, 9,
                                     41};
  EXPECT_EQ(trace.synchronizations[static_cast<size_t>(wait->detail)],
            expected);
  const Event* event_wait = find_event(trace, "Event Sync");
  ASSERT_NE(event_wait, nullptr);
  const SynchronizationInfo unknown{SynchronizationKind::kEvent, -1, -1, -1};
  EXPECT_EQ(trace.synchronizations[static_cast<size_t>(event_wait->detail)],
            unknown);
  EXPECT_NE(find_event(trace, "Stream Sync"), nullptr);
  EXPECT_NE(find_event(trace, "Context Sync"), nullptr);
  EXPECT_EQ(
      std::count_if(result.report.missing.begin(), result.report.missing.end(),
                    [](const std::string& text) {
                      return text.starts_with("1 waits name events");
                    }),
      1);
}

constexpr std::string_view kNvtx =
    "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, "
    "text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER, "
    "binaryData BLOB);";

std::string range(int64_t start, int64_t end, const std::string& text,
                  int64_t pid, const std::string& blob = "NULL",
                  int64_t tid = 0) {
  return fmt::format(
      "INSERT INTO NVTX_EVENTS VALUES ({}, {}, 59, '{}', {}, NULL, 1, {});",
      start, end, text, global_tid(pid, tid == 0 ? pid : tid), blob);
}

TEST(Nsys, RangesTellOperatorsStepsAndAnnotations) {
  const std::string tid = std::to_string(global_tid(5, 5));
  const Imported result = import_sql(
      std::string(kMinimal) + kernel(100, 200, 0, 7, 1, 5, 2) +
      std::string(kNvtx) +
      range(10, 20, "aten::mm, seq = 3, op_id = 17, sizes = [[2, 3]]", 5) +
      range(0, 50, "train_step 1", 5) + range(50, 90, "train_step 2", 5) +
      range(5, 6, "micro iter 1", 5) +
      range(21, 22, "nccl:all_to_all, op_id = 18", 5) +
      "INSERT INTO NVTX_EVENTS VALUES (30, NULL, 34, NULL, " + tid +
      ", 1, 0, NULL), (31, NULL, 59, 'open', " + tid +
      ", NULL, 0, NULL), (0, NULL, 75, 'NCCL', " + tid + ", NULL, 1, NULL);");
  ASSERT_TRUE(result.status.has_value());
  const Trace& trace = result.trace;
  const Event* mm = find_event(trace, "aten::mm");
  ASSERT_NE(mm, nullptr);
  EXPECT_EQ(mm->kind, EventKind::kHostOp);
  EXPECT_EQ(mm->external_id, 17);
  EXPECT_EQ(trace.strings[static_cast<size_t>(mm->attributes)],
            R"({"sizes":"[[2, 3]]"})");
  const Event* exchange = find_event(trace, "nccl:all_to_all");
  ASSERT_NE(exchange, nullptr);
  EXPECT_EQ(trace.collectives[static_cast<size_t>(exchange->detail)].kind,
            CollectiveKind::kAllToAll);
  // The one "micro iter" lies in a "train_step": these number the steps.
  ASSERT_EQ(trace.steps.size(), 2u);
  EXPECT_EQ(trace.steps[1].step, 2);
  EXPECT_EQ(trace.steps[1].start_ns, 50);
  EXPECT_EQ(trace.steps[1].end_ns, 90);
  const Event* mark = find_event(trace, "gemm");  // StringIds 1.
  ASSERT_NE(mark, nullptr);
  EXPECT_EQ(mark->start_ns, 30);
  EXPECT_EQ(mark->end_ns, 30);
  EXPECT_EQ(result.report.dropped.at("range without an end"), 1);
  EXPECT_EQ(result.report.ignored.at("NVTX registration"), 1);
}

std::string attributes_of(const Trace& trace, const Event* event) {
  if (event == nullptr || event->attributes < 0) return {};
  return trace.strings[static_cast<size_t>(event->attributes)];
}

/// A payload of `schema`: header of 32 bytes, then `fields`, as SQL.
std::string payload(uint64_t schema, const std::string& fields) {
  const auto number = [](uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) {
      text += fmt::format("{:02x}", value >> (8 * i) & 0xff);
    }
    return text;
  };
  const uint64_t size = fields.size() / 2;
  return "X'" + number(1, 8) + number(schema, 8) + number(size, 8) +
         number(size + 32, 8) + fields + "'";
}

TEST(Nsys, PayloadsTellSizesPeersAndRanks) {
  const std::string id = "efbeadde00000000";  // 0xdeadbeef, little-endian.
  // Processes 5 and 6 are ranks 1 and 0 of a communicator of two.
  const auto init = [&](const std::string& rank) {
    return payload(100, id + "02000000" + rank + "00000000");
  };
  const Imported result = import_sql(
      std::string(kMinimal) + kernel(100, 200, 0, 7, 1, 5, 2) +
      kernel(100, 200, 1, 7, 1, 6, 2) + std::string(kNvtx) +
      "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId "
      "INTEGER, idx INTEGER, type INTEGER, name TEXT, offset INTEGER);"
      "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES"
      "(1, 100, 0, 18, 'NCCL communicator ID', NULL),"
      "(1, 100, 1, 5, 'No. of ranks', 8), (1, 100, 2, 5, 'Rank', 12),"
      "(1, 200, 0, 18, 'NCCL communicator ID', NULL),"
      "(1, 200, 1, 22, 'Message size [bytes]', 8),"
      "(1, 200, 2, 5, 'Peer rank', 16);" +
      range(0, 1, "ncclCommInitRank", 5, init("01000000")) +
      range(0, 1, "ncclCommInitRank", 6, init("00000000")) +
      range(10, 11, "ncclAllReduce", 5, payload(200, id + "0010000000000000")) +
      range(20, 21, "ncclGroupStart", 5) +
      range(22, 23, "ncclSend", 5,
            payload(200, id + "0001000000000000" + "00000000")) +
      range(24, 25, "ncclSend", 5,
            payload(200, id + "0002000000000000" + "00000000")) +
      range(30, 40, "ncclGroupEnd", 5) +
      // The payload is cut, the schema unknown.
      range(50, 51, "ncclAllReduce", 5, "X'0102'") +
      range(60, 61, "ncclAllReduce", 5, payload(999, id)));
  ASSERT_TRUE(result.status.has_value());
  const Trace& trace = result.trace;
  ASSERT_EQ(trace.ranks.size(), 2u);
  EXPECT_EQ(trace.ranks[0].process, 6);  // Rank 0.
  EXPECT_EQ(trace.ranks[1].process, 5);
  const Event* reduce = find_event(trace, "ncclAllReduce");
  ASSERT_NE(reduce, nullptr);
  EXPECT_EQ(reduce->bytes, 4096);
  const CollectiveInfo& info =
      trace.collectives[static_cast<size_t>(reduce->detail)];
  EXPECT_EQ(info.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(info.communicator, "0xdeadbeef");
  EXPECT_EQ(info.group_size, 2);
  const Event* group = find_event(trace, "ncclGroupEnd");
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->bytes, 256 + 512);
  // What it holds each of its messages tells.
  EXPECT_EQ(trace.collectives[static_cast<size_t>(group->detail)].kind,
            CollectiveKind::kUnknown);
  const Event* send = find_event(trace, "ncclSend");
  ASSERT_NE(send, nullptr);
  ASSERT_GE(send->detail, 0);
  EXPECT_EQ(attributes_of(trace, send), R"({"peer":0})");
  // Payloads were there, so nothing is said to be missing.
  for (const std::string& text : result.report.missing) {
    EXPECT_EQ(text.find("include-blobs"), std::string::npos);
  }
}

// A report a rank: that of rank 1 of a communicator of four, of which no other
// is in the file. Peers are counted in their communicator.
TEST(Nsys, AReportOfOneRankNamesItsPeers) {
  const std::string id = "efbeadde00000000", other = "0df0adba00000000";
  const Imported result = import_sql(
      std::string(kMinimal) + kernel(100, 200, 0, 7, 1, 5, 2) +
      std::string(kNvtx) +
      "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId "
      "INTEGER, idx INTEGER, type INTEGER, name TEXT, offset INTEGER);"
      "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES"
      "(1, 100, 0, 18, 'NCCL communicator ID', NULL),"
      "(1, 100, 1, 5, 'No. of ranks', 8), (1, 100, 2, 5, 'Rank', 12),"
      "(1, 200, 0, 18, 'NCCL communicator ID', NULL),"
      "(1, 200, 1, 22, 'Message size [bytes]', 8),"
      "(1, 200, 2, 5, 'Peer rank', 16);" +
      range(0, 1, "ncclCommInitRank", 5,
            payload(100, id + "04000000" + "01000000" + "00000000")) +
      range(2, 3, "ncclCommInitRank", 5,
            payload(100, other + "02000000" + "00000000" + "00000000")) +
      range(10, 11, "ncclSend", 5,
            payload(200, id + "0001000000000000" + "02000000")) +
      range(20, 21, "ncclRecv", 5,
            payload(200, other + "0001000000000000" + "01000000")));
  ASSERT_TRUE(result.status.has_value());
  const Trace& trace = result.trace;
  ASSERT_EQ(trace.ranks.size(), 1u);
  EXPECT_EQ(trace.ranks[0].rank, 1u);
  const auto size_in = [&](const char* call) {
    const Event* event = find_event(trace, call);
    return event == nullptr
               ? -1
               : trace.collectives[static_cast<size_t>(event->detail)]
                     .group_size;
  };
  EXPECT_EQ(size_in("ncclSend"), 4);
  EXPECT_EQ(attributes_of(trace, find_event(trace, "ncclSend")),
            R"({"peer":2})");
  EXPECT_EQ(size_in("ncclRecv"), 2);
  EXPECT_EQ(attributes_of(trace, find_event(trace, "ncclRecv")),
            R"({"peer":1})");
}

// NCCL's number is that of a pair: the launcher's is the job's.
TEST(Nsys, TheEnvironmentNumbersARankBeforeNccl) {
  const std::string pair =
      "efbeadde00000000"
      "02000000"
      "01000000"
      "00000000";
  const Imported result = import_sql(
      std::string(kMinimal) + kernel(100, 200, 0, 7, 1, 5, 2) +
      std::string(kNvtx) +
      "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);"
      "INSERT INTO META_DATA_CAPTURE VALUES "
      "('PROCESS_0:ENVIRONMENT_VARIABLE', 'RANK=6');"
      "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId "
      "INTEGER, idx INTEGER, type INTEGER, name TEXT, offset INTEGER);"
      "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES"
      "(1, 100, 0, 18, 'NCCL communicator ID', NULL),"
      "(1, 100, 1, 5, 'No. of ranks', 8), (1, 100, 2, 5, 'Rank', 12);" +
      range(0, 1, "ncclCommInitRank", 5, payload(100, pair)));
  ASSERT_TRUE(result.status.has_value());
  ASSERT_EQ(result.trace.ranks.size(), 1u);
  EXPECT_EQ(result.trace.ranks[0].rank, 6u);
}

// Threads 21 and 22 of process 20 drive a device each and have their own steps,
// at one time; what thread 22 calls beside is its device's too.
TEST(Nsys, AThreadThatDrivesOneDeviceIsOfItsRank) {
  const Imported result =
      import_sql(std::string(kMinimal) + kernel(100, 200, 0, 7, 1, 20, 2) +
                 kernel(100, 200, 1, 7, 2, 20, 2) + call(50, 60, 20, 21, 1) +
                 call(50, 60, 20, 22, 2) + call(70, 80, 20, 22, 9) +
                 std::string(kNvtx) + range(0, 150, "step 1", 20, "NULL", 21) +
                 range(150, 300, "step 2", 20, "NULL", 21) +
                 range(10, 160, "step 1", 20, "NULL", 22) +
                 range(160, 310, "step 2", 20, "NULL", 22));
  ASSERT_TRUE(result.status.has_value());
  const Trace& trace = result.trace;
  ASSERT_EQ(trace.ranks.size(), 2u);
  ASSERT_EQ(trace.steps.size(), 4u);
  for (const StepMark& step : trace.steps)
    EXPECT_EQ(step.start_ns % 150, step.rank == 0 ? 0 : 10);
  for (const Event& event : trace.events) {
    const StreamInfo& stream = trace.streams[event.stream];
    if (stream.kind != StreamKind::kHostThread) continue;
    EXPECT_EQ(event.rank, stream.number == 22 ? 1u : 0u);
  }
}

TEST(Nsys, GraphsTracedWholeAndGraphNodes) {
  const Imported result = import_sql(
      "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
      // Without a key, StringIds is read whole.
      "CREATE TABLE StringIds (id INTEGER, value TEXT);"
      "INSERT INTO StringIds VALUES (2, 'gemm');"
      "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);"
      "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1000000);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, "
      "deviceId INTEGER, globalPid INTEGER, mangledName INTEGER, graphNodeId "
      "INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 0, 2, 77);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end "
      "INTEGER, deviceId INTEGER, streamId INTEGER, globalPid INTEGER, graphId "
      "INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (5, 9, 0, 7, 0, 4);"
      "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);"
      "INSERT INTO META_DATA_CAPTURE VALUES "
      "('PROCESS_0:ENVIRONMENT_VARIABLE', 'LOCAL_RANK=\"1\"'),"
      "('PROCESS_0:ENVIRONMENT_VARIABLE', 'RANK=\"3\"');");
  ASSERT_TRUE(result.status.has_value());
  const Trace& trace = result.trace;
  ASSERT_EQ(trace.ranks.size(), 1u);
  EXPECT_EQ(trace.ranks[0].rank, 3u);
  EXPECT_EQ(trace.ranks[0].clock_domain, "epoch");
  const Event* gemm = find_event(trace, "gemm");
  ASSERT_NE(gemm, nullptr);
  EXPECT_EQ(gemm->graph_node, 77);
  EXPECT_EQ(gemm->start_ns, 1000001);
  EXPECT_NE(find_event(trace, "CUDA graph 4"), nullptr);
}

TEST(Nsys, RefusesAFileWithoutCuda) {
  const Imported result =
      import_sql("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);");
  ASSERT_TRUE(result.status.has_value());
  EXPECT_NE(result.report.refused.find("no CUDA activity"), std::string::npos);
}

TEST(Nsys, ViewsAndVirtualTablesAreNoTables) {
  const Imported result = import_sql(
      "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
      "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(x) AS "
      "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS start, x AS end, "
      "0 AS deviceId, 0 AS globalPid FROM c;");
  ASSERT_TRUE(result.status.has_value());
  EXPECT_FALSE(result.report.refused.empty());
}

TEST(Nsys, NamesOfNccl) {
  EXPECT_TRUE(is_nccl_kernel("void ncclKernel_AllReduce_RING_LL_Sum_float()"));
  EXPECT_TRUE(is_nccl_kernel("rcclGenericKernel()"));
  EXPECT_FALSE(is_nccl_kernel("my_nccl_kernel"));
  EXPECT_FALSE(is_nccl_kernel("ncc"));
  const CollectiveInfo old = describe_nccl_kernel(
      "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)");
  EXPECT_EQ(old.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(old.type, PrimitiveType::kF32);
  const CollectiveInfo gather = describe_nccl_kernel(
      "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*)");
  EXPECT_EQ(gather.kind, CollectiveKind::kAllGather);
  EXPECT_EQ(gather.type, std::nullopt);
  const auto own = describe_collective_kernel(
      "void deep_ep::intranode::combine<__nv_bfloat16, 8>(int4*)");
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->kind, CollectiveKind::kAllToAll);
  EXPECT_FALSE(describe_collective_kernel("void gemm(float*)").has_value());
  EXPECT_EQ(kind_of_nccl_call("ncclReduceScatter"),
            CollectiveKind::kReduceScatter);
  EXPECT_EQ(kind_of_nccl_call("ncclGroupEnd"), CollectiveKind::kUnknown);
  EXPECT_EQ(kind_of_nccl_call("ncclCommInitRank"), CollectiveKind::kUnknown);
  EXPECT_EQ(kind_of_nccl_call("all_reduce"), CollectiveKind::kUnknown);
}

}  // namespace
}  // namespace reprise
