// Formulas in CSV are those of OWASP's list ("CSV Injection").
#include "data/io/printable_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>

#include "data/io/utf8.h"

namespace reprise {
namespace {

uint8_t byte_of(char c) { return static_cast<uint8_t>(c); }

enum class Escapes { kText, kJson };

std::string escaped(std::string_view text, Escapes escapes,
                    std::string_view kept) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const auto* const acts =
        std::find_if_not(text.begin(), text.end(), is_shown_ascii);
    if (acts != text.begin()) {
      printable.append(text.begin(), acts);
      text.remove_prefix(static_cast<size_t>(acts - text.begin()));
      continue;
    }
    const size_t count = utf8_bytes(text);
    if (count == 0) {
      printable += fmt::format("\\x{:02x}", byte_of(text[0]));
    } else if (!is_unprintable(text) ||
               kept.find(text[0]) != std::string_view::npos) {
      printable += text.substr(0, count);
    } else {
      const uint32_t code = code_point(text);
      const bool is_long = escapes == Escapes::kJson || code > 0xff;
      printable += code == '\n'   ? "\\n"
                   : code == '\t' ? "\\t"
                   : is_long      ? fmt::format("\\u{:04x}", code)
                                  : fmt::format("\\x{:02x}", code);
    }
    text.remove_prefix(std::max<size_t>(count, 1));
  }
  return printable;
}

// "-12.5", "+1.2e-3 ms", "-4 %": signs, digits, then at most one word.
bool is_quantity(std::string_view text) {
  size_t at = text[0] == '+' || text[0] == '-' ? 1 : 0;
  const size_t digits = at;
  const auto is_number = [](char c) {
    return std::isdigit(byte_of(c)) != 0 || c == '.';
  };
  while (at < text.size() && is_number(text[at])) ++at;
  if (at == digits) return false;
  if (at + 1 < text.size() && text[at] == 'e') {
    at += text[at + 1] == '-' || text[at + 1] == '+' ? 2 : 1;
    while (at < text.size() && is_number(text[at])) ++at;
  }
  if (at < text.size() && text[at] == ' ') ++at;
  return std::all_of(
      text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), [](char c) {
        return std::isalpha(byte_of(c)) != 0 || c == '%' || c == '/';
      });
}

}  // namespace

std::string printable_text(std::string_view text) {
  return escaped(text, Escapes::kText, "");
}

std::string printable_lines(std::string_view text) {
  return escaped(text, Escapes::kText, "\n");
}

std::string printable_json(std::string_view json) {
  return escaped(json, Escapes::kJson, "\n");
}

std::string csv_field(std::string_view text) {
  std::string field = escaped(text, Escapes::kText, "\n\t");
  // The carriage return of OWASP's list is an escape by now.
  const bool is_formula =
      field.size() > 1 &&
      std::string_view("=+-@\t").find(field[0]) != std::string_view::npos &&
      !is_quantity(field);
  if (is_formula) field.insert(field.begin(), '\'');
  if (field.find_first_of(",\"\n") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace reprise
