#include "data/formats/process_shard_nccl.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "data/formats/import_ranks.h"
#include "data/formats/nccl_names.h"
#include "data/formats/nccl_profiler_calls.h"
#include "data/formats/nsys_nccl.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// A call's record follows its launch at once, or is around it.
constexpr int64_t kMostApartNs = 1'000'000;
/// Launches that are looked at on either side of a call.
constexpr size_t kMostLooked = 8;

int64_t minus(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a < b ? std::numeric_limits<int64_t>::min()
               : std::numeric_limits<int64_t>::max();
}

int64_t plus(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<int64_t>::min()
               : std::numeric_limits<int64_t>::max();
}

bool is_message(std::string_view op) { return op == "send" || op == "receive"; }

/// "input" and "output" of a call that counts `count` elements.
void set_elements(int64_t count, CollectiveInfo& info) {
  if (count < 0) return;
  int64_t whole = -1;
  if (info.group_size > 0 &&
      __builtin_mul_overflow(count, info.group_size, &whole)) {
    whole = -1;
  }
  if (info.op == "all-gather") {
    info.input_elements = count;
    info.output_elements = whole;
  } else if (info.op == "reduce-scatter") {
    info.input_elements = whole;
    info.output_elements = count;
  } else if (info.op == "all-reduce") {
    info.input_elements = info.output_elements = count;
  }
}

}  // namespace

CommunicatorMembers::CommunicatorMembers(const RankedProcesses& ranked) {
  std::map<std::string, std::map<int64_t, uint32_t>> places;
  std::map<std::string, int64_t> sizes;
  for (const RecordedProcess& process : ranked.processes) {
    if (process.rank < 0 || !process.is_main) continue;
    const RecordedRank& rank = ranked.ranks[static_cast<size_t>(process.rank)];
    if (rank.devices.size() > 1) continue;
    for (const auto& [name, place] : process.communicators) {
      places[name].emplace(place.first, rank.first_number);
      sizes[name] = std::max(sizes[name], place.second);
    }
  }
  for (const auto& [name, known] : places) {
    if (static_cast<int64_t>(known.size()) != sizes[name]) continue;
    std::vector<uint32_t>& members = members_[name];
    for (const auto& [place, number] : known) members.push_back(number);
    const std::set<uint32_t> distinct(members.begin(), members.end());
    if (distinct.size() != members.size()) members_.erase(name);
  }
}

const std::vector<uint32_t>& CommunicatorMembers::of(
    const std::string& communicator) const {
  static const std::vector<uint32_t> unknown;
  const auto found = members_.find(communicator);
  return found == members_.end() ? unknown : found->second;
}

void GpuTimer::add_upper_bound(int64_t offset_ns) {
  upper_ns_ = std::min(upper_ns_.value_or(offset_ns), offset_ns);
}

void GpuTimer::add_lower_bound(int64_t offset_ns) {
  lower_ns_ = std::max(lower_ns_.value_or(offset_ns), offset_ns);
}

void GpuTimer::finish() { std::sort(pairs_.begin(), pairs_.end()); }

int64_t GpuTimer::host_ns(int64_t timer_ns) const {
  if (pairs_.empty()) {
    return plus(timer_ns, upper_ns_ ? *upper_ns_ : lower_ns_.value_or(0));
  }
  auto nearest = std::lower_bound(
      pairs_.begin(), pairs_.end(),
      std::pair(timer_ns, std::numeric_limits<int64_t>::min()));
  if (nearest == pairs_.end() ||
      (nearest != pairs_.begin() && minus(timer_ns, std::prev(nearest)->first) <
                                        minus(nearest->first, timer_ns))) {
    --nearest;
  }
  return plus(timer_ns, nearest->second);
}

int64_t GpuTimer::residual_ns() const {
  if (!pairs_.empty()) {
    int64_t most = 0;
    for (size_t i = 1; i < pairs_.size(); ++i) {
      const int64_t apart = minus(pairs_[i].second, pairs_[i - 1].second);
      most = std::max({most, apart, minus(0, apart)});
    }
    return most;
  }
  if (!upper_ns_ || !lower_ns_) return -1;
  return std::max<int64_t>(0, minus(*upper_ns_, *lower_ns_));
}

/// What was launched as one.
struct NcclPairing::Unit {
  int64_t thread = -1, start_ns = 0, end_ns = 0;
  std::vector<NcclCallPlace> calls;
  std::set<std::string> ops;
};

