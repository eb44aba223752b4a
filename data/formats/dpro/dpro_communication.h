// The communication of one rank of a dPRO trace over Horovod and NCCL: rows of
// tensors (comm.json) and chunks (comm_detail.json), joined to one all-reduce
// for each group of tensors that was reduced as one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/formats/dpro/dpro_operations.h"
#include "data/formats/dpro/dpro_tensors.h"

namespace reprise {

/// What happens to a tensor's gradient, in this order.
enum class DproStage : uint8_t {
  kNegotiation,  ///< Until all ranks have it ("Sync").
  kQueue,
  kCopyIn,  ///< Into the fusion buffer.
  kTransfer,
  kCopyOut,
  kWhole,  ///< All of it, where nothing finer was recorded.
};
constexpr size_t kDproStages = 6;

/// One group of tensors in one step, reduced as one.
struct DproReduction {
  uint32_t group = 0;  ///< Place in DproCommunication::groups.
  int32_t step = -1;
  /// [stage] start and end; start > end: not recorded.
  std::array<TimelineSpan, kDproStages> stages;
  bool has(DproStage stage) const {
    const TimelineSpan& span = stages[static_cast<size_t>(stage)];
    return span.start_ns <= span.end_ns;
  }
  int64_t start_ns() const;
};

class DproCommunication {
 public:
  DproCommunication(TraceSpool& spool, FileReport& report, uint32_t rank,
                    const DproOperations& operations,
                    const DproTensors& tensors);

  /// comm.json. Requires: the operations are finished. Errors: as
  /// read_timeline.
  Status read_rows(ByteSource& source);
  /// comm_detail.json; its chunks go to the spool. Errors: as read_timeline.
  Status read_chunks(ByteSource& source);
  /// Joins rows and chunks.
  void finish();

  struct Group {
    std::string name;               ///< "1+2".
    std::vector<uint32_t> tensors;  ///< Ascending.
  };
  const std::vector<Group>& groups() const { return groups_; }
  /// By step and start.
  const std::vector<DproReduction>& reductions() const { return reductions_; }
  /// Channels of NCCL's rings that chunks name.
  size_t channels() const;
  /// That a channel passes on, one after the other, for one reduction.
  uint32_t chunks_in_turn() const { return chunks_in_turn_; }

 private:
  struct Row {
    bool synchronizes = false;  ///< Its events are named by tensors.
    bool wanted = false;
    uint32_t tensor = 0;
    std::vector<std::pair<std::string, int64_t>> open;  ///< Name, start.
  };
  struct Span {
    int32_t step = -1;
    uint32_t tensor = 0;
    DproStage stage = DproStage::kQueue;
    int64_t start_ns = 0, end_ns = 0;
  };
  struct ChunkName {
    bool wanted = false;
    bool sends = false;
    uint32_t group = 0;
    StringId name{};
  };

  void take_row(const ChromeEvent& event);
  void name_row(const ChromeEvent& event);
  void take_end(const ChromeEvent& event, Row& row);
  void add_span(const Row& row, const std::string& name, int64_t start_ns,
                int64_t end_ns);
  void take_chunk(const ChromeEvent& event);
  const ChunkName& chunk_name(std::string_view token);
  void place_chunk(const ChromeEvent& event, bool sends, Event& chunk);
  void widen(uint32_t group, int32_t step, const TimelineSpan& span);

  bool has_room(uint32_t group);

  uint32_t tensor_of(std::string_view name);
  uint32_t group_of(std::vector<uint32_t> tensors);
  std::string name_of(uint32_t tensor) const;
  using Spans = std::vector<Span>;
  void join_rows_without_chunks(Spans::const_iterator first,
                                Spans::const_iterator last, DproStage stage);
  void add_reduction(std::vector<uint32_t> tensors, int32_t step,
                     DproStage stage, const TimelineSpan& span);
  void collect_stages(DproReduction& reduction) const;
  bool is_joined(int32_t step, uint32_t tensor) const;
  void note_joined();

  TraceSpool& spool_;
  FileReport& report_;
  uint32_t rank_;
  const DproOperations& operations_;
  const DproTensors& tensors_;
  std::map<std::string, Row> rows_;  ///< By pid.
  std::map<std::string, uint32_t> strangers_;
  std::vector<std::string> stranger_names_;
  Spans spans_;
  std::unordered_map<std::string, ChunkName> chunk_names_;
  std::string key_;
  std::map<uint64_t, int32_t> places_;     ///< Of a chunk: its attributes.
  std::map<uint64_t, uint32_t> channels_;  ///< Channel and side: stream.
  std::map<std::vector<uint32_t>, uint32_t> group_places_;
  std::vector<Group> groups_;
  std::vector<int64_t> open_reduction_;  ///< [group] -1: none.
  std::vector<DproReduction> reductions_;
  size_t members_ = 0;  ///< Of all reductions.
  uint32_t chunks_in_turn_ = 0;
  /// Step and tensor of each member of a reduction, sorted.
  std::vector<std::pair<int32_t, uint32_t>> joined_;
};

}  // namespace reprise
