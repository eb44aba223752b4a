// Imports of a toy format, a line each:
//   TOY | rank N | event NAME START END | step N | bad | fail | untimed
#include "data/import/import.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "data/file.h"
#include "data/formats/pytorch_et/pytorch_et_join.h"
#include "data/formats/ranks.h"
#include "data/import/content_words.h"
#include "data/import/import_inputs.h"
#include "data/import/import_report.h"
#include "data/io/gzip.h"
#include "data/trace/trace_file.h"

namespace reprise {
namespace {

class ToyReader : public TraceReader {
 public:
  explicit ToyReader(std::string kind, std::string magic)
      : kind_(std::move(kind)), magic_(std::move(magic)) {}
  std::string_view kind() const override { return kind_; }
  bool recognizes(const InputFile& input) const override {
    return input.head.starts_with(magic_);
  }
  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    std::string text(1 << 20, '\0');
    size_t size = 0;
    // As a streaming reader: an error ends the input, what came is used.
    for (;;) {
      const auto got = input.source->read({text.data() + size, 1000});
      if (!got || *got == 0) break;
      size += *got;
    }
    std::istringstream lines(text.substr(0, size));
    std::string word, name;
    uint32_t rank = kUnknownRank, stream = 0;
    bool started = false;
    while (lines >> word) {
      if (word == "fail") return fail(ErrorKind::kParse, "the word fail");
      if (word == "refuse") report.refused = "nothing to analyse in it";
      if (word == "bad") ++report.dropped["bad line"];
      if (word == "untimed") report.missing.emplace_back(kUntimedNodes);
      if (word == "rank") lines >> rank;
      if (word == "step") {
        StepMark mark;
        lines >> mark.step;
        spool.add_step(mark);
      }
      if (word != "event" && word != "empty") continue;
      if (!started) {
        RankInfo info;
        info.rank = rank;
        const uint32_t local = spool.add_rank(info);
        stream = spool.add_stream({.rank = local, .name = "row"});
        started = true;
      }
      if (word == "empty") continue;
      Event event;
      event.stream = stream;
      lines >> name >> event.start_ns >> event.end_ns;
      if (!lines) break;
      event.enqueue_ns = event.start_ns;
      event.name = spool.intern(name);
      spool.add(event);
    }
    return {};
  }

 private:
  std::string kind_, magic_;
};

/// Takes directories with a file "toy.index" and counts what is in them.
class ToyDirectoryReader : public DirectoryReader {
 public:
  std::string_view kind() const override { return "toy-directory"; }
  bool recognizes(const DirectoryListing& directory) const override {
    return std::count(directory.files.begin(), directory.files.end(),
                      "toy.index") > 0;
  }
  Status read(const DirectoryListing& directory, const std::string&,
              std::vector<DirectoryPart>& parts) const override {
    DirectoryPart part;
    part.report.path = directory.path;
    part.report.dialect = std::to_string(directory.files.size()) + " files";
    part.spool.emplace();
    RankInfo info;
    info.rank = kUnknownRank;
    part.spool->add_rank(info);
    parts.push_back(std::move(part));
    return {};
  }
};

class ImportTest : public ::testing::Test {
 protected:
  ImportTest() {
    std::string folder = ::testing::TempDir() + "import_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
    options_.readers = {&toy_, &timed_, &untimed_};
    options_.directory_readers = {&directory_};
  }
  ~ImportTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = folder_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  Result<ImportResult> import(std::vector<std::string> names) const {
    for (std::string& name : names) name = folder_ + "/" + name;
    return import_files(names, options_);
  }
  std::string error_of(const std::vector<std::string>& names) const {
    const auto result = import(names);
    return result ? "" : result.error().message;
  }
  /// "NAME=RANK ..." of the inputs, in their order.
  std::string ranks_of(const std::vector<std::string>& names) const {
    const auto result = import(names);
    if (!result) return result.error().message;
    std::string text;
    for (const FileReport& file : result->files) {
      text += file.path.substr(folder_.size() + 1) + "=" +
              rank_list(file.ranks) + " ";
    }
    return text;
  }

