// Random small training steps as HLO text, for property tests.
#pragma once

#include <cstdint>
#include <string>

namespace reprise {

/// A step of one rank of about `ops` ops over f32, s32 and pred arrays: every
/// opcode that the shipped programs use, dots with what may follow them,
/// reduces of all kinds, single and variadic all-reduces. Several outputs, some
/// of which update a parameter, their own or another. Parameters are f32.
std::string random_step(uint64_t seed, int ops);

}  // namespace reprise
