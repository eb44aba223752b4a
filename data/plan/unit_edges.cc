// A unit waits for the units that own the values it reads; of a chunked
// collective, for the chunks that carry those bytes. What some other unit or
// the program reads is an output of its owner.
#include <algorithm>
#include <functional>

#include "data/plan/unit_graph.h"

namespace reprise {
namespace {

/// Finds which units read what others write, and so what each must write.
class Connector {
 public:
  Connector(const OpGraph& graph, UnitGraph* units)
      : graph_(graph), units_(*units) {}

  Status connect() {
    place_slots();
    needed_ = graph_.is_output;
    for (uint32_t u = 0; u < units_.units.size(); ++u) {
      PlannedUnit& unit = units_.units[u];
      if (unit.role == OpRole::kCollective) {
        add_collective_edges(u);
      } else {
        for (InstructionId op : unit.ops) {
          for (InstructionId value : graph_.inputs[index_of(op)]) {
            const InstructionId source = graph_.producer[index_of(value)];
            if (std::binary_search(unit.ops.begin(), unit.ops.end(), source))
              continue;
            read_value(value, 0, byte_size(graph_.at(value).shape), u);
          }
        }
      }
      auto& predecessors = unit.predecessors;
      std::sort(predecessors.begin(), predecessors.end());
      predecessors.erase(std::unique(predecessors.begin(), predecessors.end()),
                         predecessors.end());
    }
    return collect_outputs();
  }

 private:
  struct Place {
    int32_t collective = -1;
    int64_t offset_bytes = 0;
  };

  /// Makes unit `reader` wait for what writes bytes [begin, end) of `value`.
  void read_value(InstructionId value, int64_t begin, int64_t end,
                  uint32_t reader) {
    const InstructionId op = graph_.producer[index_of(value)];
    if (op == kNoInstruction) return;
    std::vector<uint32_t>& predecessors = units_.units[reader].predecessors;
    const uint32_t owner = units_.owner[index_of(op)];
    if (graph_.role_of(op) != OpRole::kCollective) {
      predecessors.push_back(owner);
      needed_[index_of(value)] = true;
      return;
    }
    const Place& place = place_of_[index_of(value)];
    const PlannedCollective& collective =
        units_.collectives[static_cast<size_t>(place.collective)];
    const int64_t first = (place.offset_bytes + begin) / collective.chunk_bytes;
    const int64_t last = (place.offset_bytes + std::max(begin, end - 1)) /
                         collective.chunk_bytes;
    for (int64_t chunk = first; chunk <= std::min(last, collective.chunks - 1);
         ++chunk) {
      predecessors.push_back(collective.first_unit +
                             static_cast<uint32_t>(chunk));
    }
  }

  void place_slots() {
    place_of_.assign(graph_.role.size(), {});
    for (size_t c = 0; c < units_.collectives.size(); ++c) {
      for (const SlotPlace& member : units_.collectives[c].members) {
        const CollectiveSlot& slot =
            graph_.slots[static_cast<size_t>(member.slot)];
        if (slot.output == kNoInstruction) continue;
        place_of_[index_of(slot.output)] = {static_cast<int32_t>(c),
                                            member.offset_bytes};
      }
    }
  }

  void add_collective_edges(uint32_t reader) {
    const PlannedUnit& unit = units_.units[reader];
    const PlannedCollective& collective =
        units_.collectives[static_cast<size_t>(unit.collective)];
    const int64_t chunk_begin = unit.chunk * collective.chunk_bytes;
    const int64_t chunk_end =
        std::min(chunk_begin + collective.chunk_bytes, collective.bytes);
    for (const SlotPlace& member : collective.members) {
      const CollectiveSlot& slot =
          graph_.slots[static_cast<size_t>(member.slot)];
      const int64_t begin =
          std::max(chunk_begin - member.offset_bytes, int64_t{0});
      const int64_t end = std::min(chunk_end - member.offset_bytes, slot.bytes);
      if (begin < end) read_value(slot.input, begin, end, reader);
    }
  }

  Status collect_outputs() {
    for (size_t i = 0; i < needed_.size(); ++i) {
      const InstructionId op = graph_.producer[i];
      if (!needed_[i] || op == kNoInstruction ||
          graph_.role_of(op) == OpRole::kCollective)
        continue;
      units_.units[units_.owner[index_of(op)]].outputs.push_back(
          InstructionId{static_cast<uint32_t>(i)});
    }
    for (const PlannedUnit& unit : units_.units) {
      if (unit.role != OpRole::kCollective && unit.outputs.empty()) {
        return fail(ErrorKind::kInvalid,
                    "group '{}' computes nothing that is read: its ops stand "
                    "in other groups too",
                    unit.name);
      }
    }
    return {};
  }

  const OpGraph& graph_;
  UnitGraph& units_;
  /// [value] some other unit, or the program, reads it.
  std::vector<bool> needed_;
  std::vector<Place> place_of_;  ///< [value] of collective results.
};

}  // namespace

Status connect_units(const OpGraph& graph, UnitGraph* units) {
  return Connector(graph, units).connect();
}

}  // namespace reprise
