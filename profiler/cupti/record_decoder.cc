// What a record refers to may come later: a runtime call and the driver calls
// within it share a correlation id and arrive apart, so a thread's last driver
// call is held back until the runtime call around it is known or a second has
// passed. Maps of what may still be asked for forget their older half when they
// are full, so memory is bounded. Source: cupti_activity.h of CUDA.
#include "profiler/cupti/record_decoder.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <span>

#include "profiler/cupti/cupti_calls.h"

namespace reprise::cupti {
namespace {

/// Waits that are kept for an event; beyond, they go without it.
constexpr size_t kMaximumWaits = size_t{1} << 14;
/// How long a thread's last driver call waits for a runtime call around it:
/// CUPTI hands over a thread's records every 100 ms.
constexpr int64_t kHoldNs = 1'000'000'000;
constexpr size_t kMaximumKernelInfos = size_t{1} << 16;

/// By CUpti_ActivityMemcpyKind.
constexpr std::array<std::string_view, 11> kCopyKinds = {
    "",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
    "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
/// By CUpti_ActivityMemoryKind.
constexpr std::array<std::string_view, 8> kMemoryKinds = {
    "",      "pageable", "pinned",        "device",
    "array", "managed",  "device static", "managed static"};
/// By CUpti_ActivitySynchronizationType.
constexpr std::array<std::string_view, 5> kSynchronizations = {
    "", "event", "stream-wait", "stream", "device"};
constexpr std::array<std::string_view, 5> kSynchronizationNames = {
    "Synchronization", "Event Sync", "Stream Wait Event", "Stream Sync",
    "Context Sync"};
/// By CUpti_ActivityOverheadKind >> 16; 0 is the driver's compiler or unknown.
constexpr std::array<std::string_view, 9> kOverheads = {
    "Driver Compiler",
    "Activity Buffer Flush",
    "Instrumentation",
    "Resource",
    "Runtime Triggered Module Loading",
    "Lazy Function Loading",
    "Command Buffer Full",
    "Activity Buffer Request",
    "UVM Activity Init"};

template <size_t N>
std::string_view word(const std::array<std::string_view, N>& words,
                      size_t number) {
  return number < N ? words[number] : std::string_view();
}

int64_t id_or_none(uint32_t id) { return id == kNoId ? -1 : int64_t{id}; }

/// Without the version and the kind of stream: "cudaLaunchKernel" of
/// "cudaLaunchKernel_ptsz_v7000". The driver's "_v2" is part of a name.
std::string_view call_word(std::string_view name, bool is_runtime) {
  if (is_runtime) name = name.substr(0, name.rfind("_v"));
  for (const std::string_view kind : {"_ptsz", "_ptds"}) {
    if (name.ends_with(kind)) name.remove_suffix(kind.size());
  }
  return name;
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : name;
}

void add_number(std::string* json, std::string_view before, int64_t value) {
  json->append(before).append(std::to_string(value));
}

void add_triple(std::string* json, std::string_view key,
                std::span<const int64_t> sizes) {
  json->append(key);
  add_number(json, "[", sizes[0]);
  add_number(json, ",", sizes[1]);
  add_number(json, ",", sizes[2]);
  json->append("]");
}

std::string copy_info(std::string_view kind, uint8_t source, uint8_t target) {
  std::string json = R"({"kind":")";
  json.append(kind).append(R"(","source":")");
  json.append(word(kMemoryKinds, source)).append(R"(","target":")");
  json.append(word(kMemoryKinds, target)).append(R"("})");
  return json;
}

}  // namespace

RecordDecoder::RecordDecoder(const Functions& functions, uint32_t version,
                             int64_t shift_ns)
    : functions_(functions), version_(version), shift_ns_(shift_ns) {}

void RecordDecoder::decode(uint8_t* buffer, size_t valid_bytes, bool is_copy,
                           ProcessRecorder& recorder) {
  is_copy_ = is_copy;
  void* record = nullptr;
  while (functions_.next_record(buffer, valid_bytes, &record) == kSuccess &&
         record != nullptr) {
    decode_one(record, recorder);
  }
}

