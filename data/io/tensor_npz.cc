// .npz: a zip of .npy, each a magic, a version, a header in Python's notation
// of a dictionary of three keys, and the array. The notation is read by hand:
// nothing is evaluated, and arrays of objects (pickles) are refused. Source:
// numpy.lib.format, "Format Version 1.0" to "3.0"; PKWARE's APPNOTE.TXT 6.3.10.
#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "data/io/archive_stream.h"
#include "data/io/archive_zip.h"
#include "data/io/byte_source.h"
#include "data/io/crc32.h"
#include "data/io/json_tree.h"
#include "data/io/printable_text.h"
#include "data/io/tensor_file_parts.h"
#include "data/memory_limit.h"

namespace reprise {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::string_view kNpySuffix = ".npy";
/// numpy writes headers of 118 bytes, and refuses over 10,000.
constexpr size_t kLongestNpyHeader = 10'000;

struct TypeCode {
  std::string_view code;  ///< Behind the byte order.
  PrimitiveType type;
};
/// What numpy writes of ml_dtypes' float8_e5m2, and does not read. Of the other
/// types that it lacks it writes the bytes alone.
constexpr TypeCode kUnreadByNumpy = {"f1", PrimitiveType::kF8E5M2};
constexpr std::array<TypeCode, 14> kTypeCodes = {{
    {"b1", PrimitiveType::kPred},
    {"i1", PrimitiveType::kS8},
    {"u1", PrimitiveType::kU8},
    {"i2", PrimitiveType::kS16},
    {"u2", PrimitiveType::kU16},
    {"i4", PrimitiveType::kS32},
    {"u4", PrimitiveType::kU32},
    {"i8", PrimitiveType::kS64},
    {"u8", PrimitiveType::kU64},
    {"f2", PrimitiveType::kF16},
    {"f4", PrimitiveType::kF32},
    {"f8", PrimitiveType::kF64},
    {"c8", PrimitiveType::kC64},
    {"c16", PrimitiveType::kC128},
}};

/// A cursor over the header of a .npy.
class NpyHeaderReader {
 public:
  explicit NpyHeaderReader(std::string_view text) : text_(text) {}

