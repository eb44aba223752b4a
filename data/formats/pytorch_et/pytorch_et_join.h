// PyTorch's two records of one run as one: Kineto knows when ops ran, the
// execution trace what they were given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/trace/trace.h"

namespace reprise {

/// What an execution trace without times lacks, unless it is joined.
constexpr std::string_view kUntimedNodes =
    "Nodes have no times: their order and structure stand. Import the rank's "
    "Kineto trace with it to have both.";

/// Name of a stream of an execution trace without times, by which the join
/// tells its nodes from Kineto's ops.
std::string execution_trace_stream(int64_t thread);

/// What a join did, over all ranks.
struct ExecutionTraceJoin {
  int64_t ranks = 0;   ///< With both records.
  int64_t nodes = 0;   ///< Of their execution traces, without roots.
  int64_t joined = 0;  ///< Found among Kineto's host ops.
};

/// On each rank that has both, gives Kineto's host ops the attributes, the
/// collective, its bytes and sequence of their node, and removes the untimed
/// nodes with their streams and dependencies (nesting says the same). A node's
/// op is the one whose "record_function_id" is its rf_id where Kineto has
/// that; else the one at its place in the sequence of names of its thread,
/// which may lie within a longer recording. Ranks with one record stay as they
/// are. Cost: about linear.
ExecutionTraceJoin join_execution_traces(Trace& trace);

}  // namespace reprise
