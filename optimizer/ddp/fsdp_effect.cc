#include "optimizer/ddp/fsdp_effect.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "data/io/decimal.h"
#include "data/io/json_tree.h"
#include "data/io/printable_text.h"
#include "optimizer/ddp/ddp_rank.h"

namespace reprise {
namespace {

constexpr std::string_view kReduce = "FSDP::post_backward_reduce";
constexpr std::string_view kCopyIn = "fsdp::chunk_cat";
constexpr std::string_view kForward = "FSDP::forward_prefetch for ";
constexpr std::string_view kBackward = "FSDP::backward_prefetch for ";

/// "FSDP::… (a, b)" -> "a, b"; "" of the model's own.
std::string modules_of(std::string_view label) {
  const size_t open = label.find(" ("), close = label.rfind(')');
  if (open == label.npos || close == label.npos || close < open) return {};
  return std::string(label.substr(open + 2, close - open - 2));
}

/// What the copy into a group's buffer tells: its gradients, if they are few
/// enough for the profiler to list them, and the buffer's size.
struct CopyIn {
  std::vector<std::string> shapes;
  int64_t ranks = 0, elements = 0;  ///< Of the buffer: [ranks, elements].
};

CopyIn copy_in_of(const Trace& trace, const Event& event) {
  CopyIn copy;
  if (event.attributes < 0) return copy;
  const nlohmann::json attributes = parse_json_or_discard<nlohmann::json>(
      trace.strings[static_cast<size_t>(event.attributes)]);
  if (!attributes.is_object()) return copy;
  const auto dims = attributes.find("input_dims");
  if (dims == attributes.end() || !dims->is_array() || dims->empty())
    return copy;
  for (const nlohmann::json& each : dims->front()) {
    copy.shapes.push_back(shape_text(each));
  }
  const nlohmann::json& out = dims->back();
  if (out.is_array() && out.size() == 2 && out[0].is_number_integer() &&
      out[1].is_number_integer()) {
    copy.ranks = out[0].get<int64_t>();
    copy.elements = out[1].get<int64_t>();
  }
  return copy;
}

bool within(const Event& inner, const Event& outer) {
  return inner.stream == outer.stream && inner.start_ns >= outer.start_ns &&
         inner.end_ns <= outer.end_ns;
}

/// No buffer holds more; sums of some stay within 64 bits.
constexpr int64_t kMostElements = int64_t{1} << 50;

/// Elements of a gradient's part in each rank's row of a buffer: FSDP2 fills
/// the first dimension up to a multiple of the ranks.
int64_t row_elements(std::string_view shape, int64_t ranks) {
  double elements = 1;
  bool first = true;
  while (!shape.empty() && shape != "scalar") {
    const size_t end = std::min(shape.find('x'), shape.size());
    int64_t extent = parse_integer(shape.substr(0, end)).value_or(0);
    if (extent < 0 || extent > kMostElements) return -1;
    if (first) extent = (extent + ranks - 1) / ranks;
    first = false;
    elements *= static_cast<double>(extent);
    shape.remove_prefix(std::min(end + 1, shape.size()));
  }
  return elements <= kMostElements ? static_cast<int64_t>(elements) : -1;
}

bool fills(const std::vector<std::string>& shapes, const CopyIn& copy) {
  int64_t sum = 0;
  for (const std::string& shape : shapes) {
    const int64_t elements = row_elements(shape, copy.ranks);
    if (elements < 0 || sum > copy.elements) return false;
    sum += elements;
  }
  return sum == copy.elements;
}

void take_out(const std::vector<std::string>& some,
              std::vector<std::string>& all) {
  for (const std::string& each : some) {
    const auto found = std::find(all.begin(), all.end(), each);
    if (found != all.end()) all.erase(found);
  }
}

/// What of FSDP2 happened in a step of a rank.
class FsdpStep {
 public:
  FsdpStep(const Trace& trace, const RankInfo& rank, const StepMark& step)
      : trace_(trace) {
    const auto [begin, end] = events_of_rank(trace, rank.rank);
    for (size_t at = begin; at < end; ++at) {
      const Event& event = trace.events[at];
      if (event.start_ns >= step.start_ns && event.start_ns < step.end_ns)
        add(event);
    }
    const auto earlier = [](const Event* a, const Event* b) {
      return a->start_ns < b->start_ns;
    };
    std::stable_sort(reductions_.begin(), reductions_.end(), earlier);
    std::stable_sort(gradients_.begin(), gradients_.end(), earlier);
  }

