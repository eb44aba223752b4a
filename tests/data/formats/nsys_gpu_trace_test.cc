#include <gtest/gtest.h>

#include <string>

#include "data/file.h"
#include "data/formats/nsys_gpu_trace/nsys_gpu_trace_reader.h"
#include "data/import/import.h"
#include "tests/testing/directories.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

const std::string kSample =
    source_directory() + "/tests/fuzz/corpus/nsys_gpu_trace/h100.csv";

/// The header of versions before 2025, without GreenCtx.
constexpr std::string_view kOldHeader =
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,"
    "StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MBps),SrcMemKd,DstMemKd,"
    "Device,Ctx,Strm,Name\n";

TEST(NsysGpuTrace, DeviceWorkStandsOnItsStreams) {
  const auto text = read_file(kSample);
  ASSERT_TRUE(text.has_value());
  ReadInput input = read_input(nsys_gpu_trace_reader(), *text);
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  EXPECT_EQ(input.report.kernels, 2);
  EXPECT_EQ(input.report.collectives, 1);
  EXPECT_EQ(input.report.dropped.at("time out of range"), 1);
  EXPECT_EQ(input.report.dropped.at("row without numbers"), 1);
  EXPECT_EQ(input.report.dropped.at("row with too few fields"), 1);
  ASSERT_EQ(input.report.missing.size(), 1U);
  const Trace trace = input.gather();
  ASSERT_EQ(trace.ranks.size(), 2U);
  EXPECT_EQ(trace.ranks[1].rank, 1U);
  EXPECT_EQ(trace.ranks[1].device, "NVIDIA H100 80GB HBM3 (1)");
  EXPECT_EQ(trace.ranks[1].clock_domain, "capture");
  ASSERT_EQ(trace.events.size(), 4U);
  const Event& copy = trace.events[0];
  EXPECT_EQ(copy.kind, EventKind::kCopy);
  EXPECT_EQ(copy.start_ns, 1000);
  EXPECT_EQ(copy.end_ns, 1500);
  EXPECT_EQ(copy.bytes, 1'500'000);  // 1.500 MB of 10^6 bytes.
  EXPECT_EQ(copy.correlation, 11);
  EXPECT_EQ(trace.streams[copy.stream].name, "stream 7");
  EXPECT_EQ(trace.events[1].kind, EventKind::kMemset);
  EXPECT_EQ(trace.events[1].bytes, 4000);
  EXPECT_EQ(trace.text(trace.events[2].name),
            "void gemm<float, 128>(float*, int)");
  EXPECT_EQ(trace.events[2].kind, EventKind::kCompute);
  const Event& reduction = trace.events[3];
  EXPECT_EQ(reduction.rank, 1U);
  EXPECT_EQ(reduction.kind, EventKind::kCollective);
  EXPECT_EQ(trace.streams[reduction.stream].device, 1);
  EXPECT_GE(reduction.detail, 0);
}

TEST(NsysGpuTrace, TheNamesOfColumnsDecideNotTheirPlaces) {
  ReadInput input = read_input(
      nsys_gpu_trace_reader(),
      std::string(kOldHeader) +
          "5,2,3,,,,,,,,,,161.821,1,Pageable,Device,H100,1,9,[CUDA memcpy "
          "HtoD]\n");
  ASSERT_TRUE(input.recognized);
  ASSERT_TRUE(input.status.has_value()) << input.status.error().message;
  EXPECT_EQ(input.spool.rank(0).rank, kUnknownRank);
  const Trace trace = input.gather();
  ASSERT_EQ(trace.events.size(), 1U);
  EXPECT_EQ(trace.events[0].bytes, 161'821'000);
  EXPECT_EQ(trace.streams[0].number, 9);
  EXPECT_EQ(trace.streams[0].device, -1);
}

TEST(NsysGpuTrace, OtherTablesAreNotTaken) {
  EXPECT_FALSE(
      read_input(nsys_gpu_trace_reader(), "Start (ns),End (ns),Name,PID,TID\n")
          .recognized);
  EXPECT_FALSE(read_input(nsys_gpu_trace_reader(), "").recognized);
}

TEST(NsysGpuTrace, IsAKindOfImport) {
  const std::vector<std::string> paths = {kSample};
  const auto result = import_files(paths, {});
  ASSERT_TRUE(result.has_value()) << result.error().message;
  ASSERT_EQ(result->files.size(), 1U);
  EXPECT_EQ(result->files[0].kind, "nsys-gpu-trace");
  EXPECT_EQ(result->files[0].events, 4);
}

}  // namespace
}  // namespace reprise
