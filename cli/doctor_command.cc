// reprise doctor: what this machine has and lacks for each job, with the fix.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/doctor_checks.h"
#include "cli/flags.h"
#include "cli/output.h"

namespace reprise {
namespace {

std::vector<Check> all_checks() {
  std::vector<Check> checks;
  for (const auto& some : {machine_checks(), cuda_checks(), tracing_checks()}) {
    checks.insert(checks.end(), some.begin(), some.end());
  }
  return checks;
}

class DoctorCommand : public Command {
 public:
  std::string name() const override { return "doctor"; }
  std::string summary() const override {
    return "Check this machine, with a fix for each lack";
  }

  void add_flags(Flags& flags) override {
    flags
        .add_option("--for", purpose_,
                    "train, profile or view: exit 4 where it lacks")
        .type_name("JOB")
        .one_of({"train", "profile", "view"});
    flags
        .add_option("--device", device_,
                    "with --for train: cpu (default) or cuda")
        .type_name("DEVICE")
        .one_of({"cpu", "cuda"});
    flags.add_format(format_);
  }

  Result<int> run() override {
    const std::vector<Check> checks = all_checks();
    // Fixes are sentences: beneath the table for people, a column for programs.
    const bool has_fixes_below = format_ == Format::kTable;
    Table table{{"check", "for", "state", "found"}, {}, {0, 1, 2, 3, 4}};
    if (!has_fixes_below) table.headings.emplace_back("fix");
    nlohmann::ordered_json json = {{"schema", "reprise.doctor/1"},
                                   {"checks", nlohmann::ordered_json::array()}};
    for (const Check& check : checks) {
      const std::string words = words_of(check.purposes);
      const std::string fix = check.ok ? "" : check.fix;
      table.rows.push_back({check.name, words, state_of(check), check.found});
      if (!has_fixes_below) table.rows.back().push_back(fix);
      json["checks"].push_back({{"name", check.name},
                                {"for", words},
                                {"ok", check.ok},
                                {"needed", check.needed},
                                {"found", check.found},
                                {"fix", fix}});
    }
    print_output(format_, table, json);
    if (has_fixes_below) print_advice(checks);
    const bool lacks = std::any_of(
        checks.begin(), checks.end(),
        [&](const Check& check) { return fails(check, purposes()); });
    return lacks ? kExitEnvironment : kExitOk;
  }

 private:
  unsigned purposes() const {
    if (purpose_ == "train") return device_ == "cuda" ? kForCuda : kForTrain;
    if (purpose_ == "profile") return kForProfile;
    if (purpose_ == "view") return kForView;
    return 0;
  }

  static bool fails(const Check& check, unsigned purposes) {
    return !check.ok && check.needed && (check.purposes & purposes) != 0;
  }

  std::string state_of(const Check& check) const {
    if (check.ok) return "ok";
    if (fails(check, purposes())) return "FAIL";
    return check.needed ? "missing" : "warning";
  }

  /// A fix for each lack, and what each job still needs.
  static void print_advice(const std::vector<Check>& checks) {
    show("\n");
    for (const Check& check : checks) {
      if (!check.ok) show("fix {}: {}\n", check.name, check.fix);
    }
    for (const unsigned job : {kForTrain, kForCuda, kForProfile, kForView}) {
      std::vector<std::string> lacks;
      for (const Check& check : checks) {
        if (fails(check, job)) lacks.push_back(check.name);
      }
      const std::string name =
          job == kForCuda ? "train --device cuda" : words_of(job);
      show("{}: {}\n", name,
           lacks.empty() ? "ready"
                         : fmt::format("needs {}", fmt::join(lacks, ", ")));
    }
  }

  std::string purpose_, device_ = "cpu";
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() {
  return std::make_unique<DoctorCommand>();
}

}  // namespace reprise