  ToyReader toy_{"toy", "TOY"}, timed_{"kineto", "TIMED"},
      untimed_{"pytorch-et", "UNTIMED"};
  ToyDirectoryReader directory_;
  std::string folder_;
  ImportOptions options_;
};

TEST_F(ImportTest, OneFileWithoutARankIsRankZero) {
  write("a.txt", "TOY event x 5 7 event y 8 9");
  auto result = import({"a.txt"});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->files.size(), 1U);
  EXPECT_EQ(result->files[0].kind, "toy");
  EXPECT_EQ(result->files[0].events, 2);
  EXPECT_EQ(result->files[0].bytes, 27);
  const auto trace = gather_spools(result->spools);
  ASSERT_TRUE(trace);
  ASSERT_EQ(trace->ranks.size(), 1U);
  EXPECT_EQ(trace->ranks[0].rank, 0U);
  EXPECT_EQ(trace->events.size(), 2U);
}

TEST_F(ImportTest, RanksComeFromContentThenFlagsThenNames) {
  write("rank7.txt", "TOY rank 3 event x 0 1");
  write("rank-5.txt", "TOY event x 0 1");
  write("other.txt", "TOY event x 0 1");
  options_.ranks = {{"other.txt", 9}};
  EXPECT_EQ(ranks_of({"rank7.txt", "rank-5.txt", "other.txt"}),
            "rank7.txt=3 rank-5.txt=5 other.txt=9 ");
  options_.ranks = {{"other.txt", 9}, {"rank7.txt", 1}};
  EXPECT_EQ(ranks_of({"rank7.txt", "other.txt"}), "rank7.txt=1 other.txt=9 ");
}

TEST_F(ImportTest, UnknownRanksAreAskedForByName) {
  write("a.txt", "TOY event x 0 1");
  write("b.txt", "TOY event x 0 1");
  const std::string error = error_of({"a.txt", "b.txt"});
  EXPECT_NE(error.find("a.txt and 1 more"), std::string::npos) << error;
  EXPECT_NE(error.find("--rank"), std::string::npos);
  options_.ranks = {{"c.txt", 0}};
  EXPECT_NE(error_of({"a.txt", "b.txt"}).find("no input of that name"),
            std::string::npos);
}

TEST_F(ImportTest, TwoFilesOfOneRankAreBothNamed) {
  write("a.txt", "TOY rank 2 event x 0 1");
  write("b.txt", "TOY rank 2 event x 0 1");
  const std::string error = error_of({"a.txt", "b.txt"});
  EXPECT_NE(error.find("a.txt"), std::string::npos);
  EXPECT_NE(error.find("b.txt"), std::string::npos);
  EXPECT_NE(error.find("rank 2"), std::string::npos);
}

TEST_F(ImportTest, FilesOfOneRankAtOtherStepsAreToldApart) {
  write("r0.txt", "TOY rank 0 event x 0 1 step 2 step 3");
  write("r0_1.txt", "TOY rank 0 event x 8 9 step 6 step 7");
  write("r1.txt", "TOY rank 1 event x 0 1 step 2 step 3");
  write("r1_1.txt", "TOY rank 1 event x 8 9 step 6 step 7");
  const std::string error =
      error_of({"r0.txt", "r0_1.txt", "r1.txt", "r1_1.txt"});
  const std::string at = folder_ + "/";
  EXPECT_EQ(error, at + "r0.txt (steps 2 to 3), " + at +
                       "r0_1.txt (steps 6 to 7) are rank 0 at other steps, as "
                       "schedule(repeat=) leaves them: import the files of one "
                       "repeat at a time: " +
                       at + "r0.txt " + at + "r1.txt");
  write("r0_1.txt", "TOY rank 0 event x 8 9 step 3 step 7");
  EXPECT_NE(error_of({"r0.txt", "r0_1.txt"}).find("both of rank 0"),
            std::string::npos);
}

TEST_F(ImportTest, KindsThatComplementEachOtherJoin) {
  write("trace.txt", "TIMED event x 0 1");
  write("nodes.txt", "UNTIMED event x 0 1");
  EXPECT_EQ(ranks_of({"trace.txt", "nodes.txt"}), "trace.txt=0 nodes.txt=0 ");
  write("four.txt", "TIMED rank 4 event x 0 1");
  EXPECT_EQ(ranks_of({"nodes.txt", "four.txt"}), "nodes.txt=4 four.txt=4 ");
}

