// Real data behind a manifest's batch tensors, indexed by counter: the batch of
// any (step, rank) can be made alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/hlo/module.h"
#include "data/io/tensor_file.h"
#include "data/manifest/manifest.h"
#include "data/result.h"

namespace reprise {

/// A dataset, read into memory or mapped; safe to read from many threads.
class BatchSource {
 public:
  /// Made-up data where the manifest has no folders. Errors: kIo; kInvalid when
  /// the file lies elsewhere, is no whole number of records or is shorter than
  /// a window; those of TensorFile.
  static Result<BatchSource> open(const Dataset& dataset, int64_t ranks,
                                  const DataFolders& folders);

  /// Checks that `field` can fill a tensor of `shape`: records and text arrays
  /// of any plain type (data/element.h), a row along the first dimension;
  /// tensors what the file holds. Errors: kInvalid, kUnsupported, naming the
  /// field.
  Status check(const std::string& field, const Shape& shape) const;

  /// Fills the tensor of `field` for one step and rank. Requires: check()
  /// passed; `out` is of the shape's size.
  void fill(const std::string& field, const Shape& shape, uint64_t step,
            uint64_t rank, std::span<std::byte> out) const;

  /// Distinct bytes of a text in ascending order; a token is a byte's place in
  /// it.
  const std::string& vocabulary() const { return vocabulary_; }

 private:
  Status load(std::string bytes);
  const DatasetField* find(const std::string& field) const;
  Status check_rows(const DatasetField& field, const Shape& shape) const;
  Status check_tensor(const DatasetField& field, const Shape& shape) const;
  void fill_rows(const DatasetField& field, const Shape& shape, uint64_t step,
                 uint64_t rank, std::byte* out) const;
  double value(const DatasetField& field, uint64_t hash, int64_t column) const;

  Dataset dataset_;
  int64_t ranks_ = 1;
  std::string bytes_;  ///< Records, or tokens of the text.
  std::string vocabulary_;
  uint64_t choices_ = 0;  ///< Number of records or of window starts.
  /// kTensors; null where they are made up.
  std::shared_ptr<const TensorFile> tensors_;
};

}  // namespace reprise
