// Damaged traces of every kind through the import driver: only what is bad is
// lost, it is counted, and --strict refuses it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "data/file.h"
#include "data/import/import.h"
#include "data/import/import_report.h"
#include "tests/fuzz/check_trace.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

const fs::path kFuzzCorpus = fs::path(source_directory()) / "tests/fuzz/corpus";

class BadInput : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/bad_input_" + std::to_string(::getpid()) +
            "_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void TearDown() override { fs::remove(path_); }

  Result<ImportResult> import(const std::string& bytes, bool strict = false) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    ImportOptions options;
    options.strict = strict;
    options.threads = 1;
    return import_files(std::span(&path_, 1), options);
  }

  std::string path_;
};

int64_t total(const std::map<std::string, int64_t>& counts) {
  return std::accumulate(
      counts.begin(), counts.end(), int64_t{0},
      [](int64_t sum, const auto& entry) { return sum + entry.second; });
}

std::string words_of(const FileReport& report) {
  return import_text(std::span(&report, 1));
}

/// A format of many records, of which a test damages one.
struct Format {
  std::string kind, before, between, after;
  std::string (*record)(int number);
};

std::string kernel(int number) {
  return fmt::format(
      R"({{"ph":"X","cat":"kernel","name":"k{}","pid":0,"tid":7,"ts":{},"dur":5,)"
      R"("args":{{"device":0,"stream":7}}}})",
      number, 10 * number);
}

std::string et_node(int number) {
  return fmt::format(R"({{"name":"aten::add","id":{},"rf_id":{},"parent":1}})",
                     number, number);
}

std::string chakra_node(int number) {
  return fmt::format(
      R"({{"id":"{}","name":"n","type":"COMP_NODE","durationMicros":"5"}})",
      number);
}

std::string inspected(int number) {
  return fmt::format(
      R"({{"header":{{"id":"0x7","rank":2,"n_ranks":8}},"coll_perf":{{)"
      R"("coll":"AllReduce","coll_sn":{},"coll_msg_size_bytes":64,)"
      R"("coll_exec_time_us":5}}}})",
      number);
}

std::string profiled(int number) {
  return fmt::format(
      R"({{"recordType":"event","type":"ncclProfileCollApi","gpuUuid":"g",)"
      R"("commId":1,"rank":0,"start":{{"ts":{},"pid":1,"tid":1}},)"
      R"("stop":{{"ts":{},"pid":1,"tid":1}},"details":{{"func":"AllReduce"}}}})",
      number, number + 1);
}

std::string example_pair(int number) {
  return fmt::format(
      R"({{"name": "x", "cat": "GROUP_API", "ph": "b", "id": {0}, "pid": 1, "tid": 1, "ts": {1}}},)"
      "\n"
      R"({{"name": "x", "cat": "GROUP_API", "ph": "e", "id": {0}, "pid": 1, "tid": 1, "ts": {2}}})",
      number, number, number + 1);
}

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"kineto", R"({"schemaVersion":1,"traceEvents":[)", ",\n", "]}", kernel},
      {"kineto", "[", ",\n", "]", kernel},
      {"kineto", "[", ",\n", "", kernel},
      {"pytorch-et", R"({"schema":"1.0.1","pid":1,"nodes":[)", ",\n", "]}",
       et_node},
      {"chakra", "{\"version\":\"0.0.4\"}\n", "\n", "\n", chakra_node},
      {"nccl-inspector", "", "\n", "\n", inspected},
      {"nccl-profiler", "", "\n", "\n", profiled},
      {"nccl-profiler", "[\n", ",\n", ",\n{}]", example_pair},
  };
  return all;
}

std::string file_of(const Format& format, std::string_view bad) {
  std::string text = format.before;
  for (int i = 1; i <= 8; ++i) {
    if (i > 1) text += format.between;
    text += format.record(i);
    if (i == 4 && !bad.empty()) {
      text += format.between;
      text += bad;
    }
  }
  return text + format.after;
}

// One record more, which no format can keep.
TEST_F(BadInput, ABadRecordCostsNoOther) {
  constexpr std::string_view kBad[] = {
      R"({"ph":"X","cat":"kernel","name":"k","ts":inf,"dur":1,"id":inf})",
      R"({"ph":"X","cat":"kernel","name":"k","ts":NaN,"dur":1,"id":NaN})",
      R"({"ph":"X","cat":"kernel","name":"k","ts":N/A,"dur":1,"id":N/A})",
      R"({"ph":"X","cat":"kernel","name":"k","ts":1e999,"dur":1,"id":-1e999})",
      R"({"ph":"X","cat":"kernel","name":"k","ts":"now","dur":1,"id":[[[1]]]})",
      R"({"ph":"X","cat":"kernel","name":"k","dur":99999999999999999999999})",
      R"({"ph":"X","cat":"kernel","name":null,"ts":null,"dur":null,"id":null})",
      R"({"ph":17,"id":{},"name":{"x":[{}]},"ts":[]})",
      R"({"":"","":"","":{}})",
      "{\"ph\":\"X\",\"name\":\"\x01\x02\x1f\"}",
      "{\"ph\":\"X\",\"name\":\"\xff\xfe\xc0\"}",
  };
  for (const Format& format : formats()) {
    const auto whole = import(file_of(format, {}), true);
    ASSERT_TRUE(whole) << format.kind << ": " << whole.error().message;
    ASSERT_EQ(whole->files.size(), 1u);
    EXPECT_EQ(whole->files[0].kind, format.kind);
    EXPECT_EQ(whole->files[0].events, 8) << words_of(whole->files[0]);
    for (const std::string_view bad : kBad) {
      SCOPED_TRACE(fmt::format("{} {} {}", format.kind, format.before, bad));
      const std::string bytes = file_of(format, bad);
      const auto result = import(bytes);
      ASSERT_TRUE(result) << result.error().message;
      const FileReport& report = result->files[0];
      EXPECT_EQ(report.events, 8) << words_of(report);
      EXPECT_EQ(total(report.dropped) + total(report.ignored) -
                    total(whole->files[0].ignored),
                1)
          << words_of(report);
      EXPECT_EQ(import(bytes, true).has_value(), report.dropped.empty());
    }
  }
}

