// The Kineto reader against a naive one: on all real files beside the checkout,
// and on a small trace whose text is changed at random. Where a change leaves
// no JSON, the naive reader has no say; then the reader's two ways, blocks and
// single events, are held against each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>

#include "data/formats/kineto/kineto_reader.h"
#include "tests/data/formats/kineto_naive_reader.h"
#include "tests/testing/directories.h"
#include "tests/testing/read_input.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
const fs::path kTraceFolder = fs::path(shared_directory()) / "traces";

std::vector<NaiveEvent> read_by(const KinetoReader& reader,
                                const std::string& text) {
  ReadInput input = read_input(reader, text);
  return input.status && input.report.events > 0 ? naive_events(input.gather())
                                                 : std::vector<NaiveEvent>();
}

/// Compares without printing a million events.
void expect_equal(const std::vector<NaiveEvent>& found,
                  const std::vector<NaiveEvent>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(found[i] == expected[i])
        << i << ": " << found[i].name << " at " << found[i].start_ns << " on "
        << found[i].stream << ", expected " << expected[i].name << " at "
        << expected[i].start_ns << " on " << expected[i].stream;
  }
}

TEST(KinetoDifferential, RealFilesReadAsByANaiveReader) {
  if (!fs::exists(kTraceFolder))
    GTEST_SKIP() << "no traces in " << kTraceFolder;
  size_t compared = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kTraceFolder)) {
    if (!entry.is_regular_file() ||
        entry.path().string().find("kineto") == std::string::npos) {
      continue;
    }
    const Status visited =
        visit_inputs(entry.path().string(), [&](InputFile& input) -> Status {
          if (!kineto_reader().recognizes(input)) return {};
          SCOPED_TRACE(input.name);
          const Result<std::string> text =
              read_all(*input.source, int64_t{1} << 30);
          if (!text) return pass(text.error());
          const auto expected = read_naively(*text);
          EXPECT_TRUE(expected.has_value());
          if (expected) expect_equal(read_by(KinetoReader(), *text), *expected);
          ++compared;
          return {};
        });
    ASSERT_TRUE(visited.has_value()) << visited.error().message;
  }
  EXPECT_GE(compared, 43U);  // 36 files, one of which holds 8.
}

size_t differences(const std::vector<NaiveEvent>& one,
                   const std::vector<NaiveEvent>& other) {
  std::vector<NaiveEvent> differing;
  std::set_symmetric_difference(one.begin(), one.end(), other.begin(),
                                other.end(), std::back_inserter(differing));
  return differing.size();
}

/// A trace with one event of every category that matters.
std::string small_trace() {
  std::string text = R"({"schemaVersion": 1, "baseTimeNanoseconds": 1000,
  "distributedInfo": {"rank": 0, "world_size": 2}, "traceEvents": [)";
  const auto add = [&](int i, const std::string& category,
                       const std::string& name, const std::string& arguments) {
    text += fmt::format(
        "\n  {{\n    \"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", "
        "\"pid\": {}, \"tid\": {},\n    \"ts\": {}.{:03}, \"dur\": {}.5,\n    "
        "\"args\": {{{}}}\n  }},",
        category, name, i % 3, 10 + i % 2, 100 * i, i, 7 * i, arguments);
  };
  for (int i = 1; i <= 12; ++i) {
    const std::string id = std::to_string(i);
    add(i, "cpu_op", "aten::\\\"add\\\" \\u00e9\\n" + id,
        "\"External id\": " + id + ", \"Input Dims\": [[2, 3], []]");
    add(i, "cuda_runtime", "cudaLaunchKernel",
        "\"correlation\": 5" + id + ", \"External id\": " + id);
    add(i, i % 4 == 0 ? "gpu_memcpy" : "kernel", i % 5 ? "gemm" : "ncclKernel",
        "\"device\": 1, \"stream\": 7, \"correlation\": 5" + id +
            ", \"bytes\": 4096, \"graph node id\": " + id);
    add(i, "python_function", "f{[,]}: " + id, "\"Python id\": 1");
    text += "\n  {\n    \"ph\": \"s\", \"id\": " + id +
            ", \"cat\": \"ac2g\", \"name\": \"ac2g\", \"ts\": 1\n  },";
  }
  text.pop_back();
  return text + "\n  ],\n  \"traceName\": \"x.json\"\n}";
}

/// One random change: a byte, a piece taken out or doubled, or a word put in.
void mutate(std::string& text, std::mt19937& random) {
  static const std::string kWords[] = {
      "\"",         "{",
      "}",          "[",
      "]",          ",",
      ":",          "\\",
      "0",          "-",
      "1.5",        "inf",
      "N/A",        "null",
      "\n",         " ",
      "\x01",       "\xff",
      "1e3",        "99999999999999999999",
      "\"ts\": 5,", "},\n  {\n    \"ph\": \"X\"",
      "\\u0041",    "{}",
      "[]"};
  const auto below = [&](size_t limit) { return random() % limit; };
  const size_t at = below(text.size());
  const size_t length = std::min(1 + below(40), text.size() - at);
  switch (below(4)) {
    case 0:
      text[at] = static_cast<char>(below(128));
      break;
    case 1:
      text.erase(at, length);
      break;
    case 2:
      text.insert(at, text.substr(at, length));
      break;
    default:
      text.insert(at, kWords[below(std::size(kWords))]);
  }
}

/// A change that leaves JSON: one digit of a number.
void mutate_number(std::string& text, std::mt19937& random) {
  size_t at = text.find_first_of("0123456789", random() % text.size());
  if (at == text.npos) at = text.find_first_of("0123456789");
  text[at] = static_cast<char>('1' + random() % 9);
}

TEST(KinetoDifferential, ChangedTextReadsAsByANaiveReader) {
  constexpr int kRounds = 4000;
  const std::string original = small_trace();
  ASSERT_EQ(read_naively(original)->size(), 48U);
  KinetoOptions blocks, singles;
  blocks.events.block_bytes = 3000;
  singles.events.blocks = false;
  std::mt19937 random(20);
  int valid = 0;
  size_t lost = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string text = original;
    if (round % 4 == 0) {
      for (int i = 0; i < 3; ++i) mutate_number(text, random);
    } else {
      mutate(text, random);
    }
    SCOPED_TRACE(fmt::format("round {}:\n{}", round, text));
    const auto by_blocks = read_by(KinetoReader(blocks), text);
    const auto by_singles = read_by(KinetoReader(singles), text);
    if (const auto expected = read_naively(text)) {
      ++valid;
      expect_equal(by_blocks, *expected);
      expect_equal(by_singles, *expected);
    } else {
      // They may differ in what was changed and in nothing else.
      EXPECT_LE(differences(by_blocks, by_singles), 2U);
      lost += 48 - std::min<size_t>(48, by_blocks.size());
    }
    if (HasFatalFailure() || HasNonfatalFailure()) break;
  }
  EXPECT_GT(valid, kRounds / 4);
  // A change costs the two events that it can join; a few end the array.
  EXPECT_LT(lost, size_t{2} * (kRounds - static_cast<size_t>(valid)));
}

}  // namespace
}  // namespace reprise
