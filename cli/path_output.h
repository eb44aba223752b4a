// A critical path as every verb prints it: in words, in JSON, and as arrows of
// a timeline; and the clocks that it stands on.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cli/output.h"
#include "data/draw/chrome_export.h"
#include "replay/clocks/clock_alignment.h"
#include "replay/simulate/critical_path.h"

namespace reprise {

/// What the path is made of, and the `top` names that it spends most on; "" of
/// no path.
std::string path_text(const NodeFacts& facts, const CriticalPath& path,
                      size_t top);

/// Time by kind; those that only a priced step has where they take any.
/// "kernel" + `suffix`: 1, …
nlohmann::ordered_json path_kinds_json(const CriticalPath& path,
                                       const std::string& suffix = "");

/// A stretch of the path as an object on one line, what it is called under
/// `name_key`.
std::string path_entry_json(const NodeFacts& facts, const PathEntry& entry,
                            std::string_view name_key);

nlohmann::ordered_json clock_json(const ClockAlignment& clock);

/// Arrows along the path, from slice to slice; kNoSlice: nothing to show.
void add_path_arrows(const std::vector<PathEntry>& path,
                     const std::function<uint32_t(const PathEntry&)>& slice_of,
                     ChromeTimeline& timeline);

}  // namespace reprise
