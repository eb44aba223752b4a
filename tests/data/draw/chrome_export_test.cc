#include "data/draw/chrome_export.h"

#include <gtest/gtest.h>
#include <isa-l/igzip_lib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <tuple>

#include "data/file.h"
#include "data/io/gzip.h"
#include "data/io/json_text.h"
#include "data/trace/csv_export.h"
#include "tests/data/trace/random_trace.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

using nlohmann::json;

/// A time of the file in nanoseconds; three decimals of microseconds are exact.
int64_t ns_of(const json& micros) {
  return static_cast<int64_t>(std::llround(micros.get<double>() * 1000));
}

/// What every viewer relies on: whole small ids, times from 1 us, metadata
/// first, nesting on every thread, flows in pairs that touch their slices.
void check_rules(const json& file) {
  struct Open {
    int64_t start = 0, end = 0;
  };
  std::map<std::pair<int, int>, std::vector<Open>> threads;
  std::map<int, std::vector<json>> flows;
  bool metadata_over = false;
  for (const json& event : file.at("traceEvents")) {
    const std::string phase = event.at("ph");
    EXPECT_GE(event.at("pid").get<int>(), 1);
    if (phase == "M") {
      EXPECT_FALSE(metadata_over);
      continue;
    }
    metadata_over = true;
    EXPECT_GE(event.at("tid").get<int>(), 1);
    EXPECT_GE(ns_of(event.at("ts")), 1000);
    const int64_t start = ns_of(event.at("ts"));
    if (phase != "X") {
      flows[event.at("id").get<int>()].push_back(event);
      continue;
    }
    std::vector<Open>& thread = threads[{event.at("pid"), event.at("tid")}];
    const int64_t end = start + ns_of(event.at("dur"));
    if (!thread.empty()) {
      EXPECT_GE(start, thread.back().start);
    }
    for (const Open& other : thread) {
      EXPECT_TRUE(other.end <= start || end <= other.end) << "partial overlap";
    }
    thread.push_back({start, end});
  }
  for (const auto& [id, ends] : flows) {
    ASSERT_EQ(ends.size(), 2U) << "flow " << id;
    EXPECT_EQ(ends[0].at("ph"), "s");
    EXPECT_EQ(ends[1].at("ph"), "f");
    EXPECT_EQ(ends[1].at("bp"), "e");
    for (const json& end : ends) {
      const int64_t time = ns_of(end.at("ts"));
      const std::vector<Open>& thread = threads[{end.at("pid"), end.at("tid")}];
      EXPECT_TRUE(
          std::any_of(thread.begin(), thread.end(), [&](const Open& slice) {
            return slice.start <= time && time <= slice.end;
          }));
    }
  }
}

/// Rank 0 of the small trace with the flow dot.1 -> b0, and a made-up
/// prediction beside it.
ChromeTimeline side_by_side() {
  const Trace trace = testing::small_trace();
  ChromeTimeline timeline;
  const MeasuredSlices slices = add_measured_rank(
      timeline, trace, 0,
      {.suffix = " measured", .first_step = 1, .last_step = 1});
  timeline.add_flow(slices.by_event[3], slices.by_event[5]);
  const uint32_t process = timeline.add_process("rank 0 predicted");
  const uint32_t track = timeline.add_track(process, "compute");
  const int64_t start = trace.steps[1].start_ns;
  timeline.add_slice(track, "dot.1", "compute", start, start + 290'000,
                     {{"source", "measured"}});
  return timeline;
}

