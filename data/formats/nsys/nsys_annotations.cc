// NVTX of an Nsight Systems export. Names tell what a range is: PyTorch's
// emit_nvtx writes its operators' numbers, NCCL its calls (with typed payloads
// where the export has blobs), frameworks and users their steps.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "data/formats/nccl_names.h"
#include "data/formats/nsys/nsys_import.h"
#include "data/formats/nvtx_ranges.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

/// ENUM_NSYS_EVENT_TYPE.
constexpr int64_t kMark = 34;
constexpr int64_t kPushPopRange = 59;
constexpr int64_t kStartEndRange = 60;

using enum NsysColumn;

/// A call of NCCL on its way to the spool: a group's calls describe its end.
struct PendingNcclCall {
  NsysProcess process;
  int64_t global_tid;
  Event event;
  std::string name;
  std::optional<NcclPayload> payload;

  auto key() const { return std::tuple(global_tid, event.start_ns); }
};

class Annotations {
 public:
  explicit Annotations(NsysImport& import) : import_(import) {}

  void read();

 private:
  void read_row(const NsysRows& rows);
  std::string_view name_of(const NsysRows& rows);
  bool place(const NsysRows& rows, Event& event);
  void add_nccl_calls();
  int32_t describe(const PendingNcclCall& call) const;
  int32_t describe_group(
      const std::vector<const PendingNcclCall*>& calls) const;
  CollectiveInfo info_of(const PendingNcclCall& call) const;
  void set_peer(const PendingNcclCall& call, Event& event);
  void learn_communicators();
  void add_steps();
  void add_steps_of(uint32_t rank, const std::vector<StepRange>& ranges);
  void say_what_is_missing();

  NsysImport& import_;
  std::map<int64_t, std::string> texts_;  ///< StringIds, those used.
  std::vector<PendingNcclCall> nccl_calls_;
  std::map<int64_t, std::vector<StepRange>> steps_;  ///< That may be, by tid.
  std::map<uint64_t, int64_t> communicator_size_;    ///< In ranks.
};

void Annotations::read() {
  if (!import_.database.has_table("NVTX_EVENTS")) return;
  import_.payloads.read_schemas(import_.database);
  NsysRows rows = import_.database.rows(
      "NVTX_EVENTS",
      {kStart, kEnd, kEventType, kText, kTextId, kTid, kDomain, kBinaryData});
  while (rows.next()) read_row(rows);
  import_.finish(rows);
  learn_communicators();
  add_nccl_calls();
  add_steps();
  say_what_is_missing();
}

std::string_view Annotations::name_of(const NsysRows& rows) {
  const std::string_view text = rows.text(kText);
  const auto id = rows.integer(kTextId);
  if (!text.empty() || !id) return text;
  const auto [at, is_new] = texts_.try_emplace(*id);
  if (is_new) at->second = import_.database.string_of(*id).value_or("");
  return at->second;
}

/// Times, rank and thread; marks end where they start.
bool Annotations::place(const NsysRows& rows, Event& event) {
  const int64_t type = rows.integer_or(kEventType, -1);
  const bool is_mark = type == kMark;
  if (!is_mark && rows.integer(kStart) && !rows.integer(kEnd)) {
    import_.drop("range without an end");
    return false;
  }
  if (!import_.read_times(rows, event, is_mark ? kStart : kEnd)) {
    return false;
  }
  const auto tid = rows.integer(kTid);
  const auto rank = tid ? import_.ranks.rank_of_call(*tid, -1) : std::nullopt;
  if (!rank) {
    import_.drop("NVTX range of a process without GPU work");
    return false;
  }
  event.rank = *rank;
  event.stream = import_.ranks.host_thread(*rank, *tid, import_.database);
  event.kind = EventKind::kAnnotation;
  return true;
}

