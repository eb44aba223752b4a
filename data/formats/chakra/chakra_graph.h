// Nodes of a Chakra graph on their way to events: streams, starts, checked
// dependencies.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>

#include "data/formats/chakra/chakra_node.h"
#include "data/formats/node_dependencies.h"
#include "data/formats/reader.h"

namespace reprise {

class ChakraGraph {
 public:
  ChakraGraph(TraceSpool& spool, FileReport& report);

  void add(const ChakraNode& node);
  /// After the last node: dependencies on nodes that came later, and what the
  /// file lacks.
  void finish(const ChakraMetadata& metadata);

 private:
  /// Streams by (host, id); ids below 0 are the unnamed ones.
  using StreamKey = std::pair<bool, int64_t>;
  struct Stream {
    uint32_t number = 0;
    int64_t end_ns = 0;
    int64_t last_node = -1;
  };
  struct Placed {
    StreamKey stream;
    int64_t end_ns = 0;
  };

  struct Ready {
    int64_t at_ns = 0, launched_ns = -1;
  };

  StreamKey key_of(const ChakraNode& node, bool on_host);
  StreamKey unnamed_communication(const ChakraNode& node);
  Stream& stream_of(const ChakraNode& node, bool on_host);
  Ready ready(const ChakraNode& node) const;
  int32_t describe(const ChakraNode& node);
  bool place(const ChakraNode& node, Stream& stream, Event& event);

  TraceSpool& spool_;
  FileReport& report_;
  uint32_t rank_;
  std::map<StreamKey, Stream> streams_;
  std::unordered_map<int64_t, Placed> placed_;  ///< By node's id.
  /// Unnamed streams of communication, and whether nodes tell which follow
  /// which on them.
  int64_t communications_ = 0;
  bool chained_ = false;
  NodeDependencies dependencies_;
  int64_t timed_ = 0, instant_ = 0, unsized_ = 0;
};

}  // namespace reprise