void RecordDecoder::decode_one(const void* record, ProcessRecorder& recorder) {
  switch (*static_cast<const uint32_t*>(record)) {
    case kConcurrentKernel:
      return add_kernel(*static_cast<const KernelRecord*>(record), recorder);
    case kMemcpy:
      return add_copy(*static_cast<const CopyRecord*>(record), recorder);
    case kMemcpyPeer:
      return add_peer_copy(*static_cast<const PeerCopyRecord*>(record),
                           recorder);
    case kMemset:
      return add_memset(*static_cast<const MemsetRecord*>(record), recorder);
    case kRuntime:
    case kDriver:
      return add_call(*static_cast<const ApiRecord*>(record), recorder);
    case kExternalCorrelation:
      return add_external(*static_cast<const ExternalRecord*>(record),
                          recorder);
    case kCudaEvent:
      return add_event(*static_cast<const EventRecord*>(record));
    case kSynchronization:
      return add_synchronization(
          *static_cast<const SynchronizationRecord*>(record), recorder);
    case kOverhead:
      return add_overhead(*static_cast<const OverheadRecord*>(record),
                          recorder);
    default:
      if (!is_copy_) recorder.count_lost("cupti record of another kind", 1);
  }
}

void RecordDecoder::emit(ProcessRecord record, uint64_t start, uint64_t end,
                         ProcessRecorder& recorder) {
  if (start == 0 && end == 0) return recorder.count_lost("no timestamp", 1);
  if (start == 0 || end == 0) return recorder.count_lost("incomplete", 1);
  if (end < start) return recorder.count_lost("end before start", 1);
  record.start_ns = static_cast<int64_t>(start) + shift_ns_;
  record.end_ns = static_cast<int64_t>(end) + shift_ns_;
  recorder.record(record);
}

template <typename Work>
ProcessRecord RecordDecoder::device_record(RecordKind kind, const Work& work) {
  set_context_device(work.context, work.device);
  ProcessRecord record;
  record.kind = kind;
  record.device = static_cast<int32_t>(work.device);
  record.stream = id_or_none(work.stream);
  record.correlation = work.correlation;
  if (work.graph_node != 0) {
    record.graph_node = static_cast<int64_t>(work.graph_node);
  }
  const int64_t* unit = external_of_correlation_.find(work.correlation);
  // All nodes of a graph have the correlation of its launch, which is under
  // the unit of the launch, not under theirs.
  if (unit != nullptr && work.graph_node == 0) record.external_id = *unit;
  return record;
}

void RecordDecoder::add_kernel(const KernelRecord& kernel,
                               ProcessRecorder& recorder) {
  ProcessRecord record = device_record(RecordKind::kKernel, kernel);
  record.name = kernel_name(kernel.name, recorder);
  record.info = kernel_info(kernel, recorder);
  emit(record, kernel.start, kernel.end, recorder);
}

uint32_t RecordDecoder::kernel_name(const char* mangled,
                                    ProcessRecorder& recorder) {
  if (mangled == nullptr) return 0;
  const auto [place, is_new] = kernel_names_.try_emplace(mangled, 0);
  if (is_new) place->second = recorder.string_id(demangled(mangled));
  return place->second;
}

uint32_t RecordDecoder::kernel_info(const KernelRecord& kernel,
                                    ProcessRecorder& recorder) {
  const KernelShape shape = {kernel.grid[0],
                             kernel.grid[1],
                             kernel.grid[2],
                             kernel.block[0],
                             kernel.block[1],
                             kernel.block[2],
                             kernel.registers,
                             kernel.static_shared_bytes,
                             kernel.dynamic_shared_bytes};
  if (kernel_infos_.size() >= kMaximumKernelInfos) kernel_infos_.clear();
  const auto [place, is_new] = kernel_infos_.try_emplace(shape, 0);
  if (!is_new) return place->second;
  const std::span<const int64_t> sizes = shape;
  std::string json;
  add_triple(&json, R"({"grid":)", sizes.first(3));
  add_triple(&json, R"(,"block":)", sizes.subspan(3, 3));
  add_number(&json, R"(,"registers":)", sizes[6]);
  add_number(&json, R"(,"static_shared_bytes":)", sizes[7]);
  add_number(&json, R"(,"dynamic_shared_bytes":)", sizes[8]);
  return place->second = recorder.string_id(json.append("}"));
}

