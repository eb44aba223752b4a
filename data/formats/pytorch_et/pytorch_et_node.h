// One node of a PyTorch execution trace, of every schema.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

/// Members of a process group, as "## process_group:init ##" lists them.
struct EtGroup {
  std::vector<uint32_t> ranks;  ///< Empty: all.
  int64_t size = -1;
};
using EtGroups = std::map<std::string, EtGroup, std::less<>>;

struct EtNode {
  int64_t id = -1, parent = -1;
  std::string name;
  int64_t record_function = 0;  ///< rf_id: order of execution, from 1.
  int64_t forward_parent = 0, sequence = -1, scope = 0, thread = 0;
  std::vector<int64_t> dependencies;  ///< Beside the parent ("ET+").

  /// Raw JSON, within the record.
  std::string_view inputs, outputs, input_shapes, input_types;

  // Attributes of collectives, from schema 1.1.0 on.
  std::string collective, group_name, data_type;
  int64_t input_elements = -1, output_elements = -1, group_size = -1;
  int64_t rank_start = -1, rank_stride = -1;

  // "ET+" alone.
  std::optional<int64_t> start_ns, duration_ns;
  std::string category;  ///< Kineto's, of device work.
  int64_t stream = -1, device = -1, correlation = -1, device_bytes = -1;

  void clear() { *this = {}; }
};

/// Reads one node; its views point into `record`. False when it has no id.
bool read_et_node(std::string_view record, EtNode& node);

/// A collective as record_param_comms has it in its inputs or attributes.
struct EtCollective {
  CollectiveInfo info;
  int64_t bytes = 0, sequence = -1;
  int64_t group_rank = -1;     ///< This rank's place in the group.
  bool default_group = false;  ///< Whether that is its rank.
};

/// Nothing for nodes that call no collective, "wait" among them.
std::optional<EtCollective> collective_of(const EtNode& node,
                                          const EtGroups& groups);

/// Adds the groups of a "## process_group:init ##" node.
void take_groups(const EtNode& node, EtGroups& groups);

/// What no column holds, as a JSON object; "" if nothing.
std::string attributes_of(const EtNode& node);

}  // namespace reprise
