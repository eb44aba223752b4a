// The ranks first agree that they lowered the same collectives in the same
// order (a digest each), since ranks that disagree would wait for each other
// for ever. A rank that fails says so in a roll call; the others then name it
// instead of timing out. At the end digests of the states are compared tensor
// by tensor.
#include "runtime/train/train.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/schedule/timed_schedule.h"
#include "profiler/recorder.h"
#include "runtime/process/clock_offset.h"
#include "runtime/train/gather_values.h"
#include "runtime/train/loss_watch.h"

namespace reprise {
namespace {

/// Time that all living ranks need to hear of a failure: a step of compute.
constexpr double kRollCallSeconds = 0.6;
/// Of longer runs, the room for what is kept of a step grows as it goes.
constexpr int64_t kStepsWithRoom = 1 << 20;

// Taken and touched before the first step, so that no step waits for memory
// and a run holds as much at its end as at its beginning.
template <typename T>
void take_room(std::vector<T>& values, int64_t steps) {
  values.resize(static_cast<size_t>(std::min(steps, kStepsWithRoom)));
  values.clear();
}

// All ranks must have lowered the same collectives in the same order, or they
// would wait for each other in vain.
Status compare_schedules(const Schedule& schedule, ProcessGroup& group) {
  const Result<std::vector<std::string>> digests = group.all_gather(
      schedule.program_fingerprint + " " + collective_digest(schedule));
  if (!digests) return pass(digests.error());
  for (size_t rank = 1; rank < digests->size(); ++rank) {
    if ((*digests)[rank] == (*digests)[0]) continue;
    return fail(ErrorKind::kInvalid,
                "rank {} has another program, plan or order of collectives "
                "than rank 0",
                rank);
  }
  return {};
}

Status compare_states(const std::vector<std::string>& digests,
                      const Manifest& manifest, ProcessGroup& group) {
  std::string all;
  for (const std::string& digest : digests) all += digest;
  const Result<std::vector<std::string>> gathered = group.all_gather(all);
  if (!gathered) return pass(gathered.error());
  for (size_t rank = 1; rank < gathered->size(); ++rank) {
    const std::string& other = (*gathered)[rank];
    if (other == (*gathered)[0]) continue;
    size_t tensor = 0;
    for (const ManifestParameter& parameter : manifest.parameters) {
      if (parameter.role != ParameterRole::kState) continue;
      const size_t at = 64 * tensor++;
      if (parameter.per_rank) continue;
      if (other.compare(at, 64, (*gathered)[0], at, 64) == 0) continue;
      return fail(ErrorKind::kInvalid,
                  "rank {} ends with another '{}' than rank 0: data-parallel "
                  "ranks must hold the same state; of state that differs by "
                  "rank the manifest says \"per_rank\": true in its init",
                  rank, parameter.name);
    }
  }
  return {};
}

// Between two ranks the communicator has named the other one already.
Error name_lost_ranks(Error error, ProcessGroup& group) {
  if (group.size() <= 2) return error;
  std::string names;
  for (const int rank : group.roll_call(kRollCallSeconds)) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
  }
  if (!names.empty()) {
    error.message =
        fmt::format("rank {} was lost (killed, stopped or cut off); {}", names,
                    error.message);
  }
  return error;
}

/// One rank's whole run, stage by stage.
class Session {
 public:
  Session(const TrainingProgram& program, const TrainOptions& options,
          TrainingDevice& device, ProcessGroup& group)
      : program_(program), options_(options), device_(device), group_(group) {}

  Result<TrainResult> run() {
    Status status = set_up();
    if (status) status = all_steps();
    if (status) status = finish_recording();
    if (!status) return pass(status.error());
    return sum_up();
  }

 private:
  Status set_up() {
    Status status = check_steps();
    if (status) status = compare_schedules(program_.schedule, group_);
    if (!status) return status;
    status = agree(group_, make_recorder());
    if (!status) return status;
    Result<BoundDevice> bound =
        device_.bind(program_, options_.device, recorder_.get(), group_);
    if (!bound) return pass(bound.error());
    status = agree(group_, make_run(std::move(*bound)));
    if (!status) return status;
    const Result<ClockReading> clock = read_clock(group_);
    if (!clock) return pass(clock.error());
    first_clock_ = *clock;
    return group_.barrier();
  }

