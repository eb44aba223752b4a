#include "replay/analysis/kernel_name.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

namespace reprise {
namespace {

// Within brackets of one kind: "<4, f(x)>" or "(int, char)". Walks back from
// the closing bracket at `close`; npos when it is never opened.
size_t opening_of(std::string_view text, size_t close) {
  int64_t depth = 0;
  for (size_t i = close + 1; i-- > 0;) {
    const char c = text[i];
    const bool arrow = c == '>' && i > 0 && text[i - 1] == '-';
    if ((c == '>' && !arrow) || c == ')') ++depth;
    if (c == '<' || c == '(') {
      if (--depth == 0) return i;
    }
  }
  return std::string_view::npos;
}

std::string_view without_brackets(std::string_view text, char close) {
  while (!text.empty() && text.back() == close) {
    const size_t open = opening_of(text, text.size() - 1);
    // "Memcpy HtoD (Pageable -> Device)" is words, not code.
    if (open == std::string_view::npos || open == 0) break;
    if (text[open - 1] == ' ') break;
    text = text.substr(0, open);
  }
  return text;
}

std::string cut_to_width(std::string text, size_t width) {
  if (width < 8 || text.size() <= width) return text;
  const size_t front = (width - 1) / 2, back = width - 1 - front;
  return text.substr(0, front) + "~" + text.substr(text.size() - back);
}

/// The last of the names that begin a mangled one (Itanium ABI: "_ZN", then
/// each with its length before it); the whole when there is none.
std::string_view innermost_of_mangled(std::string_view mangled) {
  std::string_view rest = mangled.substr(2), name = mangled;
  while (!rest.empty() &&
         std::string_view("NKLVr").find(rest[0]) != std::string_view::npos) {
    rest.remove_prefix(1);
  }
  while (!rest.empty() && rest[0] >= '1' && rest[0] <= '9') {
    size_t length = 0;
    while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      length = length * 10 + static_cast<size_t>(rest[0] - '0');
      if (length > mangled.size()) return name;
      rest.remove_prefix(1);
    }
    if (length > rest.size()) return name;
    name = rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return name;
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)); }

/// Identifiers and numbers; those of a plain name end at underscores too.
std::vector<std::string_view> words_of(std::string_view name) {
  const bool plain = name.find_first_of("<(") == std::string_view::npos;
  const auto is_part = [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || (c == '_' && !plain);
  };
  std::vector<std::string_view> words;
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && is_part(name[end])) ++end;
    if (end > i) words.push_back(name.substr(i, end - i));
    i = end + 1;
  }
  return words;
}

/// Of names[alike], the words that tell `self` from the others: the rarest
/// first, at most two.
std::vector<std::string_view> telling_words(
    const std::vector<std::vector<std::string_view>>& words,
    std::vector<size_t> alike, size_t self) {
  std::vector<std::string_view> telling;
  while (alike.size() > 1 && telling.size() < 2) {
    std::map<std::string_view, size_t> names_with;
    for (const size_t i : alike) {
      for (const std::string_view word :
           std::set<std::string_view>(words[i].begin(), words[i].end())) {
        ++names_with[word];
      }
    }
    std::pair<size_t, bool> best{alike.size(), true};
    std::string_view chosen;
    for (const std::string_view word : words[self]) {
      // Words before numbers and single letters.
      const bool odd = word.size() < 3 || !is_letter(word[0]);
      const std::pair<size_t, bool> rank{names_with[word], odd};
      if (rank.first == alike.size() || rank >= best) continue;
      best = rank;
      chosen = word;
    }
    if (chosen.empty()) break;
    telling.push_back(chosen);
    std::erase_if(alike, [&](size_t i) {
      return std::find(words[i].begin(), words[i].end(), chosen) ==
             words[i].end();
    });
  }
  return telling;
}

}  // namespace

std::string short_kernel_name(std::string_view name, size_t width) {
  std::string_view text = name;
  if (text.starts_with("void ")) text.remove_prefix(5);
  if (text.starts_with("_Z")) text = innermost_of_mangled(text);
  const std::string_view whole = text;
  // "f(int) const", "f(int) [clone .1]": only what ends in a bracket is code.
  text = without_brackets(without_brackets(text, ')'), '>');
  // The last component, where the rest are namespaces or classes; a plain
  // "aten::add" is no code and stays.
  int64_t depth = 0;
  for (size_t i = text.size() == name.size() ? 0 : text.size(); i-- > 1;) {
    if (text[i] == '>' || text[i] == ')') ++depth;
    if (text[i] == '<' || text[i] == '(') --depth;
    if (depth == 0 && text[i] == ':' && text[i - 1] == ':') {
      text = text.substr(i + 1);
      break;
    }
  }
  return cut_to_width(std::string(text.empty() ? whole : text), width);
}

std::vector<std::string> distinct_kernel_names(
    std::span<const std::string_view> names, size_t width) {
  std::vector<std::string> result;
  std::vector<std::vector<std::string_view>> words;
  std::map<std::string, std::vector<size_t>> by_short;
  for (size_t i = 0; i < names.size(); ++i) {
    result.push_back(short_kernel_name(names[i], width));
    words.push_back(words_of(names[i]));
    by_short[result.back()].push_back(i);
  }
  for (const auto& [name, alike] : by_short) {
    if (alike.size() < 2) continue;
    for (const size_t i : alike) {
      std::string telling;
      for (const std::string_view word : telling_words(words, alike, i)) {
        telling += (telling.empty() ? " [" : ", ") + std::string(word);
      }
      if (telling.empty()) continue;
      telling = cut_to_width(std::move(telling), width / 2) + "]";
      const size_t left = width == 0 ? 0 : width - telling.size();
      result[i] = short_kernel_name(names[i], left) + telling;
    }
  }
  return result;
}

}  // namespace reprise
