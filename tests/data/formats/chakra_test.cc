#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "data/formats/chakra/chakra_reader.h"
#include "data/io/proto_writer.h"
#include "tests/testing/directories.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

const std::string kChakraTraces = shared_directory() + "/traces/chakra/";

std::string delimited(const ProtoWriter& message) {
  return ProtoWriter().raw_varint(message.text().size()).text() +
         message.text();
}

ProtoWriter integer_attribute(std::string_view name, uint32_t number,
                              uint64_t value) {
  return ProtoWriter().bytes(1, name).varint(number, value);
}

ProtoWriter text_attribute(std::string_view name, std::string_view value) {
  return ProtoWriter().bytes(1, name).bytes(29, value);
}

std::string metadata() { return delimited(ProtoWriter().bytes(1, "0.0.4")); }

/// Two computations of 5 us and 7 us and an all-reduce of 4096 bytes behind
/// both; the first node's id is 0 and so not written.
std::string small_graph() {
  return metadata() +
         delimited(ProtoWriter()
                       .bytes(2, "forward")
                       .varint(3, 4)
                       .varint(7, 5)
                       .message(10, integer_attribute("num_ops", 13, 1000))) +
         delimited(ProtoWriter()
                       .varint(1, 1)
                       .bytes(2, "backward")
                       .varint(3, 4)
                       .bytes(5, std::string("\0", 1))
                       .varint(7, 7)) +
         delimited(ProtoWriter()
                       .varint(1, 2)
                       .bytes(2, "gradients")
                       .varint(3, 7)
                       .varint(4, 0)
                       .varint(5, 1)
                       .varint(7, 3)
                       .message(10, integer_attribute("comm_type", 9, 0))
                       .message(10, integer_attribute("comm_size", 17, 8192))
                       .message(10, text_attribute("pg_name", "dp")));
}

TEST(Chakra, LaysNodesOutByStreamBehindWhatTheyDependOn) {
  ReadInput input = read_input(chakra_reader(), small_graph());
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status) << input.status.error().message;
  EXPECT_EQ(input.report.dialect, "0.0.4");
  EXPECT_EQ(input.report.events, 3);
  EXPECT_TRUE(input.report.dropped.empty());
  const Trace trace = input.gather();
  ASSERT_EQ(trace.events.size(), 3u);
  EXPECT_EQ(trace.ranks[0].clock_domain, "none");
  // compute: 0-5 us, 5-12 us; communication, behind both: 12-15 us.
  std::vector<std::string> seen;
  for (const Event& event : trace.events) {
    seen.push_back(
        trace.text(event.name) + "@" + trace.streams[event.stream].name + ":" +
        std::to_string(event.start_ns) + "-" + std::to_string(event.end_ns));
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"forward@compute:0-5000",
                                            "backward@compute:5000-12000",
                                            "gradients@communication:12000-"
                                            "15000"}));
  const Event& gradients = trace.events[2];
  EXPECT_EQ(gradients.kind, EventKind::kCollective);
  EXPECT_EQ(gradients.bytes, 4096);  // zigzag 8192.
  const CollectiveInfo& info =
      trace.collectives[static_cast<size_t>(gradients.detail)];
  EXPECT_EQ(info.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(info.communicator, "dp");
  EXPECT_EQ(trace.strings[static_cast<size_t>(trace.events[0].attributes)],
            "{\"num_ops\": 1000}");
  EXPECT_EQ(trace.dependencies,
            (std::vector<EventDependency>{{0, 0, 1}, {0, 0, 2}, {0, 1, 2}}));
}

ProtoWriter node_of(uint64_t id, uint64_t type, uint64_t duration_us,
                    const std::vector<uint64_t>& behind) {
  ProtoWriter node;
  node.varint(1, id)
      .bytes(2, std::to_string(id))
      .varint(3, type)
      .varint(7, duration_us);
  for (const uint64_t before : behind) node.varint(5, before);
  return node;
}

