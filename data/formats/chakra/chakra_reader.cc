#include "data/formats/chakra/chakra_reader.h"

#include <algorithm>
#include <optional>
#include <string>

#include "data/formats/chakra/chakra_graph.h"
#include "data/formats/chakra/chakra_node.h"
#include "data/formats/json_objects.h"
#include "data/io/head_text.h"
#include "data/io/protobuf.h"

namespace reprise {
namespace {

/// A longer message is damage: nodes take kilobytes, and the algorithm that
/// ASTRA-sim embeds in the metadata less than a megabyte.
constexpr uint64_t kLargestMessage = 64u << 20;

/// Cuts a stream of length-delimited messages.
class MessageCutter {
 public:
  explicit MessageCutter(ByteSource& source) : source_(source) {}

  /// The next message, valid until the next call; null at the end, where
  /// `damage` says if it is a sound one.
  Result<const std::string*> next() {
    uint64_t length = 0;
    for (int shift = 0;; shift += 7) {
      const Result<int> byte = take();
      if (!byte) return pass(byte.error());
      if (*byte < 0) {
        if (shift > 0) damage = "truncated";
        return nullptr;
      }
      length |= static_cast<uint64_t>(*byte & 0x7f) << shift;
      if (*byte < 0x80) break;
      if (shift >= 28) length = kLargestMessage + 1;
      if (length > kLargestMessage) break;
    }
    if (length > kLargestMessage) {
      damage = "bytes that are no message";
      return nullptr;
    }
    message_.clear();
    while (message_.size() < length) {
      if (at_ == size_) {
        const Result<bool> more = fill();
        if (!more) return pass(more.error());
        if (!*more) {
          damage = "truncated";
          return nullptr;
        }
      }
      const size_t part =
          std::min<size_t>(length - message_.size(), size_ - at_);
      message_.append(buffer_, at_, part);
      at_ += part;
    }
    return &message_;
  }

  std::string damage;

 private:
  Result<bool> fill() {
    const Result<size_t> size = source_.read(buffer_);
    if (!size) return pass(size.error());
    at_ = 0;
    size_ = *size;
    return size_ > 0;
  }

  /// One byte; -1 at the end.
  Result<int> take() {
    if (at_ == size_) {
      const Result<bool> more = fill();
      if (!more) return pass(more.error());
      if (!*more) return -1;
    }
    return static_cast<unsigned char>(buffer_[at_++]);
  }

  ByteSource& source_;
  std::string buffer_ = std::string(1 << 18, '\0');
  size_t at_ = 0, size_ = 0;
  std::string message_;
};

/// The message at `at` of a file's head, as far as the head goes.
std::optional<std::string_view> message_at(std::string_view head, size_t& at) {
  const std::optional<uint64_t> length = read_varint(head, at);
  if (!length || *length > kLargestMessage) return std::nullopt;
  const std::string_view message = head.substr(at, *length);
  at += std::min<size_t>(*length, head.size() - at);
  return message;
}

bool looks_like_node(std::string_view message) {
  ChakraNode node;
  if (!decode_chakra_node(message, node)) return false;
  return node.type > 0 && node.type <= 16 && node.id >= 0 && !node.name.empty();
}

/// Metadata first, then a node; a head that ends within either will do.
bool looks_like_protobuf(std::string_view head) {
  size_t at = 0;
  const auto first = message_at(head, at);
  if (!first) return false;
  ChakraMetadata metadata;
  const bool sound = decode_chakra_metadata(*first, metadata);
  const bool telling = !metadata.version.empty() || !metadata.schema.empty();
  if (at == head.size()) return telling;
  if (!sound) return false;
  const size_t node_starts = at;
  const auto second = message_at(head, at);
  if (!second) return false;
  if (at == head.size() && telling) return true;
  return node_starts < at && looks_like_node(*second);
}

bool is_generated_json(std::string_view head) {
  return has(head, "\"workload_graph\"");
}

bool looks_like_json(std::string_view head) {
  if (!without_blanks(head).starts_with('{')) return false;
  if (is_generated_json(head)) return true;
  for (const std::string_view word :
       {"\"COMP_NODE\"", "\"COMM_COLL_NODE\"", "\"COMM_SEND_NODE\"",
        "\"COMM_RECV_NODE\"", "\"METADATA_NODE\"", "\"MEM_LOAD_NODE\""}) {
    if (has(head, word)) return true;
  }
  return false;
}

Status read_protobuf(ByteSource& source, ChakraGraph& graph,
                     ChakraMetadata& metadata, FileReport& report) {
  MessageCutter cutter(source);
  ChakraNode node;
  bool first = true;
  while (true) {
    const Result<const std::string*> message = cutter.next();
    if (!message) return pass(message.error());
    if (*message == nullptr) break;
    if (first) {
      decode_chakra_metadata(**message, metadata);
    } else if (decode_chakra_node(**message, node)) {
      graph.add(node);
    } else {
      ++report.dropped["damaged node"];
    }
    first = false;
  }
  if (!cutter.damage.empty()) ++report.dropped[cutter.damage];
  return {};
}

Status read_json(InputFile& input, ChakraGraph& graph, ChakraMetadata& metadata,
                 FileReport& report) {
  std::vector<std::string> arrays;
  if (is_generated_json(input.head)) arrays = {"workload_graph"};
  JsonObjects objects(*input.source, std::move(arrays));
  ChakraNode node;
  return objects.read(report, [&](std::string_view object) {
    bool is_metadata = false;
    if (!read_chakra_json(object, node, metadata, is_metadata)) {
      ++report.dropped["object that is no node"];
    } else if (!is_metadata) {
      graph.add(node);
    }
  });
}

class ChakraReader final : public TraceReader {
 public:
  std::string_view kind() const override { return "chakra"; }

  bool recognizes(const InputFile& input) const override {
    return looks_like_json(input.head) || looks_like_protobuf(input.head);
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    ChakraGraph graph(spool, report);
    ChakraMetadata metadata;
    const bool json = looks_like_json(input.head);
    Status status = json
                        ? read_json(input, graph, metadata, report)
                        : read_protobuf(*input.source, graph, metadata, report);
    graph.finish(metadata);
    if (json) {
      report.dialect = is_generated_json(input.head) ? "json workload_graph"
                                                     : "json " + report.dialect;
    }
    if (status && report.events == 0) {
      return fail(ErrorKind::kParse,
                  "{}: not one readable node of a Chakra graph", input.name);
    }
    return status;
  }
};

}  // namespace

const TraceReader& chakra_reader() {
  static const ChakraReader reader;
  return reader;
}

}  // namespace reprise
