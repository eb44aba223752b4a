// safetensors: eight bytes of length, a JSON header that says type, shape and
// place of each array, then the arrays one after the other without a hole.
// Source: github.com/huggingface/safetensors, README "Format".
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "data/io/json_tree.h"
#include "data/io/printable_text.h"
#include "data/io/tensor_file_parts.h"

namespace reprise {
namespace {

using Json = nlohmann::json;

/// Source: MAX_HEADER_SIZE of the reference implementation.
constexpr uint64_t kLongestHeader = 100'000'000;
constexpr size_t kLengthBytes = 8;

struct TypeName {
  std::string_view name;
  PrimitiveType type;
};
constexpr std::array<TypeName, 16> kTypeNames = {{
    {"BOOL", PrimitiveType::kPred},
    {"U8", PrimitiveType::kU8},
    {"I8", PrimitiveType::kS8},
    {"I16", PrimitiveType::kS16},
    {"U16", PrimitiveType::kU16},
    {"I32", PrimitiveType::kS32},
    {"U32", PrimitiveType::kU32},
    {"I64", PrimitiveType::kS64},
    {"U64", PrimitiveType::kU64},
    {"F16", PrimitiveType::kF16},
    {"BF16", PrimitiveType::kBF16},
    {"F32", PrimitiveType::kF32},
    {"F64", PrimitiveType::kF64},
    {"C64", PrimitiveType::kC64},
    {"F8_E4M3", PrimitiveType::kF8E4M3FN},
    {"F8_E5M2", PrimitiveType::kF8E5M2},
}};

const TypeName* row_of(std::string_view name) {
  const auto found =
      std::find_if(kTypeNames.begin(), kTypeNames.end(),
                   [&](const TypeName& row) { return row.name == name; });
  return found == kTypeNames.end() ? nullptr : &*found;
}

const TypeName* row_of(PrimitiveType type) {
  const auto found =
      std::find_if(kTypeNames.begin(), kTypeNames.end(),
                   [&](const TypeName& row) { return row.type == type; });
  return found == kTypeNames.end() ? nullptr : &*found;
}

/// Where an array lies, from the end of the header.
struct Extent {
  uint64_t begin = 0, end = 0;
  std::string name;
};

/// The header, its keys each once: of two with one name, readers differ in
/// which they take.
Result<Json> parse_header(std::string_view text, const std::string& path) {
  if (const Status fits = check_json_extent(text, path); !fits)
    return pass(fits.error());
  std::set<std::string> names;
  std::string twice;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second && twice.empty()) {
      twice = value.get<std::string>();
    }
    return true;
  };
  Json header = Json::parse(text, watch, false);
  if (header.is_discarded() || !header.is_object()) {
    return fail(ErrorKind::kParse,
                "{}: neither .npz nor safetensors: its header is no JSON "
                "object",
                path);
  }
  if (!twice.empty()) {
    return fail(ErrorKind::kParse, "{}: '{}' stands twice", path,
                printable_text(twice));
  }
  return header;
}

std::vector<int64_t> shape_of(const Json& json) {
  std::vector<int64_t> shape;
  for (const Json& extent : json.at("shape")) {
    if (!extent.is_number_integer()) {
      throw std::invalid_argument("an extent of its shape is no integer");
    }
    shape.push_back(extent.get<int64_t>());
  }
  return shape;
}