/// Ordered by thread and time.
struct NcclPairing::Launch {
  int64_t thread = -1, start_ns = 0, end_ns = 0;
  size_t shard = 0, kernel = 0;
  std::string op;
  auto key() const { return std::pair(thread, start_ns); }
};

NcclPairing::NcclPairing(const std::vector<SurveyedShard>& shards,
                         const RecordedProcess& process)
    : shards_(shards) {
  std::map<std::pair<size_t, int64_t>, size_t> grouped;
  std::vector<Unit> units;
  std::vector<Launch> launches;
  for (const size_t shard : process.shards) {
    const ShardSurvey& survey = shards[shard].survey;
    for (size_t i = 0; i < survey.nccl_calls.size(); ++i) {
      const NcclCall& call = survey.nccl_calls[i];
      const auto known =
          call.group < 0
              ? grouped.end()
              : grouped.try_emplace({shard, call.group}, units.size()).first;
      const size_t place =
          known == grouped.end() ? units.size() : known->second;
      if (place == units.size()) {
        units.push_back({call.thread, call.start_ns, call.end_ns, {}, {}});
      }
      Unit& unit = units[place];
      unit.end_ns = std::max(unit.end_ns, call.end_ns);
      unit.calls.push_back({shard, i});
      unit.ops.insert(survey.info_of(call).op);
    }
    for (size_t i = 0; i < survey.nccl_kernels.size(); ++i) {
      const NcclKernel& kernel = survey.nccl_kernels[i];
      if (kernel.thread < 0) continue;  // Of a graph, or its launch was lost.
      const std::string_view name = shards[shard].contents.text(kernel.name);
      launches.push_back({kernel.thread, kernel.call_start_ns,
                          kernel.call_end_ns, shard, i,
                          describe_nccl_kernel(name).op});
    }
    kernels_without_calls_ += std::ssize(survey.nccl_kernels);
  }
  std::stable_sort(
      launches.begin(), launches.end(),
      [](const Launch& a, const Launch& b) { return a.key() < b.key(); });
  pair(units, launches);
  kernels_without_calls_ -= std::ssize(of_kernel_);
  learn_timer(process);
}

/// Nearest first: neither may be another's nearer one.
void NcclPairing::pair(std::vector<Unit>& units,
                       const std::vector<Launch>& launches) {
  std::vector<std::tuple<int64_t, size_t, size_t>> candidates;
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    const auto near = static_cast<size_t>(
        std::lower_bound(launches.begin(), launches.end(),
                         std::pair(unit.thread, unit.start_ns),
                         [](const Launch& launch, const auto& key) {
                           return launch.key() < key;
                         }) -
        launches.begin());
    const size_t last = std::min(launches.size(), near + kMostLooked);
    for (size_t k = near - std::min(near, kMostLooked); k < last; ++k) {
      const Launch& launch = launches[k];
      const bool fits = launch.op.empty() || unit.ops.contains(launch.op);
      if (launch.thread != unit.thread || !fits) continue;
      const int64_t apart =
          std::max({int64_t{0}, minus(launch.start_ns, unit.end_ns),
                    minus(unit.start_ns, launch.end_ns)});
      if (apart <= kMostApartNs) candidates.emplace_back(apart, k, i);
    }
  }
  std::sort(candidates.begin(), candidates.end());
  std::vector<uint8_t> taken(launches.size());
  for (const auto& [apart, k, i] : candidates) {
    Unit& unit = units[i];
    if (taken[k] != 0 || unit.calls.empty()) continue;
    taken[k] = 1;
    const Launch& launch = launches[k];
    const NcclKernel& kernel =
        shards_[launch.shard].survey.nccl_kernels[launch.kernel];
    for (const NcclCallPlace& call : unit.calls) {
      paired_[call] = kernel.start_ns;
    }
    of_kernel_[{launch.shard, kernel.correlation}] = std::move(unit.calls);
    unit.calls.clear();
  }
}

void NcclPairing::learn_timer(const RecordedProcess& process) {
  for (const size_t shard : process.shards) {
    const std::vector<NcclCall>& calls = shards_[shard].survey.nccl_calls;
    for (size_t i = 0; i < calls.size(); ++i) {
      const NcclCall& call = calls[i];
      if (!call.timer.is_set()) continue;
      const auto kernel = paired_.find({shard, i});
      if (kernel != paired_.end()) {
        timer_.add_pair(call.timer.start_ns, kernel->second);
      }
      if (call.timer_ahead_ns) {
        timer_.add_upper_bound(minus(0, *call.timer_ahead_ns));
      }
      timer_.add_lower_bound(minus(call.start_ns, call.timer.start_ns));
    }
  }
  timer_.finish();
}

