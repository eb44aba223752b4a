#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "data/formats/hlo_proto/hlo_proto_reader.h"
#include "data/formats/nsys_jax/nsys_jax_reader.h"
#include "data/hlo/hlo.h"
#include "data/import/import.h"
#include "data/io/csv.h"
#include "tests/testing/directories.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

const std::string kZip =
    shared_directory() +
    "/traces/nsys_jax/maxtext_fsdp4_h100/maxtext_fsdp4_test_data.zip";

constexpr std::string_view kHeader =
    "Start (ns),End (ns),Duration (ns),Name,PID,TID\n";

std::vector<std::vector<std::string>> rows_of(std::string text) {
  const auto source = memory_source(std::move(text));
  CsvRows rows(*source);
  std::vector<std::vector<std::string>> all;
  while (*rows.next()) all.push_back(rows.fields());
  return all;
}

TEST(CsvRows, ReadsQuotesCommasAndLinesWithin) {
  using Rows = std::vector<std::vector<std::string>>;
  EXPECT_EQ(rows_of("a,b\r\n\"x,\"\"y\"\"\nz\",\n"),
            (Rows{{"a", "b"}, {"x,\"y\"\nz", ""}}));
  EXPECT_EQ(rows_of("last,row"), (Rows{{"last", "row"}}));
  EXPECT_EQ(rows_of(""), Rows{});
}

TEST(CsvRows, PassesOverEndlessRows) {
  const auto source =
      memory_source("a\n" + std::string(3 << 20, ',') + "\nb\n");
  CsvRows rows(*source);
  ASSERT_TRUE(*rows.next());
  ASSERT_TRUE(*rows.next());
  EXPECT_EQ(rows.fields(), std::vector<std::string>{"b"});
  EXPECT_FALSE(*rows.next());
  EXPECT_EQ(rows.rows_too_long(), 1);
}

TEST(NsysJax, RangesStandOnTheirThreads) {
  ReadInput input =
      read_input(nsys_jax_reader(),
                 std::string(kHeader) +
                     "100,900,800,TSL:XlaModule:#module=jit_f#,7,7\n"
                     "200,500,300,\"TSL:Thunk:#name=,hlo_op=add#\",7,8\n"
                     "300,400,100,NCCL:ncclAllGather,7,8\n"
                     "300,200,-100,backwards,7,8\n"
                     "x,400,100,no number,7,8\n"
                     "300,400\n");
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  const Trace trace = input.gather();
  ASSERT_EQ(trace.events.size(), 3U);
  EXPECT_EQ(trace.text(trace.events[1].name), "TSL:Thunk:#name=,hlo_op=add#");
  EXPECT_EQ(trace.events[1].kind, EventKind::kAnnotation);
  EXPECT_EQ(trace.streams[trace.events[1].stream].number, 8);
  EXPECT_EQ(trace.events[2].kind, EventKind::kHostOp);
  EXPECT_EQ(
      trace.collectives.at(static_cast<size_t>(trace.events[2].detail)).kind,
      CollectiveKind::kAllGather);
  EXPECT_EQ(trace.ranks[0].process, 7);
  EXPECT_EQ(input.report.dropped.at("time out of range"), 1);
  EXPECT_EQ(input.report.dropped.at("row without numbers"), 1);
  EXPECT_EQ(input.report.dropped.at("row with too few fields"), 1);
  ASSERT_EQ(input.report.missing.size(), 1U);
  EXPECT_NE(input.report.missing[0].find("parquet"), std::string::npos);
}

TEST(NsysJax, KnowsItsTableByTheFirstRow) {
  EXPECT_FALSE(
      read_input(nsys_jax_reader(), "Start (ns),End (ns)\n1,2\n").recognized);
  EXPECT_FALSE(read_input(nsys_jax_reader(), "size,count\n").recognized);
  EXPECT_FALSE(read_input(nsys_jax_reader(), "").recognized);
}

TEST(HloProtoReader, AddsAModuleNamedAfterTheFile) {
  const auto bytes = read_file(source_directory() +
                               "/tests/fuzz/corpus/hlo_proto/step.hlo.pb");
  ReadInput input = read_input(hlo_proto_reader(), *bytes,
                               "a.zip:dump/module_1.jit_step.hlo.pb.xz");
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status.has_value());
  EXPECT_EQ(input.report.dialect, "jit_step");
  const Trace trace = input.gather();
  ASSERT_TRUE(trace.modules.contains("module_1.jit_step"));
  EXPECT_TRUE(parse_hlo(trace.modules.at("module_1.jit_step")).has_value());
  ReadInput cut = read_input(hlo_proto_reader(),
                             bytes->substr(0, bytes->size() / 2), "cut.pb");
  EXPECT_TRUE(cut.report.refused.starts_with("damaged HLO proto"));
}

/// 26 programs of 13 modules before and after optimizations; 31,550 ranges of
/// one process on five threads, as Python's csv module counts them.
TEST(NsysJax, ARecordedArchiveGivesProgramsAndRanges) {
  if (!std::filesystem::exists(kZip)) {
    GTEST_SKIP() << "no recorded traces beside the checkout";
  }
  const std::vector<std::string> paths = {kZip};
  auto result = import_files(paths, {});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const std::string path = ::testing::TempDir() + "/nsys_jax_test." +
                           std::to_string(::getpid()) + ".trace";
  ASSERT_TRUE(write_import(*result, path).has_value());
  const auto trace = read_trace(path);
  std::remove(path.c_str());
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  EXPECT_EQ(trace->modules.size(), 26U);
  EXPECT_TRUE(trace->modules.contains(
      "module_0016.jit_train_step.sm_9.0_gpu_after_optimizations"));
  EXPECT_EQ(trace->events.size(), 31550U);
  EXPECT_EQ(trace->streams.size(), 5U);
  ASSERT_EQ(trace->ranks.size(), 1U);
  EXPECT_EQ(trace->ranks[0].process, 7883);
  // NCCL:ncclAllGather occurs 2,280 times.
  EXPECT_EQ(std::count_if(trace->events.begin(), trace->events.end(),
                          [&](const Event& event) {
                            return trace->text(event.name) ==
                                   "NCCL:ncclAllGather";
                          }),
            2280);
  const bool parquet_told = std::any_of(
      result->files.begin(), result->files.end(), [](const FileReport& file) {
        return file.path.ends_with("trace.parquet") && !file.refused.empty();
      });
  EXPECT_TRUE(parquet_told);
}

}  // namespace
}  // namespace reprise
