#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/formats/dpro/dpro_gml.h"
#include "data/formats/dpro/dpro_graph.h"
#include "data/formats/dpro/dpro_reader.h"
#include "data/import/import.h"
#include "data/io/gzip.h"
#include "data/trace/job_size.h"
#include "replay/simulate/trace_replay.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

// One rank of two: a forward and two backward operators, two tensors that are
// reduced as one. The other rank is ready 10 us later.
constexpr const char* kGraph = R"(Creator "dPRO"
graph [
  directed 1
  node [ id 0 label "FW.a" ]
  node [ id 1 label "BW.b" graphics [ x 1 y [ label "deep" ] ] ]
  node [ id 2 label "BW.c" ]
  node [ id 10 label "Comm.0" ]
  node [ id 11 label "Comm.1" ]
  node [ id 20 label "UPDATE_.u0" ]
  edge [ source 0 target 1 ]
  edge [ source 1 target 2 ]
  edge [ source 1 target 11 ]
  edge [ source 2 target 10 ]
  edge [ source 10 target 20 ]
  edge [ source 10 target 99 ]
])";
constexpr const char* kOperators = R"({"traceEvents": [
{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}},
{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "TensorFlow Ops"}},
{"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "stream 7 kernels"}},
{"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 1000, "dur": 100, "args": {"long_name": "FW.a:Conv", "group_id": "3"}},
{"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 1100, "dur": 200, "args": {"long_name": "b:Grad", "group_id": "3"}},
{"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 1300, "dur": 100, "args": {"long_name": "StatefulPartitionedCall/c:Grad", "group_id": "3"}},
{"ph": "X", "name": "kernel", "pid": 1, "tid": 2, "ts": 1300, "dur": 90},
{"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 1350, "dur": 1, "args": {"long_name": "stranger:X", "group_id": "3"}},
{"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 1500, "dur": 10, "args": {"long_name": "u0:Assign", "group_id": "3"}}]})";
constexpr const char* kRows = R"({"traceEvents": [
{"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "Sync"}},
{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "horovod_allreduce.0"}},
{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "horovod_allreduce.w1"}},
{"ph": "B", "name": "0", "pid": 9, "ts": 1400.5}, {"ph": "E", "pid": 9, "ts": 1420},
{"ph": "B", "name": "1", "pid": 9, "ts": 1400.5}, {"ph": "E", "pid": 9, "ts": 1420},
{"ph": "B", "name": "QUEUE", "pid": 0, "ts": 1420}, {"ph": "E", "pid": 0, "ts": 1425},
{"ph": "B", "name": "MEMCPY_IN_FUSION_BUFFER", "pid": 0, "ts": 1425}, {"ph": "E", "pid": 0, "ts": 1428},
{"ph": "B", "name": "MEMCPY_IN_FUSION_BUFFER", "pid": 1, "ts": 1426}, {"ph": "E", "pid": 1, "ts": 1430},
{"ph": "B", "name": "MEMCPY_OUT_FUSION_BUFFER", "pid": 0, "ts": 1490}, {"ph": "E", "pid": 0, "ts": 1495}]})";
constexpr const char* kChunks = R"({"traceEvents": [
{"name": "Comm.<<8>>1+0.SEND", "ph": "X", "ts": 1430, "dur": 20, "pid": "nccl", "tid": "x", "args": {"loopId": 0, "channelId": 0, "chunkId": 0, "sliceId": 0}},
{"name": "Comm.1+0.RECV", "ph": "X", "ts": 1431, "dur": 29, "pid": "nccl", "tid": "x", "args": {"loopId": 0, "channelId": 0, "chunkId": 0, "sliceId": 0}},
{"name": "Comm.1+0.SEND", "ph": "X", "ts": 1460, "dur": 20, "pid": "nccl", "tid": "x", "args": {"loopId": 0, "channelId": 0, "chunkId": 1, "sliceId": 0}},
{"name": "Comm.1+0.RECV", "ph": "X", "ts": 1461, "dur": 29, "pid": "nccl", "tid": "x", "args": {"loopId": 0, "channelId": 0, "chunkId": 1, "sliceId": 0}},
{"name": "unknown", "ph": "X", "ts": 1461, "dur": 29, "pid": "nccl"}]})";
constexpr const char* kNames =
    R"({"gradient_name_list": ["w0", "w1"], "model_name": "two"})";
