// A host program for the injection library: does what the driver does
// (InitializeInjection) over the fake CUPTI, then plays the scenario that its
// first argument names. Ends with status 7, or 8 when the library misused
// CUPTI.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/profiler/inject/fake_cupti_script.h"

namespace {

using reprise::fake::Activity;
using reprise::fake::Round;

void* cupti = nullptr;
void* injection = nullptr;

template <typename Function>
Function* in_cupti(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(cupti, name));
}
template <typename Function>
Function* in_injection(const char* name) {
  auto* function = reinterpret_cast<Function*>(::dlsym(injection, name));
  if (function == nullptr) std::abort();
  return function;
}

void play_records() {
  in_cupti<void(uint32_t, uint32_t)>("fake_cupti_context")(1, 0);
  auto* put = in_cupti<decltype(fake_cupti_put)>("fake_cupti_put");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < reprise::fake::kThreads; ++thread) {
    threads.emplace_back([=] {
      for (uint32_t round = 0; round < reprise::fake::kRounds; ++round) {
        for (const Activity& activity : Round(thread, round).records()) {
          put(&activity);
        }
      }
      in_cupti<void()>("fake_cupti_complete_all")();
    });
  }
  for (std::thread& thread : threads) thread.join();
  in_cupti<void(uint64_t)>("fake_cupti_drop")(11);
  const Activity last = Round(reprise::fake::kThreads, 0).kernel(0, 0);
  put(&last);
}

void play_units() {
  auto* push = in_injection<void(int64_t)>("reprise_push_unit");
  auto* pop = in_injection<void()>("reprise_pop_unit");
  auto* launch = in_cupti<decltype(fake_cupti_launch)>("fake_cupti_launch");
  auto* node = in_cupti<void(uint64_t, uint64_t)>("fake_cupti_graph_node");
  pop();  // Without a push: nothing.
  const Round round(0, 0);
  const auto launch_kernel = [&](uint32_t number) {
    const Activity kernel = round.kernel(100 + number, number);
    launch(&kernel);
  };
  push(42);
  launch_kernel(1);
  push(43);
  launch_kernel(2);
  node(100, 0);
  pop();
  node(101, 0);
  launch_kernel(3);
  pop();
  launch_kernel(4);
  node(102, 0);
  node(200, 100);  // Instantiation clones the nodes.
  node(201, 101);
  in_injection<void()>("reprise_flush")();
}

void play_steps() {
  auto* put = in_cupti<decltype(fake_cupti_put)>("fake_cupti_put");
  auto* mark = in_injection<void(int32_t, int32_t, int64_t, int64_t)>(
      "reprise_mark_step");
  for (uint32_t step = 0; step < 6; ++step) {
    const Activity kernel = Round(0, step).kernel(0, 0);
    put(&kernel);
    mark(static_cast<int32_t>(step), step < 3 ? 1 : 0, 10 + step, 20 + step);
  }
}

/// A trainer whose step 3 shows what recording costs.
void play_left_out_graph() {
  auto* put = in_cupti<decltype(fake_cupti_put)>("fake_cupti_put");
  in_injection<void()>("reprise_hold")();
  in_cupti<void(uint32_t, uint32_t)>("fake_cupti_context")(1, 0);
  in_injection<void()>("reprise_let_go")();
  in_injection<void(int32_t, int32_t)>("reprise_leave_out_steps")(3, 4);
  auto* mark = in_injection<void(int32_t, int32_t, int64_t, int64_t)>(
      "reprise_mark_step");
  for (uint32_t step = 0; step < 6; ++step) {
    Activity kernel = Round(0, step).kernel(0, 0);
    kernel.graph_node = 1 + step;
    put(&kernel);
    mark(static_cast<int32_t>(step), 0, 10 + step, 20 + step);
  }
}

void play_profiler_range() {
  auto* put = in_cupti<decltype(fake_cupti_put)>("fake_cupti_put");
  auto* call = in_cupti<void(uint32_t)>("fake_cupti_runtime_call");
  for (uint32_t round = 0; round < 5; ++round) {
    if (round == 1) call(171);  // cudaProfilerStart.
    const Activity kernel = Round(0, round).kernel(0, 0);
    put(&kernel);
    if (round == 3) call(172);  // cudaProfilerStop.
  }
}

