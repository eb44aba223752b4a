// Real data behind a manifest's batch tensors, indexed by counter: the batch of
// any (step, rank) can be made alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/manifest/manifest.h"
#include "data/result.h"

namespace reprise {

/// A dataset read into memory; safe to read from many threads.
class BatchSource {
 public:
  /// Made-up data where the manifest has no folders. Errors: kIo; kInvalid when
  /// the file lies elsewhere, is no whole number of records or is shorter than
  /// a window.
  static Result<BatchSource> open(const Dataset& dataset,
                                  const DataFolders& folders);

  /// Whether a file of so many bytes can be the dataset. Errors: kInvalid.
  static Status check_size(const Dataset& dataset, uint64_t bytes);

  /// Checks that `field` can fill a tensor of `shape` ([rows, …] of f32 or
  /// s32). Errors: kInvalid, kUnsupported, naming the field.
  Status check(const std::string& field, const Shape& shape) const;

  /// Fills the tensor of `field` for one step and rank. Requires: check()
  /// passed.
  void fill(const std::string& field, const Shape& shape, uint64_t step,
            uint64_t rank, void* out) const;

  /// Distinct bytes of a text in ascending order; a token is a byte's place in
  /// it.
  const std::string& vocabulary() const { return vocabulary_; }

 private:
  void load(std::string bytes);
  const DatasetField* find(const std::string& field) const;
  double value(const DatasetField& field, uint64_t hash, int64_t column) const;

  Dataset dataset_;
  std::string bytes_;  ///< Records, or tokens of the text.
  std::string vocabulary_;
  uint64_t choices_ = 0;  ///< Number of records or of window starts.
};

}  // namespace reprise
