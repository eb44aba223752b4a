// Replica groups of an HLO proto in the three spellings of XLA's text: lists,
// iotas and axes of a mesh. Which ranks they are is told by the text's reader.
#include <fmt/format.h>

#include <algorithm>

#include "data/hlo/proto/hlo_proto_text.h"
#include "data/hlo/proto/hlo_proto_values.h"

namespace reprise {
namespace {

/// Of HloInstructionProto's fields, as of jaxlib 0.11.2.
constexpr uint32_t kNewestField = 102;

/// What stands behind `<=` of an iota: `[2,4]`, with `T(1,0)` unless the order
/// is the usual.
std::string transposed_text(const std::vector<int64_t>& dimensions,
                            const std::vector<int64_t>& order) {
  std::string text = fmt::format("[{}]", fmt::join(dimensions, ","));
  if (!std::is_sorted(order.begin(), order.end())) {
    text += fmt::format("T({})", fmt::join(order, ","));
  }
  return text;
}

/// `[2,4]<=[8]`.
std::string iota_text(const ProtoMessage& iota) {
  return fmt::format("[{},{}]<={}", iota.integer(1), iota.integer(2),
                     transposed_text(iota.integers(3), iota.integers(4)));
}

/// Opens a message, which says more than we know of where `known` falls: it is
/// damaged, or has a field above `newest`.
ProtoMessage opened(std::string_view bytes, uint32_t newest, bool* known) {
  ProtoMessage message(bytes);
  *known = *known && !message.damaged() && message.largest_field() <= newest;
  return message;
}

/// `mesh['a'=2,'b'=4], device_ids=(…)`.
std::string mesh_text(const ProtoMessage& mesh,
                      const std::vector<std::string>& names, bool* known) {
  std::vector<std::string> axes;
  for (const std::string_view bytes : mesh.all_bytes(1)) {
    const int64_t size = opened(bytes, 2, known).integer(2);
    axes.push_back(fmt::format("{}={}", names[axes.size()], size));
  }
  std::string text = fmt::format("mesh[{}]", fmt::join(axes, ","));
  if (mesh.has(3)) {
    const ProtoMessage iota = opened(mesh.bytes(3), 2, known);
    text += fmt::format(", device_ids=({})",
                        transposed_text(iota.integers(1), iota.integers(2)));
  } else if (mesh.has(2)) {
    text += fmt::format(", device_ids=({})", fmt::join(mesh.integers(2), ","));
  }
  return text;
}

/// `'a'`, or `'a':(1)2` of a sub-axis, of an AxisRefProto.
std::string axis_text(const ProtoMessage& axis,
                      const std::vector<std::string>& names, bool* known) {
  const auto place = static_cast<uint64_t>(axis.integer(1));
  if (place >= names.size()) {
    *known = false;
    return {};
  }
  if (!axis.has(2)) return names[place];
  const ProtoMessage part = opened(axis.bytes(2), 2, known);
  return fmt::format("{}:({}){}", names[place], part.integer(1),
                     part.integer(2));
}

/// `mesh['a'=2,'b'=4] {'b'}` of a MeshAxesReplicaGroupListProto.
Result<std::string> mesh_groups_text(std::string_view bytes) {
  bool known = true;
  const ProtoMessage groups = opened(bytes, 2, &known);
  const ProtoMessage mesh = opened(groups.bytes(1), 3, &known);
  std::vector<std::string> names, along;
  for (const std::string_view axis : mesh.all_bytes(1)) {
    names.push_back(fmt::format("'{}'", hlo_name(ProtoMessage(axis).bytes(1))));
  }
  for (const std::string_view axis : groups.all_bytes(2)) {
    along.push_back(axis_text(opened(axis, 2, &known), names, &known));
  }
  const std::string text = mesh_text(mesh, names, &known);
  if (!known) {
    return fail(ErrorKind::kUnsupported,
                "replica groups of mesh axes in a form that is not known");
  }
  return fmt::format("{} {{{}}}", text, fmt::join(along, ","));
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
