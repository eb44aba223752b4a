// The table of kinds: what each implies, in one row. Everything else here reads
// it.
#include "data/collective/collective.h"

#include <algorithm>
#include <array>

namespace reprise {
namespace {

using K = CollectiveKind;
using Share = BufferShare;

constexpr std::array<CollectiveFacts, 14> kFacts = {{
    {.kind = K::kUnknown, .name = "", .opcode = ""},
    {.kind = K::kAllGather,
     .name = "all-gather",
     .opcode = "all-gather",
     .wire = WireShare::kOnce,
     .input = Share::kPart,
     .joins_all_ranks = true,
     .has_one_size = true,
     .counts_parts = true,
     .runs = true,
     .shares_buckets = true},
    {.kind = K::kAllReduce,
     .name = "all-reduce",
     .opcode = "all-reduce",
     .wire = WireShare::kTwice,
     .reduces = true,
     .joins_all_ranks = true,
     .has_one_size = true,
     .runs = true,
     .shares_buckets = true},
    {.kind = K::kAllToAll,
     .name = "all-to-all",
     .opcode = "all-to-all",
     .wire = WireShare::kOnce,
     .joins_all_ranks = true,
     .counts_parts = true,
     .runs = true},
    {.kind = K::kBarrier,
     .name = "barrier",
     .opcode = "",
     .joins_all_ranks = true},
    {.kind = K::kBroadcast,
     .name = "broadcast",
     .opcode = "collective-broadcast",
     .wire = WireShare::kWhole,
     .has_one_size = true,
     .names_rank = true,
     .runs = true},
    {.kind = K::kPermute,
     .name = "collective-permute",
     .opcode = "collective-permute",
     .runs = true},
    {.kind = K::kGather,
     .name = "gather",
     .opcode = "",
     .wire = WireShare::kOnce,
     .names_rank = true,
     .counts_parts = true},
    {.kind = K::kReceive,
     .name = "receive",
     .opcode = "",
     .wire = WireShare::kWhole,
     .names_rank = true},
    {.kind = K::kReduce,
     .name = "reduce",
     .opcode = "",
     .wire = WireShare::kWhole,
     .reduces = true,
     .has_one_size = true,
     .names_rank = true},
    {.kind = K::kReduceScatter,
     .name = "reduce-scatter",
     .opcode = "reduce-scatter",
     .wire = WireShare::kOnce,
     .output = Share::kPart,
     .reduces = true,
     .joins_all_ranks = true,
     .has_one_size = true,
     .counts_parts = true,
     .runs = true,
     .shares_buckets = true},
    {.kind = K::kScatter,
     .name = "scatter",
     .opcode = "",
     .wire = WireShare::kOnce,
     .names_rank = true,
     .counts_parts = true},
    {.kind = K::kSend,
     .name = "send",
     .opcode = "",
     .wire = WireShare::kWhole,
     .names_rank = true},
    {.kind = K::kOther, .name = "other", .opcode = ""},
}};

constexpr bool is_in_order() {
  for (size_t i = 0; i < kFacts.size(); ++i) {
    if (kFacts[i].kind != static_cast<K>(i)) return false;
    if (i > 0 && i + 1 < kFacts.size() && kFacts[i].name <= kFacts[i - 1].name)
      return false;
  }
  return kFacts.size() == static_cast<size_t>(kLastCollectiveKind) + 1;
}
static_assert(is_in_order(), "a row for each kind, in order of names");

}  // namespace

const CollectiveFacts& facts_of(CollectiveKind kind) {
  return kFacts[static_cast<size_t>(kind)];
}

std::string_view name_of(CollectiveKind kind) { return facts_of(kind).name; }

std::optional<CollectiveKind> collective_from_name(std::string_view name) {
  for (const CollectiveFacts& facts : kFacts) {
    if (facts.name == name && facts.kind != K::kOther) return facts.kind;
  }
  return std::nullopt;
}

std::optional<CollectiveKind> collective_of_hlo(std::string_view opcode) {
  constexpr std::string_view kRagged = "ragged-";
  if (opcode.starts_with(kRagged)) opcode.remove_prefix(kRagged.size());
  for (const CollectiveFacts& facts : kFacts) {
    if (!facts.opcode.empty() && opcode.starts_with(facts.opcode))
      return facts.kind;
  }
  return std::nullopt;
}

std::optional<CollectiveKind> runnable_collective(std::string_view opcode) {
  const std::optional<CollectiveKind> kind = collective_of_hlo(opcode);
  if (!kind || !facts_of(*kind).runs || facts_of(*kind).opcode != opcode)
    return std::nullopt;
  return kind;
}

bool is_message(CollectiveKind kind) {
  return kind == K::kSend || kind == K::kReceive;
}

bool is_bytewise(CollectiveKind kind) { return kind == K::kAllReduce; }

bool fills_with_zeros(CollectiveKind kind) {
  return kind == K::kBroadcast || kind == K::kPermute;
}

double bus_factor(CollectiveKind kind, double ranks) {
  if (ranks < 2) return 0;
  switch (facts_of(kind).wire) {
    case WireShare::kTwice:
      return 2 * (ranks - 1) / ranks;
    case WireShare::kOnce:
      return (ranks - 1) / ranks;
    case WireShare::kWhole:
      return 1;
    case WireShare::kNone:
      break;
  }
  return 0;
}

int64_t whole_buffer_bytes(CollectiveKind kind, int64_t bytes,
                           int64_t group_size) {
  if (facts_of(kind).counts_parts && group_size > 0 &&
      __builtin_mul_overflow(bytes, group_size, &bytes)) {
    return 0;
  }
  return std::max<int64_t>(0, bytes);
}

}  // namespace reprise
