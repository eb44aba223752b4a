#include "tests/replay/findings/injected_step.h"

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

constexpr int64_t kCall_ns = 1'000;  // A call that launches nothing.

int64_t scaled_time(int64_t time_ns, double factor) {
  return static_cast<int64_t>(static_cast<double>(time_ns) * factor);
}

}  // namespace

InjectedStep::InjectedStep(uint32_t ranks) : pace(ranks, 1) {
  for (uint32_t number = 0; number < ranks; ++number) {
    Rank& rank = ranks_.emplace_back();
    rank.host = trace_.host_thread(number);
    rank.compute = trace_.device_stream(number, "stream 7");
    rank.communication = trace_.device_stream(number, "stream 20");
  }
}

void InjectedStep::call(Rank& rank, const std::string& name,
                        int64_t duration_ns) {
  trace_.add(rank.host, EventKind::kRuntime, name, rank.host_ns,
             rank.host_ns + duration_ns, ++correlation_);
  rank.host_ns += duration_ns;
}

// An operator that launches; returns the end of the call.
int64_t InjectedStep::launched(Rank& rank, const std::string& op) {
  const int64_t begin_ns = rank.host_ns;
  rank.host_ns += operator_ns / 2;
  call(rank, "cudaLaunchKernel", launch_ns);
  const int64_t done_ns = rank.host_ns;
  rank.host_ns += operator_ns - operator_ns / 2;
  trace_.add(rank.host, EventKind::kHostOp, op, begin_ns, rank.host_ns);
  return done_ns;
}

void InjectedStep::run_on(Rank& rank, const std::string& name,
                          int64_t duration_ns) {
  const int64_t ready_ns = launched(rank, "aten::" + name);
  const int64_t start_ns = std::max(ready_ns, rank.compute_ns + dispatch_ns);
  rank.compute_ns = start_ns + duration_ns;
  trace_.add(rank.compute, EventKind::kCompute, name, start_ns, rank.compute_ns,
             correlation_);
}

void InjectedStep::kernel(const std::string& name, int64_t duration_ns) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    run_on(ranks_[rank], name, scaled_time(duration_ns, pace[rank]));
  }
}

void InjectedStep::kernel_on(uint32_t rank, const std::string& name,
                             int64_t duration_ns) {
  run_on(ranks_[rank], name, duration_ns);
}

void InjectedStep::collective(CollectiveKind kind, int64_t bytes,
                              int64_t transfer_ns, bool own_stream,
                              const std::string& kernel) {
  CollectiveInfo info;
  info.kind = kind;
  info.communicator = "world";
  info.group_size = static_cast<int64_t>(ranks_.size());
  info.type = PrimitiveType::kF32;
  info.input_elements = info.output_elements = bytes / 4;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    info.group.push_back(rank);
  }
  int64_t arrival_ns = 0;
  std::vector<int64_t> start_ns, launch;
  for (Rank& rank : ranks_) {
    if (own_stream) call(rank, "cudaStreamWaitEvent", kCall_ns);
    const int64_t ready_ns = launched(rank, "c10d::collective");
    launch.push_back(correlation_);
    start_ns.push_back(own_stream
                           ? std::max({ready_ns, rank.compute_ns + dispatch_ns,
                                       rank.communication_ns + dispatch_ns})
                           : std::max(ready_ns, rank.compute_ns + dispatch_ns));
    arrival_ns = std::max(arrival_ns, start_ns.back());
  }
  collectives_.push_back(info);
  for (size_t place = 0; place < ranks_.size(); ++place) {
    Rank& rank = ranks_[place];
    const int64_t end_ns = arrival_ns + transfer_ns;
    (own_stream ? rank.communication_ns : rank.compute_ns) = end_ns;
    Event& event = trace_.add(own_stream ? rank.communication : rank.compute,
                              EventKind::kCollective, kernel, start_ns[place],
                              end_ns, launch[place]);
    event.bytes = bytes;
    event.detail = static_cast<int32_t>(collectives_.size() - 1);
  }
}

void InjectedStep::grouped(uint32_t size, int64_t bytes,
                           const std::vector<int64_t>& transfer_ns) {
  for (uint32_t group = 0; group < transfer_ns.size(); ++group) {
    meet(CollectiveKind::kAllReduce, group * size, bytes,
         std::vector<int64_t>(size, transfer_ns[group]));
  }
}

void InjectedStep::permute(int64_t bytes,
                           const std::vector<int64_t>& transfer_ns) {
  meet(CollectiveKind::kPermute, 0, bytes, transfer_ns);
}

void InjectedStep::meet(CollectiveKind kind, uint32_t first, int64_t bytes,
                        const std::vector<int64_t>& transfer_ns) {
  CollectiveInfo info;
  info.kind = kind;
  info.communicator = "group of " + std::to_string(first);
  info.group_size = static_cast<int64_t>(transfer_ns.size());
  info.type = PrimitiveType::kF32;
  info.input_elements = info.output_elements = bytes / 4;
  int64_t arrival_ns = 0;
  std::vector<int64_t> start_ns, launch;
  for (size_t at = 0; at < transfer_ns.size(); ++at) {
    Rank& rank = ranks_[first + at];
    info.group.push_back(first + static_cast<uint32_t>(at));
    const int64_t ready_ns = launched(rank, "c10d::collective");
    launch.push_back(correlation_);
    start_ns.push_back(std::max(ready_ns, rank.compute_ns + dispatch_ns));
    arrival_ns = std::max(arrival_ns, start_ns.back());
  }
  collectives_.push_back(info);
  for (size_t at = 0; at < transfer_ns.size(); ++at) {
    Rank& rank = ranks_[first + at];
    rank.compute_ns = arrival_ns + transfer_ns[at];
    Event& event =
        trace_.add(rank.compute, EventKind::kCollective, "ncclDevKernel",
                   start_ns[at], rank.compute_ns, launch[at]);
    event.bytes = bytes;
    event.detail = static_cast<int32_t>(collectives_.size() - 1);
  }
}

