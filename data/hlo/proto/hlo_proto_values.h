// Values of an instruction's attributes that a proto keeps in a shape of its
// own: groups of devices, windows, dimension labels, called computations. What
// is a plain number, list, flag or word stands in the table of
// hlo_proto_attributes.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/io/protobuf.h"
#include "data/result.h"

namespace reprise {

/// Names of what an instruction refers to by id; empty if there is none.
struct HloProtoNames {
  std::function<std::string_view(int64_t)> instruction;
  std::function<std::string_view(int64_t)> computation;
};

/// An HloInstructionProto and what is around it.
struct HloProtoInstruction {
  const ProtoMessage& proto;
  const HloProtoNames& names;
  int64_t operand_type = 0;  ///< The first operand's, as ShapeProto counts.

  std::string_view opcode() const { return proto.bytes(2); }
};

/// The text behind `name=`; empty when the attribute is not there. Errors:
/// kParse, kUnsupported (a shape or a reference that cannot be).
using HloProtoValue = Result<std::string>(const HloProtoInstruction&);

HloProtoValue async_thread_value, channel_value, replica_groups_value,
    source_target_value, comparison_type_value, dimensions_value,
    replication_value, window_value, dimension_labels_value, precision_value,
    slice_value, padding_value, outfeed_shape_value, operand_layouts_value,
    aliasing_value;
/// Computations that an instruction calls, by the attribute's name.
HloProtoValue while_condition_value, while_body_value, select_value,
    scatter_value, true_computation_value, false_computation_value,
    computation_list_value, called_value;
/// What instructions of all opcodes may have.
HloProtoValue sharding_value, frontend_attributes_value,
    control_predecessors_value, metadata_value, backend_config_value;

}  // namespace reprise
