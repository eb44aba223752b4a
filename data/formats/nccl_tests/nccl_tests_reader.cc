#include "data/formats/nccl_tests/nccl_tests_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/collective/collective_names.h"
#include "data/formats/collective_points.h"
#include "data/formats/measured_times.h"
#include "data/formats/nccl_tests/nccl_tests_table.h"
#include "data/io/head_text.h"

namespace reprise {
namespace {

constexpr size_t kLongestLine = 4096;

/// Feeds the input's lines to the parser; what is longer is cut.
Result<int64_t> read_lines(ByteSource& source, NcclTestsParser& parser) {
  std::string buffer(1 << 16, '\0'), line;
  int64_t bytes = 0;
  while (true) {
    const Result<size_t> size = source.read(buffer);
    if (!size) return pass(size.error());
    if (*size == 0) break;
    bytes += static_cast<int64_t>(*size);
    std::string_view left(buffer.data(), *size);
    while (!left.empty()) {
      const size_t end = std::min(left.find('\n'), left.size());
      const size_t room = kLongestLine - std::min(kLongestLine, line.size());
      line.append(left.substr(0, std::min(end, room)));
      if (end == left.size()) break;
      parser.take(line);
      line.clear();
      left.remove_prefix(end + 1);
    }
  }
  parser.take(line);
  return bytes;
}

/// The kind of a table, and in `how` what it was taken from if the file
/// does not name it.
CollectiveKind kind_of(const NcclTestsTable& table, std::string_view file,
                       std::string& how) {
  if (table.kind != CollectiveKind::kUnknown) return table.kind;
  const std::vector<CollectiveKind> possible = table.possible_kinds();
  const std::string_view base = file.substr(file.find_last_of("/:") + 1);
  const bool permutes = base.find("sendrecv") != std::string_view::npos;
  const CollectiveKind named =
      permutes ? CollectiveKind::kPermute : collective_named(base);
  const bool agrees =
      std::find(possible.begin(), possible.end(), named) != possible.end();
  how = agrees && possible.size() > 1
            ? "by its columns, bandwidths and file name"
            : "by its columns and bandwidths";
  return agrees ? named : possible.front();
}

void add_rows(const NcclTestsTable& table, CollectiveKind kind,
              int64_t group_size, MeasuredTimes& times) {
  for (const NcclTestsRow& row : table.rows) {
    const std::string key =
        collective_key(kind, group_size, row.bytes, row.type);
    const std::string title = collective_title(kind, group_size, row.bytes);
    if (row.out_of_place_ns >= 0) {
      times.add({key, title + " (out of place)", "nccl-tests"},
                row.out_of_place_ns);
    }
    if (row.in_place_ns >= 0) {
      times.add({key, title + " (in place)", "nccl-tests in place"},
                row.in_place_ns);
    }
  }
}

class NcclTestsReader final : public TraceReader {
 public:
  std::string_view kind() const override { return "nccl-tests"; }

  bool recognizes(const InputFile& input) const override {
    const std::string_view head = without_blanks(input.head);
    if (head.find('\0') != std::string_view::npos) return false;
    return !head.starts_with('{') && has(head, "algbw") && has(head, "busbw") &&
           has(head, "count");
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    NcclTestsParser parser;
    const Result<int64_t> bytes = read_lines(*input.source, parser);
    if (!bytes) return pass(bytes.error());
    const std::vector<NcclTestsTable> tables = parser.finish();
    MeasuredTimes times;
    for (const NcclTestsTable& table : tables) {
      take(table, input.name, times, spool, report);
    }
    times.add_to(spool);
    if (parser.lost_rows() > 0) {
      report.dropped["row without a time"] += parser.lost_rows();
    }
    if (parser.joined_rows() > 0) {
      report.repaired["row torn by a log line"] += parser.joined_rows();
    }
    if (tables.empty()) {
      report.refused = "a log of nccl-tests without a row of results";
    }
    return {};
  }

 private:
  static void take(const NcclTestsTable& table, const std::string& file,
                   MeasuredTimes& times, TraceSpool& spool,
                   FileReport& report) {
    std::string how;
    const CollectiveKind operation = kind_of(table, file, how);
    const int64_t group_size = std::max<int64_t>(0, table.group_size());
    add_rows(table, operation, group_size, times);
    if (!how.empty()) {
      report.missing.push_back(
          fmt::format("The table does not name its operation: {} {}.",
                      name_of(operation), how));
    }
    if (group_size == 0) {
      report.missing.push_back(
          "No line says how many ranks took part: the group size is 0.");
    }
    if (!table.device.empty()) {
      spool.set_environment("nccl-tests device", table.device);
    }
    report.dialect = table.has_reduction_column ? "with redop" : "plain";
  }
};

}  // namespace

const TraceReader& nccl_tests_reader() {
  static const NcclTestsReader reader;
  return reader;
}

}  // namespace reprise
