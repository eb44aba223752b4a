#include "data/formats/process_shard/process_shard_nccl.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "data/formats/nccl_profiler/nccl_profiler_calls.h"
#include "data/formats/ranks.h"
#include "data/integers.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// More than a communicator ever counts between two captures.
constexpr int64_t kSequencesOfReplay = int64_t{1} << 32;

/// Apart from those of calls that no graph captured, and the same on all ranks:
/// they captured the same calls and replay them equally often.
int64_t sequence_of(int64_t replay, int64_t captured) {
  const bool fits = captured >= 0 && captured < kSequencesOfReplay &&
                    replay < std::numeric_limits<int32_t>::max();
  return fits ? (replay + 1) * kSequencesOfReplay + captured : -1;
}

/// "input" and "output" of a call that counts `count` elements.
void set_elements(int64_t count, CollectiveInfo& info) {
  if (count < 0) return;
  int64_t whole = -1;
  if (info.group_size > 0 &&
      __builtin_mul_overflow(count, info.group_size, &whole)) {
    whole = -1;
  }
  const CollectiveFacts& facts = facts_of(info.kind);
  if (!facts.joins_all_ranks || !facts.has_one_size) return;
  if (!facts.counts_parts) whole = count;
  info.input_elements = facts.input == BufferShare::kPart ? count : whole;
  info.output_elements = facts.output == BufferShare::kPart ? count : whole;
}

}  // namespace

CommunicatorMembers::CommunicatorMembers(const RankedProcesses& ranked) {
  std::map<std::string, std::map<int64_t, uint32_t>> places;
  std::map<std::string, int64_t> sizes;
  for (const RecordedProcess& process : ranked.processes) {
    if (process.rank < 0 || !process.is_main) continue;
    const JobRank& rank = ranked.ranks[static_cast<size_t>(process.rank)];
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

namespace {

/// Adds up the calls of one kernel.
class CallSum {
 public:
  explicit CallSum(const CommunicatorMembers& members) : members_(members) {}

  void add(const NcclCall& call, const NcclCallInfo& info);
  void add_network(const NcclCall& call);
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
  const int64_t bytes = whole_buffer_bytes(info.kind, call.bytes, info.ranks);
  int32_t peer = static_cast<int32_t>(info.peer);
  if (peer >= 0 && !members.empty()) {
    const bool fits = static_cast<size_t>(peer) < members.size();
    peer = fits ? static_cast<int32_t>(members[static_cast<size_t>(peer)]) : -1;
  }
  if (calls_++ == 0) {
    sum.kind = info.kind;
    sum.communicator = info.communicator;
    sum.type = info.type;
    sum.group = members;
    std::sort(sum.group.begin(), sum.group.end());
    sum.group_size = info.ranks;
    sum.peer = peer;
    set_elements(info.count, sum);
    work_.sequence = call.sequence;
    attributes_ = info.attributes;
  } else {
    if (sum.kind != info.kind) sum.kind = CollectiveKind::kUnknown;
    if (sum.communicator != info.communicator) sum.communicator.clear();
    if (sum.type != info.type) sum.type.reset();
    if (sum.peer != peer) sum.peer = -1;
    sum.input_elements = sum.output_elements = -1;
  }
  work_.bytes = saturating_add(work_.bytes, bytes);
  if (is_message(info.kind)) add_message(call, info);
}

void CallSum::add_network(const NcclCall& call) {
  if (call.network.is_set()) {
    network_.extend(call.network.start_ns, call.network.end_ns);
  }
  network_bytes_ = saturating_add(network_bytes_, call.network_bytes);
  network_steps_ += call.network_steps;
}

void CallSum::add_message(const NcclCall& call, const NcclCallInfo& info) {
  const bool is_send = info.kind == CollectiveKind::kSend;
  ++(is_send ? sends_ : receives_);
  if (is_send) sent_bytes_ = saturating_add(sent_bytes_, call.bytes);
}

NcclWork CallSum::finish() {
  CollectiveInfo& info = work_.info;
  if (sends_ > 0 && receives_ > 0) work_.bytes = sent_bytes_;
  // What frameworks make of messages to and from everybody.
  if (sends_ == receives_ && sends_ == info.group_size && sends_ > 1) {
    info.kind = CollectiveKind::kAllToAll;
  }
  Json attributes = parse_json_or_discard<Json>(attributes_);
  if (!attributes.is_object()) attributes = Json::object();
  if (calls_ > 1) attributes["calls"] = calls_;
  if (network_steps_ > 0) {
    attributes["network_steps"] = network_steps_;
    attributes["network_bytes"] = network_bytes_;
    if (network_.is_set()) {
      attributes["network_ns"] =
          saturating_subtract(network_.end_ns, network_.start_ns);
    }
  }
  if (!attributes.empty()) {
    work_.attributes = json_text(attributes);
  }
  return std::move(work_);
}

}  // namespace

NcclWork describe_calls(const std::vector<SurveyedShard>& shards,
                        const NcclKernelRun& run,
                        const CommunicatorMembers& members) {
  CallSum sum(members);
  for (const NcclCallPlace& place : run.calls) {
    const SurveyedShard& shard = shards[place.shard];
    const NcclCall& call = shard.survey.nccl_calls[place.call];
    sum.add(call, shard.survey.info_of(call));
    // What is known of all replays together says nothing of one.
    if (!run.is_shared) sum.add_network(call);
  }
  NcclWork work = sum.finish();
  if (run.replay >= 0) work.sequence = sequence_of(run.replay, work.sequence);
  return work;
}

}  // namespace reprise
