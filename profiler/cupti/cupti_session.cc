// Everything happens in CUPTI's own callbacks: a context that is made switches
// activity records on, a graph node that is made or cloned is named, and full
// buffers come back every 100 ms, asked for by the writer: CUPTI's own periodic
// flush may return only full ones (cupti_activity.h of CUDA 13). Records are
// stamped by the clock of the host's records where CUPTI allows that, else
// shifted by one reading of both.
#include "profiler/cupti/cupti_session.h"

#include <utility>

#include "profiler/cupti/cupti_calls.h"
#include "profiler/cupti/other_tool.h"

namespace reprise::cupti {
namespace {

/// A killed process loses at most what it did in this time, and a buffer a
/// thread in which a record is not complete.
constexpr int64_t kFlushPeriod_ns = 100'000'000;

constexpr std::array<uint32_t, 7> kDeviceKinds = {
    kConcurrentKernel, kMemcpy,    kMemcpyPeer, kMemset,
    kSynchronization,  kCudaEvent, kOverhead};

/// CUPTI's buffer callbacks have no user pointer.
std::atomic<Session*> the_session{nullptr};

}  // namespace

/// The clock of all records.
uint64_t Session::time() {
  return static_cast<uint64_t>(ProcessRecorder::now_ns());
}

Session* Session::start(const Hooks& hooks) {
  ProcessRecorder* recorder = hooks.recorder();
  if (recorder == nullptr) return nullptr;
  std::string why;
  std::optional<Library> library = open_library(&why);
  if (!library) {
    recorder->note("cupti", why);
    return nullptr;
  }
  std::unique_ptr<Session> session(new Session(hooks, std::move(*library)));
  if (!session->subscribe(*recorder)) return nullptr;
  the_session.store(session.get());
  session->set_up_activity(*recorder);
  session->set_up_callbacks();
  recorder->start_writer();
  return session.release();  // For the life of the process.
}

std::string Session::describe(Result result) const {
  const char* text = nullptr;
  if (library_.functions.get_result_string != nullptr) {
    library_.functions.get_result_string(result, &text);
  }
  return (text == nullptr ? "error" : std::string(text)) + " (" +
         std::to_string(result) + ")";
}

/// What CUPTI says to a subscription, and of another one's whose it is.
Result Session::ask(bool shares, std::string* holder) {
  const Functions& cupti = library_.functions;
  if (cupti.subscribe_v2 == nullptr)
    return cupti.subscribe(&subscriber_, on_callback, this);
  char name[64] = {};
  SubscriberParams params{.struct_size = shares ? sizeof(SubscriberParams)
                                                : kFirstSubscriberParamsBytes,
                          .name = "reprise",
                          .old_name = name,
                          .old_name_size = sizeof name,
                          .allows_others = static_cast<uint8_t>(shares ? 1 : 0),
                          .pad = {}};
  const Result result =
      cupti.subscribe_v2(&subscriber_, on_callback, this, &params);
  if (result == kInvalidParameter)  // Of a version that we do not know.
    return cupti.subscribe(&subscriber_, on_callback, this);
  name[sizeof name - 1] = '\0';
  *holder = name;
  return result;
}

bool Session::subscribe(ProcessRecorder& recorder) {
  const Functions& cupti = library_.functions;
  const Result known = cupti.get_version(&version_);
  const std::string which =
      "version " + std::to_string(version_) + ", " + library_.path;
  if (known != kSuccess) {  // That of CUDA 13.5 without a driver.
    recorder.note("cupti", library_.path + ": does not say its version, " +
                               describe(known) +
                               "; most often there is no driver");
    return false;
  }
  if (version_ < kOldestVersion) {
    recorder.note("cupti", which + ": not used, CUDA 12.0 or later is needed");
    return false;
  }
  std::string holder;
  Result result = ask(/*shares=*/false, &holder);
  const bool shares =
      result == kMultipleSubscribers && version_ >= kSharedSubscriptionVersion;
  if (shares) result = ask(/*shares=*/true, &holder);
  if (holder.empty()) holder = other_tool();
  if (holder.empty()) holder = "another tool";
  if (result == kSuccess) {
    recorder.note("cupti", shares ? which + ", shared with " + holder : which);
    return true;
  }
  if (result == kMultipleSubscribers) {
    recorder.note("cupti", which + ": held by " + holder +
                               ", so no device work is recorded; NVTX ranges "
                               "and NCCL's collectives are");
  } else {
    recorder.note(
        "cupti",
        which + ": cannot be subscribed to, " + describe(result) +
            (result == kUnknownError ? "; most often there is no driver" : ""));
  }
  return false;
}

/// Before the application makes a context, in the order that CUPTI asks for.
void Session::set_up_activity(ProcessRecorder& recorder) {
  const Functions& cupti = library_.functions;
  cupti.set_thread_id_type(kSystemThreadIds);
  if (cupti.enable_latency_timestamps != nullptr) {
    cupti.enable_latency_timestamps(0);
  }
  uint8_t is_zeroed = 1;
  size_t size = sizeof is_zeroed;
  cupti.set_attribute(kZeroedOutBuffers, &size, &is_zeroed);
  // Once in a process: a second registration corrupts records
  // (https://github.com/pytorch/pytorch/issues/192021).
  const bool has_clock = cupti.register_timestamp != nullptr &&
                         cupti.register_timestamp(time) == kSuccess;
  if (!has_clock) {
    uint64_t time = 0;
    cupti.get_timestamp(&time);
    shift_ns_ = ProcessRecorder::now_ns() - static_cast<int64_t>(time);
    recorder.note("cupti clock",
                  "its own, shifted by " + std::to_string(shift_ns_) + " ns");
  }
  decoder_ = std::make_unique<RecordDecoder>(cupti, version_, shift_ns_);
  const Result registered = cupti.register_callbacks(on_request, on_complete);
  if (registered != kSuccess) {
    recorder.note("cupti buffers", describe(registered));
  }
  if (cupti.enable_all_sync_records != nullptr) {
    cupti.enable_all_sync_records(0);
  }
}

void Session::set_up_callbacks() {
  const auto enable = [&](uint32_t domain, uint32_t id) {
    library_.functions.enable_callback(1, subscriber_, domain, id);
  };
  enable(kResource, kContextCreated);
  enable(kResource, kGraphNodeCreated);
  enable(kResource, kGraphNodeCloned);
  if (!hooks_.wants_profiler_range) return;
  enable(kRuntimeApi, kRuntimeProfilerStart);
  enable(kRuntimeApi, kRuntimeProfilerStop);
  enable(kDriverApi, kDriverProfilerStart);
  enable(kDriverApi, kDriverProfilerStop);
}

/// Refusals go to `refused`.
void Session::switch_kind(uint32_t kind, bool is_enabled,
                          std::string* refused) {
  const Functions& cupti = library_.functions;
  const Result result =
      is_enabled ? cupti.activity_enable(kind) : cupti.activity_disable(kind);
  if (is_enabled && result != kSuccess) {
    *refused += "kind " + std::to_string(kind) + ": " + describe(result) + "; ";
  }
}

void Session::switch_device(bool is_enabled, std::string* refused) {
  for (const uint32_t kind : kDeviceKinds)
    switch_kind(kind, is_enabled, refused);
}

void Session::switch_calls(bool is_enabled, std::string* refused) {
  const Functions& cupti = library_.functions;
  switch_kind(kExternalCorrelation, is_enabled, refused);
  const uint8_t flag = is_enabled ? 1 : 0;
  // An old library can only record all calls; the decoder leaves out others.
  if (cupti.enable_runtime_api == nullptr) {
    switch_kind(kRuntime, is_enabled, refused);
  } else {
    for (const uint32_t id : recorded_runtime_calls())
      cupti.enable_runtime_api(id, flag);
  }
  if (cupti.enable_driver_api == nullptr) {
    switch_kind(kDriver, is_enabled, refused);
  } else {
    for (const uint32_t id : recorded_driver_calls())
      cupti.enable_driver_api(id, flag);
  }
}

void Session::record(Recorded recorded) {
  const std::lock_guard lock(switch_mutex_);
  const Recorded before = recorded_.exchange(recorded);
  std::string refused;
  const bool had_calls = before != Recorded::kNothing;
  const bool has_calls = recorded != Recorded::kNothing;
  if (has_calls != had_calls) switch_calls(has_calls, &refused);
  const bool had_device = before == Recorded::kAll;
  const bool has_device = recorded == Recorded::kAll;
  if (has_device != had_device) switch_device(has_device, &refused);
  ProcessRecorder* recorder = hooks_.recorder();
  if (!has_switched_ && !refused.empty() && recorder != nullptr) {
    recorder->note("cupti refused", refused);
  }
  has_switched_ = has_switched_ || has_device;
  if (had_calls && !has_calls) wants_flush_.store(true);
}

/// Also while recording is off: what was launched before may end now.
void Session::flush_if_due() {
  const int64_t now = ProcessRecorder::now_ns();
  const bool is_last = is_last_.load();
  if (guest_.is_recording() && !is_last) return;
  if (!wants_flush_.exchange(false) && !is_last &&
      now - last_flush_ns_ < kFlushPeriod_ns) {
    return;
  }
  last_flush_ns_ = now;
  flush_all(0);
  // The first has brought what is whole, so that this one, which also brings
  // buffers still being written, finds little.
  if (is_last) flush_all(kFlushForced);
}

Result Session::flush_all(uint32_t flag) {
  const std::lock_guard lock(flush_mutex_);
  return library_.functions.flush_all(flag);
}

void Session::collect(ProcessRecorder& recorder) {
  const bool is_last = is_last_.load();
  flush_if_due();
  for (std::atomic<uint64_t>& place : contexts_) {
    const uint64_t context = place.load(std::memory_order_acquire);
    if (context == 0) break;
    decoder_->set_context_device(static_cast<uint32_t>(context >> 32),
                                 static_cast<uint32_t>(context) - 1);
  }
  decode_copies(recorder);
  ActivityBuffers::Full* full = buffers_.take_full();
  while (full != nullptr) {
    ActivityBuffers::Full* next = full->next;
    decoder_->decode(full->bytes, full->valid_bytes, /*is_copy=*/false,
                     recorder);
    buffers_.recycle(full);
    full = next;
  }
  decoder_->end_batch(is_last, recorder);
  recorder.count_lost("cupti dropped", dropped_.exchange(0));
}

void Session::flush(bool is_last) {
  if (is_last) is_last_.store(true);
  wants_flush_.store(true);
}

void Session::push_unit(int64_t unit) {
  library_.functions.push_external(kCustomCorrelation,
                                   static_cast<uint64_t>(unit));
}

void Session::pop_unit() {
  uint64_t last = 0;
  library_.functions.pop_external(kCustomCorrelation, &last);
}

void Session::on_request(uint8_t** buffer, size_t* size, size_t* most_records) {
  Session* session = the_session.load();
  if (session != nullptr) {
    *buffer = session->guest_.request(size, most_records);
    if (*buffer != nullptr) return;
  }
  *buffer = session == nullptr ? nullptr : session->buffers_.request();
  *size = *buffer == nullptr ? 0 : ActivityBuffers::kBufferBytes;
  *most_records = 0;  // As many as fit.
}

void Session::on_complete(void* context, uint32_t stream, uint8_t* buffer,
                          size_t size, size_t valid_size) {
  Session* session = the_session.load();
  if (session == nullptr) return;
  if (session->guest_.was_here() && !session->buffers_.owns(buffer)) {
    if (session->recorded_.load() == Recorded::kAll)
      session->keep_copy(buffer, valid_size);
    session->guest_clock_.move(session->library_.functions, session->version_,
                               session->shift_ns_, buffer, valid_size);
    session->guest_.complete(context, stream, buffer, size, valid_size);
    return;
  }
  size_t dropped = 0;
  if (session->library_.functions.dropped_records(context, stream, &dropped) ==
      kSuccess) {
    session->dropped_.fetch_add(dropped);
  }
  session->buffers_.complete(buffer, valid_size);
  ProcessRecorder* recorder = session->hooks_.recorder();
  if (recorder != nullptr) recorder->wake();
}

void Session::on_callback(void* user, uint32_t domain, uint32_t id,
                          const void* data) {
  auto* session = static_cast<Session*>(user);
  if (session == nullptr || data == nullptr) return;
  session->guest_subscriber_.call(domain, id, data);
  if (domain == kRuntimeApi || domain == kDriverApi) {
    return session->on_api(domain == kRuntimeApi, id,
                           *static_cast<const ApiCallback*>(data));
  }
  if (domain != kResource) return;
  const auto& resource = *static_cast<const ResourceData*>(data);
  if (id == kContextCreated) return session->on_context(resource.context);
  if (id != kGraphNodeCreated && id != kGraphNodeCloned) return;
  if (resource.descriptor == nullptr) return;
  session->on_graph_node(id == kGraphNodeCloned,
                         *static_cast<const GraphData*>(resource.descriptor));
}

void Session::on_graph_node(bool is_clone, const GraphData& graph) {
  ProcessRecorder* recorder = hooks_.recorder();
  const auto get_id = library_.functions.get_graph_node_id;
  uint64_t node = 0, original = 0;
  if (recorder == nullptr || get_id == nullptr ||
      get_id(graph.node, &node) != kSuccess) {
    return;
  }
  ProcessRecord record;
  record.kind = RecordKind::kGraphNode;
  record.start_ns = record.end_ns = ProcessRecorder::now_ns();
  record.stream = ProcessRecorder::thread_id();
  record.graph_node = static_cast<int64_t>(node);
  if (is_clone) {
    if (get_id(graph.original_node, &original) != kSuccess) return;
    record.sequence = static_cast<int64_t>(original);
  } else {
    record.external_id = hooks_.active_unit();
    record.name = hooks_.active_range();
  }
  recorder->record(record);
}

void Session::on_context(void* context) {
  hooks_.context_made();
  const Functions& cupti = library_.functions;
  uint32_t id = 0, device = 0;
  if (cupti.get_context_id == nullptr || cupti.get_device_id == nullptr ||
      cupti.get_context_id(context, &id) != kSuccess ||
      cupti.get_device_id(context, &device) != kSuccess) {
    return;
  }
  const uint64_t known = uint64_t{id} << 32 | (device + 1);
  for (std::atomic<uint64_t>& place : contexts_) {
    uint64_t none = 0;
    if (place.compare_exchange_strong(none, known)) return;
  }
}

void Session::on_api(bool is_runtime, uint32_t id, const ApiCallback& call) {
  if (is_profiler_start(is_runtime, id) && call.site == kApiEnter) {
    hooks_.profiler_range(true);
  }
  if (is_profiler_stop(is_runtime, id) && call.site == kApiExit) {
    hooks_.profiler_range(false);
  }
}

}  // namespace reprise::cupti
