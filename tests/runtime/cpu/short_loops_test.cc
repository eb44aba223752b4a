// Short loops over integers, which run as one step (data/hlo/unroll_loops.h):
// what they compute is by hand, step by step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "tests/runtime/cpu/text_program.h"

namespace reprise {
namespace {

using Four = std::array<uint32_t, 4>;

uint32_t rotated(uint32_t x, uint32_t by) {
  return (x << by) | (x >> (32 - by));
}

/// `steps` of ThreeFry-like rounds on a and b: a += b, b = (b rotated by r[0])
/// xor a, a += b, b = (b rotated by r[1]) xor a, then a += key + i. Two pairs
/// of rotations change places after each step.
std::string rounds_text(int steps) {
  const std::string state = "(s32[], u32[4], u32[4], u32[], u32[2], u32[2])";
  std::string body = "body {\n s = " + state +
                     " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
                     " a0 = u32[4] get-tuple-element(s), index=1\n"
                     " b0 = u32[4] get-tuple-element(s), index=2\n"
                     " k = u32[] get-tuple-element(s), index=3\n"
                     " r = u32[2] get-tuple-element(s), index=4\n"
                     " q = u32[2] get-tuple-element(s), index=5\n"
                     " one = s32[] constant(1)\n n = s32[] add(i, one)\n"
                     " bits = u32[] constant(32)\n";
  for (int round = 0; round < 2; ++round) {
    body += fmt::format(
        " r{0} = u32[1] slice(r), slice={{[{0}:{1}]}}\n"
        " t{0} = u32[] reshape(r{0})\n u{0} = u32[] subtract(bits, t{0})\n"
        " tt{0} = u32[4] broadcast(t{0}), dimensions={{}}\n"
        " uu{0} = u32[4] broadcast(u{0}), dimensions={{}}\n"
        " a{1} = u32[4] add(a{0}, b{0})\n l{0} = u32[4] shift-left(b{0}, "
        "tt{0})\n"
        " h{0} = u32[4] shift-right-logical(b{0}, uu{0})\n"
        " o{0} = u32[4] or(l{0}, h{0})\n b{1} = u32[4] xor(o{0}, a{1})\n",
        round, round + 1);
  }
  body +=
      " c = u32[] convert(i)\n kc = u32[] add(k, c)\n"
      " kk = u32[4] broadcast(kc), dimensions={}\n"
      " z = u32[4] add(a2, kk)\n ROOT t = " +
      state + " tuple(n, z, b2, k, q, r)\n}\n";
  return "HloModule m\n" + body + "condition {\n s = " + state +
         " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
         " n = s32[] constant(" +
         std::to_string(steps) +
         ")\n ROOT p = pred[] compare(i, n), direction=LT\n}\n"
         "ENTRY e {\n a = u32[4] parameter(0)\n k = u32[] parameter(1)\n"
         " zero = s32[] constant(0)\n b = u32[4] constant({1, 7, 4294967295, "
         "305419896})\n"
         " r = u32[2] constant({13, 6})\n q = u32[2] constant({17, 24})\n"
         " f = " +
         state + " tuple(zero, a, b, k, r, q)\n w = " + state +
         " while(f), condition=condition, body=body\n"
         " x = u32[4] get-tuple-element(w), index=1\n"
         " y = u32[4] get-tuple-element(w), index=2\n"
         " n = s32[] get-tuple-element(w), index=0\n"
         " ROOT t = (u32[4], u32[4], s32[]) tuple(x, y, n)\n}\n";
}

std::pair<Four, Four> rounds_by_hand(Four a, uint32_t key, int steps) {
  Four b{1, 7, 4294967295, 305419896};
  std::array<uint32_t, 2> now{13, 6}, next{17, 24};
  for (int step = 0; step < steps; ++step) {
    for (const uint32_t turn : now) {
      for (size_t i = 0; i < 4; ++i) {
        a[i] += b[i];
        b[i] = rotated(b[i], turn) ^ a[i];
      }
    }
    for (uint32_t& each : a) each += key + static_cast<uint32_t>(step);
    std::swap(now, next);
  }
  return {a, b};
}

}  // namespace

TEST(ShortLoops, TakeTheirStepsInOrder) {
  for (const int steps : {1, 2, 3, 5, 8, 9, 20}) {
    for (const bool interpret : {true, false}) {
      TextProgram program(rounds_text(steps), 1, interpret);
      for (const uint32_t key : {0U, 7U, 4000000000U}) {
        const Four a{key, 3, 4294967290U, 1U << 31};
        std::memcpy(program.executor().parameter(0).data(), a.data(), sizeof a);
        std::memcpy(program.executor().parameter(1).data(), &key, sizeof key);
        ASSERT_TRUE(program.executor().run_step(0));
        std::pair<Four, Four> found;
        int32_t counted = 0;
        std::memcpy(found.first.data(), program.executor().output(0).data(),
                    16);
        std::memcpy(found.second.data(), program.executor().output(1).data(),
                    16);
        std::memcpy(&counted, program.executor().output(2).data(), 4);
        EXPECT_EQ(found, rounds_by_hand(a, key, steps)) << steps << " steps";
        EXPECT_EQ(counted, steps);
      }
    }
  }
}

}  // namespace reprise
