#include "data/io/byte_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/file.h"
#include "data/io/gzip.h"

namespace reprise {
namespace {

/// Bytes that do not repeat soon, so that every buffer border shows.
std::string pattern(size_t size) {
  std::string bytes;
  bytes.reserve(size + 20);
  for (size_t i = 0; bytes.size() < size; ++i) {
    bytes += std::to_string(i * i);
    bytes += i % 7 == 0 ? '\n' : ' ';
  }
  bytes.resize(size);
  return bytes;
}

std::string little_endian(uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// One file seen by a visitor.
struct Seen {
  std::string name, bytes, unreadable, error, path;
};

class ByteSourceTest : public ::testing::Test {
 protected:
  ByteSourceTest() {
    std::string folder = ::testing::TempDir() + "byte_source_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~ByteSourceTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  /// Runs a shell command in the folder.
  void shell(const std::string& command) const {
    ASSERT_EQ(std::system(("cd '" + folder_ + "' && " + command).c_str()), 0)
        << command;
  }

  /// Reads every input whole, in pieces of `piece` bytes.
  std::vector<Seen> visit(const std::string& path, size_t piece = 1 << 16) {
    std::vector<Seen> seen;
    status_ = visit_inputs(path, [&](InputFile& input) -> Status {
      Seen one{input.name.starts_with(folder_)
                   ? input.name.substr(folder_.size() + 1)
                   : input.name,
               "", input.unreadable, "", input.path};
      std::vector<char> buffer(piece);
      for (;;) {
        const Result<size_t> got = input.source->read(buffer);
        if (!got) one.error = got.error().message;
        if (!got || *got == 0) break;
        one.bytes.append(buffer.data(), *got);
      }
      // The head repeats what the source delivers, and takes nothing from it.
      const size_t head = std::min<size_t>(one.bytes.size(), 65536);
      EXPECT_EQ(input.head, one.bytes.substr(0, head));
      seen.push_back(std::move(one));
      return {};
    });
    return seen;
  }

  std::string folder_;
  Status status_;
};

TEST_F(ByteSourceTest, ReadsAPlainFileAndKeepsItsPath) {
  const std::string bytes = pattern(300'000);
  const std::string path = write("plain.json", bytes);
  const auto seen = visit(path, 1000);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].bytes, bytes);
  EXPECT_EQ(seen[0].path, path);
}

TEST_F(ByteSourceTest, VisitsAnEmptyFile) {
  const auto seen = visit(write("empty", ""));
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].bytes, "");
  EXPECT_EQ(seen[0].error, "");
}

TEST_F(ByteSourceTest, RefusesDirectoriesAndAbsentFiles) {
  EXPECT_FALSE(visit_inputs(folder_, [](InputFile&) { return Status{}; }));
  const Status absent =
      visit_inputs(folder_ + "/absent", [](InputFile&) { return Status{}; });
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, ErrorKind::kIo);
}

TEST_F(ByteSourceTest, InflatesGzipInPiecesOfAnySize) {
  const std::string bytes = pattern(1'500'000);
  const std::string path = write("a.bin", gzip(bytes));
  for (const size_t piece : {size_t{1} << 20, size_t{4096}, size_t{777}}) {
    const auto seen = visit(path, piece);
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_TRUE(seen[0].bytes == bytes);
    EXPECT_EQ(seen[0].error, "");
    EXPECT_EQ(seen[0].path, "") << "no random access to compressed bytes";
  }
}

TEST_F(ByteSourceTest, JoinsGzipMembersWhateverTheBufferBorders) {
  // Member borders at every place around the 512 KiB input buffer's end.
  const std::string first = pattern(100);
  std::string noise(700'000, '\0');
  uint64_t state = 1;
  for (char& c : noise) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    c = static_cast<char>(state >> 56);
  }
  const size_t overhead = gzip(noise).size() - noise.size();
  ASSERT_LT(overhead, 1000U);
  for (size_t cut = 0; cut < 24; ++cut) {
    const size_t size = (size_t{512} << 10) - overhead - 8 + cut;
    const std::string big = noise.substr(0, size);
    const auto seen =
        visit(write("m.gz", gzip(big) + gzip(first) + gzip("") + gzip("end")));
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_TRUE(seen[0].bytes == big + first + "end") << cut;
    EXPECT_EQ(seen[0].error, "");
  }
}