  std::vector<FsdpGroup> groups() const {
    std::vector<FsdpGroup> groups;
    std::vector<CopyIn> copies;
    for (const Event* range : reductions_) {
      const std::string modules = modules_of(trace_.text(range->name));
      CopyIn& copy = copies.emplace_back();
      for (const Event* each : copies_) {
        if (within(*each, *range)) copy = copy_in_of(trace_, *each);
      }
      groups.push_back({.modules = modules,
                        .shapes = copy.shapes,
                        .prefetched_forward = forward_.contains(modules),
                        .prefetched_backward = backward_.contains(modules)});
    }
    infer_long_lists(copies, groups);
    return groups;
  }

 private:
  void add(const Event& event) {
    const std::string_view name = trace_.text(event.name);
    if (name.starts_with(kReduce)) {
      reductions_.push_back(&event);
    } else if (name.starts_with(kCopyIn)) {
      copies_.push_back(&event);
    } else if (name == kAccumulateGrad && event.attributes >= 0) {
      gradients_.push_back(&event);
    } else if (name.starts_with(kForward)) {
      forward_.emplace(name.substr(kForward.size()));
    } else if (name.starts_with(kBackward)) {
      backward_.emplace(name.substr(kBackward.size()));
    }
  }

  /// The profiler lists no more than 30 tensors. A group's gradients are those
  /// that were accumulated since the group before was reduced, less the model's
  /// own; that they fill the buffer exactly shows that they are.
  void infer_long_lists(const std::vector<CopyIn>& copies,
                        std::vector<FsdpGroup>& groups) const {
    std::vector<std::string> own;
    for (const FsdpGroup& group : groups) {
      if (group.modules.empty()) own = group.shapes;
    }
    int64_t since_ns = std::numeric_limits<int64_t>::min();
    for (size_t at = 0; at < groups.size(); ++at) {
      if (groups[at].modules.empty()) continue;
      const int64_t until_ns = reductions_[at]->start_ns;
      if (groups[at].shapes.empty() && copies[at].ranks > 0 &&
          copies[at].ranks <= kMostElements) {
        std::vector<std::string> shapes;
        for (const Event* each : gradients_) {
          if (each->start_ns >= since_ns && each->start_ns < until_ns)
            shapes.push_back(ddp_gradient_of(trace_, *each).shape);
        }
        if (!fills(shapes, copies[at])) take_out(own, shapes);
        if (fills(shapes, copies[at])) groups[at].shapes = std::move(shapes);
      }
      since_ns = until_ns;
    }
  }

  const Trace& trace_;
  std::vector<const Event*> reductions_, copies_, gradients_;
  std::set<std::string, std::less<>> forward_, backward_;
};

std::string called(const FsdpGroup& group) {
  constexpr size_t kShown = 60;
  if (group.modules.empty()) return "the model's own";
  if (group.modules.size() <= kShown) return printable_text(group.modules);
  const size_t end = group.modules.rfind(", ", kShown);
  return printable_text(group.modules.substr(0, std::min(end, kShown))) +
         ", ...";
}

/// What of each planned bucket is in each group.
class Overlap {
 public:
  Overlap(const Plan& plan, const std::vector<FsdpGroup>& groups)
      : buckets_(plan.buckets.size()), groups_(groups.size()) {
    bytes_.resize(buckets_ * groups_);
    std::map<std::string, size_t> bucket_of;
    for (size_t bucket = 0; bucket < buckets_; ++bucket) {
      for (const std::string& name : plan.buckets[bucket].collectives)
        bucket_of[name] = bucket;
    }
    // Of gradients that look alike, a group that is reduced first has those
    // that are ready first.
    const std::vector<PlannedGradient>& planned = plan.trace->gradients;
    std::vector<bool> taken(planned.size());
    for (size_t group = 0; group < groups_; ++group) {
      for (const std::string& shape : groups[group].shapes) {
        size_t at = 0;
        while (at < planned.size() && (taken[at] || planned[at].shape != shape))
          ++at;
        if (at == planned.size()) {
          same_gradients_ = false;
          continue;
        }
        taken[at] = true;
        const auto bucket = bucket_of.find(planned[at].name);
        if (bucket != bucket_of.end())
          bytes_[bucket->second * groups_ + group] += planned[at].bytes;
      }
    }
    same_gradients_ &=
        std::find(taken.begin(), taken.end(), false) == taken.end();
  }

  bool same_gradients() const { return same_gradients_; }
  int64_t bytes(size_t bucket, size_t group) const {
    return bytes_[bucket * groups_ + group];
  }
  /// The bucket that most of a group's bytes are of; as the exported module
  /// has it, the later of equal ones.
  size_t home(size_t group) const {
    size_t most = 0;
    for (size_t bucket = 1; bucket < buckets_; ++bucket) {
      if (bytes(bucket, group) >= bytes(most, group)) most = bucket;
    }
    return most;
  }
  /// The group that holds all of a bucket, or one past the last.
  size_t holder(size_t bucket) const {
    size_t holder = groups_;
    for (size_t group = 0; group < groups_; ++group) {
      if (bytes(bucket, group) == 0) continue;
      if (holder < groups_) return groups_;
      holder = group;
    }
    return holder;
  }