/// "id@stream:start-end" in microseconds, by id.
std::set<std::string> laid_out(const std::vector<ProtoWriter>& nodes) {
  std::string bytes = metadata();
  for (const ProtoWriter& node : nodes) bytes += delimited(node);
  const Trace trace = read_input(chakra_reader(), bytes).gather();
  std::set<std::string> seen;
  for (const Event& event : trace.events) {
    seen.insert(trace.text(event.name) + "@" +
                trace.streams[event.stream].name + ":" +
                std::to_string(event.start_ns / 1000) + "-" +
                std::to_string(event.end_ns / 1000));
  }
  return seen;
}

// Gathers 2 and 3 follow each other, and scatter 4 none of them: it need not
// wait for 3, which takes 20 us. Scatter 6 follows 4.
TEST(Chakra, CommunicationThatFollowsNoneHasAStreamOfItsOwn) {
  EXPECT_EQ(
      laid_out({node_of(1, 4, 5, {}), node_of(2, 7, 2, {1}),
                node_of(3, 7, 20, {2}), node_of(4, 7, 3, {1}),
                node_of(5, 4, 4, {2}), node_of(6, 7, 3, {5, 4})}),
      (std::set<std::string>{"1@compute:0-5", "2@communication:5-7",
                             "3@communication:7-27", "4@communication 1:5-8",
                             "5@compute:7-11", "6@communication 1:11-14"}));
}

// A generator says what computes each gradient, and no more.
TEST(Chakra, CommunicationOfWhichNothingTellsMoreTakesTurns) {
  EXPECT_EQ(
      laid_out({node_of(1, 4, 5, {}), node_of(2, 4, 1, {1}),
                node_of(3, 7, 9, {1}), node_of(4, 7, 9, {2})}),
      (std::set<std::string>{"1@compute:0-5", "2@compute:5-6",
                             "3@communication:5-14", "4@communication:14-23"}));
}

// 100.6 us for 5.6 us, and what follows from 106.2 us, are written as 101, 6
// and 106 us.
TEST(Chakra, RoundedTimesDoNotOverlap) {
  EXPECT_EQ(laid_out({node_of(1, 4, 6, {}).varint(6, 101),
                      node_of(2, 4, 3, {1}).varint(6, 106),
                      node_of(3, 7, 3, {1}).varint(6, 105)}),
            (std::set<std::string>{"1@compute:101-107", "2@compute:107-109",
                                   "3@communication:105-108"}));
}

TEST(Chakra, KeepsRecordedStarts) {
  ReadInput input =
      read_input(chakra_reader(), metadata() + delimited(ProtoWriter()
                                                             .varint(1, 7)
                                                             .bytes(2, "a")
                                                             .varint(3, 4)
                                                             .varint(6, 100)
                                                             .varint(7, 5)));
  const Trace trace = input.gather();
  EXPECT_EQ(trace.events[0].start_ns, 100'000);
  EXPECT_EQ(trace.ranks[0].clock_domain, "");
}

TEST(Chakra, CountsWhatItCannotKeep) {
  const auto node = [](uint64_t id) {
    return ProtoWriter().varint(1, id).bytes(2, "n").varint(3, 4);
  };
  const std::string bytes =
      metadata() + delimited(node(1)) +
      delimited(node(2).varint(4, 99).varint(5, 2)) +  // Nobody's, its own.
      delimited(node(1)) +                             // The id is taken.
      delimited(ProtoWriter().varint(1, 3).bytes(2, "?")) +
      delimited(node(uint64_t{1} << 63)) +               // No int64.
      delimited(node(4).varint(7, uint64_t{1} << 62)) +  // Longer than time.
      delimited(node(5).fixed32(99, 1)) +                // A newer field.
      "\x20" + node(6).text();                           // Cut.
  ReadInput input = read_input(chakra_reader(), bytes);
  ASSERT_TRUE(input.status);
  EXPECT_EQ(input.report.events, 4);
  const std::map<std::string, int64_t> dropped = {
      {"dependency on a node that is not there", 1},
      {"dependency of a node on itself", 1},
      {"dependencies of a node whose id is taken", 1},
      {"node without a type", 1},
      {"node id out of range", 1},
      {"time out of range", 1},
      {"truncated", 1}};
  EXPECT_EQ(input.report.dropped, dropped);
}

TEST(Chakra, ReadsProtobufsOwnJson) {
  const std::string text = R"({"version": "0.0.4"}
{
  "name": "send it", "type": "COMM_SEND_NODE", "durationMicros": "12",
  "attr": [{"name": "comm_dst", "int32Val": 3},
           {"name": "comm_size", "int64Val": "65536"},
           {"name": "is_cpu_op", "boolVal": false}]
}
{
  "id": "1", "name": "get it", "type": "COMM_RECV_NODE", "dataDeps": ["0"],
  "attr": [{"name": "comm_src", "int32Val": 5}]
}
)";
  ReadInput input = read_input(chakra_reader(), text);
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status);
  EXPECT_EQ(input.report.dialect, "json 0.0.4");
  const Trace trace = input.gather();
  ASSERT_EQ(trace.events.size(), 2u);
  const auto info = [&](size_t event) {
    return trace.collectives[static_cast<size_t>(trace.events[event].detail)];
  };
  EXPECT_EQ(trace.events[0].end_ns, 12'000);
  EXPECT_EQ(trace.events[0].bytes, 65536);
  EXPECT_EQ(info(0).kind, CollectiveKind::kSend);
  EXPECT_EQ(info(0).peer, 3);
  EXPECT_EQ(info(1).kind, CollectiveKind::kReceive);
  EXPECT_EQ(info(1).peer, 5);
  EXPECT_EQ(trace.dependencies, (std::vector<EventDependency>{{0, 0, 1}}));
}

