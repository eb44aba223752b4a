// A process of a test and the directory of its shards.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/import/import.h"
#include "tests/testing/process_shard_builder.h"
#include "tests/testing/read_input.h"

namespace reprise {

/// Header of a process; fields that a test does not name are unknown.
struct Who {
  std::string host = "h0", boot = "b0", program = "/usr/bin/python3";
  int64_t process = 100, parent = 1, rank = -1, ranks = -1, start_ns = 1000;
  int64_t epoch_offset_ns = 5'000'000;
  std::string source = "process";
};

inline std::string header(const Who& who) {
  return fmt::format(
      R"({{"host":"{}","process":{},"parent":{},"boot_id":"{}","rank":{},)"
      R"("ranks":{},"local_rank":-1,"program":"{}","arguments":["{}","a b"],)"
      R"("source":"{}","image":1,"start_ns":{},"epoch_offset_ns":{}}})",
      who.host, who.process, who.parent, who.boot, who.rank, who.ranks,
      who.program, who.program, who.source, who.start_ns, who.epoch_offset_ns);
}

/// A directory of shards, gone with the test.
class Shards {
 public:
  Shards() {
    std::string pattern = ::testing::TempDir() + "shards.XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Shards() { std::filesystem::remove_all(path_); }

  void add(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    ASSERT_TRUE(write_file_atomically(file.string(), bytes));
  }
  const std::string& path() const { return path_; }

  Result<ImportResult> import() const {
    return import_files(std::vector<std::string>{path_}, {});
  }

 private:
  std::string path_;
};

inline Trace gather(ImportResult& result) {
  return gather_spools(result.spools).value();
}

inline const Event* find(const Trace& trace, std::string_view name,
                         EventKind kind = EventKind::kCompute,
                         uint32_t rank = 0) {
  for (const Event& event : trace.events) {
    if (event.rank == rank && event.kind == kind &&
        trace.text(event.name) == name) {
      return &event;
    }
  }
  return nullptr;
}

inline const StreamInfo& stream_of(const Trace& trace, const Event& event) {
  return trace.streams[event.stream];
}

inline std::string missing_of(const ImportResult& result) {
  std::string text;
  for (const FileReport& file : result.files) {
    for (const std::string& sentence : file.missing) text += sentence + "\n";
  }
  return text;
}

/// An all-reduce of 256 floats on rank `rank` of communicator 0xc of two.
inline std::string call_info(int rank) {
  return fmt::format(
      R"({{"op":"AllReduce","communicator":"0xc","rank":{},"ranks":2,)"
      R"("data_type":"ncclFloat32","count":256,"root":0,"algorithm":"RING",)"
      R"("protocol":"LL","channels":2}})",
      rank);
}

}  // namespace reprise
