// One rank of a dPRO trace as events: operators on the device's streams, each
// reduction as a negotiation of all ranks, copies and an all-reduce, and the
// edges of the data-flow graph as dependencies of every step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/formats/dpro/dpro_communication.h"
#include "data/formats/dpro/dpro_graph.h"
#include "data/formats/dpro/dpro_messages.h"
#include "data/formats/dpro/dpro_operations.h"
#include "data/formats/dpro/dpro_tensors.h"

namespace reprise {

class DproRank {
 public:
  /// `rank` is the spool's. All must outlive this.
  DproRank(TraceSpool& spool, FileReport& report, uint32_t rank,
           uint32_t world_size, const DproGraph& graph,
           const DproTensors& tensors);

  /// Adds everything; `operations` and `communication` are finished, and the
  /// events of `exchanges` are there, with ids below `next_id`.
  void add(DproOperations& operations, const DproCommunication& communication,
           const std::vector<DproExchange>& exchanges = {},
           int64_t next_id = 0);

 private:
  /// First and last event of something; -1: not there.
  struct Ends {
    int64_t first = -1, last = -1;
  };

  void add_operations(const DproOperations& operations);
  void add_reductions(const DproCommunication& communication,
                      DproOperations& operations);
  void add_exchanges(const std::vector<DproExchange>& exchanges);
  void add_reduction(const DproReduction& reduction,
                     const DproCommunication::Group& group, Ends& ends);
  void add_stage(const DproReduction& reduction, DproStage stage,
                 const std::string& name, Event event, Ends& ends);
  int32_t reduction_info(const DproCommunication::Group& group, int64_t& bytes);
  int32_t negotiation_info();
  std::string tensor_names(const DproCommunication::Group& group) const;
  uint32_t stream(uint32_t& place, const char* name, StreamKind kind);
  void add_steps(const std::vector<DproStep>& steps);

  void find_communication_nodes();
  void find_ends(int32_t step, std::span<const DproOperation> all,
                 std::span<const size_t> of_step);
  void add_dependencies(const DproOperations& operations);
  void add_edges();

  TraceSpool& spool_;
  FileReport& report_;
  uint32_t rank_, world_size_;
  const DproGraph& graph_;
  const DproTensors& tensors_;
  int64_t next_id_ = 0;
  int32_t step_number_ = -1;  ///< Of the reduction at hand.
  uint32_t transfer_stream_ = UINT32_MAX, queue_stream_ = UINT32_MAX,
           negotiation_stream_ = UINT32_MAX;
  int64_t first_operation_ = 0;                      ///< Id of the first one.
  std::vector<std::vector<uint32_t>> node_tensors_;  ///< [node]
  size_t named_tensors_ = 0;                         ///< In all of them.
  std::vector<std::vector<Ends>> node_ends_;         ///< [node], of one step.
  size_t dependencies_ = 0;
  int32_t negotiation_ = -1;
  struct Member {
    int32_t step = -1;
    uint32_t tensor = 0;
    Ends ends;
  };
  std::vector<Member> members_;  ///< Sorted by step and tensor.
};

}  // namespace reprise
