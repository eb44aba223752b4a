// Rows say per tensor what happened when, but not which tensors travelled
// together; chunks say that, by names like "Comm.1+2.SEND", but only of the
// transfer. So chunks make the reductions, and rows are laid over them by step
// and tensor; tensors that no chunk names are one reduction where they did the
// same thing at the same time. Source: dPRO (Hu et al., MLSys 2022),
// byteprofile-analysis. Cost: sorting, then binary searches.
#include "data/formats/dpro/dpro_communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "data/formats/spool_tables.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Tensors that no list names get ids from here on.
constexpr uint32_t kFirstStranger = uint32_t{1} << 31;
/// More events of one tensor that are open at once are no nesting.
constexpr size_t kDeepestRow = 64;
/// No model has more in one group.
constexpr size_t kMostTensors = 1 << 16;
/// Members of all reductions together: beyond, reductions are left out.
constexpr size_t kMostMembers = size_t{1} << 26;
/// More rows, channels or chunks of a ring than any run has.
constexpr size_t kMostRows = 1 << 20, kMostChannels = 4096,
                 kMostPlaces = 1 << 20;

constexpr TimelineSpan kNowhere = {INT64_MAX, INT64_MIN};

std::optional<DproStage> stage_of(std::string_view activity) {
  if (activity == "QUEUE") return DproStage::kQueue;
  if (activity == "MEMCPY_IN_FUSION_BUFFER") return DproStage::kCopyIn;
  if (activity == "MEMCPY_OUT_FUSION_BUFFER") return DproStage::kCopyOut;
  if (activity == "NEGOTIATE_ALLREDUCE") return DproStage::kNegotiation;
  if (activity == "ALLREDUCE") return DproStage::kWhole;
  if (activity.ends_with("_ALLREDUCE")) return DproStage::kTransfer;
  return std::nullopt;
}

void include(TimelineSpan& whole, int64_t start_ns, int64_t end_ns) {
  whole.start_ns = std::min(whole.start_ns, start_ns);
  whole.end_ns = std::max(whole.end_ns, end_ns);
}

/// "Comm.<<7>>3.SEND" -> "Comm.3.SEND".
std::string without_digest(std::string name) {
  const size_t open = name.find("<<"), close = name.find(">>");
  if (open < close && close != name.npos) name.erase(open, close + 2 - open);
  return name;
}

}  // namespace

int64_t DproReduction::start_ns() const {
  int64_t start = INT64_MAX;
  for (const TimelineSpan& span : stages) {
    start = std::min(start, span.start_ns);
  }
  return start;
}

size_t DproCommunication::channels() const {
  size_t count = 0;
  uint64_t last = UINT64_MAX;
  for (const auto& [lane, stream] : channels_) {
    count += lane / 2 != last;
    last = lane / 2;
  }
  return count;
}

DproCommunication::DproCommunication(TraceSpool& spool, FileReport& report,
                                     uint32_t rank,
                                     const DproOperations& operations,
                                     const DproTensors& tensors)
    : spool_(spool),
      report_(report),
      rank_(rank),
      operations_(operations),
      tensors_(tensors) {}

Status DproCommunication::read_rows(ByteSource& source) {
  const Result<bool> read = read_timeline(
      source, report_, [this](const ChromeEvent& event) { take_row(event); });
  if (!read) return pass(read.error());
  for (const auto& [process, row] : rows_) {
    if (row.open.empty()) continue;
    report_.dropped["begin without an end"] +=
        static_cast<int64_t>(row.open.size());
  }
  return {};
}

void DproCommunication::take_row(const ChromeEvent& event) {
  if (event.phase == 'M') {
    if (event.name == "\"process_name\"") name_row(event);
    return count_ignored(event, report_);
  }
  if (event.phase != 'B' && event.phase != 'E' && event.phase != 'X') {
    return count_ignored(event, report_);
  }
  key_.assign(event.process);
  const auto found = rows_.find(key_);
  if (found == rows_.end()) {
    ++report_.dropped["event of a tensor without a name"];
    return;
  }
  Row& row = found->second;
  if (!row.wanted) {
    ++report_.ignored["row that dPRO ignores"];
  } else if (event.phase == 'X') {
    ++report_.ignored["rank that became ready"];
  } else if (event.phase == 'E') {
    take_end(event, row);
  } else if (const auto start = parse_microseconds(event.start);
             start && row.open.size() < kDeepestRow) {
    row.open.emplace_back(unquoted(event.name), *start);
  } else {
    ++report_.dropped[start ? "nested too deep" : "no usable time"];
  }
}

