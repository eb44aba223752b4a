#include "profiler/nccl/session.h"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

namespace reprise {
namespace {

/// Events begun between two calls that wake the writer early.
constexpr uint64_t kWakeEvery = NcclEventPool::kPlaces / 4;

// The interposer, where it is preloaded, stops for good when asked so; it says
// no when it has recorded already. Two records of each call are worse than one.
bool interposer_yields() {
  using Yield = int (*)();
  const auto yield = reinterpret_cast<Yield>(
      ::dlsym(RTLD_DEFAULT, "reprise_nccl_preload_yield"));
  return yield == nullptr || yield() != 0;
}

std::atomic<NcclSession*> made_session{nullptr};

/// Numbers of the captured calls of the host program that this thread made,
/// and perhaps of others between them.
struct CapturedCalls {
  uint64_t first = 0, last = 0;
  bool may_hold(uint64_t id) const {
    return id != 0 && first <= id && id <= last;
  }
  void add(uint64_t id) {
    if (first == 0) first = id;
    last = id;
  }
};
thread_local CapturedCalls captured_here;

bool is_host_call(NcclEventType type) {
  return type == kNcclGroupApi || type == kNcclCollectiveApi ||
         type == kNcclPointToPointApi;
}

}  // namespace

NcclSession* NcclSession::existing() {
  return made_session.load(std::memory_order_acquire);
}

NcclSession* NcclSession::instance() {
  static NcclSession* const session = []() -> NcclSession* {
    const char* directory = std::getenv("REPRISE_PROFILE_DIRECTORY");
    if (directory == nullptr || *directory == '\0') return nullptr;
    std::unique_ptr<NcclSession> made(new (std::nothrow) NcclSession);
    if (!made || !made->start(directory)) return nullptr;
    made_session.store(made.get(), std::memory_order_release);
    return made.release();
  }();
  return session;
}

bool NcclSession::start(const char* directory) {
  if (!pool_.is_valid() || !interposer_yields()) return false;
  ProcessRecorder::Options options;
  options.directory = directory;
  options.source = "nccl";
  options.collect = [](void* session, ProcessRecorder& recorder) {
    static_cast<NcclSession*>(session)->collect(recorder);
  };
  options.collect_context = this;
  window_.find();
  recorder_ = ProcessRecorder::start(options);
  if (!recorder_) return false;
  recorder_->start_writer();
  return true;
}

void NcclSession::collect(ProcessRecorder& recorder) {
  pool_.drain([&](const NcclEvent& event) {
    const bool is_idle = event.type == kNcclGroup && !event.has_kept_calls;
    if (event.is_outside_window && is_idle) return;
    write_nccl_event(event, recorder);
  });
  recorder.count_lost("nccl: more events at once than there is room for",
                      turned_away_.exchange(0, std::memory_order_relaxed));
}

void* NcclSession::open(NcclCommunicatorInfo communicator) {
  const std::lock_guard lock(mutex_);
  communicators_.push_back(std::move(communicator));
  return &communicators_.back();
}

void NcclSession::close() { recorder_->wake(); }

/// Outside the window. A replay's calls have captured parents too, but another
/// thread than the capturing one hears of them.
bool NcclSession::admits(NcclEventType type, uint64_t parent,
                         bool is_captured) const {
  switch (type) {
    case kNcclGroup:
      return true;  // Until it is known whose.
    case kNcclGroupApi:
    case kNcclCollectiveApi:
    case kNcclPointToPointApi:
      return is_captured;
    case kNcclCollective:
    case kNcclPointToPoint:
      return captured_here.may_hold(parent);
    case kNcclProxyStep:
      return parent != 0;
    default: {
      const uint64_t first = first_in_window_.load(std::memory_order_relaxed);
      return first != 0 && first <= parent &&
             parent <= last_in_window_.load(std::memory_order_relaxed);
    }
  }
}

void NcclSession::note_in_window(uint64_t id) {
  uint64_t none = 0;
  first_in_window_.compare_exchange_strong(none, id, std::memory_order_relaxed);
  uint64_t last = last_in_window_.load(std::memory_order_relaxed);
  while (last < id && !last_in_window_.compare_exchange_weak(
                          last, id, std::memory_order_relaxed)) {
  }
}

NcclEvent* NcclSession::begin(void* context, NcclEventType type, void* parent,
                              bool is_captured, void** handle) {
  if (!is_recording()) return nullptr;
  const bool is_outside = window_.has_limits() && !window_.is_open();
  if (is_outside && !admits(type, NcclEventPool::id_of(parent), is_captured)) {
    return nullptr;
  }
  NcclEvent* event = pool_.begin(handle);
  if (event == nullptr) {
    turned_away_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  if (event->id % kWakeEvery == 0) recorder_->wake();
  if (window_.has_limits() && !is_outside) note_in_window(event->id);
  if (is_captured && is_host_call(type)) captured_here.add(event->id);
  event->is_outside_window = is_outside;
  event->type = type;
  event->communicator = static_cast<const NcclCommunicatorInfo*>(context);
  event->parent = reinterpret_cast<uint64_t>(parent);
  event->thread = ProcessRecorder::thread_id();
  event->start_ns = ProcessRecorder::now_ns();
  return event;
}

void NcclSession::keep_group(void* group) {
  NcclEvent* event = pool_.find(group);
  if (event != nullptr) event->has_kept_calls = true;
}

void NcclSession::inherit(void* parent, NcclEvent* event) {
  const NcclEvent* operation = pool_.find(parent);
  if (operation == nullptr) return;
  event->call = operation->call;
  event->process = operation->process;
  event->channel = operation->channel;
  event->peer = operation->peer;
  event->is_send = operation->is_send;
}

void NcclSession::end(void* handle) {
  NcclEvent* event = pool_.end(handle);
  if (event == nullptr) return;
  event->end_ns = ProcessRecorder::now_ns();
  pool_.hand_over(event);
}

void NcclSession::record_state(void* handle, int state,
                               const NcclStateArguments* arguments) {
  NcclEvent* event = pool_.find(handle);
  if (event == nullptr) return;
  if (event->type == kNcclKernelChannel) {
    if (state == kNcclKernelChannelStop && arguments != nullptr) {
      event->device_end_ns = arguments->device_ns;
    }
    return;
  }
  if (event->type != kNcclProxyStep) return;
  if (arguments != nullptr && arguments->transferred_bytes > 0) {
    event->transferred_bytes =
        static_cast<int64_t>(arguments->transferred_bytes);
  }
  const int64_t now_ns = ProcessRecorder::now_ns();
  for (NcclWait& wait : event->waits) {
    if (wait.state == state) return;
    if (wait.state != 0) continue;
    wait = {now_ns, state};
    return;
  }
}

void NcclSession::finish() {
  recorder_->count_lost("nccl: events without an end", pool_.count_live());
  recorder_->finish();
}

}  // namespace reprise
