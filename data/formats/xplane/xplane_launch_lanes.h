// ROCm's calls stand on lines of their own ("Host Threads/1083"), whose numbers
// are none of the threads' that the ranges stand on. A call is made by the
// thread that is inside the range that says so: which one it is, the times
// tell.
#pragma once

#include <vector>

#include "data/formats/xplane/xplane_proto.h"

namespace reprise {

/// Gives each line of calls alone, of a host's `lines`, the id and name of the
/// thread whose ranges contain all of them, crossed by none of them nor by
/// calls of a line that joined it before; of several threads the one whose
/// innermost ranges are the shortest. Lines that no thread contains, or two as
/// closely, stay. **Cost** linear in all events, for each such line.
void join_launch_lanes(const Xplane& plane, std::vector<XplaneLine>& lines);

}  // namespace reprise