const std::vector<NcclCallPlace>* NcclPairing::calls_of(
    size_t shard, int64_t correlation) const {
  const auto found = of_kernel_.find({shard, correlation});
  return found == of_kernel_.end() ? nullptr : &found->second;
}

namespace {

/// Adds up the calls of one kernel.
class CallSum {
 public:
  explicit CallSum(const CommunicatorMembers& members) : members_(members) {}

  void add(const NcclCall& call, const NcclCallInfo& info);
  NcclWork finish();

 private:
  void add_message(const NcclCall& call, const NcclCallInfo& info);

  const CommunicatorMembers& members_;
  NcclWork work_;
  int64_t calls_ = 0, sends_ = 0, receives_ = 0, sent_bytes_ = 0;
  int64_t network_bytes_ = 0, network_steps_ = 0;
  TimeSpan network_;
  std::string attributes_;
};

void CallSum::add(const NcclCall& call, const NcclCallInfo& info) {
  CollectiveInfo& sum = work_.info;
  const std::vector<uint32_t>& members = members_.of(info.communicator);
  const int64_t bytes = whole_buffer_bytes(info.op, call.bytes, info.ranks);
  int32_t peer = static_cast<int32_t>(info.peer);
  if (peer >= 0 && !members.empty()) {
    const bool fits = static_cast<size_t>(peer) < members.size();
    peer = fits ? static_cast<int32_t>(members[static_cast<size_t>(peer)]) : -1;
  }
  if (calls_++ == 0) {
    sum.op = info.op;
    sum.communicator = info.communicator;
    sum.data_type = info.data_type;
    sum.group = members;
    std::sort(sum.group.begin(), sum.group.end());
    sum.group_size = info.ranks;
    sum.peer = peer;
    set_elements(info.count, sum);
    work_.sequence = call.sequence;
    attributes_ = info.attributes;
  } else {
    if (sum.op != info.op) sum.op.clear();
    if (sum.communicator != info.communicator) sum.communicator.clear();
    if (sum.data_type != info.data_type) sum.data_type.clear();
    if (sum.peer != peer) sum.peer = -1;
    sum.input_elements = sum.output_elements = -1;
  }
  work_.bytes = plus(work_.bytes, bytes);
  if (is_message(info.op)) add_message(call, info);
  if (call.network.is_set()) {
    network_.extend(call.network.start_ns, call.network.end_ns);
  }
  network_bytes_ = plus(network_bytes_, call.network_bytes);
  network_steps_ += call.network_steps;
}

void CallSum::add_message(const NcclCall& call, const NcclCallInfo& info) {
  const bool is_send = info.op == "send";
  ++(is_send ? sends_ : receives_);
  if (is_send) sent_bytes_ = plus(sent_bytes_, call.bytes);
}

NcclWork CallSum::finish() {
  CollectiveInfo& info = work_.info;
  if (sends_ > 0 && receives_ > 0) work_.bytes = sent_bytes_;
  // What frameworks make of messages to and from everybody.
  if (sends_ == receives_ && sends_ == info.group_size && sends_ > 1) {
    info.op = "all-to-all";
  }
  Json attributes = Json::parse(attributes_, nullptr, false);
  if (!attributes.is_object()) attributes = Json::object();
  if (calls_ > 1) attributes["calls"] = calls_;
  if (network_steps_ > 0) {
    attributes["network_steps"] = network_steps_;
    attributes["network_bytes"] = network_bytes_;
    if (network_.is_set()) {
      attributes["network_ns"] = minus(network_.end_ns, network_.start_ns);
    }
  }
  if (!attributes.empty()) {
    work_.attributes =
        attributes.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return std::move(work_);
}

}  // namespace

NcclWork describe_calls(const std::vector<SurveyedShard>& shards,
                        const std::vector<NcclCallPlace>& calls,
                        const CommunicatorMembers& members) {
  CallSum sum(members);
  for (const NcclCallPlace& place : calls) {
    const SurveyedShard& shard = shards[place.shard];
    const NcclCall& call = shard.survey.nccl_calls[place.call];
    sum.add(call, shard.survey.info_of(call));
  }
  return sum.finish();
}

}  // namespace reprise
