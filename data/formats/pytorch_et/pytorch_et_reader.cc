#include "data/formats/pytorch_et/pytorch_et_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/formats/json_objects.h"
#include "data/formats/node_dependencies.h"
#include "data/formats/pytorch_et/pytorch_et_join.h"
#include "data/formats/pytorch_et/pytorch_et_node.h"
#include "data/formats/spool_tables.h"
#include "data/io/decimal.h"
#include "data/io/head_text.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

constexpr int64_t kUserScope = 7;
/// A few bytes can name a group of thousands; past this they are not kept.
constexpr size_t kMostMembers = size_t{1} << 24;

/// A graph's own root and one node a thread.
bool is_pseudo_node(std::string_view name) {
  return name.starts_with("[pytorch|profiler|execution_");
}

bool is_device_work(const EtNode& node) {
  return node.category == "kernel" || node.category == "gpu_memcpy" ||
         node.category == "gpu_memset";
}

EventKind kind_of(const EtNode& node) {
  if (node.category == "gpu_memcpy") return EventKind::kCopy;
  if (node.category == "gpu_memset") return EventKind::kMemset;
  if (node.category == "kernel") {
    const bool nccl =
        node.name.starts_with("nccl") || node.name.starts_with("void nccl");
    return nccl ? EventKind::kCollective : EventKind::kCompute;
  }
  if (node.category.starts_with("cuda_")) return EventKind::kRuntime;
  if (is_pseudo_node(node.name)) return EventKind::kOther;
  return node.scope == kUserScope ? EventKind::kAnnotation : EventKind::kHostOp;
}

class EtImport {
 public:
  EtImport(TraceSpool& spool, FileReport& report)
      : spool_(spool),
        report_(report),
        rank_(add_unknown_rank(spool)),
        dependencies_(spool, rank_) {}

  void add(const EtNode& node);
  void finish(std::string_view document);

 private:
  /// A node that the file gives no time.
  struct Untimed {
    int64_t id = -1, parent = -1;
    Event event;
    bool spans = false;  ///< From what lies in it.
  };

  uint32_t stream_of(const EtNode& node);
  bool place(const EtNode& node, Event& event);
  void keep(const Event& event);
  void widen(int64_t id, const Event& event);
  void settle_untimed();
  void describe(const EtNode& node, Event& event);
  void note_rank(const EtCollective& call);
  void note_step(std::string_view name, const Event& event);
  std::string communicator(const std::string& name);
  void settle_rank();

  TraceSpool& spool_;
  FileReport& report_;
  uint32_t rank_;
  NodeDependencies dependencies_;
  std::map<std::pair<bool, int64_t>, uint32_t> streams_;
  EtGroups groups_;
  std::map<std::string, size_t> pointers_;  // Groups known by their address.
  size_t members_ = 0;                      // Of all groups of distinct calls.
  int32_t last_collective_ = -1;
  std::set<int64_t> default_ranks_, group_ranks_, other_ranks_;
  int64_t timed_ = 0;
  std::vector<Untimed> untimed_;
  std::unordered_map<int64_t, size_t> untimed_place_;  ///< By id.
};

uint32_t EtImport::stream_of(const EtNode& node) {
  const bool device = is_device_work(node);
  const int64_t number = device && node.stream >= 0 ? node.stream : node.thread;
  const auto [place, added] = streams_.try_emplace({device, number});
  if (added) {
    StreamInfo stream;
    stream.rank = rank_;
    stream.number = number;
    stream.name = device ? fmt::format("stream {}", number)
                         : execution_trace_stream(number);
    stream.kind = device ? StreamKind::kDeviceStream : StreamKind::kHostThread;
    if (device && node.device >= 0 && node.device < 1 << 16) {
      stream.device = static_cast<int32_t>(node.device);
    } else if (device) {
      stream.device = 0;
    }
    place->second = spool_.add_stream(std::move(stream));
  }
  return place->second;
}

/// Gives the event its times; false when they do not fit.
bool EtImport::place(const EtNode& node, Event& event) {
  if (!node.start_ns) {
    event.start_ns = event.end_ns = node.id;
    event.enqueue_ns = node.id;
    return node.id <= kLargestTimeNs;
  }
  const int64_t duration = node.duration_ns.value_or(0);
  if (duration < 0) return false;
  event.start_ns = event.enqueue_ns = *node.start_ns;
  event.end_ns = *node.start_ns + duration;
  ++timed_;
  return true;
}

/// Old schemas know a process group by its address, which is another one in
/// each process: such groups are numbered as they come.
std::string EtImport::communicator(const std::string& name) {
  if (name.size() < 6 || !parse_integer(name)) return name;
  const size_t next = pointers_.size();
  return fmt::format("group {}",
                     pointers_.try_emplace(name, next).first->second);
}

void EtImport::describe(const EtNode& node, Event& event) {
  std::optional<EtCollective> call = collective_of(node, groups_);
  if (!call) return;
  call->info.communicator = communicator(call->info.communicator);
  note_rank(*call);
  if (members_ > kMostMembers) call->info.group.clear();
  event.detail = spool_.add_collective(call->info);
  if (event.detail > last_collective_) {
    last_collective_ = event.detail;
    members_ += call->info.group.size();
  }
  event.bytes = call->bytes;
  event.sequence = call->sequence;
  ++report_.collectives;
}

void EtImport::note_rank(const EtCollective& call) {
  const std::vector<uint32_t>& group = call.info.group;
  if (call.group_rank < 0) return;
  const auto place = static_cast<size_t>(call.group_rank);
  if (call.default_group) {
    default_ranks_.insert(call.group_rank);
  } else if (place < group.size()) {
    group_ranks_.insert(group[place]);
  } else {
    other_ranks_.insert(call.group_rank);
  }
}

