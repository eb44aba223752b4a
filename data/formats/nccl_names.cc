#include "data/formats/nccl_names.h"

#include <algorithm>
#include <array>

#include "data/collective/collective_names.h"

namespace reprise {
namespace {

constexpr std::array<std::string_view, 7> kReductions = {
    "Sum", "Prod", "Max", "Min", "MinMax", "PreMulSum", "SumPostDiv"};

bool starts_with_nccl(std::string_view name) {
  if (name.size() < 4) return false;
  const char first = static_cast<char>(name[0] | 0x20);
  if (first != 'n' && first != 'r') return false;
  for (size_t i = 1; i < 4; ++i) {
    if (static_cast<char>(name[i] | 0x20) != "nccl"[i]) return false;
  }
  return true;
}

bool is_reduction(std::string_view word) {
  return std::find(kReductions.begin(), kReductions.end(), word) !=
         kReductions.end();
}

/// The type that a kernel reduces: after the reduction in
/// "…_Sum_f16_RING_LL(…)" as in "…_RING_LL_Sum_float(…)". Kernels that only
/// move bytes name a type that is not the data's.
std::optional<PrimitiveType> reduced_type(std::string_view name) {
  std::string_view words = name.substr(0, name.find('('));
  bool reduced = false;
  while (!words.empty()) {
    const size_t end = words.find('_');
    const std::string_view word = words.substr(0, end);
    if (reduced) return element_type_named(word);
    reduced = is_reduction(word);
    words = end == std::string_view::npos ? std::string_view()
                                          : words.substr(end + 1);
  }
  return std::nullopt;
}

}  // namespace

bool is_nccl_kernel(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  return starts_with_nccl(name);
}

CollectiveInfo describe_nccl_kernel(std::string_view name) {
  CollectiveInfo info;
  info.kind = collective_named(name.substr(0, name.find('(')));
  if (facts_of(info.kind).reduces) info.type = reduced_type(name);
  return info;
}

std::optional<CollectiveInfo> describe_collective_kernel(
    std::string_view name) {
  if (is_nccl_kernel(name)) return describe_nccl_kernel(name);
  const auto kind = kind_of_peer_memory_kernel(name);
  if (!kind) return std::nullopt;
  return CollectiveInfo{.kind = *kind};
}

CollectiveKind kind_of_nccl_call(std::string_view name) {
  const bool is_call = name.size() > 4 && name.starts_with("nccl") &&
                       (name[4] == ':' || (name[4] >= 'A' && name[4] <= 'Z'));
  if (!is_call || name.starts_with("ncclRedOp") ||
      name.starts_with("ncclComm")) {
    return CollectiveKind::kUnknown;
  }
  return collective_named(name.substr(0, name.find_first_of(" ,")));
}

}  // namespace reprise