TEST_F(ImportTest, WhoImportsBothRecordsIsNotToldTo) {
  write("et0", "UNTIMED rank 0 event x 0 1 untimed");
  write("et1", "UNTIMED rank 1 event x 0 1 untimed");
  write("kineto0", "TIMED rank 0 event x 0 1");
  const auto result = import({"et0", "et1", "kineto0"});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->files[0].missing.empty());
  EXPECT_EQ(result->files[1].missing.size(), 1U);  // Of rank 1 there is one.
}

TEST_F(ImportTest, ALinkToNothingIsRefusedAloud) {
  write("run/rank1.txt", "TOY event x 0 1");
  std::filesystem::create_symlink("gone", folder_ + "/run/rank0.txt");
  const auto result = import({"run"});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->files.size(), 2U);
  EXPECT_EQ(result->files[1].path, folder_ + "/run/rank0.txt");
  EXPECT_EQ(result->files[1].refused, "cannot open: No such file or directory");
}

TEST_F(ImportTest, DirectoriesAreReadInTheOrderOfTheirNumbers) {
  for (const int rank : {10, 2, 0}) {
    write("run/worker" + std::to_string(rank) + ".txt", "TOY event x 0 1");
  }
  write("run/.hidden/rank1.txt", "TOY event x 0 1");
  write("run/deep/rank1.txt.gz", gzip("TOY event x 0 1"));
  EXPECT_EQ(ranks_of({"run", "run/worker2.txt"}),
            "run/worker0.txt=0 run/worker2.txt=2 run/worker10.txt=10 "
            "run/deep/rank1.txt.gz=1 ");
}

TEST_F(ImportTest, TheOutputInAnImportedDirectoryIsLeftAlone) {
  write("run/rank0.txt", "TOY event x 0 1");
  options_.output = write("run/out.trace", "anything");
  options_.strict = true;
  EXPECT_EQ(ranks_of({"run"}), "run/rank0.txt=0 ");
}

TEST_F(ImportTest, ADirectoryReaderTakesItsDirectoryWhole) {
  write("run/job/toy.index", "");
  write("run/job/host0/a", "");
  write("run/rank1.txt", "TOY event x 0 1");
  options_.ranks = {{"job", 0}};
  EXPECT_EQ(ranks_of({"run"}), "run/rank1.txt=1 run/job=0 ");
  EXPECT_EQ(import({"run"})->files[1].dialect, "2 files");
}

TEST_F(ImportTest, MembersOfAnArchiveAreInputs) {
  write("run/rank0.txt", "TOY event x 0 1");
  write("run/rank1.txt", "TOY event x 0 1");
  write("run/notes.md", "hello");
  ASSERT_EQ(std::system(("cd " + folder_ +
                         " && tar -czf run.tgz run/rank0.txt run/rank1.txt "
                         "run/notes.md")
                            .c_str()),
            0);
  EXPECT_EQ(ranks_of({"run.tgz"}),
            "run.tgz:run/rank0.txt=0 run.tgz:run/rank1.txt=1 "
            "run.tgz:run/notes.md= ");
}

TEST_F(ImportTest, RefusalsSayWhatWasSeen) {
  const std::array<std::pair<std::string, std::string>, 16> cases = {{
      {"", "an empty file"},
      {"\x7f"
       "ELF....",
       "an ELF binary"},
      {"{\"schema\": 1, \"nodes\": []}",
       "JSON without traceEvents (it has schema, nodes)"},
      {"{\"a\": {\"b\": [\"}\\\"\", 1]}, \"c\": 1}",
       "JSON without traceEvents (it has a, c)"},
      {"[1, 2]", "a JSON array without trace events"},
      {"hello, world", "text that starts \"hello, world\""},
      {std::string(100, '\0'), "nothing but zero bytes"},
      {"\x01\x02\x03", "binary data of no known kind"},
      {"\x28\xb5\x2f\xfd", "compressed by zstd; decompress it first"},
      {gzip(gzip("TOY")), "compressed twice; decompress it first"},
      {"SQLite format 3",
       "an SQLite database that is no export of Nsight Systems"},
      {"HloModule m", "HLO text: a program, not a trace (see reprise hlo)"},
      // nsys export --type parquetdir, arrow and jsonlines; nsys stats.
      {"PAR1\x15\x04", "a Parquet file; what Nsight Systems recorded, export"},
      {std::string("ARROW1\0\0", 8), "an Arrow file; what Nsight Systems"},
      {"{\"Type\":48,\"CudaEvent\":{\"startNs\":\"1\",\"endNs\":\"3\"}}\n",
       "JSON lines of Nsight Systems; export its report as one file: nsys "
       "export --type sqlite"},
      {"Time (%),Total Time (ns),Instances,Avg (ns),Name\n50.0,100,1,100,k\n",
       "a summary of Nsight Systems, which does not say when anything ran"},
  }};
  for (const auto& [bytes, words] : cases) {
    write("a", bytes);
    const std::string error = error_of({"a"});
    EXPECT_NE(error.find("no trace: " + words), std::string::npos)
        << error << "\nexpected " << words;
  }
}

