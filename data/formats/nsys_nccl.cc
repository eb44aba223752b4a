#include "data/formats/nsys_nccl.h"

#include <algorithm>
#include <array>
#include <limits>

#include "data/formats/nccl_names.h"

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
std::string_view reduced_type(std::string_view name) {
  std::string_view words = name.substr(0, name.find('('));
  bool reduced = false;
  while (!words.empty()) {
    const size_t end = words.find('_');
    const std::string_view word = words.substr(0, end);
    if (reduced) return hlo_type_word(word);
    reduced = is_reduction(word);
    words = end == std::string_view::npos ? std::string_view()
                                          : words.substr(end + 1);
  }
  return {};
}

/// nvtxPayloadSchemaEntry types of integers: 5 int, 18 uint64, 22 size.
size_t size_of_type(int64_t type) {
  if (type == 5) return 4;
  return type == 18 || type == 22 ? 8 : 0;
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  }
  return value;
}

}  // namespace

bool is_nccl_kernel(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  return starts_with_nccl(name);
}

CollectiveInfo describe_nccl_kernel(std::string_view name) {
  CollectiveInfo info;
  info.op = collective_word(name.substr(0, name.find('(')));
  if (info.op.find("reduce") != std::string::npos) {
    info.data_type = reduced_type(name);
  }
  return info;
}

std::string_view operation_of_nccl_call(std::string_view name) {
  const bool is_call = name.size() > 4 && name.starts_with("nccl") &&
                       (name[4] == ':' || (name[4] >= 'A' && name[4] <= 'Z'));
  if (!is_call || name.starts_with("ncclRedOp") ||
      name.starts_with("ncclComm")) {
    return {};
  }
  return collective_word(name.substr(0, name.find_first_of(" ,")));
}

void NcclPayloads::read_schemas(NsysDatabase& database) {
  NsysRows rows =
      database.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES",
                    {"domainId", "schemaId", "type", "name", "offset"});
  while (rows.next()) {
    const auto domain = rows.integer(0);
    const auto schema = rows.integer(1);
    const size_t size = size_of_type(rows.integer_or(2, 0));
    // The first field stands at offset 0, which is exported as NULL.
    const int64_t offset = rows.integer_or(4, 0);
    if (!domain || !schema || size == 0 || offset < 0) continue;
    const std::string_view name = rows.text(3);
    Field field = Field::kCommunicator;
    if (name == "Message size [bytes]") {
      field = Field::kBytes;
    } else if (name == "Peer rank") {
      field = Field::kPeer;
    } else if (name == "No. of ranks") {
      field = Field::kRanks;
    } else if (name == "Rank") {
      field = Field::kRank;
    } else if (name != "NCCL communicator ID") {
      continue;
    }
    std::vector<Entry>& entries = schemas_[{*domain, *schema}];
    // The same schema stands once for every process.
    if (entries.size() < 64) {
      entries.push_back({field, static_cast<uint64_t>(offset), size});
    }
  }
}

std::optional<NcclPayload> NcclPayloads::decode(int64_t domain,
                                                std::string_view blob) const {
  // domain (u64), schema (u64), payload's size (u64), whole size (u64), then
  // the payload.
  constexpr size_t kHeader = 32;
  if (blob.size() < kHeader) return std::nullopt;
  const uint64_t schema = little_endian(blob.substr(8, 8));
  const uint64_t size = little_endian(blob.substr(16, 8));
  const std::string_view bytes = blob.substr(kHeader);
  if (size > bytes.size()) return std::nullopt;
  const auto found = schemas_.find({domain, static_cast<int64_t>(schema)});
  if (found == schemas_.end()) return std::nullopt;
  NcclPayload payload;
  for (const Entry& entry : found->second) {
    if (entry.offset > bytes.size() ||
        bytes.size() - entry.offset < entry.size) {
      continue;
    }
    const uint64_t value =
        little_endian(bytes.substr(entry.offset, entry.size));
    if (entry.field == Field::kCommunicator) {
      payload.communicator = value;
      continue;
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      continue;
    }
    const auto number = static_cast<int64_t>(value);
    const bool small = number <= std::numeric_limits<int32_t>::max();
    if (entry.field == Field::kBytes) payload.bytes = number;
    if (entry.field == Field::kPeer && small) payload.peer = number;
    if (entry.field == Field::kRanks && small) payload.ranks = number;
    if (entry.field == Field::kRank && small) payload.rank = number;
  }
  return payload;
}

}  // namespace reprise
