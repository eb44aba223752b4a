// chakra: the recorded step as MLCommons Chakra's execution traces, a file a
// rank, for simulators (ASTRA-sim) and replayers. Nodes are those of the graph
// that is replayed: device work, and host ops as the stretches between their
// children. Time that passes before a node without any op is a node of its own,
// as Chakra has no delays; so durations and dependencies alone replay the step.
//
// Source: mlcommons/chakra, schema/protobuf/et_def.proto; attributes' names:
// src/feeder_v3/et_feeder_node.h. Communicators are numbers, whose ranks stand
// in comm_groups.json, as ASTRA-sim's --comm-group-configuration has them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/export/export_target.h"
#include "data/io/proto_writer.h"
#include "data/number_text.h"
#include "replay/graph/evaluate.h"
#include "replay/graph/trace_graph.h"
#include "replay/simulate/trace_replay.h"

namespace reprise {
namespace {

enum NodeNumber : uint8_t {
  kComputeNode = 4,
  kSendNode,
  kReceiveNode,
  kCollectiveNode
};

/// CollectiveCommType, or -1 of kinds that Chakra has no word for.
int comm_type(CollectiveKind kind) {
  constexpr std::array<CollectiveKind, 10> kTypes = {
      CollectiveKind::kAllReduce, CollectiveKind::kReduce,
      CollectiveKind::kAllGather, CollectiveKind::kGather,
      CollectiveKind::kScatter,   CollectiveKind::kBroadcast,
      CollectiveKind::kAllToAll,  CollectiveKind::kReduceScatter,
      CollectiveKind::kUnknown,  // REDUCE_SCATTER_BLOCK
      CollectiveKind::kBarrier};
  const auto found = std::find(kTypes.begin(), kTypes.end(), kind);
  return kind == CollectiveKind::kUnknown || found == kTypes.end()
             ? -1
             : static_cast<int>(found - kTypes.begin());
}

constexpr uint32_t kAttribute = 10, kMetadataAttribute = 2;
ProtoWriter integer(std::string_view name, int64_t value) {
  return ProtoWriter().bytes(1, name).varint(9, static_cast<uint64_t>(value));
}
ProtoWriter flag(std::string_view name, bool value) {
  return ProtoWriter().bytes(1, name).varint(27, value ? 1 : 0);
}
ProtoWriter word(std::string_view name, std::string_view value) {
  return ProtoWriter().bytes(1, name).bytes(29, value);
}

/// Numbers of groups of ranks, by first appearance.
class CommGroups {
 public:
  std::string number(const std::vector<uint32_t>& group) {
    const auto [place, added] = numbers_.try_emplace(group, groups_.size());
    if (added) groups_.push_back(group);
    return fmt::format("{}", place->second);
  }
  nlohmann::ordered_json json() const {
    nlohmann::ordered_json all = nlohmann::ordered_json::object();
    for (size_t at = 0; at < groups_.size(); ++at) {
      all[fmt::format("{}", at)] = groups_[at];
    }
    return all;
  }

 private:
  std::map<std::vector<uint32_t>, size_t> numbers_;
  std::vector<std::vector<uint32_t>> groups_;
};

class ChakraFiles {
 public:
  ChakraFiles(const AlignedTrace& trace, const TimedGraph& graph)
      : trace_(trace), graph_(graph), times_(evaluate(graph)) {
    if (!times_.start_ns.empty()) {
      first_ns_ =
          *std::min_element(times_.start_ns.begin(), times_.start_ns.end());
      for (size_t node = 0; node < graph.size(); ++node) {
        first_ns_ = std::min(first_ns_, begin_ns(node));
      }
    }
  }

