#include "replay/collectives/collective_calls.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "data/collective/collective_names.h"
#include "data/integers.h"
#include "replay/collectives/call_steps.h"
#include "replay/collectives/coalesced_calls.h"
#include "replay/collectives/collective_description.h"
#include "replay/collectives/communicator_groups.h"
#include "replay/collectives/gloo_operators.h"
#include "replay/collectives/inferred_groups.h"
#include "replay/collectives/message_peer.h"
#include "replay/collectives/posted_arrivals.h"
#include "replay/collectives/program_groups.h"
#include "replay/collectives/stream_groups.h"

namespace reprise {
namespace {

/// "ncclAllReduce" and its like: what a program called, by an NVTX range.
bool is_nccl_call(const Trace& trace, const Event& event) {
  const std::string_view name = trace.text(event.name);
  return event.kind == EventKind::kHostOp && name.size() > 4 &&
         name.starts_with("nccl") && name[4] >= 'A' && name[4] <= 'Z';
}

bool on_device(const Trace& trace, const Event& event) {
  return event.stream < trace.streams.size() &&
         trace.streams[event.stream].kind == StreamKind::kDeviceStream;
}

// As far as is known: of one host, and of a clock that all of it has.
bool share_a_clock(const std::vector<RankInfo>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const RankInfo& rank) {
    const std::string& clock = rank.clock_domain;
    return (clock == "epoch" || clock == "monotonic") &&
           clock == ranks.front().clock_domain &&
           rank.host == ranks.front().host;
  });
}

// What is known of communicators and groups, spread over all calls.
class CallRepair {
 public:
  explicit CallRepair(CollectiveCalls& result) : result_(result) {}

  void run() {
    drop_foreign_groups();
    unbatch_lone_messages();
    share_groups();
    gather_communicators(result_);
    number_peers();
    drop_foreign_peers();
    count_unknown();
  }

 private:
  const std::vector<uint32_t>& ranks_of(int32_t group) const {
    return result_.groups[static_cast<size_t>(group)];
  }

  bool has_rank(int32_t group, uint32_t rank) const {
    const std::vector<uint32_t>& ranks = ranks_of(group);
    return std::binary_search(ranks.begin(), ranks.end(), rank);
  }

  // Groups name global ranks: one without the caller is of other numbers.
  void drop_foreign_groups() {
    int64_t dropped = 0;
    for (CollectiveCall& call : result_.calls) {
      if (call.group < 0) continue;
      call.group_size = static_cast<int64_t>(ranks_of(call.group).size());
      if (has_rank(call.group, call.rank)) continue;
      call.group = -1;
      ++dropped;
    }
    if (dropped == 0) return;
    result_.notes.push_back(
        fmt::format("{} collectives name a group without their own rank; the "
                    "group is ignored.",
                    dropped));
  }

  // Where no batch of a communicator has more than one message, each is one as
  // if it were called by itself: the two sides need not mix both directions
  // alike.
  void unbatch_lone_messages() {
    std::set<int32_t> mixing;  // Communicators.
    for (const CollectiveCall& call : result_.calls) {
      if (call.batched && !call.lone) mixing.insert(call.communicator);
    }
    for (CollectiveCall& call : result_.calls) {
      if (call.lone && !mixing.contains(call.communicator))
        call.batched = call.lone = false;
    }
  }

  // A communicator of one group only, on its rank or anywhere, has that group
  // everywhere.
  void share_groups() {
    std::map<std::pair<int64_t, int32_t>, std::set<int32_t>> groups;
    for (const CollectiveCall& call : result_.calls) {
      if (call.communicator < 0 || call.group < 0) continue;
      groups[{call.rank, call.communicator}].insert(call.group);
      groups[{kAnyRank, call.communicator}].insert(call.group);
    }
    for (CollectiveCall& call : result_.calls) {
      if (call.communicator < 0 || call.group >= 0) continue;
      for (const int64_t rank : {static_cast<int64_t>(call.rank), kAnyRank}) {
        const auto found = groups.find({rank, call.communicator});
        if (found == groups.end() || found->second.size() != 1) continue;
        const int32_t group = *found->second.begin();
        if (!has_rank(group, call.rank)) break;
        call.group = group;
        call.group_size = static_cast<int64_t>(ranks_of(group).size());
        break;
      }
    }
  }

