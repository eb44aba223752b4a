// Every real dump beside the checkout: lowered with its peak of memory, or the
// one reason why not. The table is printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "data/hlo/hlo.h"
#include "data/hlo/proto/hlo_proto.h"
#include "data/manifest/infer.h"
#include "data/plan/plan.h"
#include "data/schedule/schedule.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;

const fs::path kDumps = fs::path(source_directory()) / ".." / "shared" / "hlo";

std::string row_of(const std::string& path) {
  const Result<Module> module = read_hlo_file(path);
  if (!module) return "not read: " + module.error().message;
  const Result<InlinedModule> inlined = inline_calls(*module);
  if (!inlined) return "refused: " + inlined.error().message;
  const int64_t ranks = ranks_of(*inlined);
  const Result<Schedule> schedule =
      lower_schedule(*inlined, identity_plan(*inlined, ranks));
  if (!schedule) return "refused: " + schedule.error().message;
  double flops = 0, bytes = 0;
  for (const Unit& unit : schedule->units) {
    flops += unit.flops;
    bytes += unit.bytes;
  }
  EXPECT_GE(schedule->arena_bytes, schedule->peak_temporary_bytes);
  EXPECT_GT(bytes, 0);
  return fmt::format(
      "{} ranks, {} units, {:.4g} flops, {:.4g} bytes moved, "
      "peak {} bytes",
      ranks, schedule->units.size(), flops, bytes, schedule->arena_bytes);
}

TEST(DumpTable, LowersEveryDumpOrSaysWhyNot) {
  if (!fs::exists(kDumps)) GTEST_SKIP() << "no dumps at " << kDumps;
  std::vector<fs::path> files;
  for (const auto& item : fs::directory_iterator(kDumps)) {
    if (item.path().extension() == ".hlo") files.push_back(item.path());
  }
  std::sort(files.begin(), files.end());
  int lowered = 0;
  for (const fs::path& path : files) {
    const std::string row = row_of(path.string());
    fmt::print("{}: {}\n", path.filename().string(), row);
    EXPECT_FALSE(row.starts_with("not read")) << path << row;
    lowered += row.starts_with("refused: ") ? 0 : 1;
  }
  // Those that lowered when this was written; more must not become fewer.
  EXPECT_GE(lowered, 7);
  EXPECT_GT(files.size(), 40U);
}

}  // namespace
}  // namespace reprise
