// Aligns clocks, reads every rank, keeps steps in which all ranks make the same
// gradients in the same order, and matches all-reduces to runs of gradients by
// type and bytes. Steps outside of the middle half of times are left out.
#include "optimizer/ddp/ddp_recording.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "costmodel/recorded_steps.h"
#include "data/collective/collective_names.h"
#include "data/integers.h"
#include "data/median.h"
#include "data/trace/framework.h"
#include "data/trace/intervals.h"
#include "data/trace/job_size.h"
#include "optimizer/ddp/ddp_passes.h"
#include "optimizer/ddp/ddp_rank.h"
#include "optimizer/ddp/ddp_refusal.h"
#include "optimizer/ddp/horovod_recording.h"
#include "replay/clocks/clock_alignment.h"
#include "replay/collectives/collective_description.h"
#include "replay/collectives/collectives.h"

namespace reprise {
namespace {

/// Type, shape and bytes of each gradient, in the order of accumulation.
using Signature = std::vector<std::tuple<std::string, std::string, int64_t>>;

/// The dimensions in an operator's attributes, as recorded: what else they hold
/// changes from step to step.
std::string_view dimensions_of(std::string_view attributes) {
  const size_t at = attributes.find("\"input_dims\":");
  if (at == std::string_view::npos) return {};
  size_t end = attributes.find('[', at);
  for (int depth = 0; end < attributes.size(); ++end) {
    if (attributes[end] == '[') ++depth;
    if (attributes[end] == ']' && --depth == 0) break;
  }
  return attributes.substr(at, std::min(end, attributes.size()) - at);
}

/// Which gradients each all-reduce of the step carries; those that carry
/// none (a loss, a metric) are taken out. Nothing when gradients are left.
std::optional<std::vector<DdpBucket>> carried(
    const std::vector<DdpGradient>& all, DdpStep& step) {
  std::map<std::string, std::vector<uint32_t>> left;
  for (uint32_t i = 0; i < all.size(); ++i) {
    left[all[i].type].push_back(i);
  }
  std::map<std::string, size_t> next;
  std::vector<DdpBucket> buckets;
  std::vector<DdpTransfer> carriers;
  size_t covered = 0;
  for (const DdpTransfer& transfer : step.transfers) {
    for (const auto& [type, gradients] : left) {
      DdpBucket bucket;
      int64_t bytes = 0;
      for (size_t i = next[type];
           i < gradients.size() && bytes < transfer.bytes; ++i) {
        bucket.gradients.push_back(gradients[i]);
        bytes += all[gradients[i]].bytes;
      }
      if (bytes != transfer.bytes || bucket.gradients.empty()) continue;
      next[type] += bucket.gradients.size();
      covered += bucket.gradients.size();
      buckets.push_back(std::move(bucket));
      carriers.push_back(transfer);
      break;
    }
  }
  if (covered != all.size()) return std::nullopt;
  step.transfers = std::move(carriers);
  return buckets;
}

/// Steps whose all-reduces are those of metrics and losses, if any: less than a
/// thousandth of the gradients.
size_t count_unreduced(const DdpRecording& recording) {
  int64_t gradients = 0;
  for (const DdpGradient& each : recording.gradients)
    gradients = saturating_add(gradients, each.bytes);
  return static_cast<size_t>(std::count_if(
      recording.steps.begin(), recording.steps.end(), [&](const DdpStep& step) {
        int64_t reduced = 0;
        for (const DdpTransfer& each : step.transfers)
          reduced = saturating_add(reduced, each.bytes);
        return reduced <= gradients / 1000;
      }));
}

/// "all-reduce/f32/2".
std::string key_of(const Trace& trace, const MatchedCollective& collective) {
  const Event& event = trace.events[collective.members.front().event];
  const CollectiveInfo* info = info_of(trace, event);
  return fmt::format(
      "{}/{}/{}", name_of(collective.kind),
      info != nullptr ? name_of(info->type) : std::string_view(),
      std::max<int64_t>(collective.group_size,
                        static_cast<int64_t>(collective.members.size())));
}

std::string recorded_ranks(const Trace& trace) {
  std::vector<uint32_t> numbers;
  for (const RankInfo& info : trace.ranks) numbers.push_back(info.rank);
  return fmt::format("{}", fmt::join(numbers, ", "));
}

/// What to know of the recording.
void add_notes(const Trace& trace, const CollectiveMatching& matching,
               size_t unreduced, DdpRecording& recording) {
  if (recording.group_size > recording.ranks) {
    recording.notes.push_back(fmt::format(
        "{} of the job's {} ranks were recorded ({}): waiting for the others "
        "cannot be told from transferring, so prices are bounds and "
        "predictions ranges; record the other ranks too",
        recording.ranks, recording.group_size, recorded_ranks(trace)));
  } else if (recording.ranks < 2) {
    recording.notes.push_back(
        "only one rank was recorded: time spent waiting for the others "
        "counts as transfer");
  }
  if (unreduced > 0) {
    recording.notes.push_back(fmt::format(
        "{} of the steps reduce no gradient (no_sync): times are those of "
        "the steps that do, and of the others no bucket changes any",
        unreduced));
  }
  if (finds_unused_parameters(trace)) {
    recording.notes.push_back(
        "DDP(find_unused_parameters=True) though each parameter gets a "
        "gradient: leave that out, under it DDP keeps the buckets that it was "
        "constructed with, whatever is planned");
  }
  recording.notes.insert(recording.notes.end(), matching.notes.begin(),
                         matching.notes.end());
}

class Reading {
 public:
  explicit Reading(Trace& trace) : trace_(trace) {}

