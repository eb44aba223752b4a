// Meshes of devices in HLO protos, of replica groups and of shardings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/protobuf.h"

namespace reprise {

/// An iota's `[2,4]`, with `T(1,0)` unless the order is the usual.
std::string transposed_text(const std::vector<int64_t>& dimensions,
                            const std::vector<int64_t>& order);

/// A MeshProto in XLA's words, and what refers to its axes.
class ProtoMesh {
 public:
  explicit ProtoMesh(std::string_view proto);

  /// `mesh['a'=2,'b'=4]`, with `, device_ids=(…)` unless the order is the
  /// usual.
  const std::string& text() const { return text_; }
  /// `'a', 'b':(1)2` of AxisRefProtos; `between` is the comma.
  std::string axes(const std::vector<std::string_view>& protos,
                   std::string_view between = ",");
  /// Opens a message around the mesh: is_known() tells of its fields, too.
  ProtoMessage opened(std::string_view bytes, uint32_t newest_field);
  /// False once a message was damaged, or had a field that we do not know or an
  /// axis that is none of the mesh's.
  bool is_known() const { return is_known_; }

 private:
  std::string axis(const ProtoMessage& reference);

  std::vector<std::string> names_;  ///< Quoted.
  std::string text_;
  bool is_known_ = true;
};

}  // namespace reprise
