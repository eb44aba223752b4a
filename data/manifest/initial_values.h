// The counter-based generator of initial values and batch indices: any element
// can be made alone, on any machine, with the same bits as
// data/programs/export.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/hlo/module.h"
#include "data/manifest/manifest.h"

namespace reprise {

/// Finalizer of SplitMix64 applied to `x + 0x9E3779B97F4A7C15`.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014.
uint64_t splitmix64(uint64_t x);

/// Element `i` of the uniform stream `seed` in [-scale, scale): 24 random bits,
/// computed in double and rounded to float once.
float uniform_value(uint64_t seed, uint64_t i, double scale);

/// Fills a state tensor of a plain type as its manifest entry says, but for
/// kTensor, whose values a file holds.
void fill_initial(const ManifestParameter& parameter, PrimitiveType type,
                  std::span<std::byte> values);

/// A first value by the parameter's name, as optimizers and layers call things:
/// zeros for counts, moments, momentum and biases, ones for scales and
/// variances, a small constant for a learning rate; else uniform, scaled by
/// 1/sqrt(fan-in), for floating arrays of two dimensions and more, and zeros.
void guess_initial_value(const Shape& shape, ManifestParameter* parameter);

/// Record of row `row` on rank `rank` in step `step`, before the modulus.
uint64_t batch_hash(uint64_t seed, uint64_t step, uint64_t rank, uint64_t row);

}  // namespace reprise