  Result<DdpRecording> run() {
    matching_ = match_collectives(trace_);
    align_clocks(trace_, matching_);
    for (const RankInfo& info : trace_.ranks) {
      ranks_.push_back(read_ddp_rank(trace_, info));
      recording_.host_only |= ranks_.back().work.host_only;
    }
    recording_.ranks = ranks_.size();
    if (const Status found = find_gradients(); !found) {
      return pass(found.error());
    }
    for (const int32_t number : common_steps()) add_step(number);
    if (recording_.steps.empty()) {
      return pass(no_common_step(trace_, matching_, recording_));
    }
    place_transfers();
    if (const Status carried = find_buckets(); !carried) {
      return pass(carried.error());
    }
    if (const Status single = check_single_pass(
            ranks_.front().steps.at(recording_.steps.front().step), recording_);
        !single) {
      return pass(single.error());
    }
    keep_middle_steps(recording_);
    collect_compute();
    count_workers();
    add_notes(trace_, matching_, unreduced_, recording_);
    return std::move(recording_);
  }

 private:
  Status find_gradients() {
    bool has_steps = false;
    std::map<Signature, int> counts;
    for (const DdpRank& rank : ranks_) {
      for (const auto& [number, step] : rank.steps) {
        has_steps = true;
        if (step.accumulations.empty()) continue;
        counts[signature(step)] += 1;
      }
    }
    if (!has_steps) {
      return fail(ErrorKind::kInvalid, "the trace marks no whole step; {}",
                  kHowToRecord);
    }
    const auto most = std::max_element(
        counts.begin(), counts.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == counts.end()) {
      return fail(ErrorKind::kInvalid,
                  "the trace holds no gradient (no '{}' operator in a step): "
                  "is it of PyTorch's backward pass, on the host? {}",
                  kAccumulateGrad, kHowToRecord);
    }
    for (const auto& [type, shape, bytes] : most->first) {
      if (bytes <= 0) {
        return fail(ErrorKind::kInvalid,
                    "the sizes of gradients are unknown: their operators have "
                    "no dimensions; {}",
                    kHowToRecord);
      }
      recording_.gradients.push_back(
          {.name = fmt::format("gradient.{}", recording_.gradients.size()),
           .type = type,
           .shape = shape,
           .bytes = bytes});
    }
    return {};
  }

  Signature signature(const DdpRankStep& step) {
    Signature all;
    for (const DdpAccumulation& each : step.accumulations) {
      const Event& event = trace_.events[each.event];
      if (event.attributes < 0) {
        all.emplace_back();
        continue;
      }
      auto known = by_attributes_.find(event.attributes);
      if (known == by_attributes_.end()) {
        known = by_attributes_
                    .emplace(event.attributes, ddp_gradient_of(trace_, event))
                    .first;
      }
      const DdpGradient& gradient = known->second;
      all.emplace_back(gradient.type, gradient.shape, gradient.bytes);
    }
    return all;
  }

