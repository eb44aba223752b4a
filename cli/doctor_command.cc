// reprise doctor: what this machine has and lacks for each job, with the fix.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/process.h"

namespace reprise {
namespace {

struct Check {
  std::string name;
  std::string purpose;  ///< "train", "profile" or "view"; what needs it.
  bool ok = false;
  std::string found;
  std::string fix;
};

Check program_check(const std::string& program, const std::string& purpose,
                    const std::string& fix) {
  const std::string path = find_program(program);
  return {program, purpose, !path.empty(), path.empty() ? "not found" : path,
          fix};
}

// The driver is opened, never linked: a machine without one is ordinary.
Check driver_check() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    return {"NVIDIA driver", "profile", false, "libcuda.so.1 not found",
            "install the NVIDIA driver; CPU training needs none"};
  }
  const auto initialize =
      reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const int status = initialize == nullptr ? -1 : initialize(0);
  dlclose(driver);
  return {"NVIDIA driver", "profile", status == 0,
          status == 0 ? "cuInit succeeded"
                      : fmt::format("cuInit failed with {}", status),
          "check nvidia-smi and the container's GPU access"};
}

Check cache_check() {
  const char* base = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string directory = base != nullptr ? base
                                : home != nullptr
                                    ? std::string(home) + "/.cache"
                                    : "";
  std::string nearest = directory;
  while (!nearest.empty() && !std::filesystem::exists(nearest)) {
    nearest = std::filesystem::path(nearest).parent_path().string();
  }
  const bool writable =
      !nearest.empty() && ::access(nearest.c_str(), W_OK) == 0;
  return {"compile cache", "train", writable,
          directory.empty() ? "HOME is not set" : directory,
          "set XDG_CACHE_HOME to a directory of yours"};
}

std::vector<Check> all_checks() {
  const unsigned cores = std::thread::hardware_concurrency();
  const std::string trainer = executable_directory() + "/reprise-train";
  const bool built = std::filesystem::exists(trainer);
  return {
      program_check("g++", "train",
                    "apt install g++ (kernels are interpreted without it)"),
      program_check("mpirun", "train", "apt install openmpi-bin"),
      {"reprise-train", "train", built, built ? trainer : "not found",
       "build the target reprise-train beside reprise"},
      cache_check(),
      {"cores", "train", cores >= 2, std::to_string(cores),
       "two ranks on one core measure each other, not the program"},
      driver_check(),
      program_check(
          "chromium", "view",
          "apt install chromium, or open https://ui.perfetto.dev anywhere")};
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
    add_format_flag(app, format_);
  }

  Result<int> run() override {
    Table table{{"check", "for", "state", "found", "fix"}, {}, {0, 1, 2, 3, 4}};
    nlohmann::ordered_json json = {{"schema", "reprise.doctor/1"},
                                   {"checks", nlohmann::ordered_json::array()}};
    bool lacking = false;
    for (const Check& check : all_checks()) {
      const bool asked = check.purpose == purpose_;
      lacking |= asked && !check.ok;
      const std::string state = check.ok ? "ok" : asked ? "FAIL" : "missing";
      table.rows.push_back({check.name, check.purpose, state, check.found,
                            check.ok ? "" : check.fix});
      json["checks"].push_back({{"name", check.name},
                                {"for", check.purpose},
                                {"ok", check.ok},
                                {"found", check.found},
                                {"fix", check.ok ? "" : check.fix}});
    }
    print_output(format_, table, json);
    return lacking ? kExitEnvironment : kExitOk;
  }

 private:
  std::string purpose_;
  Format format_ = Format::kTable;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() {
  return std::make_unique<DoctorCommand>();
}

}  // namespace reprise
