// Chakra's nodes are dependencies first and times second: a node without a
// start begins where the one before it on its stream ended, and a file without
// any start has a clock of its own kind ("none"), on which durations and
// dependencies stand. Source: MLCommons Chakra, schema/protobuf/et_def.proto.
#include "data/formats/chakra/chakra_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
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

/// Where a node runs that names no thread: a number below those of threads, and
/// a name.
std::pair<int64_t, const char*> unnamed_stream(const ChakraNode& node,
                                               bool on_host) {
  if (on_host) return {-1, "cpu"};
  if (communicates(node)) return {-2, "communication"};
  if (kind_of(node, on_host) == EventKind::kCopy) return {-3, "memory"};
  return {-1, "compute"};
}

}  // namespace

ChakraGraph::ChakraGraph(TraceSpool& spool, FileReport& report)
    : spool_(spool),
      report_(report),
      rank_(add_unknown_rank(spool)),
      dependencies_(spool, rank_) {}

ChakraGraph::Stream& ChakraGraph::stream_of(const ChakraNode& node,
                                            bool on_host) {
  StreamKey key{on_host, node.thread};
  std::string name =
      fmt::format("{} {}", on_host ? "thread" : "stream", node.thread);
  if (node.thread < 0)
    std::tie(key.second, name) = unnamed_stream(node, on_host);
  const auto [place, added] = streams_.try_emplace(key);
  if (added) {
    place->second.number = spool_.add_stream(
        {.rank = rank_,
         .name = name,
         .kind = on_host ? StreamKind::kHostThread : StreamKind::kDeviceStream,
         .device = on_host ? -1 : 0,
         .number = node.thread >= 0 ? node.thread : -1});
  }
  return place->second;
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
  event.start_ns = timed ? node.start_us * 1000 : stream.end_ns;
  event.end_ns = event.start_ns + node.duration_us * 1000;
  if (event.end_ns > kLargestTimeNs) return false;
  event.enqueue_ns = event.start_ns;
  stream.end_ns = event.end_ns;
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
        "are the sums of the durations before them on their stream.");
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
