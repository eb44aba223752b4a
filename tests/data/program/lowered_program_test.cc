#include "data/program/lowered_program.h"

#include <gtest/gtest.h>

#include "data/file.h"
#include "tests/testing/directories.h"

namespace reprise {
namespace {

TEST(LoweredProgram, OfATraceIsLoweredForWhatRecordedIt) {
  const std::string program = source_directory() + "/data/programs/loops.1";
  Trace trace;
  trace.program_text = *read_text_file(program + ".hlo");
  trace.manifest_text = *read_text_file(program + ".json");
  trace.ranks.resize(1);
  for (const auto& [device, lowered_for] :
       {std::pair{"cpu", LoweredFor::kProcessor},
        std::pair{"cuda", LoweredFor::kGpu}}) {
    trace.ranks[0].device = device;
    const auto lowered = lowered_program_of(trace, "t", "");
    ASSERT_TRUE(lowered) << lowered.error().message;
    EXPECT_EQ(lowered->module.device, lowered_for);
  }
}

}  // namespace
}  // namespace reprise