void Annotations::read_row(const NsysRows& rows) {
  const int64_t type = rows.integer_or(kEventType, -1);
  if (type != kMark && type != kPushPopRange && type != kStartEndRange) {
    ++import_.report.ignored["NVTX registration"];
    return;
  }
  Event event;
  if (!place(rows, event)) return;
  std::string_view name = name_of(rows);
  if (name.empty()) name = "(unnamed)";
  const int64_t tid = rows.integer_or(kTid, -1);
  if (const auto torch = torch_range(name)) {
    event.kind = EventKind::kHostOp;
    event.external_id = torch->id;
    name = torch->name;
    if (!torch->sizes.empty()) {
      const nlohmann::json attributes = {{"sizes", std::string(torch->sizes)}};
      event.attributes = static_cast<int32_t>(
          index_of(import_.spool.intern(json_text(attributes))));
    }
  }
  const bool is_call = name.starts_with("nccl") && name.size() > 4 &&
                       name[4] >= 'A' && name[4] <= 'Z';
  if (is_call) {
    event.kind = EventKind::kHostOp;
    event.name = import_.spool.intern(name);
    nccl_calls_.push_back({process_of(tid), tid, event, std::string(name),
                           import_.payloads.decode(rows.integer_or(kDomain, 0),
                                                   rows.text(kBinaryData))});
    return;
  }
  const CollectiveKind kind = kind_of_nccl_call(name);
  if (kind != CollectiveKind::kUnknown) {
    event.kind = EventKind::kHostOp;
    event.detail = import_.spool.add_collective({.kind = kind});
  }
  if (type != kMark) {
    note_step_range(name, event.start_ns, event.end_ns, steps_[tid]);
  }
  event.name = import_.spool.intern(name);
  import_.add(event);
}

void Annotations::learn_communicators() {
  std::map<NsysProcess, std::pair<int64_t, int64_t>> largest;
  for (const PendingNcclCall& call : nccl_calls_) {
    if (!call.payload || !call.payload->communicator) continue;
    const NcclPayload& payload = *call.payload;
    if (payload.ranks <= 0 || payload.rank < 0 ||
        payload.rank >= payload.ranks) {
      continue;
    }
    communicator_size_[*payload.communicator] = payload.ranks;
    auto& [size, rank] = largest[call.process];
    if (payload.ranks > size) {
      size = payload.ranks;
      rank = payload.rank;
    }
  }
  // In its largest communicator a process's number is that of its rank, if that
  // holds the whole job.
  for (const auto& [process, place] : largest) {
    const std::vector<uint32_t>& ranks = import_.ranks.ranks_of(process);
    if (ranks.size() != 1 || place.first < 2) continue;
    if (import_.spool.rank(ranks.front()).rank != kUnknownRank) continue;
    import_.spool.assume_rank(ranks.front(),
                              static_cast<uint32_t>(place.second));
  }
}

CollectiveInfo Annotations::info_of(const PendingNcclCall& call) const {
  CollectiveInfo info;
  info.kind = kind_of_nccl_call(call.name);
  if (!call.payload) return info;
  if (call.payload->communicator) {
    const uint64_t id = *call.payload->communicator;
    info.communicator = fmt::format("{:#x}", id);
    const auto size = communicator_size_.find(id);
    if (size != communicator_size_.end()) info.group_size = size->second;
  }
  return info;
}

int32_t Annotations::describe(const PendingNcclCall& call) const {
  const CollectiveInfo info = info_of(call);
  return info.kind == CollectiveKind::kUnknown
             ? -1
             : import_.spool.add_collective(info);
}

/// What the calls of a group are together, where they are of one kind; of
/// messages each tells by itself what it is.
int32_t Annotations::describe_group(
    const std::vector<const PendingNcclCall*>& calls) const {
  if (calls.empty()) return -1;
  CollectiveInfo all = info_of(*calls.front());
  for (const PendingNcclCall* call : calls) {
    const CollectiveInfo info = info_of(*call);
    if (info.kind != all.kind || is_message(info.kind))
      all.kind = CollectiveKind::kUnknown;
    if (info.communicator != all.communicator) return -1;
  }
  return import_.spool.add_collective(all);
}