void InjectedStep::send(uint32_t from, uint32_t to, int64_t bytes,
                        int64_t transfer_ns) {
  int64_t arrival_ns = 0;
  std::vector<int64_t> start_ns, launch;
  for (const uint32_t place : {from, to}) {
    Rank& rank = ranks_[place];
    const int64_t ready_ns = launched(rank, "c10d::message");
    launch.push_back(correlation_);
    start_ns.push_back(std::max(ready_ns, rank.compute_ns + dispatch_ns));
    arrival_ns = std::max(arrival_ns, start_ns.back());
  }
  for (const uint32_t place : {from, to}) {
    CollectiveInfo info;
    info.kind =
        place == from ? CollectiveKind::kSend : CollectiveKind::kReceive;
    info.communicator = "pipeline";
    info.group = {std::min(from, to), std::max(from, to)};
    info.group_size = 2;
    info.type = PrimitiveType::kF32;
    info.input_elements = info.output_elements = bytes / 4;
    info.peer = static_cast<int32_t>(place == from ? to : from);
    collectives_.push_back(info);
    Rank& rank = ranks_[place];
    rank.compute_ns = arrival_ns + transfer_ns;
    Event& event =
        trace_.add(rank.compute, EventKind::kCollective,
                   "ncclDevKernel_SendRecv", start_ns[place == from ? 0 : 1],
                   rank.compute_ns, launch[place == from ? 0 : 1]);
    event.bytes = bytes;
    event.detail = static_cast<int32_t>(collectives_.size() - 1);
  }
}

void InjectedStep::wait_for_communication() {
  for (Rank& rank : ranks_) {
    call(rank, "cudaStreamWaitEvent", kCall_ns);
    rank.compute_ns = std::max(rank.compute_ns, rank.communication_ns);
  }
}

void InjectedStep::synchronize(const std::string& op) {
  for (Rank& rank : ranks_) {
    const int64_t begin_ns = rank.host_ns;
    rank.host_ns += operator_ns / 2;
    const int64_t end_ns = std::max(rank.host_ns, rank.compute_ns) + kCall_ns;
    trace_.add(rank.host, EventKind::kRuntime, "cudaStreamSynchronize",
               rank.host_ns, end_ns, ++correlation_);
    rank.host_ns = end_ns + operator_ns / 2;
    trace_.add(rank.host, EventKind::kHostOp, op, begin_ns, rank.host_ns);
  }
}

void InjectedStep::set_up(int64_t duration_ns) {
  for (Rank& rank : ranks_) call(rank, "cudaMalloc", duration_ns);
}

void InjectedStep::copy(int64_t duration_ns, bool pageable) {
  for (Rank& rank : ranks_) {
    const int64_t called_ns = rank.host_ns;
    const int64_t start_ns =
        std::max(called_ns + launch_ns, rank.compute_ns + dispatch_ns);
    rank.compute_ns = start_ns + duration_ns;
    rank.host_ns =
        pageable ? rank.compute_ns + kCall_ns : called_ns + launch_ns;
    trace_.add(rank.host, EventKind::kRuntime, "cudaMemcpyAsync", called_ns,
               rank.host_ns, ++correlation_);
    trace_.add(rank.compute, EventKind::kCopy,
               pageable ? "Memcpy HtoD (Pageable -> Device)"
                        : "Memcpy HtoD (Pinned -> Device)",
               start_ns, rank.compute_ns, correlation_);
  }
}

void InjectedStep::host_on(uint32_t rank, const std::string& name,
                           int64_t duration_ns) {
  Rank& own = ranks_[rank];
  const int64_t begin_ns = own.host_ns;
  own.host_ns += duration_ns;
  trace_.add(own.host, EventKind::kHostOp, name, begin_ns, own.host_ns);
}

void InjectedStep::load_data(int64_t duration_ns, EventKind kind) {
  for (Rank& rank : ranks_) {
    const int64_t begin_ns = rank.host_ns;
    rank.host_ns += duration_ns;
    trace_.add(rank.host, kind,
               "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
               begin_ns, rank.host_ns);
    // What it calls is part of it.
    trace_.add(rank.host, EventKind::kHostOp, "aten::stack",
               begin_ns + duration_ns / 4, begin_ns + duration_ns / 2);
  }
}

int64_t InjectedStep::span_ns() const {
  int64_t span_ns = 0;
  for (const Rank& rank : ranks_) {
    span_ns = std::max(
        {span_ns, rank.host_ns, rank.compute_ns, rank.communication_ns});
  }
  return span_ns;
}

Trace InjectedStep::trace() {
  for (uint32_t number = 0; number < ranks_.size(); ++number) {
    trace_.step(number, 0, 0, ranks_[number].host_ns);
  }
  Trace trace = trace_.trace();
  trace.collectives = collectives_;
  return trace;
}

}  // namespace reprise
