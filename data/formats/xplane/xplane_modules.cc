#include "data/formats/xplane/xplane_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "data/collective/device_groups.h"
#include "data/hlo/collective_ranks.h"
#include "data/hlo/hlo.h"
#include "data/hlo/proto/hlo_proto.h"
#include "data/io/protobuf.h"

namespace reprise {
namespace {

/// An HloProto's bytes: of old files in a field of its own, since then in a
/// stat.
std::string_view proto_of(const Xplane& plane,
                          const XplaneEventMetadata& metadata) {
  if (starts_like_hlo_proto(metadata.metadata)) return metadata.metadata;
  for (const std::string_view stat : metadata.stats) {
    const std::string_view bytes = plane.stat(stat).text;
    if (starts_like_hlo_proto(bytes)) return bytes;
  }
  return {};
}

/// The collective that the instruction is or, as an async-start, wraps.
const Instruction* collective_in(const Module& module,
                                 const Instruction& instruction,
                                 const Computation** where) {
  if (is_collective(instruction.opcode)) return &instruction;
  const auto called = called_computation(instruction, "calls");
  if (!called || instruction.opcode != Opcode::kAsyncStart ||
      index_of(*called) >= module.computations.size()) {
    return nullptr;
  }
  const Computation& wrapped = module.at(*called);
  const Instruction& root = wrapped.at(wrapped.root);
  if (!is_collective(root.opcode)) return nullptr;
  *where = &wrapped;
  return &root;
}

/// Whether each device that a permutation names both sends and receives.
bool is_cyclic(const Instruction& permute) {
  const auto pairs = source_target_pairs(permute);
  if (!pairs) return false;
  std::set<int64_t> sources, targets;
  for (const std::vector<int64_t>& pair : *pairs) {
    sources.insert(pair[0]);
    targets.insert(pair[1]);
  }
  return sources == targets;
}

/// What is said of its operands.
XplaneCollective describe(const Computation& computation,
                          const Instruction& instruction) {
  XplaneCollective collective;
  CollectiveInfo& info = collective.info;
  info.kind = collective_of_hlo_name(opcode_name(instruction.opcode))
                  .value_or(CollectiveKind::kUnknown);
  const bool permutes = instruction.opcode == Opcode::kCollectivePermute ||
                        instruction.opcode == Opcode::kCollectivePermuteStart;
  if (permutes && is_cyclic(instruction)) info.kind = CollectiveKind::kPermute;
  info.input_elements = 0;
  for (const InstructionId id : instruction.operands) {
    const Shape& shape = computation.at(id).shape;
    if (!shape.is_array()) continue;
    // Of a sum that overflows, what fits.
    int64_t bytes = 0, elements = 0;
    if (__builtin_add_overflow(collective.bytes, byte_size(shape), &bytes) ||
        __builtin_add_overflow(info.input_elements, element_count(shape),
                               &elements)) {
      continue;
    }
    collective.bytes = bytes;
    info.input_elements = elements;
    info.type = shape.type;
  }
  return collective;
}

/// `[rank]`: the device that it is, by HloModuleProto's device assignment,
/// which lists those of each partition by replica; empty where none is stated.
std::vector<int64_t> assigned_devices(std::string_view proto) {
  constexpr uint32_t kModule = 1, kAssignment = 15, kPartitions = 3;
  const ProtoMessage module(ProtoMessage(proto).bytes(kModule));
  std::vector<std::vector<int64_t>> partitions;
  for (const std::string_view bytes :
       ProtoMessage(module.bytes(kAssignment)).all_bytes(kPartitions)) {
    partitions.push_back(ProtoMessage(bytes).integers(1));
    if (partitions.back().size() != partitions.front().size()) return {};
  }
  std::vector<int64_t> devices;
  if (partitions.empty()) return devices;
  for (size_t replica = 0; replica < partitions.front().size(); ++replica) {
    for (const auto& replicas : partitions)
      devices.push_back(replicas[replica]);
  }
  return devices;
}

/// The devices of each group; none where they cannot be told. Without an
/// assignment they are what the text numbers.
std::vector<std::vector<int64_t>> device_groups(
    const Module& module, const Instruction& instruction,
    const std::vector<int64_t>& devices) {
  if (devices.empty())
    return replica_groups(instruction, 0)
        .value_or(std::vector<std::vector<int64_t>>());
  auto ranks = collective_ranks(module, instruction,
                                static_cast<int64_t>(devices.size()));
  if (!ranks) return {};
  for (std::vector<int64_t>& group : ranks->groups) {
    for (int64_t& rank : group) {
      rank = devices[static_cast<size_t>(rank)];
    }
    std::sort(group.begin(), group.end());
  }
  return std::move(ranks->groups);
}

/// Who calls together: by size, and by name where they are several groups. Of
/// `{}`, one group of all, the size may not be known.
void describe_groups(const std::vector<std::vector<int64_t>>& groups,
                     CollectiveInfo& info) {
  if (groups.empty() || groups.front().empty()) return;
  info.group_size = static_cast<int64_t>(groups.front().size());
  if (groups.size() > 1) info.communicator = name_of_groups(groups);
}

}  // namespace

void XplaneModules::read(const Xplane& plane, TraceSpool& spool,
                         FileReport& report) {
  std::map<int64_t, const XplaneEventMetadata*> ordered;
  for (const auto& [id, metadata] : plane.events) ordered[id] = &metadata;
  std::string first_error;
  for (const auto& [id, metadata] : ordered) {
    const std::string_view bytes = proto_of(plane, *metadata);
    const std::string name(metadata->name);
    if (bytes.empty()) {
      ++report.ignored["metadata without a program"];
      continue;
    }
    const auto module = parse_hlo_proto(bytes, name);
    if (!module) {
      ++report.dropped["program (HLO proto) that cannot be read"];
      if (first_error.empty()) first_error = module.error().message;
      continue;
    }
    note_collectives(name, *module, assigned_devices(bytes));
    note_places(name, *module);
    spool.add_module(name, print_hlo(*module));
    ++count_;
  }
  if (!first_error.empty()) {
    report.missing.push_back("A program could not be read: " + first_error);
  }
}

void XplaneModules::note_collectives(const std::string& name,
                                     const Module& module,
                                     const std::vector<int64_t>& devices) {
  for (const Computation& computation : module.computations) {
    for (const Instruction& instruction : computation.instructions) {
      const Computation* where = &computation;
      const Instruction* found = collective_in(module, instruction, &where);
      if (found == nullptr) continue;
      XplaneCollective collective = describe(*where, *found);
      describe_groups(device_groups(module, *found, devices), collective.info);
      collectives_[name][instruction.name] = std::move(collective);
    }
  }
}

void XplaneModules::note_places(const std::string& name, const Module& module) {
  const bool scheduled = std::any_of(
      module.attributes.begin(), module.attributes.end(),
      [](const Attribute& one) { return one.name == "is_scheduled"; });
  const bool starts = scheduled && collectives_.contains(name);
  if (!starts) return;
  std::map<std::string, XplanePlace, std::less<>>& places = places_[name];
  for (size_t at = 0; at < module.computations.size(); ++at) {
    const Computation& computation = module.computations[at];
    std::vector<XplanePlace*> of;  // [instruction]
    for (const Instruction& instruction : computation.instructions) {
      XplanePlace& place = places[instruction.name];
      place = {.module = static_cast<uint32_t>(places_.size()),
               .computation = static_cast<uint32_t>(at),
               .position = static_cast<uint32_t>(of.size())};
      of.push_back(&place);
      if (!opcode_name(instruction.opcode).ends_with("-done") ||
          instruction.operands.empty())
        continue;
      const size_t start = index_of(instruction.operands.front());
      if (start < of.size()) of[start]->awaited = place.position;
    }
  }
}

template <typename Fact>
const Fact* XplaneModules::find_in(const ByModule<Fact>& facts,
                                   std::string_view module, int64_t program,
                                   std::string_view instruction) {
  if (facts.empty()) return nullptr;
  const std::string number =
      fmt::format("({})", static_cast<uint64_t>(program));
  auto in = facts.find(std::string(module) + number);
  if (in == facts.end()) in = facts.find(module);
  if (in == facts.end() && module.empty()) {
    in = std::find_if(facts.begin(), facts.end(), [&](const auto& one) {
      return one.first.ends_with(number);
    });
  }
  if (in == facts.end()) return nullptr;
  const auto found = in->second.find(instruction);
  return found == in->second.end() ? nullptr : &found->second;
}

const XplaneCollective* XplaneModules::find(
    std::string_view module, int64_t program,
    std::string_view instruction) const {
  return find_in(collectives_, module, program, instruction);
}

const XplanePlace* XplaneModules::place_of(std::string_view module,
                                           int64_t program,
                                           std::string_view instruction) const {
  return find_in(places_, module, program, instruction);
}

std::optional<CollectiveKind> collective_of_hlo_name(std::string_view name) {
  if (name.starts_with('%')) name.remove_prefix(1);
  const std::optional<CollectiveKind> kind = collective_of_hlo(name);
  return kind == CollectiveKind::kPermute ? CollectiveKind::kUnknown : kind;
}

}  // namespace reprise