  // The reference holds one number of steps only: say so before training.
  Status check_steps() const {
    if (!options_.verify) return {};
    if (program_.manifest.reference_file.empty()) {
      return fail(ErrorKind::kInvalid, "{}: the manifest names no reference",
                  program_.manifest.name);
    }
    if (program_.manifest.reference_steps == options_.steps) return {};
    return fail(ErrorKind::kInvalid,
                "{}: the reference took {} steps, this run {}; use --steps {}",
                program_.manifest.reference_file,
                program_.manifest.reference_steps, options_.steps,
                program_.manifest.reference_steps);
  }

  Status make_recorder() {
    if (options_.shard_directory.empty()) return {};
    const size_t units =
        TimedSchedule(program_.schedule, true).schedule().units.size();
    const size_t a_step = units * 2 + 16;
    Result<std::unique_ptr<Recorder>> recorder = Recorder::create(
        {.rank = static_cast<uint32_t>(group_.rank()),
         .shard_path = fmt::format("{}/rank.{}.shard", options_.shard_directory,
                                   group_.rank()),
         .events_per_stream = std::max<size_t>(a_step, 1 << 12),
         .device = device_.kind()});
    if (!recorder) return pass(recorder.error());
    recorder_ = std::move(*recorder);
    return {};
  }

  Status make_run(BoundDevice bound) {
    if (options_.tell && group_.rank() == 0) {
      for (const std::string& note : bound.notes) options_.tell(note);
    }
    result_.device_facts = std::move(bound.facts);
    Result<std::unique_ptr<TrainingRun>> run = TrainingRun::create(
        program_, std::move(bound.executor), recorder_.get(), group_.rank());
    if (!run) return pass(run.error());
    run_ = std::move(*run);
    const bool watches = !options_.allow_nan && !options_.device.solo &&
                         has_loss() && !program_.manifest.folders.none();
    watch_.emplace(watches, *run_, losses_, group_);
    return {};
  }

  Status all_steps() {
    take_room(durations_, options_.steps);
    take_room(losses_, options_.steps);
    leave_out_third();
    for (int64_t step = 0; step < options_.steps; ++step) {
      tell_progress(step);
      if (Status looked = watch_->before(step); !looked)
        return lost(looked.error());
      const Result<StepOutcome> outcome =
          run_->step(static_cast<int32_t>(step), step < options_.warmup);
      if (!outcome) return failed_step(outcome.error());
      durations_.push_back(outcome->end_ns - outcome->start_ns);
      losses_.push_back(outcome->loss);
      if (outcome->correct) corrects_.push_back(*outcome->correct);
      if (outcome->device_ns) device_durations_.push_back(*outcome->device_ns);
    }
    const Status finite = watch_->look();
    return finite ? finite : lost(finite.error());
  }

  /// A tracer of devices slows steps, most those of many short kernels.
  void leave_out_third() {
    constexpr int64_t kLeast = 12;
    if (options_.steps - options_.warmup < kLeast) return;
    run_->leave_out_third(static_cast<int32_t>(options_.warmup),
                          static_cast<int32_t>(options_.steps));
  }

  void tell_progress(int64_t step) const {
    if (!options_.device.watch) return;
    const auto done = static_cast<double>(step);
    options_.device.watch({.what = "training",
                           .share = done / static_cast<double>(options_.steps),
                           .count = done,
                           .unit = "steps"});
  }

  Status failed_step(Error error) {
    if (error.kind == ErrorKind::kDevice || group_.size() == 1)
      return lost(error);
    error.message = fmt::format("rank {}: {}", group_.rank(), error.message);
    if (options_.fail_alone) options_.fail_alone(error);
    return pass(error);
  }

  Status lost(const Error& error) {
    if (error.kind != ErrorKind::kDevice) return pass(error);
    return pass(name_lost_ranks(error, group_));
  }

  Status finish_recording() {
    const Result<ClockReading> last = read_clock(group_);
    if (!last) return pass(last.error());
    if (!recorder_) return {};
    RankInfo rank;
    set_clock(first_clock_, *last, rank);
    return agree(group_, recorder_->finish(rank));
  }

  Result<TrainResult> sum_up() {
    result_.ranks = program_.schedule.ranks;
    result_.steps = options_.steps;
    result_.warmup = options_.warmup;
    result_.solo = options_.device.solo;
    std::vector<std::string> digests;
    Status status = agree(group_, read_state(digests));
    if (status) status = combine_steps();
    if (status && !options_.device.solo && !program_.manifest.folders.none())
      status = compare_states(digests, program_.manifest, group_);
    if (status) status = gather_state();
    if (status && options_.verify) status = agree(group_, check_results());
    if (!status) return pass(status.error());
    return std::move(result_);
  }

