#include "tests/runtime/cuda/fake_device.h"

#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace fake {
namespace {

constexpr unsigned kFlushDenormals = 0x8040;  ///< FTZ and DAZ of MXCSR.
constexpr uint64_t kPage = 4096;
constexpr uint64_t kAlignment = 256;
/// NaN in every floating-point type, -1 in every integer.
constexpr int kPoison = 0xFF;
/// What tools see a graph's other branches run on: their streams' numbers under
/// capture, and this.
constexpr uint32_t kGraphStreams = 1000;
/// For another rank, before it counts as a deadlock.
constexpr std::chrono::seconds kLongestWait(100);

// The nodes that could run now.
std::vector<size_t> ready_nodes(const Running& running) {
  std::vector<size_t> ready;
  for (const size_t node : running.open) {
    const Ready& may_run = running.graph->nodes[node].ready;
    if (!may_run || may_run()) ready.push_back(node);
  }
  return ready;
}

// As on the device, and in the CPU runtime's threads.
void run(const Work& work) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | kFlushDenormals);
  work();
  _mm_setcsr(before);
}

bool is_of_this_thread(const std::shared_ptr<Graph>& capture) {
  return capture && capture->thread == std::this_thread::get_id();
}

/// The nodes given and all that they depend on.
std::set<size_t> closure(const Graph& graph, const std::set<size_t>& nodes) {
  std::set<size_t> seen;
  std::vector<size_t> open(nodes.begin(), nodes.end());
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    const std::set<size_t>& before = graph.nodes[node].dependencies;
    open.insert(open.end(), before.begin(), before.end());
  }
  return seen;
}

}  // namespace

Running::Running(std::shared_ptr<const Graph> launched, uint32_t of_call,
                 uint32_t on_stream)
    : graph(std::move(launched)),
      correlation(of_call),
      stream(on_stream),
      after(graph->nodes.size()) {
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    const std::set<size_t>& before = graph->nodes[i].dependencies;
    unmet.push_back(before.size());
    if (before.empty()) open.insert(i);
    for (const size_t node : before) after[node].push_back(i);
  }
}

Device& Device::get() {
  static Device* device = new Device();  // Lives as long as the process.
  return *device;
}

