// Calls whose arrays are not those of their routine are refused, and the one
// that does not fit is named.
#include "runtime/cpu/matrix_call.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// What MatrixCall::make says of the one call in a program; "" where it fits.
std::string refusal(const std::string& operands, const std::string& results,
                    const std::string& target, const std::string& config) {
  std::string text = "HloModule m\nENTRY main {\n", names;
  size_t count = 0;
  for (size_t at = 0; at < operands.size(); ++count) {
    const size_t end = std::min(operands.find(' ', at), operands.size());
    text += fmt::format("  p{} = {} parameter({})\n", count,
                        operands.substr(at, end - at), count);
    names += fmt::format("{}p{}", count == 0 ? "" : ", ", count);
    at = end + 1;
  }
  text += fmt::format(
      "  ROOT c = ({}) custom-call({}), custom_call_target=\"{}\", "
      "backend_config={{{}}}\n}}\n",
      results, names, target, config);
  const Result<Module> module = parse_hlo(text, "text");
  if (!module) return module.error().message;
  const Computation& entry = module->entry_computation();
  const Instruction& instruction = entry.at(entry.root);
  const RoutineSpec spec;
  const std::vector<std::span<std::byte>> takes(instruction.operands.size()),
      gives(instruction.shape.is_tuple() ? instruction.shape.elements.size()
                                         : 1);
  const RoutineCall call{.entry = entry,
                         .instruction = instruction,
                         .spec = spec,
                         .operands = takes,
                         .results = gives,
                         .workspace = {},
                         .kernels = {}};
  const Result<MatrixCall> made = MatrixCall::make(call);
  return made ? "" : made.error().message;
}

TEST(MatrixCall, NamesTheArrayThatDoesNotFit) {
  const struct {
    const char *operands, *results, *target, *config, *message;
  } kCases[] = {
      {"f32[2,3,3]", "f32[2,3], f32[2,3], c64[2,3,3], c64[2,3,3], s32[2]",
       "lapack_sgeev_ffi", "", "1 and 5 arrays, not 1 and 7"},
      {"f32[2,3,3]",
       "f32[2,3], f32[2,3], f32[2,3,3], f32[2,3,3], f32[2,3,3], f32[2,3,3], "
       "s32[2]",
       "lapack_sgeev_ffi", "", ""},
      {"f32[2,3,4]",
       "f32[2,3], f32[2,3], f32[2,3,3], f32[2,3,3], f32[2,3,3], f32[2,3,3], "
       "s32[2]",
       "lapack_sgeev_ffi", "", "operand 0 is f32[2,3,4]"},
      {"f32[2,3,3]",
       "f32[2,3], f32[2,3], f32[2,3,3], f32[2,3,3], f32[2,3,3], f32[3,3], "
       "s32[2]",
       "lapack_sgeev_ffi", "", "result 5 is f32[3,3]"},
      {"f32[3,3] f32[3,3]", "f32[3,3], f32[3,3], f32[3], f32[3], s32[], s32[]",
       "lapack_sgees_ffi", "", "2 and 6 arrays, not 1 and 6"},
      {"f64[3,3]", "f64[3,3], f64[3,3], f64[3], f64[3], s32[], s64[]",
       "lapack_dgees_ffi", "", "result 5 is s64[]"},
      {"f32[4,4]", "f32[4,4], f32[3], s32[]", "lapack_sgehrd_ffi",
       "high = 4 : i32, low = 1 : i32", ""},
      {"f32[4,4]", "f32[4,4], f32[4], s32[]", "lapack_sgehrd_ffi",
       "high = 4 : i32, low = 1 : i32", "result 1 is f32[4]"},
      {"f32[4,4]", "f32[4,4], f32[3], s32[]", "lapack_sgehrd_ffi",
       "high = 5 : i32, low = 1 : i32", "the extents of its matrices"},
      {"f32[4,4]", "f32[4,4], f32[3], s32[]", "lapack_sgehrd_ffi", "",
       "the extents of its matrices"},
      {"f32[4]", "f32[4], f32[3], s32[]", "lapack_sgehrd_ffi", "",
       "f32[4] is no matrix"},
      {"f32[4,4]", "f32[4,4], f32[4], f32[3], f32[4], s32[]",
       "lapack_ssytrd_ffi", "", "result 3 is f32[4]"},
      {"f32[4,3] s32[4]", "f32[4,3], s32[4], f32[3]", "lapack_sgeqp3_ffi", "",
       "operand 1 is s32[4]"},
      {"f32[4,3] f32[3]", "f32[4,3], s32[3], f32[3]", "lapack_sgeqp3_ffi", "",
       "operand 1 is f32[3]"},
      {"f32[4,3] f32[3] f32[4,2]", "f32[4,2]", "lapack_sormqr_ffi",
       "left = true, transpose = false", ""},
      {"f32[4,3] f32[3] f32[4,2]", "f32[4,2]", "lapack_sormqr_ffi",
       "left = false, transpose = false", "operand 2 is f32[4,2]"},
      {"f32[4,3] f32[4] f32[4,2]", "f32[4,2]", "lapack_sormqr_ffi",
       "left = true, transpose = false", "the extents of its matrices"},
      {"f32[4,3]", "f32[4,3], f32[3], f32[4,2], f32[3,3], s32[]",
       "lapack_sgesvd_ffi", "mode = 83 : ui8", "the extents of its matrices"},
      {"s32[4,4]", "s32[4,4], s32[3], s32[]", "lapack_sgehrd_ffi", "",
       "matrices of s32"},
      {"f32[65536,65536]", "f32[65536,65536], s32[]", "lapack_spotrf_ffi", "",
       "more than 2^31 elements"},
      // Left vectors of all rows.
      {"f32[50000,3]",
       "f32[50000,3], f32[3], f32[50000,50000], f32[3,3], s32[]",
       "lapack_sgesdd_ffi", "mode = 65 : ui8", "more than 2^31 elements"}};
  for (const auto& one : kCases) {
    const std::string message =
        refusal(one.operands, one.results, one.target, one.config);
    const std::string expected = one.message;
    EXPECT_EQ(message.empty(), expected.empty()) << one.target << message;
    EXPECT_NE(message.find(expected), std::string::npos)
        << one.target << ": " << message;
  }
}

}  // namespace
}  // namespace reprise
