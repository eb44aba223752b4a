// Blocks of 512 bytes: a header, then the member's bytes, padded. Headers that
// only extend the next one (pax records, GNU's long names) are read first and
// laid over it. Sources: POSIX.1-2017 pax, "pax Interchange Format"; GNU tar
// manual, "Basic Tar Format".
#include "data/io/archive_tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "data/io/archive_members.h"
#include "data/io/archive_stream.h"

namespace reprise {
namespace {

// A name or a pax header that is larger is no honest one.
constexpr int64_t kLongestHeaderBytes = int64_t{1} << 20;
// What GNU's base 256 can say; its padding still fits into 64 bits.
constexpr int64_t kLargestMemberBytes = int64_t{1} << 62;

using Block = std::array<char, kTarBlockBytes>;

std::string_view field(std::string_view block, size_t offset, size_t size) {
  const std::string_view bytes = block.substr(offset, size);
  return bytes.substr(0, bytes.find('\0'));
}

// Octal text, or GNU's base 256 for what does not fit; negative is no number.
std::optional<int64_t> number(std::string_view bytes) {
  if (!bytes.empty() && (bytes[0] & 0x80) != 0) {
    int64_t value = bytes[0] & 0x3f;
    for (const char c : bytes.substr(1)) {
      if (value >> 54 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return (bytes[0] & 0x40) != 0 ? std::nullopt : std::optional(value);
  }
  bytes.remove_prefix(std::min(bytes.find_first_not_of(' '), bytes.size()));
  const size_t end = bytes.find_first_of(std::string_view(" \0", 2));
  bytes = bytes.substr(0, end);
  int64_t value = 0;
  const auto [rest, error] =
      std::from_chars(bytes.data(), bytes.data() + bytes.size(), value, 8);
  if (bytes.empty()) return 0;
  if (error != std::errc() || rest != bytes.data() + bytes.size() || value < 0)
    return std::nullopt;
  return value;
}

bool checksum_matches(std::string_view block) {
  // The sum of all bytes with the checksum's own eight read as blanks.
  int64_t sum = int64_t{8} * ' ';
  for (size_t i = 0; i < kTarBlockBytes; ++i) {
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(block[i]);
  }
  const std::string_view text = block.substr(148, 8);
  return text.find_first_of("01234567") != std::string_view::npos &&
         number(text) == sum;
}

/// What extension headers say of the member behind them.
struct Extended {
  std::string path;
  std::optional<int64_t> size;
  bool sparse = false;
};

// pax records: "LENGTH KEY=VALUE\n", LENGTH counting itself.
bool read_pax(std::string_view text, Extended& extended) {
  while (!text.empty()) {
    size_t length = 0;
    const auto [rest, error] =
        std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(rest - text.data());
    if (error != std::errc() || length > text.size() || length < digits + 2)
      return false;
    const std::string_view record =
        text.substr(digits + 1, length - digits - 2);
    text.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = record.substr(0, equals),
                           value = record.substr(equals + 1);
    if (key == "path") extended.path = value;
    if (key.starts_with("GNU.sparse")) extended.sparse = true;
    if (key == "size") {
      int64_t size = -1;
      std::from_chars(value.data(), value.data() + value.size(), size);
      if (size < 0 || size > kLargestMemberBytes) return false;
      extended.size = size;
    }
  }
  return true;
}

class TarWalk {
 public:
  TarWalk(ByteSource& archive, const std::string& name,
          const InputVisitor& visit)
      : archive_(archive), name_(name), visit_(visit) {}

  Status run() {
    int zero_blocks = 0;
    while (zero_blocks < 2) {
      Block block;
      const Result<size_t> got = read_fully(archive_, block);
      if (!got) return pass(got.error());
      if (*got == 0) return {};  // No end mark: some writers leave it out.
      if (*got < block.size()) return damaged("it ends within a header");
      offset_ += kTarBlockBytes;
      const std::string_view bytes(block.data(), block.size());
      if (bytes.find_first_not_of('\0') == std::string_view::npos) {
        ++zero_blocks;
        continue;
      }
      zero_blocks = 0;
      if (!checksum_matches(bytes)) return damaged("no header stands there");
      if (Status done = take(bytes); !done) return done;
    }
    return {};
  }

 private:
  Status take(std::string_view block) {
    const char type = block[156];
    std::optional<int64_t> size = number(block.substr(124, 12));
    if (!size) return damaged("the size of a member is no number");
    if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
      return take_extension(type, *size);
    }
    Extended extended = std::move(extended_);
    extended_ = {};
    if (extended.size) size = extended.size;
    const bool regular = type == '0' || type == '\0' || type == '7';
    // Links and devices have no content, whatever their size says.
    if (type >= '1' && type <= '6') size = 0;
    if ((regular || type == 'S') && *size >= 0) {
      return take_member(block, extended, *size, type == 'S');
    }
    return skip(padded(*size));
  }

  Status take_extension(char type, int64_t size) {
    if (size > kLongestHeaderBytes) {
      return damaged(fmt::format("a header of {} bytes", size));
    }
    std::string text(static_cast<size_t>(padded(size)), '\0');
    const Result<size_t> got = read_fully(archive_, text);
    if (!got) return pass(got.error());
    if (*got < text.size()) return damaged("it ends within a header");
    offset_ += static_cast<int64_t>(text.size());
    text.resize(static_cast<size_t>(size));
    if (type == 'L') extended_.path = text.substr(0, text.find('\0'));
    if (type == 'x' && !read_pax(text, extended_)) {
      return damaged("an extended header is malformed");
    }
    return {};
  }

  Status take_member(std::string_view block, const Extended& extended,
                     int64_t size, bool sparse) {
    std::string path = extended.path;
    if (path.empty()) {
      const std::string_view prefix = field(block, 345, 155);
      if (block.substr(257, 6) == std::string_view("ustar\0", 6) &&
          !prefix.empty()) {
        path = std::string(prefix) + "/";
      }
      path += field(block, 0, 100);
    }
    remaining_ = size;
    Status visited;
    if (sparse || extended.sparse) {
      visited = visit_unreadable(name_, path, "a sparse file", visit_);
    } else {
      visited =
          visit_member(name_, path, std::make_unique<Member>(*this), visit_);
    }
    if (!visited) return visited;
    return skip(remaining_ + padded(size) - size);
  }

  /// The bytes of the member that is visited.
  class Member : public ByteSource {
   public:
    explicit Member(TarWalk& walk) : walk_(walk) {}
    Result<size_t> read(std::span<char> into) override {
      return walk_.read_member(into);
    }

   private:
    TarWalk& walk_;
  };

  Result<size_t> read_member(std::span<char> into) {
    const size_t count = static_cast<size_t>(
        std::min<int64_t>(remaining_, static_cast<int64_t>(into.size())));
    if (count == 0) return size_t{0};
    const Result<size_t> got = archive_.read(into.first(count));
    if (!got) return pass(got.error());
    if (*got == 0) return pass(damaged("it ends within a member").error());
    remaining_ -= static_cast<int64_t>(*got);
    offset_ += static_cast<int64_t>(*got);
    return *got;
  }

  Status skip(int64_t count) {
    std::string buffer(
        static_cast<size_t>(std::min<int64_t>(count, kStreamBufferBytes)),
        '\0');
    while (count > 0) {
      const size_t wanted = static_cast<size_t>(
          std::min<int64_t>(count, static_cast<int64_t>(buffer.size())));
      const Result<size_t> got = archive_.read({buffer.data(), wanted});
      if (!got) return pass(got.error());
      if (*got == 0) return damaged("it ends within a member");
      count -= static_cast<int64_t>(*got);
      offset_ += static_cast<int64_t>(*got);
    }
    return {};
  }

  static int64_t padded(int64_t size) {
    constexpr int64_t kBlock = kTarBlockBytes;
    return size + (kBlock - size % kBlock) % kBlock;
  }

  Status damaged(const std::string& what) const {
    return fail(ErrorKind::kParse, "{}: the tar is damaged at byte {}: {}",
                name_, offset_, what);
  }

  ByteSource& archive_;
  const std::string& name_;
  const InputVisitor& visit_;
  int64_t offset_ = 0;
  int64_t remaining_ = 0;  // Of the member that is visited.
  Extended extended_;
};

}  // namespace

bool is_tar(std::string_view head) {
  return head.size() >= kTarBlockBytes && head[0] != '\0' &&
         checksum_matches(head.substr(0, kTarBlockBytes));
}

Status visit_tar(ByteSource& archive, const std::string& name,
                 const InputVisitor& visit) {
  return TarWalk(archive, name, visit).run();
}

}  // namespace reprise
