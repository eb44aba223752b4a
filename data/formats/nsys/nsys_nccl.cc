#include "data/formats/nsys/nsys_nccl.h"

#include <limits>

namespace reprise {
namespace {

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

void NcclPayloads::read_schemas(NsysDatabase& database) {
  NsysRows rows = database.rows(
      "NVTX_PAYLOAD_SCHEMA_ENTRIES",
      {NsysColumn::kDomain, NsysColumn::kSchema, NsysColumn::kType,
       NsysColumn::kName, NsysColumn::kOffset});
  while (rows.next()) {
    const auto domain = rows.integer(NsysColumn::kDomain);
    const auto schema = rows.integer(NsysColumn::kSchema);
    const size_t size = size_of_type(rows.integer_or(NsysColumn::kType, 0));
    // The first field stands at offset 0, which is exported as NULL.
    const int64_t offset = rows.integer_or(NsysColumn::kOffset, 0);
    if (!domain || !schema || size == 0 || offset < 0) continue;
    const std::string_view name = rows.text(NsysColumn::kName);
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