constexpr const char* kMetadata =
    R"({"b": {"op": "G", "input": [], "output": [{"name": "w1", "shape": [2, 3], "dtype": "float16"}]},)"
    R"( "c": {"op": "G", "output": [{"name": "w0", "shape": [4], "dtype": "float32"}]}})";

class DproTest : public ::testing::Test {
 protected:
  DproTest() {
    std::string folder = ::testing::TempDir() + "dpro_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~DproTest() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = folder_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  void write_rank(const std::string& place, std::string rows = kRows,
                  std::string chunks = kChunks) const {
    write(place + "/dag.gml", kGraph);
    write(place + "/trace.json.gz", gzip(kOperators));
    write(place + "/comm.json", rows);
    write(place + "/comm_detail.json", chunks);
    write(place + "/gradient_name_list.json", kNames);
    write(place + "/metadata.json", kMetadata);
  }
  Result<ImportResult> import(const std::string& place = {}) const {
    const std::vector<std::string> paths = {folder_ + place};
    return import_files(paths, {});
  }
  Trace trace_of(ImportResult& result) const {
    return gather_spools(result.spools).value();
  }

  std::string folder_;
};

const Event* find(const Trace& trace, uint32_t rank, std::string_view name) {
  for (const Event& event : trace.events) {
    if (event.rank == rank && trace.text(event.name) == name) return &event;
  }
  return nullptr;
}

TEST(Gml, ReadsNodesAndEdges) {
  const Result<GmlGraph> graph = parse_gml(kGraph);
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->labels,
            (std::vector<std::string>{"FW.a", "BW.b", "BW.c", "Comm.0",
                                      "Comm.1", "UPDATE_.u0"}));
  using Edge = std::pair<uint32_t, uint32_t>;
  EXPECT_EQ(graph->edges, (std::vector<Edge>{Edge(0, 1), Edge(1, 2), Edge(1, 4),
                                             Edge(2, 3), Edge(3, 5)}));
  EXPECT_EQ(graph->dangling_edges, 1);
  EXPECT_FALSE(graph->truncated);
}

TEST(Gml, SurvivesDamage) {
  EXPECT_FALSE(parse_gml(""));
  EXPECT_FALSE(parse_gml("not a graph"));
  const auto deep = parse_gml("graph [ " + std::string(1 << 20, '['));
  ASSERT_TRUE(deep);
  EXPECT_TRUE(deep->truncated);
  const auto cut =
      parse_gml("graph [ node [ id 0 label \"a\" ] node [ id 1 la");
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->labels, std::vector<std::string>{"a"});
  const auto escaped = parse_gml(R"(graph [node [id 0 label "a&#34;&amp;"]])");
  ASSERT_TRUE(escaped);
  EXPECT_EQ(escaped->labels, std::vector<std::string>{"a\"&"});
}

TEST(DproGraph, SortsAFrameworksNamesIntoCategories) {
  // conv -> gradients/conv -> copy -> all-reduce of tensor 3 -> apply.
  GmlGraph gml;
  gml.labels = {"model.x/conv", "gradients/conv", "copy/_7",
                "DistributedOptimizer/HorovodAllreduce.3_0", "apply"};
  gml.edges = {{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  const DproGraph graph(gml);
  const auto name_of = [&](std::string_view operation) {
    const uint32_t node = graph.find(operation);
    return node == kNoDproNode ? "" : graph.name(node);
  };
  EXPECT_EQ(name_of("model.x/conv"), "FW.model_x/conv");
  EXPECT_EQ(name_of("gradients/conv"), "BW.gradients/conv");
  EXPECT_EQ(name_of("copy/_7"), "BW.copy");
  EXPECT_EQ(name_of("Comm.3"), "Comm.3");
  EXPECT_EQ(name_of("apply"), "UPDATE_.apply");
  EXPECT_EQ(name_of("stranger"), "");
}

TEST_F(DproTest, ReadsATrialOfTwoHosts) {
  write_rank("host0/0");
  write_rank("host1/0");
  write("summary.txt", "of another tool");
  auto result = import();
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->files.size(), 2U);
  const FileReport& report = result->files[0];
  EXPECT_EQ(report.kind, "dpro");
  EXPECT_EQ(report.dialect, "horovod, 1 channel");
  EXPECT_EQ(report.steps, 1);
  EXPECT_EQ(report.collectives, 2);
  EXPECT_EQ(report.kernels, 4);
  // Four operators, four chunks, Sync, QUEUE, two copies, the all-reduce.
  EXPECT_EQ(report.events, 13);
  EXPECT_EQ(report.ignored.at("operator that the graph does not have"), 1);
  EXPECT_EQ(report.ignored.at("event of another row than the operators'"), 1);
  EXPECT_EQ(report.ignored.at("chunk of an unknown name"), 1);
  EXPECT_EQ(report.dropped,
            (std::map<std::string, int64_t>{{"edge to no node", 1}}));
  const Trace trace = trace_of(*result);
  ASSERT_EQ(trace.ranks.size(), 2U);
  EXPECT_EQ(trace.ranks[1].host, "host1");
  ASSERT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.steps[0].step, 3);
  EXPECT_EQ(trace.steps[0].start_ns, 1'000'000);
  EXPECT_EQ(trace.steps[0].end_ns, 1'510'000);
}