  std::string rank(uint32_t place, const Provenance& provenance) {
    const RankInfo& info = trace_.frame().ranks[place];
    ProtoWriter head;
    head.bytes(1, "0.0.4")
        .message(kMetadataAttribute, word("schema", "1.1.0-chakra.0.0.4"))
        .message(kMetadataAttribute, integer("pid", info.process))
        .message(kMetadataAttribute, word("source", provenance.source))
        .message(kMetadataAttribute, word("predicted", provenance.predicted))
        .message(kMetadataAttribute, word("trust", provenance.trust))
        .message(kMetadataAttribute, word("check", provenance.check));
    std::string text = delimited(head);
    const RankEvents events = trace_.by_rank().of_rank(info.rank);
    for (uint32_t node = 0; node < graph_.size(); ++node) {
      if (graph_.ranks[graph_.rank[node]].rank != place) continue;
      if (graph_.gap[node] > 0) text += delimited(gap_of(node));
      text += delimited(node_of(
          node, events.trace.events[graph_.origin[node] - events.base]));
    }
    return text;
  }

  const CommGroups& groups() const { return groups_; }
  int64_t nodes() const { return nodes_; }
  int64_t wordless() const { return wordless_; }
  int64_t step_ns() const { return replayed_span_ns(graph_, times_); }

 private:
  static std::string delimited(const ProtoWriter& message) {
    return ProtoWriter().raw_varint(message.text().size()).text() +
           message.text();
  }

  /// Ids start at 1: proto3 leaves 0 out. Gaps' come behind all nodes'.
  static uint64_t id_of(uint32_t node) { return uint64_t{node} + 1; }
  uint64_t gap_id(uint32_t node) const { return graph_.size() + id_of(node); }

  int64_t begin_ns(size_t node) const {
    return times_.start_ns[node] - std::max<int64_t>(0, graph_.gap[node]);
  }

  void add_times(int64_t start_ns, int64_t end_ns, ProtoWriter& node) const {
    const auto micros = [&](int64_t time_ns) {
      return static_cast<uint64_t>((time_ns - first_ns_ + 500) / 1000 + 1);
    };
    node.varint(6, micros(start_ns))
        .varint(7, micros(std::max(start_ns, end_ns)) - micros(start_ns));
  }

  /// Causes on the same rank: order of threads and streams as control, all
  /// else as data. Those on other ranks are met in collectives and messages.
  void add_causes(uint32_t node, ProtoWriter& out) const {
    for (uint32_t at = graph_.first[node]; at < graph_.first[node + 1]; ++at) {
      const TimedGraph::Edge edge = graph_.edges[at];
      if (graph_.rank[edge.from] != graph_.rank[node]) continue;
      const bool order =
          edge.kind == EdgeKind::kThread || edge.kind == EdgeKind::kStream;
      out.varint(order ? 4 : 5, id_of(edge.from));
    }
  }

  ProtoWriter gap_of(uint32_t node) {
    ProtoWriter out;
    out.varint(1, gap_id(node)).bytes(2, "gap").varint(3, kComputeNode);
    add_causes(node, out);
    add_times(begin_ns(node), times_.start_ns[node], out);
    out.message(kAttribute, flag("is_cpu_op", true));
    ++nodes_;
    return out;
  }

  ProtoWriter node_of(uint32_t node, const Event& event) {
    const Trace& frame = trace_.frame();
    const StreamInfo& stream = frame.streams[event.stream];
    const bool on_host = stream.kind == StreamKind::kHostThread;
    ProtoWriter out;
    out.varint(1, id_of(node)).bytes(2, frame.text(event.name));
    ProtoWriter told;
    const NodeNumber type = describe(node, event, told);
    out.varint(3, type);
    if (graph_.gap[node] > 0) {
      out.varint(4, gap_id(node));
    } else {
      add_causes(node, out);
    }
    add_times(times_.start_ns[node], times_.end_ns[node], out);
    out.message(kAttribute, flag("is_cpu_op", on_host));
    if (stream.number >= 0) {
      out.message(kAttribute,
                  integer(on_host ? "tid" : "stream", stream.number));
    }
    ++nodes_;
    return append(std::move(out), told);
  }

