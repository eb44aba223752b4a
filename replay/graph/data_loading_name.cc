#include "replay/graph/data_loading_name.h"

#include <algorithm>
#include <string>

namespace reprise {

bool names_data_loading(std::string_view name) {
  constexpr size_t kLongestName = 200;
  std::string lower(name.substr(0, kLongestName));
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const auto has = [&lower](const char* word) {
    return lower.find(word) != std::string::npos;
  };
  return has("dataloader") || has("data_loader") || has("data loading");
}

}  // namespace reprise