  bool take(std::string_view word) {
    while (text_.starts_with(' ')) text_.remove_prefix(1);
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  bool quoted(std::string* out) {
    if (!take("'")) return false;
    const size_t end = text_.find('\'');
    if (end == std::string_view::npos) return false;
    *out = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool integer(int64_t* out) {
    take("");  // Spaces.
    const auto read =
        std::from_chars(text_.data(), text_.data() + text_.size(), *out);
    if (read.ec != std::errc()) return false;
    text_.remove_prefix(static_cast<size_t>(read.ptr - text_.data()));
    return true;
  }
  bool shape(std::vector<int64_t>* out) {
    if (!take("(")) return false;
    while (!take(")")) {
      if (!integer(&out->emplace_back())) return false;
      if (!take(",")) return take(")");
    }
    return true;
  }

 private:
  std::string_view text_;
};

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

bool read_npy_header(std::string_view text, NpyHeader* header) {
  NpyHeaderReader reader(text);
  if (!reader.take("{")) return false;
  for (int keys = 0; !reader.take("}"); ++keys) {
    std::string key;
    if (!reader.quoted(&key) || !reader.take(":")) return false;
    bool read = false;
    if (key == "descr") {
      read = reader.quoted(&header->descr);
    } else if (key == "fortran_order") {
      header->fortran_order = reader.take("True");
      read = header->fortran_order || reader.take("False");
    } else if (key == "shape") {
      read = reader.shape(&header->shape);
    }
    if (!read || keys == 3) return false;
    reader.take(",");
  }
  return !header->descr.empty();
}

/// `<f4`: byte order, kind, bytes. False for what is not read.
bool read_type(std::string_view descr, TensorEntry* entry) {
  if (descr.size() < 3 || (descr[0] != '<' && descr[0] != '|')) return false;
  const std::string_view code = descr.substr(1);
  for (const TypeCode& row : kTypeCodes) {
    if (row.code != code) continue;
    entry->type = row.type;
    entry->element_bytes = primitive_type_bits(row.type) / 8;
    return descr[0] == '<' || entry->element_bytes == 1;
  }
  if (code == kUnreadByNumpy.code) {
    entry->type = kUnreadByNumpy.type;
    entry->element_bytes = 1;
    return true;
  }
  if (code.size() != 2 || code[0] != 'V') return false;
  entry->element_bytes = code[1] - '0';
  return entry->element_bytes >= 1 && entry->element_bytes <= 8;
}

/// The array of Fortran order in C's.
std::string row_major(std::string_view bytes, const TensorEntry& entry) {
  const auto size = static_cast<size_t>(entry.element_bytes);
  std::string out(bytes.size(), '\0');
  const size_t rank = entry.dimensions.size();
  std::vector<size_t> strides(rank, size), index(rank, 0);
  for (size_t i = 1; i < rank; ++i) {
    strides[i] = strides[i - 1] * static_cast<size_t>(entry.dimensions[i - 1]);
  }
  size_t from = 0;
  for (size_t to = 0; to < out.size(); to += size) {
    bytes.copy(out.data() + to, size, from);
    for (size_t i = rank; i-- > 0;) {
      from += strides[i];
      if (++index[i] < static_cast<size_t>(entry.dimensions[i])) break;
      from -= strides[i] * index[i];
      index[i] = 0;
    }
  }
  return out;
}

/// Reads one member of the zip.
class NpyReader {
 public:
  NpyReader(TensorFileParts* parts, InputFile& input, std::string name)
      : parts_(parts), source_(*input.source), name_(std::move(name)) {}

  Status run(uint64_t* budget) {
    NpyHeader header;
    if (Status read = read_head(&header); !read) return read;
    TensorEntry entry;
    entry.name = name_;
    entry.dimensions = header.shape;
    if (!read_type(header.descr, &entry)) {
      return fail(ErrorKind::kUnsupported,
                  "{}: '{}' has elements of '{}'; little-endian numbers are "
                  "read",
                  parts_->file.path(), shown(), printable_text(header.descr));
    }
    const Result<uint64_t> bytes =
        tensor_bytes(entry.dimensions, entry.element_bytes);
    if (!bytes)
      return parts_->damaged("'{}': {}", shown(), bytes.error().message);
    if (*bytes > *budget) {
      return fail(ErrorKind::kIo, "{}: '{}' takes {} bytes, more than fit",
                  parts_->file.path(), shown(), *bytes);
    }
    *budget -= *bytes;
    Result<std::string> data = read_all(source_, static_cast<int64_t>(*bytes));
    if (!data) return pass(data.error());
    if (data->size() != *bytes) {
      return parts_->damaged("'{}' has {} bytes, its {} takes {}", shown(),
                             data->size(), entry.text(), *bytes);
    }
    if (header.fortran_order) data = row_major(*data, entry);
    if (name_ == kMetadataName) return parts_->read_metadata(*data);
    entry.bytes = parts_->keep(*std::move(data));
    return parts_->add(std::move(entry));
  }

 private:
  std::string shown() const { return printable_text(name_); }

  Result<std::string> take(size_t count) {
    std::string bytes(count, '\0');
    const Result<size_t> got = read_fully(source_, bytes);
    if (!got) return pass(got.error());
    if (*got != count) return parts_->damaged("'{}' is cut short", shown());
    return bytes;
  }

  Status read_head(NpyHeader* header) {
    const Result<std::string> start = take(kNpyMagic.size() + 2);
    if (!start) return pass(start.error());
    if (!start->starts_with(kNpyMagic))
      return parts_->damaged("'{}' is no array of numpy", shown());
    const size_t wide = (*start)[kNpyMagic.size()] == 1 ? 2 : 4;
    const Result<std::string> length = take(wide);
    if (!length) return pass(length.error());
    size_t size = 0;
    for (size_t i = 0; i < wide; ++i)
      size |= size_t{static_cast<unsigned char>((*length)[i])} << (8 * i);
    if (size > kLongestNpyHeader) {
      return parts_->damaged("'{}' has a header of {} bytes", shown(), size);
    }
    const Result<std::string> text = take(size);
    if (!text) return pass(text.error());
    if (!read_npy_header(*text, header))
      return parts_->damaged("'{}' has a malformed header", shown());
    return {};
  }

  TensorFileParts* parts_;
  ByteSource& source_;
  std::string name_;
};

std::string little(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i)
    out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

/// What stands before the array's bytes, 64-aligned as numpy writes it.
std::string npy_head(const TensorEntry& entry) {
  std::string code = fmt::format("V{}", entry.element_bytes);
  for (const TypeCode& row : kTypeCodes) {
    if (entry.type == row.type) code = row.code;
  }
  std::string shape;
  for (const int64_t extent : entry.dimensions)
    shape += fmt::format("{},", extent);
  std::string text = fmt::format(
      "{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
      entry.element_bytes == 1 ? '|' : '<', code, shape);
  constexpr size_t kBefore = 10;
  text.resize((text.size() + kBefore + 64) / 64 * 64 - kBefore - 1, ' ');
  text.push_back('\n');
  return std::string(kNpyMagic) + std::string("\x01\x00", 2) +
         little(text.size(), 2) + text;
}

/// Writes members stored, not deflated, each with 64-bit sizes.
class ZipWriter {
 public:
  explicit ZipWriter(NewFile& file) : file_(file) {}

  Status add(const TensorEntry& entry) {
    const std::string name = entry.name + std::string(kNpySuffix);
    const std::string head = npy_head(entry);
    const uint64_t size = head.size() + entry.bytes.size();
    // Version 4.5, names in UTF-8, stored, 1980-01-01.
    const std::string common =
        little(45, 2) + little(0x800, 2) + little(0, 2) + little(0, 2) +
        little(0x21, 2) + little(crc32(entry.bytes, crc32(head)), 4) +
        little(UINT32_MAX, 4) + little(UINT32_MAX, 4) + little(name.size(), 2);
    const std::string sizes = little(size, 8) + little(size, 8);
    directory_ += "PK\x01\x02" + little(45, 2) + common + little(28, 2) +
                  little(0, 2) + little(0, 2) + little(0, 2) + little(0, 4) +
                  little(UINT32_MAX, 4) + name + little(1, 2) + little(24, 2) +
                  sizes + little(at_, 8);
    ++members_;
    Status written = write("PK\x03\x04" + common + little(20, 2) + name +
                           little(1, 2) + little(16, 2) + sizes + head);
    if (written) written = write(entry.bytes);
    return written;
  }

  Status finish() {
    const uint64_t directory = at_, size = directory_.size();
    Status written = write(directory_);
    const uint64_t end = at_;
    if (!written) return written;
    return write("PK\x06\x06" + little(44, 8) + little(45, 2) + little(45, 2) +
                 little(0, 8) + little(members_, 8) + little(members_, 8) +
                 little(size, 8) + little(directory, 8) + "PK\x06\x07" +
                 little(0, 4) + little(end, 8) + little(1, 4) + "PK\x05\x06" +
                 little(0, 4) + little(UINT16_MAX, 2) + little(UINT16_MAX, 2) +
                 little(UINT32_MAX, 4) + little(UINT32_MAX, 4) + little(0, 2));
  }

 private:
  Status write(std::string_view bytes) {
    at_ += bytes.size();
    return file_.write(bytes);
  }

  NewFile& file_;
  std::string directory_;
  uint64_t at_ = 0, members_ = 0;
};

}  // namespace

Result<TensorFile> TensorFileParts::read_npz(const std::string& path) {
  TensorFileParts parts;
  parts.file.path_ = path;
  uint64_t budget = memory_limit_bytes() / 2;
  const std::string prefix = path + ":";
  const Status visited = visit_zip(path, path, [&](InputFile& input) -> Status {
    std::string name = input.name.substr(prefix.size());
    if (!input.unreadable.empty())
      return parts.damaged("'{}': {}", name, input.unreadable);
    if (!name.ends_with(kNpySuffix))
      return parts.damaged("'{}' is no .npy", name);
    name.resize(name.size() - kNpySuffix.size());
    return NpyReader(&parts, input, std::move(name)).run(&budget);
  });
  if (!visited) return pass(visited.error());
  return std::move(parts.file);
}

Status write_npz(NewFile& file, const std::vector<TensorEntry>& tensors,
                 const std::map<std::string, std::string>& metadata) {
  ZipWriter zip(file);
  Status written;
  for (const TensorEntry& tensor : tensors) {
    if (written) written = zip.add(tensor);
  }
  if (written && !metadata.empty()) {
    const std::string text = json_text(nlohmann::json(metadata));
    TensorEntry entry;
    entry.name = kMetadataName;
    entry.type = PrimitiveType::kU8;
    entry.element_bytes = 1;
    entry.dimensions = {static_cast<int64_t>(text.size())};
    entry.bytes = text;
    written = zip.add(entry);
  }
  if (written) written = zip.finish();
  return written;
}

}  // namespace reprise