TEST_F(ImportTest, ImportsTheRestWhenSomeAreRefused) {
  write("run/rank0.txt", "TOY event x 0 1");
  write("run/rank1.txt", "TOY refuse");
  write("run/rank2.txt", "TOY fail");
  const auto result = import({"run"});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->files.size(), 3U);
  EXPECT_EQ(result->spools.size(), 1U);
  EXPECT_EQ(result->files[1].refused, "nothing to analyse in it");
  EXPECT_EQ(result->files[2].refused, "the word fail");
  options_.strict = true;
  EXPECT_NE(error_of({"run"}).find("the word fail"), std::string::npos);
}

TEST_F(ImportTest, StrictFailsOnADroppedRecord) {
  write("a.txt", "TOY event x 0 1 bad bad");
  EXPECT_EQ(error_of({"a.txt"}), "");
  options_.strict = true;
  const std::string error = error_of({"a.txt"});
  EXPECT_NE(error.find("2 dropped: bad line"), std::string::npos) << error;
}

TEST_F(ImportTest, TheTraceRemembersWhatItsImportLost) {
  write("a.txt", "TOY rank 0 event x 0 1 bad bad untimed");
  write("b.txt", "TOY rank 1 event x 0 1");
  auto result = import({"a.txt", "b.txt"});
  ASSERT_TRUE(result);
  result->files[1].doubts = {"Two ranks in one."};
  const std::string path = folder_ + "/run.trace";
  ASSERT_TRUE(write_import(*result, path));
  const auto trace = read_trace(path);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->warnings,
            (std::vector<std::string>{
                "import: " + folder_ + "/b.txt: Two ranks in one.",
                "import: " + folder_ + "/a.txt: 2 dropped: bad line"}));
}

TEST_F(ImportTest, ATruncatedFileIsReadUpToItsCutAndTold) {
  std::string text = "TOY ";
  for (int i = 0; i < 20'000; ++i) {
    text += "event x" + std::to_string(i * 7919) + " " + std::to_string(i) +
            " " + std::to_string(i + 1) + "\n";
  }
  const std::string packed = gzip(text);
  write("a.gz", packed.substr(0, packed.size() / 2));
  const auto result = import({"a.gz"});
  ASSERT_TRUE(result);
  const FileReport& file = result->files[0];
  EXPECT_GT(file.events, 1000);
  EXPECT_LT(file.events, 19'000);
  // The reader said nothing: import did.
  EXPECT_EQ(file.dropped.at("cut off by damage"), 1);
  ASSERT_EQ(file.missing.size(), 1U);
  EXPECT_NE(file.missing[0].find("truncated"), std::string::npos);
}

TEST_F(ImportTest, ADamagedArchiveKeepsItsFirstMembers) {
  write("rank0.txt", "TOY event x 0 1");
  write("rank1.txt", "TOY event x 0 1");
  ASSERT_EQ(
      std::system(
          ("cd " + folder_ + " && tar -cf t.tar rank0.txt rank1.txt").c_str()),
      0);
  const std::string whole = read_file(folder_ + "/t.tar").value();
  write("cut.tar", whole.substr(0, 1300));
  const auto result = import({"cut.tar"});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->files.size(), 2U);
  EXPECT_EQ(result->files[1].kind, "archive");
  EXPECT_EQ(result->files[1].dropped.at("rest of a damaged archive"), 1);
}

