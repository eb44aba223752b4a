// Ids of the parser's errors: https://json.nlohmann.me/home/exceptions/
#include "data/io/json_tree.h"

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

}  // namespace reprise