TEST_F(DproTest, JoinsATensorGroupToOneAllReduce) {
  write_rank("host0/0");
  write_rank("host1/0");
  auto result = import();
  ASSERT_TRUE(result);
  const Trace trace = trace_of(*result);
  const Event* const transfer = find(trace, 1, "Comm.0+1");
  ASSERT_NE(transfer, nullptr);
  EXPECT_EQ(transfer->kind, EventKind::kCollective);
  // First chunk's start to last chunk's end; 4 x 4 + 2 x 3 x 2 bytes.
  EXPECT_EQ(transfer->start_ns, 1'430'000);
  EXPECT_EQ(transfer->end_ns, 1'490'000);
  EXPECT_EQ(transfer->bytes, 28);
  EXPECT_EQ(trace.strings[static_cast<size_t>(transfer->attributes)],
            R"({"tensors":["w0","w1"]})");
  const CollectiveInfo& info =
      trace.collectives[static_cast<size_t>(transfer->detail)];
  EXPECT_EQ(info.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(info.group, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(info.input_elements, 10);
  const Event* const ready = find(trace, 0, "Comm.0+1.Sync");
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->start_ns, 1'400'500);
  EXPECT_EQ(ready->end_ns, 1'420'000);
  // The two tensors' copies overlap: 1425 to 1428 and 1426 to 1430.
  const Event* const copy = find(trace, 0, "Comm.0+1.MEMCPY_IN_FUSION_BUFFER");
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->end_ns - copy->start_ns, 5'000);
}

// A ring of three ranks passes 2 (3 - 1) chunks in turn; the second and last of
// kChunks becomes the fourth.
TEST_F(DproTest, TellsARingByItsChunks) {
  std::string chunks = kChunks;
  const std::string second = "\"chunkId\": 1";
  for (size_t at = chunks.find(second); at != chunks.npos;
       at = chunks.find(second, at)) {
    chunks.replace(at, second.size(), "\"chunkId\": 3");
  }
  for (const std::string host : {"host0", "host1", "host2"}) {
    write_rank("ring/" + host + "/0", kRows, chunks);
    write_rank("other/" + host + "/0");
  }
  for (const std::string place : {"/ring", "/other"}) {
    auto result = import(place);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(keeps_to_rings(trace_of(*result)), place == "/ring") << place;
  }
  // Of a host alone they tell how many there are.
  auto result = import("/ring/host1");
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = trace_of(*result);
  EXPECT_EQ(job_size(trace), 3U);
  const Event* const transfer = find(trace, 0, "Comm.0+1");
  ASSERT_NE(transfer, nullptr);
  EXPECT_EQ(trace.collectives[static_cast<size_t>(transfer->detail)].group_size,
            3);
}

TEST_F(DproTest, TurnsTheGraphIntoDependenciesOfEveryStep) {
  write_rank("host0/0");
  auto result = import();
  ASSERT_TRUE(result);
  const Trace trace = trace_of(*result);
  std::map<int64_t, std::string> names;
  for (const Event& event : trace.events) {
    if (event.external_id >= 0) {
      EXPECT_TRUE(
          names.emplace(event.external_id, trace.text(event.name)).second);
    }
  }
  std::set<std::string> edges;
  for (const EventDependency& edge : trace.dependencies) {
    edges.insert(names.at(edge.before) + " > " + names.at(edge.after));
  }
  EXPECT_EQ(edges, (std::set<std::string>{
                       "FW.a > BW.b", "BW.b > BW.c", "BW.b > Comm.0+1.Sync",
                       "BW.c > Comm.0+1.Sync",
                       "Comm.0+1.Sync > Comm.0+1.MEMCPY_IN_FUSION_BUFFER",
                       "Comm.0+1.MEMCPY_IN_FUSION_BUFFER > Comm.0+1",
                       "Comm.0+1 > Comm.0+1.MEMCPY_OUT_FUSION_BUFFER",
                       "Comm.0+1.MEMCPY_OUT_FUSION_BUFFER > UPDATE_.u0"}));
}

TEST_F(DproTest, FindsTheLevelByWhereTracesAre) {
  write_rank("run/host0/0");
  write_rank("run/host0/1");
  for (const char* place : {"", "/run", "/run/host0"}) {
    const auto result = import(place);
    ASSERT_TRUE(result) << place << ": " << result.error().message;
    EXPECT_EQ(result->files.size(), 2U) << place;
    EXPECT_EQ(result->files[0].kind, "dpro") << place;
  }
  const auto one = import("/run/host0/1");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->files.size(), 1U);
  EXPECT_EQ(one->files[0].kind, "dpro");
}

