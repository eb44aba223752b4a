// One verb of `reprise`. A verb is a name, a summary, its flags, and a run that
// returns an exit code or an error; main.cc maps errors to one line on stderr.
#pragma once

#include <memory>
#include <string>

#include "data/result.h"

namespace reprise {

class Flags;

/// Exit codes of every verb (128+N stands for a signal).
enum ExitCode : int {
  kExitOk = 0,
  kExitAnswerIsNo = 1,
  kExitUsage = 2,
  kExitBadInput = 3,
  kExitEnvironment = 4,
  kExitInternal = 5,
};

/// Of the file beside a trainer's result that says: ranks were lost.
inline constexpr const char* kLostSuffix = ".lost";
/// What stands in it where the ranks have ended and mpirun does not, before
/// the processes that it has left unasked: " 12 14".
inline constexpr const char* kLauncherStuck = "launcher";
/// Of the file that each of several ranks begins with, its process; the rank's
/// number follows.
inline constexpr const char* kBegunSuffix = ".begun.";

/// Of a program that ends with such an error.
constexpr int exit_code(ErrorKind kind) {
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

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string summary() const = 0;
  /// Binds the verb's flags and positionals to its members.
  virtual void add_flags(Flags& flags) = 0;
  /// Whether the first word that is no flag begins another program's command.
  virtual bool runs_a_command() const { return false; }
  /// Does the work: results on stdout, the rest on stderr.
  virtual Result<int> run() = 0;
};

/// The verbs, in the order of the loop; each lives in `<verb>_command.cc`.
std::unique_ptr<Command> make_hlo_command();
std::unique_ptr<Command> make_train_command();
std::unique_ptr<Command> make_profile_command();
std::unique_ptr<Command> make_import_command();
std::unique_ptr<Command> make_info_command();
std::unique_ptr<Command> make_analyze_command();
std::unique_ptr<Command> make_diff_command();
std::unique_ptr<Command> make_replay_command();
std::unique_ptr<Command> make_calibrate_command();
std::unique_ptr<Command> make_optimize_command();
std::unique_ptr<Command> make_export_command();
std::unique_ptr<Command> make_verify_command();
std::unique_ptr<Command> make_report_command();
std::unique_ptr<Command> make_view_command();
std::unique_ptr<Command> make_doctor_command();

}  // namespace reprise