void RecordDecoder::add_copy(const CopyRecord& copy,
                             ProcessRecorder& recorder) {
  ProcessRecord record = device_record(RecordKind::kCopy, copy);
  const std::string_view kind = word(kCopyKinds, copy.copy_kind);
  record.bytes = static_cast<int64_t>(copy.bytes);
  record.name = recorder.string_id(std::string("Memcpy ").append(kind));
  record.info =
      recorder.string_id(copy_info(kind, copy.source_kind, copy.target_kind));
  emit(record, copy.start, copy.end, recorder);
}

void RecordDecoder::add_peer_copy(const PeerCopyRecord& copy,
                                  ProcessRecorder& recorder) {
  ProcessRecord record = device_record(RecordKind::kCopy, copy);
  record.bytes = static_cast<int64_t>(copy.bytes);
  record.name = recorder.string_id("Memcpy PtoP");
  std::string info = R"({"kind":"PtoP")";
  add_number(&info, R"(,"source_device":)", copy.source_device);
  add_number(&info, R"(,"target_device":)", copy.target_device);
  record.info = recorder.string_id(info.append("}"));
  emit(record, copy.start, copy.end, recorder);
}

void RecordDecoder::add_memset(const MemsetRecord& set,
                               ProcessRecorder& recorder) {
  ProcessRecord record = device_record(RecordKind::kMemset, set);
  record.bytes = static_cast<int64_t>(set.bytes);
  record.name = recorder.string_id("Memset");
  emit(record, set.start, set.end, recorder);
}

uint32_t RecordDecoder::call_name(bool is_runtime, uint32_t id,
                                  ProcessRecorder& recorder) {
  const auto [place, is_new] =
      call_names_.try_emplace(uint64_t{is_runtime} << 32 | id, 0);
  if (!is_new) return place->second;
  const char* name = nullptr;
  const uint32_t domain = is_runtime ? kRuntimeApi : kDriverApi;
  if (functions_.get_callback_name(domain, id, &name) == kSuccess &&
      name != nullptr) {
    place->second = recorder.string_id(call_word(name, is_runtime));
  }
  return place->second;
}

void RecordDecoder::add_call(const ApiRecord& call, ProcessRecorder& recorder) {
  const bool is_runtime = call.kind == kRuntime;
  if (!is_recorded_call(is_runtime, call.callback)) return;
  // A call's record is written when it returns, so the driver's, made by the
  // runtime's, comes first. Of the two, the one that the program made stays.
  const auto held = held_calls_.find(call.thread);
  if (held != held_calls_.end()) {
    if (!is_runtime || held->second.call.correlation != call.correlation) {
      add_call_record(held->second.call, recorder);
    }
    held_calls_.erase(held);
  }
  if (!is_runtime) {
    held_calls_[call.thread] = {.call = call,
                                .since_ns = ProcessRecorder::now_ns()};
  } else {
    add_call_record(call, recorder);
  }
}

void RecordDecoder::add_call_record(const ApiRecord& call,
                                    ProcessRecorder& recorder) {
  const bool is_runtime = call.kind == kRuntime;
  ProcessRecord record;
  record.kind = is_graph_launch(is_runtime, call.callback)
                    ? RecordKind::kGraphLaunch
                    : RecordKind::kCall;
  record.correlation = call.correlation;
  record.stream = call.thread;
  record.name = call_name(is_runtime, call.callback, recorder);
  const int64_t* unit = external_of_correlation_.find(call.correlation);
  if (unit != nullptr) record.external_id = *unit;
  emit(record, call.start, call.end, recorder);
}

void RecordDecoder::emit_held_calls(bool is_last, ProcessRecorder& recorder) {
  const int64_t before_ns = ProcessRecorder::now_ns() - kHoldNs;
  std::erase_if(held_calls_, [&](const auto& held) {
    if (!is_last && held.second.since_ns > before_ns) return false;
    add_call_record(held.second.call, recorder);
    return true;
  });
}

