// reprise.import/1: what an import read, dropped, repaired and missed, for
// programs and for people.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/formats/reader.h"

namespace reprise {

/// Returns the report; `seconds` stays out of the copy within a trace, which
/// is the same bytes for the same inputs.
nlohmann::ordered_json import_json(std::span<const FileReport> files,
                                   std::optional<double> seconds);

/// Returns import_json as text, without seconds.
std::string import_text(std::span<const FileReport> files);

/// How `FileReport::refused` begins for a file that no reader knows.
constexpr std::string_view kNoTrace = "no trace: ";

/// Returns a line for each thing that a reader of the trace should know: what
/// is missing, what was refused, dropped, repaired or passed over; equal lines
/// of several files are one, and after `limit` lines the rest is counted.
std::vector<std::string> import_remarks(std::span<const FileReport> files,
                                        size_t limit);

/// Returns those of the remarks that a reader of any figure of the trace should
/// know: what makes it doubtful, and what was dropped of the files that were
/// read.
std::vector<std::string> import_losses(std::span<const FileReport> files);

/// Whether any record or file was lost.
bool lost_something(const FileReport& file);

}  // namespace reprise