/// The driver's call, and in the next buffer the runtime's that made it.
void play_split_call() {
  auto* put = in_cupti<decltype(fake_cupti_put)>("fake_cupti_put");
  const Round round(0, 0);
  const Activity inner = round.call(10, 0, 307, /*is_runtime=*/false);
  const Activity outer = round.call(9, 0, 211);
  const Activity alone = round.call(30, 1, 307, /*is_runtime=*/false);
  put(&inner);
  in_cupti<void()>("fake_cupti_complete_all")();
  put(&outer);
  put(&alone);
}

/// Records, flushes, and is killed.
void play_killed() {
  auto* put = in_cupti<decltype(fake_cupti_put)>("fake_cupti_put");
  for (uint32_t round = 0; round < 100; ++round) {
    const Activity kernel = Round(0, round).kernel(0, 0);
    put(&kernel);
  }
  in_injection<void()>("reprise_flush")();
  ::kill(::getpid(), SIGKILL);
}

/// Keeps the device's queue full, never flushes, and is killed when the library
/// has flushed three times since: the first may have begun before the last
/// kernel, and what the second brought is written before the third.
void play_busy() {
  auto* put = in_cupti<decltype(fake_cupti_put)>("fake_cupti_put");
  auto* progress = in_cupti<void(uint32_t)>("fake_cupti_progress");
  auto* flushes = in_cupti<uint32_t()>("fake_cupti_flushes");
  const uint32_t first =
      Round(0, 0).correlation + reprise::fake::kQueuedKernels;
  for (uint32_t number = 0; number < reprise::fake::kBusyKernels; ++number) {
    Activity kernel = Round(0, 0).kernel(0, 0);
    kernel.start += number;
    kernel.end += number;
    kernel.correlation = first + number;
    put(&kernel);
    progress(kernel.correlation - reprise::fake::kQueuedKernels);
  }
  const uint32_t before = flushes();
  // Without a flush the test fails by what is lost, not by waiting.
  for (int wait = 0; wait < 20'000 && flushes() < before + 3; ++wait) {
    ::usleep(1000);
  }
  ::kill(::getpid(), SIGKILL);
}

void put_kernels(uint32_t count) {
  auto* put = in_cupti<decltype(fake_cupti_put)>("fake_cupti_put");
  for (uint32_t round = 0; round < count; ++round) {
    const Activity kernel = Round(0, round).kernel(0, 0);
    put(&kernel);
  }
}

