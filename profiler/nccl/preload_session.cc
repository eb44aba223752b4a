// The interposer stands before NCCL by LD_PRELOAD and passes every call on to
// the next definition, found by RTLD_NEXT or, where NCCL was loaded for one
// library alone, by its loaded path. A group's calls share its id, by thread.
// Nothing is recorded twice: where the profiler plugin runs, it keeps silent.
#include "profiler/nccl/preload_session.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <new>

namespace reprise {
namespace {

struct GroupOfThread {
  int depth = 0;
  uint64_t id = 0;
  int64_t start_ns = 0;
  bool is_outside_window = false, has_kept_calls = false;
};
thread_local GroupOfThread group_of_thread;

std::atomic<PreloadSession*> made_session{nullptr};

// ncclDataType_t, in its order. Source: nccl.h of 2.28.9.
constexpr std::array kDataTypes = {
    "ncclInt8",    "ncclUint8",    "ncclInt32",      "ncclUint32",
    "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
    "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};

std::string_view data_type_name(int data_type) {
  const auto place = static_cast<size_t>(data_type);
  return data_type >= 0 && place < kDataTypes.size() ? kDataTypes[place] : "";
}

int64_t bytes_of(const PreloadCall& call) {
  int64_t bytes = 0;
  const int64_t element = nccl_element_bytes(data_type_name(call.data_type));
  return __builtin_mul_overflow(call.count, element, &bytes) ? 0 : bytes;
}

// NCCL where it was loaded for one library alone, out of RTLD_NEXT's sight, as
// Python loads extensions.
void* loaded_nccl() {
  std::string path;
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* found) {
        const std::string_view name =
            object->dlpi_name == nullptr ? "" : object->dlpi_name;
        const size_t file = name.rfind('/') + 1;
        if (!name.substr(file).starts_with("libnccl.so")) return 0;
        *static_cast<std::string*>(found) = name;
        return 1;
      },
      &path);
  return path.empty() ? nullptr
                      : ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
}

int asked(const char* function, void* communicator) {
  using Ask = int (*)(void*, int*);
  const auto ask = reinterpret_cast<Ask>(next_nccl_function(function));
  int value = -1;
  return ask != nullptr && ask(communicator, &value) == 0 ? value : -1;
}

/// Whether a graph captures what the stream is given. NCCL asks the same.
bool is_captured(void* stream) {
  using Ask = int (*)(void*, int*);
  static const auto ask = []() -> Ask {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return driver == nullptr
               ? nullptr
               : reinterpret_cast<Ask>(::dlsym(driver, "cuStreamIsCapturing"));
  }();
  constexpr int kActive = 1;  // CU_STREAM_CAPTURE_STATUS_ACTIVE
  int status = 0;
  return ask != nullptr && ask(stream, &status) == 0 && status == kActive;
}

}  // namespace

void* next_nccl_function(const char* name) {
  if (void* function = ::dlsym(RTLD_NEXT, name)) return function;
  void* nccl = loaded_nccl();
  return nccl == nullptr ? nullptr : ::dlsym(nccl, name);
}

PreloadSession* PreloadSession::instance() {
  static PreloadSession* const session = []() -> PreloadSession* {
    const char* directory = std::getenv("REPRISE_PROFILE_DIRECTORY");
    if (directory == nullptr || *directory == '\0') return nullptr;
    auto* made = new (std::nothrow) PreloadSession(directory);
    made_session.store(made, std::memory_order_release);
    return made;
  }();
  return session;
}

bool PreloadSession::yield() {
  Role role = Role::kUndecided;
  return role_.compare_exchange_strong(role, Role::kYielded) ||
         role == Role::kYielded;
}

ProcessRecorder* PreloadSession::recorder() {
  const Role role = role_.load(std::memory_order_acquire);
  if (role == Role::kUndecided || role == Role::kStarts) start();
  return recorder_.load(std::memory_order_acquire);
}

// The first calls of several threads wait for the one that starts.
void PreloadSession::start() {
  const std::lock_guard lock(start_mutex_);
  Role role = Role::kUndecided;
  if (!role_.compare_exchange_strong(role, Role::kStarts)) return;
  ProcessRecorder::Options options;
  options.directory = directory_;
  options.source = "nccl";
  recorder_.store(ProcessRecorder::start(options).release());
  role_.store(Role::kRecords, std::memory_order_release);
}