  /// Messages of one type joined are one message with the fields of both.
  static ProtoWriter append(ProtoWriter out, const ProtoWriter& more) {
    return out.raw_bytes(more.text());
  }

  /// The type of a node, and of communication what is sent where.
  NodeNumber describe(uint32_t node, const Event& event, ProtoWriter& told) {
    const int32_t place = graph_.collective[node];
    if (place < 0 || event.kind != EventKind::kCollective) return kComputeNode;
    const MatchedCollective& matched =
        trace_.matching().collectives[static_cast<size_t>(place)];
    CollectiveKind kind = matched.kind;
    int32_t peer = -1;
    if (event.detail >= 0) {
      const CollectiveInfo& info =
          trace_.frame().collectives[static_cast<size_t>(event.detail)];
      if (is_message(info.kind)) kind = info.kind;
      peer = info.peer;
    }
    const int64_t bytes = event.bytes > 0 ? event.bytes : matched.bytes;
    if (is_message(kind) && peer >= 0) {
      const bool sends = kind == CollectiveKind::kSend;
      told.message(kAttribute, integer("comm_size", bytes))
          .message(kAttribute, integer("comm_src", sends ? event.rank : peer))
          .message(kAttribute, integer("comm_dst", sends ? peer : event.rank));
      return sends ? kSendNode : kReceiveNode;
    }
    const int type = comm_type(kind);
    if (type < 0) {
      ++wordless_;
      return kComputeNode;
    }
    told.message(kAttribute, integer("comm_type", type))
        .message(kAttribute, integer("comm_size", bytes));
    if (!matched.group.empty()) {
      told.message(kAttribute, word("pg_name", groups_.number(matched.group)));
    }
    return kCollectiveNode;
  }

  const AlignedTrace& trace_;
  const TimedGraph& graph_;
  GraphTimes times_;
  int64_t first_ns_ = 0, nodes_ = 0, wordless_ = 0;
  CommGroups groups_;
};

}  // namespace

Result<Artefact> make_chakra(const ExportRequest& request) {
  const Result<AlignedTrace> trace = AlignedTrace::read(request.file);
  if (!trace) return pass(trace.error());
  TraceWindow window;
  if (request.step) window.step = *request.step;
  const Result<TimedGraph> graph = build_trace_graph(*trace, window);
  if (!graph) return pass(graph.error(), request.path);
  ChakraFiles files(*trace, *graph);
  Provenance told = {
      .source = fmt::format("{}, {} ranks", request.path,
                            trace->frame().ranks.size()),
      .predicted = fmt::format(
          "nothing changed: the recorded work, which replays in {}.",
          time_text(files.step_ns())),
      .trust =
          "durations are recorded and rounded to microseconds, waits for other "
          "ranks included in collectives' (simulators take comm_size instead); "
          "delays that nothing recorded explains are nodes called gap.",
      .check =
          "`reprise import` of these files and `reprise replay` give the "
          "same time; ASTRA-sim prints each rank's cycles."};
  Artefact artefact;
  for (uint32_t place = 0; place < trace->frame().ranks.size(); ++place) {
    artefact.files.push_back(
        {fmt::format("step.{}.et", trace->frame().ranks[place].rank),
         files.rank(place, told)});
  }
  artefact.files.insert(artefact.files.begin(),
                        {"comm_groups.json", pretty(files.groups().json())});
  if (files.wordless() > 0) {
    told.trust += fmt::format(
        " {} communications of kinds that Chakra does not know are compute.",
        files.wordless());
  }
  artefact.advice = fmt::format(
      "{} nodes. ASTRA-sim 2: --workload-configuration=DIRECTORY/step "
      "--comm-group-configuration=DIRECTORY/comm_groups.json\n{}",
      files.nodes(), comment_of(told, ""));
  return artefact;
}

}  // namespace reprise