TEST_F(BadInput, WhatCanBeReadIsRepairedAndCounted) {
  constexpr std::string_view kRepairable[] = {
      R"({"ph":"X","cat":"kernel","name":"a "quoted" one","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7}})",
      "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"tab\there\",\"pid\":0,"
      "\"tid\":7,\"ts\":1,\"dur\":2,\"args\":{\"device\":0,\"stream\":7}}",
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7,"occupancy":inf}})",
      R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7,"occupancy":N/A,}})",
      R"(,{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7}})",
  };
  for (const std::string_view text : kRepairable) {
    SCOPED_TRACE(text);
    const auto result = import(file_of(formats()[0], text), true);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->files[0].kernels, 9);
    // What no column keeps is not even looked at.
    const bool unseen = text.find("occupancy") != std::string_view::npos;
    EXPECT_GE(total(result->files[0].repaired), unseen ? 0 : 1);
  }
}

// A record that does not end must not swallow more than its neighbour.
TEST_F(BadInput, ARecordWithoutAnEndCostsLittle) {
  for (const Format& format : formats()) {
    for (const std::string_view bad :
         {R"({"ph":"X","name":"never closed)", R"({"ph":"X","args":{"x":[1,)",
          R"({"ph":)", "{", "\"", "}", "]", "}}}]]]"}) {
      SCOPED_TRACE(fmt::format("{} {} {}", format.kind, format.before, bad));
      const auto result = import(file_of(format, bad));
      ASSERT_TRUE(result) << result.error().message;
      const FileReport& report = result->files[0];
      EXPECT_GE(report.events, 4) << words_of(report);
      EXPECT_LE(report.events, 9) << words_of(report);
      if (report.events < 8) {
        EXPECT_FALSE(report.dropped.empty()) << words_of(report);
      }
    }
  }
}

// Everything that the fuzz targets start from, cut at every place.
TEST_F(BadInput, EveryPrefixIsReadAsFarAsItGoes) {
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kFuzzCorpus)) {
    const std::string folder = entry.path().parent_path().filename();
    if (!entry.is_regular_file() || folder == "hlo" || folder == "trace")
      continue;
    ++files;
    const std::string bytes = read_file(entry.path()).value();
    const auto whole = import(bytes);
    const int64_t most =
        whole ? std::accumulate(whole->files.begin(), whole->files.end(),
                                int64_t{0},
                                [](int64_t sum, const FileReport& report) {
                                  return sum + report.events;
                                })
              : 0;
    const size_t step = 1 + bytes.size() / 200;
    for (size_t cut = 0; cut < bytes.size(); cut += step) {
      SCOPED_TRACE(fmt::format("{} cut at {}", entry.path().string(), cut));
      auto result = import(bytes.substr(0, cut));
      if (!result) {
        EXPECT_FALSE(result.error().message.empty());
        continue;
      }
      int64_t events = 0;
      bool lost = false;
      for (const FileReport& report : result->files) {
        events += report.events;
        lost |= lost_something(report);
      }
      EXPECT_LE(events, std::max<int64_t>(most, events == 1 ? 1 : 0));
      EXPECT_EQ(import(bytes.substr(0, cut), true).has_value(), !lost);
      const auto trace = gather_spools(result->spools);
      ASSERT_TRUE(trace) << trace.error().message;
      check_trace(*trace);
    }
  }
  EXPECT_GT(files, 20u);
}

// No reader takes what is none of its business for an empty trace.
TEST_F(BadInput, WhatIsNoTraceIsRefusedInWords) {
  const std::pair<std::string_view, std::string_view> kCases[] = {
      {"", "an empty file"},
      {"\n \t\r\n", "blank"},
      {"[]", "array"},
      {"[1, 2, 3]", "array"},
      {"{}", "JSON"},
      {"null", "null"},
      {"inf", "inf"},
      {"\xef\xbb\xbf{}", ""},
      {"\x89PNG\r\n\x1a\n", "PNG"},
      {"PK\x03\x04", ""},
      {"\x1f\x8b\x08", ""},
      {"\xfd"
       "7zXZ",
       ""},
      {"SQLite format 3", ""},
      {R"({"traceEvents": []})", ""},
      {R"({"traceEvents": {}})", ""},
      {R"({"traceEvents": null})", ""},
      {R"({"nodes": []})", ""},
      {R"({"schema": "1.0.1", "nodes": []})", ""},
  };
  for (const auto& [content, words] : kCases) {
    SCOPED_TRACE(std::string(content));
    for (const bool strict : {false, true}) {
      const auto result = import(std::string(content), strict);
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().kind, ErrorKind::kUnsupported);
      EXPECT_NE(result.error().message.find(words), std::string::npos)
          << result.error().message;
      EXPECT_NE(result.error().message.find(path_), std::string::npos)
          << result.error().message;
    }
  }
}

}  // namespace
}  // namespace reprise
