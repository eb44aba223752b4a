// `reprise`: parses the command line, runs one verb, maps errors to exit codes.
#include <fcntl.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/supervisor.h"

namespace reprise {
namespace {

// Options as "--flag TYPE", one line each: a help page fits one screen
// of 24 lines of 80 columns.
class ShortHelp : public CLI::Formatter {
 public:
  ShortHelp() { column_width(24); }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    usage.erase(usage.find_last_not_of('\n') + 1);
    return usage;  // What follows begins with the end of its line.
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0 || option->get_positional()) return "";
    const std::string type = option->get_type_name();
    // CLI11 appends a check's description after a colon; one letter there is
    // a range's end, as in A:B.
    size_t end = type.find_first_of(": ");
    const size_t next =
        std::min(type.find_first_of(": ", end + 1), type.size());
    if (end < type.size() && type[end] == ':' && next == end + 2) end = next;
    return " " + type.substr(0, end);
  }
};

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// CLI11 writes out the largest double, 309 digits, where a range has no end.
std::string without_endless_range(std::string message) {
  const size_t end = message.find(" to 17976931348623157");
  if (end != std::string::npos) message.replace(end, std::string::npos, " up");
  return message;
}

// A first word that is no verb: name the nearest one.
int unknown_verb(const std::string& word,
                 const std::vector<std::unique_ptr<Command>>& commands) {
  const auto nearest = std::min_element(
      commands.begin(), commands.end(), [&](const auto& a, const auto& b) {
        return edit_distance(word, a->name()) < edit_distance(word, b->name());
      });
  tell("reprise: unknown verb '{}'; did you mean '{}'? See reprise --help\n",
       word, (*nearest)->name());
  return kExitUsage;
}

int run_verb(Command& command) {
  const Result<int> result = command.run();
  const Status written = flush_output();
  if (!result) {
    tell("reprise {}: {}\n", command.name(), result.error().message);
    return exit_code(result.error().kind);
  }
  // An answer that nobody got is none.
  if (written || (*result != kExitOk && *result != kExitAnswerIsNo))
    return *result;
  tell("reprise {}: {}\n", command.name(), written.error().message);
  return exit_code(written.error().kind);
}

// A standard stream that this process was started without would be the number
// of the next file it opens, and messages would land there. A child finds it
// closed, as without us.
void hold_standard_streams() {
  for (int number = 0; number <= 2; ++number) {
    if (::fcntl(number, F_GETFD) < 0) ::open("/dev/null", O_RDWR | O_CLOEXEC);
  }
}

// What follows the first word that is none of the verb's flags is another
// program's, flags and all, as after "--".
void mark_command(const CLI::App& verb, std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    if (!words[i].starts_with('-')) {
      words.insert(words.begin() + static_cast<ptrdiff_t>(i), "--");
      return;
    }
    const CLI::Option* flag = verb.get_option_no_throw(words[i]);
    if (flag != nullptr && flag->get_items_expected_max() > 0)
      ++i;  // Its value.
  }
}

// The command line as CLI11 takes it.
std::vector<std::string> reversed_words(
    int argc, char** argv, const CLI::App& app,
    const std::vector<std::unique_ptr<Command>>& commands) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  for (const auto& command : commands) {
    if (command->runs_a_command() && !words.empty() &&
        words[0] == command->name()) {
      mark_command(*app.get_subcommand(command->name()), words);
    }
  }
  std::reverse(words.begin(), words.end());
  return words;
}

// Help or the version.
int show_help(const CLI::App& app, const CLI::ParseError& asked) {
  std::ostringstream text;
  app.exit(asked, text);
  write_out(text.str());
  const Status written = flush_output();
  if (written) return kExitOk;
  tell("reprise: {}\n", written.error().message);
  return exit_code(written.error().kind);
}

int run(int argc, char** argv) {
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make :
       {make_train_command, make_profile_command, make_import_command,
        make_info_command, make_analyze_command, make_diff_command,
        make_replay_command, make_calibrate_command, make_optimize_command,
        make_export_command, make_verify_command, make_report_command,
        make_view_command, make_hlo_command, make_doctor_command}) {
    commands.push_back(make());
  }

  CLI::App app(
      "Makes distributed training faster from its own traces:\n"
      "profile, replay, optimize, rerun.",
      "reprise");
  app.formatter(std::make_shared<ShortHelp>());
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", "reprise " REPRISE_VERSION);
  Command* chosen = nullptr;
  for (const auto& command : commands) {
    CLI::App* verb = app.add_subcommand(command->name(), command->summary());
    Flags flags(*verb);
    command->add_flags(flags);
    verb->callback([&chosen, &command] { chosen = command.get(); });
  }
  const bool known =
      argc < 2 || argv[1][0] == '-' ||
      std::any_of(commands.begin(), commands.end(), [&](const auto& command) {
        return command->name() == argv[1];
      });
  if (!known) return unknown_verb(argv[1], commands);
  try {
    app.parse(reversed_words(argc, argv, app, commands));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return show_help(app, error);
    const std::string verb =
        app.get_subcommands().empty()
            ? ""
            : " " + app.get_subcommands().front()->get_name();
    tell("reprise{}: {}; see reprise{} --help\n", verb,
         without_endless_range(error.what()), verb);
    return kExitUsage;
  }
  return run_verb(*chosen);
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  // A file size limit becomes a failed write with a message.
  std::signal(SIGXFSZ, SIG_IGN);
  reprise::hold_standard_streams();
  try {
    if (argc > 1 && std::strcmp(argv[1], reprise::kSupervisorWord) == 0)
      return reprise::supervise(argc - 2, argv + 2);
    return reprise::run(argc, argv);
  } catch (const std::bad_alloc&) {
    reprise::tell(
        "reprise: out of memory: this input needs more than there is\n");
    return reprise::kExitBadInput;
  } catch (const std::exception& error) {
    reprise::tell("reprise: internal error: {}\n", error.what());
    return reprise::kExitInternal;
  }
}
