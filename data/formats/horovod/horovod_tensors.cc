// Ends have no names: an end closes what began last on its row. Type and shape
// stand at the end of the outermost activity, so the activities within one wait
// for it and become events together. When each rank was ready stands within a
// negotiation as marks that carry the rank's number. Source: Horovod,
// horovod/common/timeline.cc.
#include "data/formats/horovod/horovod_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/collective/collective_names.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"

namespace reprise {
namespace {

/// Activities nest five deep at most; a file may claim more.
constexpr size_t kDeepest = 64;
/// Closed activities that wait for their outermost one to end.
constexpr size_t kMostClosed = 4096;
constexpr uint32_t kMostRanks = 1 << 16;
/// Larger groups are given by their size alone.
constexpr size_t kMostListed = 1024;
constexpr std::string_view kNegotiation = "NEGOTIATE_";

/// Whether the activity is a library's communication, not Horovod's own work.
bool communicates(std::string_view activity) {
  constexpr std::array<std::string_view, 6> kLibraries = {
      "NCCL_", "MPI_", "GLOO_", "CCL_", "DDL_", "MLSL_"};
  return std::any_of(kLibraries.begin(), kLibraries.end(),
                     [&](std::string_view library) {
                       return activity.starts_with(library);
                     }) &&
         collective_named(activity) != CollectiveKind::kUnknown;
}

}  // namespace

HorovodTensors::HorovodTensors(TraceSpool& spool, FileReport& report,
                               uint32_t rank)
    : spool_(spool), report_(report), rank_(rank), transfers_(spool, report) {}

void HorovodTensors::take(const ChromeEvent& event) {
  if (event.phase == 'M') return take_metadata(event);
  if (event.phase == 'i' || event.phase == 'I') return take_instant(event);
  if (event.phase != 'B' && event.phase != 'E' && event.phase != 'X') {
    return count_ignored(event, report_);
  }
  key_.assign(event.process);
  Tensor& tensor = tensors_[key_];
  if (event.phase == 'B') return take_begin(event, tensor);
  if (event.phase == 'E') return take_end(event, tensor);
  take_complete(event, tensor);
}

void HorovodTensors::take_metadata(const ChromeEvent& event) {
  ++report_.ignored["metadata row"];
  if (event.name != "\"process_name\"") return;
  const std::string_view base =
      timeline_argument(event, "start_time_since_epoch_in_micros");
  if (const auto base_ns = parse_microseconds(base); base_ns && *base_ns > 0) {
    spool_.set_time_base(rank_, *base_ns);
    spool_.rank(rank_).clock_domain = "epoch";
    return;
  }
  const std::string name = json_unescaped(timeline_argument(event, "name"));
  Tensor& tensor = tensors_[std::string(event.process)];
  tensor.name = name;
  if (tensor.stream != UINT32_MAX) spool_.stream(tensor.stream).name = name;
}

uint32_t HorovodTensors::stream_of(Tensor& tensor) {
  if (tensor.stream == UINT32_MAX) {
    tensor.stream = spool_.add_stream(
        {.rank = rank_, .name = tensor.name, .kind = StreamKind::kTensor});
  }
  return tensor.stream;
}

void HorovodTensors::take_begin(const ChromeEvent& event, Tensor& tensor) {
  const auto start = parse_microseconds(event.start);
  if (!start || tensor.open.size() == kDeepest) {
    ++report_.dropped[start ? "nested too deep" : "no usable time"];
    return;
  }
  tensor.open.push_back({.name = json_unescaped(event.name),
                         .start_ns = *start,
                         .end_ns = *start,
                         .depth = tensor.open.size(),
                         .ready = {}});
}

/// An end has no name: it ends what began last.
void HorovodTensors::take_end(const ChromeEvent& event, Tensor& tensor) {
  const auto end = parse_microseconds(event.start);
  if (tensor.open.empty() || !end) {
    ++report_.dropped[end ? "end without a begin" : "no usable time"];
    return;
  }
  Activity activity = std::move(tensor.open.back());
  tensor.open.pop_back();
  if (*end < activity.start_ns) {
    ++report_.dropped["end before start"];
    return;
  }
  activity.end_ns = *end;
  tensor.closed.push_back(std::move(activity));
  if (tensor.open.empty()) {
    finish_outermost(tensor, &event);
  } else if (tensor.closed.size() > kMostClosed) {
    finish_outermost(tensor, nullptr);
  }
}

/// Within a negotiation: a rank, by number, that became ready.
void HorovodTensors::take_complete(const ChromeEvent& event, Tensor& tensor) {
  TimelineSpan span;
  const auto rank = parse_integer(unquoted(event.name));
  if (rank && *rank >= 0 && *rank < kMostRanks) {
    const auto start = parse_microseconds(event.start);
    const bool negotiates = !tensor.open.empty() &&
                            tensor.open.back().name.starts_with(kNegotiation);
    if (!start || !negotiates ||
        tensor.open.back().ready.size() == kMostRanks) {
      ++report_.dropped["rank ready outside a negotiation"];
      return;
    }
    tensor.open.back().ready.emplace_back(static_cast<uint32_t>(*rank), *start);
    ranks_.insert(static_cast<uint32_t>(*rank));
    ++report_.ignored["rank that became ready (kept with its negotiation)"];
  } else if (read_span(event, report_, span)) {
    add(tensor, {json_unescaped(event.name), span.start_ns, span.end_ns, 0, {}},
        EventKind::kAnnotation, {}, 0);
  }
}

void HorovodTensors::take_instant(const ChromeEvent& event) {
  const auto start = parse_microseconds(event.start);
  if (event.name != "\"CYCLE_START\"" || !start) {
    return count_ignored(event, report_);
  }
  if (cycles_ == UINT32_MAX) {
    cycles_ = spool_.add_stream(
        {.rank = rank_, .name = "cycles", .kind = StreamKind::kTensor});
  }
  Event mark;
  mark.rank = rank_;
  mark.stream = cycles_;
  mark.kind = EventKind::kAnnotation;
  mark.name = spool_.intern("CYCLE_START");
  mark.start_ns = mark.end_ns = mark.enqueue_ns = *start;
  spool_.add(mark);
}

/// {"ready_ns":{"0":0,"2":1200}}: when each rank was ready, after the
/// negotiation began.
std::string HorovodTensors::ready_attributes(
    const Activity& negotiation) const {
  if (negotiation.ready.empty()) return {};
  std::vector<std::pair<uint32_t, int64_t>> ready = negotiation.ready;
  std::sort(ready.begin(), ready.end());
  std::string text;
  for (size_t i = 0; i < ready.size(); ++i) {
    const auto& [rank, time_ns] = ready[i];
    if (i > 0 && rank == ready[i - 1].first) continue;  // Ready twice.
    text += fmt::format(R"({}"{}":{})", text.empty() ? "" : ",", rank,
                        time_ns - negotiation.start_ns);
  }
  return fmt::format(R"({{"ready_ns":{{{}}}}})", text);
}

/// The outermost activity ended (or holds too much): what is in it becomes
/// events. Type and shape stand at its end.
void HorovodTensors::finish_outermost(Tensor& tensor, const ChromeEvent* end) {
  CollectiveInfo info;
  int64_t bytes = 0;
  if (end != nullptr) {
    info.type =
        element_type_named(json_unescaped(timeline_argument(*end, "dtype")));
    info.input_elements =
        elements_of_shape(json_unescaped(timeline_argument(*end, "shape")));
    const int64_t size = element_bytes(info.type);
    if (info.input_elements < 0 ||
        __builtin_mul_overflow(info.input_elements, size, &bytes)) {
      bytes = 0;
    }
  }
  const bool finer = std::any_of(
      tensor.closed.begin(), tensor.closed.end(),
      [](const Activity& activity) { return communicates(activity.name); });
  for (const Activity& activity : tensor.closed) {
    const std::string_view name = activity.name;
    info.kind = collective_named(name);
    const bool whole = activity.depth == 0 && !finer &&
                       !name.starts_with(kNegotiation) &&
                       info.kind != CollectiveKind::kUnknown;
    const bool copies = name.starts_with("MEMCPY");
    const EventKind kind = communicates(name) || whole ? EventKind::kCollective
                           : copies                    ? EventKind::kCopy
                                                       : EventKind::kAnnotation;
    add(tensor, activity, kind, info, bytes);
  }
  tensor.closed.clear();
}

CollectiveInfo HorovodTensors::signature_of(CollectiveInfo info) const {
  info.communicator = "horovod";
  if (info.kind == CollectiveKind::kAllReduce) {
    info.output_elements = info.input_elements;
  }
  // A negotiation ends when all ranks are ready: their number is known.
  if (!ranks_.empty()) info.group_size = world_size();
  if (ranks_.size() <= kMostListed) {
    info.group.assign(ranks_.begin(), ranks_.end());
  }
  return info;
}

void HorovodTensors::add(Tensor& tensor, const Activity& activity,
                         EventKind kind, const CollectiveInfo& info,
                         int64_t bytes) {
  Event event;
  event.rank = rank_;
  event.stream = stream_of(tensor);
  event.kind = kind;
  event.name = spool_.intern(activity.name);
  event.start_ns = event.enqueue_ns = activity.start_ns;
  event.end_ns = activity.end_ns;
  if (kind != EventKind::kAnnotation) event.bytes = bytes;
  if (kind == EventKind::kCollective) {
    return transfers_.take(event, signature_of(info));
  }
  if (const std::string ready = ready_attributes(activity); !ready.empty()) {
    event.attributes = static_cast<int32_t>(index_of(spool_.intern(ready)));
  }
  spool_.add(event);
}

void HorovodTensors::finish() {
  for (auto& [process, tensor] : tensors_) {
    if (!tensor.open.empty()) {
      report_.dropped["begin without an end"] +=
          static_cast<int64_t>(tensor.open.size());
    }
    tensor.open.clear();
    finish_outermost(tensor, nullptr);
  }
  transfers_.finish();
}

}  // namespace reprise