  Status read_state(std::vector<std::string>& digests) {
    Result<std::vector<std::string>> read = run_->state_digests();
    if (!read) return pass(read.error());
    digests = std::move(*read);
    result_.state_hash = state_hash(digests);
    if (!options_.keep_state) return {};
    Result<std::map<int64_t, std::string>> bytes = run_->state_bytes();
    if (!bytes) return pass(bytes.error());
    result_.final_state.tensors = std::move(*bytes);
    result_.final_state.steps = run_->steps_before() + options_.steps;
    return {};
  }

  // Values of all ranks of what differs by rank.
  Status gather_state() {
    if (!options_.keep_state) return {};
    for (const ManifestParameter& parameter : program_.manifest.parameters) {
      if (parameter.role != ParameterRole::kState || !parameter.per_rank)
        continue;
      std::string& bytes = result_.final_state.tensors[parameter.index];
      const Result<std::vector<std::string>> all = group_.all_gather(bytes);
      if (!all) return pass(all.error());
      bytes = fmt::format("{}", fmt::join(*all, ""));
    }
    return {};
  }

  Status combine_steps() {
    const auto durations = gather_values(group_, durations_);
    if (!durations) return pass(durations.error());
    const auto losses = gather_values(group_, losses_);
    if (!losses) return pass(losses.error());
    const auto corrects = gather_values(group_, corrects_);
    if (!corrects) return pass(corrects.error());
    const auto device_durations = gather_values(group_, device_durations_);
    if (!device_durations) return pass(device_durations.error());
    const double ranks = static_cast<double>(group_.size());
    const double rows = static_cast<double>(run_->batch_rows()) * ranks;
    for (size_t step = 0; step < durations_.size(); ++step) {
      int64_t slowest = 0, device_slowest = 0;
      double loss = 0, correct = 0;
      for (size_t rank = 0; rank < losses->size(); ++rank) {
        slowest = std::max(slowest, (*durations)[rank][step]);
        loss += (*losses)[rank][step];
        if (!corrects_.empty()) correct += (*corrects)[rank][step];
        if (!device_durations_.empty()) {
          device_slowest =
              std::max(device_slowest, (*device_durations)[rank][step]);
        }
      }
      if (static_cast<int64_t>(step) >= options_.warmup) {
        result_.step_ns.push_back(slowest);
        if (!device_durations_.empty())
          result_.device_step_ns.push_back(device_slowest);
      }
      if (has_loss()) result_.loss.push_back(loss / ranks);
      if (!corrects_.empty()) result_.accuracy.push_back(correct / rows);
    }
    return {};
  }

  bool has_loss() const {
    const auto& outputs = program_.manifest.outputs;
    return std::any_of(outputs.begin(), outputs.end(),
                       [](const ManifestOutput& output) {
                         return output.role == OutputRole::kLoss;
                       });
  }

  Status check_results() {
    if (group_.rank() != 0) return {};
    Result<Verification> verification =
        reprise::verify(program_.manifest, *run_, result_.loss);
    if (!verification) return pass(verification.error());
    result_.verification = std::move(*verification);
    return {};
  }

  const TrainingProgram& program_;
  const TrainOptions& options_;
  TrainingDevice& device_;
  ProcessGroup& group_;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<TrainingRun> run_;
  ClockReading first_clock_;
  std::vector<int64_t> durations_, device_durations_;
  std::vector<double> losses_, corrects_;
  std::optional<LossWatch> watch_;
  TrainResult result_;
};

}  // namespace

Status agree(ProcessGroup& group, const Status& mine) {
  std::string message;
  if (!mine) {
    message = static_cast<char>('0' + static_cast<int>(mine.error().kind)) +
              mine.error().message;
  }
  const Result<std::vector<std::string>> all = group.all_gather(message);
  if (!all) return pass(all.error());
  for (size_t rank = 0; rank < all->size(); ++rank) {
    const std::string& text = (*all)[rank];
    if (text.empty()) continue;
    const ErrorKind kind = static_cast<ErrorKind>(text[0] - '0');
    if (rank == 0) return fail(kind, "{}", text.substr(1));
    return fail(kind, "rank {}: {}", rank, text.substr(1));
  }
  return {};
}

Result<TrainResult> train(const TrainingProgram& program,
                          const TrainOptions& options, TrainingDevice& device,
                          ProcessGroup& group) {
  return Session(program, options, device, group).run();
}

}  // namespace reprise
