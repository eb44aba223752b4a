// One table of nccl-tests, line by line.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/collective/collective_names.h"

namespace reprise {

/// A line with the numbers of one message size.
struct NcclTestsRow {
  int64_t bytes = 0;
  std::optional<PrimitiveType> type = std::nullopt;
  bool reduces = false, rooted = false;  ///< Whether the columns are filled.
  int64_t out_of_place_ns = -1, in_place_ns = -1;  ///< -1: not measured.
  double bus_factor = -1;  ///< Bus over algorithm bandwidth; -1: too small.
};

/// A table and what stands in the lines before it.
struct NcclTestsTable {
  /// As the file names it; kUnknown if it does not.
  CollectiveKind kind = CollectiveKind::kUnknown;
  std::string device;
  int64_t threads = 0, gpus = 0;
  bool has_reduction_column = false;
  std::set<int64_t> ranks;
  std::vector<NcclTestsRow> rows;

  /// Ranks in a group; -1 when the file does not say.
  int64_t group_size() const;
  /// What the columns and bandwidths allow, the likelier first.
  std::vector<CollectiveKind> possible_kinds() const;
};

class NcclTestsParser {
 public:
  /// Takes the next line, without its end.
  void take(std::string_view line);
  /// All tables so far that have rows.
  std::vector<NcclTestsTable> finish();

  int64_t lost_rows() const { return lost_; }      ///< No readable time.
  int64_t joined_rows() const { return joined_; }  ///< Torn by a log line.

 private:
  void take_comment(std::string_view line);
  bool take_row(const std::vector<std::string_view>& words);
  void start_table();

  NcclTestsTable table_;
  std::vector<NcclTestsTable> tables_;
  std::string torn_;  ///< The start of a row whose times did not follow yet.
  int64_t lost_ = 0, joined_ = 0;
};

}  // namespace reprise