TEST_F(ByteSourceTest, PassesOverGarbageBehindGzip) {
  for (const std::string& garbage :
       {std::string(1000, '\0'), std::string("x"), std::string("\x1f"),
        std::string("\x1f\x8b")}) {
    const auto seen = visit(write("g.gz", gzip("content") + garbage));
    EXPECT_EQ(seen[0].bytes, "content");
    EXPECT_EQ(seen[0].error, "");
  }
}

TEST_F(ByteSourceTest, DeliversWhatCameBeforeTheCutOfAGzip) {
  const std::string bytes = pattern(2'000'000);
  const std::string packed = gzip(bytes);
  const auto seen = visit(write("cut.gz", packed.substr(0, packed.size() / 2)));
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_GT(seen[0].bytes.size(), 800'000U);
  EXPECT_EQ(seen[0].bytes, bytes.substr(0, seen[0].bytes.size()));
  EXPECT_NE(seen[0].error.find("truncated"), std::string::npos);
  EXPECT_NE(seen[0].error.find("cut.gz"), std::string::npos);
  // Cut within the trailer: everything is there, and still an error.
  const auto late =
      visit(write("late.gz", packed.substr(0, packed.size() - 3)));
  EXPECT_TRUE(late[0].bytes == bytes);
  EXPECT_NE(late[0].error, "");
}

TEST_F(ByteSourceTest, ReportsAGzipWithAWrongChecksum) {
  std::string packed = gzip(pattern(1000));
  packed[packed.size() - 8] ^= 1;
  const auto seen = visit(write("crc.gz", packed));
  EXPECT_EQ(seen[0].bytes, pattern(1000));
  EXPECT_NE(seen[0].error.find("checksum"), std::string::npos);
}

TEST_F(ByteSourceTest, ErrorsStay) {
  const std::string packed = gzip(pattern(1000));
  const Status status =
      visit_inputs(write("cut.gz", packed.substr(0, packed.size() - 20)),
                   [](InputFile& input) -> Status {
                     std::string buffer(1 << 16, '\0');
                     while (input.source->read(buffer).value_or(0) > 0) {
                     }
                     EXPECT_FALSE(input.source->read(buffer));
                     EXPECT_FALSE(input.source->read(buffer));
                     return {};
                   });
  EXPECT_TRUE(status);
}

TEST_F(ByteSourceTest, ReadsXzStreamsAndTheirPadding) {
  const std::string bytes = pattern(1'200'000);
  write("a", bytes);
  shell(
      "xz -k a && printf more > b && xz -k b && cat a.xz b.xz > ab.xz && "
      "head -c 8 /dev/zero > pad && cat a.xz pad b.xz pad > padded.xz && "
      "head -c 20000 a.xz > cut.xz");
  EXPECT_TRUE(visit(folder_ + "/a.xz", 10'000)[0].bytes == bytes);
  EXPECT_TRUE(visit(folder_ + "/ab.xz")[0].bytes == bytes + "more");
  const auto padded = visit(folder_ + "/padded.xz");
  EXPECT_TRUE(padded[0].bytes == bytes + "more");
  EXPECT_EQ(padded[0].error, "");
  const auto cut = visit(folder_ + "/cut.xz");
  EXPECT_NE(cut[0].error.find("truncated"), std::string::npos);
  EXPECT_EQ(cut[0].bytes, bytes.substr(0, cut[0].bytes.size()));
}

TEST_F(ByteSourceTest, VisitsTarMembersInTheirOrder) {
  const std::string long_name(180, 'n');
  write("zero.json", "{}");
  write("one.json", pattern(1000));
  write("._one.json", "mac");
  write("packed.gz", gzip("packed content"));
  write("empty", "");
  shell("mkdir d && printf deep > d/" + long_name + " && ln -s empty link");
  for (const std::string format : {"ustar", "pax", "gnu"}) {
    if (format == "ustar") {
      shell(
          "tar -H ustar -cf t.tar zero.json one.json ._one.json packed.gz "
          "empty link");
    } else {
      shell("tar -H " + format +
            " -cf t.tar zero.json one.json ._one.json packed.gz empty link d");
    }
    for (const std::string pack : {"cat", "gzip -c", "xz -c"}) {
      shell(pack + " t.tar > t.bin");
      const auto seen = visit(folder_ + "/t.bin", 333);
      ASSERT_TRUE(status_) << status_.error().message;
      ASSERT_EQ(seen.size(), format == "ustar" ? 4U : 5U);
      EXPECT_EQ(seen[0].name, "t.bin:zero.json");
      EXPECT_EQ(seen[0].bytes, "{}");
      EXPECT_EQ(seen[1].bytes, pattern(1000));
      EXPECT_EQ(seen[2].bytes, "packed content");
      EXPECT_EQ(seen[3].bytes, "");
      if (format != "ustar") {
        EXPECT_EQ(seen[4].name, "t.bin:d/" + long_name);
        EXPECT_EQ(seen[4].bytes, "deep");
      }
    }
  }
}

TEST_F(ByteSourceTest, SkipsWhatAVisitorDoesNotRead) {
  write("a", pattern(70'000));
  write("b", "second");
  shell("tar -cf t.tar a b");
  std::vector<std::string> heads;
  const Status status =
      visit_inputs(folder_ + "/t.tar", [&](InputFile& input) -> Status {
        heads.push_back(input.head.substr(0, 6));
        return {};
      });
  EXPECT_TRUE(status);
  EXPECT_EQ(heads, (std::vector<std::string>{pattern(6), "second"}));
}

TEST_F(ByteSourceTest, PassesOnAVisitorsError) {
  write("a", "1");
  write("b", "2");
  shell("tar -cf t.tar a b");
  int visits = 0;
  const Status status =
      visit_inputs(folder_ + "/t.tar", [&](InputFile&) -> Status {
        ++visits;
        return fail(ErrorKind::kInvalid, "stop");
      });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "stop");
  EXPECT_EQ(visits, 1);
}

TEST_F(ByteSourceTest, NamesSparseMembersAsUnreadable) {
  shell("truncate -s 10M holes && printf x >> holes && printf y > after");
  struct stat info {};
  ASSERT_EQ(::stat((folder_ + "/holes").c_str(), &info), 0);
  if (info.st_blocks * 512 >= info.st_size) {
    GTEST_SKIP() << "this file system keeps no holes";
  }
  for (const char* format : {"gnu", "pax"}) {
    shell(std::string("tar -S -H ") + format + " -cf t.tar holes after");
    const auto seen = visit(folder_ + "/t.tar");
    ASSERT_TRUE(status_) << status_.error().message;
    ASSERT_EQ(seen.size(), 2U) << format;
    EXPECT_EQ(seen[0].unreadable, "a sparse file");
    EXPECT_EQ(seen[1].bytes, "y");
  }
}

TEST_F(ByteSourceTest, SaysWhereATarIsDamaged) {
  write("a", pattern(2000));
  write("b", pattern(2000));
  shell("tar -cf t.tar a b");
  const std::string whole = read_file(folder_ + "/t.tar").value();
  // Header of b at 512 + 2048.
  std::string bad = whole;
  bad[2560] ^= 1;
  auto seen = visit(write("bad.tar", bad));
  EXPECT_EQ(seen.size(), 1U);
  ASSERT_FALSE(status_);
  EXPECT_NE(status_.error().message.find("byte 3072"), std::string::npos)
      << status_.error().message;
  // Cut in the middle of b.
  seen = visit(write("cut.tar", whole.substr(0, 3500)));
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[1].bytes, pattern(2000).substr(0, 3500 - 3072));
  EXPECT_NE(seen[1].error.find("within a member"), std::string::npos);
  EXPECT_FALSE(status_);
}

TEST_F(ByteSourceTest, TarSizesAreNotBelieved) {
  write("a", "tiny");
  shell("tar -cf t.tar a");
  std::string bytes = read_file(folder_ + "/t.tar").value();
  // Size in base 256: 2^62, with a checksum that fits.
  bytes.replace(124, 12, std::string("\x80\0\0\0\x40\0\0\0\0\0\0\0", 12));
  unsigned sum = 8 * ' ';
  for (size_t i = 0; i < 512; ++i) {
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(bytes[i]);
  }
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  bytes.replace(148, 7, std::string(text, 7));
  const auto seen = visit(write("huge.tar", bytes));
  EXPECT_FALSE(status_);
  // The same in an extended header: 2^63 - 1, which has no padded size.
  shell("tar -H pax --pax-option=comment:=1234567890123456789012 -cf t.tar a");
  bytes = read_file(folder_ + "/t.tar").value();
  const size_t comment = bytes.find("comment=1234567890123456789012");
  ASSERT_NE(comment, std::string::npos);
  bytes.replace(comment, 30, "size=9223372036854775807      ");
  visit(write("huge.tar", bytes));
  ASSERT_FALSE(status_);
  EXPECT_NE(status_.error().message.find("extended header is malformed"),
            std::string::npos)
      << status_.error().message;
}

TEST_F(ByteSourceTest, VisitsZipMembers) {
  write("a.json", pattern(200'000));
  write("b.json", "{}");
  write("c", "three");
  shell(
      "xz -k c && mkdir d && mv c.xz d/ && "
      "python3 -c \"import zipfile\n"
      "with zipfile.ZipFile('t.zip', 'w') as z:\n"
      "  z.write('a.json', compress_type=zipfile.ZIP_DEFLATED)\n"
      "  z.write('b.json', compress_type=zipfile.ZIP_STORED)\n"
      "  z.write('d')\n"
      "  z.write('d/c.xz')\n"
      "  z.writestr('__MACOSX/._a.json', 'mac')\n"
      "  z.writestr('lzma', 'x' * 100, compress_type=zipfile.ZIP_LZMA)\n\"");
  const auto seen = visit(folder_ + "/t.zip", 1000);
  ASSERT_TRUE(status_) << status_.error().message;
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[0].name, "t.zip:a.json");
  EXPECT_TRUE(seen[0].bytes == pattern(200'000));
  EXPECT_EQ(seen[1].bytes, "{}");
  EXPECT_EQ(seen[2].name, "t.zip:d/c.xz");
  EXPECT_EQ(seen[2].bytes, "three");
  EXPECT_NE(seen[3].unreadable.find("method 14"), std::string::npos);
}

TEST_F(ByteSourceTest, ReadsZip64) {
  shell(
      "python3 -c \"import zipfile\n"
      "with zipfile.ZipFile('t.zip', 'w') as z:\n"
      "  with z.open('a', 'w', force_zip64=True) as f: f.write(b'wide')\n"
      "z = zipfile.ZipFile('many.zip', 'w')\n"
      "for i in range(65600): z.writestr(str(i), b'')\n"
      "z.writestr('last', b'end')\n"
      "z.close()\"");
  EXPECT_EQ(visit(folder_ + "/t.zip").at(0).bytes, "wide");
  const auto many = visit(folder_ + "/many.zip", 64);
  ASSERT_TRUE(status_) << status_.error().message;
  ASSERT_EQ(many.size(), 65601U);
  EXPECT_EQ(many.back().bytes, "end");
}

TEST_F(ByteSourceTest, RefusesEncryptedAndOverlappingZipMembers) {
  shell(
      "python3 -c \"import zipfile\n"
      "z = zipfile.ZipFile('t.zip', 'w', zipfile.ZIP_DEFLATED)\n"
      "z.writestr('a', 'A' * 100000)\n"
      "z.writestr('b', 'B')\n"
      "z.close()\"");
  std::string bytes = read_file(folder_ + "/t.zip").value();
  const size_t first = bytes.find("PK\x01\x02");
  const size_t second = bytes.find("PK\x01\x02", first + 1);
  std::string secret = bytes;
  secret[first + 8] |= 1;
  auto seen = visit(write("secret.zip", secret));
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].unreadable, "encrypted");
  EXPECT_EQ(seen[1].bytes, "B");
  // b's entry points at a's bytes: one kernel of data under two names.
  std::string twice = bytes;
  twice.replace(second + 20, 8, bytes.substr(first + 20, 8));
  twice.replace(second + 42, 4, bytes.substr(first + 42, 4));
  seen = visit(write("twice.zip", twice));
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_NE(seen[0].unreadable.find("overlap"), std::string::npos);
}

TEST_F(ByteSourceTest, HoldsZipMembersToTheirSizeAndChecksum) {
  shell(
      "python3 -c \"import zipfile\n"
      "z = zipfile.ZipFile('t.zip', 'w', zipfile.ZIP_DEFLATED)\n"
      "z.writestr('a', 'A' * 100000)\n"
      "z.close()\"");
  const std::string bytes = read_file(folder_ + "/t.zip").value();
  const size_t entry = bytes.find("PK\x01\x02");
  const auto with = [&](size_t field, uint64_t value) {
    std::string changed = bytes;
    changed.replace(entry + field, 4, little_endian(value, 4));
    return visit(write("changed.zip", changed)).at(0).error;
  };
  EXPECT_NE(with(24, 50'000).find("larger than"), std::string::npos);
  EXPECT_NE(with(24, 150'000).find("truncated"), std::string::npos);
  EXPECT_NE(with(16, 1).find("checksum"), std::string::npos);
  const auto cut = visit(write("cut.zip", bytes.substr(0, bytes.size() / 2)));
  EXPECT_TRUE(cut.empty());
  ASSERT_FALSE(status_);
  EXPECT_NE(status_.error().message.find("cut"), std::string::npos);
}

TEST_F(ByteSourceTest, ReadAllHasALimit) {
  const auto source = memory_source(pattern(3'000'000));
  EXPECT_EQ(read_all(*source, 3'000'000).value(), pattern(3'000'000));
  const auto again = memory_source(pattern(3'000'000));
  const Result<std::string> over = read_all(*again, 2'999'999);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().kind, ErrorKind::kUnsupported);
}

TEST_F(ByteSourceTest, ALocalCopyIsGoneWithItsObject) {
  const std::string path = write("a.gz", gzip("content"));
  std::string copied;
  const Status status = visit_inputs(path, [&](InputFile& input) -> Status {
    const Result<LocalFile> local = LocalFile::of(input);
    if (!local) return pass(local.error());
    copied = local->path();
    EXPECT_EQ(read_file(copied).value(), "content");
    return {};
  });
  ASSERT_TRUE(status);
  EXPECT_NE(copied, path);
  EXPECT_FALSE(std::filesystem::exists(copied));
  // A plain file is its own copy, and stays.
  const std::string plain = write("plain", "content");
  ASSERT_TRUE(visit_inputs(plain, [&](InputFile& input) -> Status {
    const Result<LocalFile> local = LocalFile::of(input);
    EXPECT_EQ(local->path(), plain);
    return {};
  }));
  EXPECT_TRUE(std::filesystem::exists(plain));
}

TEST_F(ByteSourceTest, PositionFollowsTheFile) {
  const std::string path = write("a.gz", gzip(pattern(100'000)));
  std::atomic<int64_t> position = 0;
  ASSERT_TRUE(visit_inputs(
      path,
      [](InputFile& input) -> Status {
        const Result<std::string> all = read_all(*input.source, 1 << 20);
        return all ? Status{} : pass(all.error());
      },
      &position));
  EXPECT_EQ(position, static_cast<int64_t>(std::filesystem::file_size(path)));
}

TEST_F(ByteSourceTest, ReadsAPipe) {
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  shell("(printf '{\"a\": 1}' | gzip > pipe) &");
  const auto seen = visit(folder_ + "/pipe");
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].bytes, "{\"a\": 1}");
  EXPECT_EQ(seen[0].path, "");
}

}  // namespace
}  // namespace reprise