  /// Steps that all ranks have, with the same gradients.
  std::vector<int32_t> common_steps() {
    Signature wanted;
    for (const DdpGradient& each : recording_.gradients) {
      wanted.emplace_back(each.type, each.shape, each.bytes);
    }
    std::vector<int32_t> common;
    for (const auto& [number, first] : ranks_.front().steps) {
      bool everywhere = true;
      for (const DdpRank& rank : ranks_) {
        const auto step = rank.steps.find(number);
        everywhere = everywhere && step != rank.steps.end() &&
                     signature(step->second) == wanted;
      }
      if (everywhere) common.push_back(number);
    }
    return common;
  }

  void add_step(int32_t number) {
    DdpStep step;
    step.step = number;
    step.start_ns = std::numeric_limits<int64_t>::max();
    int64_t next_ns = step.start_ns;
    for (const DdpRank& rank : ranks_) {
      const DdpRankStep& own = rank.steps.at(number);
      step.start_ns =
          std::min(step.start_ns, to_rank0_ns(rank.info, own.work_start_ns));
      next_ns = std::min(next_ns, to_rank0_ns(rank.info, own.work_end_ns));
      step.time_ns =
          std::max(step.time_ns, own.work_end_ns - own.work_start_ns);
      std::vector<int64_t> ready;
      for (const DdpAccumulation& each : own.accumulations) {
        const int64_t time_ns =
            to_rank0_ns(rank.info, rank.ready_ns(each.end_ns));
        ready.push_back(ready.empty() ? time_ns
                                      : std::max(time_ns, ready.back()));
      }
      step.ready_ns.push_back(std::move(ready));
    }
    // Until the first rank's device begins the next: a rank that is late in one
    // step alone has a long step before it and a short one from then on.
    if (!recording_.host_only) step.time_ns = next_ns - step.start_ns;
    recording_.steps.push_back(std::move(step));
  }

  /// Gives each step the collectives that its first member took part in.
  void place_transfers() {
    recording_.group_size = job_size(trace_);
    for (const MatchedCollective& each : matching_.collectives) {
      const bool is_barrier = each.kind == CollectiveKind::kBarrier;
      if (each.kind != CollectiveKind::kAllReduce && !is_barrier) continue;
      recording_.group_size =
          std::max(recording_.group_size,
                   static_cast<size_t>(std::max<int64_t>(0, each.group_size)));
      const CollectiveTimes times = times_of(each, trace_);
      for (DdpStep& step : recording_.steps) {
        if (times.arrival_ns < step.start_ns ||
            times.arrival_ns >= step.start_ns + step.time_ns) {
          continue;
        }
        if (is_barrier) {
          step.barrier_ns.push_back(times.transfer_ns);
        } else {
          step.transfers.push_back(
              {.bytes = each.bytes,
               .arrival_ns = times.arrival_ns,
               .end_ns = times.arrival_ns + times.transfer_ns,
               .stream = trace_.events[each.members.front().event].stream,
               .collective =
                   fmt::format("{} {}", name_of(each.kind), each.sequence)});
          if (recording_.collective_key.empty())
            recording_.collective_key = key_of(trace_, each);
        }
        break;
      }
    }
    for (DdpStep& step : recording_.steps) {
      std::stable_sort(step.transfers.begin(), step.transfers.end(),
                       [](const DdpTransfer& a, const DdpTransfer& b) {
                         return a.arrival_ns < b.arrival_ns;
                       });
    }
  }

  Status find_buckets() {
    Status found = match_buckets();
    // A backward pass of identical layers repeats itself, too: only then.
    const size_t forwards = ranks_.front()
                                .steps.at(recording_.steps.front().step)
                                .forwards_ns.size();
    if (!found && keep_last_pass(forwards, recording_)) found = match_buckets();
    return found;
  }