TEST_F(ImportTest, TheKindCanBeForced) {
  write("a.txt", "no magic event x 0 1");
  EXPECT_NE(error_of({"a.txt"}).find("kinds that are read: toy-directory, toy"),
            std::string::npos);
  options_.kind = "toy";
  EXPECT_EQ(error_of({"a.txt"}), "");
  options_.kind = "tea";
  EXPECT_NE(error_of({"a.txt"}).find("no kind 'tea'"), std::string::npos);
}

TEST_F(ImportTest, TheTraceIsTheSameForAnyThreadCount) {
  std::vector<std::string> traces;
  for (int rank = 0; rank < 9; ++rank) {
    std::string text = "TOY ";
    for (int i = 0; i < 200 * (rank % 4 + 1); ++i) {
      text += "event n" + std::to_string((i * rank) % 17) + " " +
              std::to_string(i) + " " + std::to_string(i + rank) + "\n";
    }
    write("run/rank" + std::to_string(rank) + ".txt", text);
  }
  for (const int threads : {1, 2, 2}) {
    options_.threads = threads;
    auto result = import({"run"});
    ASSERT_TRUE(result);
    const std::string path = folder_ + "/out.trace";
    const Status written = write_import(*result, path);
    ASSERT_TRUE(written) << written.error().message;
    traces.push_back(read_file(path).value());
  }
  EXPECT_TRUE(traces[0] == traces[1]);
  EXPECT_TRUE(traces[1] == traces[2]);
  const auto trace = read_trace(folder_ + "/out.trace");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->ranks.size(), 9U);
  const auto report = nlohmann::json::parse(trace->import_text);
  EXPECT_EQ(report["schema"], "reprise.import/1");
  EXPECT_EQ(report["files"].size(), 9U);
  EXPECT_EQ(report["files"][8]["ranks"], nlohmann::json::array({8}));
  EXPECT_FALSE(report.contains("seconds"));
}

TEST_F(ImportTest, CanBeCancelled) {
  write("a.txt", "TOY event x 0 1");
  const std::atomic<bool> cancelled = true;
  options_.cancelled = &cancelled;
  EXPECT_EQ(error_of({"a.txt"}), "interrupted");
}

TEST_F(ImportTest, TellsHowFarItIs) {
  for (int i = 0; i < 3; ++i) {
    write("run/rank" + std::to_string(i), "TOY event x 0 1");
  }
  ImportProgress last;
  options_.threads = 1;
  const std::vector<std::string> paths = {folder_ + "/run"};
  ASSERT_TRUE(import_files(paths, options_,
                           [&](const ImportProgress& p) { last = p; }));
  EXPECT_EQ(last.files_done, 3U);
  EXPECT_EQ(last.files_total, 3U);
  EXPECT_EQ(last.bytes_done, 3 * 15);
  EXPECT_EQ(last.bytes_total, 3 * 15);
}

TEST_F(ImportTest, AnArchiveOfRubbishIsToldByItsFirstMembers) {
  ASSERT_EQ(std::system(("cd " + folder_ +
                         " && mkdir r && cd r && seq 1 1500 | xargs touch && "
                         "printf 'TOY event x 0 1' > z && cd .. && "
                         "tar --sort=name -cf t.tar r")
                            .c_str()),
            0);
  const auto result = import({"t.tar"});
  ASSERT_TRUE(result) << result.error().message;
  // 1000 refusals, the one trace, and the count of the other 500.
  EXPECT_EQ(result->files.size(), 1002U);
  EXPECT_EQ(result->files.back().dropped.at("more members that are no traces"),
            500);
}

TEST(ImportRanks, ReadsRanksFromNames) {
  EXPECT_EQ(rank_in_name("rank-3.json"), 3U);
  EXPECT_EQ(rank_in_name("a/sampled_rank-12.json.gz"), 12U);
  EXPECT_EQ(rank_in_name("eg.rank_0.pt.trace.json"), 0U);
  EXPECT_EQ(rank_in_name("rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz"), 70U);
  EXPECT_EQ(rank_in_name("worker2_step_12.1694128201554.pt.trace.json"), 2U);
  EXPECT_EQ(rank_in_name("run/Rank7/trace.json"), 7U);
  EXPECT_EQ(rank_in_name("rank1/worker4.json"), 4U);
  EXPECT_EQ(rank_in_name("t.tar:Resnet50_DataParallel.10.et"), 10U);
  EXPECT_EQ(rank_in_name("rank_not_found.json.gz"), std::nullopt);
  EXPECT_EQ(rank_in_name("resnet50_num_workers_0/x.json"), std::nullopt);
  EXPECT_EQ(rank_in_name("frank3.json"), std::nullopt);
  EXPECT_EQ(rank_in_name("mfu_2gpu_before.sqlite"), std::nullopt);
  EXPECT_EQ(rank_in_name("h100_2gpu_1s.sqlite"), std::nullopt);
  EXPECT_EQ(rank_in_name("rank99999999999999999999.json"), std::nullopt);
}

