#include "data/io/tensor_file.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "data/io/archive_zip.h"
#include "data/io/json_tree.h"
#include "data/io/printable_text.h"
#include "data/io/tensor_file_parts.h"

namespace reprise {

Result<uint64_t> tensor_bytes(const std::vector<int64_t>& dimensions,
                              int64_t element_bytes) {
  auto bytes = static_cast<uint64_t>(element_bytes);
  bool empty = false;
  for (const int64_t extent : dimensions) {
    if (extent < 0) return fail(ErrorKind::kParse, "an extent is {}", extent);
    empty = empty || extent == 0;
    if (extent > 0 &&
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) {
      return fail(ErrorKind::kParse, "the shape [{}] is too large",
                  fmt::join(dimensions, ","));
    }
  }
  return empty ? 0 : bytes;
}

std::string TensorEntry::text() const {
  return fmt::format("{}[{}]",
                     type ? std::string(primitive_type_name(*type))
                          : fmt::format("{} bytes an element", element_bytes),
                     fmt::join(dimensions, ","));
}

const TensorEntry* TensorFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

Status TensorFileParts::add(TensorEntry entry) {
  if (!file.by_name_.emplace(entry.name, file.tensors_.size()).second)
    return damaged("'{}' stands twice", printable_text(entry.name));
  if (entry.type && is_complex(*entry.type)) {
    entry.type = part_type(*entry.type);
    entry.element_bytes /= 2;
    entry.dimensions.push_back(2);
  }
  file.tensors_.push_back(std::move(entry));
  return {};
}

std::string_view TensorFileParts::keep(std::string bytes) {
  return *file.inflated_.emplace_back(
      std::make_unique<std::string>(std::move(bytes)));
}

Status TensorFileParts::read_metadata(std::string_view json) {
  const Result<nlohmann::json> tree = parse_json(json, file.path_);
  if (!tree) return pass(tree.error());
  if (!tree->is_object()) return damaged("{} is no object", kMetadataName);
  for (const auto& [key, value] : tree->items()) {
    if (!value.is_string())
      return damaged("{}: '{}' is no text", kMetadataName, printable_text(key));
    file.metadata_[key] = value.get<std::string>();
  }
  return {};
}

Result<TensorFile> TensorFile::open(const std::string& path) {
  const Result<OpenFile> opened = open_to_read(path);
  if (!opened) return pass(opened.error());
  std::array<char, 4> head{};
  const ssize_t got = ::pread(opened->descriptor, head.data(), head.size(), 0);
  ::close(opened->descriptor);
  if (opened->is_directory)
    return fail(ErrorKind::kIo, "{}: it is a directory", path);
  if (got < 0) return fail(ErrorKind::kIo, "{}: cannot be read", path);
  return is_zip({head.data(), static_cast<size_t>(got)})
             ? TensorFileParts::read_npz(path)
             : TensorFileParts::read_safetensors(path);
}

Status write_tensor_file(const std::string& path,
                         const std::vector<TensorEntry>& tensors,
                         const std::map<std::string, std::string>& metadata,
                         Existing existing) {
  Result<NewFile> file = NewFile::create(path);
  Status written = file ? Status() : Status(pass(file.error()));
  if (written) {
    written = path.ends_with(".npz")
                  ? write_npz(*file, tensors, metadata)
                  : write_safetensors(*file, tensors, metadata);
  }
  if (written) written = file->publish(existing);
  if (!written) return pass(written.error(), path);
  return {};
}

}  // namespace reprise