void RecordDecoder::add_external(const ExternalRecord& external,
                                 ProcessRecorder& recorder) {
  if (external.external_kind != kCustomCorrelation) return;
  ProcessRecord record;
  record.kind = RecordKind::kExternal;
  record.correlation = external.correlation;
  record.external_id = static_cast<int64_t>(external.external_id);
  external_of_correlation_.set(external.correlation, record.external_id);
  recorder.record(record);
}

void RecordDecoder::add_event(const EventRecord& event) {
  const RecordedEvent recorded = {.correlation = event.correlation,
                                  .stream = event.stream};
  // Before 12.8 an event is known by its context and id alone: the latest
  // recording counts.
  events_.set(version_ >= kEventSyncIdVersion
                  ? event.sync_id
                  : uint64_t{event.context} << 32 | event.event,
              recorded);
}

void RecordDecoder::add_synchronization(
    const SynchronizationRecord& synchronization, ProcessRecorder& recorder) {
  Wait wait;
  wait.type = synchronization.type;
  ProcessRecord& record = wait.record;
  record.kind = RecordKind::kSynchronization;
  record.correlation = synchronization.correlation;
  record.stream = id_or_none(synchronization.stream);
  const auto device = device_of_context_.find(synchronization.context);
  if (device != device_of_context_.end()) {
    record.device = static_cast<int32_t>(device->second);
  }
  record.name = recorder.string_id(
      word(kSynchronizationNames, wait.type < 5 ? wait.type : 0));
  record.start_ns = static_cast<int64_t>(synchronization.start);
  record.end_ns = static_cast<int64_t>(synchronization.end);
  const bool has_event =
      synchronization.event != kNoId && (wait.type == 1 || wait.type == 2);
  if (!has_event) return emit_wait(wait, recorder);
  wait.event_key =
      version_ >= kEventSyncIdVersion
          ? synchronization.sync_id
          : uint64_t{synchronization.context} << 32 | synchronization.event;
  record.sequence = static_cast<int64_t>(wait.event_key);
  if (events_.find(wait.event_key) != nullptr ||
      waits_.size() >= kMaximumWaits) {
    return emit_wait(wait, recorder);
  }
  waits_.push_back(wait);
}

void RecordDecoder::emit_wait(const Wait& wait, ProcessRecorder& recorder) {
  ProcessRecord record = wait.record;
  std::string json = R"({"kind":")";
  json.append(word(kSynchronizations, wait.type)).append("\"");
  const RecordedEvent* event =
      record.sequence < 0 ? nullptr : events_.find(wait.event_key);
  if (event != nullptr) {
    add_number(&json, R"(,"waited_stream":)", id_or_none(event->stream));
    add_number(&json, R"(,"waited_correlation":)", event->correlation);
  }
  record.info = recorder.string_id(json.append("}"));
  emit(record, static_cast<uint64_t>(wait.record.start_ns),
       static_cast<uint64_t>(wait.record.end_ns), recorder);
}

void RecordDecoder::add_overhead(const OverheadRecord& overhead,
                                 ProcessRecorder& recorder) {
  if (version_ >= kOverheadDataVersion && !is_copy_) std::free(overhead.data);
  ProcessRecord record;
  record.kind = RecordKind::kOverhead;
  if (overhead.object_kind == kThreadObject) record.stream = overhead.object[1];
  record.name =
      recorder.string_id(word(kOverheads, overhead.overhead_kind >> 16));
  emit(record, overhead.start, overhead.end, recorder);
}

void RecordDecoder::end_batch(bool is_last, ProcessRecorder& recorder) {
  emit_held_calls(is_last, recorder);
  const auto is_done = [&](const Wait& wait) {
    if (!is_last && events_.find(wait.event_key) == nullptr) return false;
    emit_wait(wait, recorder);
    return true;
  };
  std::erase_if(waits_, is_done);
}

void RecordDecoder::set_context_device(uint32_t context, uint32_t device) {
  device_of_context_[context] = device;
}

}  // namespace reprise::cupti
