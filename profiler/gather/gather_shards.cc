// Shards are taken in the order of their ranks, and each one's events sorted by
// (start, stream): so the trace is in its order without a sort of the whole.
// Cost: a sort a rank.
#include "profiler/gather/gather_shards.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "profiler/shard.h"

namespace reprise {
namespace {

/// Builds one trace, shard by shard in order of rank.
class Gatherer {
 public:
  explicit Gatherer(const TrainerContext& context) : context_(context) {
    trace_.program_text = context.program_text;
    trace_.manifest_text = context.manifest_text;
    trace_.plan_text = context.plan_text;
    trace_.environment = context.environment;
    for (const UnitLabel& unit : context.units) {
      unit_names_.push_back(intern(unit.name));
      first_info_.push_back(static_cast<int32_t>(trace_.collectives.size()));
      if (unit.kind != EventKind::kCollective) continue;
      for (const std::vector<uint32_t>& group : unit.groups) {
        trace_.collectives.push_back(
            {.kind = unit.collective,
             .group = group,
             .group_size = static_cast<int64_t>(group.size())});
      }
      if (unit.groups.empty())
        trace_.collectives.push_back({.kind = unit.collective});
    }
  }

  Status add(const Shard& shard);
  Trace finish() &&;

 private:
  StringId intern(const std::string& text) {
    const auto [place, is_new] = ids_.try_emplace(
        text, StringId{static_cast<uint32_t>(trace_.strings.size())});
    if (is_new) trace_.strings.push_back(text);
    return place->second;
  }
  /// What a collective is and who meets a rank in it, a place in the trace's
  /// collectives; -1: the rank is in no group.
  int32_t info_of(size_t unit, uint32_t rank) const {
    const auto& groups = context_.units[unit].groups;
    if (groups.empty()) return first_info_[unit];
    for (size_t g = 0; g < groups.size(); ++g) {
      if (std::find(groups[g].begin(), groups[g].end(), rank) !=
          groups[g].end())
        return first_info_[unit] + static_cast<int32_t>(g);
    }
    return -1;
  }
  Status add_event(const Shard& shard, uint32_t stream,
                   const ShardEvent& recorded);

  const TrainerContext& context_;
  std::unordered_map<std::string, StringId> ids_;
  std::vector<StringId> unit_names_;
  std::vector<int32_t> first_info_;  ///< [unit] of a collective's.
  Trace trace_;
};

Status Gatherer::add_event(const Shard& shard, uint32_t stream,
                           const ShardEvent& recorded) {
  const uint32_t kind = recorded.step_and_kind & 15;
  const bool has_unit = recorded.unit >= 0;
  if (kind > static_cast<uint32_t>(EventKind::kOther) ||
      recorded.end_ns < recorded.start_ns) {
    return fail(ErrorKind::kInvalid,
                "rank {}: an event of stream {} has kind {}, start {}, end {}",
                shard.rank.rank, shard.streams[stream], kind, recorded.start_ns,
                recorded.end_ns);
  }
  if (has_unit && static_cast<size_t>(recorded.unit) >= unit_names_.size()) {
    return fail(ErrorKind::kInvalid,
                "rank {}: an event of stream {} names unit {}, the schedule "
                "has {} units",
                shard.rank.rank, shard.streams[stream], recorded.unit,
                unit_names_.size());
  }
  const auto event_kind = static_cast<EventKind>(kind);
  const size_t unit = has_unit ? static_cast<size_t>(recorded.unit) : 0;
  trace_.events.push_back(
      {.rank = shard.rank.rank,
       .stream = stream,
       .kind = event_kind,
       .step = static_cast<int32_t>(recorded.step_and_kind >> 4) - 1,
       .unit = recorded.unit,
       .name = has_unit ? unit_names_[unit]
                        : intern(std::string(name_of(event_kind))),
       .enqueue_ns = recorded.enqueue_ns,
       .start_ns = recorded.start_ns,
       .end_ns = recorded.end_ns,
       .bytes = has_unit && (event_kind == EventKind::kCollective ||
                             event_kind == EventKind::kCompute)
                    ? context_.units[unit].bytes
                    : 0,
       .correlation = recorded.correlation,
       .detail = has_unit && event_kind == EventKind::kCollective
                     ? info_of(unit, shard.rank.rank)
                     : -1});
  return {};
}

Status Gatherer::add(const Shard& shard) {
  if (!trace_.ranks.empty() && trace_.ranks.back().rank == shard.rank.rank) {
    return fail(ErrorKind::kInvalid, "two shards are of rank {}",
                shard.rank.rank);
  }
  const auto first_stream = static_cast<uint32_t>(trace_.streams.size());
  const size_t first_event = trace_.events.size();
  trace_.ranks.push_back(shard.rank);
  for (const std::string& name : shard.streams) {
    trace_.streams.push_back({.rank = shard.rank.rank, .name = name});
  }
  for (const StreamEvents& run : shard.runs) {
    for (const ShardEvent& recorded : run.events) {
      if (Status added = add_event(shard, run.stream, recorded); !added) {
        return added;
      }
      trace_.events.back().stream += first_stream;
    }
  }
  const auto by_time = [](const Event& a, const Event& b) {
    return std::tie(a.start_ns, a.stream) < std::tie(b.start_ns, b.stream);
  };
  std::stable_sort(
      trace_.events.begin() + static_cast<std::ptrdiff_t>(first_event),
      trace_.events.end(), by_time);
  const size_t first_step = trace_.steps.size();
  trace_.steps.insert(trace_.steps.end(), shard.steps.begin(),
                      shard.steps.end());
  std::stable_sort(
      trace_.steps.begin() + static_cast<std::ptrdiff_t>(first_step),
      trace_.steps.end(),
      [](const StepMark& a, const StepMark& b) { return a.step < b.step; });
  trace_.warnings.insert(trace_.warnings.end(), shard.warnings.begin(),
                         shard.warnings.end());
  return {};
}

Trace Gatherer::finish() && { return std::move(trace_); }

}  // namespace

Result<Trace> gather_shards(const std::vector<std::string>& paths,
                            const TrainerContext& context) {
  std::vector<Shard> shards;
  for (const std::string& path : paths) {
    Result<Shard> shard = read_shard(path);
    if (!shard) return pass(shard.error());
    shards.push_back(std::move(*shard));
  }
  std::stable_sort(
      shards.begin(), shards.end(),
      [](const Shard& a, const Shard& b) { return a.rank.rank < b.rank.rank; });
  Gatherer gatherer(context);
  for (const Shard& shard : shards) {
    if (Status added = gatherer.add(shard); !added) return pass(added.error());
  }
  return std::move(gatherer).finish();
}

}  // namespace reprise