void DproCommunication::name_row(const ChromeEvent& event) {
  const std::string name = json_unescaped(timeline_argument(event, "name"));
  if (name.empty() || rows_.size() == kMostRows) return;
  Row& row = rows_[std::string(event.process)];
  row.synchronizes = name.find("Sync") != name.npos;
  row.wanted = row.synchronizes;
  if (row.synchronizes) return;
  // "horovod_allreduce.3_0": tensor 3.
  const size_t dot = name.find('.');
  row.wanted = dot != name.npos && name.find("broadcast") == name.npos &&
               name.find("input_barrier") == name.npos;
  if (row.wanted)
    row.tensor = tensor_of(std::string_view(name).substr(dot + 1));
}

/// A tensor's id, by number or name.
uint32_t DproCommunication::tensor_of(std::string_view name) {
  const auto number = parse_integer(name.substr(0, name.find('_')));
  if (number && *number >= 0 && *number < kFirstStranger) {
    return static_cast<uint32_t>(*number);
  }
  if (const int64_t id = tensors_.id_of(name); id >= 0) {
    return static_cast<uint32_t>(id);
  }
  const auto [place, added] = strangers_.try_emplace(
      std::string(name),
      kFirstStranger + static_cast<uint32_t>(stranger_names_.size()));
  if (added) stranger_names_.emplace_back(name);
  return place->second;
}

std::string DproCommunication::name_of(uint32_t tensor) const {
  return tensor < kFirstStranger ? std::to_string(tensor)
                                 : stranger_names_[tensor - kFirstStranger];
}

void DproCommunication::take_end(const ChromeEvent& event, Row& row) {
  const auto end = parse_microseconds(event.start);
  if (row.open.empty() || !end) {
    ++report_.dropped[end ? "end without a begin" : "no usable time"];
    return;
  }
  const auto [name, start_ns] = std::move(row.open.back());
  row.open.pop_back();
  if (*end < start_ns) {
    ++report_.dropped["end before start"];
  } else {
    add_span(row, name, start_ns, *end);
  }
}

void DproCommunication::add_span(const Row& row, const std::string& name,
                                 int64_t start_ns, int64_t end_ns) {
  Span span{.step = operations_.step_at(start_ns),
            .tensor = row.tensor,
            .start_ns = start_ns,
            .end_ns = end_ns};
  if (row.synchronizes) {
    if (name.empty() || name.find("none") != name.npos) {
      ++report_.ignored["row that dPRO ignores"];
      return;
    }
    span.tensor = tensor_of(name);
    span.stage = DproStage::kNegotiation;
  } else if (const auto stage = stage_of(name)) {
    span.stage = *stage;
  } else {
    ++report_.ignored["activity that dPRO ignores"];
    return;
  }
  spans_.push_back(span);
}

Status DproCommunication::read_chunks(ByteSource& source) {
  const Result<bool> read = read_timeline(
      source, report_, [this](const ChromeEvent& event) { take_chunk(event); });
  if (!read) return pass(read.error());
  return {};
}

void DproCommunication::take_chunk(const ChromeEvent& event) {
  if (event.phase != 'X') return count_ignored(event, report_);
  const ChunkName& name = chunk_name(event.name);
  if (!name.wanted) {
    ++report_.ignored["chunk of an unknown name"];
    return;
  }
  TimelineSpan span;
  if (!read_span(event, report_, span)) return;
  Event chunk;
  chunk.rank = rank_;
  chunk.kind = EventKind::kAnnotation;
  chunk.name = name.name;
  chunk.step = operations_.step_at(span.start_ns);
  chunk.start_ns = chunk.enqueue_ns = span.start_ns;
  chunk.end_ns = span.end_ns;
  place_chunk(event, name.sends, chunk);
  spool_.add(chunk);
  widen(name.group, chunk.step, span);
}