TEST_F(DproTest, LosesOnlyWhatIsDamaged) {
  write_rank("host0/0");
  write_rank("host1/0", R"({"traceEvents": [{"ph": "B", "na)");
  write("host1/0/trace.json.gz", std::string(gzip(kOperators)).substr(0, 60));
  const auto result = import();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->files[0].events, 13);
  EXPECT_FALSE(result->files[1].dropped.empty());
  EXPECT_GT(result->files[1].events, 0);
}

TEST_F(DproTest, LeavesOtherDirectoriesAlone) {
  EXPECT_FALSE(dpro_reader().recognizes({folder_, {"0/trace.json.gz"}}));
  EXPECT_FALSE(dpro_reader().recognizes(
      {folder_, {"a/b/c/dag.gml", "a/b/c/trace.json.gz"}}));
  EXPECT_TRUE(dpro_reader().recognizes(
      {folder_, {"b/c/dag.gml", "b/c/trace.json.gz"}}));
}

// Three steps of two workers and a server, in us: FW.a for 100, BW.b for 200,
// BW.c for 100, each in turn; w1 of 12 bytes is pushed after b, w0 of 16 bytes
// after c, by a link that takes 20 and `per_byte` us a byte. The server takes
// 50 to copy the first push, to add the other one and to copy the sum, then
// answers one worker after the other; the next step begins when w0 is there and
// was applied for 10. Names and rows as dPRO's bps_helper/preprocess.py writes
// them.
struct ServedJob {
  int per_byte = 10;
  bool by_name = false;  ///< As of MXNet: "w1.PUSH".
  std::array<std::string, 2> operators = {};
  std::string messages = {}, served = {};

