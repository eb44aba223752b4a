// What is behind the fake driver: memory, streams, events, graphs, and the
// scheduler that runs enqueued work late and in an adversarial order. One lock
// for all; every member function expects it held.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/profiler/inject/fake_tracer.h"

namespace fake {

using reprise::fake::Activity;
using reprise::fake::Tracer;

using Work = std::function<void()>;
using Ready = std::function<bool()>;

struct Node {
  Work work;
  Ready ready;  ///< Empty: at once.
  std::set<size_t> dependencies;
  Activity activity;
  uint64_t id = 0;  ///< Tools know it by.
};

struct Graph {
  std::vector<Node> nodes;
  bool capturing = false;
  std::thread::id
      thread;            ///< That captures: what it must not call, others may.
  bool invalid = false;  ///< Something was called that capture forbids.
};

struct EventState {
  bool timed = true;
  uint32_t number = 0;           ///< Tools know it by.
  uint64_t sync_id = 0;          ///< The latest recording, for tools.
  uint64_t recorded = 0;         ///< Times recorded so far.
  uint64_t completed = 0;        ///< The latest recording that was reached.
  int64_t time_ns = 0;           ///< When.
  std::shared_ptr<Graph> graph;  ///< Recorded under capture,
  std::set<size_t> tail;         ///< after these nodes.
};

/// A launched graph, partly run.
struct Running {
  Running(std::shared_ptr<const Graph> launched, uint32_t of_call,
          uint32_t on_stream);
  std::shared_ptr<const Graph> graph;
  uint32_t correlation = 0;   ///< Of its launch,
  uint32_t stream = 0;        ///< and the stream's number.
  std::vector<size_t> unmet;  ///< `[node]` dependencies not yet run.
  std::set<size_t> open;      ///< Nodes without any, not yet run.
  std::vector<std::vector<size_t>> after;  ///< `[node]` who depends on it.
};

struct Operation {
  Work work;                            ///< Runs it,
  Ready ready;                          ///< once this holds; or
  std::shared_ptr<EventState> records;  ///< completes `generation`; or
  std::shared_ptr<EventState> waits;    ///< waits for it; or
  std::shared_ptr<Running> launch;      ///< runs all nodes.
  uint64_t generation = 0;
  Activity activity;
};

struct Stream {
  uint32_t number = 0;  ///< Tools know it by.
  std::deque<Operation> queue;
  std::shared_ptr<Graph> capture;  ///< Set while captured.
  bool is_origin = false;
  std::set<size_t> tail;
};

struct Allocation {
  uint64_t bytes = 0;
  void* mapping = nullptr;
  uint64_t mapping_bytes = 0;
  bool on_device = true;
  bool live = true;
};

class Device {
 public:
  static Device& get();
  std::recursive_mutex mutex;

  // Memory.
  uint64_t allocate(uint64_t bytes, bool on_device);
  bool release(uint64_t address, bool on_device);
  /// Live memory of that kind covers the range; reports otherwise.
  bool covers(uint64_t address, uint64_t bytes, bool on_device,
              const char* what);

  // Objects by handle. `kind` names what a handle must be.
  void* add(const std::string& kind);
  bool remove(void* handle, const std::string& kind);
  bool is_live(void* handle, const std::string& kind);

  Stream* stream(CUstream handle);  ///< Null and a report if there is none.
  std::shared_ptr<EventState> event(CUevent handle);
  void make_stream(void* handle);
  void make_event(void* handle);

  /// Appends work, or a node where the stream is captured. `activity`: what
  /// tools see of it, but for its stream and its times; nothing if of kind 0.
  void enqueue(Stream& stream, Activity activity, Work work, Ready ready = {});
  void record(Stream& stream, const std::shared_ptr<EventState>& event);
  CUresult wait(Stream& stream, const std::shared_ptr<EventState>& event);
  void launch(Stream& stream, const std::shared_ptr<const Graph>& graph,
              uint32_t correlation);
  /// A copy of the graph with nodes of its own.
  std::shared_ptr<const Graph> instantiate(const Graph& graph);
  CUresult end_capture(Stream& origin, std::shared_ptr<Graph>* graph);
  /// Of the calling thread (CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).
  void invalidate_captures();
  bool is_capturing() const;

  /// Runs operations in a seeded order until `done`, letting other threads in
  /// while all wait for another rank. False, with a report, when nothing can
  /// run any more.
  bool run_until(const std::function<bool()>& done);
  /// Runs at most `count` operations.
  void run_some(uint64_t count);
  bool is_idle() const;
  /// Does work now, and shows it to a tool.
  void perform(const Work& work, Activity activity);

  /// The device's clock goes on, in work that it runs.
  void pass_time(int64_t nanoseconds) { clock_ns_ += nanoseconds; }

  void report(const std::string& line);
  int live_objects() const;

  std::mt19937_64 random{0};
  std::string misuse;
  CUresult sticky = CUDA_SUCCESS;  ///< An error that no later call survives.
  std::map<std::string, uint64_t> calls;
  std::map<std::string, std::pair<uint64_t, CUresult>> failures;
  /// Launches until the one whose kernel never ends; none if negative.
  int64_t launches_to_hang = -1;
  std::map<void*, std::shared_ptr<Graph>> graphs;
  std::map<void*, std::shared_ptr<const Graph>> executables;
  std::map<void*, void*> modules;  ///< Handle -> library, or null.
  int retained_contexts = 0;
  const Tracer* tracer = nullptr;  ///< Null: no tool watches.
  uint32_t correlations = 0;       ///< Calls so far.
  uint64_t recordings = 0;         ///< Of events so far.

 private:
  bool advance();
  bool can_run(const Stream& stream) const;
  bool waits_for_a_rank() const;
  void run_one(Stream& stream);
  void run_node(Running& running);
  void shuffle();

  std::map<uint64_t, Allocation> memory_;       ///< By address.
  std::map<void*, std::string> objects_;        ///< Live ones.
  std::vector<std::unique_ptr<char>> handles_;  ///< Never given out twice.
  std::map<void*, std::unique_ptr<Stream>> streams_;
  std::map<void*, std::shared_ptr<EventState>> events_;
  std::vector<Stream*> order_;  ///< Preference among streams, reshuffled.
  int64_t clock_ns_ = 0;        ///< One microsecond for each operation.
  bool newest_first_ = false;   ///< Preference among nodes of a graph.
  uint32_t streams_made_ = 0, events_made_ = 0;
  uint64_t nodes_made_ = 0;
};

}  // namespace fake