/// Another tool, as PyTorch's profiler: linked with CUPTI, so that its calls go
/// to whoever has the name first.
template <typename Function>
Function* linked(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

alignas(8) uint8_t guest_buffer[1 << 16];
size_t guest_bytes = 0;
int guest_clock_reads = 0, strange_buffers = 0, with_cupti = 0;

void request_of_guest(uint8_t** buffer, size_t* size, size_t* most_records) {
  std::memset(guest_buffer, 0, sizeof guest_buffer);
  *buffer = guest_buffer;
  *size = sizeof guest_buffer;
  *most_records = 0;
  ++with_cupti;
}

void complete_of_guest(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  strange_buffers += buffer == guest_buffer ? 0 : 1;
  guest_bytes += valid;
  --with_cupti;
}

uint64_t clock_of_guest() {
  ++guest_clock_reads;
  return uint64_t{1} << 62;
}

int guest_launches = 0;

/// As Kineto does before it records: it goes on without a GPU where this is
/// refused. Its callbacks come, and ours are not lost with its own.
bool guest_subscribes() {
  const auto on_callback =
      +[](void* user, uint32_t domain, uint32_t, const void*) {
        if (domain == 2) ++*static_cast<int*>(user);
      };
  void* handle = nullptr;
  using Subscribe = int(void**, decltype(on_callback), void*);
  using Enable = int(uint32_t, void*, uint32_t, uint32_t);
  using EnableDomain = int(uint32_t, void*, uint32_t);
  const auto subscribe = linked<Subscribe>("cuptiSubscribe");
  if (subscribe(&handle, on_callback, &guest_launches) != 0) return false;
  void* another = nullptr;
  if (subscribe(&another, on_callback, nullptr) != 39) return false;
  auto* call = in_cupti<void(uint32_t)>("fake_cupti_runtime_call");
  call(211);
  if (guest_launches != 0) return false;
  linked<Enable>("cuptiEnableCallback")(1, handle, 2, 211);
  call(211);
  call(131);
  if (guest_launches != 2) return false;
  linked<EnableDomain>("cuptiEnableDomain")(1, handle, 2);
  call(131);
  if (guest_launches != 4) return false;
  linked<EnableDomain>("cuptiEnableDomain")(0, handle, 2);
  call(131);
  if (guest_launches != 4) return false;
  // CUPTI itself goes on: a fake that is asked for either counts a misuse.
  return linked<int()>("cuptiFinalize")() == 0 &&
         linked<int(void*)>("cuptiUnsubscribe")(handle) == 0 &&
         linked<int(void*)>("cuptiUnsubscribe")(&another) != 0;
}

/// A kernel, two recordings of the guest with one each, a kernel after each.
void play_guest() {
  auto* put = in_cupti<decltype(fake_cupti_put)>("fake_cupti_put");
  auto* now = in_cupti<uint64_t()>("fake_cupti_now");
  const auto put_kernel = [&](uint32_t round) {
    const Activity kernel = Round(0, round).kernel(0, 0);
    put(&kernel);
  };
  put_kernel(0);
  bool is_right = guest_subscribes() && now() < uint64_t{1} << 62;
  for (uint32_t round = 1; round < 5; round += 2) {
    linked<int(uint64_t(*)())>("cuptiActivityRegisterTimestampCallback")(
        clock_of_guest);
    linked<int(decltype(&request_of_guest), decltype(&complete_of_guest))>(
        "cuptiActivityRegisterCallbacks")(request_of_guest, complete_of_guest);
    linked<int(uint32_t)>("cuptiActivityEnable")(10);
    const size_t before = guest_bytes;
    put_kernel(round);
    // Kineto until April 2026 throws all away where CUPTI has no buffer of its,
    // so our writer, which flushes every 100 ms, must leave it there.
    in_injection<void()>("reprise_flush")();
    is_right = is_right && with_cupti == 1;
    is_right = is_right && now() < uint64_t{1} << 62;  // CUPTI keeps ours.
    linked<int(uint32_t)>("cuptiActivityDisable")(10);
    linked<int(uint32_t)>("cuptiActivityFlushAll")(1);
    is_right = is_right && guest_bytes > before && guest_bytes - before < 300 &&
               now() < uint64_t{1} << 62;
    put_kernel(round + 1);
  }
  if (!is_right || strange_buffers != 0) ::_exit(8);
}

/// As a worker that Python forks: CUDA starts in it, and it ends by _exit.
void play_forked_worker() {
  const pid_t worker = ::fork();
  if (worker == 0) {
    if (in_injection<int()>("InitializeInjection")() != 1) ::_exit(8);
    put_kernels(100);
    ::_exit(7);
  }
  int status = 0;
  ::waitpid(worker, &status, 0);
  if (status != 7 << 8) std::abort();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string scenario = count > 1 ? arguments[1] : "";
  if (const char* path = std::getenv("FAKE_CUPTI_PATH")) {
    cupti = ::dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (cupti == nullptr) return 9;
  }
  const char* library = std::getenv("CUDA_INJECTION64_PATH");
  injection = library == nullptr ? nullptr : ::dlopen(library, RTLD_NOW);
  if (injection == nullptr) return 9;
  if (scenario == "forked-worker") {
    play_forked_worker();
    return 7;
  }
  if (in_injection<int()>("InitializeInjection")() != 1) return 8;
  if (in_injection<int()>("InitializeInjection")() != 1) return 8;
  if (scenario == "records") play_records();
  if (scenario == "units") play_units();
  if (scenario == "steps") play_steps();
  if (scenario == "left-out-graph") play_left_out_graph();
  if (scenario == "profiler-range") play_profiler_range();
  if (scenario == "split-call") play_split_call();
  if (scenario == "killed") play_killed();
  if (scenario == "busy") play_busy();
  if (scenario == "guest") play_guest();
  if (scenario == "exits-at-once") {
    put_kernels(100);
    ::_exit(7);
  }
  const bool is_misused =
      cupti != nullptr && in_cupti<uint32_t()>("fake_cupti_misuses")() > 0;
  return is_misused ? 8 : 7;
}
