// A tokenizer and a depth: in "graph [ node [ id 0 label "x" ] ]" a node's own
// values stand at depth 2, and nothing else is looked at. Source: networkx,
// readwrite/gml.py. Cost: linear.
#include "data/formats/dpro/dpro_gml.h"

#include <algorithm>
#include <optional>

#include "data/io/decimal.h"

namespace reprise {
namespace {

enum class Token : uint8_t { kWord, kString, kOpen, kClose, kEnd };

class GmlLexer {
 public:
  explicit GmlLexer(std::string_view text) : text_(text) {}

  Token next() {
    skip_blanks();
    if (at_ == text_.size()) return Token::kEnd;
    const char c = text_[at_];
    if (c == '[' || c == ']') {
      ++at_;
      return c == '[' ? Token::kOpen : Token::kClose;
    }
    const size_t begin = at_ + (c == '"');
    size_t end = begin;
    if (c == '"') {
      end = std::min(text_.find('"', begin), text_.size());
      at_ = std::min(end + 1, text_.size());
    } else {
      while (end < text_.size() && !ends_word(text_[end])) ++end;
      at_ = end;
    }
    value_ = text_.substr(begin, end - begin);
    return c == '"' ? Token::kString : Token::kWord;
  }
  std::string_view value() const { return value_; }

 private:
  static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
  }
  static bool ends_word(char c) {
    return is_blank(c) || c == '[' || c == ']' || c == '"';
  }

  // A line that starts with '#' is a comment.
  void skip_blanks() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#' && (at_ == 0 || text_[at_ - 1] == '\n')) {
        at_ = std::min(text_.find('\n', at_), text_.size() - 1);
      } else if (!is_blank(text_[at_])) {
        return;
      }
    }
  }

  std::string_view text_, value_;
  size_t at_ = 0;
};

/// The text with "&#34;", "&quot;" and "&amp;" resolved, as GML escapes them.
std::string unescaped(std::string_view text) {
  struct Escape {
    std::string_view written, meant;
  };
  constexpr Escape kEscapes[] = {
      {"&#34;", "\""}, {"&quot;", "\""}, {"&amp;", "&"}, {"&#38;", "&"}};
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t taken = 1;
    std::string_view meant = text.substr(0, 1);
    for (const Escape& escape : kEscapes) {
      if (!text.starts_with(escape.written)) continue;
      taken = escape.written.size();
      meant = escape.meant;
    }
    out += meant;
    text.remove_prefix(taken);
  }
  return out;
}

class GmlParser {
 public:
  explicit GmlParser(std::string_view text) : lexer_(text) {}

  Result<GmlGraph> parse() {
    std::string_view key;
    for (Token token = lexer_.next(); token != Token::kEnd;
         token = lexer_.next()) {
      if (token == Token::kOpen) {
        open(key);
      } else if (token == Token::kClose) {
        close();
      } else if (key.empty() && token == Token::kWord) {
        key = lexer_.value();
        continue;
      } else {
        take(key, lexer_.value());
      }
      key = {};
    }
    if (!seen_graph_) return fail(ErrorKind::kParse, "it holds no graph");
    graph_.truncated = depth_ > 0;
    tie_edges();
    return std::move(graph_);
  }

 private:
  enum class Place : uint8_t { kElsewhere, kNode, kEdge };
  // graph [ node [ id 0 label "x" ] ]: a node's own values stand at depth 2.
  static constexpr size_t kGraphDepth = 1, kItemDepth = 2;

  void open(std::string_view key) {
    if (depth_ == 0 && key == "graph") in_graph_ = seen_graph_ = true;
    ++depth_;
    if (depth_ != kItemDepth || !in_graph_) return;
    place_ = key == "node"   ? Place::kNode
             : key == "edge" ? Place::kEdge
                             : Place::kElsewhere;
    id_ = source_ = target_ = std::nullopt;
    label_ = {};
  }

  void close() {
    if (depth_ == kItemDepth) finish_item();
    if (depth_ == kGraphDepth) in_graph_ = false;
    if (depth_ > 0) --depth_;
  }

  void take(std::string_view key, std::string_view value) {
    if (depth_ != kItemDepth) return;
    if (key == "label") label_ = value;
    if (key == "id") id_ = parse_integer(value);
    if (key == "source") source_ = parse_integer(value);
    if (key == "target") target_ = parse_integer(value);
  }

  void finish_item() {
    if (place_ == Place::kNode && id_) {
      nodes_.emplace_back(*id_, static_cast<uint32_t>(graph_.labels.size()));
      graph_.labels.push_back(unescaped(label_));
    } else if (place_ == Place::kEdge && source_ && target_) {
      ends_.emplace_back(*source_, *target_);
    }
    place_ = Place::kElsewhere;
  }

  std::optional<uint32_t> node_of(int64_t id) const {
    const auto found = std::lower_bound(nodes_.begin(), nodes_.end(),
                                        std::pair(id, uint32_t{0}));
    if (found == nodes_.end() || found->first != id) return std::nullopt;
    return found->second;
  }

  void tie_edges() {
    if (!std::is_sorted(nodes_.begin(), nodes_.end())) {
      std::sort(nodes_.begin(), nodes_.end());
    }
    for (const auto& [source, target] : ends_) {
      const auto from = node_of(source), to = node_of(target);
      if (from && to) {
        graph_.edges.emplace_back(*from, *to);
      } else {
        ++graph_.dangling_edges;
      }
    }
  }

  GmlLexer lexer_;
  GmlGraph graph_;
  size_t depth_ = 0;
  bool in_graph_ = false, seen_graph_ = false;
  Place place_ = Place::kElsewhere;
  std::optional<int64_t> id_, source_, target_;
  std::string_view label_;
  std::vector<std::pair<int64_t, uint32_t>> nodes_;  // Id, place.
  std::vector<std::pair<int64_t, int64_t>> ends_;
};

}  // namespace

Result<GmlGraph> parse_gml(std::string_view text) {
  return GmlParser(text).parse();
}

}  // namespace reprise
