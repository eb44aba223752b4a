// Nodes of MLCommons Chakra's execution traces as the bytes of a rank's file,
// whatever step they are of: a recorded one or a planned one.
//
// Source: mlcommons/chakra, schema/protobuf/et_def.proto; attributes' names:
// src/feeder/et_feeder_node.cpp, which reads messages' ranks and tags as int32
// alone, and waits for data dependencies alone: so all are. Communicators are
// numbers, whose ranks stand in comm_groups.json, as ASTRA-sim's
// --comm-group-configuration has them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/export/artefact.h"
#include "data/collective/collective.h"

namespace reprise {

/// What a node sends: to a group, or as a message to one rank.
struct ExportedTransfer {
  CollectiveKind kind = CollectiveKind::kUnknown;
  int64_t bytes = 0;
  std::vector<uint32_t> group = {};  ///< Of a collective; empty: not known.
  int64_t from = -1, to = -1;        ///< Of a message; -1: not known.
};

struct ExportedNode {
  uint64_t id = 0;  ///< From 1: proto3 leaves 0 out.
  std::string name;
  int64_t start_ns = 0, end_ns = 0;
  std::vector<uint64_t> causes = {};  ///< On this rank.
  bool on_host = false;
  int64_t lane = -1;  ///< Number of its thread or stream; -1: none.
  std::optional<ExportedTransfer> transfer = {};
};

class ChakraFiles {
 public:
  /// Times count from `first_ns`, which none precedes.
  ChakraFiles(Provenance told, int64_t first_ns)
      : told_(std::move(told)), first_ns_(first_ns) {}

  /// Opens the file of the next rank.
  void open_rank(uint32_t rank, int64_t process);
  /// Adds a node, behind one of `gap_id` for the time from `ready_ns`, when its
  /// causes let it begin, to its start: Chakra has no delays.
  void add(ExportedNode node, int64_t ready_ns, uint64_t gap_id);

  /// All files, and what to do with them.
  Artefact artefact() &&;

 private:
  void write(const ExportedNode& node);

  Provenance told_;
  int64_t first_ns_ = 0, nodes_ = 0, wordless_ = 0;
  std::map<std::vector<uint32_t>, size_t> numbers_;  ///< Of groups of ranks.
  std::vector<std::vector<uint32_t>> groups_;        ///< By first appearance.
  std::vector<ExportedFile> files_;
};

}  // namespace reprise
