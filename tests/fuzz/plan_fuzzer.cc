// Any bytes as a plan of a small program: refused with a reason, or printed as
// what is read again, and where it is legal lowered to a schedule inside its
// arena. The fingerprint is put right, which no mutation would find.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "data/plan/plan.h"
#include "data/schedule/schedule.h"
#include "tests/testing/parse_inlined.h"

namespace {

using namespace reprise;

/// A step of two layers with two gradients: dots, an epilogue, a row of
/// elementwise ops, collectives of one type and a third of another.
constexpr std::string_view kProgram = R"(
HloModule step
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY main {
  w = f32[4,6] parameter(0)
  v = f32[6] parameter(1)
  x = f32[8,4] parameter(2)
  y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  zeros = f32[8,6] broadcast(zero), dimensions={}
  h = f32[8,6] maximum(y, zeros)
  e = f32[8,6] exponential(h)
  p = f32[8,6] multiply(e, h)
  g = f32[4,6] dot(x, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  c = f32[6] reduce(p, zero), dimensions={0}, to_apply=sum
  n = s32[4,6] convert(g)
  ar = f32[4,6] all-reduce(g), replica_groups={{0,1}}, to_apply=sum
  br = f32[6] all-reduce(c), replica_groups={{0,1}}, to_apply=sum
  both = (f32[4,6], f32[6]) all-reduce(g, c), replica_groups={{0,1}}, to_apply=sum
  bg = f32[4,6] get-tuple-element(both), index=0
  bc = f32[6] get-tuple-element(both), index=1
  r = f32[4,6] add(ar, bg)
  s = f32[6] add(br, bc)
  nw = f32[4,6] subtract(w, r)
  nv = f32[6] subtract(v, s)
  ROOT out = (f32[4,6], f32[6], s32[4,6]) tuple(nw, nv, n)
}
)";

const InlinedModule& program() {
  static const InlinedModule module = parse_inlined(kProgram).value();
  return module;
}

void lower(Plan plan) {
  plan.program_fingerprint = fingerprint(program());
  plan.ranks = 2;
  const Status valid = validate_plan(plan, program());
  if (!valid) {
    REPRISE_CHECK(!valid.error().message.empty());
    return;
  }
  const auto schedule = lower_schedule(program(), plan);
  if (!schedule) {
    REPRISE_CHECK(!schedule.error().message.empty());
    return;
  }
  for (const Buffer& buffer : schedule->buffers) {
    REPRISE_CHECK(buffer.arena_offset >= 0 && buffer.size_bytes >= 0);
    REPRISE_CHECK(buffer.arena_offset <=
                  schedule->arena_bytes - buffer.size_bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Plan> plan = parse_plan(text, "fuzzed");
  if (!plan) {
    REPRISE_CHECK(!plan.error().message.empty());
    return 0;
  }
  const std::string printed = print_plan(*plan);
  const Result<Plan> again = parse_plan(printed, "printed");
  REPRISE_CHECK(again && print_plan(*again) == printed);
  lower(*plan);
  return 0;
}
