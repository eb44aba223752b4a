#include "data/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace reprise {
namespace {

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/file.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const {
    return folder_ + "/" + name;
  }
  std::ptrdiff_t files() const {
    const std::filesystem::directory_iterator entries(folder_);
    return std::distance(begin(entries), end(entries));
  }

  std::string folder_;
};

TEST_F(FileTest, WritersThatKeepWhatExistsDoNotReplaceEachOther) {
  for (const bool named : {false, true}) {
    const std::string place = path(named ? "named" : "unnamed");
    Result<NewFile> first = NewFile::create(place, named);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->name().empty(), !named);
    EXPECT_FALSE(std::filesystem::exists(place));
    ASSERT_TRUE(write_file_atomically(place, "second", Existing::kKeep));
    const Status published = first->publish(Existing::kKeep);
    ASSERT_FALSE(published);
    EXPECT_EQ(published.error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(*read_file(place), "second");
    ASSERT_TRUE(write_file_atomically(place, "third", Existing::kReplace));
    EXPECT_EQ(*read_file(place), "third");
  }
  EXPECT_EQ(files(), 2);
}

TEST_F(FileTest, WhatIsNotPublishedGoes) {
  for (const bool named : {false, true})
    ASSERT_TRUE(NewFile::create(path("x"), named));
  EXPECT_EQ(files(), 0);
}

TEST_F(FileTest, ALinkInTheWayIsNotFollowed) {
  ASSERT_TRUE(write_file_atomically(path("victim"), "precious"));
  std::filesystem::create_symlink(path("victim"), unfinished_path(path("x")));
  EXPECT_FALSE(NewFile::create(path("x"), true));
  EXPECT_EQ(*read_file(path("victim")), "precious");
}

TEST_F(FileTest, OnlyFilesAreRead) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_file(path("fifo")).error().message,
            path("fifo") + ": is a named pipe, expected a file");
  EXPECT_EQ(read_file("/dev/zero").error().message,
            "/dev/zero: is a device, expected a file");
  EXPECT_EQ(read_file(folder_).error().message,
            folder_ + ": cannot read: it is a directory");
}

TEST_F(FileTest, APipeOfAShellIsRead) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "text", 4), 4);
  ::close(ends[1]);
  EXPECT_EQ(*read_file("/dev/fd/" + std::to_string(ends[0])), "text");
  ::close(ends[0]);
}

TEST_F(FileTest, ATextEndsItsReadingAtANul) {
  std::ofstream(path("hole")) << "text";
  std::filesystem::resize_file(path("hole"), uintmax_t{1} << 40);
  const auto refused = read_text_file(path("hole"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            path("hole") + ": no text: it has a NUL at byte 4");
  EXPECT_NE(read_file(path("hole")).error().message.find("memory"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise
