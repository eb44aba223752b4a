// reprise doctor: what this machine has and lacks for each job, with the fix.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/doctor_checks.h"
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

  void add_flags(CLI::App& app) override {
    app.add_option(
           "--for", purpose_,
           "train, profile or view: exit 4 when that job lacks something")
        ->check(CLI::IsMember({"train", "profile", "view"}));
    app.add_option("--device", device_,
                   "with --for train: cpu (default) or cuda")
        ->check(CLI::IsMember({"cpu", "cuda"}));
    add_format_flag(app, format_);
  }

  Result<int> run() override {
    Table table{{"check", "for", "state", "found", "fix"}, {}, {0, 1, 2, 3, 4}};
    nlohmann::ordered_json json = {{"schema", "reprise.doctor/1"},
                                   {"checks", nlohmann::ordered_json::array()}};
    bool lacking = false;
    for (const Check& check : all_checks()) {
      const bool asked = (check.purposes & purposes()) != 0;
      const bool fails = !check.ok && asked && check.needed;
      lacking |= fails;
      const std::string state = check.ok ? "ok" : fails ? "FAIL" : "missing";
      const std::string words = words_of(check.purposes);
      table.rows.push_back(
          {check.name, words, state, check.found, check.ok ? "" : check.fix});
      json["checks"].push_back({{"name", check.name},
                                {"for", words},
                                {"ok", check.ok},
                                {"needed", check.needed},
                                {"found", check.found},
                                {"fix", check.ok ? "" : check.fix}});
    }
    print_output(format_, table, json);
    return lacking ? kExitEnvironment : kExitOk;
  }

 private:
  unsigned purposes() const {
    if (purpose_ == "train") return device_ == "cuda" ? kForCuda : kForTrain;
    if (purpose_ == "profile") return kForProfile;
    if (purpose_ == "view") return kForView;
    return 0;
  }

  std::string purpose_, device_ = "cpu";
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() {
  return std::make_unique<DoctorCommand>();
}

}  // namespace reprise