// The memory ends at a page that cannot be touched.
uint64_t Device::allocate(uint64_t bytes, bool on_device) {
  const uint64_t padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const uint64_t body = (padded + kPage - 1) / kPage * kPage;
  void* mapping = ::mmap(nullptr, body + kPage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return 0;
  std::memset(mapping, kPoison, body);
  ::mprotect(static_cast<char*>(mapping) + body, kPage, PROT_NONE);
  const uint64_t address = reinterpret_cast<uint64_t>(mapping) + body - padded;
  memory_[address] = {.bytes = bytes,
                      .mapping = mapping,
                      .mapping_bytes = body + kPage,
                      .on_device = on_device};
  return address;
}

bool Device::release(uint64_t address, bool on_device) {
  const auto found = memory_.find(address);
  if (found == memory_.end() || !found->second.live ||
      found->second.on_device != on_device) {
    report("memory freed that is not allocated");
    return false;
  }
  // The address is never given out again, and no access to it survives.
  found->second.live = false;
  ::mprotect(found->second.mapping, found->second.mapping_bytes, PROT_NONE);
  ::madvise(found->second.mapping, found->second.mapping_bytes, MADV_DONTNEED);
  return true;
}

bool Device::covers(uint64_t address, uint64_t bytes, bool on_device,
                    const char* what) {
  auto found = memory_.upper_bound(address);
  if (found != memory_.begin()) {
    --found;
    const Allocation& allocation = found->second;
    const uint64_t room =
        (allocation.bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (allocation.live && allocation.on_device == on_device &&
        address - found->first + bytes <= room) {
      return true;
    }
  }
  report(std::string(what) + " of " + std::to_string(bytes) +
         (on_device ? " bytes outside device memory"
                    : " bytes outside page-locked memory"));
  sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
  return false;
}

void* Device::add(const std::string& kind) {
  handles_.push_back(std::make_unique<char>());
  void* handle = handles_.back().get();
  objects_[handle] = kind;
  return handle;
}

bool Device::is_live(void* handle, const std::string& kind) {
  const auto found = objects_.find(handle);
  if (found != objects_.end() && found->second == kind) return true;
  report("no such " + kind);
  return false;
}

bool Device::remove(void* handle, const std::string& kind) {
  if (!is_live(handle, kind)) return false;
  objects_.erase(handle);
  if (kind == "stream") {
    if (!streams_[handle]->queue.empty())
      report("stream destroyed with work in it");
    order_.erase(
        std::find(order_.begin(), order_.end(), streams_[handle].get()));
    streams_.erase(handle);
  }
  if (kind == "event") events_.erase(handle);
  return true;
}

// CUPTI's numbers: 7 for the default stream, 13 and more for others.
void Device::make_stream(void* handle) {
  streams_[handle] = std::make_unique<Stream>();
  streams_[handle]->number = handle == nullptr ? 7 : 13 + streams_made_++;
  order_.push_back(streams_[handle].get());
  shuffle();
}

void Device::make_event(void* handle) {
  events_[handle] = std::make_shared<EventState>();
  events_[handle]->number = ++events_made_;
}

// The default stream is one like the others, made when first used.
Stream* Device::stream(CUstream handle) {
  if (handle == nullptr) {
    if (!streams_.contains(nullptr)) make_stream(nullptr);
    return streams_[nullptr].get();
  }
  return is_live(handle, "stream") ? streams_[handle].get() : nullptr;
}

std::shared_ptr<EventState> Device::event(CUevent handle) {
  return is_live(handle, "event") ? events_[handle] : nullptr;
}

void Device::enqueue(Stream& stream, Activity activity, Work work,
                     Ready ready) {
  activity.stream = stream.number;
  if (stream.capture) {
    Graph& graph = *stream.capture;
    graph.nodes.push_back({.work = std::move(work),
                           .ready = std::move(ready),
                           .dependencies = stream.tail,
                           .activity = activity,
                           .id = ++nodes_made_});
    stream.tail = {graph.nodes.size() - 1};
    if (tracer != nullptr) tracer->graph_node(nodes_made_, 0);
    return;
  }
  Operation operation;
  operation.work = std::move(work);
  operation.ready = std::move(ready);
  operation.activity = activity;
  stream.queue.push_back(std::move(operation));
}

void Device::record(Stream& stream, const std::shared_ptr<EventState>& event) {
  if (stream.capture) {
    event->graph = stream.capture;
    event->tail = stream.tail;
    return;
  }
  event->graph = nullptr;
  event->sync_id = ++recordings;
  Operation operation;
  operation.records = event;
  operation.generation = ++event->recorded;
  stream.queue.push_back(std::move(operation));
}

CUresult Device::wait(Stream& stream,
                      const std::shared_ptr<EventState>& event) {
  if (event->graph && event->graph->capturing) {
    if (stream.capture && stream.capture != event->graph)
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    stream.capture = event->graph;
    stream.tail.insert(event->tail.begin(), event->tail.end());
    return CUDA_SUCCESS;
  }
  if (stream.capture) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  if (event->graph) return CUDA_ERROR_CAPTURED_EVENT;
  // An event never recorded counts as complete: waiting for it is a mistake
  // that a real driver does not tell either.
  Operation operation;
  operation.waits = event;
  operation.generation = event->recorded;
  stream.queue.push_back(std::move(operation));
  return CUDA_SUCCESS;
}

void Device::launch(Stream& stream, const std::shared_ptr<const Graph>& graph,
                    uint32_t correlation) {
  Operation operation;
  operation.launch =
      std::make_shared<Running>(graph, correlation, stream.number);
  stream.queue.push_back(std::move(operation));
}

// Tools hear of its nodes twice: that they are made, and of which they are
// clones. Source: the sample cuda_graphs_trace of CUPTI, which leaves out the
// former.
std::shared_ptr<const Graph> Device::instantiate(const Graph& graph) {
  auto made = std::make_shared<Graph>(graph);
  for (Node& node : made->nodes) {
    const uint64_t original = std::exchange(node.id, ++nodes_made_);
    if (tracer == nullptr) continue;
    tracer->graph_node(node.id, 0);
    tracer->graph_node(node.id, original);
  }
  return made;
}

CUresult Device::end_capture(Stream& origin, std::shared_ptr<Graph>* graph) {
  const std::shared_ptr<Graph> captured = origin.capture;
  if (!captured || !origin.is_origin) return CUDA_ERROR_ILLEGAL_STATE;
  const std::set<size_t> joined = closure(*captured, origin.tail);
  for (auto& [handle, stream] : streams_) {
    if (stream->capture != captured) continue;
    stream->capture = nullptr;
    stream->is_origin = false;
    stream->tail.clear();
  }
  captured->capturing = false;
  if (captured->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (joined.size() != captured->nodes.size())
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = captured;
  return CUDA_SUCCESS;
}

bool Device::is_capturing() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const auto& entry) {
    return is_of_this_thread(entry.second->capture);
  });
}

