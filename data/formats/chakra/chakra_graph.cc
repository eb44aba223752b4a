// Chakra's nodes are dependencies first and times second: a node without a
// start begins where those that it depends on and the one before it on its
// stream have ended, and a file without any start has a clock of its own kind
// ("none"), on which durations and dependencies stand. A stream has an order of
// its own, so nodes that name none share one only where nothing tells more.
// Source: MLCommons Chakra, schema/protobuf/et_def.proto.
#include "data/formats/chakra/chakra_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "data/collective/collective_names.h"
#include "data/formats/spool_tables.h"
#include "data/io/decimal.h"

namespace reprise {
namespace {

/// CollectiveCommType of Chakra's schema.
constexpr std::array<CollectiveKind, 10> kCollectives = {
    CollectiveKind::kAllReduce,     CollectiveKind::kReduce,
    CollectiveKind::kAllGather,     CollectiveKind::kGather,
    CollectiveKind::kScatter,       CollectiveKind::kBroadcast,
    CollectiveKind::kAllToAll,      CollectiveKind::kReduceScatter,
    CollectiveKind::kReduceScatter, CollectiveKind::kBarrier};

bool communicates(const ChakraNode& node) {
  return node.type >= static_cast<int32_t>(ChakraType::kSend) &&
         node.type <= static_cast<int32_t>(ChakraType::kCollective);
}

EventKind kind_of(const ChakraNode& node, bool on_host) {
  switch (static_cast<ChakraType>(node.type)) {
    case ChakraType::kCompute:
      return on_host ? EventKind::kHostOp : EventKind::kCompute;
    case ChakraType::kSend:
    case ChakraType::kReceive:
    case ChakraType::kCollective:
      return on_host ? EventKind::kHostOp : EventKind::kCollective;
    case ChakraType::kMemoryLoad:
    case ChakraType::kMemoryStore:
      return EventKind::kCopy;
    default:
      return EventKind::kOther;
  }
}

int32_t peer_in(int64_t rank) {
  return rank >= 0 && rank <= INT32_MAX ? static_cast<int32_t>(rank) : -1;
}

/// Where a node runs that names no thread: numbers below those of threads.
constexpr int64_t kUnnamed = -1, kMemory = -2, kCommunication = -3;
/// Communication that follows none goes to the first stream beyond so many.
constexpr int64_t kMostCommunications = 64;

std::string name_of_stream(int64_t id, bool on_host) {
  if (id >= 0) return fmt::format("{} {}", on_host ? "thread" : "stream", id);
  if (on_host) return "cpu";
  if (id == kUnnamed) return "compute";
  if (id == kMemory) return "memory";
  if (id == kCommunication) return "communication";
  return fmt::format("communication {}", kCommunication - id);
}

}  // namespace

ChakraGraph::ChakraGraph(TraceSpool& spool, FileReport& report)
    : spool_(spool),
      report_(report),
      rank_(add_unknown_rank(spool)),
      dependencies_(spool, rank_) {}

ChakraGraph::StreamKey ChakraGraph::key_of(const ChakraNode& node,
                                           bool on_host) {
  if (node.thread >= 0) return {on_host, node.thread};
  if (on_host) return {true, kUnnamed};
  if (communicates(node)) return unnamed_communication(node);
  const bool moves = kind_of(node, on_host) == EventKind::kCopy;
  return {false, moves ? kMemory : kUnnamed};
}

/// The stream of which the node follows the last one. Generators tell only what
/// computes it: such communication takes its turn on one stream. Where nodes
/// tell which follow which, one that follows none has a stream of its own.
ChakraGraph::StreamKey ChakraGraph::unnamed_communication(
    const ChakraNode& node) {
  for (const int64_t before : node.dependencies) {
    const auto found = placed_.find(before);
    if (found == placed_.end()) continue;
    const StreamKey key = found->second.stream;
    if (key.first || key.second > kCommunication) continue;
    chained_ = true;
    if (streams_.at(key).last_node == before) return key;
  }
  const bool first = communications_ == 0;
  const bool own = chained_ && communications_ < kMostCommunications;
  if (first || own) ++communications_;
  return {false, kCommunication - (own ? communications_ - 1 : 0)};
}

ChakraGraph::Stream& ChakraGraph::stream_of(const ChakraNode& node,
                                            bool on_host) {
  const StreamKey key = key_of(node, on_host);
  const auto [place, added] = streams_.try_emplace(key);
  if (added) {
    place->second.number = spool_.add_stream(
        {.rank = rank_,
         .name = name_of_stream(key.second, on_host),
         .kind = on_host ? StreamKind::kHostThread : StreamKind::kDeviceStream,
         .device = on_host ? -1 : 0,
         .number = node.thread >= 0 ? node.thread : -1});
  }
  place->second.last_node = node.id;
  placed_.try_emplace(node.id, Placed{.stream = key});
  return place->second;
}

/// When all have ended that it depends on, as far as they came before it, and
/// the last of those on the host, which launches it.
ChakraGraph::Ready ChakraGraph::ready(const ChakraNode& node) const {
  Ready ready;
  for (const int64_t before : node.dependencies) {
    const auto found = placed_.find(before);
    if (found == placed_.end()) continue;
    const auto& [stream, end_ns] = found->second;
    ready.at_ns = std::max(ready.at_ns, end_ns);
    if (stream.first) ready.launched_ns = std::max(ready.launched_ns, end_ns);
  }
  return ready;
}

int32_t ChakraGraph::describe(const ChakraNode& node) {
  CollectiveInfo info;
  info.communicator = node.communicator;
  switch (static_cast<ChakraType>(node.type)) {
    case ChakraType::kSend:
      info.kind = CollectiveKind::kSend;
      info.peer = peer_in(node.destination);
      break;
    case ChakraType::kReceive:
      info.kind = CollectiveKind::kReceive;
      info.peer = peer_in(node.source);
      break;
    default:
      info.kind = collective_named(node.name);
      if (node.collective >= 0 &&
          static_cast<size_t>(node.collective) < kCollectives.size()) {
        info.kind = kCollectives[static_cast<size_t>(node.collective)];
      }
  }
  return spool_.add_collective(info);
}

/// Gives the event its times; false when they do not fit.
bool ChakraGraph::place(const ChakraNode& node, Stream& stream, Event& event) {
  constexpr int64_t kLargestUs = kLargestTimeNs / 1000;
  if (node.duration_us < 0 || node.duration_us > kLargestUs ||
      node.start_us < 0 || node.start_us > kLargestUs) {
    return false;
  }
  const bool timed = node.start_us > 0;
  const int64_t recorded_ns = node.start_us * 1000;
  const Ready ready = this->ready(node);
  const int64_t earliest_ns = std::max(stream.end_ns, ready.at_ns);
  event.start_ns = timed ? recorded_ns : earliest_ns;
  event.end_ns = event.start_ns + node.duration_us * 1000;
  // Starts and durations are rounded each by itself.
  constexpr int64_t kRounding = 1000;
  if (earliest_ns > event.start_ns && earliest_ns <= event.start_ns + kRounding)
    event.start_ns = std::min(earliest_ns, event.end_ns);
  if (event.end_ns > kLargestTimeNs) return false;
  event.enqueue_ns = ready.launched_ns >= 0
                         ? std::min(ready.launched_ns, event.start_ns)
                         : event.start_ns;
  stream.end_ns = placed_[node.id].end_ns = event.end_ns;
  timed_ += timed;
  instant_ += node.duration_us == 0;
  return true;
}

void ChakraGraph::add(const ChakraNode& node) {
  if (node.type <= 0 || node.id < 0) {
    ++report_.dropped[node.id < 0 ? "node id out of range"
                                  : "node without a type"];
    return;
  }
  const bool on_host = node.on_cpu.value_or(false);
  Stream& stream = stream_of(node, on_host);
  Event event{.rank = rank_,
              .stream = stream.number,
              .kind = kind_of(node, on_host),
              .name = spool_.intern(node.name)};
  if (!place(node, stream, event)) {
    ++report_.dropped["time out of range"];
    return;
  }
  if (dependencies_.add_node(node.id)) {
    event.external_id = node.id;
    for (const int64_t before : node.dependencies) {
      dependencies_.add(before, node.id);
    }
  } else {
    ++report_.dropped["dependencies of a node whose id is taken"];
  }
  if (communicates(node)) {
    event.detail = describe(node);
    event.bytes = std::max<int64_t>(0, node.comm_bytes);
    unsized_ += !on_host && node.comm_bytes < 0;
  } else if (event.kind == EventKind::kCopy) {
    event.bytes = std::max<int64_t>(0, node.tensor_bytes);
  }
  if (!node.attributes.empty()) {
    event.attributes = static_cast<int32_t>(
        index_of(spool_.intern("{" + node.attributes + "}")));
  }
  spool_.add(event);
  ++report_.events;
  report_.kernels += event.kind == EventKind::kCompute;
  report_.collectives += event.kind == EventKind::kCollective;
}

void ChakraGraph::finish(const ChakraMetadata& metadata) {
  dependencies_.finish(report_);
  RankInfo& rank = spool_.rank(rank_);
  rank.process = metadata.process;
  rank.clock_domain = timed_ > 0 ? "" : "none";
  report_.dialect =
      metadata.schema.empty() ? metadata.version : "schema " + metadata.schema;
  if (timed_ == 0 && report_.events > 0) {
    report_.missing.push_back(
        "No node has a start time: durations and dependencies stand, starts "
        "are as early as these let them.");
  }
  if (instant_ > 0) {
    report_.missing.push_back(fmt::format("{} of {} nodes have no duration.",
                                          instant_, report_.events));
  }
  if (unsized_ > 0) {
    report_.missing.push_back(
        fmt::format("{} collectives have no size (comm_size).", unsized_));
  }
}

}  // namespace reprise
