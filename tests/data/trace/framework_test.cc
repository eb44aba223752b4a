#include "data/trace/framework.h"

#include <gtest/gtest.h>

#include <utility>

namespace reprise {
namespace {

Framework of(std::vector<std::string> names, const char* module = nullptr) {
  Trace trace;
  trace.strings = std::move(names);
  if (module != nullptr) trace.modules[module] = "HloModule m";
  return framework_of(trace);
}

TEST(Framework, IsTellableByNames) {
  EXPECT_EQ(of({"step", "aten::mm"}), Framework::kPyTorch);
  EXPECT_EQ(of({"void at::native::reduce_kernel<512>(float*)"}),
            Framework::kPyTorch);
  EXPECT_EQ(of({"gloo:all_reduce"}), Framework::kPyTorch);
  EXPECT_EQ(of({"PjitFunction(step)", "aten::mm"}), Framework::kJax);
  EXPECT_EQ(of({"fusion.1"}, "jit_step(3)"), Framework::kJax);
}

TEST(Framework, OfOthersIsNotGuessed) {
  EXPECT_EQ(of({}), Framework::kUnknown);
  EXPECT_EQ(of({"EagerExecute: MatMul", "Iterator::Batch"}),
            Framework::kUnknown);
  EXPECT_EQ(of({"FW.conv0", "Comm.3.Sync"}), Framework::kUnknown);
  // XLA, called by neither of them in its own way.
  EXPECT_EQ(of({"aten::mm"}, "SyncTensorsGraph.3"), Framework::kUnknown);
}

}  // namespace
}  // namespace reprise
