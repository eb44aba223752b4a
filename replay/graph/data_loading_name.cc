#include "replay/graph/data_loading_name.h"

#include <algorithm>
#include <array>
#include <string>

namespace reprise {

bool names_data_loading(std::string_view name) {
  constexpr size_t kLongestName = 200;
  // Of PyTorch's loaders, of TensorFlow's, and what people call their own.
  constexpr std::array<std::string_view, 8> kWords = {
      "dataloader", "dataloading", "loaddata",  "loadbatch",
      "getbatch",   "fetchbatch",  "nextbatch", "iteratorgetnext"};
  std::string letters;
  for (const char c : name.substr(0, kLongestName)) {
    if (c >= 'A' && c <= 'Z') letters += static_cast<char>(c - 'A' + 'a');
    if (c >= 'a' && c <= 'z') letters += c;
  }
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    return letters.find(word) != letters.npos;
  });
}

}  // namespace reprise
