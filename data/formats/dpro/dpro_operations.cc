// TensorFlow numbers its steps in the events' arguments; MXNet does not, and
// there a step begins with the first operator of input or the forward pass
// behind any other.
#include "data/formats/dpro/dpro_operations.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// TensorFlow's row of operators; beside it stand rows of kernels.
constexpr std::string_view kOperatorRow = "TensorFlow Ops";
/// More operators of one rank (a gigabyte of text) are counted and left out.
constexpr size_t kMostOperations = size_t{1} << 23;

struct Arguments {
  std::string_view long_name, group;
};

Arguments arguments_of(const ChromeEvent& event) {
  Arguments found;
  JsonScanner arguments(event.arguments);
  while (arguments.next()) {
    const std::string_view key = arguments.key();
    if (key == "long_name") found.long_name = arguments.value();
    if (key == "group_id" || key == "step") found.group = arguments.value();
  }
  return found;
}

/// The operator in "StatefulPartitionedCall/a/b:MatMul".
std::string_view operator_in(std::string_view long_name) {
  constexpr std::string_view kCall = "StatefulPartitionedCall/";
  long_name = long_name.substr(0, long_name.find(':'));
  if (long_name.starts_with(kCall)) long_name.remove_prefix(kCall.size());
  return long_name;
}

}  // namespace

DproOperations::DproOperations(TraceSpool& spool, FileReport& report,
                               uint32_t rank, int32_t device,
                               const DproGraph& graph)
    : spool_(spool),
      report_(report),
      rank_(rank),
      device_(device),
      graph_(graph) {}

Status DproOperations::read(ByteSource& source) {
  const Result<bool> read = read_timeline(
      source, report_, [this](const ChromeEvent& event) { take(event); });
  if (!read) return pass(read.error());
  return {};
}

void DproOperations::take(const ChromeEvent& event) {
  switch (event.phase) {
    case 'X': {
      Row& row = row_of(event);
      TimelineSpan span;
      const bool operators =
          row.name.empty() || row.name.find(kOperatorRow) != row.name.npos;
      if (!operators) {
        ++report_.ignored["event of another row than the operators'"];
      } else if (read_span(event, report_, span)) {
        add(event, span, row, event.name);
      }
      return;
    }
    case 'M':
      if (event.name == "\"thread_name\"") {
        row_of(event).name = json_unescaped(timeline_argument(event, "name"));
      }
      return count_ignored(event, report_);
    case 'B':
    case 'b':
      return take_begin(event);
    case 'E':
    case 'e':
      return take_end(event);
    default:
      return count_ignored(event, report_);
  }
}

void DproOperations::take_begin(const ChromeEvent& event) {
  Row& row = row_of(event);
  const auto start = parse_microseconds(event.start);
  if (!row.open_name.empty() || !start) {
    ++report_.dropped[start ? "begin without an end" : "no usable time"];
  }
  row.open_name = start ? std::string(event.name) : std::string();
  row.open_ns = start.value_or(0);
}

void DproOperations::take_end(const ChromeEvent& event) {
  Row& row = row_of(event);
  const auto end = parse_microseconds(event.start);
  const bool fits = !row.open_name.empty() && end && *end >= row.open_ns &&
                    (event.name.empty() || event.name == row.open_name);
  if (fits) {
    const std::string name = std::move(row.open_name);
    add(event, {row.open_ns, *end}, row, name);
  } else {
    ++report_.dropped["end without a begin"];
  }
  row.open_name.clear();
}

DproOperations::Row& DproOperations::row_of(const ChromeEvent& event) {
  const auto is = [&](const Row& row) {
    return row.process == event.process && row.thread == event.thread;
  };
  if (last_row_ < rows_.size() && is(rows_[last_row_])) return rows_[last_row_];
  const auto [place, added] = row_places_.try_emplace(
      {std::string(event.process), std::string(event.thread)}, rows_.size());
  if (added) {
    rows_.push_back({.process = place->first.first,
                     .thread = place->first.second,
                     .name = {},
                     .open_name = {}});
  }
  last_row_ = place->second;
  return rows_[last_row_];
}

