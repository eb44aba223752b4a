// Names are squeezed to lower-case letters and digits and looked for in tables
// in which a longer word stands before those that it contains ("reducescatter"
// before "reduce").
#include "data/collective/collective_names.h"

#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

namespace reprise {
namespace {

using K = CollectiveKind;
using T = PrimitiveType;

/// The operation comes early in a name; templates and parameters may be long.
constexpr size_t kTellingPart = 256;

/// Lower-case letters and digits alone: "nccl:all_reduce" is "ncclallreduce".
std::string squeezed(std::string_view name) {
  std::string result;
  for (const char c : name.substr(0, kTellingPart)) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) result += static_cast<char>(std::tolower(byte));
  }
  return result;
}

// A longer word stands before those that it contains.
constexpr std::array<std::pair<std::string_view, K>, 17> kOperations = {{
    {"allreduce", K::kAllReduce},
    {"allgather", K::kAllGather},
    {"reducescatter", K::kReduceScatter},
    {"alltoall", K::kAllToAll},
    {"collectivepermute", K::kUnknown},
    {"sendrecv", K::kUnknown},
    {"generic", K::kUnknown},
    {"onecclreducebase", K::kUnknown},
    {"barrier", K::kBarrier},
    {"broadcast", K::kBroadcast},
    {"bcast", K::kBroadcast},
    {"receive", K::kReceive},
    {"recv", K::kReceive},
    {"send", K::kSend},
    {"scatter", K::kScatter},
    {"gather", K::kGather},
    {"reduce", K::kReduce},
}};

// As squeezed; of Transformer Engine's, the two that end in more stand first.
constexpr std::array<std::pair<std::string_view, K>, 14> kPeerMemoryKernels = {{
    {"oneshotallreduce", K::kAllReduce},
    {"twoshotallreduce", K::kAllReduce},
    {"multimemallreduce", K::kAllReduce},
    {"multimemallgather", K::kAllGather},
    {"crossdevicereduce", K::kAllReduce},
    {"allreducefusionkernel", K::kAllReduce},
    {"quickreduceallreduceprototype", K::kAllReduce},
    {"deepepintranode", K::kAllToAll},
    {"deepepinternode", K::kAllToAll},
    {"userbuffersfp16suminplacegpurrrs", K::kReduceScatter},
    {"userbuffersfp16suminplacegpumcrs", K::kReduceScatter},
    {"userbuffersfp16suminplacegpurrag", K::kAllGather},
    {"userbuffersfp16suminplacegpumcag", K::kAllGather},
    {"userbuffersfp16suminplacegpu", K::kAllReduce},
}};

constexpr std::array<std::pair<std::string_view, T>, 50> kTypes = {{
    {"float", T::kF32},
    {"float32", T::kF32},
    {"half", T::kF16},
    {"float16", T::kF16},
    {"double", T::kF64},
    {"float64", T::kF64},
    {"bfloat16", T::kBF16},
    {"bfloat", T::kBF16},
    {"int8", T::kS8},
    {"char", T::kS8},
    {"signedchar", T::kS8},
    {"uint8", T::kU8},
    {"byte", T::kU8},
    {"unsignedchar", T::kU8},
    {"short", T::kS16},
    {"int16", T::kS16},
    {"shortint", T::kS16},
    {"uint16", T::kU16},
    {"int", T::kS32},
    {"int32", T::kS32},
    {"uint32", T::kU32},
    {"unsignedint", T::kU32},
    {"long", T::kS64},
    {"longint", T::kS64},
    {"longlong", T::kS64},
    {"int64", T::kS64},
    {"uint64", T::kU64},
    {"unsignedlong", T::kU64},
    {"bool", T::kPred},
    {"f8e4m3", T::kF8E4M3FN},
    {"fp8e4m3", T::kF8E4M3FN},
    {"float8e4m3", T::kF8E4M3FN},
    {"float8e4m3fn", T::kF8E4M3FN},
    {"f8e5m2", T::kF8E5M2},
    {"fp8e5m2", T::kF8E5M2},
    {"float8e5m2", T::kF8E5M2},
    {"f16", T::kF16},
    {"bf16", T::kBF16},
    {"f32", T::kF32},
    {"f64", T::kF64},
    {"s8", T::kS8},
    {"u8", T::kU8},
    {"s32", T::kS32},
    {"u32", T::kU32},
    {"s64", T::kS64},
    {"u64", T::kU64},
    {"i32", T::kS32},
    {"i64", T::kS64},
    {"complexfloat", T::kC64},
    {"complexdouble", T::kC128},
}};

/// The operation that is named first.
std::optional<K> first_operation(std::string_view name) {
  const std::string letters = squeezed(name);
  size_t first = std::string::npos;
  std::optional<K> kind;
  for (const auto& [spelling, operation] : kOperations) {
    const size_t at = letters.find(spelling);
    if (at < first) {
      first = at;
      kind = operation;
    }
  }
  return kind;
}

}  // namespace

CollectiveKind collective_named(std::string_view name) {
  return first_operation(name).value_or(K::kUnknown);
}

bool names_any_collective(std::string_view name) {
  return first_operation(name).has_value();
}

std::optional<CollectiveKind> kind_of_peer_memory_kernel(
    std::string_view name) {
  constexpr std::string_view kNowhere = "(anonymous namespace)::";
  if (name.starts_with("void ")) name.remove_prefix(5);
  if (name.starts_with(kNowhere)) name.remove_prefix(kNowhere.size());
  // Inductor's are named after what came before and after them.
  if (name.starts_with("triton_")) return std::nullopt;
  const std::string letters =
      squeezed(name.substr(0, name.find_first_of("<(")));
  for (const auto& [spelling, kind] : kPeerMemoryKernels) {
    if (letters.find(spelling) != std::string::npos) return kind;
  }
  return std::nullopt;
}

std::optional<PrimitiveType> element_type_named(std::string_view name) {
  std::string letters = squeezed(name);
  for (const std::string_view prefix : {"tensor", "nccl", "c10"}) {
    if (letters.starts_with(prefix)) letters.erase(0, prefix.size());
  }
  for (const auto& [spelling, type] : kTypes) {
    if (letters == spelling) return type;
  }
  return std::nullopt;
}

std::string_view name_of(std::optional<PrimitiveType> type) {
  return type ? primitive_type_name(*type) : std::string_view();
}

int64_t element_bytes(std::optional<PrimitiveType> type) {
  return type ? (primitive_type_bits(*type) + 7) / 8 : 0;
}

}  // namespace reprise