const DproCommunication::ChunkName& DproCommunication::chunk_name(
    std::string_view token) {
  key_.assign(token);
  const auto [place, added] = chunk_names_.try_emplace(key_);
  ChunkName& found = place->second;
  if (!added) return found;
  const std::string whole = without_digest(json_unescaped(token));
  const std::string_view name = whole;
  const size_t first = name.find('.'), last = name.rfind('.');
  if (first == name.npos || first == last) return found;
  std::vector<uint32_t> tensors =
      dpro_tensor_ids(name.substr(first + 1, last - first - 1));
  const std::string_view side = name.substr(last + 1);
  found.sends = side == "SEND";
  found.wanted = !tensors.empty() && tensors.size() <= kMostTensors &&
                 (found.sends || side == "RECV");
  if (!found.wanted) return found;
  found.group = group_of(std::move(tensors));
  found.name =
      spool_.intern(fmt::format("Comm.{}.{}", groups_[found.group].name, side));
  return found;
}

/// The chunk's ring channel is its stream; its place in the ring an attribute.
void DproCommunication::place_chunk(const ChromeEvent& event, bool sends,
                                    Event& chunk) {
  constexpr std::array<std::string_view, 4> kKeys = {"loopId", "channelId",
                                                     "chunkId", "sliceId"};
  std::array<uint16_t, 4> values{};
  JsonScanner arguments(event.arguments);
  while (arguments.next()) {
    const auto key = std::find(kKeys.begin(), kKeys.end(), arguments.key());
    if (key == kKeys.end()) continue;
    const int64_t value = parse_integer(arguments.value()).value_or(0);
    values[static_cast<size_t>(key - kKeys.begin())] =
        static_cast<uint16_t>(std::clamp<int64_t>(value, 0, UINT16_MAX));
  }
  const auto [loop, channel, number, slice] = values;
  chunks_in_turn_ = std::max<uint32_t>(chunks_in_turn_, number + 1U);
  const uint64_t place = uint64_t{loop} << 48 | uint64_t{channel} << 32 |
                         uint64_t{number} << 16 | slice;
  auto known = places_.find(place);
  if (known == places_.end() && places_.size() < kMostPlaces) {
    const StringId text = spool_.intern(
        fmt::format(R"({{"loop":{},"channel":{},"chunk":{},"slice":{}}})", loop,
                    channel, number, slice));
    known = places_.emplace(place, static_cast<int32_t>(index_of(text))).first;
  }
  if (known != places_.end()) chunk.attributes = known->second;
  const uint64_t lane =
      channels_.size() < kMostChannels ? channel * 2ULL + sends : sends;
  chunk.stream = find_or_add(channels_, lane, [&] {
    return spool_.add_stream({.rank = rank_,
                              .name = fmt::format("channel {} {}", lane / 2,
                                                  sends ? "sends" : "receives"),
                              .kind = StreamKind::kTensor,
                              .number = static_cast<int64_t>(lane)});
  });
}

void DproCommunication::widen(uint32_t group, int32_t step,
                              const TimelineSpan& span) {
  int64_t& open = open_reduction_[group];
  if (open < 0 || reductions_[static_cast<size_t>(open)].step != step) {
    if (!has_room(group)) return;
    open = static_cast<int64_t>(reductions_.size());
    reductions_.push_back({.group = group, .step = step, .stages = {}});
    reductions_.back().stages.fill(kNowhere);
  }
  include(reductions_[static_cast<size_t>(open)]
              .stages[static_cast<size_t>(DproStage::kTransfer)],
          span.start_ns, span.end_ns);
}

bool DproCommunication::has_room(uint32_t group) {
  const size_t tensors = groups_[group].tensors.size();
  if (tensors > kMostMembers - members_) {
    ++report_.dropped["reduction beyond the largest number of one rank"];
    return false;
  }
  members_ += tensors;
  return true;
}

uint32_t DproCommunication::group_of(std::vector<uint32_t> tensors) {
  const auto [place, added] = group_places_.try_emplace(
      std::move(tensors), static_cast<uint32_t>(groups_.size()));
  if (!added) return place->second;
  Group group;
  group.tensors = place->first;
  for (const uint32_t tensor : group.tensors) {
    if (!group.name.empty()) group.name += '+';
    group.name += name_of(tensor);
  }
  groups_.push_back(std::move(group));
  open_reduction_.push_back(-1);
  return place->second;
}

