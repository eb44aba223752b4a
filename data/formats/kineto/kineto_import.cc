// One event at a time, by its category. Launches, device work and
// synchronizations keep the correlation ids that tie them; flow arrows, which
// say the same less exactly, are passed over. What stands at the end of the
// file (time base, process groups, rank, thread names) is filled in by
// `finish`. Cost: linear; a name or category is interpreted once.
#include "data/formats/kineto/kineto_import.h"

#include <fmt/ranges.h>

#include "data/formats/spool_tables.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"
#include "data/trace/epoch.h"

namespace reprise {
namespace {

constexpr size_t kMostDevices = 1024;
constexpr size_t kMostProcesses = 1024;

/// Of a file into which those of several ranks were merged.
std::string merged_text(const std::set<std::string, std::less<>>& processes) {
  constexpr size_t kShown = 4;
  std::vector<std::string> shown;
  for (const std::string& each : processes) {
    if (shown.size() < kShown) shown.push_back(each);
  }
  if (processes.size() > kShown) shown.emplace_back("…");
  return fmt::format(
      "{} processes of a job are in this one file ({}), and count as one rank: "
      "import the files that the ranks wrote.",
      processes.size(), fmt::join(shown, ", "));
}

/// A positive whole number, -1 for anything else: 0 is nobody's id.
int64_t id_of(std::string_view text) {
  const int64_t id = parse_integer(text).value_or(-1);
  return id > 0 ? id : -1;
}

}  // namespace

KinetoImport::KinetoImport(TraceSpool& spool, FileReport& report,
                           KinetoKept kept)
    : spool_(spool),
      report_(report),
      kept_(kept),
      rank_(add_unknown_rank(spool, "")),
      names_(spool),
      streams_(spool, rank_) {}

void KinetoImport::add(const ChromeEvent& source) {
  if (source.phase == 'X') return add_complete(source);
  if (source.phase == 'B' || source.phase == 'E') return add_half(source);
  add_other(source);
}

void KinetoImport::add_half(const ChromeEvent& source) {
  if (source.phase == 'B') {
    if (!halves_.begin(source)) ++report_.dropped["event begun too deep"];
    return;
  }
  const ChromeEvent* const whole = halves_.end(source);
  if (whole == nullptr) {
    ++report_.dropped["end of an event that did not begin"];
    return;
  }
  ignore(Ignored::kEnd);
  add_complete(*whole);
}

void KinetoImport::add_complete(const ChromeEvent& source) {
  KinetoCategory category = kineto_category(source.category);
  if (source.category.empty()) {
    category = autograd_category(source.process);
    autograd_ |= category != KinetoCategory::kNone;
  }
  if (category == KinetoCategory::kProfilerSpan) return ignore(Ignored::kSpan);
  if (category == KinetoCategory::kDeviceAnnotation)
    return ignore(Ignored::kDeviceAnnotation);
  if (category == KinetoCategory::kRepeated) return ignore(Ignored::kRepeated);
  if (category == KinetoCategory::kPythonFunction && !kept_.python_functions) {
    return ignore(Ignored::kPythonFunction);
  }
  if (category == KinetoCategory::kMtia || is_ascend(source)) {
    ++foreign_events_;
    return;
  }
  Event event;
  if (!times(source, event)) return;
  torch_ |= category != KinetoCategory::kNone;
  switch (category) {
    case KinetoCategory::kHostOp:
      note_host_op(source);
      note_operator_process(source.process);
      return add_host(source, event, EventKind::kHostOp);
    case KinetoCategory::kRuntime:
      return add_host(source, event, EventKind::kRuntime);
    case KinetoCategory::kAnnotation:
    case KinetoCategory::kPythonFunction:
      return add_host(source, event, EventKind::kAnnotation);
    case KinetoCategory::kOverhead:
      return add_host(source, event, EventKind::kOverhead);
    case KinetoCategory::kKernel:
      return add_device(source, event, EventKind::kCompute);
    case KinetoCategory::kCopy:
      return add_device(source, event, EventKind::kCopy);
    case KinetoCategory::kMemset:
      return add_device(source, event, EventKind::kMemset);
    case KinetoCategory::kSynchronization:
      return add_synchronization(source, event);
    default:
      return add_host(source, event, EventKind::kOther);
  }
}

void KinetoImport::add_other(const ChromeEvent& source) {
  switch (source.phase) {
    case 's':
    case 't':
    case 'f':
      return ignore(Ignored::kFlow);
    case 'M':
      if (source.name == "\"thread_name\"") streams_.name_thread(source);
      if (source.name == "\"process_name\"") note_process_name(source);
      return ignore(Ignored::kMetadata);
    case 'i':
    case 'I':
      return ignore(Ignored::kInstant);
    case 'C':
      return ignore(Ignored::kCounter);
    case 'b':
    case 'e':
    case 'n':
      ++report_.dropped["part of an asynchronous event"];
      return;
    default:
      ++report_.dropped["event without a known phase"];
  }
}

bool KinetoImport::times(const ChromeEvent& source, Event& event) {
  const auto start = parse_microseconds(source.start);
  const auto duration = parse_microseconds(source.duration);
  if (!start || !duration) {
    ++report_.dropped[start ? "no usable duration" : "no usable time"];
    return false;
  }
  if (*duration < 0) {
    ++report_.dropped["end before start"];
    return false;
  }
  event.rank = rank_;
  event.start_ns = event.enqueue_ns = *start;
  event.end_ns = *start + *duration;
  if (event.end_ns > kLargestTimeNs) {
    ++report_.dropped["no usable duration"];
    return false;
  }
  if (first_time_ns_ < 0) first_time_ns_ = *start;
  return true;
}

void KinetoImport::push(Event& event) {
  ++report_.events;
  report_.collectives += event.kind == EventKind::kCollective;
  spool_.add(event);
}

void KinetoImport::add_host(const ChromeEvent& source, Event& event,
                            EventKind kind) {
  const KinetoName& name = names_.of(source.name);
  event.kind = kind;
  event.name = name.id;
  event.stream = streams_.host(source);
  if (kind == EventKind::kRuntime) {
    event.correlation = id_of(source.correlation);
    // Up to torch 2.2 it repeats the correlation and says nothing.
    if (source.external_id != source.correlation) {
      event.external_id = id_of(source.external_id);
    }
    (name.hip ? hip_ : cuda_) = true;
    return push(event);
  }
  event.external_id = id_of(source.external_id);
  if (name.step >= 0 && kind != EventKind::kOther)
    mark_step(name.step, event.start_ns, event.end_ns);
  if (name.may_be_step && kind == EventKind::kAnnotation)
    note_step_range(spool_.text(name.id), event.start_ns, event.end_ns,
                    step_ranges_);
  if (name.keeps_arguments) {
    describe(source, name, event);
  } else if (kept_.shapes && kind == EventKind::kHostOp) {
    keep_shapes(source, event);
  }
  push(event);
}

void KinetoImport::add_device(const ChromeEvent& source, Event& event,
                              EventKind kind) {
  const KinetoName& name = kind == EventKind::kCompute
                               ? names_.of_kernel(source.name, source.arguments)
                               : names_.of(source.name);
  ++device_events_;
  event.kind = kind;
  event.name = name.id;
  event.stream = streams_.device(source);
  event.correlation = id_of(source.correlation);
  if (source.external_id != source.correlation) {
    event.external_id = id_of(source.external_id);
  }
  event.graph_node = id_of(source.graph_node);
  if (kind != EventKind::kCompute) {
    const int64_t bytes = parse_integer(source.bytes).value_or(0);
    event.bytes = bytes > 0 ? bytes : 0;
    return push(event);
  }
  ++report_.kernels;
  if (name.communicates) {
    event.kind = EventKind::kCollective;
    describe(source, name, event);
  }
  push(event);
}

void KinetoImport::add_synchronization(const ChromeEvent& source,
                                       Event& event) {
  event.kind = EventKind::kSynchronization;
  event.name = names_.of(source.name).id;
  event.stream = streams_.device(source);
  event.correlation = id_of(source.correlation);
  if (source.external_id != source.correlation) {
    event.external_id = id_of(source.external_id);
  }
  event.detail = spool_.add_synchronization(
      kineto_synchronization(kineto_details(source.arguments)));
  push(event);
}

/// Adds what the arguments of a telling event say.
void KinetoImport::describe(const ChromeEvent& source, const KinetoName& name,
                            Event& event) {
  const KinetoDetails details = kineto_details(source.arguments);
  if (name.keeps_arguments) {
    const std::string attributes = kineto_attributes(details);
    if (!attributes.empty()) {
      event.attributes =
          static_cast<int32_t>(index_of(spool_.intern(attributes)));
    }
  }
  if (!name.communicates && !name.describes_collective) return;
  if (name.host_collective) event.kind = EventKind::kCollective;
  const auto collective = kineto_collective(details, name.kind, groups_);
  if (!collective) return;
  addressed_groups_ += collective->group_is_address;
  event.sequence = collective->sequence;
  event.bytes = collective->bytes;
  nameless_ += event.kind == EventKind::kCollective &&
               collective->info.communicator.empty() &&
               collective->info.group.empty();
  if (collective->info != CollectiveInfo{}) {
    event.detail = spool_.add_collective(collective->info);
  }
}

void KinetoImport::keep_shapes(const ChromeEvent& source, Event& event) {
  const std::string shapes = kineto_shapes(kineto_details(source.arguments));
  if (shapes.empty()) return;
  event.attributes = static_cast<int32_t>(index_of(spool_.intern(shapes)));
}

void KinetoImport::mark_step(int32_t step, int64_t start_ns, int64_t end_ns) {
  if (!steps_.insert(step).second) return;
  ++report_.steps;
  spool_.add_step(
      {.rank = rank_, .step = step, .start_ns = start_ns, .end_ns = end_ns});
}

void KinetoImport::note_host_op(const ChromeEvent& event) {
  constexpr int kEnough = 64;
  if (noted_ >= kEnough) return;
  ++noted_;
  upper_case_ |= event.category == "\"Operator\"";
  fraction_ |= event.start.find('.') != event.start.npos;
  JsonScanner arguments(event.arguments);
  while (arguments.next()) {
    event_index_ |= arguments.key() == "Ev Idx";
    profiler_index_ |= arguments.key() == "Profiler Event Index";
  }
}

void KinetoImport::note_operator_process(std::string_view process) {
  if (process == last_process_ || operator_processes_.size() >= kMostProcesses)
    return;
  last_process_ = process;
  operator_processes_.insert(json_unescaped(process));
}

void KinetoImport::note_process_name(const ChromeEvent& row) {
  JsonScanner arguments(row.arguments);
  while (arguments.next()) {
    if (arguments.key() != "name") continue;
    const std::string name = json_unescaped(arguments.value());
    if (name.starts_with("rank ") && named_ranks_.size() < kMostProcesses)
      named_ranks_.insert(name);
    // Of torch_npu's trace_view.json, whose device work has no category.
    if (name == "Ascend Hardware") ascend_process_ = row.process;
  }
}

void KinetoImport::learn_device(std::string_view properties) {
  JsonScanner members(properties);
  int64_t id = static_cast<int64_t>(devices_.size());
  std::string name;
  while (members.next()) {
    if (members.key() == "id") id = id_of(members.value());
    if (members.key() == "name") name = json_unescaped(members.value());
    hip_ |= members.key() == "warpSize" && members.value() == "64";
  }
  if (devices_.size() < kMostDevices) {
    devices_.emplace_back(id < 0 ? 0 : id, std::move(name));
  }
}

void KinetoImport::add_member(std::string_view key, std::string_view value) {
  if (key == "distributedInfo") {
    groups_.learn(value);
  } else if (key == "deviceProperties") {
    JsonScanner devices(value);
    while (devices.next()) learn_device(devices.value());
  } else if (key == "baseTimeNanoseconds") {
    base_ns_ = parse_integer(value).value_or(-1);
  } else if (key == "host_name") {
    host_ = json_unescaped(value);
  } else if (key.starts_with("hip_") || key == "roctracer_version") {
    hip_ = true;
  } else if (key.ends_with("_version")) {
    spool_.set_environment(std::string(key), json_unescaped(value));
  }
  torch_ |= key == "schemaVersion" || key == "distributedInfo";
}

void KinetoImport::finish(bool bare_array) {
  streams_.finish();
  finish_rank();
  finish_report();
  report_.dialect = dialect(bare_array);
}

void KinetoImport::finish_rank() {
  if (steps_.empty()) {
    for (const StepRange& one : steps_among(step_ranges_))
      mark_step(static_cast<int32_t>(one.number), one.start_ns, one.end_ns);
  }
  RankInfo& rank = spool_.rank(rank_);
  if (groups_.rank() >= 0) rank.rank = static_cast<uint32_t>(groups_.rank());
  rank.host = host_;
  rank.process = streams_.first_process();
  const bool absolute = first_time_ns_ >= kEpochNs;
  if (!absolute && base_ns_ > 0 && base_ns_ <= kLargestTimeNs) {
    spool_.set_time_base(rank_, base_ns_);
    rank.clock_domain = "epoch";
  } else {
    rank.clock_domain = absolute ? "epoch" : "";
  }
  rank.device = device_events_ == 0 ? "cpu" : "";
  for (const auto& [id, name] : devices_) {
    if (id == streams_.first_device()) rank.device = name;
  }
  if (groups_.world_size() > 0) {
    spool_.set_environment("world_size", std::to_string(groups_.world_size()));
  }
  if (!groups_.backend().empty()) {
    spool_.set_environment("distributed_backend", groups_.backend());
  }
  if (nameless_ == 0) return;
  // Of Gloo's calls, whose groups are these.
  for (const auto& [name, ranks] : groups_.listed()) {
    spool_.add_collective({.communicator = name,
                           .group = ranks,
                           .group_size = static_cast<int64_t>(ranks.size())});
  }
}

void KinetoImport::finish_report() {
  constexpr std::array<const char*, static_cast<size_t>(Ignored::kCount)>
      kWords = {
          "flow arrow",      "metadata row",    "instant event",
          "counter",         "profiler's span", "device copy of an annotation",
          "Python function", "end of an event", "record of what a call did"};
  for (size_t i = 0; i < kWords.size(); ++i) {
    if (ignored_[i] > 0) report_.ignored[kWords[i]] += ignored_[i];
  }
  for (const auto* processes : {&operator_processes_, &named_ranks_}) {
    if (processes->size() < 2 || report_.events == 0) continue;
    report_.doubts.push_back(merged_text(*processes));
    break;
  }
  if (halves_.open() > 0) {
    report_.dropped["event that did not end"] +=
        static_cast<int64_t>(halves_.open());
  }
  if (autograd_) {
    report_.missing.push_back(
        "An export of torch.autograd.profiler, without steps, shapes, launches "
        "or collectives: for these record with torch.profiler.profile("
        "record_shapes=True, schedule=...) and export_chrome_trace.");
  }
  if (addressed_groups_ > 0) {
    report_.repaired
        ["process group told by an address, which no other rank knows: its "
         "collectives meet by operation, size, type, group size and order"] +=
        addressed_groups_;
  }
  if (foreign_events_ > 0) {
    const char* const device =
        ascend_process_.empty() ? "an MTIA accelerator" : "an Ascend NPU";
    report_.dropped[fmt::format("event of {}", device)] += foreign_events_;
    report_.missing.push_back(
        fmt::format("The work of {} is not understood: only the host's "
                    "operators and annotations were read.",
                    device));
  } else if (device_events_ == 0 && report_.events > 0) {
    report_.missing.push_back(
        "No device work (kernels, copies, memory sets) is recorded: only the "
        "host's side can be analysed.");
  }
}

std::string KinetoImport::platform() const {
  if (foreign_events_ > 0 && device_events_ == 0)
    return ascend_process_.empty() ? "mtia" : "ascend";
  if (hip_) return "rocm";
  return device_events_ > 0 || cuda_ ? "cuda" : "cpu";
}

std::string KinetoImport::dialect(bool bare_array) const {
  if (!torch_) return "chrome";
  if (autograd_) return fmt::format("autograd profiler {}", platform());
  const std::string_view years = bare_array        ? "2020"
                                 : upper_case_     ? "2021"
                                 : base_ns_ > 0    ? "2024-05+"
                                 : fraction_       ? "2024-04"
                                 : profiler_index_ ? "2022"
                                 : event_index_    ? "2022-11+"
                                                   : "kineto";
  return fmt::format("{} {}", years, platform());
}

}  // namespace reprise