  // A peer that is counted in a group that is known is one of its ranks.
  void number_peers() {
    for (CollectiveCall& call : result_.calls) {
      if (!call.peer_in_group || call.group < 0) continue;
      const std::vector<uint32_t>& ranks = ranks_of(call.group);
      const auto place = static_cast<size_t>(call.peer);
      call.peer =
          place < ranks.size() ? static_cast<int32_t>(ranks[place]) : -1;
      call.peer_in_group = false;
    }
  }

  // Peers counted in groups that nothing describes are global ranks if the
  // group is of all ranks. It is where each rank that was recorded answers
  // every one that sends to it or awaits it; where one does not, nobody's peer
  // is known.
  void drop_foreign_peers() {
    std::set<uint32_t> recorded;
    std::set<std::pair<int64_t, int64_t>> sent, awaited;  // From, to.
    for (const CollectiveCall& call : result_.calls) {
      recorded.insert(call.rank);
      if (!call.peer_in_group) continue;
      const bool sends = call.kind == CollectiveKind::kSend;
      if (sends) sent.emplace(call.rank, call.peer);
      if (!sends || call.both_ways) awaited.emplace(call.peer, call.rank);
    }
    int64_t dropped = 0;
    const auto answers = [&](const CollectiveCall& call) {
      if (!call.peer_in_group) return true;
      const auto peer = static_cast<uint32_t>(call.peer);
      return peer != call.rank &&
             (!recorded.contains(peer) ||
              (call.kind == CollectiveKind::kSend
                   ? awaited.contains({call.rank, call.peer})
                   : sent.contains({call.peer, call.rank})));
    };
    if (std::all_of(result_.calls.begin(), result_.calls.end(), answers))
      return;
    for (CollectiveCall& call : result_.calls) {
      if (!call.peer_in_group) continue;
      call.peer = -1;
      if (call.batched) call.kind = CollectiveKind::kUnknown;
      call.both_ways = false;
      ++dropped;
    }
    result_.notes.push_back(
        fmt::format("{} messages name a peer in a group that nothing "
                    "describes: it is not taken for a rank.",
                    dropped));
  }

  void count_unknown() {
    int64_t unknown = 0;
    for (const CollectiveCall& call : result_.calls) {
      unknown += call.kind == CollectiveKind::kUnknown && call.unit < 0 &&
                 call.exchange < 0;
    }
    if (unknown == 0) return;
    result_.notes.push_back(
        fmt::format("The operation of {} of {} collectives is not recorded.",
                    unknown, result_.calls.size()));
  }

  static constexpr int64_t kAnyRank = -1;
  CollectiveCalls& result_;
};

}  // namespace

// Communicators and groups of all signatures, each once.
void CollectiveCallFinder::number_signatures(const Trace& frame) {
  numbered_ = true;
  std::map<std::string_view, int32_t> names;
  GroupNumbers groups(groups_);
  for (const CollectiveInfo& info : frame.collectives) {
    std::vector<uint32_t> group = info.group;
    std::sort(group.begin(), group.end());
    group.erase(std::unique(group.begin(), group.end()), group.end());
    Signature signature;
    if (!info.communicator.empty()) {
      signature.communicator =
          names.try_emplace(info.communicator, names.size()).first->second;
    }
    if (!group.empty()) signature.group = groups.of(group);
    signatures_.push_back(signature);
  }
  communicators_.resize(names.size());
  for (const auto& [name, place] : names) {
    communicators_[static_cast<size_t>(place)] = name;
  }
}

void CollectiveCallFinder::add(const RankEvents& events) {
  const Trace& trace = events.trace;
  if (!numbered_) number_signatures(trace);
  std::vector<uint32_t> host, device, operators;
  for (uint32_t i = events.first; i < events.last; ++i) {
    const Event& event = trace.events[i];
    if (is_gloo_operator(trace, event)) operators.push_back(i);
    if (event.kind != EventKind::kCollective) continue;
    (on_device(trace, event) ? device : host).push_back(i);
  }
  std::vector<CollectiveCall>& calls = by_rank_[events.rank];
  calls.clear();
  const auto add_call = [&](uint32_t index, CollectiveCall call) {
    call.event = index - events.first;
    if (call.bytes <= 0) {
      call.bytes = std::max<int64_t>(trace.events[index].bytes, 0);
    }
    calls.push_back(call);
  };
  const CollectiveDescriptions descriptions(events, device);
  const CoalescedCalls coalesced(events, device, descriptions);
  for (size_t i = 0; i < device.size(); ++i) {
    CollectiveCall call = recorded(trace, device[i]);
    call.device = true;
    call.order_ns = descriptions.launch_ns(i);
    for (const uint32_t range : descriptions.of(i)) absorb(trace, range, call);
    absorb_coalesced(trace, coalesced.of(i), call);
    add_call(device[i], call);
  }
  // What launched a device's collective is its description, and no call.
  const auto is_used = [&](uint32_t event) { return descriptions.used(event); };
  std::erase_if(host, is_used);
  std::erase_if(operators, is_used);
  const GlooOperators gloo(events, operators, host);
  for (const uint32_t event : host) {
    CollectiveCall call = recorded(trace, event);
    if (is_gloo_call(trace, trace.events[event]))
      absorb_operator(trace, gloo.of(event), call);
    add_call(event, call);
  }
  find_stand_stills(events, calls);
}