  int transfer(int tensor) const {
    return 20 + (tensor == 0 ? 16 : 12) * per_byte;
  }
  void operation(int worker, const char* name, int step, int start, int us) {
    operators[static_cast<size_t>(worker)] += fmt::format(
        R"(,{{"ph":"X","name":"op","pid":1,"tid":1,"ts":{},"dur":{},)"
        R"("args":{{"long_name":"{}:Op","group_id":"{}"}}}})",
        start, us, name, step + 3);
  }
  void span(std::string& file, int tensor, const char* what, int row, int start,
            int end) const {
    for (const bool begins : {true, false}) {
      file += fmt::format(
          R"(,{{"name":"{}{}.{}","ph":"{}","ts":{},"pid":{},"tid":1}})",
          by_name ? "w" : "BytePSPushPull.", tensor, what, begins ? "B" : "E",
          begins ? start : end, row);
    }
  }
  /// When the answers to both workers are there.
  std::array<int, 2> exchange(int tensor, std::array<int, 2> pushed,
                              int& engine_free, int& out_free) {
    for (const int worker : {0, 1}) {
      const auto at = static_cast<size_t>(worker);
      span(messages, tensor, "PUSH", worker, pushed[at] - transfer(tensor),
           pushed[at]);
      engine_free = std::max(engine_free, pushed[at]);
      span(served, tensor, worker == 0 ? "COPY_FIRST" : "SUM", 0, engine_free,
           engine_free + 50);
      engine_free += 50;
    }
    span(served, tensor, "COPY_MERGED", 0, engine_free, engine_free + 50);
    engine_free += 50;
    std::array<int, 2> there = {};
    for (const int worker : {0, 1}) {
      const int start = std::max(out_free, engine_free);
      out_free = there[static_cast<size_t>(worker)] = start + transfer(tensor);
      span(messages, tensor, "PULL", 2 + worker, start, out_free);
    }
    return there;
  }
  void run() {
    std::array<int, 2> begin = {1000, 1000};
    int engine_free = 0, out_free = 0;
    for (int step = 0; step < 3; ++step) {
      std::array<int, 2> first = {}, second = {};
      for (const size_t worker : {size_t{0}, size_t{1}}) {
        const int w = static_cast<int>(worker), at = begin[worker];
        operation(w, "FW.a", step, at, 100);
        operation(w, "b", step, at + 100, 200);
        operation(w, "c", step, at + 300, 100);
        first[worker] = at + 300 + transfer(1);
        second[worker] = std::max(at + 400, first[worker]) + transfer(0);
      }
      exchange(1, first, engine_free, out_free);
      const auto there = exchange(0, second, engine_free, out_free);
      for (const size_t worker : {size_t{0}, size_t{1}}) {
        operation(static_cast<int>(worker), "u0", step, there[worker], 10);
        begin[worker] = there[worker] + 10;
      }
    }
  }
};

/// A case of ../shared/bench/dpro; "" where it cannot be made.
std::string generated(const std::string& folder, const std::string& name,
                      const std::string& settings, int ranks = 4) {
  const std::string script = shared_directory() + "/bench/dpro/gen_trace.py";
  if (!std::filesystem::exists(script)) return {};
  std::filesystem::create_directories(folder + "/" + name);
  const std::string trial = folder + "/" + name + "/global_traces";
  const std::string command = settings + " python3 " + script + " " + trial +
                              " " + std::to_string(ranks) +
                              " 12 3 1 >/dev/null 2>&1";
  return std::system(command.c_str()) == 0 ? trial : std::string();
}

Result<TraceReplay> replayed(const std::string& trial,
                             const std::vector<WhatIf>& what_ifs) {
  const std::vector<std::string> paths = {trial};
  auto result = import_files(paths, {});
  if (!result) return pass(result.error());
  auto trace = gather_spools(result->spools);
  if (!trace) return pass(trace.error());
  const auto graph = build_trace_graph(AlignedTrace::as_recorded(*trace));
  if (!graph) return pass(graph.error());
  return replay_trace(*trace, *graph, what_ifs);
}

