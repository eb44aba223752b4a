// Columns stand at no fixed place: versions and launchers add and drop some. A
// row starts with size, count and type; from behind come the groups of time and
// two bandwidths (and errors). Where the file does not name the operation,
// filled columns (reduction, root) and the ratio of bus to algorithm bandwidth
// of the largest messages tell it: 2(n-1)/n of an all-reduce, (n-1)/n of an
// all-gather, 1 of a broadcast. Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md.
#include "data/formats/nccl_tests/nccl_tests_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "data/io/decimal.h"

namespace reprise {
namespace {

using Words = std::vector<std::string_view>;

Words words_of(std::string_view line) {
  Words words;
  size_t at = 0;
  while ((at = line.find_first_not_of(" \t\r|`", at)) !=
         std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(" \t\r|`", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<int64_t> integer(std::string_view word) {
  int64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<double> number(std::string_view word) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

/// Whether the word can stand in a column of times, bandwidths or errors.
bool fills_number_column(std::string_view word) {
  return number(word) || word == "N/A" || word == "-" || word == "inf" ||
         word == "nan" || word == "-nan";
}

/// What launchers write in front of a rank's line ("[1,0]<stdout>:", "0: "),
/// and what NCCL's own log writes into the middle of one.
std::string_view without_log(std::string_view line) {
  constexpr std::string_view kTag = "<stdout>:";
  if (const size_t tag = line.find(kTag); tag < 16) {
    line.remove_prefix(tag + kTag.size());
  }
  const size_t digits = line.find_first_not_of("0123456789");
  if (digits != 0 && digits != std::string_view::npos && line[digits] == ':' &&
      line.substr(digits + 1).starts_with(' ')) {
    line.remove_prefix(digits + 1);
  }
  for (const std::string_view mark : {" NCCL INFO ", " NCCL WARN "}) {
    const size_t log = line.find(mark);
    if (log == std::string_view::npos) continue;
    // "host:pid:tid [device] NCCL INFO …"
    const size_t bracket = line.rfind(" [", log);
    const size_t host = bracket == std::string_view::npos || bracket == 0
                            ? std::string_view::npos
                            : line.find_last_of(" \t", bracket - 1);
    line = host == std::string_view::npos ? std::string_view()
                                          : line.substr(0, host);
  }
  return line;
}

int64_t time_in(std::string_view word) {
  const std::optional<int64_t> time = parse_microseconds(word);
  return time && *time > 0 ? *time : -1;
}

constexpr size_t kQuad = 4;  // time, algbw, busbw, error.

/// size count type at the start, then up to two words before the numbers.
size_t numbers_from(const Words& words) {
  size_t at = 3;
  if (at < words.size() && !fills_number_column(words[at])) ++at;  // redop
  const size_t left = words.size() - std::min(at, words.size());
  if (left % kQuad == 1 && integer(words[at])) ++at;  // root
  return at;
}

bool starts_row(const Words& words) {
  if (words.size() < 3 || !integer(words[0]) || !integer(words[1])) {
    return false;
  }
  return *integer(words[0]) >= 0 && element_type_named(words[2]);
}

/// The value behind `key` among the words: "nGpus 8", "nGpus=8".
void take_number(const Words& words, std::string_view key, int64_t& value) {
  const auto found = std::find(words.begin(), words.end(), key);
  if (found == words.end() || found + 1 == words.end()) return;
  value = integer(*(found + 1)).value_or(value);
}

}  // namespace

int64_t NcclTestsTable::group_size() const {
  if (!ranks.empty()) return static_cast<int64_t>(ranks.size());
  if (threads > 0 && gpus > 0 && threads < 4096 && gpus < 4096) {
    return threads * gpus;
  }
  return -1;
}

std::vector<CollectiveKind> NcclTestsTable::possible_kinds() const {
  using K = CollectiveKind;
  bool reduces = false, rooted = false;
  std::vector<double> factors;
  for (const NcclTestsRow& row : rows) {
    reduces |= row.reduces;
    rooted |= row.rooted;
    if (row.bus_factor >= 0) factors.push_back(row.bus_factor);
  }
  if (reduces && rooted) return {K::kReduce};
  // The largest messages have the most digits.
  const double factor = factors.empty() ? -1 : factors.back();
  if (reduces) {
    if (factor < 0) return {K::kAllReduce, K::kReduceScatter};
    return {factor > 1.001 || group_size() == 2 ? K::kAllReduce
                                                : K::kReduceScatter};
  }
  if (rooted) return {K::kBroadcast, K::kGather, K::kScatter};
  if (factor > 0.999) return {K::kBroadcast, K::kPermute};
  if (!has_reduction_column) return {K::kAllGather, K::kAllToAll};
  return {K::kAllToAll, K::kAllGather};
}

void NcclTestsParser::start_table() {
  if (!table_.rows.empty()) tables_.push_back(std::move(table_));
  table_ = {};
}

std::vector<NcclTestsTable> NcclTestsParser::finish() {
  if (!torn_.empty()) ++lost_;
  torn_.clear();
  start_table();
  return std::move(tables_);
}

void NcclTestsParser::take_comment(std::string_view line) {
  const Words words = words_of(line);
  if (line.find("Collective test starting") != std::string_view::npos) {
    start_table();
    table_.kind = collective_named(words.back());
    if (words.back().starts_with("sendrecv"))
      table_.kind = CollectiveKind::kPermute;
    return;
  }
  if (std::find(words.begin(), words.end(), "nThread") != words.end()) {
    if (!table_.rows.empty()) start_table();
    take_number(words, "nThread", table_.threads);
    take_number(words, "nGpus", table_.gpus);
  }
  if (words.size() > 4 && words[1] == "Rank") {
    // "#  Rank  0 Group  0 Pid …"; ranks of the first group are its size.
    const bool grouped = words[3] == "Group";
    const std::optional<int64_t> rank = integer(words[2]);
    if (rank && (!grouped || words[4] == "0")) table_.ranks.insert(*rank);
    const size_t bracket = line.find("] ");
    if (bracket != std::string_view::npos && table_.device.empty()) {
      table_.device = line.substr(bracket + 2);
    }
  }
  if (std::find(words.begin(), words.end(), "algbw") != words.end()) {
    if (!table_.rows.empty() && table_.kind == CollectiveKind::kUnknown) {
      NcclTestsTable next = table_;  // The same run goes on.
      next.rows.clear();
      start_table();
      table_ = std::move(next);
    }
    table_.has_reduction_column =
        std::find(words.begin(), words.end(), "redop") != words.end();
  }
}

bool NcclTestsParser::take_row(const Words& words) {
  const size_t at = numbers_from(words);
  const size_t left = words.size() - std::min(at, words.size());
  if (left != kQuad && left != 2 * kQuad) return false;
  for (size_t i = at; i < words.size(); ++i) {
    if (!fills_number_column(words[i])) return false;
  }
  NcclTestsRow row{.bytes = *integer(words[0]),
                   .type = element_type_named(words[2])};
  const bool named = at > 3 && !fills_number_column(words[3]);
  row.reduces = named && words[3] != "none";
  row.rooted = at > 3 && integer(words[at - 1]) && *integer(words[at - 1]) >= 0;
  row.out_of_place_ns = time_in(words[at]);
  if (left == 2 * kQuad) row.in_place_ns = time_in(words[at + kQuad]);
  if (row.out_of_place_ns < 0 && row.in_place_ns < 0) ++lost_;
  // Two decimals: below 10 GB/s the ratio tells little.
  constexpr double kTelling = 10;
  const std::optional<double> algorithm = number(words[at + 1]);
  const std::optional<double> bus = number(words[at + 2]);
  if (algorithm && bus && *algorithm > kTelling) {
    row.bus_factor = *bus / *algorithm;
  }
  table_.rows.push_back(row);
  return true;
}

void NcclTestsParser::take(std::string_view line) {
  line = without_log(line);
  const size_t start = line.find_first_not_of(" \t|`");
  if (start == std::string_view::npos) return;
  if (line[start] == '#') {
    take_comment(line.substr(start));
    return;
  }
  const Words words = words_of(line);
  if (starts_row(words)) {
    if (!torn_.empty()) ++lost_;
    torn_.clear();
    if (take_row(words)) return;
    constexpr size_t kLongestTorn = 256;
    if (line.size() <= kLongestTorn) {
      torn_ = line;
    } else {
      ++lost_;
    }
    return;
  }
  if (torn_.empty() || words.empty() || !fills_number_column(words[0])) {
    return;
  }
  const std::string whole = torn_ + " " + std::string(line);
  torn_.clear();
  if (take_row(words_of(whole))) {
    ++joined_;
  } else {
    ++lost_;
  }
}

}  // namespace reprise
