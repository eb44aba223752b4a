// Records go into a bounded ring that any thread writes without a lock, and one
// writer thread drains it in batches to the file; a full ring counts the loss.
// The process may be torn down at any moment, so every wait for the writer has
// an end, and after a fork the child, which has no writer, sees another process
// id and records nothing. Cost: one compare-and-swap and 80 bytes a record.
#include "profiler/process_recorder.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <vector>

#include "data/io/json_text.h"
#include "profiler/name_table.h"
#include "profiler/process_shard_file.h"
#include "profiler/record_ring.h"

namespace reprise {
namespace {

using std::chrono_literals::operator""s;

/// Records of one segment: 320 KiB, written at once.
constexpr size_t kBatch = 4096;
constexpr int kPushAttempts = 1000;
/// Deep enough for the demangling of long names.
constexpr size_t kWriterStackBytes = size_t{1} << 20;
/// How long the end of a process may wait for a drain that hangs.
constexpr auto kPatience = 2s;
constexpr int64_t kQuickPatienceNs = 200'000'000;
/// Recorders of one library that live at once.
constexpr size_t kMaximumRecorders = 16;

thread_local int64_t cached_thread_id = 0;

/// On the clock whose waits ThreadSanitizer knows.
std::chrono::system_clock::time_point patience_end() {
  return std::chrono::system_clock::now() + kPatience;
}

timespec from_now(clockid_t clock, int64_t delay_ns) {
  timespec time{};
  ::clock_gettime(clock, &time);
  const int64_t ns = time.tv_nsec + delay_ns;
  time.tv_sec += ns / 1'000'000'000;
  time.tv_nsec = ns % 1'000'000'000;
  return time;
}

std::string json_of(const std::map<std::string, std::string>& texts) {
  std::string json = "{";
  for (const auto& [name, text] : texts) {
    if (json.size() > 1) json += ',';
    json += json_quoted(name) + ":" + json_quoted(text);
  }
  return json + "}";
}

}  // namespace

struct ProcessRecorder::State {
  explicit State(const Options& chosen)
      : options(chosen), ring(std::max(chosen.capacity, 2U)) {}

  void run_writer();
  void drain();
  void drain_ring();
  uint64_t push_drained(const ProcessRecord& record);
  void write_notes();
  std::string end_json();
  void write_end(std::string_view json);
  bool stop_writer(int64_t patience_ns);
  bool is_drainer() const {
    return drainer.load(std::memory_order_relaxed) == thread_id();
  }

  /// False in the child of a fork, and of a clone that told nobody.
  bool is_own_process() {
    if (::getpid() == process) return true;
    is_forked.store(true);
    is_recording.store(false);
    return false;
  }

  Options options;
  ProcessRecorder* owner = nullptr;
  const pid_t process = ::getpid();
  RecordRing ring;
  NameTable names;
  std::atomic<bool> is_recording{true};
  std::atomic<bool> is_forked{false};  ///< This is the child: no writer here.
  std::atomic<uint64_t> ring_full{0};
  std::atomic<uint64_t> names_full{0};

  std::atomic<bool> has_writer{false};
  std::atomic<bool> is_stopping{false};
  std::atomic<bool> is_finishing{false};
  std::atomic<bool> writer_ends{false};  ///< The writer writes the end.
  pthread_t writer{};
  std::atomic<bool> is_joinable{false};
  sem_t wakeups{};

  std::timed_mutex drain_mutex;  ///< Of the file, the ring's end and `batch`.
  std::atomic<int64_t> drainer{-1};  ///< Thread that holds it.
  ProcessShardFile file;
  std::vector<ProcessRecord> batch;
  std::string payload;

  std::timed_mutex words_mutex;  ///< Of what follows.
  std::map<std::string, uint64_t, std::less<>> lost;
  std::map<std::string, std::string> notes;  ///< Not yet written.
};

namespace {

/// For the child of a fork; the pointers are never dereferenced elsewhere.
template <typename State>
struct Registry {
  std::array<std::atomic<State*>, kMaximumRecorders> states{};