CollectiveCall CollectiveCallFinder::recorded(const Trace& trace,
                                              uint32_t index) const {
  const Event& event = trace.events[index];
  CollectiveCall call{.rank = event.rank,
                      .stream = event.stream,
                      .start_ns = event.start_ns,
                      .end_ns = event.end_ns,
                      .step = event.step,
                      .unit = event.unit,
                      .order_ns = event.start_ns,
                      .sequence = event.sequence};
  absorb(trace, index, call);
  return call;
}

// Adds what the event says and the call lacks.
void CollectiveCallFinder::absorb(const Trace& trace, uint32_t index,
                                  CollectiveCall& call) const {
  const Event& event = trace.events[index];
  const CollectiveInfo* info = info_of(trace, event);
  constexpr CollectiveKind kUnknown = CollectiveKind::kUnknown;
  const CollectiveKind kind = info && info->kind != kUnknown
                                  ? info->kind
                                  : collective_named(trace.text(event.name));
  // A call inside a call ("barrier" made of an all-reduce, or an all-reduce's
  // own barrier) keeps its own, of the same ranks.
  if (call.kind != kUnknown && kind != kUnknown && kind != call.kind)
    return absorb_ranks(trace, event, call);
  if (call.kind == kUnknown) call.kind = kind;
  if (call.sequence < 0) call.sequence = event.sequence;
  if (!call.exact) {
    call.bytes = std::max(call.bytes, dimension_bytes(trace, event));
    if (event.bytes > call.bytes && is_nccl_call(trace, event)) {
      call.bytes = event.bytes;
      call.part = true;
    }
  }
  // NCCL's peer is one of its communicator, PyTorch's of its process group.
  const bool launches = trace.text(event.name) == "ncclGroupEnd";
  if (call.peer < 0 && (launches || is_message(call.kind))) {
    call.peer = peer_named(trace, event);
    call.peer_in_group = call.peer >= 0;
  }
  if (!info) return;
  if (!call.type) call.type = info->type;
  if (!call.exact) {
    const int64_t bytes = recorded_bytes(*info);
    call.exact =
        info->input_elements >= 0 && info->output_elements >= 0 && bytes > 0;
    call.bytes = call.exact ? bytes : std::max(call.bytes, bytes);
  }
  absorb_ranks(trace, event, call);
  if (info->peer >= 0 && (call.peer < 0 || call.peer_in_group)) {
    call.peer = info->peer;
    call.peer_in_group = false;
  }
}

void CollectiveCallFinder::absorb_ranks(const Trace& trace, const Event& event,
                                        CollectiveCall& call) const {
  const CollectiveInfo* info = info_of(trace, event);
  if (info == nullptr || is_message(call.kind) != is_message(info->kind))
    return;
  const Signature& signature = signatures_[static_cast<size_t>(event.detail)];
  if (call.communicator < 0) call.communicator = signature.communicator;
  if (call.group < 0) call.group = signature.group;
  if (call.group_size < 0) call.group_size = info->group_size;
}

