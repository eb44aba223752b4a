// Ids of the parser's errors: https://json.nlohmann.me/home/exceptions/
#include "data/io/json_tree.h"

#include <algorithm>

#include "data/memory_limit.h"

namespace reprise {
namespace {

/// Of a tree, per byte of text: "[]," becomes a value and a vector.
constexpr uint64_t kTreeBytesPerByte = 32;

/// Without what stands in brackets in front, the class and number of the error.
std::string_view plain(std::string_view what) {
  const size_t end = what.starts_with('[') ? what.find("] ") : 0;
  return end == 0 || end == std::string_view::npos ? what
                                                   : what.substr(end + 2);
}

/// Json: json or ordered_json.
template <typename Json>
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Status check_json_extent(std::string_view json, std::string_view file) {
  const uint64_t most = memory_limit_bytes() / kTreeBytesPerByte;
  if (json.size() > most) {
    return fail(ErrorKind::kIo,
                "{}: {} bytes of JSON may need more memory than there is", file,
                json.size());
  }
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) {
        return fail(ErrorKind::kParse,
                    "{}: nests deeper than {} levels at byte {}", file,
                    kDeepestJson, at);
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return {};
}

std::string json_complaint(const nlohmann::json::exception& error) {
  constexpr int kKind = 302, kNoObject = 304, kNoKey = 403;
  constexpr std::string_view kMust = "type must be ", kBut = ", but is ",
                             kNoAt = "cannot use at() with ", kKey = "key '",
                             kMissing = "' not found";
  const std::string_view what = plain(error.what());
  const size_t but = what.find(kBut);
  if (error.id == kKind && what.starts_with(kMust) &&
      but != std::string_view::npos) {
    return fmt::format("expected {}, found {}",
                       what.substr(kMust.size(), but - kMust.size()),
                       what.substr(but + kBut.size()));
  }
  if (error.id == kNoObject && what.starts_with(kNoAt))
    return fmt::format("expected an object, found {}",
                       what.substr(kNoAt.size()));
  if (error.id == kNoKey && what.starts_with(kKey) &&
      what.ends_with(kMissing)) {
    return fmt::format(
        "'{}' is missing",
        what.substr(kKey.size(), what.size() - kKey.size() - kMissing.size()));
  }
  return std::string(what);
}

template <typename Json>
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

template <typename Json>
Json parse_json_or_discard(std::string_view text) {
  if (!check_json_extent(text, {})) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

template Result<nlohmann::json> parse_json(std::string_view, std::string_view);
template Result<nlohmann::ordered_json> parse_json(std::string_view,
                                                   std::string_view);
template nlohmann::json parse_json_or_discard(std::string_view);
template nlohmann::ordered_json parse_json_or_discard(std::string_view);

std::string json_text(const nlohmann::json& json, int indent) {
  return text_of(json, indent);
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return text_of(json, indent);
}

}  // namespace reprise
