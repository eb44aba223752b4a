// pge: profile-guided estimates for PyTorch Inductor's scheduler of overlap
// (torch 2.13 and newer), in the form of the one trace that it reads, but with
// one event for each distinct collective and operator: of collectives, the
// transfer without the waiting, from all ranks; of operators, the median.
//
// Inductor's side: torch/_inductor/fx_passes/profile_guided_estimation.py. It
// keys collectives by kind, ranks of the group, type and elements of the
// output; operators by name, shapes, strides and the first type. It averages
// what repeats, so nothing here does.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/export/export_target.h"
#include "data/file.h"
#include "data/io/json_tree.h"
#include "data/number_text.h"
#include "data/sha256.h"
#include "replay/clocks/aligned_trace.h"
#include "replay/estimates/collective_estimates.h"
#include "replay/estimates/operator_estimates.h"

namespace reprise {
namespace {

using Json = nlohmann::ordered_json;

/// What PyTorch's profiler calls a kind; "" of those that Inductor does not
/// look up.
std::string_view recorded_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "allreduce";
    case CollectiveKind::kAllGather:
      return "_allgather_base";
    case CollectiveKind::kReduceScatter:
      return "_reduce_scatter_base";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    default:
      return {};
  }
}

/// The type as in torch.tensor([], dtype=…).type().
std::string_view torch_type(PrimitiveType type) {
  static const std::map<PrimitiveType, std::string_view> names = {
      {PrimitiveType::kPred, "Bool"},
      {PrimitiveType::kS8, "Char"},
      {PrimitiveType::kS16, "Short"},
      {PrimitiveType::kS32, "Int"},
      {PrimitiveType::kS64, "Long"},
      {PrimitiveType::kU8, "Byte"},
      {PrimitiveType::kF16, "Half"},
      {PrimitiveType::kBF16, "BFloat16"},
      {PrimitiveType::kF32, "Float"},
      {PrimitiveType::kF64, "Double"},
      {PrimitiveType::kF8E4M3FN, "Float8_e4m3fn"},
      {PrimitiveType::kF8E5M2, "Float8_e5m2"},
      {PrimitiveType::kF8E4M3FNUZ, "Float8_e4m3fnuz"},
      {PrimitiveType::kF8E5M2FNUZ, "Float8_e5m2fnuz"},
  };
  const auto found = names.find(type);
  return found == names.end() ? std::string_view() : found->second;
}

double microseconds(int64_t time_ns) {
  return static_cast<double>(time_ns) / 1e3;
}

/// Contiguous strides of these dimensions, as PyTorch has them.
Json contiguous(const Json& dims) {
  Json strides = Json::array();
  for (const Json& tensor : dims) {
    Json of_tensor = Json::array();
    int64_t stride = 1;
    for (size_t i = tensor.is_array() ? tensor.size() : 0; i-- > 0;) {
      if (!tensor[i].is_number_integer()) return Json::array();
      of_tensor.insert(of_tensor.begin(), stride);
      const int64_t extent = std::max<int64_t>(tensor[i].get<int64_t>(), 1);
      if (__builtin_mul_overflow(stride, extent, &stride)) return Json::array();
    }
    strides.push_back(std::move(of_tensor));
  }
  return strides;
}

class Estimates {
 public:
  void add(const CollectiveEstimate& estimate) {
    const std::string_view name = recorded_name(estimate.kind);
    if (name.empty()) return;
    const std::string_view type =
        estimate.type ? torch_type(*estimate.type) : std::string_view();
    const int64_t bits =
        estimate.type ? primitive_type_bits(*estimate.type) : 0;
    const auto size = static_cast<int64_t>(estimate.group.size());
    if (type.empty() || bits < 8 || size == 0 || estimate.transfer_ns <= 0) {
      unkeyed_ += estimate.calls;
      return;
    }
    const CollectiveFacts& facts = facts_of(estimate.kind);
    const int64_t elements = estimate.bytes / (bits / 8);
    const auto of_rank = [&](BufferShare share) {
      return share == BufferShare::kPart ? elements / size : elements;
    };
    groups_.insert(estimate.group);
    events_.push_back(
        {{"ph", "X"},
         {"cat", "kernel"},
         {"name", "ncclDevKernel"},
         {"ts", 0},
         {"dur", microseconds(estimate.transfer_ns)},
         {"args",
          {{"Collective name", name},
           {"In msg nelems", of_rank(facts.input)},
           {"Out msg nelems", of_rank(facts.output)},
           {"Group size", size},
           {"dtype", type},
           {"Process Group Name", group_name(estimate.group)},
           {"Process Group Ranks", json_text(Json(estimate.group))}}}});
    ++collectives_;
    incomplete_ += estimate.incomplete;
    transfer_ns_ += estimate.transfer_ns * estimate.calls;
    recorded_ns_ += estimate.recorded_ns * estimate.calls;
  }

