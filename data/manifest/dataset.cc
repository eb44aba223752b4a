#include "data/manifest/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "data/element.h"
#include "data/file.h"
#include "data/manifest/filed_tensor.h"
#include "data/manifest/initial_values.h"
#include "data/narrow_type.h"

namespace reprise {
namespace {

/// What infer_manifest writes where it cannot know the file.
constexpr std::string_view kNoFile = "FILL_IN";

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
  const bool is_text = dataset.kind == DatasetKind::kText;
  const int64_t record = is_text ? dataset.sequence : dataset.record_bytes;
  if (record < 1 || record > kMostBytes) {
    return fail(ErrorKind::kInvalid,
                "records or windows of {} bytes cannot be made up", record);
  }
  const int64_t count =
      std::clamp<int64_t>(kMostBytes / record, 2, kMostRecords);
  const int64_t more = is_text ? 2 : 0;
  std::string bytes(static_cast<size_t>(record * count + more), '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(splitmix64(dataset.seed + i) % kValues);
  return bytes;
}

int64_t row_count(const Shape& shape) {
  return shape.dimensions.empty() ? 1 : shape.dimensions[0];
}

int64_t row_size(const Shape& shape) {
  return element_count(shape) / std::max<int64_t>(row_count(shape), 1);
}

/// A batch of no dataset: small numbers of any type.
void fill_made_up(const Shape& shape, uint64_t seed, std::span<std::byte> out) {
  constexpr uint64_t kValues = 10;
  const size_t size = out.size() / static_cast<size_t>(std::max<int64_t>(
                                       element_count(shape), 1));
  for (size_t i = 0; (i + 1) * size <= out.size() && size > 0; ++i) {
    const uint64_t hash = splitmix64(seed + i);
    const double value = is_plain_float(holding_type(shape.type))
                             ? static_cast<double>(uniform_value(seed, i, 1))
                             : static_cast<double>(hash % kValues);
    store_element(shape.type, value, out.data() + i * size);
  }
}

Result<DataFile> find_dataset(const Dataset& dataset,
                              const DataFolders& folders) {
  Result<DataFile> file = find_data_file(dataset.file, folders);
  if (!file && dataset.file == kNoFile) {
    return fail(ErrorKind::kInvalid,
                "'{}' is the skeleton's placeholder: write the name of your "
                "data's file and the layout of its records there, or give "
                "--made-up-data for steps that are only timed",
                kNoFile);
  }
  return file;
}

/// Whether a file of so many bytes can be the dataset.
Status check_size(const Dataset& dataset, uint64_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  const bool is_text = dataset.kind == DatasetKind::kText;
  if (is_text && (dataset.sequence < 1 || dataset.sequence >= size - 1)) {
    return fail(ErrorKind::kInvalid,
                "{}: {} bytes of text are too few for windows of {}",
                dataset.file, size, dataset.sequence);
  }
  if (!is_text && (dataset.record_bytes < 1 || size == 0 ||
                   size % dataset.record_bytes != 0)) {
    return fail(ErrorKind::kInvalid,
                "{}: {} bytes are no whole number of records of {}",
                dataset.file, size, dataset.record_bytes);
  }
  return {};
}

}  // namespace

Result<BatchSource> BatchSource::open(const Dataset& dataset, int64_t ranks,
                                      const DataFolders& folders) {
  BatchSource source;
  source.dataset_ = dataset;
  source.ranks_ = ranks;
  if (folders.none()) {
    if (dataset.kind == DatasetKind::kTensors) return source;
    Result<std::string> bytes = made_up_bytes(dataset);
    if (!bytes) return pass(bytes.error());
    if (Status loaded = source.load(*std::move(bytes)); !loaded)
      return pass(loaded.error());
    return source;
  }
  const Result<DataFile> file = find_dataset(dataset, folders);
  if (!file) return pass(file.error());
  if (dataset.kind == DatasetKind::kTensors) {
    Result<TensorFile> tensors = TensorFile::open(file->path);
    if (!tensors) return pass(tensors.error());
    source.tensors_ = std::make_shared<TensorFile>(*std::move(tensors));
    return source;
  }
  Result<std::string> bytes = read_file(file->path);
  if (!bytes) return pass(bytes.error());
  if (Status loaded = source.load(*std::move(bytes)); !loaded)
    return pass(loaded.error());
  return source;
}

Status BatchSource::load(std::string bytes) {
  if (Status fits = check_size(dataset_, bytes.size()); !fits) return fits;
  bytes_ = std::move(bytes);
  const auto size = static_cast<int64_t>(bytes_.size());
  const bool is_text = dataset_.kind == DatasetKind::kText;
  choices_ = static_cast<uint64_t>(is_text ? size - dataset_.sequence - 1
                                           : size / dataset_.record_bytes);
  if (is_text) vocabulary_ = tokenize(bytes_);
  return {};
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
  if (!shape.is_array() || !has_plain_elements(stored_type(shape.type))) {
    return fail(ErrorKind::kUnsupported,
                "field '{}' cannot fill {}: expected plain numbers", field,
                shape_text(shape, false));
  }
  return dataset_.kind == DatasetKind::kTensors ? check_tensor(*found, shape)
                                                : check_rows(*found, shape);
}

Status BatchSource::check_rows(const DatasetField& field,
                               const Shape& shape) const {
  const bool is_text = dataset_.kind == DatasetKind::kText;
  const int64_t columns = is_text ? dataset_.sequence : field.count;
  const int64_t size = primitive_type_bits(field.type) / 8;
  const bool inside =
      is_text ? field.shift >= 0 && field.shift <= 1
              : field.offset >= 0 && field.count >= 0 &&
                    field.count <= dataset_.record_bytes / size &&
                    field.offset <= dataset_.record_bytes - field.count * size;
  if (row_count(shape) < 1 || row_size(shape) != columns || !inside) {
    return fail(ErrorKind::kInvalid,
                "field '{}' has {} values a row, its tensor {} wants {}",
                field.name, columns, shape_text(shape), row_size(shape));
  }
  return {};
}

Status BatchSource::check_tensor(const DatasetField& field,
                                 const Shape& shape) const {
  if (!tensors_) return {};
  const TensorEntry* tensor = tensors_->find(field.tensor);
  if (tensor == nullptr) {
    return fail(ErrorKind::kInvalid, "{}: it has no tensor '{}'",
                tensors_->path(), field.tensor);
  }
  const int64_t steps = field.steps > 0 ? field.steps : dataset_.steps;
  std::vector<int64_t> wanted = {steps, ranks_};
  wanted.insert(wanted.end(), shape.dimensions.begin(), shape.dimensions.end());
  const std::string complaint = tensor_complaint(*tensor, shape.type, wanted);
  if (complaint.empty() && steps > 0) return {};
  return fail(ErrorKind::kInvalid,
              "{}: '{}'{}: steps, ranks, and the batch of one rank",
              tensors_->path(), field.tensor,
              complaint.empty() ? " has no steps" : complaint);
}

double BatchSource::value(const DatasetField& field, uint64_t hash,
                          int64_t column) const {
  const uint64_t choice = hash % choices_;
  if (dataset_.kind == DatasetKind::kText) {
    const uint64_t start = choice + static_cast<uint64_t>(field.shift);
    return static_cast<unsigned char>(
        bytes_[start + static_cast<uint64_t>(column)]);
  }
  const auto size = static_cast<uint64_t>(primitive_type_bits(field.type) / 8);
  const uint64_t start = choice * static_cast<uint64_t>(dataset_.record_bytes) +
                         static_cast<uint64_t>(field.offset) +
                         static_cast<uint64_t>(column) * size;
  return load_element(field.type,
                      reinterpret_cast<const std::byte*>(&bytes_[start]));
}

void BatchSource::fill_rows(const DatasetField& field, const Shape& shape,
                            uint64_t step, uint64_t rank,
                            std::byte* out) const {
  const int64_t columns = row_size(shape);
  const size_t size = stored_bytes(shape.type);
  const bool is_float = is_plain_float(holding_type(shape.type));
  const double scale = is_float ? field.scale : 1;
  for (int64_t row = 0; row < row_count(shape); ++row) {
    const uint64_t hash =
        batch_hash(dataset_.seed, step, rank, static_cast<uint64_t>(row));
    for (int64_t column = 0; column < columns; ++column) {
      store_element(shape.type, value(field, hash, column) * scale, out);
      out += size;
    }
  }
}

void BatchSource::fill(const std::string& field, const Shape& shape,
                       uint64_t step, uint64_t rank,
                       std::span<std::byte> out) const {
  const DatasetField* found = find(field);
  REPRISE_CHECK(found != nullptr);
  if (dataset_.kind != DatasetKind::kTensors)
    return fill_rows(*found, shape, step, rank, out.data());
  if (!tensors_) return fill_made_up(shape, batch_hash(0, step, rank, 0), out);
  const auto steps =
      static_cast<uint64_t>(found->steps > 0 ? found->steps : dataset_.steps);
  const uint64_t place = step % steps * static_cast<uint64_t>(ranks_) + rank;
  copy_elements(*tensors_->find(found->tensor), shape.type, place * out.size(),
                out);
}

}  // namespace reprise
