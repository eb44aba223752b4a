#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <map>

#include "cli/output.h"

namespace reprise {

Flag& Flag::required() {
  option_->required();
  return *this;
}

Flag& Flag::type_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Flag& Flag::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}

Flag& Flag::range(int64_t least, int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Flag& Flag::positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Flag& Flag::not_negative() {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Flag& Flag::repeatable() {
  option_->expected(1)->take_all();
  return *this;
}

Flag& Flag::delimiter(char between) {
  option_->delimiter(between);
  return *this;
}

Flag& Flag::needs(const Flag& other) {
  option_->needs(other.option_);
  return *this;
}

Flag& Flag::excludes(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

Flag Flags::add_option(const std::string& name, std::string& value,
                       const std::string& help) {
  return Flag(app_.add_option(name, value, help));
}

Flag Flags::add_option(const std::string& name,
                       std::vector<std::string>& values,
                       const std::string& help) {
  return Flag(app_.add_option(name, values, help));
}

Flag Flags::add_option(const std::string& name, int& value,
                       const std::string& help) {
  return Flag(app_.add_option(name, value, help));
}

Flag Flags::add_option(const std::string& name, int64_t& value,
                       const std::string& help) {
  return Flag(app_.add_option(name, value, help));
}

Flag Flags::add_option(const std::string& name, uint64_t& value,
                       const std::string& help) {
  return Flag(app_.add_option(name, value, help));
}

Flag Flags::add_option(const std::string& name, double& value,
                       const std::string& help) {
  return Flag(app_.add_option(name, value, help));
}

Flag Flags::add_option(const std::string& name, std::optional<int32_t>& value,
                       const std::string& help) {
  return Flag(app_.add_option(name, value, help));
}

void Flags::add_flag(const std::string& name, bool& value,
                     const std::string& help) {
  app_.add_flag(name, value, help);
}

void Flags::add_format(Format& format) {
  static const std::map<std::string, Format> kFormats = {
      {"table", Format::kTable},
      {"json", Format::kJson},
      {"csv", Format::kCsv}};
  app_.add_option("--format", format, "table, json or csv (default table)")
      ->transform(
          CLI::CheckedTransformer(kFormats, CLI::ignore_case).description(""))
      ->type_name("FORMAT");
}

void Flags::footer(const std::string& text) { app_.footer(text); }

}  // namespace reprise
