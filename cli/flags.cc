#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>

#include "cli/output.h"

namespace reprise {

Flag Flag::required() { return Flag(option_->required()); }
Flag Flag::type_name(const std::string& name) {
  return Flag(option_->type_name(name));
}
Flag Flag::one_of(const std::vector<std::string>& words) {
  return Flag(option_->check(CLI::IsMember(words)));
}
Flag Flag::range(int64_t least, int64_t most) {
  return Flag(option_->check(CLI::Range(least, most)));
}
Flag Flag::positive() {
  // CLI11 writes the range from the least double up, as "0.000000".
  const auto refuse = [](const std::string& text) {
    return CLI::PositiveNumber(text).empty()
               ? std::string()
               : fmt::format("{} is no number above 0", text);
  };
  return Flag(option_->check(CLI::Validator(refuse, "POSITIVE")));
}
Flag Flag::byte_size() {
  const auto in_bytes = [](std::string& text) -> std::string {
    static const std::map<std::string, double> units = {
        {"", 1},         {"b", 1},       {"kb", 1e3},     {"mb", 1e6},
        {"gb", 1e9},     {"tb", 1e12},   {"kib", 0x1p10}, {"mib", 0x1p20},
        {"gib", 0x1p30}, {"tib", 0x1p40}};
    const size_t letters =
        std::min(text.find_first_not_of("0123456789."), text.size());
    const auto unit = units.find(
        CLI::detail::to_lower(CLI::detail::trim_copy(text.substr(letters))));
    double number = 0;
    if (unit == units.end() ||
        !CLI::detail::lexical_cast(text.substr(0, letters), number) ||
        number * unit->second < 1 || number * unit->second > 0x1p62)
      return fmt::format("{} is no size above 0, as 500MB or 1.5GiB", text);
    text = fmt::format("{:.0f}", number * unit->second);
    return {};
  };
  return Flag(option_->transform(CLI::Validator(in_bytes, "")))
      .type_name("SIZE");
}
Flag Flag::not_negative() {
  return Flag(option_->check(CLI::NonNegativeNumber));
}
Flag Flag::one_value_each() { return Flag(option_->allow_extra_args(false)); }
Flag Flag::repeatable() { return Flag(option_->expected(1)->take_all()); }
Flag Flag::delimiter(char between) { return Flag(option_->delimiter(between)); }
Flag Flag::needs(Flag other) { return Flag(option_->needs(other.option_)); }
Flag Flag::excludes(Flag other) {
  return Flag(option_->excludes(other.option_));
}

template <typename T>
Flag Flags::add_option(const std::string& name, T& value,
                       const std::string& help) {
  return Flag(app_.add_option(name, value, help));
}

// Of each type that a verb's flags have.
using Text = const std::string&;
template Flag Flags::add_option(Text, std::string&, Text);
template Flag Flags::add_option(Text, std::vector<std::string>&, Text);
template Flag Flags::add_option(Text, int&, Text);
template Flag Flags::add_option(Text, int64_t&, Text);
template Flag Flags::add_option(Text, uint64_t&, Text);
template Flag Flags::add_option(Text, double&, Text);
template Flag Flags::add_option(Text, std::optional<int32_t>&, Text);

void Flags::add_flag(const std::string& name, bool& value,
                     const std::string& help) {
  app_.add_flag(name, value, help);
}

void Flags::add_format(Format& format) {
  static const std::map<std::string, Format> formats = {
      {"table", Format::kTable},
      {"json", Format::kJson},
      {"csv", Format::kCsv}};
  app_.add_option("--format", format, "table, json or csv (default table)")
      ->transform(
          CLI::CheckedTransformer(formats, CLI::ignore_case).description(""))
      ->type_name("FORMAT");
}

void Flags::leave_to_footer(const std::vector<std::string>& names) {
  for (const std::string& name : names) app_.get_option(name)->group("");
}

void Flags::footer(const std::string& text) { app_.footer(text); }

}  // namespace reprise