TEST(ImportRanks, FindsTheNumberThatAloneDiffers) {
  const auto varying = [](const std::vector<std::string>& names) {
    return varying_numbers(names);
  };
  using Ranks = std::vector<uint32_t>;
  EXPECT_EQ(varying({"dlrm_eg_2.json", "dlrm_eg_0.json", "dlrm_eg_1.json"}),
            (Ranks{2, 0, 1}));
  EXPECT_EQ(varying({"a8/4.json", "a8/6.json"}), (Ranks{4, 6}));
  // A timestamp differs too: ranks are what counts from 0.
  EXPECT_EQ(varying({"x1.1700000000.json", "x0.1700000001.json"}),
            (Ranks{1, 0}));
  EXPECT_EQ(varying({"x1.5.json", "x0.6.json"}), (Ranks{1, 0}));
  // Hosts and devices both differ: no single number tells them apart.
  EXPECT_EQ(varying({"h0/d0", "h0/d1", "h1/d0", "h1/d1"}), Ranks{});
  // Steps of one process are no ranks; those of a later host may be.
  EXPECT_EQ(varying({"trace_100.json", "trace_200.json"}), Ranks{});
  EXPECT_EQ(varying({"t_65.json", "t_64.json", "t_66.json"}),
            (Ranks{65, 64, 66}));
  // Processes are no ranks; what is called by rank counts from 0.
  EXPECT_EQ(varying({"h_4812.1700000000123.pt.trace.json",
                     "h_4813.1700000000456.pt.trace.json"}),
            Ranks{});
  EXPECT_EQ(varying({"n_1.1700000000123.pt.trace.json",
                     "n_0.1700000000456.pt.trace.json"}),
            (Ranks{1, 0}));
  EXPECT_EQ(varying({"x1.json", "x1.json"}), Ranks{});
  EXPECT_EQ(varying({"x1.json", "y2.json"}), Ranks{});
  EXPECT_EQ(varying({"x1.json"}), Ranks{});
}

TEST(ImportRanks, DevicesOfSeveralHostsAreNumberedOn) {
  TraceSpool first, second;
  for (TraceSpool* spool : {&first, &second}) {
    for (int device = 0; device < 2; ++device) {
      RankInfo info;
      info.rank = kUnknownRank;
      spool->add_rank(info);
    }
  }
  const std::vector<RankedInput> inputs = {{"a", "xplane", &first},
                                           {"b", "xplane", &second}};
  ASSERT_TRUE(assign_ranks(inputs, {}));
  EXPECT_EQ(second.rank(0).rank, 2U);
  EXPECT_EQ(second.rank(1).rank, 3U);
}

// Of pairs, as two of four pipeline stages know themselves.
TEST(ImportRanks, NumbersOfAPartOfTheJobGiveWayWhereTwoProcessesHaveOne) {
  const auto numbered = [](int64_t process) -> std::vector<uint32_t> {
    TraceSpool first, second;
    for (TraceSpool* spool : {&first, &second}) {
      spool->assume_rank(spool->add_rank(RankInfo()), 1);
    }
    first.rank(0).process = 7;
    second.rank(0).process = process;
    const std::vector<RankedInput> inputs = {
        {"report_2.sqlite", "nsys-sqlite", &first},
        {"report_3.sqlite", "nsys-sqlite", &second}};
    if (!assign_ranks(inputs, {})) return {};
    return {first.rank(0).rank, second.rank(0).rank};
  };
  EXPECT_EQ(numbered(8), (std::vector<uint32_t>{2, 3}));
  // Two recordings of one process are no two ranks.
  EXPECT_EQ(numbered(7), std::vector<uint32_t>{});
}

