// MeshProto, AxisRefProto and their parts, of xla/xla_data.proto: fields are
// those of jaxlib 0.11.2.
#include "data/hlo/proto/hlo_proto_mesh.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/hlo/proto/hlo_proto_text.h"

namespace reprise {

std::string transposed_text(const std::vector<int64_t>& dimensions,
                            const std::vector<int64_t>& order) {
  std::string text = fmt::format("[{}]", fmt::join(dimensions, ","));
  if (!std::is_sorted(order.begin(), order.end())) {
    text += fmt::format("T({})", fmt::join(order, ","));
  }
  return text;
}

ProtoMesh::ProtoMesh(std::string_view proto) {
  const ProtoMessage mesh = opened(proto, 3);
  std::vector<std::string> axes;
  for (const std::string_view bytes : mesh.all_bytes(1)) {
    const ProtoMessage axis = opened(bytes, 2);
    names_.push_back(fmt::format("'{}'", hlo_name(axis.bytes(1))));
    axes.push_back(fmt::format("{}={}", names_.back(), axis.integer(2)));
  }
  text_ = fmt::format("mesh[{}]", fmt::join(axes, ","));
  if (mesh.has(3)) {
    const ProtoMessage iota = opened(mesh.bytes(3), 2);
    text_ += fmt::format(", device_ids=({})",
                         transposed_text(iota.integers(1), iota.integers(2)));
  } else if (mesh.has(2)) {
    text_ += fmt::format(", device_ids=({})", fmt::join(mesh.integers(2), ","));
  }
}

ProtoMessage ProtoMesh::opened(std::string_view bytes, uint32_t newest_field) {
  ProtoMessage message(bytes);
  is_known_ = is_known_ && !message.damaged() &&
              message.largest_field() <= newest_field;
  return message;
}

std::string ProtoMesh::axes(const std::vector<std::string_view>& protos,
                            std::string_view between) {
  std::vector<std::string> texts;
  texts.reserve(protos.size());
  for (const std::string_view proto : protos)
    texts.push_back(axis(opened(proto, 2)));
  return fmt::format("{}", fmt::join(texts, between));
}

std::string ProtoMesh::axis(const ProtoMessage& reference) {
  const auto place = static_cast<uint64_t>(reference.integer(1));
  if (place >= names_.size()) {
    is_known_ = false;
    return "''";
  }
  if (!reference.has(2)) return names_[place];
  const ProtoMessage part = opened(reference.bytes(2), 2);
  return fmt::format("{}:({}){}", names_[place], part.integer(1),
                     part.integer(2));
}

}  // namespace reprise
