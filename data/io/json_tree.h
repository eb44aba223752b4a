// JSON texts of strangers as a tree: bounded in depth and memory before they
// are parsed, and what is wrong with them in words of ours. Trees as text.
// Parser and printer are compiled here, once, not wherever they are called.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "data/result.h"

namespace reprise {

/// Deeper than any file of ours nests; the parser and what walks its tree need
/// memory a level.
constexpr int kDeepestJson = 64;

/// Errors: kParse when `json` nests deeper than kDeepestJson outside its
/// strings; kIo when its tree might not fit into memory. Cost: linear.
Status check_json_extent(std::string_view json, std::string_view file);

/// What nlohmann-json objects to, for people: "expected array, found string".
std::string json_complaint(const nlohmann::json::exception& error);

/// Of nlohmann::json, and of ordered_json, which keeps the order of keys.
/// Errors: as check_json_extent; kParse, naming file and line.
template <typename Json = nlohmann::json>
Result<Json> parse_json(std::string_view text, std::string_view file);

/// The same where what cannot be read is only passed over: discarded then.
template <typename Json = nlohmann::json>
Json parse_json_or_discard(std::string_view text);

/// On one line, or with so many spaces a level; bytes that are no UTF-8 are
/// replaced.
std::string json_text(const nlohmann::json& json, int indent = -1);
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace reprise
