// The data-flow graph names operators and tensors once; the timeline has them
// once a step. So each edge becomes, in every step, a dependency of the first
// event of its one end on the last event of its other, where a tensor's
// communication stands for all events of its reduction. Cost: the graph's size
// times the steps, which is bounded; steps beyond go without dependencies.
#include "data/formats/dpro/dpro_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "data/io/json_scan.h"
#include "data/io/json_text.h"

namespace reprise {
namespace {

/// Size of the graph times steps; beyond, steps are left without dependencies.
constexpr size_t kMostWork = size_t{1} << 28;
constexpr size_t kMostDependencies = size_t{1} << 22;
/// Of a long group, the first so many tensors are named.
constexpr size_t kMostNames = 64;

int64_t end_of(const DproReduction& reduction) {
  int64_t end_ns = INT64_MIN;
  for (const TimelineSpan& span : reduction.stages) {
    end_ns = std::max(end_ns, span.end_ns);
  }
  return end_ns;
}

std::vector<uint32_t> all_ranks(uint32_t world_size) {
  std::vector<uint32_t> ranks(world_size);
  for (uint32_t rank = 0; rank < world_size; ++rank) ranks[rank] = rank;
  return ranks;
}

}  // namespace

DproRank::DproRank(TraceSpool& spool, FileReport& report, uint32_t rank,
                   uint32_t world_size, const DproGraph& graph,
                   const DproTensors& tensors)
    : spool_(spool),
      report_(report),
      rank_(rank),
      world_size_(world_size),
      graph_(graph),
      tensors_(tensors) {}

void DproRank::add(DproOperations& operations,
                   const DproCommunication& communication,
                   const std::vector<DproExchange>& exchanges,
                   int64_t next_id) {
  next_id_ = next_id;
  add_operations(operations);
  add_reductions(communication, operations);
  add_exchanges(exchanges);
  add_steps(operations.steps());
  std::stable_sort(
      members_.begin(), members_.end(), [](const Member& a, const Member& b) {
        return std::tie(a.step, a.tensor) < std::tie(b.step, b.tensor);
      });
  add_dependencies(operations);
}

void DproRank::add_exchanges(const std::vector<DproExchange>& exchanges) {
  for (const DproExchange& exchange : exchanges) {
    for (const uint32_t tensor : exchange.tensors) {
      members_.push_back(
          {exchange.step, tensor, {exchange.first, exchange.last}});
    }
  }
}

void DproRank::add_operations(const DproOperations& operations) {
  first_operation_ = next_id_;
  for (const DproOperation& operation : operations.operations()) {
    Event event;
    event.rank = rank_;
    event.stream = operation.stream;
    event.kind = operation.kind;
    event.step = operations.number_of(operation.step);
    event.name = operation.name;
    event.start_ns = event.enqueue_ns = operation.start_ns;
    event.end_ns = operation.end_ns;
    event.external_id = next_id_++;
    report_.kernels += operation.kind == EventKind::kCompute;
    spool_.add(event);
  }
}

uint32_t DproRank::stream(uint32_t& place, const char* name, StreamKind kind) {
  if (place != UINT32_MAX) return place;
  StreamInfo info{.rank = rank_, .name = name, .kind = kind};
  if (kind == StreamKind::kDeviceStream) {
    info.device = 0;
    info.number = INT16_MAX;  // Apart from the operators' rows.
  }
  return place = spool_.add_stream(std::move(info));
}

int32_t DproRank::reduction_info(const DproCommunication::Group& group,
                                 int64_t& bytes) {
  CollectiveInfo info{.kind = CollectiveKind::kAllReduce,
                      .communicator = "horovod",
                      .group = all_ranks(world_size_),
                      .group_size = world_size_};
  int64_t elements = 0;
  bytes = 0;
  for (const uint32_t id : group.tensors) {
    const DproTensor* const tensor = tensors_.find(id);
    const int64_t size = tensor == nullptr ? 0 : tensor->bytes();
    if (size == 0 || __builtin_add_overflow(bytes, size, &bytes)) {
      bytes = 0;
      elements = -1;
      break;
    }
    elements += tensor->elements;
    if (!info.type) info.type = tensor->type;
  }
  info.input_elements = info.output_elements = elements;
  return spool_.add_collective(info);
}

int32_t DproRank::negotiation_info() {
  if (negotiation_ >= 0) return negotiation_;
  return negotiation_ =
             spool_.add_collective({.kind = CollectiveKind::kBarrier,
                                    .communicator = "horovod negotiation",
                                    .group = all_ranks(world_size_),
                                    .group_size = world_size_});
}

/// {"tensors":["w1","w2"]}, or nothing where no name is known.
std::string DproRank::tensor_names(
    const DproCommunication::Group& group) const {
  std::string names;
  for (const uint32_t id : group.tensors) {
    const DproTensor* const tensor = tensors_.find(id);
    if (tensor == nullptr) return {};
    if (!names.empty()) names += ',';
    names += json_quoted(tensor->name);
    if (&id - group.tensors.data() == kMostNames - 1) break;
  }
  return fmt::format(R"({{"tensors":[{}]}})", names);
}

void DproRank::add_stage(const DproReduction& reduction, DproStage stage,
                         const std::string& name, Event event, Ends& ends) {
  if (!reduction.has(stage)) return;
  const TimelineSpan& span = reduction.stages[static_cast<size_t>(stage)];
  event.rank = rank_;
  event.step = step_number_;
  event.name = spool_.intern(name);
  event.start_ns = event.enqueue_ns = span.start_ns;
  event.end_ns = span.end_ns;
  if (event.kind != EventKind::kAnnotation) {
    event.external_id = next_id_++;
    if (ends.last >= 0) {
      spool_.add_dependency({rank_, ends.last, event.external_id});
    }
    if (ends.first < 0) ends.first = event.external_id;
    ends.last = event.external_id;
  }
  report_.collectives += event.kind == EventKind::kCollective;
  spool_.add(event);
}

void DproRank::add_reduction(const DproReduction& reduction,
                             const DproCommunication::Group& group,
                             Ends& ends) {
  const std::string name = "Comm." + group.name;
  int64_t bytes = 0;
  const int32_t info = reduction_info(group, bytes);
  const uint32_t device =
      stream(transfer_stream_, "communication", StreamKind::kDeviceStream);
  if (reduction.has(DproStage::kNegotiation)) {
    Event negotiation;
    negotiation.kind = EventKind::kCollective;
    negotiation.stream =
        stream(negotiation_stream_, "negotiation", StreamKind::kTensor);
    negotiation.detail = negotiation_info();
    add_stage(reduction, DproStage::kNegotiation, name + ".Sync", negotiation,
              ends);
  }
  if (reduction.has(DproStage::kQueue)) {
    Event queue;
    queue.kind = EventKind::kAnnotation;
    queue.stream = stream(queue_stream_, "queue", StreamKind::kTensor);
    add_stage(reduction, DproStage::kQueue, name + ".QUEUE", queue, ends);
  }
  Event copy;
  copy.kind = EventKind::kCopy;
  copy.stream = device;
  copy.bytes = bytes;
  add_stage(reduction, DproStage::kCopyIn, name + ".MEMCPY_IN_FUSION_BUFFER",
            copy, ends);
  Event transfer;
  transfer.kind = EventKind::kCollective;
  transfer.stream = device;
  transfer.bytes = bytes;
  transfer.detail = info;
  if (const std::string names = tensor_names(group); !names.empty()) {
    transfer.attributes = static_cast<int32_t>(index_of(spool_.intern(names)));
  }
  add_stage(reduction,
            reduction.has(DproStage::kTransfer) ? DproStage::kTransfer
                                                : DproStage::kWhole,
            name, transfer, ends);
  add_stage(reduction, DproStage::kCopyOut, name + ".MEMCPY_OUT_FUSION_BUFFER",
            copy, ends);
}

void DproRank::add_reductions(const DproCommunication& communication,
                              DproOperations& operations) {
  int64_t last = -1, last_end_ns = 0;
  for (const DproReduction& reduction : communication.reductions()) {
    const DproCommunication::Group& group =
        communication.groups()[reduction.group];
    Ends ends;
    step_number_ = operations.number_of(reduction.step);
    add_reduction(reduction, group, ends);
    // Horovod's thread does one after the other: what began when the last one
    // had ended, waited for it.
    if (last >= 0 && ends.first >= 0 && reduction.start_ns() >= last_end_ns) {
      spool_.add_dependency({rank_, last, ends.first});
    }
    if (ends.last >= 0) {
      last = ends.last;
      last_end_ns = end_of(reduction);
    }
    if (reduction.step >= 0) {
      DproStep& step = operations.steps()[static_cast<size_t>(reduction.step)];
      for (const TimelineSpan& span : reduction.stages) {
        step.end_ns = std::max(step.end_ns, span.end_ns);
      }
    }
    if (ends.first < 0) continue;
    for (const uint32_t tensor : group.tensors) {
      members_.push_back({reduction.step, tensor, ends});
    }
  }
}

void DproRank::add_steps(const std::vector<DproStep>& steps) {
  for (const DproStep& step : steps) {
    spool_.add_step({.rank = rank_,
                     .step = step.number,
                     .start_ns = step.start_ns,
                     .end_ns = step.end_ns});
    ++report_.steps;
  }
}

void DproRank::find_communication_nodes() {
  constexpr std::string_view kPrefix = "Comm.";
  node_tensors_.resize(graph_.size());
  node_ends_.resize(graph_.size());
  for (uint32_t node = 0; node < graph_.size(); ++node) {
    const std::string_view name = graph_.name(node);
    if (!name.starts_with(kPrefix)) continue;
    node_tensors_[node] = dpro_tensor_ids(name.substr(kPrefix.size()));
    named_tensors_ += node_tensors_[node].size();
  }
}

/// The events that the nodes of the graph are in one step.
void DproRank::find_ends(int32_t step, std::span<const DproOperation> all,
                         std::span<const size_t> of_step) {
  for (std::vector<Ends>& ends : node_ends_) ends.clear();
  for (const size_t i : of_step) {
    if (all[i].node == kNoDproNode) continue;
    std::vector<Ends>& ends = node_ends_[all[i].node];
    const int64_t id = first_operation_ + static_cast<int64_t>(i);
    if (ends.empty()) ends.push_back({id, id});
    ends.back().last = id;  // Several in a row are one operator.
  }
  for (uint32_t node = 0; node < graph_.size(); ++node) {
    for (const uint32_t tensor : node_tensors_[node]) {
      auto member = std::lower_bound(members_.begin(), members_.end(),
                                     std::pair(step, tensor),
                                     [](const Member& m, const auto& key) {
                                       return std::pair(m.step, m.tensor) < key;
                                     });
      for (; member != members_.end() && member->step == step &&
             member->tensor == tensor;
           ++member) {
        node_ends_[node].push_back(member->ends);
      }
    }
  }
}

void DproRank::add_edges() {
  for (const auto& [from, to] : graph_.edges()) {
    for (const Ends& before : node_ends_[from]) {
      for (const Ends& after : node_ends_[to]) {
        if (dependencies_ == kMostDependencies) {
          ++report_.dropped["dependency beyond the largest number"];
          return;
        }
        ++dependencies_;
        spool_.add_dependency({rank_, before.last, after.first});
      }
    }
  }
}

void DproRank::add_dependencies(const DproOperations& operations) {
  if (graph_.edges().empty()) return;
  find_communication_nodes();
  const std::span<const DproOperation> all = operations.operations();
  const size_t steps = operations.steps().size();
  const size_t work = graph_.edges().size() + graph_.size() + named_tensors_;
  std::vector<std::vector<size_t>> by_step(std::min(steps, kMostWork / work));
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].step < 0) continue;
    const auto step = static_cast<size_t>(all[i].step);
    if (step < by_step.size()) by_step[step].push_back(i);
  }
  for (size_t step = 0; step < by_step.size(); ++step) {
    find_ends(static_cast<int32_t>(step), all, by_step[step]);
    add_edges();
  }
  if (steps > by_step.size()) {
    report_.dropped["step whose dependencies are too many"] +=
        static_cast<int64_t>(steps - by_step.size());
  }
}

}  // namespace reprise
