// A list of step times of a stranger is refused or a run of times above zero,
// which compares with itself without a verdict.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "data/trace/step_list.h"
#include "replay/verdict/run_comparison.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  reprise::may_be_step_list(text);
  auto list = reprise::parse_step_list(text, "input");
  if (!list) return 0;
  const auto run = reprise::run_of_list(*std::move(list), "input");
  if (!run || run->step_ns.size() > 1000) return 0;
  const auto told = reprise::compare_runs({*run, *run}, {*run, *run});
  if (told.verdict == reprise::Verdict::kFaster ||
      told.verdict == reprise::Verdict::kSlower) {
    std::abort();
  }
  return 0;
}
