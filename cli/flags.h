// The command line of one verb, as far as verbs need it. CLI11 does the work;
// its headers take longer to compile than most verbs, so only flags.cc and the
// two programs' main files see them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace reprise {

enum class Format;

/// One flag or positional argument, just added: what it is and may be.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag& required();
  Flag& type_name(const std::string& name);  ///< In help pages.
  Flag& one_of(const std::vector<std::string>& words);
  Flag& range(int64_t least, int64_t most);
  Flag& positive();
  Flag& not_negative();
  /// Of a list: values come by repeating the flag, one each.
  Flag& repeatable();
  /// Of a list: values come in one word, between these.
  Flag& delimiter(char between);
  Flag& needs(const Flag& other);
  Flag& excludes(const Flag& other);

 private:
  CLI::Option* option_;
};

/// Binds flags and positionals to variables, which outlive it. A name with
/// dashes is a flag's ("-o,--output"), one without is a positional's.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}

  Flag add_option(const std::string& name, std::string& value,
                  const std::string& help);
  Flag add_option(const std::string& name, std::vector<std::string>& values,
                  const std::string& help);
  Flag add_option(const std::string& name, int& value, const std::string& help);
  Flag add_option(const std::string& name, int64_t& value,
                  const std::string& help);
  Flag add_option(const std::string& name, uint64_t& value,
                  const std::string& help);
  Flag add_option(const std::string& name, double& value,
                  const std::string& help);
  Flag add_option(const std::string& name, std::optional<int32_t>& value,
                  const std::string& help);
  /// True when it is given.
  void add_flag(const std::string& name, bool& value, const std::string& help);
  /// `--format table|json|csv`.
  void add_format(Format& format);
  /// Text below the help page.
  void footer(const std::string& text);

 private:
  CLI::App& app_;
};

}  // namespace reprise
