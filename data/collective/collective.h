// The vocabulary of collectives: what kinds there are and what each implies,
// in one table that programs, traces, plans, prices, replay and runtimes read.
// Words stand in files alone; parsers and printers turn them into kinds.
//
// A new kind is a value of CollectiveKind and a row of the table; CONTRIBUTING
// says what else it takes until both runtimes run it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise {

/// What ranks do together, point-to-point messages included. In the order of
/// their names, so that kinds sort as words do.
enum class CollectiveKind : uint8_t {
  kUnknown,  ///< Not recorded; its name is "".
  kAllGather,
  kAllReduce,
  kAllToAll,
  kBarrier,
  kBroadcast,
  kPermute,
  kGather,
  kReceive,
  kReduce,
  kReduceScatter,
  kScatter,
  kSend,
  kOther,  ///< Of a trace whose word for it is none of these.
};
constexpr CollectiveKind kLastCollectiveKind = CollectiveKind::kOther;

enum class Reduction : uint8_t { kSum, kMax, kMin, kProduct };

/// How many bytes the busiest link carries for each byte of payload, among n
/// ranks, as nccl-tests' "bus bandwidth" counts (doc/PERFORMANCE.md there).
enum class WireShare : uint8_t {
  kNone,   ///< Nothing, or not known.
  kWhole,  ///< 1.
  kOnce,   ///< (n - 1) / n.
  kTwice,  ///< 2 (n - 1) / n.
};

/// What a rank's buffer holds of the payload, which is the larger of its two.
enum class BufferShare : uint8_t {
  kWhole,
  kPart,  ///< One of n equal parts.
};

struct CollectiveFacts {
  CollectiveKind kind{};
  std::string_view name;    ///< In traces, costs and reports.
  std::string_view opcode;  ///< HLO's; "": HLO has none.
  WireShare wire = WireShare::kNone;
  BufferShare input = BufferShare::kWhole, output = BufferShare::kWhole;
  bool reduces = false;          ///< Combines elements of the ranks.
  bool joins_all_ranks = false;  ///< None may leave before all have entered.
  bool has_one_size = false;     ///< Every rank states the same size.
  bool names_rank = false;       ///< Of a call: the root's or the peer's.
  bool counts_parts = false;     ///< NCCL's count is of one of n parts.
  bool runs = false;             ///< Programs that hold it can be lowered.
  bool shares_buckets = false;   ///< Several may run as one.
};

/// The kind's row of the table.
const CollectiveFacts& facts_of(CollectiveKind kind);

/// "all-reduce"; "" of kUnknown.
std::string_view name_of(CollectiveKind kind);
/// The kind of this very name, "" too; none for any other word, "other" too.
std::optional<CollectiveKind> collective_from_name(std::string_view name);

/// The kind of an HLO opcode, or of an instruction that is named after one:
/// "all-reduce", "all-reduce-start.1", "ragged-all-to-all".
std::optional<CollectiveKind> collective_of_hlo(std::string_view opcode);

/// The kind that an HLO operation of this opcode is lowered to; none for what
/// does not run, halves of asynchronous pairs among them.
std::optional<CollectiveKind> runnable_collective(std::string_view opcode);

/// A send or a receive.
bool is_message(CollectiveKind kind);

/// Whether each byte of the result depends on the same byte of every rank's
/// input alone: then several may run as one over one buffer, one may be cut
/// into chunks, and both run in place.
bool is_bytewise(CollectiveKind kind);

/// Whether a rank that nobody sends anything has zeros for its result: ranks
/// that stand in no group of a broadcast, or are no target of a permute.
bool fills_with_zeros(CollectiveKind kind);

/// Bytes on the wire per byte of payload and rank over the algorithm's time, as
/// nccl-tests' bus bandwidth has it; 0 when the kind has no such factor.
double bus_factor(CollectiveKind kind, double ranks);

/// Bytes of the larger of a rank's two buffers, of the `bytes` that a call of
/// NCCL counts: where one buffer has a part for each rank, it counts one part.
/// 0 for what cannot be.
int64_t whole_buffer_bytes(CollectiveKind kind, int64_t bytes,
                           int64_t group_size);

}  // namespace reprise