void Device::invalidate_captures() {
  for (auto& [handle, stream] : streams_) {
    if (is_of_this_thread(stream->capture)) stream->capture->invalid = true;
  }
}

bool Device::can_run(const Stream& stream) const {
  if (stream.queue.empty()) return false;
  const Operation& head = stream.queue.front();
  if (head.launch) {
    return head.launch->graph->nodes.empty() ||
           !ready_nodes(*head.launch).empty();
  }
  if (head.ready && !head.ready()) return false;
  return head.waits == nullptr || head.waits->completed >= head.generation;
}

bool Device::waits_for_a_rank() const {
  return std::any_of(order_.begin(), order_.end(), [](const Stream* stream) {
    return !stream->queue.empty() &&
           (stream->queue.front().ready || stream->queue.front().launch);
  });
}

void Device::run_one(Stream& stream) {
  clock_ns_ += 1000;
  Operation& head = stream.queue.front();
  if (head.launch) {
    run_node(*head.launch);
    if (!head.launch->open.empty()) return;
  } else if (head.records) {
    head.records->completed = head.generation;
    head.records->time_ns = clock_ns_;
  } else if (head.work) {
    const Work work = std::move(head.work);
    perform(work, head.activity);
  }
  stream.queue.pop_front();
}

void Device::perform(const Work& work, Activity activity) {
  if (tracer == nullptr || activity.kind == 0) return run(work);
  activity.start = tracer->now();
  run(work);
  activity.end = tracer->now();
  tracer->device(&activity);
}

void Device::run_node(Running& running) {
  const std::vector<size_t> ready = ready_nodes(running);
  if (ready.empty()) return;
  size_t chosen = newest_first_ ? ready.back() : ready.front();
  if (random() % 4 == 0) chosen = ready[random() % ready.size()];
  const Node& node = running.graph->nodes[chosen];
  Activity activity = node.activity;
  activity.correlation = running.correlation;
  activity.graph_node = node.id;
  if (activity.stream != running.stream) activity.stream += kGraphStreams;
  perform(node.work, activity);
  running.open.erase(chosen);
  for (const size_t next : running.after[chosen]) {
    if (--running.unmet[next] == 0) running.open.insert(next);
  }
}

void Device::shuffle() {
  std::shuffle(order_.begin(), order_.end(), random);
  newest_first_ = random() % 2 == 0;
}

// Mostly the stream preferred now, so that others fall far behind.
bool Device::advance() {
  if (random() % 16 == 0) shuffle();
  std::vector<Stream*> able;
  for (Stream* stream : order_) {
    if (can_run(*stream)) able.push_back(stream);
  }
  if (able.empty()) return false;
  run_one(random() % 4 == 0 ? *able[random() % able.size()] : *able.front());
  return true;
}

bool Device::run_until(const std::function<bool()>& done) {
  shuffle();
  const auto deadline = std::chrono::steady_clock::now() + kLongestWait;
  while (!done()) {
    if (advance()) continue;
    if (!waits_for_a_rank() || std::chrono::steady_clock::now() > deadline) {
      report("streams wait for each other");
      return false;
    }
    // The caller holds the lock once.
    mutex.unlock();
    std::this_thread::yield();
    mutex.lock();
  }
  return true;
}

void Device::run_some(uint64_t count) {
  while (count-- > 0 && advance()) {
  }
}

bool Device::is_idle() const {
  return std::all_of(order_.begin(), order_.end(), [](const Stream* stream) {
    return stream->queue.empty();
  });
}

void Device::report(const std::string& line) { misuse += line + "\n"; }

int Device::live_objects() const {
  const auto live =
      std::count_if(memory_.begin(), memory_.end(),
                    [](const auto& entry) { return entry.second.live; });
  return static_cast<int>(live) + static_cast<int>(objects_.size()) +
         retained_contexts;
}

}  // namespace fake
