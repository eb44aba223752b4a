// A zip is read from its end: the end record says where the central directory
// lies, whose entries say where the members are and how large; of a local
// header only the length counts. Entries are distrusted: a directory has a
// largest size, members whose bytes overlap others' (a zip bomb) are marked,
// and a member that is longer than its entry says, or has another checksum, is
// an error. Source: PKWARE's APPNOTE.TXT 6.3.10. Cost: one pass over each
// member.
#include "data/io/archive_zip.h"

#include <isa-l/crc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "data/file.h"
#include "data/io/archive_gzip.h"
#include "data/io/archive_members.h"
#include "data/io/archive_stream.h"

namespace reprise {
namespace {

constexpr uint32_t kEndMagic = 0x06054b50, kEnd64Magic = 0x06064b50,
                   kLocator64Magic = 0x07064b50, kEntryMagic = 0x02014b50,
                   kLocalMagic = 0x04034b50;
constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20,
                 kEntryBytes = 46, kLocalBytes = 30;
constexpr size_t kLongestComment = 0xffff;
// A directory entry takes 46 bytes and its name: half a million members.
constexpr uint64_t kLargestDirectoryBytes = uint64_t{64} << 20;
constexpr uint16_t kStored = 0, kDeflated = 8, kEncryptedFlag = 1;
constexpr uint16_t kZip64Extra = 1;

uint64_t little_endian(std::string_view bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  }
  return value;
}
uint16_t u16(std::string_view bytes, size_t offset) {
  return static_cast<uint16_t>(little_endian(bytes, offset, 2));
}
uint32_t u32(std::string_view bytes, size_t offset) {
  return static_cast<uint32_t>(little_endian(bytes, offset, 4));
}
uint64_t u64(std::string_view bytes, size_t offset) {
  return little_endian(bytes, offset, 8);
}

/// A regular file read at any place.
class RandomFile {
 public:
  static Result<RandomFile> open(const std::string& path) {
    const Result<OpenFile> file = open_to_read(path);
    if (!file) return pass(file.error());
    return RandomFile(path, file->descriptor, file->size_bytes);
  }
  ~RandomFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  RandomFile(RandomFile&& other) noexcept
      : path_(std::move(other.path_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        size_(other.size_) {}
  RandomFile& operator=(RandomFile&&) = delete;

  uint64_t size() const { return size_; }

  /// Up to `into.size()` bytes from `offset`. Errors: kIo.
  Result<size_t> read_at(uint64_t offset, std::span<char> into) const {
    for (;;) {
      const ssize_t got = ::pread(descriptor_, into.data(), into.size(),
                                  static_cast<off_t>(offset));
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) {
        return fail(ErrorKind::kIo, "{}: cannot read: {}", path_,
                    std::strerror(errno));
      }
    }
  }

  /// Exactly `count` bytes, which lie within the file. Errors: kIo.
  Result<std::string> bytes_at(uint64_t offset, size_t count) const {
    std::string bytes(count, '\0');
    size_t done = 0;
    while (done < count) {
      const Result<size_t> got =
          read_at(offset + done, std::span(bytes).subspan(done));
      if (!got) return pass(got.error());
      if (*got == 0) return fail(ErrorKind::kIo, "{}: it shrank", path_);
      done += *got;
    }
    return bytes;
  }

 private:
  RandomFile(std::string path, int descriptor, uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  std::string path_;
  int descriptor_;
  uint64_t size_;
};

/// A stretch of the file.
class RangeSource : public ByteSource {
 public:
  RangeSource(const RandomFile& file, uint64_t offset, uint64_t size)
      : file_(file), offset_(offset), left_(size) {}
  Result<size_t> read(std::span<char> into) override {
    const size_t count = std::min<uint64_t>(into.size(), left_);
    if (count == 0) return size_t{0};
    const Result<size_t> got = file_.read_at(offset_, into.first(count));
    if (!got) return pass(got.error());
    offset_ += *got;
    left_ -= *got;
    return *got;
  }

 private:
  const RandomFile& file_;
  uint64_t offset_, left_;
};

struct Entry {
  std::string path;
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t packed_size = 0, size = 0, offset = 0;
  bool overlaps = false;  // Its bytes are another member's too.
};

/// Holds a member to the size and checksum that its entry states.
class CheckedSource : public ByteSource {
 public:
  CheckedSource(std::unique_ptr<ByteSource> bytes, std::string name,
                const Entry& entry)
      : bytes_(std::move(bytes)),
        name_(std::move(name)),
        left_(entry.size),
        expected_crc_(entry.crc) {}

  Result<size_t> read(std::span<char> into) override {
    if (into.empty()) return size_t{0};
    const Result<size_t> got = bytes_->read(into);
    if (!got) return pass(got.error());
    if (*got > left_) return damaged("is larger than the directory says");
    left_ -= *got;
    crc_ = crc32_gzip_refl(crc_, reinterpret_cast<unsigned char*>(into.data()),
                           *got);
    if (*got == 0 && left_ > 0) return damaged("is truncated");
    if (*got == 0 && crc_ != expected_crc_)
      return damaged("does not match its checksum");
    return *got;
  }

 private:
  Result<size_t> damaged(std::string_view what) const {
    return fail(ErrorKind::kParse, "{}: the member {}", name_, what);
  }

  std::unique_ptr<ByteSource> bytes_;
  std::string name_;
  uint64_t left_;
  uint32_t expected_crc_, crc_ = 0;
};

struct Directory {
  uint64_t offset = 0, size = 0;
};

class ZipWalk {
 public:
  ZipWalk(RandomFile file, const std::string& name, const InputVisitor& visit)
      : file_(std::move(file)), name_(name), visit_(visit) {}

  Status run() {
    const Result<Directory> directory = find_directory();
    if (!directory) return pass(directory.error());
    if (directory->size > kLargestDirectoryBytes) {
      return damaged("a directory of {} bytes", directory->size);
    }
    const Result<std::string> text =
        file_.bytes_at(directory->offset, static_cast<size_t>(directory->size));
    if (!text) return pass(text.error());
    Result<std::vector<Entry>> entries = read_entries(*text);
    if (!entries) return pass(entries.error());
    mark_overlaps(*entries, directory->offset);
    for (const Entry& entry : *entries) {
      if (Status visited = take(entry); !visited) return visited;
    }
    return {};
  }

 private:
  Result<Directory> find_directory() const {
    const size_t tail_size = static_cast<size_t>(
        std::min<uint64_t>(file_.size(), kEndBytes + kLongestComment));
    const uint64_t tail_offset = file_.size() - tail_size;
    const Result<std::string> tail = file_.bytes_at(tail_offset, tail_size);
    if (!tail) return pass(tail.error());
    for (size_t at = tail_size; at-- > 0;) {
      if (tail_size - at < kEndBytes || u32(*tail, at) != kEndMagic) continue;
      const std::string_view end = std::string_view(*tail).substr(at);
      Directory found{u32(end, 16), u32(end, 12)};
      if (found.offset == UINT32_MAX || found.size == UINT32_MAX ||
          u16(end, 10) == UINT16_MAX) {
        if (Status wide = read_end64(tail_offset + at, found); !wide)
          return pass(wide.error());
      }
      if (found.offset > file_.size() ||
          found.size > file_.size() - found.offset) {
        return pass(damaged("its directory lies outside the file").error());
      }
      return found;
    }
    return pass(damaged("no directory at its end, so it is cut").error());
  }

  // zip64: a locator in front of the end record names the wide end record.
  Status read_end64(uint64_t end, Directory& found) const {
    if (end < kLocator64Bytes) return {};
    const Result<std::string> locator =
        file_.bytes_at(end - kLocator64Bytes, kLocator64Bytes);
    if (!locator) return pass(locator.error());
    if (u32(*locator, 0) != kLocator64Magic) return {};
    const uint64_t offset = u64(*locator, 8);
    if (offset > file_.size() || file_.size() - offset < kEnd64Bytes) {
      return damaged("its zip64 record lies outside the file");
    }
    const Result<std::string> wide = file_.bytes_at(offset, kEnd64Bytes);
    if (!wide) return pass(wide.error());
    if (u32(*wide, 0) != kEnd64Magic) return damaged("no zip64 record");
    found = {u64(*wide, 48), u64(*wide, 40)};
    return {};
  }

  Result<std::vector<Entry>> read_entries(std::string_view text) const {
    std::vector<Entry> entries;
    while (text.size() >= kEntryBytes && u32(text, 0) == kEntryMagic) {
      const size_t name_size = u16(text, 28), extra_size = u16(text, 30),
                   comment_size = u16(text, 32);
      const size_t whole = kEntryBytes + name_size + extra_size + comment_size;
      if (whole > text.size()) break;
      Entry entry;
      entry.flags = u16(text, 8);
      entry.method = u16(text, 10);
      entry.crc = u32(text, 16);
      entry.packed_size = u32(text, 20);
      entry.size = u32(text, 24);
      entry.offset = u32(text, 42);
      entry.path = text.substr(kEntryBytes, name_size);
      widen(text.substr(kEntryBytes + name_size, extra_size), entry);
      entries.push_back(std::move(entry));
      text.remove_prefix(whole);
    }
    if (!text.empty()) {
      return pass(damaged("an entry of its directory is malformed").error());
    }
    return entries;
  }

  // The zip64 field holds, in this order, what did not fit into 32 bits.
  static void widen(std::string_view extra, Entry& entry) {
    while (extra.size() >= 4) {
      const size_t size = std::min<size_t>(u16(extra, 2), extra.size() - 4);
      if (u16(extra, 0) == kZip64Extra) {
        std::string_view wide = extra.substr(4, size);
        for (uint64_t* value :
             {&entry.size, &entry.packed_size, &entry.offset}) {
          if (*value != UINT32_MAX || wide.size() < 8) continue;
          *value = u64(wide, 0);
          wide.remove_prefix(8);
        }
      }
      extra.remove_prefix(4 + size);
    }
  }

  // Members share no bytes; one that reaches into the next is a bomb's.
  static void mark_overlaps(std::vector<Entry>& entries, uint64_t end) {
    std::vector<Entry*> sorted;
    sorted.reserve(entries.size());
    for (Entry& entry : entries) sorted.push_back(&entry);
    std::stable_sort(
        sorted.begin(), sorted.end(),
        [](const Entry* a, const Entry* b) { return a->offset < b->offset; });
    for (size_t i = 0; i < sorted.size(); ++i) {
      const uint64_t next = i + 1 < sorted.size() ? sorted[i + 1]->offset : end;
      const uint64_t limit = std::min(next, end);
      const uint64_t start = sorted[i]->offset;
      sorted[i]->overlaps =
          limit < start || limit - start < kLocalBytes ||
          limit - start - kLocalBytes < sorted[i]->packed_size;
    }
  }

  Status take(const Entry& entry) {
    const auto unreadable = [&](std::string reason) {
      return visit_unreadable(name_, entry.path, std::move(reason), visit_);
    };
    if (entry.path.ends_with('/')) return {};
    if ((entry.flags & kEncryptedFlag) != 0) return unreadable("encrypted");
    if (entry.method != kStored && entry.method != kDeflated) {
      return unreadable(fmt::format(
          "compressed by method {}; only deflate is read", entry.method));
    }
    if (entry.overlaps) {
      return unreadable("its bytes overlap another member's or the end");
    }
    const Result<std::string> local = file_.bytes_at(entry.offset, kLocalBytes);
    if (!local) return pass(local.error());
    const uint64_t start =
        entry.offset + kLocalBytes + u16(*local, 26) + u16(*local, 28);
    if (u32(*local, 0) != kLocalMagic || start > file_.size() ||
        file_.size() - start < entry.packed_size) {
      return unreadable("its header is damaged");
    }
    return visit_member(name_, entry.path, content(entry, start), visit_);
  }

  std::unique_ptr<ByteSource> content(const Entry& entry,
                                      uint64_t start) const {
    const std::string name = name_ + ":" + printable_name(entry.path);
    std::unique_ptr<ByteSource> bytes =
        std::make_unique<RangeSource>(file_, start, entry.packed_size);
    if (entry.method == kDeflated) {
      bytes = deflate_source(std::move(bytes), name);
    }
    return std::make_unique<CheckedSource>(std::move(bytes), name, entry);
  }

  template <typename... Args>
  Status damaged(fmt::format_string<Args...> what, Args&&... args) const {
    return fail(ErrorKind::kParse, "{}: the zip is damaged: {}", name_,
                fmt::format(what, std::forward<Args>(args)...));
  }

  RandomFile file_;
  const std::string& name_;
  const InputVisitor& visit_;
};

}  // namespace

bool is_zip(std::string_view head) {
  return head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06");
}

Status visit_zip(const std::string& path, const std::string& name,
                 const InputVisitor& visit) {
  Result<RandomFile> file = RandomFile::open(path);
  if (!file) return pass(file.error());
  return ZipWalk(std::move(*file), name, visit).run();
}

}  // namespace reprise