TEST(Chakra, LeavesOtherFilesAlone) {
  // XSpace: field 1, a plane; an HLO proto; JSON of others; nothing.
  const std::string plane = ProtoWriter().bytes(1, "\x08\x01\x12\x01h").text();
  for (const std::string& bytes :
       {plane, std::string("{\"traceEvents\": []}"), std::string(),
        small_graph().substr(0, 1),
        std::string("SQLite format 3\0aaaaaaaaaaaaa", 29)}) {
    EXPECT_FALSE(read_input(chakra_reader(), bytes).recognized) << bytes;
  }
  EXPECT_FALSE(read_input(chakra_reader(), "").status);
}

/// Sums over the trace in the words of *.truth.json.
nlohmann::json truth_of(const Trace& trace, const FileReport& report) {
  nlohmann::json truth = {{"comm_size_sum", 0},
                          {"types", nlohmann::json::object()},
                          {"dur_us", nlohmann::json::object()}};
  for (const Event& event : trace.events) {
    const bool host =
        trace.streams[event.stream].kind == StreamKind::kHostThread;
    const std::string key =
        std::string(event.detail >= 0 ? "COMM_COLL" : "COMP") +
        (host ? "/cpu" : "/gpu");
    truth["types"][key] = truth["types"].value(key, 0) + 1;
    truth["dur_us"][key] = truth["dur_us"].value(key, int64_t{0}) +
                           (event.end_ns - event.start_ns) / 1000;
    truth["comm_size_sum"] =
        truth["comm_size_sum"].get<int64_t>() + event.bytes;
  }
  truth["nodes"] = trace.events.size();
  truth["messages_incl_header"] = trace.events.size() + 1;
  truth["dangling_dep_refs"] =
      report.dropped.at("dependency on a node that is not there");
  return truth;
}

TEST(Chakra, MeetsTheFiguresOfARealFile) {
  const std::string path = kChakraTraces + "mlcommons_1.0.1/chakra.0.et";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no shared traces";
  ReadInput input = read_input(chakra_reader(), bytes_of_member(path, ""));
  ASSERT_TRUE(input.recognized);
  const Trace trace = input.gather();
  std::ifstream file(kChakraTraces + "mlcommons_1.0.1/chakra.0.truth.json");
  nlohmann::json expected = nlohmann::json::parse(file);
  const int64_t references = expected["ctrl_deps"].get<int64_t>() +
                             expected["data_deps"].get<int64_t>();
  // A python one-off finds 383 dependencies of a node on itself among them.
  EXPECT_EQ(input.report.dropped.at("dependency of a node on itself"), 383);
  EXPECT_EQ(static_cast<int64_t>(trace.dependencies.size()),
            references - 383 - expected["dangling_dep_refs"].get<int64_t>());
  for (const char* key : {"definition", "ctrl_deps", "data_deps"}) {
    expected.erase(key);
  }
  EXPECT_EQ(truth_of(trace, input.report), expected);
  EXPECT_EQ(input.report.dialect, "schema 1.0.1");
  EXPECT_EQ(input.report.dropped.size(), 2u);
}