  void add(const OperatorEstimate& estimate) {
    if (estimate.device_ns <= 0) return;
    if (estimate.dims.empty()) {
      shapeless_ += estimate.calls;
      return;
    }
    const Json dims = parse_json_or_discard<Json>(estimate.dims);
    Json strides = parse_json_or_discard<Json>(estimate.strides);
    if (estimate.strides.empty()) {
      strides = contiguous(dims);
      ++assumed_;
    }
    const int64_t id = ++operators_;
    events_.push_back({{"ph", "X"},
                       {"cat", "cpu_op"},
                       {"name", estimate.name},
                       {"ts", 0},
                       {"dur", 0},
                       {"args",
                        {{"External id", id},
                         {"Input Dims", dims},
                         {"Input Strides", std::move(strides)},
                         {"Input type", Json::array({estimate.type})}}}});
    events_.push_back({{"ph", "X"},
                       {"cat", "kernel"},
                       {"name", "kernels"},
                       {"ts", 0},
                       {"dur", microseconds(estimate.device_ns)},
                       {"args", {{"External id", id}}}});
  }

  int64_t collectives() const { return collectives_; }
  int64_t operators() const { return operators_; }

  std::string trust() const {
    std::string text =
        "transfers are medians over calls, from the last rank's arrival to "
        "completion (ranks of several hosts: the shortest stay); operators "
        "are medians over ranks and calls.";
    if (recorded_ns_ > 0) {
      text += fmt::format(
          " Of the recorded time of these collectives {} was waiting.",
          share_text(std::max(0.0, 1 - static_cast<double>(transfer_ns_) /
                                           static_cast<double>(recorded_ns_))));
    }
    if (incomplete_ > 0) {
      text += fmt::format(
          " In {} calls ranks lack, whose waits are not taken out: record "
          "every rank.",
          incomplete_);
    }
    if (unkeyed_ > 0) {
      text += fmt::format(
          " {} calls of unknown group, type or size are left out.", unkeyed_);
    }
    if (assumed_ > 0) {
      text += fmt::format(
          " Of {} operators no strides were recorded; they are given as "
          "contiguous.",
          assumed_);
    }
    if (operators_ == 0 && shapeless_ > 0) {
      text +=
          " No operators: record with record_shapes=True and import with "
          "--shapes.";
    }
    return text;
  }

  std::string text(const Provenance& provenance) const {
    Json config = Json::array();
    for (const std::vector<uint32_t>& group : groups_) {
      config.push_back({{"pg_name", group_name(group)},
                        {"pg_size", group.size()},
                        {"ranks", group}});
    }
    const Json head = {{"schemaVersion", 1}, {"reprise", json_of(provenance)}};
    std::string text = pretty(head);
    text.erase(text.rfind("\n}"));
    text += ",\n \"distributedInfo\": " +
            json_text(Json{{"pg_config", std::move(config)}}) +
            ",\n \"traceEvents\": [";
    for (size_t i = 0; i < events_.size(); ++i) {
      text += (i > 0 ? ",\n  " : "\n  ") + json_text(events_[i]);
    }
    return text + "\n ]\n}\n";
  }

 private:
  std::string group_name(const std::vector<uint32_t>& group) const {
    std::string name = "ranks";
    for (const uint32_t rank : group) name += fmt::format(" {}", rank);
    return name;
  }

  std::vector<Json> events_;
  std::set<std::vector<uint32_t>> groups_;
  int64_t collectives_ = 0, operators_ = 0;
  int64_t incomplete_ = 0, unkeyed_ = 0, shapeless_ = 0, assumed_ = 0;
  int64_t transfer_ns_ = 0, recorded_ns_ = 0;
};

}  // namespace

Result<Artefact> make_pge(const ExportRequest& request) {
  const Result<AlignedTrace> trace = AlignedTrace::read(request.file);
  if (!trace) return pass(trace.error());
  Estimates estimates;
  for (const CollectiveEstimate& each : estimate_collectives(*trace)) {
    estimates.add(each);
  }
  const OperatorEstimates operators = estimate_operators(trace->by_rank());
  for (const OperatorEstimate& each : operators.operators) estimates.add(each);
  if (operators.kernels == 0) {
    return fail(ErrorKind::kInvalid,
                "{}: it has no kernel of a device; Inductor's estimates are of "
                "GPUs alone",
                request.path);
  }
  if (estimates.collectives() + estimates.operators() == 0) {
    return fail(ErrorKind::kInvalid,
                "{}: no collective with its group, type and size, and no "
                "operator with its shapes; record with record_shapes=True, "
                "import with --shapes",
                request.path);
  }
  const Result<MappedFile> file = MappedFile::open(request.file);
  if (!file) return pass(file.error());
  const Provenance provenance = {
      .source =
          fmt::format("{} ({} ranks), sha256:{}", request.path,
                      trace->frame().ranks.size(), sha256_hex(file->bytes())),
      .predicted =
          "nothing: Inductor's scheduler decides by these times what overlaps.",
      .trust = estimates.trust(),
      .check = fmt::format(
          "with TORCH_LOGS=+inductor the log has \"PGE loaded: {} collectives, "
          "{} op records\"; `reprise verify` tells whether steps are faster.",
          estimates.collectives(), estimates.operators())};
  return Artefact{
      .files = {{.name = "pge.json", .text = estimates.text(provenance)}},
      .advice = fmt::format(
          "PyTorch 2.13 or newer, the same file on every rank:\n"
          "  from torch._inductor import config\n"
          "  options = config.aten_distributed_optimizations\n"
          "  options.enable_overlap_scheduling = True\n"
          "  options.profile_guided_estimations_profile_path = \"pge.json\"\n"
          "{}\n",
          comment_of(provenance, ""))};
}

}  // namespace reprise