TEST(ChromeExport, PrintsTheGoldenFile) {
  const std::string path =
      source_directory() + "/tests/golden/chrome/side_by_side.json";
  const std::string text = side_by_side().json();
  if (std::getenv("REPRISE_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file_atomically(path, text));
  }
  EXPECT_EQ(text, read_file(path).value_or("missing"));
  check_rules(json::parse(text));
}

TEST(ChromeExport, ShowsEveryEventOfATrace) {
  const Trace trace = testing::small_trace();
  const json file = json::parse(timeline_of(trace).json());
  check_rules(file);
  std::map<std::string, int> categories;
  for (const json& event : file["traceEvents"]) {
    if (event["ph"] == "X") ++categories[event["cat"]];
  }
  // 2 ranks x 2 steps x (2 compute, 1 collective, 1 step).
  EXPECT_EQ(categories,
            (std::map<std::string, int>{
                {"communication", 4}, {"compute", 8}, {"step", 4}}));
  EXPECT_EQ(file["otherData"]["warning"], "rank 1: last segment lost");
}

TEST(ChromeExport, PutsAllRanksOnTheClockOfRankZero) {
  // Rank 1 starts 500 ns later on its own clock; its offset is -1000 ns and its
  // drift 0.125 ppm over 5 ms from the reference, less than 1 ns: it ends up
  // 500 ns before.
  const json file = json::parse(timeline_of(testing::small_trace()).json());
  std::map<int, int64_t> first;
  for (const json& event : file["traceEvents"]) {
    if (event["ph"] == "X")
      first.try_emplace(event["pid"].get<int>(), ns_of(event["ts"]));
  }
  EXPECT_EQ(first[1] - first[2],
            500 - 1);  // The drift adds 5e6 * 0.125e-6 = 0.6, rounded to 1.
}

TEST(ChromeExport, SplitsOverlapsIntoLanes) {
  //      0    10   20   30
  // a    |---------|          lane 0
  // b         |---------|     lane 1: overlaps a in part
  // c         |--|            lane 0: inside a
  // d              |----|     lane 0: a has ended
  // e            |----------| lane 2: overlaps a and b in part
  ChromeTimeline timeline;
  const uint32_t track = timeline.add_track(timeline.add_process("p"), "t");
  timeline.add_slice(track, "a", "x", 0, 20);
  timeline.add_slice(track, "b", "x", 10, 30);
  timeline.add_slice(track, "c", "x", 10, 14);
  timeline.add_slice(track, "d", "x", 20, 30);
  timeline.add_slice(track, "e", "x", 16, 40);
  const json file = json::parse(timeline.json());
  check_rules(file);
  std::map<std::string, int> threads;
  std::map<int, std::string> names;
  for (const json& event : file["traceEvents"]) {
    if (event["ph"] == "X") threads[event["name"]] = event["tid"];
    if (event["name"] == "thread_name")
      names[event["tid"]] = event["args"]["name"];
  }
  EXPECT_EQ(threads, (std::map<std::string, int>{
                         {"a", 1}, {"b", 2}, {"c", 1}, {"d", 1}, {"e", 3}}));
  EXPECT_EQ(names, (std::map<int, std::string>{
                       {1, "t"}, {2, "t (overlap)"}, {3, "t (overlap 2)"}}));
}

TEST(ChromeExport, ArrowsGoForwardInTime) {
  //            0        10        30        60       100
  // track 1    |--a------|---b----|--a---------------|    b inside a
  // track 2              |----c(20)---------|
  // A path along a, b and a again returns when b ends; one that goes from c to
  // a goes to what waited for c. Viewers drop arrows that go back.
  ChromeTimeline timeline;
  const uint32_t process = timeline.add_process("p");
  const uint32_t one = timeline.add_track(process, "1");
  const uint32_t two = timeline.add_track(process, "2");
  const uint32_t a = timeline.add_slice(one, "a", "x", 0, 100);
  const uint32_t b = timeline.add_slice(one, "b", "x", 10, 30);
  const uint32_t c = timeline.add_slice(two, "c", "x", 20, 60);
  timeline.add_flow(a, b);
  timeline.add_flow(b, a);
  timeline.add_flow(c, a);
  const json file = json::parse(timeline.json());
  check_rules(file);
  std::vector<int64_t> times;
  for (const json& event : file["traceEvents"]) {
    if (event["ph"] == "s" || event["ph"] == "f")
      times.push_back(ns_of(event["ts"]) - 1000);
  }
  EXPECT_EQ(times, (std::vector<int64_t>{9, 10, 29, 30, 59, 60}));
}

TEST(ChromeExport, KeepsTheRulesOnRandomTimelines) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    ChromeTimeline timeline;
    for (int process = 0; process < 2; ++process) {
      timeline.add_process("p");
      timeline.add_track(static_cast<uint32_t>(process), "a");
      timeline.add_track(static_cast<uint32_t>(process), "b");
    }
    for (int i = 0; i < 60; ++i) {
      const auto start = static_cast<int64_t>(random() % 100);
      timeline.add_slice(static_cast<uint32_t>(random() % 4), "s", "c", start,
                         start + static_cast<int64_t>(random() % 30));
    }
    for (int i = 0; i < 10; ++i) {
      timeline.add_flow(static_cast<uint32_t>(random() % 60),
                        static_cast<uint32_t>(random() % 60));
    }
    check_rules(json::parse(timeline.json()));
  }
}

