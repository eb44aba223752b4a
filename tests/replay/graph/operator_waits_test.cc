#include "replay/graph/operator_waits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "tests/replay/graph/trace_text.h"

namespace reprise {
namespace {

// Each wait as "RANGE within OPERATOR FROM-TO for COLLECTIVE", microseconds. In
// names "~" stands for a blank.
std::string waits_of(std::string_view text) {
  Trace trace = parse_trace_text(text);
  for (std::string& name : trace.strings) {
    std::replace(name.begin(), name.end(), '~', ' ');
  }
  const auto name = [&](uint32_t event) {
    return event == OperatorWait::kNoCollective
               ? std::string("work")
               : trace.text(trace.events[event].name);
  };
  std::string waits;
  for (const OperatorWait& wait :
       operator_waits(trace, 0, trace.events.size())) {
    waits += fmt::format("{} within {} {}-{} for {};", name(wait.event),
                         name(wait.within), wait.start_ns / 1000,
                         wait.end_ns / 1000, name(wait.collective));
  }
  return waits;
}

TEST(OperatorWaits, OfTensorParallelismLastAsLongAsTheirOperator) {
  // The thread wakes 20 us after the worker was done.
  EXPECT_EQ(waits_of(R"(
    h0 host-op _c10d_functional::all_reduce 0-90
    h0 host-op _c10d_functional::wait_tensor 100-400
    h0 host-op aten::mm 400-500
    h0a collective all-reduce 60-380)"),
            "_c10d_functional::wait_tensor within "
            "_c10d_functional::wait_tensor 100-400 for all-reduce;");
}

TEST(OperatorWaits, LieInHooksThatAutogradRuns) {
  // Within the engine's range before the backward of a layer, and within an
  // annotation in it: each up to the end of a collective. The layer itself, an
  // operator of ATen, works although a collective ends in it.
  EXPECT_EQ(waits_of(R"(
    h0 host-op autograd::engine::evaluate_function:Linear 0-1000
    h0 host-op LinearBackward 300-600
    h0 host-op aten::mm 310-590
    h0 annotation FSDP::post_backward 620-900
    h0a collective all-gather 10-280
    h0a collective reduce-scatter 285-500
    h0b collective all-reduce 630-850)"),
            "autograd::engine::evaluate_function:Linear within "
            "autograd::engine::evaluate_function:Linear 0-280 for all-gather;"
            "FSDP::post_backward within "
            "autograd::engine::evaluate_function:Linear 620-850 for "
            "all-reduce;");
}

TEST(OperatorWaits, FollowTheCallOfACollective) {
  // The caller awaits what it called; before the call and after its next
  // operator it works.
  EXPECT_EQ(waits_of(R"(
    h0 host-op PostBackward 0-1000
    h0 host-op c10d::_reduce_scatter_base_ 200-260
    h0 host-op aten::copy_ 500-600
    h0a collective all-gather 10-190
    h0a collective reduce-scatter 240-490
    h0a collective all-reduce 610-900)"),
            "PostBackward within PostBackward 260-490 for reduce-scatter;");
}

TEST(OperatorWaits, AreForMessagesOfTheirOwnThread) {
  // A receive within an operator awaits its data; posted and awaited later, it
  // leaves the operator its time.
  EXPECT_EQ(waits_of(R"(
    h0 host-op Receive 0-500
    h0 host-op c10d::recv_ 10-30
    h0 collective receive 20-400
    h0 host-op Post 600-800
    h0 host-op c10d::recv_ 610-630
    h0 collective receive 620-900)"),
            "Receive within Receive 30-400 for receive;");
}

TEST(OperatorWaits, NeedACollectiveInFlightForHalfOfThem) {
  constexpr const char* kText = R"(
    h0 host-op autograd::engine::evaluate_function:Linear 0-500
    h0a collective all-reduce {}-400)";
  EXPECT_EQ(waits_of(fmt::format(fmt::runtime(kText), 201)), "");
  EXPECT_NE(waits_of(fmt::format(fmt::runtime(kText), 200)), "");
}

TEST(OperatorWaits, EndWithTheirCollective) {
  // A hook that goes on for more than 1 ms and a tenth of its time worked
  // beside the all-reduce.
  constexpr const char* kText = R"(
    h0 host-op autograd::engine::evaluate_function:Hook 0-{}
    h0a collective all-reduce 0-{})";
  const auto waits = [&](int hook_us, int all_reduce_us) {
    return waits_of(fmt::format(fmt::runtime(kText), hook_us, all_reduce_us));
  };
  EXPECT_EQ(waits(50'000, 44'999), "");
  EXPECT_NE(waits(50'000, 45'000), "");
  EXPECT_EQ(waits(5'000, 3'999), "");
  EXPECT_NE(waits(5'000, 4'000), "");
}

TEST(OperatorWaits, AreNotOfShortStretches) {
  EXPECT_EQ(waits_of(R"(
    h0 host-op _c10d_functional::wait_tensor 100-149
    h0a collective all-reduce 60-140)"),
            "");
}

TEST(OperatorWaits, OfXlaAreForAnyWork) {
  EXPECT_EQ(waits_of(R"(
    h0 host-op ThunkExecutor::Execute~(wait~for~completion) 0-100
    h0 host-op Wait~for~usage~holds 110-170
    h0 host-op SlinkyThreadPool::Await 200-300
    h0a host-op fusion 0-90
    h0a collective all-reduce 90-95)"),
            "ThunkExecutor::Execute (wait for completion) within "
            "ThunkExecutor::Execute (wait for completion) 0-100 for work;"
            "Wait for usage holds within Wait for usage holds 110-170 for "
            "work;");
}

// The function's own operators run on other threads, or within the call.
TEST(OperatorWaits, OfTensorFlowsCallsAreForTheirFunctions) {
  EXPECT_EQ(waits_of(R"(
    h0 host-op KernelAndDeviceFunc::Run 0-200
    h0 host-op Cast 20-60
    h0a host-op MatMul 60-195)"),
            "KernelAndDeviceFunc::Run within KernelAndDeviceFunc::Run 60-200 "
            "for work;");
}

TEST(OperatorWaits, AreNoneOfTheDevicesHost) {
  EXPECT_EQ(waits_of(R"(
    h0 host-op _c10d_functional::wait_tensor 100-400
    d0 collective all-reduce 60-380)"),
            "");
}

}  // namespace
}  // namespace reprise