  bool add(State* state) {
    for (auto& place : states) {
      State* none = nullptr;
      if (place.compare_exchange_strong(none, state)) return true;
    }
    return false;
  }
  void remove(State* state) {
    for (auto& place : states) {
      State* held = state;
      place.compare_exchange_strong(held, nullptr);
    }
  }
};

template <typename State>
Registry<State>& registry() {
  static constinit Registry<State> instance;
  return instance;
}

/// Only stores and closes: between fork and exec nothing else is safe.
template <typename State>
void after_fork_in_child() {
  cached_thread_id = 0;
  for (auto& place : registry<State>().states) {
    State* state = place.exchange(nullptr);
    if (state == nullptr) continue;
    state->is_recording.store(false);
    state->is_forked.store(true);
    state->file.close();
  }
}

}  // namespace

int64_t ProcessRecorder::thread_id() {
  if (cached_thread_id == 0) cached_thread_id = ::gettid();
  return cached_thread_id;
}

ProcessRecorder::ProcessRecorder(std::unique_ptr<State> state)
    : state_(std::move(state)) {
  state_->owner = this;
}

std::unique_ptr<ProcessRecorder> ProcessRecorder::start(
    const Options& options) try {
  if (options.directory.empty() || options.capacity == 0) return nullptr;
  auto state = std::make_unique<State>(options);
  if (!state->ring.is_valid() || !state->names.is_valid() ||
      ::sem_init(&state->wakeups, 0, 0) != 0) {
    return nullptr;
  }
  static const bool handles_fork =
      ::pthread_atfork(nullptr, nullptr, after_fork_in_child<State>) == 0;
  if (!handles_fork || !registry<State>().add(state.get())) return nullptr;
  if (!state->file.open(options.directory, options.source)) {
    registry<State>().remove(state.get());
    return nullptr;
  }
  return std::unique_ptr<ProcessRecorder>(
      new ProcessRecorder(std::move(state)));
} catch (...) {
  return nullptr;
}

ProcessRecorder::~ProcessRecorder() {
  if (!state_) return;
  finish();
  registry<State>().remove(state_.get());
  // A fork may have caught a lock, and a writer that did not end still works
  // on the state: either keeps it for ever.
  if (state_->is_forked || state_->is_joinable) {
    [[maybe_unused]] const State* kept = state_.release();
  }
}

bool ProcessRecorder::is_recording() const {
  return state_->is_recording.load(std::memory_order_relaxed);
}

bool ProcessRecorder::is_ending() const { return state_->is_finishing.load(); }

uint32_t ProcessRecorder::string_id(std::string_view text) try {
  if (!is_recording() || text.empty()) return 0;
  const uint32_t id = state_->names.id(text);
  if (id == 0) state_->names_full.fetch_add(1, std::memory_order_relaxed);
  return id;
} catch (...) {
  return 0;
}

bool ProcessRecorder::record(const ProcessRecord& record) {
  if (!is_recording()) return false;
  if (!state_->has_writer.load(std::memory_order_relaxed)) start_writer();
  uint64_t pushed = state_->ring.push(record);
  if (pushed == 0 && state_->is_drainer())
    pushed = state_->push_drained(record);
  if (pushed == 0) {
    state_->ring_full.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (pushed % (state_->ring.capacity() / 2) == 0) wake();
  return true;
}

void ProcessRecorder::count_lost(std::string_view reason, uint64_t count) try {
  if (!is_recording() || count == 0) return;
  const std::lock_guard lock(state_->words_mutex);
  const auto known = state_->lost.find(reason);
  if (known != state_->lost.end()) {
    known->second += count;
  } else {
    state_->lost.emplace(reason, count);
  }
} catch (...) {
}

void ProcessRecorder::note(std::string_view name, std::string_view text) try {
  if (!is_recording()) return;
  const std::lock_guard lock(state_->words_mutex);
  state_->notes.insert_or_assign(std::string(name), std::string(text));
} catch (...) {
}

void ProcessRecorder::start_writer() {
  if (!is_recording() || state_->has_writer.exchange(true)) return;
  // The host's signals are for the host's threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto run = [](void* state) -> void* {
    static_cast<State*>(state)->run_writer();
    return nullptr;
  };
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kWriterStackBytes);
  // Without a thread, what fits in the ring is still written at the end.
  state_->is_joinable =
      ::pthread_create(&state_->writer, &attributes, run, state_.get()) == 0;
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ProcessRecorder::wake() { ::sem_post(&state_->wakeups); }

void ProcessRecorder::State::run_writer() try {
  ::pthread_setname_np(::pthread_self(), "reprise-writer");
  for (bool is_last = false; !is_last;) {
    const timespec until = from_now(CLOCK_MONOTONIC, options.drain_period_ns);
    ::sem_clockwait(&wakeups, CLOCK_MONOTONIC, &until);
    is_last = is_stopping.load();
    const std::lock_guard lock(drain_mutex);
    if (is_recording.load()) drain();
  }
  if (!writer_ends.load()) return;
  const std::lock_guard lock(drain_mutex);
  write_end(end_json());
} catch (...) {
  is_recording.store(false);
}

/// Requires: drain_mutex.
void ProcessRecorder::State::drain() {
  struct Mark {
    std::atomic<int64_t>& drainer;
    ~Mark() { drainer.store(-1, std::memory_order_relaxed); }
  } const mark{drainer};
  drainer.store(thread_id(), std::memory_order_relaxed);
  if (options.collect != nullptr) {
    options.collect(options.collect_context, *owner);
  }
  drain_ring();
  write_notes();
}

void ProcessRecorder::State::drain_ring() {
  if (ring.is_empty()) return;
  batch.resize(kBatch);
  while (const size_t count = ring.pop(batch)) {
    // What the records name was in the table before they were pushed.
    names.take_new(&payload);
    if (!payload.empty()) file.append(ProcessSegment::kStrings, payload);
    file.append(ProcessSegment::kRecords,
                {reinterpret_cast<const char*>(batch.data()),
                 count * sizeof(ProcessRecord)});
  }
}

/// For the thread that drains, when the ring is full. Requires: drain_mutex.
uint64_t ProcessRecorder::State::push_drained(const ProcessRecord& record) {
  for (int attempt = 0; attempt < kPushAttempts; ++attempt) {
    drain_ring();
    if (const uint64_t pushed = ring.push(record); pushed != 0) return pushed;
    ::sched_yield();  // A thread was stopped while it filled the oldest slot.
  }
  return 0;
}

void ProcessRecorder::State::write_notes() {
  std::map<std::string, std::string> fresh;
  {
    const std::unique_lock lock(words_mutex, patience_end());
    if (lock.owns_lock()) fresh.swap(notes);
  }
  if (!fresh.empty()) file.append(ProcessSegment::kNotes, json_of(fresh));
}

void ProcessRecorder::flush() try {
  if (!is_recording() || !state_->is_own_process()) return;
  const std::lock_guard lock(state_->drain_mutex);
  if (is_recording()) state_->drain();
} catch (...) {
}

/// True when no writer is left.
bool ProcessRecorder::State::stop_writer(int64_t patience_ns) {
  is_stopping.store(true);
  has_writer.store(true);  // None starts any more.
  if (!is_joinable) return true;
  ::sem_post(&wakeups);
  const timespec until = from_now(CLOCK_REALTIME, patience_ns);
  if (::pthread_timedjoin_np(writer, nullptr, &until) != 0) return false;
  is_joinable = false;
  return true;
}

std::string ProcessRecorder::State::end_json() {
  std::string json = "{\"end_ns\":" + std::to_string(now_ns()) + ",\"lost\":{";
  const std::unique_lock lock(words_mutex, patience_end());
  if (!lock.owns_lock()) return json + "}}";
  if (const uint64_t count = ring_full.load(); count > 0) {
    lost["ring full"] += count;
  }
  if (const uint64_t count = names_full.load(); count > 0) {
    lost["name without room"] += count;
  }
  for (const auto& [reason, count] : lost) {
    if (json.back() != '{') json += ',';
    json += json_quoted(reason) + ":" + std::to_string(count);
  }
  return json + "}}";
}

void ProcessRecorder::State::write_end(std::string_view json) {
  is_recording.store(false);
  file.append(ProcessSegment::kEnd, json);
  file.close();
}

void ProcessRecorder::finish() try {
  if (!is_recording() || !state_->is_own_process()) return;
  constexpr int64_t kPatienceNs = std::chrono::nanoseconds(kPatience).count();
  if (state_->is_finishing.exchange(true) ||
      !state_->stop_writer(kPatienceNs)) {
    return;
  }
  const std::unique_lock lock(state_->drain_mutex, patience_end());
  if (!lock.owns_lock()) return;
  state_->drain();
  state_->is_recording.store(false);
  state_->drain_ring();  // What came meanwhile.
  state_->write_end(state_->end_json());
} catch (...) {
}

void ProcessRecorder::finish_quickly() {
  // A vfork's child shares this memory: it may not even mark it.
  if (!is_recording() || ::getpid() != state_->process) return;
  if (state_->is_finishing.exchange(true)) return;
  if (state_->is_joinable) {
    state_->writer_ends.store(true);
    state_->stop_writer(kQuickPatienceNs);
    return;
  }
  // Nothing was recorded, so nothing was lost, and nothing is allocated here.
  if (!state_->drain_mutex.try_lock()) return;
  std::array<char, 64> json{};
  const int size =
      std::snprintf(json.data(), json.size(), "{\"end_ns\":%lld,\"lost\":{}}",
                    static_cast<long long>(now_ns()));
  state_->write_end({json.data(), static_cast<size_t>(size)});
  state_->drain_mutex.unlock();
}

}  // namespace reprise