void EtImport::note_step(std::string_view name, const Event& event) {
  constexpr std::string_view kStep = "ProfilerStep#";
  if (!name.starts_with(kStep)) return;
  const auto step = parse_integer(name.substr(kStep.size()));
  if (!step || *step < 0 || *step > INT32_MAX) return;
  spool_.add_step({.rank = rank_,
                   .step = static_cast<int32_t>(*step),
                   .start_ns = event.start_ns,
                   .end_ns = event.end_ns});
  ++report_.steps;
}

void EtImport::keep(const Event& event) {
  spool_.add(event);
  ++report_.events;
  report_.kernels += event.kind == EventKind::kCompute;
}

/// What a host's node lies in lasts as long.
void EtImport::widen(int64_t id, const Event& event) {
  const auto found = untimed_place_.find(id);
  if (found == untimed_place_.end()) return;
  Untimed& outer = untimed_[found->second];
  Event& span = outer.event;
  span.start_ns =
      outer.spans ? std::min(span.start_ns, event.start_ns) : event.start_ns;
  span.end_ns =
      outer.spans ? std::max(span.end_ns, event.end_ns) : event.end_ns;
  span.enqueue_ns = span.start_ns;
  outer.spans = true;
}

/// In a file without times all keep their order. In one with times
/// (chakra_trace_link's) those that Kineto did not have, steps among them, last
/// as long as what lies in them.
void EtImport::settle_untimed() {
  if (timed_ > 0) {
    for (size_t i = untimed_.size(); i-- > 0;) {
      if (untimed_[i].spans) widen(untimed_[i].parent, untimed_[i].event);
    }
  }
  for (const Untimed& one : untimed_) {
    const std::string name = spool_.text(one.event.name);
    if (timed_ > 0 && (is_pseudo_node(name) || !one.spans)) {
      ++report_.ignored["node without a time"];
      continue;
    }
    // The root is its own parent.
    if (timed_ == 0 && one.parent >= 0 && one.parent != one.id)
      dependencies_.add(one.parent, one.id);
    if (timed_ > 0) note_step(name, one.event);
    keep(one.event);
  }
}

void EtImport::add(const EtNode& node) {
  Event event{.rank = rank_, .kind = kind_of(node)};
  if (!place(node, event)) {
    ++report_.dropped["time out of range"];
    return;
  }
  if (!dependencies_.add_node(node.id)) {
    ++report_.dropped["node whose id is taken"];
    return;
  }
  if (node.name.find("process_group:init") != std::string::npos) {
    take_groups(node, groups_);
  }
  event.stream = stream_of(node);
  event.name = spool_.intern(node.name);
  event.external_id = node.id;
  event.correlation = node.correlation;
  for (const int64_t before : node.dependencies) {
    dependencies_.add(before, node.id);
  }
  describe(node, event);
  if (event.kind == EventKind::kCopy || event.kind == EventKind::kMemset) {
    event.bytes = std::max<int64_t>(0, node.device_bytes);
  }
  const std::string attributes = attributes_of(node);
  if (!attributes.empty()) {
    event.attributes =
        static_cast<int32_t>(index_of(spool_.intern(attributes)));
  }
  if (!node.start_ns) {
    untimed_place_.emplace(node.id, untimed_.size());
    untimed_.push_back({node.id, node.parent, event});
    return;
  }
  if (!is_device_work(node)) widen(node.parent, event);
  note_step(node.name, event);
  keep(event);
}

/// A place in the default group is the rank, one in another group that member
/// of it; in the only group of the file it most likely is the rank.
void EtImport::settle_rank() {
  const std::set<int64_t>& ranks = !default_ranks_.empty() ? default_ranks_
                                   : !group_ranks_.empty() ? group_ranks_
                                                           : other_ranks_;
  if (&ranks == &other_ranks_ && pointers_.size() != 1) return;
  if (ranks.size() == 1 && *ranks.begin() < kUnknownRank) {
    spool_.rank(rank_).rank = static_cast<uint32_t>(*ranks.begin());
  }
}

void EtImport::finish(std::string_view document) {
  settle_untimed();
  dependencies_.finish(report_);
  settle_rank();
  RankInfo& rank = spool_.rank(rank_);
  rank.clock_domain = timed_ > 0 ? "epoch" : "none";
  JsonScanner members(document);
  while (members.next()) {
    if (members.key() == "schema") {
      report_.dialect = "schema " + json_unescaped(members.value());
    }
    if (members.key() == "pid") {
      rank.process = parse_integer(members.value()).value_or(0);
    }
  }
  if (timed_ > 0) {
    report_.dialect += " with times";
  } else if (report_.events > 0) {
    report_.missing.emplace_back(kUntimedNodes);
  }
}

class PytorchEtReader final : public TraceReader {
 public:
  std::string_view kind() const override { return "pytorch-et"; }

  bool recognizes(const InputFile& input) const override {
    const std::string_view head = without_blanks(input.head);
    return head.starts_with('{') && has(head, "\"schema\"") &&
           has(head, "\"nodes\"") && !has(head, "\"traceEvents\"");
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    JsonObjects records(*input.source, {"nodes"});
    EtImport import(spool, report);
    EtNode node;
    Status read = records.read(report, [&](std::string_view record) {
      if (read_et_node(record, node)) {
        import.add(node);
      } else {
        ++report.dropped["node without an id"];
      }
    });
    if (!read) return read;
    import.finish(records.rest());
    if (report.events == 0) {
      return fail(ErrorKind::kParse,
                  "{}: not one readable node of an execution trace",
                  input.name);
    }
    return {};
  }
};

}  // namespace

const TraceReader& pytorch_et_reader() {
  static const PytorchEtReader reader;
  return reader;
}

}  // namespace reprise
