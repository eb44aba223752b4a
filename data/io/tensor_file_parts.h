// What the two formats of tensor_file.h share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/tensor_file.h"
#include "data/result.h"

namespace reprise {

/// Where texts stand in an .npz: safetensors keeps the name for them.
constexpr std::string_view kMetadataName = "__metadata__";

/// Bytes of an array. Errors: kParse for negative extents and what 64 bits
/// cannot count.
Result<uint64_t> tensor_bytes(const std::vector<int64_t>& dimensions,
                              int64_t element_bytes);

/// Fills a TensorFile; messages name its path.
struct TensorFileParts {
  TensorFile file;

  static Result<TensorFile> read_safetensors(const std::string& path);
  static Result<TensorFile> read_npz(const std::string& path);

  /// Errors: kParse where the name stands already.
  Status add(TensorEntry entry);
  /// Keeps bytes alive with the file.
  std::string_view keep(std::string bytes);
  /// The texts of a JSON object. Errors: kParse.
  Status read_metadata(std::string_view json);
  template <typename... Args>
  tl::unexpected<Error> damaged(fmt::format_string<Args...> what,
                                Args&&... args) const {
    return fail(ErrorKind::kParse, "{}: {}", file.path_,
                fmt::format(what, std::forward<Args>(args)...));
  }
};

/// Errors of both: those of write_tensor_file.
Status write_safetensors(NewFile& file, const std::vector<TensorEntry>& tensors,
                         const std::map<std::string, std::string>& metadata);
Status write_npz(NewFile& file, const std::vector<TensorEntry>& tensors,
                 const std::map<std::string, std::string>& metadata);

}  // namespace reprise
