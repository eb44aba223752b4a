#include "tests/runtime/train/trained_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <regex>
#include <thread>

#include "data/file.h"
#include "data/hlo/hlo.h"
#include "tests/testing/directories.h"

namespace reprise {

Result<TestProgram> load_test_program(const std::string& name,
                                      const Rewrite& rewrite) {
  const std::string path =
      source_directory() + "/data/programs/" + name + ".hlo";
  Result<std::string> text = read_file(path);
  if (!text) return pass(text.error());
  Result<Module> parsed =
      parse_hlo(rewrite ? rewrite(*text) : std::move(*text), path);
  if (!parsed) return pass(parsed.error());
  Result<InlinedModule> inlined = inline_calls(*parsed);
  if (!inlined) return pass(inlined.error());
  Result<Manifest> manifest = load_manifest_for(path);
  if (!manifest) return pass(manifest.error());
  return TestProgram{std::move(*inlined), std::move(*manifest)};
}

Result<std::unique_ptr<TestRun>> make_test_run(
    const TestProgram& program, const Plan& plan, bool interpret, int64_t rank,
    std::unique_ptr<Communicator> communicator) {
  auto made = std::make_unique<TestRun>();
  Result<Schedule> schedule = lower_schedule(program.module, plan);
  if (!schedule) return pass(schedule.error());
  made->schedule = std::move(*schedule);
  const auto alone = make_single_process_group();
  Result<LoadedKernels> kernels =
      load_kernels(made->schedule,
                   {.interpret = interpret,
                    .cache_directory = build_directory() + "/kernel_cache"},
                   *alone);
  if (!kernels) return pass(kernels.error());
  made->kernels = std::move(*kernels);
  made->communicator =
      communicator ? std::move(communicator) : make_solo_communicator();
  const TrainingProgram training{.module = program.module,
                                 .manifest = program.manifest,
                                 .schedule = made->schedule};
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(program.module, made->schedule, made->kernels.code,
                       *made->communicator, nullptr, {});
  if (!executor) return pass(executor.error());
  Result<std::unique_ptr<TrainingRun>> run =
      TrainingRun::create(training, std::move(*executor), nullptr, rank);
  if (!run) return pass(run.error());
  made->run = std::move(*run);
  return made;
}

Result<std::vector<double>> train_steps(TestRun& run, int32_t steps) {
  std::vector<double> losses;
  for (int32_t step = 0; step < steps; ++step) {
    const Result<StepOutcome> outcome = run.run->step(step, false);
    if (!outcome) return pass(outcome.error());
    losses.push_back(outcome->loss);
  }
  return losses;
}

void on_two_threads(const std::function<void(int)>& rank) {
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

Result<std::vector<std::vector<std::string>>> run_two_ranks(
    const RankOfTwo& rank) {
  constexpr double kTimeoutSeconds = 100;
  std::string directory =
      std::filesystem::temp_directory_path() / "reprise_ranks_XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr)
    return fail(ErrorKind::kIo, "{}: {}", directory, std::strerror(errno));
  std::vector<Result<std::vector<std::string>>> made(2);
  on_two_threads([&](int number) {
    auto& mine = made[static_cast<size_t>(number)];
    const auto group =
        make_file_process_group(directory + "/r", number, 2, kTimeoutSeconds);
    if (!group) {
      mine = pass(group.error());
      return;
    }
    mine = rank(**group);
    const Status left = (*group)->barrier();
    if (mine && !left) mine = pass(left.error());
  });
  std::filesystem::remove_all(directory);
  std::vector<std::vector<std::string>> all;
  for (auto& one : made) {
    if (!one) return pass(one.error());
    all.push_back(std::move(*one));
  }
  return all;
}

Result<std::vector<std::vector<std::string>>> train_two_ranks(
    const TestProgram& program, const Plan& plan, int32_t steps) {
  // Compiles: then no rank waits for another's compiler.
  const auto compiled = make_test_run(program, plan);
  if (!compiled) return pass(compiled.error());
  return run_two_ranks(
      [&](ProcessGroup& group) -> Result<std::vector<std::string>> {
        auto communicator = make_gloo_communicator(group, 100);
        if (!communicator) return pass(communicator.error());
        const auto run = make_test_run(program, plan, false, group.rank(),
                                       std::move(*communicator));
        if (!run) return pass(run.error());
        const auto losses = train_steps(**run, steps);
        if (!losses) return pass(losses.error());
        return (*run)->run->state_digests();
      });
}

std::vector<std::string> all_reduces(const std::string& hlo) {
  static const std::regex kLine(R"(\n\s*(\S+) = \S+ all-reduce\()");
  std::vector<std::string> names;
  for (std::sregex_iterator at(hlo.begin(), hlo.end(), kLine), end; at != end;
       ++at) {
    names.push_back((*at)[1]);
  }
  return names;
}

std::string halve_all_reduce(const std::string& hlo, const std::string& name) {
  const std::string escaped =
      std::regex_replace(name, std::regex(R"(\.)"), R"(\.)");
  const std::regex line("\n  " + escaped +
                        R"( = (f32\[[0-9,]*\])(\S*) (all-reduce\([^\n]*))");
  return std::regex_replace(
      hlo, line,
      "\n  whole." + name + " = $1$2 $3\n  half." + name +
          " = f32[] constant(0.5)\n  halves." + name +
          " = $1$2 broadcast(half." + name + "), dimensions={}\n  " + name +
          " = $1$2 multiply(whole." + name + ", halves." + name + ")");
}

}  // namespace reprise
