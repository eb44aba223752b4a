// The operators of one rank of a dPRO trace (trace.json.gz: TensorFlow's or
// MXNet's own timeline) and the steps that they make.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/formats/dpro/dpro_graph.h"
#include "data/formats/horovod/horovod_events.h"
#include "data/formats/reader.h"

namespace reprise {

struct DproOperation {
  int64_t start_ns = 0, end_ns = 0;
  int64_t group = -1;           ///< Its step as the file says it, or -1.
  uint32_t node = kNoDproNode;  ///< Of the graph.
  uint32_t stream = 0;          ///< Of the spool.
  StringId name{};
  int32_t step = -1;  ///< Place in the steps.
  EventKind kind = EventKind::kCompute;
};

struct DproStep {
  int32_t number = 0;
  int64_t start_ns = 0, end_ns = 0;
};

class DproOperations {
 public:
  DproOperations(TraceSpool& spool, FileReport& report, uint32_t rank,
                 int32_t device, const DproGraph& graph);

  /// Errors: as read_timeline.
  Status read(ByteSource& source);
  /// Sorts what was read and divides it into steps.
  void finish();

  const std::vector<DproOperation>& operations() const { return operations_; }
  /// By start; a step begins with its first operator.
  std::vector<DproStep>& steps() { return steps_; }
  const std::vector<DproStep>& steps() const { return steps_; }
  /// The last step that had begun, -1 before the first.
  int32_t step_at(int64_t time_ns) const;
  /// What the step at a place is called, -1 of none.
  int32_t number_of(int32_t step) const {
    return step < 0 ? -1 : steps_[static_cast<size_t>(step)].number;
  }

 private:
  struct Row {
    std::string process, thread;  ///< As in the file.
    std::string name;
    uint32_t stream = UINT32_MAX;
    std::string open_name;  ///< Of an event that began.
    int64_t open_ns = 0;
  };
  struct Operator {
    uint32_t node = kNoDproNode;
    StringId name{};
    EventKind kind = EventKind::kCompute;
    bool wanted = false;
  };

  void take(const ChromeEvent& event);
  void take_begin(const ChromeEvent& event);
  void take_end(const ChromeEvent& event);
  Row& row_of(const ChromeEvent& event);
  const Operator& operator_of(std::string_view name, bool long_name);
  void add(const ChromeEvent& event, const TimelineSpan& span, Row& row,
           std::string_view name);
  void divide_by_group();
  void divide_by_order();
  bool begins_steps(const DproOperation& operation) const;

  TraceSpool& spool_;
  FileReport& report_;
  uint32_t rank_;
  int32_t device_;
  const DproGraph& graph_;
  std::vector<Row> rows_;
  size_t last_row_ = 0;
  std::map<std::pair<std::string, std::string>, size_t> row_places_;
  std::unordered_map<std::string, Operator> operators_;
  std::string key_;
  std::vector<DproOperation> operations_;
  std::vector<DproStep> steps_;
};

}  // namespace reprise
