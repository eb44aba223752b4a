// Replica groups of an HLO proto in the three spellings of XLA's text: lists,
// iotas and axes of a mesh. Which ranks they are is told by the text's reader.
#include <fmt/format.h>

#include <algorithm>

#include "data/hlo/proto/hlo_proto_mesh.h"
#include "data/hlo/proto/hlo_proto_values.h"

namespace reprise {
namespace {

/// Of HloInstructionProto's fields, as of jaxlib 0.11.2.
constexpr uint32_t kNewestField = 102;

/// `[2,4]<=[8]`.
std::string iota_text(const ProtoMessage& iota) {
  return fmt::format("[{},{}]<={}", iota.integer(1), iota.integer(2),
                     transposed_text(iota.integers(3), iota.integers(4)));
}

/// `mesh['a'=2,'b'=4] {'b'}` of a MeshAxesReplicaGroupListProto.
Result<std::string> mesh_groups_text(std::string_view bytes) {
  ProtoMesh mesh(ProtoMessage(bytes).bytes(1));
  const std::string axes = mesh.axes(mesh.opened(bytes, 2).all_bytes(2));
  if (!mesh.is_known()) {
    return fail(ErrorKind::kUnsupported,
                "replica groups of mesh axes in a form that is not known");
  }
  return fmt::format("{} {{{}}}", mesh.text(), axes);
}

}  // namespace

/// The groups, wherever this version keeps them: 93 those of mesh axes, 92 an
/// iota (both since 2025), 87 either list since 2024, 49 a list before. None
/// means all ranks, which a field that we do not know may deny.
Result<std::string> replica_groups_value(
    const HloProtoInstruction& instruction) {
  const ProtoMessage& proto = instruction.proto;
  if (proto.has(93)) return mesh_groups_text(proto.bytes(93));
  const ProtoMessage devices(proto.bytes(87));
  if (proto.has(92)) return iota_text(ProtoMessage(proto.bytes(92)));
  if (devices.has(2)) return iota_text(ProtoMessage(devices.bytes(2)));
  std::vector<std::string_view> groups = devices.all_bytes(1);
  if (groups.empty()) groups = proto.all_bytes(49);
  if (groups.empty() &&
      (proto.largest_field() > kNewestField || devices.largest_field() > 2)) {
    return fail(ErrorKind::kUnsupported,
                "no replica groups that are known, and field {} is not known",
                std::max(proto.largest_field(), devices.largest_field()));
  }
  std::vector<std::string> texts;
  texts.reserve(groups.size());
  for (const std::string_view group : groups) {
    texts.push_back(
        fmt::format("{{{}}}", fmt::join(ProtoMessage(group).integers(1), ",")));
  }
  return fmt::format("{{{}}}", fmt::join(texts, ","));
}

}  // namespace reprise
