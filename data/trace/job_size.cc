#include "data/trace/job_size.h"

#include <algorithm>

#include "data/io/decimal.h"

namespace reprise {

size_t job_size(const Trace& trace) {
  const auto told = trace.environment.find("world_size");
  if (told == trace.environment.end())
    return trace.program_text.empty() ? 0 : trace.ranks.size();
  const int64_t ranks = parse_integer(told->second).value_or(0);
  return static_cast<size_t>(std::max<int64_t>(0, ranks));
}

bool keeps_to_rings(const Trace& trace) {
  const auto told = trace.environment.find("NCCL_ALGO");
  return told != trace.environment.end() && told->second == "Ring";
}

}  // namespace reprise
