// Some of the ranks of a connected mesh as a Gloo context of their own.
#pragma once

#include <gloo/context.h>

#include <memory>
#include <vector>

namespace reprise {

/// A context over the mesh's connections, in which rank i is `members[i]` of
/// the mesh. Costs no messages: any rank may make any group at any time.
/// Collectives on contexts of one mesh must come in the same order on all ranks
/// that several of them join. Requires: `members` holds the mesh's own rank;
/// the mesh outlives the context.
std::shared_ptr<gloo::Context> make_group_context(
    gloo::Context& mesh, const std::vector<int>& members);

}  // namespace reprise
