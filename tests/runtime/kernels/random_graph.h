// Random small programs and random convex groups of their ops, for property
// tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// How many graphs, and from which seed on: the variable's number, else
/// `otherwise`.
int number_from_environment(const char* name, int otherwise);

/// HLO text of a graph of about `ops` f32 ops over related shapes: elementwise,
/// broadcast, reduce, transpose, reshape, slice, pad, concatenate, reverse,
/// select, gather, scatter.
std::string random_graph(uint64_t seed, int ops);

/// A convex set of up to `size` non-view ops around a random one.
std::vector<InstructionId> random_group(const Module& module, size_t size,
                                        std::mt19937_64& generator);

/// Members that anything outside the group uses, or that nothing uses.
std::vector<InstructionId> outputs_of(const Module& module,
                                      const std::vector<InstructionId>& group);

}  // namespace reprise