  /// Steps whose all-reduces carry all gradients, in the most common buckets.
  Status match_buckets() {
    std::vector<std::pair<std::vector<DdpBucket>, DdpStep>> found;
    std::vector<size_t> alike;
    unreduced_ = count_unreduced(recording_);
    for (DdpStep& step : recording_.steps) {
      if (auto buckets = carried(recording_.gradients, step)) {
        found.emplace_back(*std::move(buckets), std::move(step));
      }
    }
    alike.reserve(found.size());
    for (const auto& each : found) {
      alike.push_back(static_cast<size_t>(std::count_if(
          found.begin(), found.end(),
          [&](const auto& other) { return other.first == each.first; })));
    }
    if (found.empty()) return pass(no_buckets(trace_, matching_, recording_));
    recording_.steps.clear();
    const auto most = std::max_element(alike.begin(), alike.end());
    recording_.buckets = found[static_cast<size_t>(most - alike.begin())].first;
    for (auto& [buckets, step] : found) {
      if (buckets == recording_.buckets) {
        recording_.steps.push_back(std::move(step));
      }
    }
    return {};
  }

  /// Operators or kernels within the kept steps, by name and dimensions.
  void collect_compute() {
    std::vector<Interval> flights, windows;
    for (const DdpStep& step : recording_.steps) {
      windows.push_back({step.start_ns, step.start_ns + step.time_ns});
      for (const DdpTransfer& each : step.transfers) {
        flights.push_back({each.arrival_ns, each.end_ns});
      }
    }
    const IntervalSet in_flight(std::move(flights)), in_step(windows);
    for (const DdpRank& rank : ranks_) {
      for (const DeviceEvent& each : rank.work.events) {
        const int64_t duration_ns = each.end_ns - each.start_ns;
        if (each.work != WorkClass::kCompute || duration_ns <= 0 ||
            each.own_ns != duration_ns) {
          continue;
        }
        const int64_t start_ns = to_rank0_ns(rank.info, each.start_ns);
        const int64_t end_ns = to_rank0_ns(rank.info, each.end_ns);
        if (in_step.length_within_ns(start_ns, end_ns) <= 0) continue;
        const Event& event = trace_.events[each.event];
        std::string key = trace_.text(event.name);
        if (event.attributes >= 0) {
          key += dimensions_of(
              trace_.strings[static_cast<size_t>(event.attributes)]);
        }
        recording_.compute[key].samples.push_back(
            {.duration_ns = static_cast<double>(duration_ns),
             .beside_ns = static_cast<double>(
                 in_flight.length_within_ns(start_ns, end_ns))});
      }
    }
  }

  /// Of the buckets' all-reduces alone: other groups' have streams of theirs.
  void count_workers() {
    std::map<uint32_t, std::set<uint32_t>> streams;  // By rank.
    for (const DdpStep& step : recording_.steps) {
      for (const DdpTransfer& each : step.transfers) {
        streams[trace_.streams[each.stream].rank].insert(each.stream);
      }
    }
    size_t most = 1;
    for (const auto& [rank, of_rank] : streams) {
      most = std::max(most, of_rank.size());
    }
    recording_.workers = static_cast<int>(std::min<size_t>(most, 64));
  }

  Trace& trace_;
  CollectiveMatching matching_;
  std::vector<DdpRank> ranks_;
  std::map<int32_t, DdpGradient> by_attributes_;  // By Event::attributes.
  DdpRecording recording_;
  size_t unreduced_ = 0;  // Common steps without an all-reduce of gradients.
};

bool accumulates_gradients(const Trace& trace) {
  return std::find(trace.strings.begin(), trace.strings.end(),
                   kAccumulateGrad) != trace.strings.end();
}

}  // namespace

void keep_middle_steps(DdpRecording& recording) {
  std::vector<int64_t> times;
  for (const DdpStep& step : recording.steps) times.push_back(step.time_ns);
  recording.step_time_ns = median(std::move(times));
  recording.steps = middle_steps(std::move(recording.steps));
}

Result<DdpRecording> ddp_recording(Trace& trace) {
  if (!accumulates_gradients(trace)) {
    if (!trace.modules.empty()) return pass(no_pytorch(trace));
    // A data-flow graph, as dPRO's.
    if (!trace.dependencies.empty()) return horovod_recording(trace);
    if (framework_of(trace) != Framework::kPyTorch)
      return pass(no_pytorch(trace));
  }
  return Reading(trace).run();
}

}  // namespace reprise