// Hosts of one device each; other kinds say ranks, or their names do.
TEST(ImportRanks, HostsOfOneDeviceAreNumberedOnlyWhereNothingElseTells) {
  const auto numbered = [](const std::string& kind) {
    TraceSpool first, second;
    for (TraceSpool* spool : {&first, &second}) {
      RankInfo info;
      info.rank = kUnknownRank;
      spool->add_rank(info);
    }
    const std::vector<RankedInput> inputs = {{"alpha", kind, &first},
                                             {"beta", kind, &second}};
    return assign_ranks(inputs, {}) && first.rank(0).rank == 0 &&
           second.rank(0).rank == 1;
  };
  EXPECT_TRUE(numbered("xplane"));
  EXPECT_FALSE(numbered("kineto"));
}

TEST(ImportInputs, OrdersNumbersAsNumbers) {
  EXPECT_TRUE(natural_less("rank2", "rank10"));
  EXPECT_FALSE(natural_less("rank10", "rank2"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_TRUE(natural_less("01", "1"));
  EXPECT_FALSE(natural_less("1", "01"));
  EXPECT_FALSE(natural_less("x", "x"));
}

// As jax.profiler.trace writes for two hosts; a tool's own file is beside them.
TEST_F(ImportTest, ReadsTheXplaneOfAHostAndNoViewOfIt) {
  for (const char* name : {"a.trace.json.gz", "a.xplane.pb", "ab.json",
                           "b.input_pipeline.pb", "b.xplane.pb"}) {
    write(name, "x");
  }
  const Result<std::vector<ImportUnit>> units =
      find_units(std::vector{folder_}, {}, "");
  ASSERT_TRUE(units.has_value());
  std::vector<std::string> views;
  for (const ImportUnit& unit : *units) views.push_back(unit.view_of);
  EXPECT_EQ(views, (std::vector<std::string>{"a.xplane.pb", "", "",
                                             "b.xplane.pb", ""}));
}

// A later session of XLA's profiler stands beside an earlier one's.
TEST_F(ImportTest, AHostIsOfOneProfilingSession) {
  const std::vector<std::string> log = {folder_ + "/log"};
  const auto profile = [&](const std::string& session, const char* host) {
    write("log/plugins/profile/" + session + "/" + host + ".xplane.pb", "x");
  };
  profile("2026_01_01_00_00_00", "a");
  profile("2026_01_01_00_00_01", "b");  // Named by each host's own clock.
  EXPECT_TRUE(find_units(log, {}, "").has_value());
  profile("2026_01_01_00_05_00", "a");
  const auto units = find_units(log, {}, "");
  ASSERT_FALSE(units.has_value());
  EXPECT_NE(units.error().message.find("/profile/2026_01_01_00_05_00"),
            std::string::npos);
}

TEST(ImportReport, FoldsEqualRemarks) {
  std::vector<FileReport> files(3);
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].path = fmt::format("f{}", i);
    files[i].dropped["truncated"] = static_cast<int64_t>(i + 1);
  }
  files[1].missing = {"no device work"};
  files[2].refused = "an empty file";
  EXPECT_EQ(import_remarks(files, 10),
            (std::vector<std::string>{"f1: no device work", "f2: an empty file",
                                      "f0 and 2 more: 6 dropped: truncated"}));
  EXPECT_EQ(
      import_remarks(files, 1),
      (std::vector<std::string>{"f1: no device work", "… and 2 more remarks"}));
}

TEST(ImportReport, PassesOverABundleOfSourcesInOneLine) {
  std::vector<FileReport> files(5);
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].path = fmt::format("f{}", i);
    files[i].refused = fmt::format("no trace: text that starts \"{}\"", i);
  }
  EXPECT_EQ(import_remarks(files, 10),
            std::vector<std::string>{"f0 and 4 more: no traces, passed over"});
  EXPECT_EQ(import_remarks({files.data(), 1}, 10),
            std::vector<std::string>{"f0: no trace: text that starts \"0\""});
}

TEST(ImportReport, ListsRanksInRanges) {
  EXPECT_EQ(rank_list({3, 1, 0, 7, 2, 2, 9}), "0-3,7,9");
  EXPECT_EQ(rank_list({}), "");
}

}  // namespace
}  // namespace reprise
