#include "cli/flags.h"

#include <CLI/CLI.hpp>
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
