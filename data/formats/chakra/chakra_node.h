// One node of a Chakra graph, as its protobuf and its JSON forms have it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

enum class ChakraType : int32_t {
  kInvalid = 0,
  kMetadata = 1,
  kMemoryLoad = 2,
  kMemoryStore = 3,
  kCompute = 4,
  kSend = 5,
  kReceive = 6,
  kCollective = 7,
};

struct ChakraNode {
  int64_t id = 0;  ///< proto3 leaves 0 out.
  std::string name;
  int32_t type = 0;                   ///< ChakraType, or a newer one.
  std::vector<int64_t> dependencies;  ///< Control, then data.
  int64_t start_us = 0, duration_us = 0;

  std::optional<bool> on_cpu;  ///< Generators leave it out.
  int64_t thread = -1;         ///< A host thread's or a device stream's id.
  int64_t collective = -1;     ///< CollectiveCommType.
  int64_t comm_bytes = -1;
  int64_t source = -1, destination = -1;
  int64_t tensor_bytes = -1;
  std::string communicator;
  std::string attributes;  ///< Members of a JSON object: "\"num_ops\": 3".

  void clear() { *this = {}; }
};

/// What stands before the nodes.
struct ChakraMetadata {
  std::string version;  ///< "0.0.4".
  std::string schema;   ///< "1.0.1", of PyTorch's converter.
  int64_t process = 0;
};

/// An attribute's value, of whatever type the writer chose.
struct ChakraValue {
  std::optional<int64_t> integer;  ///< Of numbers that are whole, of bools.
  std::string text;                ///< Of strings.
  std::string json;
};

/// Files an attribute under the field it belongs to, or in `attributes`.
void take_attribute(std::string_view name, const ChakraValue& value,
                    ChakraNode& node);

/// Reads one message; false when it is damaged (what came before is kept).
bool decode_chakra_node(std::string_view message, ChakraNode& node);
bool decode_chakra_metadata(std::string_view message, ChakraMetadata& metadata);

/// Reads one object of the JSON forms: protobuf's own, or a generator's with
/// "Id", "NodeType", "runtime". False when it is neither node nor metadata.
bool read_chakra_json(std::string_view object, ChakraNode& node,
                      ChakraMetadata& metadata, bool& is_metadata);

}  // namespace reprise