/// A python one-off counts in the same node list, printed by a generator that
/// leaves control dependencies and sizes out: 2434 + 14 nodes on the CPU,
/// 1209 + 7 on the device, 3507 with a runtime, all times summing to the
/// truth file's.
TEST(Chakra, ReadsGeneratedJson) {
  const std::string path = kChakraTraces + "mlcommons_json/json_trace.tar.gz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no shared traces";
  ReadInput input =
      read_input(chakra_reader(), bytes_of_member(path, "/chakra.0.json"));
  ASSERT_TRUE(input.recognized);
  EXPECT_EQ(input.report.events, 3664);
  EXPECT_EQ(input.report.kernels, 1209);
  EXPECT_EQ(input.report.collectives, 7);
  const Trace trace = input.gather();
  int64_t timed = 0, time_us = 0;
  for (const Event& event : trace.events) {
    timed += event.end_ns > event.start_ns;
    time_us += (event.end_ns - event.start_ns) / 1000;
  }
  EXPECT_EQ(timed, 3507);
  EXPECT_EQ(time_us, 50941 + 292828 + 1311 + 36715);
  ReadInput small = read_input(chakra_reader(),
                               bytes_of_member(path, "/small_chakra.0.json"));
  EXPECT_EQ(small.report.events, 7);
}

/// ASTRA-sim's ring all-reduce: 14 sends of 131072 bytes to rank 1, 14
/// receives from rank 7, 7 reductions, one chain.
TEST(Chakra, ReadsSendsAndReceives) {
  const std::string path =
      kChakraTraces + "astrasim_custom_ring_8npu/custom_allreduce.0.et";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no shared traces";
  ReadInput input = read_input(chakra_reader(), bytes_of_member(path, ""));
  ASSERT_TRUE(input.recognized);
  EXPECT_EQ(input.report.dialect, "schema 1.0.2-chakra.0.0.4");
  const Trace trace = input.gather();
  ASSERT_EQ(trace.collectives.size(), 2u);
  EXPECT_EQ(trace.collectives[0].kind, CollectiveKind::kSend);
  EXPECT_EQ(trace.collectives[0].peer, 1);
  EXPECT_EQ(trace.collectives[1].kind, CollectiveKind::kReceive);
  EXPECT_EQ(trace.collectives[1].peer, 7);
  int64_t bytes = 0;
  for (const Event& event : trace.events) bytes += event.bytes;
  EXPECT_EQ(bytes, 28 * 131072);
  EXPECT_EQ(trace.events.size(), 35u);
  EXPECT_EQ(trace.dependencies.size(), 34u);
  EXPECT_TRUE(input.report.dropped.empty());
}

/// ASTRA-sim's text converter, 0.0.4: node counts by a python decoder.
TEST(Chakra, ReadsConvertedWorkloads) {
  const std::string path = kChakraTraces + "astrasim_tars/";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no shared traces";
  ReadInput resnet = read_input(
      chakra_reader(), bytes_of_member(path + "resnet_dp.tar", ".1.et"));
  ASSERT_TRUE(resnet.recognized);
  EXPECT_EQ(resnet.report.kernels, 161);
  EXPECT_EQ(resnet.report.collectives, 54);
  EXPECT_EQ(resnet.report.missing.back(),
            "54 collectives have no size (comm_size).");
  ReadInput one =
      read_input(chakra_reader(),
                 bytes_of_member(path + "onecomm_allreduce.tar", ".0.et"));
  ASSERT_TRUE(one.recognized);
  const Trace trace = one.gather();
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].bytes, 65536);  // A uint64, not an int64.
  EXPECT_EQ(trace.collectives[0].kind, CollectiveKind::kAllReduce);
}

}  // namespace
}  // namespace reprise
