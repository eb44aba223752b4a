// Magic numbers first, then the first level's keys of a JSON object, then words
// about text; only to advise, never to decide.
#include "data/import/content_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "data/io/archive_stream.h"
#include "data/io/archive_tar.h"
#include "data/io/archive_zip.h"
#include "data/io/head_text.h"

namespace reprise {
namespace {

struct Magic {
  std::string_view bytes, words;
};

// Bytes at a file's start. Source: the formats' own specifications.
constexpr std::array kMagics = {
    Magic{"\x7f"
          "ELF",
          "an ELF binary"},
    Magic{"\x28\xb5\x2f\xfd", "compressed by zstd; decompress it first"},
    Magic{"\x04\x22\x4d\x18", "compressed by lz4; decompress it first"},
    Magic{"BZh", "compressed by bzip2; decompress it first"},
    Magic{"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"},
    Magic{"Rar!", "a RAR archive; unpack it first"},
    Magic{"PAR1",
          "a Parquet file; what Nsight Systems recorded, export as one file: "
          "nsys export --type sqlite REPORT"},
    Magic{"ARROW1",
          "an Arrow file; what Nsight Systems recorded, export as one file: "
          "nsys export --type sqlite REPORT"},
    Magic{"\x89HDF",
          "an HDF5 file; what Nsight Systems recorded, export as one file: "
          "nsys export --type sqlite REPORT"},
    Magic{"\x89PNG", "a PNG picture"},
    Magic{"\xff\xd8\xff", "a JPEG picture"},
    Magic{"%PDF", "a PDF document"},
    Magic{"NVR", "an Nsight Compute report"},
    Magic{"\x80\x02", "a Python pickle, which is never opened"},
    Magic{"\x80\x03", "a Python pickle, which is never opened"},
    Magic{"\x80\x04", "a Python pickle, which is never opened"},
    Magic{"\x80\x05", "a Python pickle, which is never opened"},
    Magic{"RPRSHARD", "a shard of Reprise's recorder, not a whole trace"},
    Magic{"HloModule", "HLO text: a program, not a trace (see reprise hlo)"},
    Magic{"#!", "a script"},
    Magic{"<?xml", "an XML document"},
    Magic{"<!DOCTYPE html", "an HTML page"},
    Magic{"<html", "an HTML page"},
    Magic{"SIMPLE  =", "a FITS file"},
};

struct Ending {
  std::string_view end, words;
};
// Formats without a magic of their own, told by the name for the advice alone.
constexpr std::array kEndings = {
    Ending{".nsys-rep",
           "an Nsight Systems report; export it first: nsys export --type "
           "sqlite FILE"},
    Ending{".qdrep",
           "an Nsight Systems report; export it first: nsys export --type "
           "sqlite FILE"},
    Ending{".perfetto-trace",
           "a Perfetto trace in protobuf; convert it first: traceconv json "
           "FILE"},
    Ending{".pftrace",
           "a Perfetto trace in protobuf; convert it first: traceconv json "
           "FILE"},
};

struct Sign {
  std::string_view word, words;
};
// Of text: what Nsight Systems exports as JSON lines, and what it sums up.
constexpr std::array kSigns = {
    Sign{"\"CudaEvent\"",
         "JSON lines of Nsight Systems; export its report as one file: nsys "
         "export --type sqlite REPORT"},
    Sign{"\"NvtxEvent\"",
         "JSON lines of Nsight Systems; export its report as one file: nsys "
         "export --type sqlite REPORT"},
    Sign{"Time (%),Total Time (ns)",
         "a summary of Nsight Systems, which does not say when anything ran; "
         "import its report: nsys export --type sqlite REPORT, or nsys stats "
         "--report cuda_gpu_trace --format csv REPORT"},
};

constexpr std::string_view kSqliteMagic = "SQLite format 3";
constexpr size_t kApplicationIdOffset = 68;
constexpr std::string_view kReprise = "RPRT";  // data/trace/format.md

/// Where the string that opens at `start` closes, npos when `text` ends before.
size_t end_of_string(std::string_view text, size_t start) {
  for (size_t i = start + 1; i < text.size(); ++i) {
    if (text[i] == '"') return i;
    if (text[i] == '\\') ++i;
  }
  return text.npos;
}

/// The keys of a JSON object's first level, as far as `text` reaches.
std::vector<std::string> top_level_keys(std::string_view text) {
  constexpr size_t kMostKeys = 6, kLongestKey = 40;
  std::vector<std::string> keys;
  int64_t depth = 0;
  bool key_next = false;
  for (size_t i = 0; i < text.size() && keys.size() < kMostKeys; ++i) {
    const char c = text[i];
    if (c == '"') {
      const size_t start = i + 1;
      i = end_of_string(text, i);
      if (i == text.npos) break;
      if (depth != 1 || !key_next) continue;
      keys.push_back(
          printable_name(text.substr(start, std::min(i - start, kLongestKey))));
      key_next = false;
    } else if (c == '{' || c == '[') {
      if (++depth == 1) key_next = c == '{';
    } else if (c == '}' || c == ']') {
      if (--depth == 0) break;
    } else if (c == ',' && depth == 1) {
      key_next = true;
    }
  }
  return keys;
}

std::string words_for_object(std::string_view text) {
  const std::vector<std::string> keys = top_level_keys(text);
  if (keys.empty()) return "JSON without traceEvents";
  const bool events = std::count(keys.begin(), keys.end(), "traceEvents") > 0;
  return fmt::format(
      "JSON {} (it has {})",
      events ? "whose traceEvents are of no known kind" : "without traceEvents",
      fmt::join(keys, ", "));
}

bool is_text(std::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' &&
            c != '\x1b') ||
           byte == 0x7f;
  });
}

std::string words_for_text(std::string_view text) {
  constexpr size_t kShown = 40;
  const std::string_view trimmed = without_blanks(text);
  if (trimmed.empty()) return "blank text";
  for (const Sign& sign : kSigns)
    if (has(trimmed, sign.word)) return std::string(sign.words);
  if (trimmed[0] == '{') return words_for_object(trimmed);
  if (trimmed[0] == '[') return "a JSON array without trace events";
  std::string_view line = trimmed.substr(0, trimmed.find('\n'));
  const bool whole = line.size() <= kShown;
  line = line.substr(0, kShown);
  // Never half a UTF-8 character.
  while (!whole && !line.empty() && (line.back() & 0x80) != 0)
    line.remove_suffix(1);
  return fmt::format("text that starts \"{}{}\"", printable_name(line),
                     whole ? "" : "…");
}

}  // namespace

std::string words_for_content(const InputFile& input) {
  const std::string_view head = input.head;
  if (head.empty()) return "an empty file";
  if (head.starts_with(kSqliteMagic)) {
    return head.substr(std::min(kApplicationIdOffset, head.size()))
                   .starts_with(kReprise)
               ? "a trace of Reprise already; use it as it is"
               : "an SQLite database that is no export of Nsight Systems";
  }
  for (const Ending& ending : kEndings) {
    if (input.name.ends_with(ending.end)) return std::string(ending.words);
  }
  for (const Magic& magic : kMagics) {
    if (head.starts_with(magic.bytes)) return std::string(magic.words);
  }
  if (is_compressed(head)) return "compressed twice; decompress it first";
  if (is_zip(head) || is_tar(head)) {
    return "an archive that is packed again; unpack it first";
  }
  if (head.find_first_not_of('\0') == std::string_view::npos) {
    return "nothing but zero bytes";
  }
  return is_text(head) ? words_for_text(head) : "binary data of no known kind";
}

}  // namespace reprise