// One kernel moves what all of its calls do; of messages it is as long as those
// of one direction.
void CollectiveCallFinder::absorb_coalesced(const Trace& trace,
                                            std::span<const uint32_t> ranges,
                                            CollectiveCall& call) {
  if (ranges.empty()) return;
  int64_t bytes = 0, received = 0;
  std::set<int32_t> to, from;
  bool sends = false, receives = false;
  size_t in_group = 0;
  for (const uint32_t range : ranges) {
    CollectiveCall one;
    absorb(trace, range, one);
    call.part |= one.part;
    const bool is_receive = one.kind == CollectiveKind::kReceive;
    sends |= one.kind == CollectiveKind::kSend;
    receives |= is_receive;
    int64_t& sum = is_receive ? received : bytes;
    sum = saturating_add(sum, one.bytes);
    (is_receive ? from : to).insert(one.peer);
    in_group += one.peer_in_group;
    if (call.communicator < 0) call.communicator = one.communicator;
    if (call.group < 0) call.group = one.group;
    if (call.group_size < 0) call.group_size = one.group_size;
    if (!call.type) call.type = one.type;
  }
  call.bytes = std::max({call.bytes, bytes, received});
  call.batched = sends || receives;
  call.lone = call.batched && ranges.size() == 1;
  const bool same_places = in_group == 0 || in_group == ranges.size();
  if (call.batched && same_places) settle_peers(to, from, in_group > 0, call);
}

void CollectiveCallFinder::settle_peers(const std::set<int32_t>& to,
                                        const std::set<int32_t>& from,
                                        bool in_group, CollectiveCall& call) {
  std::set<int32_t> peers = to;
  peers.insert(from.begin(), from.end());
  if (*peers.begin() < 0) return;
  if (peers.size() == 1) {
    call.kind = to.empty() ? CollectiveKind::kReceive : CollectiveKind::kSend;
    call.peer = *peers.begin();
    call.peer_in_group = in_group;
    call.both_ways = !to.empty() && !from.empty();
    return;
  }
  // More are an all-to-all's, of too many pairs to follow each.
  constexpr size_t kMostPeers = 8;
  if (peers.size() > kMostPeers) return;
  const ExchangePeers both{.to = {to.begin(), to.end()},
                           .from = {from.begin(), from.end()},
                           .in_group = in_group};
  call.exchange =
      exchanges_.try_emplace(both, static_cast<int32_t>(exchanges_.size()))
          .first->second;
}

// The operator says what was asked for, Gloo's call how it was done: of a
// reduce-scatter an all-reduce. And Gloo's call tells its own input: of an
// all-gather one part of the whole, unless its operator was handed one tensor
// for that, and of a message not the peer.
void CollectiveCallFinder::absorb_operator(const Trace& trace, uint32_t made_by,
                                           CollectiveCall& call) {
  const int64_t own_bytes = call.bytes;
  if (made_by != GlooOperators::kNone) {
    const Event& operation = trace.events[made_by];
    call.kind = collective_named(trace.text(operation.name));
    if (call.peer < 0) {
      call.peer = peer_named(trace, operation);
      call.peer_in_group = call.peer >= 0;
    }
    // Gloo's message is under way before its own range begins.
    if (is_message(call.kind))
      call.start_ns = std::min(call.start_ns, operation.start_ns);
    // A barrier's tensor is no payload.
    if (own_bytes > 0)
      call.bytes = std::max(own_bytes, dimension_bytes(trace, operation));
  }
  call.part =
      call.kind == CollectiveKind::kAllGather && call.bytes == own_bytes;
}

CollectiveCalls CollectiveCallFinder::finish(const TraceByRank& trace) && {
  if (!numbered_) number_signatures(trace.frame());
  CollectiveCalls result;
  for (size_t part = 0; part < trace.size(); ++part) {
    const uint32_t rank = trace.rank(part);
    if (!by_rank_.contains(rank)) add(trace.at(part));
    for (CollectiveCall call : by_rank_[rank]) {
      call.event += trace.first_event(part);
      result.calls.push_back(call);
    }
  }
  std::sort(result.calls.begin(), result.calls.end(),
            [](const CollectiveCall& a, const CollectiveCall& b) {
              return std::tie(a.rank, a.order_ns, a.event) <
                     std::tie(b.rank, b.order_ns, b.event);
            });
  result.communicators = std::move(communicators_);
  result.groups = std::move(groups_);
  result.exchanges.resize(exchanges_.size());
  for (const auto& [peers, number] : exchanges_)
    result.exchanges[static_cast<size_t>(number)] = peers;
  result.ranks = trace.frame().ranks.size();
  give_steps(result, trace.frame());
  take_program_groups(result, trace.frame().ranks);
  CallRepair(result).run();
  if (share_a_clock(trace.frame().ranks)) infer_groups(result);
  infer_stream_groups(result, trace.frame().ranks);
  return result;
}

}  // namespace reprise
