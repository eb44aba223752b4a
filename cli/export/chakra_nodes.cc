#include "cli/export/chakra_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/collective/collective_names.h"
#include "data/io/proto_writer.h"

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

NodeNumber type_of(const ExportedNode& node) {
  if (!node.transfer) return kComputeNode;
  if (is_message(node.transfer->kind) && node.transfer->from >= 0) {
    return node.transfer->kind == CollectiveKind::kSend ? kSendNode
                                                        : kReceiveNode;
  }
  return comm_type(node.transfer->kind) < 0 ? kComputeNode : kCollectiveNode;
}

constexpr uint32_t kAttribute = 10, kMetadataAttribute = 2;
ProtoWriter integer(std::string_view name, int64_t value) {
  return ProtoWriter().bytes(1, name).varint(9, static_cast<uint64_t>(value));
}
ProtoWriter small_integer(std::string_view name, int64_t value) {
  return ProtoWriter().bytes(1, name).varint(7, static_cast<uint64_t>(value));
}
ProtoWriter flag(std::string_view name, bool value) {
  return ProtoWriter().bytes(1, name).varint(27, value ? 1 : 0);
}
ProtoWriter word(std::string_view name, std::string_view value) {
  return ProtoWriter().bytes(1, name).bytes(29, value);
}

std::string delimited(const ProtoWriter& message) {
  return ProtoWriter().raw_varint(message.text().size()).text() +
         message.text();
}

}  // namespace

void ChakraFiles::open_rank(uint32_t rank, int64_t process) {
  ProtoWriter head;
  head.bytes(1, "0.0.4")
      .message(kMetadataAttribute, word("schema", "1.1.0-chakra.0.0.4"))
      .message(kMetadataAttribute, integer("pid", process))
      .message(kMetadataAttribute, word("source", told_.source))
      .message(kMetadataAttribute, word("predicted", told_.predicted))
      .message(kMetadataAttribute, word("trust", told_.trust))
      .message(kMetadataAttribute, word("check", told_.check));
  files_.push_back({fmt::format("step.{}.et", rank), delimited(head)});
}

void ChakraFiles::add(ExportedNode node, int64_t ready_ns, uint64_t gap_id) {
  if (node.start_ns > ready_ns) {
    ExportedNode gap{.id = gap_id,
                     .name = "gap",
                     .start_ns = ready_ns,
                     .end_ns = node.start_ns,
                     .causes = std::move(node.causes),
                     .on_host = true};
    write(gap);
    node.causes = {gap_id};
  }
  write(node);
}

void ChakraFiles::write(const ExportedNode& node) {
  const auto micros = [&](int64_t time_ns) {
    return static_cast<uint64_t>((time_ns - first_ns_ + 500) / 1000 + 1);
  };
  const NodeNumber type = type_of(node);
  // Of a transfer, the flag says that a host computes, wherever it was issued:
  // ASTRA-sim takes such a node for compute.
  const bool is_host_work = node.on_host && !node.transfer;
  ProtoWriter out;
  out.varint(1, node.id).bytes(2, node.name).varint(3, type);
  for (const uint64_t cause : node.causes) out.varint(5, cause);
  out.varint(6, micros(node.start_ns))
      .varint(7, micros(std::max(node.start_ns, node.end_ns)) -
                     micros(node.start_ns))
      .message(kAttribute, flag("is_cpu_op", is_host_work));
  if (node.lane >= 0) {
    out.message(kAttribute,
                integer(is_host_work ? "tid" : "stream", node.lane));
  }
  if (type == kSendNode || type == kReceiveNode) {
    out.message(kAttribute, integer("comm_size", node.transfer->bytes))
        .message(kAttribute, small_integer("comm_src", node.transfer->from))
        .message(kAttribute, small_integer("comm_dst", node.transfer->to))
        .message(kAttribute, small_integer("comm_tag", 0));
  } else if (type == kCollectiveNode) {
    const ExportedTransfer& told = *node.transfer;
    out.message(kAttribute, integer("comm_type", comm_type(told.kind)))
        .message(kAttribute, integer("comm_size", told.bytes));
    if (!told.group.empty()) {
      const auto [place, added] =
          numbers_.try_emplace(told.group, groups_.size());
      if (added) groups_.push_back(told.group);
      out.message(kAttribute,
                  word("pg_name", fmt::format("{}", place->second)));
    }
  } else if (node.transfer) {
    ++wordless_;
  }
  files_.back().text += delimited(out);
  ++nodes_;
}

Artefact ChakraFiles::artefact() && {
  nlohmann::ordered_json groups = nlohmann::ordered_json::object();
  for (size_t at = 0; at < groups_.size(); ++at) {
    groups[fmt::format("{}", at)] = groups_[at];
  }
  Artefact artefact;
  artefact.files = std::move(files_);
  artefact.files.insert(artefact.files.begin(),
                        {"comm_groups.json", pretty(groups)});
  if (wordless_ > 0) {
    told_.trust += fmt::format(
        " {} communications of kinds that Chakra does not know are compute.",
        wordless_);
  }
  artefact.advice = fmt::format(
      "{} nodes. ASTRA-sim 2: --workload-configuration=DIRECTORY/step "
      "--comm-group-configuration=DIRECTORY/comm_groups.json\n{}",
      nodes_, comment_of(told_, ""));
  return artefact;
}

}  // namespace reprise
