#include "profiler/inject/injection.h"

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>

#include "profiler/cupti/cupti_session.h"
#include "profiler/inject/thread_context.h"
#include "profiler/inject/window.h"

namespace reprise::inject {
namespace {

/// Never destroyed: threads of the host may record until the process is gone.
struct Injection {
  std::string directory;
  Window window;
  std::atomic<ProcessRecorder*> recorder{nullptr};
  std::atomic<cupti::Session*> session{nullptr};
  std::atomic<bool> is_cuda_started{false};
  std::atomic<bool> may_restart{false};  ///< In the child of a fork.
};

alignas(Injection) std::byte storage[sizeof(Injection)];
/// Null: the library does nothing in this process.
constinit Injection* injection = nullptr;

void collect(void*, ProcessRecorder& recorder) {
  cupti::Session* session = injection->session.load(std::memory_order_acquire);
  if (session == nullptr) return;
  // By _exit: no exit handler has asked CUPTI for the rest.
  if (recorder.is_ending()) session->flush(/*is_last=*/true);
  session->collect(recorder);
}

ProcessRecorder* start_recorder() {
  auto recorder = ProcessRecorder::start({.directory = injection->directory,
                                          .source = "process",
                                          .collect = collect});
  // Lives as long as the process, as its threads do.
  ProcessRecorder* started = recorder.release();
  injection->recorder.store(started, std::memory_order_release);
  return started;
}

void after_fork_in_child() {
  if (injection == nullptr) return;
  injection->recorder.store(nullptr);
  injection->session.store(nullptr);
  injection->may_restart.store(true);
  this_thread().units.clear();
  this_thread().ranges.clear();
}

void finish() try {
  ProcessRecorder* recorder = injection->recorder.load();
  if (recorder == nullptr) return;
  const std::string window = injection->window.describe();
  if (!window.empty()) recorder->note("window", window);
  recorder->finish();
} catch (...) {
}

/// Runs before the driver's own end: it was registered after that.
void finish_cuda() {
  cupti::Session* session = injection->session.load();
  if (session == nullptr) return;
  session->flush(/*is_last=*/true);
  ProcessRecorder* recorder = injection->recorder.load();
  if (recorder != nullptr) recorder->flush();
  injection->session.store(nullptr);  // CUPTI's own end comes next.
}

cupti::Session::Recorded recorded() {
  using enum cupti::Session::Recorded;
  if (injection->window.is_open()) return kAll;
  return injection->window.is_held() ? kCalls : kNothing;
}

void apply_window() {
  cupti::Session* session = injection->session.load();
  if (session != nullptr) session->record(recorded());
}

int64_t active_unit() {
  const auto& units = this_thread().units;
  return units.is_empty() ? -1 : units.top().unit;
}

uint32_t active_range() {
  const auto& ranges = this_thread().ranges;
  return ranges.is_empty() ? 0 : ranges.top().name;
}

void profiler_range(bool starts) {
  if (injection->window.profiler_range(starts)) apply_window();
}

/// As the first code of the process that is ours: whether by LD_PRELOAD, by
/// the driver or by NVTX, the library is loaded once.
__attribute__((constructor)) void start_process() try {
  const char* directory = std::getenv("REPRISE_PROFILE_DIRECTORY");
  if (directory == nullptr || directory[0] == '\0') return;
  injection = new (storage) Injection;
  injection->directory = directory;
  injection->window.read_environment();
  ::pthread_atfork(nullptr, nullptr, after_fork_in_child);
  if (start_recorder() == nullptr) return;
  std::atexit(finish);
  ::at_quick_exit(finish);
} catch (...) {
}

}  // namespace

ProcessRecorder* recorder() {
  if (injection == nullptr) return nullptr;
  ProcessRecorder* current =
      injection->recorder.load(std::memory_order_acquire);
  if (current != nullptr ||
      !injection->may_restart.load(std::memory_order_relaxed) ||
      !injection->may_restart.exchange(false)) {
    return current;
  }
  return start_recorder();
}

bool is_window_open() {
  return injection != nullptr && injection->window.is_open();
}

void start_cuda() {
  if (recorder() == nullptr || injection->is_cuda_started.exchange(true)) {
    return;
  }
  cupti::Session* session = cupti::Session::start(
      {.recorder = recorder,
       .active_unit = active_unit,
       .active_range = active_range,
       .profiler_range = profiler_range,
       .context_made = apply_window,
       .wants_profiler_range =
           injection->window.mode() == Window::Mode::kProfilerApi});
  if (session == nullptr) return;
  injection->session.store(session, std::memory_order_release);
  using enum cupti::Session::Recorded;
  session->record(injection->window.is_open() ? kAll : kCalls);
  std::atexit(finish_cuda);
}

cupti::Session* session() {
  return injection == nullptr
             ? nullptr
             : injection->session.load(std::memory_order_acquire);
}

int64_t begin_range(std::string_view name) {
  if (injection == nullptr || !injection->window.takes_ranges()) return -1;
  const std::optional<int64_t> step = injection->window.number_of(name);
  if (!step) return -1;
  if (injection->window.begin_step(*step)) apply_window();
  return *step;
}

void end_range(int64_t step) {
  if (injection == nullptr || step < 0) return;
  if (injection->window.end_step(step)) apply_window();
}

void push_unit(int64_t unit) {
  if (injection == nullptr) return;
  cupti::Session* session = injection->session.load(std::memory_order_acquire);
  const bool is_pushed = session != nullptr && injection->window.is_open();
  if (this_thread().units.push({.unit = unit, .is_pushed = is_pushed}) &&
      is_pushed) {
    session->push_unit(unit);
  }
}

void pop_unit() {
  if (injection == nullptr) return;
  OpenUnit taken;
  const auto any = [](const OpenUnit&) { return true; };
  if (!this_thread().units.pop(any, &taken) || !taken.is_pushed) return;
  cupti::Session* session = injection->session.load(std::memory_order_acquire);
  if (session != nullptr) session->pop_unit();
}

void mark_step(int32_t step, bool is_warmup, int64_t start_ns, int64_t end_ns) {
  ProcessRecorder* current = recorder();
  if (current == nullptr) return;
  if (injection->window.is_open()) {
    ProcessRecord record;
    record.kind = RecordKind::kStep;
    record.sequence = step;
    record.start_ns = start_ns;
    record.end_ns = end_ns;
    record.stream = ProcessRecorder::thread_id();
    record.flags = is_warmup ? 1 : 0;
    current->record(record);
  }
  if (injection->window.mark_step(step)) apply_window();
}

void hold() {
  if (injection == nullptr) return;
  injection->window.hold();
  apply_window();
}

void let_go() {
  if (injection == nullptr) return;
  injection->window.let_go();
  apply_window();
}

void leave_out_steps(int32_t first, int32_t end) {
  if (injection != nullptr) injection->window.leave_out(first, end);
}

void finish_quickly() {
  if (injection == nullptr) return;
  ProcessRecorder* current =
      injection->recorder.load(std::memory_order_acquire);
  if (current != nullptr) current->finish_quickly();
}

void flush() {
  ProcessRecorder* current = recorder();
  if (current == nullptr) return;
  cupti::Session* session = injection->session.load(std::memory_order_acquire);
  if (session != nullptr) session->flush(/*is_last=*/false);
  current->flush();
}

}  // namespace reprise::inject