// What a server takes, and waits for, is in the graph: before, every step but
// compute was a gap, which no bandwidth shrank.
TEST_F(DproTest, PredictsWorkersAndTheirServer) {
  const auto recorded = [&](const std::string& place, int per_byte,
                            bool by_name = false) {
    ServedJob job{.per_byte = per_byte, .by_name = by_name};
    job.run();
    for (const int worker : {0, 1}) {
      const std::string folder = fmt::format("{}/worker_{}/0", place, worker);
      write(folder + "/dag.gml", kGraph);
      write(folder + "/gradient_name_list.json", kNames);
      write(folder + "/metadata.json", kMetadata);
      const std::string rows(
          kOperators, std::string_view(kOperators).find(",\n{\"ph\": \"X\""));
      write(folder + "/trace.json.gz",
            gzip(rows + job.operators[static_cast<size_t>(worker)] + "]}"));
    }
    std::string rows;
    for (int row = 0; row < 4; ++row)
      rows += fmt::format(
          R"({}{{"name":"process_name","ph":"M","pid":{},"args":{{"name":"{}"}}}})",
          row == 0 ? "[" : ",", row,
          row < 2 ? fmt::format("worker_{} -> server_0", row)
                  : fmt::format("server_0 -> worker_{}", row - 2));
    write(place + "/comm_timeline.json", rows + job.messages + "]");
    write(
        place + "/server_timeline.json",
        R"([{"name":"process_name","ph":"M","pid":0,"args":{"name":"server_0"}})" +
            job.served + "]");
    return folder_ + "/" + place;
  };
  const std::string slow = recorded("slow", 10), fast = recorded("fast", 5);
  auto result = import("/slow");
  ASSERT_TRUE(result) << result.error().message;
  const Trace trace = trace_of(*result);
  ASSERT_EQ(trace.ranks.size(), 3U);
  for (const uint32_t rank : {0U, 2U}) {
    const Event* push = find(trace, rank, "BytePSPushPull.0.PUSH");
    ASSERT_NE(push, nullptr);
    EXPECT_EQ(push->bytes, 16);
    EXPECT_EQ(push->step, 3);
  }
  const auto truth = replayed(fast, {}), as_it_was = replayed(slow, {});
  const auto what_if = replayed(slow, {parse_what_if("bandwidth=2x").value()});
  ASSERT_TRUE(truth && as_it_was && what_if);
  EXPECT_EQ(as_it_was->sources.unexplained, 0);
  EXPECT_LT(truth->measured_ns * 5, as_it_was->measured_ns * 4);
  // Latency comes from a line through two sizes, rounded to ns.
  EXPECT_LE(std::abs(what_if->predicted_ns - truth->measured_ns), 1'000);
  const std::string named = recorded("named", 10, true);
  const auto by_name = replayed(named, {parse_what_if("bandwidth=2x").value()});
  ASSERT_TRUE(by_name) << by_name.error().message;
  EXPECT_EQ(by_name->predicted_ns, what_if->predicted_ns);
  std::filesystem::remove(named + "/server_timeline.json");
  const auto unserved = import("/named");
  ASSERT_TRUE(unserved) << unserved.error().message;
  ASSERT_FALSE(unserved->files[0].missing.empty());
  EXPECT_NE(unserved->files[0].missing[0].find("no server_timeline.json"),
            std::string::npos);
}

TEST_F(DproTest, ReplaysGeneratedCasesAndTheirWhatIfs) {
  // Tensors of several sizes, so that latency and bandwidth can be told apart.
  const std::string base = generated(folder_, "base", "HETERO=1 GBPS=5");
  if (base.empty()) GTEST_SKIP() << "no generator or no python3-networkx";
  const std::string fast = generated(folder_, "fast", "HETERO=1 GBPS=10");
  const auto recorded = replayed(base, {});
  ASSERT_TRUE(recorded) << recorded.error().message;
  EXPECT_EQ(recorded->predicted_ns, recorded->measured_ns);
  EXPECT_LT(recorded->sources.unexplained, 0.05);
  const auto other = replayed(fast, {});
  ASSERT_TRUE(other) << other.error().message;
  const auto what_if = replayed(base, {parse_what_if("bandwidth=2x").value()});
  ASSERT_TRUE(what_if) << what_if.error().message;
  EXPECT_LT(other->measured_ns, recorded->measured_ns);
  // The generator draws other jitter of up to 2 % for what it makes.
  EXPECT_NEAR(static_cast<double>(what_if->predicted_ns),
              static_cast<double>(other->measured_ns),
              0.03 * static_cast<double>(other->measured_ns));
}

// Rings all, whose latency is that of their rounds: 2 (n - 1), never a tree's.
TEST_F(DproTest, PredictsRingsOfMoreRanks) {
  const std::string settings = "HETERO=1 LAT_US=300 SEND_US=5";
  const std::string small = generated(folder_, "small", settings);
  if (small.empty()) GTEST_SKIP() << "no generator or no python3-networkx";
  const std::string large = generated(folder_, "large", settings, 8);
  const auto truth = replayed(large, {});
  ASSERT_TRUE(truth) << truth.error().message;
  const auto what_if = replayed(small, {parse_what_if("ranks=8").value()});
  ASSERT_TRUE(what_if) << what_if.error().message;
  EXPECT_NEAR(static_cast<double>(what_if->predicted_ns),
              static_cast<double>(truth->measured_ns),
              0.02 * static_cast<double>(truth->measured_ns));
}

}  // namespace
}  // namespace reprise
