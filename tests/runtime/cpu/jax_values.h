// Arrays that JAX made: read from a file of cases, and compared with ours.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// The bytes of each array, of a list of base64 texts.
std::vector<std::string> decode_arrays(const nlohmann::json& texts);

/// A small program, its arguments, and what JAX computes.
struct JaxCase {
  std::string name, hlo;
  std::vector<std::string> inputs, outputs;
};
/// Those of jax_cases.jsonl (3.6 MB: inputs and results of some 650 programs,
/// which CI has no JAX to make; made by make_cases.py), and those of
/// gpu_cases.jsonl, 1.4 MB lowered for GPUs (made by make_gpu_cases.py).
const std::vector<JaxCase>& jax_cases();

/// What rounding moves eigenvectors and singular vectors by is that over the
/// gap between their values, and OpenBLAS rounds by the processor: of a 40 by
/// 35 matrix of f32 up to 24 times what others may, where the cases come from a
/// processor with AVX-512.
double rounding_of(const JaxCase& one);

/// Whether XLA's CPU rounds in an order that ours takes, bit for bit.
bool goes_by_blocks(const JaxCase& one);

/// Expects an array of ours to be JAX's, integers alike and floats within what
/// sums in another order and a library's own functions may give, `times` that.
void expect_close(const std::string& what, const Shape& shape,
                  std::span<const std::byte> got, const std::string& bytes,
                  double times = 1);

}  // namespace reprise
