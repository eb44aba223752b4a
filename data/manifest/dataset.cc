#include "data/manifest/dataset.h"

#include <algorithm>
#include <array>

#include "data/file.h"
#include "data/manifest/initial_values.h"

namespace reprise {
namespace {

// Replaces each byte of a text by its token and returns the vocabulary.
std::string tokenize(std::string& text) {
  std::array<bool, 256> present{};
  for (const char c : text) present[static_cast<unsigned char>(c)] = true;
  std::array<char, 256> token{};
  std::string vocabulary;
  for (size_t byte = 0; byte < present.size(); ++byte) {
    if (!present[byte]) continue;
    token[byte] = static_cast<char>(vocabulary.size());
    vocabulary += static_cast<char>(byte);
  }
  for (char& c : text) c = token[static_cast<unsigned char>(c)];
  return vocabulary;
}

/// What steps are timed on where no data is to be read: small numbers, which
/// are labels, tokens and pixels alike.
Result<std::string> made_up_bytes(const Dataset& dataset) {
  constexpr int64_t kMostBytes = int64_t{64} << 20, kMostRecords = 1024;
  constexpr uint64_t kValues = 10;
  const int64_t record =
      dataset.is_text ? dataset.sequence : dataset.record_bytes;
  if (record < 1 || record > kMostBytes) {
    return fail(ErrorKind::kInvalid,
                "records or windows of {} bytes cannot be made up", record);
  }
  const int64_t count =
      std::clamp<int64_t>(kMostBytes / record, 2, kMostRecords);
  const int64_t more = dataset.is_text ? 2 : 0;
  std::string bytes(static_cast<size_t>(record * count + more), '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(splitmix64(dataset.seed + i) % kValues);
  return bytes;
}

int64_t row_size(const Shape& shape) {
  return element_count(shape) / shape.dimensions[0];
}

}  // namespace

Result<BatchSource> BatchSource::open(const Dataset& dataset,
                                      const DataFolders& folders) {
  BatchSource source;
  source.dataset_ = dataset;
  Result<std::string> bytes;
  if (folders.none()) {
    bytes = made_up_bytes(dataset);
  } else {
    const Result<DataFile> file = find_data_file(dataset.file, folders);
    if (!file) return pass(file.error());
    bytes = read_file(file->path);
  }
  if (!bytes) return pass(bytes.error());
  if (Status fits = check_size(dataset, bytes->size()); !fits)
    return pass(fits.error());
  source.load(*std::move(bytes));
  return source;
}

Status BatchSource::check_size(const Dataset& dataset, uint64_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  if (dataset.is_text &&
      (dataset.sequence < 1 || dataset.sequence >= size - 1)) {
    return fail(ErrorKind::kInvalid,
                "{}: {} bytes of text are too few for windows of {}",
                dataset.file, size, dataset.sequence);
  }
  if (!dataset.is_text && (dataset.record_bytes < 1 || size == 0 ||
                           size % dataset.record_bytes != 0)) {
    return fail(ErrorKind::kInvalid,
                "{}: {} bytes are no whole number of records of {}",
                dataset.file, size, dataset.record_bytes);
  }
  return {};
}

void BatchSource::load(std::string bytes) {
  bytes_ = std::move(bytes);
  const auto size = static_cast<int64_t>(bytes_.size());
  choices_ =
      static_cast<uint64_t>(dataset_.is_text ? size - dataset_.sequence - 1
                                             : size / dataset_.record_bytes);
  if (dataset_.is_text) vocabulary_ = tokenize(bytes_);
}

const DatasetField* BatchSource::find(const std::string& field) const {
  for (const DatasetField& candidate : dataset_.fields) {
    if (candidate.name == field) return &candidate;
  }
  return nullptr;
}

Status BatchSource::check(const std::string& field, const Shape& shape) const {
  const DatasetField* found = find(field);
  if (found == nullptr) {
    return fail(ErrorKind::kInvalid, "{}: the dataset has no field '{}'",
                dataset_.file, field);
  }
  const bool typed =
      shape.type == PrimitiveType::kF32 || shape.type == PrimitiveType::kS32;
  if (!typed || shape.dimensions.empty() || shape.dimensions[0] < 1) {
    return fail(ErrorKind::kUnsupported,
                "field '{}' cannot fill {}: expected f32 or s32 rows", field,
                shape_text(shape));
  }
  const int64_t columns = dataset_.is_text ? dataset_.sequence : found->count;
  const bool inside =
      dataset_.is_text
          ? found->shift >= 0 && found->shift <= 1
          : found->offset >= 0 && found->count >= 0 &&
                found->offset <= dataset_.record_bytes - found->count;
  if (row_size(shape) != columns || !inside) {
    return fail(ErrorKind::kInvalid,
                "field '{}' has {} values a row, its tensor {} wants {}", field,
                columns, shape_text(shape), row_size(shape));
  }
  return {};
}

double BatchSource::value(const DatasetField& field, uint64_t hash,
                          int64_t column) const {
  const uint64_t choice = hash % choices_;
  const uint64_t start =
      dataset_.is_text ? choice + static_cast<uint64_t>(field.shift)
                       : choice * static_cast<uint64_t>(dataset_.record_bytes) +
                             static_cast<uint64_t>(field.offset);
  return static_cast<unsigned char>(
      bytes_[start + static_cast<uint64_t>(column)]);
}

void BatchSource::fill(const std::string& field, const Shape& shape,
                       uint64_t step, uint64_t rank, void* out) const {
  const DatasetField* found = find(field);
  REPRISE_CHECK(found != nullptr);
  const int64_t columns = row_size(shape);
  float* floats = static_cast<float*>(out);
  int32_t* integers = static_cast<int32_t*>(out);
  for (int64_t row = 0; row < shape.dimensions[0]; ++row) {
    const uint64_t hash =
        batch_hash(dataset_.seed, step, rank, static_cast<uint64_t>(row));
    for (int64_t column = 0; column < columns; ++column) {
      const double raw = value(*found, hash, column);
      if (shape.type == PrimitiveType::kF32) {
        *floats++ = static_cast<float>(raw * found->scale);
      } else {
        *integers++ = static_cast<int32_t>(raw);
      }
    }
  }
}

}  // namespace reprise