// A communicator made where we could not see it has a name of its own: its
// peers cannot be told.
PreloadCommunicator* PreloadSession::communicator_of(void* handle) {
  PreloadCommunicator* known = communicators_.find(handle);
  if (known == nullptr) {
    const std::array<int64_t, 2> own = {::getpid(), ProcessRecorder::now_ns()};
    known = communicators_.add(handle, stable_hash(own.data(), sizeof own),
                               nullptr, -1, -1);
  }
  if (known != nullptr && known->ranks.load() < 0) {
    known->rank = asked("ncclCommUserRank", handle);
    known->ranks = asked("ncclCommCount", handle);
  }
  return known;
}

uint32_t PreloadSession::info_of(const PreloadCall& call,
                                 PreloadCommunicator* communicator,
                                 ProcessRecorder& recorder) {
  InfoText info;
  info.add("op", call.op);
  if (communicator != nullptr) {
    info.add({communicator->hash, communicator->name, communicator->rank.load(),
              communicator->ranks.load(), -1});
  }
  info.add("data_type", data_type_name(call.data_type));
  if (!call.is_point_to_point) {
    info.add("count", static_cast<int64_t>(call.count));
  }
  info.add(call.is_point_to_point ? "peer" : "root", call.peer);
  info.add_address("stream_address", reinterpret_cast<uint64_t>(call.stream));
  return recorder.string_id(info.take());
}

bool PreloadSession::is_window_open() {
  PreloadSession* session = instance();
  return session == nullptr || session->window_.is_open();
}

void PreloadSession::record(const PreloadCall& call, bool in_window,
                            int64_t start_ns, int64_t end_ns) try {
  ProcessRecorder* to = recorder();
  if (to == nullptr || !to->is_recording()) return;
  PreloadCommunicator* communicator = communicator_of(call.communicator);
  // The same on all ranks, so each call counts.
  int64_t sequence = -1;
  if (communicator != nullptr && !call.is_point_to_point) {
    sequence = communicator->collectives.fetch_add(1);
  }
  if (!in_window && !is_captured(call.stream)) return;
  group_of_thread.has_kept_calls = true;
  ProcessRecord record;
  record.kind = RecordKind::kCollective;
  record.start_ns = start_ns;
  record.end_ns = end_ns;
  record.correlation = nccl_record_id(++last_id_);
  record.graph_node = in_group() ? nccl_record_id(group_of_thread.id) : -1;
  record.bytes = bytes_of(call);
  record.stream = ProcessRecorder::thread_id();
  record.sequence = sequence;
  record.flags = in_window ? 0 : kOutsideWindow;
  record.name = to->string_id(call.op);
  record.info = info_of(call, communicator, *to);
  to->record(record);
} catch (...) {
}

bool PreloadSession::in_group() { return group_of_thread.depth > 0; }

void PreloadSession::begin_group(int64_t start_ns) {
  if (group_of_thread.depth++ > 0) return;
  group_of_thread.id = ++last_id_;
  group_of_thread.start_ns = start_ns;
  group_of_thread.is_outside_window = !window_.is_open();
  group_of_thread.has_kept_calls = false;
}

bool PreloadSession::end_group(int64_t end_ns) try {
  if (group_of_thread.depth == 0 || --group_of_thread.depth > 0) return false;
  // Only what is within makes a shard: communicators are made in groups too.
  ProcessRecorder* to = recorder_.load(std::memory_order_acquire);
  const GroupOfThread& group = group_of_thread;
  if (to == nullptr || (group.is_outside_window && !group.has_kept_calls)) {
    return true;
  }
  ProcessRecord record;
  record.flags = group.is_outside_window ? kOutsideWindow : 0;
  record.kind = RecordKind::kRange;
  record.start_ns = group_of_thread.start_ns;
  record.end_ns = end_ns;
  record.correlation = nccl_record_id(group_of_thread.id);
  record.stream = ProcessRecorder::thread_id();
  record.name = to->string_id("ncclGroup");
  to->record(record);
  return true;
} catch (...) {
  return true;
}

void PreloadSession::finish() {
  PreloadSession* session = made_session.load(std::memory_order_acquire);
  if (session == nullptr) return;
  ProcessRecorder* recorder = session->recorder_.load();
  if (recorder != nullptr) recorder->finish();
}

}  // namespace reprise
