// The command line of one verb, as far as verbs need it. CLI11 does the work;
// its headers take longer to compile than most verbs, so only flags.cc and the
// two programs' main files see them.
#pragma once

#include <cstdint>
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

  Flag required();
  Flag type_name(const std::string& name);  ///< In help pages.
  Flag one_of(const std::vector<std::string>& words);
  Flag range(int64_t least, int64_t most);
  Flag positive();
  Flag not_negative();
  Flag byte_size();  ///< Of an integer: bytes, or with a unit: 500MB, 1.5GiB.
  Flag one_value_each();         ///< Of a list: what follows it is not its.
  Flag repeatable();             ///< Of a list: it may be given again.
  Flag delimiter(char between);  ///< Of a list: its values in one word.
  Flag needs(Flag other);
  Flag excludes(Flag other);

 private:
  CLI::Option* option_;
};

/// Binds flags and positionals to variables, which outlive it. A name with
/// dashes is a flag's ("-o,--output"), one without is a positional's.
class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}

  /// Instantiated in flags.cc for the types that verbs use.
  template <typename T>
  Flag add_option(const std::string& name, T& value, const std::string& help);
  /// True when it is given.
  void add_flag(const std::string& name, bool& value, const std::string& help);
  /// `--format table|json|csv`.
  void add_format(Format& format);
  /// Leaves flags out of the help page's list: its footer names them.
  void leave_to_footer(const std::vector<std::string>& names);
  /// Text below the help page.
  void footer(const std::string& text);

 private:
  CLI::App& app_;
};

}  // namespace reprise
