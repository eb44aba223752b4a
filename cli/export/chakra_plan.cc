// chakra of a plan: the step that it predicts for the run that it was made of.
//
// Of a program: its units on every rank, as `reprise replay RUN --plan` times
// them. Of a PyTorch job: as the search of buckets saw it, where one rank
// stands for all: backward from gradient to gradient, a collective a bucket,
// and what follows them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "cli/export/chakra_nodes.h"
#include "cli/export/export_target.h"
#include "costmodel/cost_database.h"
#include "data/number_text.h"
#include "data/program/lowered_program.h"
#include "data/schedule/timed_schedule.h"
#include "data/trace/trace_database.h"
#include "optimizer/ddp/ddp_recording.h"
#include "replay/simulate/replay.h"
#include "replay/simulate/run_model.h"

namespace reprise {
namespace {

constexpr int64_t kComputeLane = 0, kTransferLane = 1;

Provenance provenance_of(const ExportRequest& request, const Plan& plan,
                         const std::string& step, const std::string& trust) {
  return {.source = fmt::format(
              "{}, a plan of {}, for the run {}, {} ranks", request.path,
              plan.made_by.empty() ? "unknown tool" : plan.made_by,
              request.recording, plan.ranks),
          .predicted = fmt::format("a step of {}.", step),
          .trust = trust +
                   " Times are rounded to microseconds; time without work is "
                   "nodes called gap.",
          .check =
              "`reprise import` of these files and `reprise replay` give the "
              "predicted step; ASTRA-sim prints each rank's cycles."};
}

/// A step of nodes in the order of their ids, each with its causes before it.
class PlannedStep {
 public:
  /// Of nodes that have nothing else: ready when all causes have ended.
  void add(ExportedNode node) {
    node.id = nodes_.size() + 1;
    nodes_.push_back(std::move(node));
  }
  size_t size() const { return nodes_.size(); }
  int64_t end_of(uint64_t id) const { return nodes_[id - 1].end_ns; }

  void write(ChakraFiles& files) && {
    for (ExportedNode& node : nodes_) {
      int64_t ready_ns = 0;
      for (const uint64_t cause : node.causes) {
        ready_ns = std::max(ready_ns, end_of(cause));
      }
      const uint64_t gap_id = nodes_.size() + node.id;
      files.add(node, std::min(ready_ns, node.start_ns), gap_id);
    }
  }

