// What an operation on a line of a device without streams (a TPU) is. Such a
// device runs one operation after another ("XLA Ops"); what it does beside
// them, transfers mostly, has a line of its own ("Async XLA Ops") on which each
// stands from its start to its end. Between its operations the device starts
// those, and stands still until they are done.
#pragma once

#include <cstdint>
#include <string_view>

#include "data/formats/xplane/xplane_row.h"

namespace reprise {

struct XplaneOperation {
  EventKind kind = EventKind::kCompute;
  bool whole = true;  ///< And so a collective, where it is named after one.
};

/// "all-reduce" of "%psum.3 = f32[4]{0} all-reduce(…)" or, without HLO's text,
/// of "all-reduce.3".
std::string_view xplane_opcode(const XplaneRow& row);

/// What holds other operations, or waits for one that has its own line, is an
/// annotation. `beside`: whether the row is on the line of what runs beside
/// operations, and `has_beside` whether there is such a line.
XplaneOperation xplane_operation(const XplaneRow& row, bool beside,
                                 bool has_beside);

}  // namespace reprise
