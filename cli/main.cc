// `reprise`: parses the command line, runs one verb, maps errors to exit codes.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cli/command.h"

namespace reprise {
namespace {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kIo:
    case ErrorKind::kParse:
    case ErrorKind::kUnsupported:
    case ErrorKind::kInvalid:
      return kExitBadInput;
    case ErrorKind::kInfeasible:
      return kExitAnswerIsNo;
    case ErrorKind::kDevice:
      return kExitEnvironment;
  }
  return kExitInternal;
}

// Options as "--flag TYPE", one line each: a help page fits one screen.
class ShortHelp : public CLI::Formatter {
 public:
  ShortHelp() { column_width(30); }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0 || option->get_positional()) return "";
    const std::string type = option->get_type_name();
    return " " + type.substr(0, type.find_first_of(": "));
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

// A first word that is no verb: name the nearest one.
int unknown_verb(const std::string& word,
                 const std::vector<std::unique_ptr<Command>>& commands) {
  const auto nearest = std::min_element(
      commands.begin(), commands.end(), [&](const auto& a, const auto& b) {
        return edit_distance(word, a->name()) < edit_distance(word, b->name());
      });
  fmt::print(
      stderr,
      "reprise: unknown verb '{}'; did you mean '{}'? See reprise --help\n",
      word, (*nearest)->name());
  return kExitUsage;
}

int run_verb(Command& command) {
  const Result<int> result = command.run();
  if (result) return *result;
  std::fflush(stdout);
  fmt::print(stderr, "reprise {}: {}\n", command.name(),
             result.error().message);
  return exit_code(result.error().kind);
}

int run(int argc, char** argv) {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_train_command());
  commands.push_back(make_profile_command());
  commands.push_back(make_import_command());
  commands.push_back(make_info_command());
  commands.push_back(make_analyze_command());
  commands.push_back(make_diff_command());
  commands.push_back(make_replay_command());
  commands.push_back(make_calibrate_command());
  commands.push_back(make_optimize_command());
  commands.push_back(make_export_command());
  commands.push_back(make_hlo_command());
  commands.push_back(make_doctor_command());

  CLI::App app(
      "Makes distributed training faster from its own traces: "
      "profile, replay, optimize, rerun.",
      "reprise");
  app.formatter(std::make_shared<ShortHelp>());
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", "reprise " REPRISE_VERSION);
  Command* chosen = nullptr;
  for (const auto& command : commands) {
    CLI::App* verb = app.add_subcommand(command->name(), command->summary());
    command->add_flags(*verb);
    verb->callback([&chosen, &command] { chosen = command.get(); });
  }
  const bool known =
      argc < 2 || argv[1][0] == '-' ||
      std::any_of(commands.begin(), commands.end(), [&](const auto& command) {
        return command->name() == argv[1];
      });
  if (!known) return unknown_verb(argv[1], commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const std::string verb =
        app.get_subcommands().empty()
            ? ""
            : " " + app.get_subcommands().front()->get_name();
    fmt::print(stderr, "reprise{}: {}; see reprise{} --help\n", verb,
               error.what(), verb);
    return kExitUsage;
  }
  return run_verb(*chosen);
}

}  // namespace
}  // namespace reprise

int main(int argc, char** argv) {
  // A file size limit becomes a failed write with a message.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return reprise::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "reprise: internal error: {}\n", error.what());
    return reprise::kExitInternal;
  }
}
