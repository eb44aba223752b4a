// Programs of tests, as schedules take them.
#pragma once

#include <string_view>

#include "data/hlo/hlo.h"

namespace reprise {

/// Parses HLO text and inlines its calls. Errors: those of either.
inline Result<InlinedModule> parse_inlined(std::string_view text,
                                           std::string_view file = "<hlo>") {
  const Result<Module> parsed = parse_hlo(text, file);
  if (!parsed) return pass(parsed.error());
  return inline_calls(*parsed);
}

}  // namespace reprise
