// PyTorch execution traces (ExecutionTraceObserver): the ops of one iteration
// or more with their inputs, parents and threads, but, as a rule, no times.
#pragma once

#include "data/formats/reader.h"

namespace reprise {

/// Kind "pytorch-et"; schemas 1.0.1 to 1.1.1, recognized by content (some are
/// called *.pt.trace.json). Nodes become kHostOp (user scopes kAnnotation) on
/// streams "execution trace thread N", with external_id the node's id, a
/// dependency on the parent, and attributes "rf_id", "seq_id", "fw_parent",
/// "input_dims", "input_types"; calls of collectives (record_param_comms, but
/// not its "wait") carry a CollectiveInfo.
///
/// Without times (clock domain "none") a node takes no time and starts at its
/// place in the order of execution, in nanoseconds. Traces linked to Kineto
/// ("ET+") have `ts` and `dur`, and nodes of device work.
///
/// The rank is that of the calls on the default process group, else the member
/// that all calls on other groups, whose members are listed or counted, name.
const TraceReader& pytorch_et_reader();

}  // namespace reprise