void DproCommunication::note_joined() {
  joined_.clear();
  for (const DproReduction& reduction : reductions_) {
    for (const uint32_t tensor : groups_[reduction.group].tensors) {
      joined_.emplace_back(reduction.step, tensor);
    }
  }
  std::sort(joined_.begin(), joined_.end());
}

bool DproCommunication::is_joined(int32_t step, uint32_t tensor) const {
  return std::binary_search(joined_.begin(), joined_.end(),
                            std::pair(step, tensor));
}

void DproCommunication::add_reduction(std::vector<uint32_t> tensors,
                                      int32_t step, DproStage stage,
                                      const TimelineSpan& span) {
  std::sort(tensors.begin(), tensors.end());
  tensors.erase(std::unique(tensors.begin(), tensors.end()), tensors.end());
  const uint32_t group = group_of(std::move(tensors));
  if (!has_room(group)) return;
  DproReduction reduction{.group = group, .step = step, .stages = {}};
  reduction.stages.fill(kNowhere);
  reduction.stages[static_cast<size_t>(stage)] = span;
  reductions_.push_back(reduction);
}

/// Tensors of no group yet that did `stage` at the same time are one; the spans
/// are of one step.
void DproCommunication::join_rows_without_chunks(Spans::const_iterator first,
                                                 Spans::const_iterator last,
                                                 DproStage stage) {
  Spans open;
  for (; first != last; ++first) {
    if (first->stage == stage && !is_joined(first->step, first->tensor)) {
      open.push_back(*first);
    }
  }
  const auto times = [](const Span& span) {
    return std::pair(span.start_ns, span.end_ns);
  };
  std::sort(open.begin(), open.end(), [&](const Span& a, const Span& b) {
    return std::tuple(times(a), a.tensor) < std::tuple(times(b), b.tensor);
  });
  for (size_t at = 0; at < open.size();) {
    const Span& span = open[at];
    std::vector<uint32_t> tensors;
    for (; at < open.size() && times(open[at]) == times(span); ++at) {
      tensors.push_back(open[at].tensor);
    }
    add_reduction(std::move(tensors), span.step, stage,
                  {span.start_ns, span.end_ns});
  }
}

void DproCommunication::collect_stages(DproReduction& reduction) const {
  for (const uint32_t tensor : groups_[reduction.group].tensors) {
    const auto key = std::pair(reduction.step, tensor);
    auto span = std::lower_bound(spans_.begin(), spans_.end(), key,
                                 [](const Span& s, const auto& k) {
                                   return std::pair(s.step, s.tensor) < k;
                                 });
    for (; span != spans_.end() && std::pair(span->step, span->tensor) == key;
         ++span) {
      // Chunks say it better than rows.
      const bool known = span->stage == DproStage::kTransfer &&
                         reduction.has(DproStage::kTransfer);
      if (known) continue;
      include(reduction.stages[static_cast<size_t>(span->stage)],
              span->start_ns, span->end_ns);
    }
  }
}

void DproCommunication::finish() {
  std::stable_sort(spans_.begin(), spans_.end(),
                   [](const Span& a, const Span& b) {
                     return std::tie(a.step, a.tensor, a.start_ns) <
                            std::tie(b.step, b.tensor, b.start_ns);
                   });
  for (const DproStage stage :
       {DproStage::kTransfer, DproStage::kWhole, DproStage::kCopyIn,
        DproStage::kNegotiation, DproStage::kQueue, DproStage::kCopyOut}) {
    note_joined();
    for (auto first = spans_.cbegin(); first != spans_.cend();) {
      const auto last = std::find_if(
          first, spans_.cend(),
          [&](const Span& span) { return span.step != first->step; });
      join_rows_without_chunks(first, last, stage);
      first = last;
    }
  }
  for (DproReduction& reduction : reductions_) collect_stages(reduction);
  std::stable_sort(reductions_.begin(), reductions_.end(),
                   [](const DproReduction& a, const DproReduction& b) {
                     return std::pair(a.step, a.start_ns()) <
                            std::pair(b.step, b.start_ns());
                   });
}

}  // namespace reprise
