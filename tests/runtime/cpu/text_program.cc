#include "tests/runtime/cpu/text_program.h"

#include <gtest/gtest.h>

#include "data/hlo/hlo.h"
#include "tests/testing/directories.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

/// The test ends with the error's message where there is no value.
template <typename T>
T taken(Result<T> result, const std::string& hlo) {
  EXPECT_TRUE(result) << result.error().message << "\n" << hlo;
  return std::move(result).value();
}

}  // namespace

TextProgram::TextProgram(const std::string& hlo, size_t threads, bool interpret)
    : module_(taken(parse_inlined(hlo, "text"), hlo)),
      schedule_(
          taken(lower_schedule(module_, identity_plan(module_, 1)), hlo)) {
  const auto alone = make_single_process_group();
  kernels_ = taken(
      load_kernels(schedule_,
                   {.interpret = interpret,
                    .cache_directory = build_directory() + "/kernel_cache"},
                   *alone),
      hlo);
  communicator_ = make_solo_communicator();
  executor_ = taken(
      Executor::create(module_, schedule_, kernels_.code, *communicator_,
                       nullptr, {.threads = threads, .worth_sharing_ns = 0}),
      hlo);
}

TextProgram::~TextProgram() = default;

}  // namespace reprise
