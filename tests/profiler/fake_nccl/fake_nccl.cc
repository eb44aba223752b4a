// A libnccl.so.2 for tests: NCCL's entry points with real arithmetic between
// threads or processes of one host. Device memory is host memory. Where the
// fake driver is loaded, work goes to its streams and graphs; without it, it is
// done at once.
#include <dlfcn.h>
#include <sys/random.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "tests/profiler/fake_nccl/numbers.h"
#include "tests/profiler/fake_nccl/plugin.h"
#include "tests/profiler/fake_nccl/work.h"

namespace fake_nccl {
namespace {

constexpr int kSystemError = 2, kInvalidArgument = 4;

struct UniqueId {
  char name[128];
};

struct Group {
  int depth = 0;
  void* api = nullptr;  ///< The plugin's handle.
  std::vector<Work> works;
  std::vector<std::function<int()>> openings;  ///< Of communicators.
};
thread_local Group group;

uint64_t hash_of(const std::string& text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}

int open_communicator(ncclComm** made, const std::string& name, int rank,
                      int ranks) {
  auto exchange = Exchange::enter(name, rank, ranks);
  if (!exchange) return kSystemError;
  auto* communicator = new ncclComm;
  communicator->exchange = std::move(exchange);
  communicator->hash = hash_of(name);
  if (ProfilerPlugin* plugin = ProfilerPlugin::loaded()) {
    communicator->profiler =
        plugin->open(communicator->hash, "fake", 1, ranks, rank);
  }
  *made = communicator;
  return 0;
}

/// An aborted communicator, which work in a queue may still look at.
void keep(ncclComm* communicator) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<ncclComm*>;
  const std::lock_guard lock(mutex);
  kept.push_back(communicator);
}

/// In a group, communicators are made side by side when it ends.
int open_in_group(ncclComm** made, const std::string& name, int rank,
                  int ranks) {
  if (group.depth == 0) return open_communicator(made, name, rank, ranks);
  group.openings.emplace_back(
      [=] { return open_communicator(made, name, rank, ranks); });
  return 0;
}

int open_all(const std::vector<std::function<int()>>& openings) {
  std::atomic<int> result{0};
  std::vector<std::thread> threads;
  for (const auto& open : openings) {
    threads.emplace_back([&] {
      if (const int failed = open()) result = failed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

using Task = std::vector<Work>;

template <typename Function>
Function* driver_function(const char* name) {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return driver == nullptr ? nullptr
                           : reinterpret_cast<Function*>(::dlsym(driver, name));
}

/// The fake driver knows its memory.
bool are_on_device(const Task& works) {
  using Knows = int(uint64_t, uint64_t);
  const auto knows = driver_function<Knows>("fake_cuda_is_device_memory");
  if (knows == nullptr) return true;
  for (const Work& work : works) {
    const size_t bytes = work.count * element_bytes(work.data_type);
    for (const void* at : {work.send, static_cast<const void*>(work.receive)}) {
      if (at != nullptr && !knows(reinterpret_cast<uint64_t>(at), bytes)) {
        return false;
      }
    }
  }
  return true;
}

/// As NCCL names its kernels, for tools that see them.
const char* kernel_name(const Work& work) {
  constexpr std::array kTypes = {"i8",  "u8",  "i32", "u32", "i64",
                                 "u64", "f16", "f32", "f64", "bf16"};
  static std::mutex mutex;
  static auto& names = *new std::set<std::string>;
  std::string name = std::string("ncclDevKernel_") + word(work.function);
  const bool reduces = work.function == Function::kAllReduce ||
                       work.function == Function::kReduce ||
                       work.function == Function::kReduceScatter;
  const auto type = static_cast<size_t>(work.data_type);
  if (reduces && type < kTypes.size())
    name += std::string("_Sum_") + kTypes[type];
  name += "_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
  const std::lock_guard lock(mutex);
  return names.insert(std::move(name)).first->c_str();
}

/// As a kernel would be; under capture a node of the graph, which may run many
/// times. It ends when all ranks have come, without holding up the driver.
int enqueue(Task works) {
  using Ready = int(void*);
  using Run = void(void*);
  using Enqueue = int(void*, Ready*, Run*, void*, Run*);
  const auto enqueue_kernel =
      driver_function<Enqueue>("fake_cuda_enqueue_when");
  if (!are_on_device(works)) return kInvalidArgument;
  if (enqueue_kernel == nullptr) {
    Performance(std::move(works)).finish();
    return 0;
  }
  void* stream = works[0].stream;
  if (const auto name_kernel =
          driver_function<void(const char*)>("fake_cuda_name_kernel")) {
    name_kernel(kernel_name(works[0]));
  }
  auto* task = new Performance(std::move(works));
  return enqueue_kernel(
      stream,
      [](void* one) -> int {
        return static_cast<Performance*>(one)->advance();
      },
      [](void* one) { static_cast<Performance*>(one)->restart(); }, task,
      [](void* one) { delete static_cast<Performance*>(one); });
}

/// All calls of a group, each communicator's in a thread of its own where there
/// are several.
int launch(std::vector<Work> works) {
  std::map<ncclComm*, std::vector<Work>> by_communicator;
  for (Work& work : works) by_communicator[work.communicator].push_back(work);
  std::vector<std::thread> threads;
  std::atomic<int> result{0};
  for (auto& [communicator, own] : by_communicator) {
    announce_launch(own);
    if (by_communicator.size() == 1) return enqueue(std::move(own));
    threads.emplace_back([&result, &own = own] {
      if (const int failed = enqueue(std::move(own))) result = failed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

void start_group_api(void* context) {
  ProfilerPlugin* plugin = ProfilerPlugin::loaded();
  if (plugin == nullptr || plugin->version() < 5 || group.api != nullptr) {
    return;
  }
  reprise::NcclDescriptorV5 descriptor;
  std::memset(&descriptor, 0, sizeof descriptor);
  descriptor.type = reprise::kNcclGroupApi;
  descriptor.group_api.depth = group.depth;
  group.api = plugin->start(context, descriptor);
}

int end_group() {
  int result = open_all(std::exchange(group.openings, {}));
  std::vector<Work> works = std::exchange(group.works, {});
  if (!works.empty()) result = launch(std::move(works));
  if (group.api != nullptr) ProfilerPlugin::loaded()->stop(group.api);
  group.api = nullptr;
  return result;
}

int call(Work work) {
  if (work.communicator == nullptr) return kInvalidArgument;
  if (work.communicator->exchange->is_aborted()) return kRemoteError;
  start_group_api(work.communicator->profiler);
  announce_call(work, group.api);
  group.works.push_back(work);
  return group.depth == 0 ? end_group() : 0;
}

}  // namespace
}  // namespace fake_nccl

extern "C" {

using fake_nccl::call;
using fake_nccl::Function;
using fake_nccl::UniqueId;

int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}

int ncclGetUniqueId(UniqueId* id) {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    return fake_nccl::kSystemError;
  }
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->name, sizeof id->name, "fake_nccl.%016llx",
                static_cast<unsigned long long>(number));
  return 0;
}

int ncclCommInitRank(ncclComm** communicator, int ranks, UniqueId id,
                     int rank) {
  return fake_nccl::open_in_group(communicator, id.name, rank, ranks);
}

int ncclCommInitRankConfig(ncclComm** communicator, int ranks, UniqueId id,
                           int rank, void*) {
  return fake_nccl::open_in_group(communicator, id.name, rank, ranks);
}

int ncclCommInitAll(ncclComm** communicators, int count, const int*) {
  UniqueId id;
  ncclGetUniqueId(&id);
  std::vector<std::function<int()>> openings;
  for (int rank = 0; rank < count; ++rank) {
    openings.emplace_back([=] {
      return fake_nccl::open_communicator(communicators + rank, id.name, rank,
                                          count);
    });
  }
  return fake_nccl::open_all(openings);
}

/// Rank = place of `key` among the ranks of the same color.
int ncclCommSplit(ncclComm* communicator, int color, int key, ncclComm** made,
                  void*) {
  fake_nccl::Exchange& exchange = *communicator->exchange;
  const int own[2] = {color, key};
  std::memcpy(exchange.area(exchange.rank()), own, sizeof own);
  if (!exchange.barrier()) return fake_nccl::kRemoteError;
  int rank = 0, ranks = 0;
  for (int other = 0; other < exchange.ranks(); ++other) {
    int theirs[2];
    std::memcpy(theirs, exchange.area(other), sizeof theirs);
    if (theirs[0] != color) continue;
    ++ranks;
    rank += theirs[1] < key || (theirs[1] == key && other < exchange.rank());
  }
  if (!exchange.barrier()) return fake_nccl::kRemoteError;
  *made = nullptr;
  const int number = communicator->splits++;
  if (color < 0) return 0;
  const std::string name = "fake_nccl.split." +
                           std::to_string(communicator->hash) + "." +
                           std::to_string(number) + "." + std::to_string(color);
  return fake_nccl::open_communicator(made, name, rank, ranks);
}

int ncclCommDestroy(ncclComm* communicator) {
  if (communicator->profiler != nullptr) {
    fake_nccl::ProfilerPlugin::loaded()->close(communicator->profiler);
  }
  delete communicator;
  return 0;
}

int ncclCommFinalize(ncclComm*) { return 0; }

/// The peers' calls fail; the memory stays, as work may still be in a queue.
int ncclCommAbort(ncclComm* communicator) {
  communicator->exchange->abort();
  fake_nccl::keep(communicator);
  return 0;
}

int ncclCommGetAsyncError(ncclComm* communicator, int* error) {
  *error = communicator->exchange->is_aborted()
               ? fake_nccl::kRemoteError
               : communicator->asynchronous_error;
  return 0;
}

int ncclCommCount(ncclComm* communicator, int* count) {
  *count = communicator->exchange->ranks();
  return 0;
}

int ncclCommUserRank(ncclComm* communicator, int* rank) {
  *rank = communicator->exchange->rank();
  return 0;
}

const char* ncclGetErrorString(int result) {
  switch (result) {
    case 0:
      return "no error";
    case fake_nccl::kSystemError:
      return "unhandled system error";
    case fake_nccl::kRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "invalid argument";
  }
}

const char* ncclGetLastError(ncclComm*) { return ""; }

int ncclAllReduce(const void* send, void* receive, size_t count, int type,
                  int operation, ncclComm* communicator, void* stream) {
  return call({Function::kAllReduce, send, receive, count, type, operation, 0,
               communicator, stream});
}

int ncclReduce(const void* send, void* receive, size_t count, int type,
               int operation, int root, ncclComm* communicator, void* stream) {
  return call({Function::kReduce, send, receive, count, type, operation, root,
               communicator, stream});
}

int ncclBroadcast(const void* send, void* receive, size_t count, int type,
                  int root, ncclComm* communicator, void* stream) {
  return call({Function::kBroadcast, send, receive, count, type, 0, root,
               communicator, stream});
}

int ncclBcast(void* buffer, size_t count, int type, int root,
              ncclComm* communicator, void* stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}

int ncclAllGather(const void* send, void* receive, size_t count, int type,
                  ncclComm* communicator, void* stream) {
  return call({Function::kAllGather, send, receive, count, type, 0, 0,
               communicator, stream});
}

int ncclReduceScatter(const void* send, void* receive, size_t count, int type,
                      int operation, ncclComm* communicator, void* stream) {
  return call({Function::kReduceScatter, send, receive, count, type, operation,
               0, communicator, stream});
}

int ncclAlltoAll(const void* send, void* receive, size_t count, int type,
                 ncclComm* communicator, void* stream) {
  return call({Function::kAlltoAll, send, receive, count, type, 0, 0,
               communicator, stream});
}

int ncclSend(const void* buffer, size_t count, int type, int peer,
             ncclComm* communicator, void* stream) {
  return call({Function::kSend, buffer, nullptr, count, type, 0, peer,
               communicator, stream});
}

int ncclRecv(void* buffer, size_t count, int type, int peer,
             ncclComm* communicator, void* stream) {
  return call({Function::kRecv, nullptr, buffer, count, type, 0, peer,
               communicator, stream});
}

int ncclGroupStart() {
  ++fake_nccl::group.depth;
  return 0;
}

int ncclGroupEnd() {
  return --fake_nccl::group.depth == 0 ? fake_nccl::end_group() : 0;
}

}  // extern "C"