 private:
  size_t buckets_, groups_;
  std::vector<int64_t> bytes_;  // [bucket][group]
  bool same_gradients_ = true;
};

/// The first group that is not one of the plan's, in a sentence; "" if none.
std::string grouped_otherwise(const Plan& plan,
                              const std::vector<FsdpGroup>& groups,
                              const Overlap& overlap) {
  std::map<size_t, size_t> group_of;  // By bucket.
  for (size_t group = 0; group < groups.size(); ++group) {
    if (groups[group].modules.empty()) continue;
    const size_t home = overlap.home(group);
    const auto [other, fresh] = group_of.emplace(home, group);
    if (!fresh) {
      return fmt::format("bucket {} is cut into the groups ({}) and ({})", home,
                         called(groups[other->second]), called(groups[group]));
    }
  }
  for (size_t bucket = 0; bucket < plan.buckets.size(); ++bucket) {
    if (group_of.contains(bucket)) continue;
    const size_t holder = overlap.holder(bucket);
    if (holder == groups.size()) continue;  // Cut where its modules end.
    const std::string& modules = groups[holder].modules;
    // One module that has several buckets in it cannot be cut.
    if (!modules.empty() && modules.find(", ") == modules.npos) continue;
    return fmt::format("bucket {} has no group: its gradients are in ({})",
                       bucket, called(groups[holder]));
  }
  return {};
}

/// The first group that is not gathered ahead, in a sentence; "" if none. In
/// forward nobody can prefetch the first, which is reduced last, in backward
/// the first to be reduced.
std::string not_prefetched(const std::vector<FsdpGroup>& groups) {
  std::vector<const FsdpGroup*> named;
  for (const FsdpGroup& group : groups) {
    if (!group.modules.empty()) named.push_back(&group);
  }
  for (size_t at = 0; at < named.size(); ++at) {
    if (at + 1 < named.size() && !named[at]->prefetched_forward) {
      return fmt::format("({}) is not prefetched in forward",
                         called(*named[at]));
    }
    if (at > 0 && !named[at]->prefetched_backward) {
      return fmt::format("({}) is not prefetched in backward",
                         called(*named[at]));
    }
  }
  return {};
}

FsdpEffect effect_on_rank(const Plan& plan,
                          const std::vector<FsdpGroup>& groups) {
  const auto named = std::count_if(
      groups.begin(), groups.end(),
      [](const FsdpGroup& group) { return !group.modules.empty(); });
  if (std::any_of(groups.begin(), groups.end(), [](const FsdpGroup& group) {
        return group.shapes.empty();
      })) {
    return {.in_effect = std::nullopt,
            .told =
                "FSDP2's groups are seen, their gradients are not: record "
                "with torch.profiler.profile(record_shapes=True)"};
  }
  const Overlap overlap(plan, groups);
  if (!overlap.same_gradients()) {
    return {.in_effect = false, .same_gradients = false};
  }
  std::string told = grouped_otherwise(plan, groups, overlap);
  if (!told.empty()) return {.in_effect = false, .told = std::move(told)};
  told = not_prefetched(groups);
  if (!told.empty()) {
    return {.in_effect = false,
            .told = "FSDP2's groups are as planned, but " + told};
  }
  return {.in_effect = true,
          .told = fmt::format("FSDP2's {} groups are of a planned bucket each, "
                              "and are prefetched",
                              named)};
}

}  // namespace

std::vector<std::vector<FsdpGroup>> fsdp_groups(const Trace& trace) {
  std::vector<std::vector<FsdpGroup>> ranks;
  for (const RankInfo& rank : trace.ranks) {
    for (auto step = trace.steps.rbegin(); step != trace.steps.rend(); ++step) {
      if (step->rank != rank.rank) continue;
      std::vector<FsdpGroup> groups = FsdpStep(trace, rank, *step).groups();
      if (groups.empty()) continue;
      ranks.push_back(std::move(groups));
      break;
    }
  }
  return ranks;
}

FsdpEffect fsdp_effect(const Plan& plan,
                       const std::vector<std::vector<FsdpGroup>>& ranks) {
  FsdpEffect effect;
  for (const std::vector<FsdpGroup>& groups : ranks) {
    effect = effect_on_rank(plan, groups);
    if (!effect.in_effect.value_or(false)) break;
  }
  return effect;
}

}  // namespace reprise