/// Too many bytes to count are none.
void add_sent(const PendingNcclCall& call, int64_t& bytes) {
  if (call.name.starts_with("ncclRecv") || !call.payload) return;
  const int64_t more = std::max<int64_t>(0, call.payload->bytes);
  if (__builtin_add_overflow(bytes, more, &bytes)) bytes = 0;
}

/// A message's other side, counted in its communicator.
void Annotations::set_peer(const PendingNcclCall& call, Event& event) {
  const bool has_one = is_message(kind_of_nccl_call(call.name)) &&
                       call.payload && call.payload->peer >= 0;
  if (!has_one) return;
  event.attributes = static_cast<int32_t>(index_of(import_.spool.intern(
      fmt::format(R"({{"peer":{}}})", call.payload->peer))));
}

void Annotations::add_nccl_calls() {
  std::stable_sort(nccl_calls_.begin(), nccl_calls_.end(),
                   [](const PendingNcclCall& a, const PendingNcclCall& b) {
                     return a.key() < b.key();
                   });
  int64_t depth = 0;
  int64_t thread = -1;
  std::vector<const PendingNcclCall*> group;
  for (PendingNcclCall& call : nccl_calls_) {
    if (call.global_tid != thread) {
      thread = call.global_tid;
      depth = 0;
      group.clear();
    }
    Event event = call.event;
    event.detail = describe(call);
    if (call.payload) event.bytes = std::max<int64_t>(0, call.payload->bytes);
    set_peer(call, event);
    if (call.name == "ncclGroupStart") {
      if (depth++ == 0) group.clear();
    } else if (call.name == "ncclGroupEnd") {
      if (depth > 0 && --depth == 0) {
        // A group is launched by the call that ends it.
        event.detail = describe_group(group);
        if (group.size() == 1) set_peer(*group.front(), event);
        for (const PendingNcclCall* member : group)
          add_sent(*member, event.bytes);
      }
    } else if (depth > 0 && event.detail >= 0) {
      group.push_back(&call);
    }
    import_.add(event);
  }
}

/// Of a rank that a thread drives alone those of that thread, of another all
/// that its process has; of several threads those of the one with the most.
void Annotations::add_steps() {
  std::map<uint32_t, std::vector<StepRange>> of_rank;
  std::map<NsysProcess, std::vector<StepRange>> of_process;
  const auto keep_most = [](const std::vector<StepRange>& steps,
                            std::vector<StepRange>& most) {
    if (steps.size() > most.size()) most = steps;
  };
  for (const auto& [tid, candidates] : steps_) {
    const std::vector<StepRange> steps = steps_among(candidates);
    if (const auto own = import_.ranks.rank_of_thread(tid))
      keep_most(steps, of_rank[*own]);
    keep_most(steps, of_process[process_of(tid)]);
  }
  for (uint32_t rank = 0; rank < import_.ranks.count(); ++rank) {
    const std::vector<StepRange>& own = of_rank[rank];
    add_steps_of(rank,
                 own.empty() ? of_process[import_.ranks.process(rank)] : own);
  }
}

void Annotations::add_steps_of(uint32_t rank,
                               const std::vector<StepRange>& ranges) {
  for (const StepRange& range : ranges) {
    import_.spool.add_step({.rank = rank,
                            .step = static_cast<int32_t>(range.number),
                            .start_ns = range.start_ns,
                            .end_ns = range.end_ns,
                            .warmup = false});
    ++import_.report.steps;
  }
}

void Annotations::say_what_is_missing() {
  const bool any_payload = std::any_of(
      nccl_calls_.begin(), nccl_calls_.end(),
      [](const PendingNcclCall& call) { return call.payload.has_value(); });
  if (nccl_calls_.empty() || any_payload) return;
  import_.miss(
      "Sizes, peers and communicators of NCCL calls are not in the file; "
      "export with `nsys export --type sqlite --include-blobs true`.");
}

}  // namespace

void read_nsys_annotations(NsysImport& import) { Annotations(import).read(); }

}  // namespace reprise
