// What the arguments of the few telling events say: collectives in all the ways
// that PyTorch has recorded them, recorded synchronizations, and the shapes by
// which gradients are known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/trace/trace.h"

namespace reprise {

/// Arguments as they stand in the file; empty where there are none.
struct KinetoDetails {
  // Of collectives, on kernels and on "record_param_comms".
  std::string_view collective, data_type, input_elements, output_elements,
      group_size, group_name, group_id, group_ranks, rank_start, rank_stride,
      sequence, source_rank, destination_rank;
  // Of host operators.
  std::string_view input_dims, input_strides, input_types, concrete_inputs,
      autograd_sequence, forward_thread;
  // Of synchronizations.
  std::string_view sync_kind, stream, waited_stream, waited_correlation;
};

/// Reads ChromeEvent::arguments.
KinetoDetails kineto_details(std::string_view arguments);
/// Whether they name a collective: PyTorch says so of kernels that a
/// collective's call launched, whatever library they are of.
bool tell_collective(std::string_view arguments);

/// The process groups of a job: who is in them.
class KinetoGroups {
 public:
  /// Takes the value of "distributedInfo" in; where it tells, sets rank and
  /// world size.
  void learn(std::string_view distributed_info);
  int64_t rank() const { return rank_; }              ///< -1: unknown.
  int64_t world_size() const { return world_size_; }  ///< -1: unknown.
  const std::string& backend() const { return backend_; }
  /// The groups that the file lists; each with its global ranks.
  const std::map<std::string, std::vector<uint32_t>, std::less<>>& listed()
      const {
    return named_;
  }

  /// The global ranks of a collective's group, ascending; empty if unknown.
  /// PyTorch abbreviates long lists: then from first rank and stride, or from
  /// what is known of the group's name.
  std::vector<uint32_t> members(const KinetoDetails& details);

 private:
  std::vector<uint32_t> limited(std::vector<uint32_t> ranks);

  int64_t rank_ = -1, world_size_ = -1;
  std::string backend_;
  std::map<std::string, std::vector<uint32_t>, std::less<>> named_;
  size_t handed_out_ = 0;
};

/// A collective as recorded.
struct KinetoCollective {
  CollectiveInfo info;
  int64_t sequence = -1;
  int64_t bytes = 0;  ///< Of the larger of this rank's buffers, as nccl-tests.
  /// The process group is told by its address in the process, which is no name
  /// to another rank: `info` has no communicator.
  bool group_is_address = false;
};

/// What is known of a collective; `kind` is what its name tells.
/// Nothing if the record is of no collective (a wait, an initialization).
std::optional<KinetoCollective> kineto_collective(const KinetoDetails& details,
                                                  CollectiveKind kind,
                                                  KinetoGroups& groups);

SynchronizationInfo kineto_synchronization(const KinetoDetails& details);

/// A JSON object of those arguments that help to find gradients and their
/// sizes: input_dims, input_types, concrete_inputs, sequence_number,
/// forward_thread_id. Empty if there are none.
std::string kineto_attributes(const KinetoDetails& details);

/// A JSON object of what an operator was called with: input_dims,
/// input_strides, input_types. Empty if there are none.
std::string kineto_shapes(const KinetoDetails& details);

}  // namespace reprise
