// JSON texts of strangers as a tree: bounded in depth and memory before they
// are parsed, and what is wrong with them in words of ours.
#pragma once

#include <algorithm>
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

/// Errors: as check_json_extent; kParse, naming file and line.
template <typename Json = nlohmann::json>
Result<Json> parse_json(std::string_view text, std::string_view file) {
  if (Status fits = check_json_extent(text, file); !fits)
    return pass(fits.error());
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const std::string_view before =
        text.substr(0, error.byte > 0 ? error.byte - 1 : 0);
    return fail(ErrorKind::kParse, "{}:{}: not JSON at byte {}", file,
                1 + std::count(before.begin(), before.end(), '\n'), error.byte);
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::kParse, "{}: {}", file, json_complaint(error));
  }
}

/// The same where what cannot be read is only passed over: discarded then.
template <typename Json = nlohmann::json>
Json parse_json_or_discard(std::string_view text) {
  if (!check_json_extent(text, {})) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace reprise