const DproOperations::Operator& DproOperations::operator_of(
    std::string_view name, bool long_name) {
  key_.assign(name);
  const auto [place, added] = operators_.try_emplace(key_);
  Operator& found = place->second;
  if (!added) return found;
  const std::string whole = json_unescaped(name);
  const std::string_view operation =
      long_name ? operator_in(whole) : std::string_view(whole);
  found.node = graph_.find(operation);
  found.wanted = found.node != kNoDproNode || graph_.size() == 0;
  const std::string_view known =
      found.node == kNoDproNode ? operation : graph_.name(found.node);
  if (known.starts_with("Comm.")) found.wanted = false;
  if (known.starts_with("I/O")) found.kind = EventKind::kFeed;
  if (found.wanted) found.name = spool_.intern(known);
  return found;
}

void DproOperations::add(const ChromeEvent& event, const TimelineSpan& span,
                         Row& row, std::string_view name) {
  const Arguments arguments = arguments_of(event);
  const bool has_long_name = !arguments.long_name.empty();
  const Operator& found =
      operator_of(has_long_name ? arguments.long_name : name, has_long_name);
  if (!found.wanted) {
    ++report_.ignored["operator that the graph does not have"];
    return;
  }
  if (operations_.size() == kMostOperations) {
    ++report_.dropped["operator beyond the largest number of one rank"];
    return;
  }
  if (row.stream == UINT32_MAX) {
    row.stream = spool_.add_stream(
        {.rank = rank_,
         .name = row.name.empty() ? "operators" : row.name,
         .kind = StreamKind::kDeviceStream,
         .device = device_,
         .number = static_cast<int64_t>(&row - rows_.data())});
  }
  operations_.push_back({.start_ns = span.start_ns,
                         .end_ns = span.end_ns,
                         .group = parse_integer(arguments.group).value_or(-1),
                         .node = found.node,
                         .stream = row.stream,
                         .name = found.name,
                         .kind = found.kind});
}

void DproOperations::finish() {
  std::stable_sort(operations_.begin(), operations_.end(),
                   [](const DproOperation& a, const DproOperation& b) {
                     return std::tie(a.start_ns, a.end_ns) <
                            std::tie(b.start_ns, b.end_ns);
                   });
  const bool grouped = std::all_of(
      operations_.begin(), operations_.end(),
      [](const DproOperation& operation) { return operation.group >= 0; });
  if (grouped) {
    divide_by_group();
  } else {
    divide_by_order();
  }
  for (const DproOperation& operation : operations_) {
    if (operation.step < 0) continue;
    DproStep& step = steps_[static_cast<size_t>(operation.step)];
    step.end_ns = std::max(step.end_ns, operation.end_ns);
  }
}

void DproOperations::divide_by_group() {
  std::map<int64_t, int32_t> places;
  for (DproOperation& operation : operations_) {
    const auto [place, added] = places.try_emplace(
        operation.group, static_cast<int32_t>(steps_.size()));
    if (added) {
      const bool fits = operation.group <= INT32_MAX;
      steps_.push_back(
          {fits ? static_cast<int32_t>(operation.group) : place->second,
           operation.start_ns, operation.end_ns});
    }
    operation.step = place->second;
  }
}

/// A step begins with input or the forward pass.
bool DproOperations::begins_steps(const DproOperation& operation) const {
  const std::string& name = spool_.text(operation.name);
  return name.starts_with("FW.") || name.starts_with("I/O");
}

void DproOperations::divide_by_order() {
  bool begun = false;  // The operator before was of a step's beginning.
  for (DproOperation& operation : operations_) {
    const bool begins = begins_steps(operation);
    if (begins && !begun) {
      steps_.push_back({static_cast<int32_t>(steps_.size()), operation.start_ns,
                        operation.end_ns});
    }
    begun = begins;
    operation.step = static_cast<int32_t>(steps_.size()) - 1;
  }
}

int32_t DproOperations::step_at(int64_t time_ns) const {
  const auto after = std::upper_bound(
      steps_.begin(), steps_.end(), time_ns,
      [](int64_t time, const DproStep& s) { return time < s.start_ns; });
  return static_cast<int32_t>(after - steps_.begin()) - 1;
}

}  // namespace reprise