 private:
  std::vector<ExportedNode> nodes_;
};

std::vector<uint32_t> first_ranks(int64_t count) {
  std::vector<uint32_t> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

/// The program that a run embeds, under a plan.
struct ReplayedProgram {
  LoweredProgram program;
  bool in_parts = false;  ///< As TimedSchedule has it.
  Replay replay;
};

Result<ReplayedProgram> replay_planned(const ExportRequest& request,
                                       const Plan& plan) {
  const Result<AlignedTrace> run = AlignedTrace::read(request.file);
  if (!run) return pass(run.error());
  Result<LoweredProgram> program =
      lowered_program_of(run->trace(), request.recording, "");
  if (!program) return pass(program.error());
  Result<LoweredProgram> planned =
      lower_replanned(*program, request.recording, plan, request.path);
  if (!planned) return pass(planned.error());
  const auto known = load_measurements(request.costs, run->trace().environment);
  if (!known) return pass(known.error());
  const Result<RunModel> model = model_run(*run, program->schedule, *known);
  if (!model) return pass(model.error(), request.recording);
  const TimedSchedule timed(planned->schedule, run->trace().environment);
  Replay replay = replay_step(price_schedule(timed.schedule(), model->costs));
  const bool in_parts = timed.has_parts();
  return ReplayedProgram{.program = *std::move(planned),
                         .in_parts = in_parts,
                         .replay = std::move(replay)};
}

ExportedNode node_of(const Schedule& schedule, size_t at, uint32_t rank,
                     const UnitTime& time) {
  const Unit& unit = schedule.units[at];
  const bool transfers = unit.stream == Stream::kCommunication;
  ExportedNode node{.name = unit.name,
                    .start_ns = time.start_ns,
                    .end_ns = time.end_ns,
                    .lane = transfers ? kTransferLane : kComputeLane};
  const CollectiveSpec& spec = unit.collective;
  if (unit.kind != UnitKind::kCollective) return node;
  node.transfer = {.kind = spec.kind, .bytes = spec.bytes};
  if (spec.groups.empty()) {
    node.transfer->group = first_ranks(schedule.ranks);
  } else if (const auto* group = group_of(spec, rank)) {
    node.transfer->group.assign(group->begin(), group->end());
  }
  return node;
}

void add_rank(const ReplayedProgram& planned, uint32_t rank,
              ChakraFiles& files) {
  const TimedSchedule timed(planned.program.schedule, planned.in_parts);
  const Schedule& schedule = timed.schedule();
  PlannedStep step;
  uint64_t last[2] = {0, 0};  // By stream; 0: none yet.
  auto dependency = schedule.dependencies.begin();
  for (size_t at = 0; at < schedule.units.size(); ++at) {
    ExportedNode node =
        node_of(schedule, at, rank, planned.replay.times[rank][at]);
    uint64_t& before = last[static_cast<size_t>(schedule.units[at].stream)];
    if (before > 0) node.causes = {before};
    for (; dependency != schedule.dependencies.end() &&
           index_of(dependency->after) == at;
         ++dependency) {
      if (dependency->steps == 0) {
        node.causes.push_back(uint64_t{index_of(dependency->before)} + 1);
      }
    }
    step.add(std::move(node));
    before = step.size();
  }
  // What ending a step takes.
  ExportedNode end{.name = "end of the step",
                   .start_ns = planned.replay.step_time_ns,
                   .end_ns = planned.replay.step_time_ns,
                   .lane = kComputeLane};
  for (const uint64_t id : last) {
    if (id > 0) end.causes.push_back(id);
  }
  step.add(std::move(end));
  std::move(step).write(files);
}

Result<Artefact> of_program(const ExportRequest& request, const Plan& plan) {
  const Result<ReplayedProgram> planned = replay_planned(request, plan);
  if (!planned) return pass(planned.error());
  ChakraFiles files(
      provenance_of(request, plan, time_text(planned->replay.step_time_ns),
                    "durations are those of `reprise replay RUN --plan`, "
                    "beside communication and with waits for other ranks."),
      0);
  for (uint32_t rank = 0; rank < planned->replay.times.size(); ++rank) {
    files.open_rank(rank, rank);
    add_rank(*planned, rank, files);
  }
  return std::move(files).artefact();
}

/// The plan's buckets as the recording's gradients. Errors: kInvalid where
/// these are not the plan's.
Result<std::vector<DdpBucket>> buckets_in(const ExportRequest& request,
                                          const Plan& plan,
                                          const DdpModel& model) {
  std::map<std::string, uint32_t> places;
  bool same = model.gradients.size() == plan.trace->gradients.size();
  for (uint32_t at = 0; same && at < model.gradients.size(); ++at) {
    const PlannedGradient& planned = plan.trace->gradients[at];
    const DdpGradient& recorded = model.gradients[at];
    same = planned.bytes == recorded.bytes && planned.shape == recorded.shape;
    places[planned.name] = at;
  }
  std::vector<DdpBucket> buckets;
  for (const Bucket& bucket : plan.buckets) {
    DdpBucket& members = buckets.emplace_back();
    for (const std::string& name : bucket.collectives) {
      const auto place = places.find(name);
      same = same && place != places.end();
      if (same) members.gradients.push_back(place->second);
    }
    std::sort(members.gradients.begin(), members.gradients.end());
    same = same && !members.gradients.empty();
  }
  if (same) return buckets;
  return fail(ErrorKind::kInvalid,
              "{}: the gradients of {} are not those of the plan: give the "
              "trace that the plan was made of",
              request.path, request.recording);
}

PlannedStep step_of(const DdpModel& model,
                    const std::vector<DdpBucket>& buckets,
                    const DdpTimeline& timeline, int64_t ranks) {
  PlannedStep step;
  const auto ns = [](double time_ns) { return std::llround(time_ns); };
  int64_t before_ns = 0;
  for (size_t at = 0; at < model.gradients.size(); ++at) {
    ExportedNode node{.name = "backward to " + model.gradients[at].name,
                      .start_ns = before_ns,
                      .end_ns = ns(timeline.ready_ns[at]),
                      .lane = kComputeLane};
    if (at > 0) node.causes = {at};
    before_ns = node.end_ns;
    step.add(std::move(node));
  }
  ExportedNode rest{.name = "rest of the step",
                    .start_ns = before_ns,
                    .end_ns = ns(timeline.step_ns),
                    .causes = {step.size()},
                    .lane = kComputeLane};
  const std::vector<int64_t> bytes = caps_of(model.gradients, buckets);
  for (size_t at = 0; at < buckets.size(); ++at) {
    const uint64_t ready = uint64_t{buckets[at].gradients.back()} + 1;
    ExportedNode node{
        .name = fmt::format("bucket {}", at),
        .start_ns = ns(timeline.sent_ns[at]),
        .end_ns = ns(timeline.arrived_ns[at]),
        .causes = {ready},
        .lane = kTransferLane + static_cast<int64_t>(at) % model.workers,
        .transfer = ExportedTransfer{.kind = CollectiveKind::kAllReduce,
                                     .bytes = bytes[at],
                                     .group = first_ranks(ranks)}};
    // The transfer that made way for it, where it had to wait for one.
    const uint64_t first = model.gradients.size() + 1;
    uint64_t way = 0;
    for (uint64_t id = first; id < first + at; ++id) {
      const int64_t end_ns = step.end_of(id);
      if (end_ns <= node.start_ns && end_ns > step.end_of(ready) &&
          (way == 0 || end_ns > step.end_of(way)))
        way = id;
    }
    if (way > 0) node.causes.push_back(way);
    rest.start_ns = std::max(rest.start_ns, node.end_ns);
    step.add(std::move(node));
    rest.causes.push_back(step.size());
  }
  step.add(std::move(rest));
  return step;
}

Result<Artefact> of_job(const ExportRequest& request, const Plan& plan) {
  Result<Trace> trace = read_trace(request.file);
  if (!trace) return pass(trace.error());
  const Result<DdpRecording> recording = ddp_recording(*trace);
  if (!recording) return pass(recording.error(), request.recording);
  const DdpModel model = ddp_model(*recording);
  const auto buckets = buckets_in(request, plan, model);
  if (!buckets) return pass(buckets.error());
  const DdpTimeline timeline = simulate_buckets(model, *buckets);
  ChakraFiles files(
      provenance_of(
          request, plan, time_text(std::llround(timeline.step_ns)),
          "one rank stands for all: a gradient is ready when the last rank has "
          "it, and what runs beside backward is part of it."),
      0);
  for (const RankInfo& rank : trace->ranks) {
    files.open_rank(rank.rank, rank.process);
    step_of(model, *buckets, timeline,
            static_cast<int64_t>(recording->group_size))
        .write(files);
  }
  return std::move(files).artefact();
}

}  // namespace

Result<Artefact> make_planned_chakra(const ExportRequest& request) {
  const Result<Plan> plan = load_plan(request.path);
  if (!plan) return pass(plan.error());
  return plan->trace ? of_job(request, *plan) : of_program(request, *plan);
}

}  // namespace reprise