TEST(ChromeExport, SurvivesWildTimesAndNames) {
  // Random bytes in names, times at both ends of 64 bits: still JSON.
  const json file =
      json::parse(timeline_of(testing::random_trace(5, 300, 2)).json());
  EXPECT_GT(file["traceEvents"].size(), 300U);
  EXPECT_FALSE(json::parse(ChromeTimeline().json()).contains("error"));
}

TEST(ChromeExport, WritesGzipThatInflatesToTheSameJson) {
  const auto folder = std::filesystem::temp_directory_path() /
                      fmt::format("reprise_chrome_export_{}", ::getpid());
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "t.json.gz").string();
  ASSERT_TRUE(write_chrome(side_by_side(), path));
  std::string packed = read_file(path).value_or("");
  std::filesystem::remove_all(folder);
  EXPECT_EQ(packed, gzip(side_by_side().json()));
  std::vector<uint8_t> text(1 << 20);
  inflate_state state;
  isal_inflate_init(&state);
  state.crc_flag = ISAL_GZIP;
  state.next_in = reinterpret_cast<uint8_t*>(packed.data());
  state.avail_in = static_cast<uint32_t>(packed.size());
  state.next_out = text.data();
  state.avail_out = static_cast<uint32_t>(text.size());
  ASSERT_EQ(isal_inflate(&state), ISAL_DECOMP_OK);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(text.data()), state.total_out),
            side_by_side().json());
}

TEST(Gzip, PacksAnySize) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{5} << 20) + 7}) {
    const std::string packed = gzip(std::string(size, 'x'));
    // The member ends with the length of what was packed.
    uint32_t length = 0;
    packed.copy(reinterpret_cast<char*>(&length), 4, packed.size() - 4);
    EXPECT_EQ(length, size);
  }
}

TEST(JsonText, QuotesWhatJsonForbids) {
  EXPECT_EQ(json_quoted("a\"b\\c\n\x01"), R"("a\"b\\c\u000a\u0001")");
  EXPECT_EQ(json_quoted("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "\"é € 😀\"");
  // A lone continuation byte, a cut character, an overlong slash, a surrogate.
  EXPECT_EQ(json_quoted("\x80"), R"("\ufffd")");
  EXPECT_EQ(json_quoted("\xe2\x82"), R"("\ufffd\ufffd")");
  EXPECT_EQ(json_quoted("\xc0\xaf"), R"("\ufffd\ufffd")");
  EXPECT_EQ(json_quoted("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");
}

TEST(CsvExport, PrintsOneLineAnEvent) {
  Trace trace = testing::small_trace();
  trace.events.resize(3);
  trace.strings.push_back(R"({"input_dims":[[2,3]]})");
  Event& rich = trace.events[1];
  rich.external_id = 7;
  rich.graph_node = 8;
  rich.sequence = 9;
  rich.detail = 0;
  rich.attributes = static_cast<int32_t>(trace.strings.size()) - 1;
  EXPECT_EQ(csv_of(trace),
            "rank,host,stream,kind,step,unit,name,enqueue_ns,start_ns,end_ns,"
            "bytes,correlation,external_id,graph_node,sequence,detail,"
            "attributes\n"
            "0,host,compute,compute,0,0,dot.1,10000000,10000000,10300000,0,-1,"
            "-1,-1,-1,-1,\n"
            "0,host,compute,compute,0,2,\"say "
            "\"\"hi\"\"\n\",10300000,10300000,10650000,0,-1,"
            "7,8,9,0,\"{\"\"input_dims\"\":[[2,3]]}\"\n"
            "0,host,communication,collective,0,1,b0,10300000,10310000,10700000,"
            "4096,0,-1,-1,-1,-1,\n");
}

TEST(ChromeExport, KeepsEveryWarning) {
  Trace trace = testing::small_trace();
  trace.warnings = {"rank 0: first", "rank 1: second"};
  const json file = json::parse(timeline_of(trace).json());
  EXPECT_EQ(file["otherData"]["warning"], "rank 0: first\nrank 1: second");
}

}  // namespace
}  // namespace reprise
