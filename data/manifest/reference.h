// Another framework's results for a program (`reprise.reference/1`): losses,
// and of every state tensor a linear sketch of its change, small enough to
// ship.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/manifest/manifest.h"
#include "data/result.h"

namespace reprise {

struct ReferenceTensor {
  int64_t index = 0;  ///< Parameter number.
  std::string name;
  bool exact = false;  ///< `values` is the change itself, else its sketch.
  double norm_of_change = 0;
  std::vector<double> values;
};

struct Reference {
  int64_t steps = 0;
  std::vector<double> loss;  ///< [step], mean over ranks.
  std::vector<ReferenceTensor> state;
};

/// Loads the file that a manifest names. Errors: as find_data_file; kParse,
/// kInvalid.
Result<Reference> load_reference(const Manifest& manifest);

/// Relative L2 error of a tensor's change against the reference. For sketches
/// (64 buckets of a count-sketch, Charikar, Chen, Farach-Colton 2002) an
/// unbiased estimate of the squared error with a relative standard deviation of
/// sqrt(2/64) = 18 %. A reference of zero change gives the absolute norm.
/// Errors: kInvalid when sizes differ.
Result<double> relative_error_of_change(const ReferenceTensor& reference,
                                        std::span<const float> initial,
                                        std::span<const float> final);

}  // namespace reprise