/// One array of the header; throws std::invalid_argument and Json::exception.
Status read_entry(const std::string& name, const Json& json,
                  std::string_view data, TensorFileParts* parts,
                  std::vector<Extent>* extents) {
  const std::string shown = printable_text(name);
  const std::string type = json.at("dtype");
  const TypeName* row = row_of(type);
  if (row == nullptr) {
    return fail(ErrorKind::kUnsupported, "{}: '{}' has elements of {}",
                parts->file.path(), shown, printable_text(type));
  }
  TensorEntry entry;
  entry.name = name;
  entry.type = row->type;
  entry.element_bytes = primitive_type_bits(row->type) / 8;
  entry.dimensions = shape_of(json);
  const Json& place = json.at("data_offsets");
  if (place.size() != 2 || !place[0].is_number_unsigned() ||
      !place[1].is_number_unsigned()) {
    throw std::invalid_argument("its data_offsets are no two places");
  }
  const auto begin = place[0].get<uint64_t>(), end = place[1].get<uint64_t>();
  const Result<uint64_t> bytes =
      tensor_bytes(entry.dimensions, entry.element_bytes);
  if (!bytes) return parts->damaged("'{}': {}", shown, bytes.error().message);
  if (begin > end || end > data.size()) {
    return parts->damaged("'{}' lies at bytes {} to {} of {}", shown, begin,
                          end, data.size());
  }
  if (end - begin != *bytes) {
    return parts->damaged("'{}' has {} bytes, its {} takes {}", shown,
                          end - begin, entry.text(), *bytes);
  }
  entry.bytes = data.substr(begin, end - begin);
  extents->push_back({begin, end, name});
  return parts->add(std::move(entry));
}

/// Neither overlaps nor bytes that belong to nothing.
Status check_tiling(std::vector<Extent> extents, uint64_t size,
                    const TensorFileParts& parts) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  uint64_t at = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != at) {
      return parts.damaged("'{}' starts at byte {}, expected {}{}",
                           printable_text(extent.name), extent.begin, at,
                           extent.begin < at ? ": arrays overlap" : "");
    }
    at = extent.end;
  }
  if (at == size) return {};
  return parts.damaged("its arrays take {} bytes, it holds {}", at, size);
}

}  // namespace

Result<TensorFile> TensorFileParts::read_safetensors(const std::string& path) {
  TensorFileParts parts;
  parts.file.path_ = path;
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return pass(mapped.error());
  parts.file.mapped_ = std::make_unique<MappedFile>(std::move(*mapped));
  const std::string_view bytes = parts.file.mapped_->bytes();
  uint64_t length = 0;
  for (size_t i = 0; i < std::min(kLengthBytes, bytes.size()); ++i)
    length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  if (bytes.size() < kLengthBytes || length > kLongestHeader ||
      length > bytes.size() - kLengthBytes) {
    return parts.damaged(
        "neither .npz nor safetensors: no header of a length that fits");
  }
  const Result<Json> header =
      parse_header(bytes.substr(kLengthBytes, length), path);
  if (!header) return pass(header.error());
  const std::string_view data = bytes.substr(kLengthBytes + length);
  std::vector<Extent> extents;
  for (const auto& [name, json] : header->items()) {
    try {
      const Status read = name == kMetadataName
                              ? parts.read_metadata(json_text(json))
                              : read_entry(name, json, data, &parts, &extents);
      if (!read) return pass(read.error());
    } catch (const Json::exception& error) {
      return parts.damaged("'{}': {}", printable_text(name),
                           json_complaint(error));
    } catch (const std::invalid_argument& error) {
      return parts.damaged("'{}': {}", printable_text(name), error.what());
    }
  }
  const Status tiled = check_tiling(std::move(extents), data.size(), parts);
  if (!tiled) return pass(tiled.error());
  return std::move(parts.file);
}

Status write_safetensors(NewFile& file, const std::vector<TensorEntry>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadataName)] = metadata;
  uint64_t at = 0;
  for (const TensorEntry& tensor : tensors) {
    const TypeName* row = tensor.type ? row_of(*tensor.type) : nullptr;
    if (row == nullptr) {
      return fail(ErrorKind::kUnsupported, "'{}': safetensors has no {}",
                  tensor.name, tensor.text());
    }
    header[tensor.name] = {{"dtype", row->name},
                           {"shape", tensor.dimensions},
                           {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length;
  for (size_t i = 0; i < kLengthBytes; ++i)
    length.push_back(static_cast<char>(text.size() >> (8 * i)));
  Status written = file.write(length + text);
  for (const TensorEntry& tensor : tensors) {
    if (written) written = file.write(tensor.bytes);
  }
  return written;
}

}  // namespace reprise
