// A JSON object as text, a line for each key and for each row of an array: what
// there are thousands of (a path, collectives) is written as it comes, and
// nlohmann-json would take longer for it than the analysis.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "data/io/json_tree.h"

namespace reprise {

class ObjectText {
 public:
  void add(std::string_view key, const nlohmann::ordered_json& value) {
    add_key(key);
    text_ += json_text(value);
  }
  template <typename Values, typename ToText>
  void add_rows(std::string_view key, const Values& values,
                const ToText& to_text) {
    add_key(key);
    text_ += "[";
    std::string_view before = "\n    ";
    for (const auto& value : values) {
      text_ += before;
      text_ += to_text(value);
      before = ",\n    ";
    }
    text_ += values.empty() ? "]" : "\n  ]";
  }
  std::string finish() && { return std::move(text_) + "\n}\n"; }

 private:
  void add_key(std::string_view key) {
    text_ += fmt::format("{}\n  \"{}\": ", text_.empty() ? "{" : ",", key);
  }
  std::string text_;
};

}  // namespace reprise
