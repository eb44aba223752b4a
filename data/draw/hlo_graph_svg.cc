// A layered drawing: longest-path layers, barycentre ordering, curved edges.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/draw/hlo_graph.h"

namespace reprise {
namespace {

// Pixels.
constexpr double kNodeHeight = 46;
constexpr double kLayerGap = 64;
constexpr double kNodeGap = 24;
constexpr double kMargin = 24;
constexpr double kLegendHeight = 56;
constexpr double kCharacterWidth = 6.4;
constexpr double kMinimumWidth = 80;
constexpr double kLegendEntry = 128;
constexpr double kBendWidth = 12;
constexpr int kLegendEntries = static_cast<int>(OpcodeKind::kCustom) + 1;
/// With more, long edges are drawn straight through.
constexpr size_t kMaxBends = 20000;
constexpr size_t kMaxCharacters = 44;
constexpr int kSweeps = 4;

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out.push_back(static_cast<unsigned char>(c) < ' ' ? ' ' : c);
    }
  }
  return out;
}

std::string shorten(const std::string& text) {
  return text.size() <= kMaxCharacters
             ? text
             : text.substr(0, kMaxCharacters - 1) + "…";
}

size_t shown_length(const std::string& text) {
  return std::min(text.size(), kMaxCharacters);
}

struct Box {
  double x = 0, y = 0, width = 0;  ///< Left, top.
  double center() const { return x + width / 2; }
};

/// Items are the nodes and then, one a layer that an edge passes, bends of long
/// edges: they take part in the ordering and keep room free for the edge.
class Layout {
 public:
  explicit Layout(const HloGraph& graph)
      : graph_(graph), layer_(graph.nodes.size(), 0) {
    assign_layers();
    add_bends();
    order_layers();
    place();
  }

  const Box& node(size_t i) const { return boxes_[i]; }
  /// Boxes that an edge passes, its two nodes included.
  std::vector<Box> path(size_t edge) const {
    std::vector<Box> boxes;
    for (const size_t item : paths_[edge]) boxes.push_back(boxes_[item]);
    return boxes;
  }
  double width() const { return width_; }
  double height() const { return height_; }

 private:
  void assign_layers();
  void add_bends();
  void order_layers();
  void rank_layer(const std::vector<size_t>& layer);
  void order_layer(const std::vector<std::vector<size_t>>& neighbours,
                   std::vector<size_t>* layer);
  void place();
  double item_width(size_t item) const;

  const HloGraph& graph_;
  std::vector<Box> boxes_;
  std::vector<size_t> layer_;                ///< [item]
  std::vector<std::vector<size_t>> layers_;  ///< Items from left to right.
  std::vector<std::vector<size_t>> paths_;   ///< [edge] -> items, top first.
  std::vector<double> rank_;  ///< Position of an item in its layer, in [0, 1].
  double width_ = 0, height_ = 0;
};

/// Edges point down; a node without operands sinks to just above its first
/// user.
void Layout::assign_layers() {
  std::vector<GraphEdge> edges = graph_.edges;
  std::sort(
      edges.begin(), edges.end(),
      [](const GraphEdge& a, const GraphEdge& b) { return a.from < b.from; });
  std::vector<bool> has_operand(graph_.nodes.size(), false);
  for (const GraphEdge& edge : edges) {
    layer_[edge.to] = std::max(layer_[edge.to], layer_[edge.from] + 1);
    has_operand[edge.to] = true;
  }
  std::vector<size_t> first_user(graph_.nodes.size(), 0);
  for (const GraphEdge& edge : edges) {
    size_t& first = first_user[edge.from];
    first = first == 0 ? layer_[edge.to] : std::min(first, layer_[edge.to]);
  }
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!has_operand[i] && first_user[i] > 0) layer_[i] = first_user[i] - 1;
  }
}

void Layout::add_bends() {
  size_t wanted = 0;
  for (const GraphEdge& edge : graph_.edges) {
    wanted += layer_[edge.to] - layer_[edge.from] - 1;
  }
  for (const GraphEdge& edge : graph_.edges) {
    std::vector<size_t>& path = paths_.emplace_back();
    path.push_back(edge.from);
    for (size_t l = layer_[edge.from] + 1;
         wanted <= kMaxBends && l < layer_[edge.to]; ++l) {
      path.push_back(layer_.size());
      layer_.push_back(l);
    }
    path.push_back(edge.to);
  }
  size_t last = 0;
  for (const size_t layer : layer_) last = std::max(last, layer);
  layers_.resize(last + 1);
  for (size_t i = 0; i < layer_.size(); ++i) layers_[layer_[i]].push_back(i);
  boxes_.resize(layer_.size());
}

void Layout::rank_layer(const std::vector<size_t>& layer) {
  for (size_t i = 0; i < layer.size(); ++i) {
    rank_[layer[i]] =
        (static_cast<double>(i) + 0.5) / static_cast<double>(layer.size());
  }
}

void Layout::order_layers() {
  rank_.assign(layer_.size(), 0);
  for (const auto& layer : layers_) rank_layer(layer);
  std::vector<std::vector<size_t>> operands(layer_.size());
  std::vector<std::vector<size_t>> users(layer_.size());
  for (const std::vector<size_t>& path : paths_) {
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      users[path[i]].push_back(path[i + 1]);
      operands[path[i + 1]].push_back(path[i]);
    }
  }
  for (int i = 0; i < kSweeps; ++i) {
    for (auto& layer : layers_) order_layer(operands, &layer);
    for (size_t l = layers_.size(); l-- > 0;) order_layer(users, &layers_[l]);
  }
}

/// Sorts a layer by the mean rank of its operands or users, as they stand now.
void Layout::order_layer(const std::vector<std::vector<size_t>>& neighbours,
                         std::vector<size_t>* layer) {
  std::vector<std::pair<double, size_t>> keyed;
  for (const size_t item : *layer) {
    double sum = 0;
    for (const size_t neighbour : neighbours[item]) sum += rank_[neighbour];
    const auto degree = static_cast<double>(neighbours[item].size());
    keyed.emplace_back(degree > 0 ? sum / degree : rank_[item], item);
  }
  std::stable_sort(
      keyed.begin(), keyed.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < keyed.size(); ++i) (*layer)[i] = keyed[i].second;
  rank_layer(*layer);
}

double Layout::item_width(size_t item) const {
  if (item >= graph_.nodes.size()) return kBendWidth;
  const GraphNode& node = graph_.nodes[item];
  const size_t length =
      std::max({shown_length(node.name), shown_length(node.opcode),
                shown_length(node.shape)});
  return std::max(kMinimumWidth,
                  static_cast<double>(length) * kCharacterWidth + 16);
}

void Layout::place() {
  std::vector<double> widths;
  for (size_t l = 0; l < layers_.size(); ++l) {
    double x = 0;
    for (const size_t item : layers_[l]) {
      Box& box = boxes_[item];
      box.width = item_width(item);
      box.x = x;
      box.y = kMargin + kLegendHeight +
              static_cast<double>(l) * (kNodeHeight + kLayerGap);
      x += box.width + kNodeGap;
    }
    widths.push_back(x - kNodeGap);
    width_ = std::max(width_, widths.back());
  }
  width_ = std::max(width_, kLegendEntry * kLegendEntries);
  for (size_t l = 0; l < layers_.size(); ++l) {
    for (const size_t item : layers_[l])
      boxes_[item].x += kMargin + (width_ - widths[l]) / 2;
  }
  width_ += 2 * kMargin;
  height_ = 2 * kMargin + kLegendHeight +
            static_cast<double>(layers_.size()) * (kNodeHeight + kLayerGap) -
            kLayerGap;
}

std::string node_svg(const GraphNode& node, const Box& box) {
  std::string out = fmt::format(
      "<g><title>{} = {} {}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" "
      "width=\"{:.1f}\" "
      "height=\"{:.0f}\" rx=\"6\" fill=\"{}\" stroke=\"{}\" "
      "stroke-width=\"{}\"{}{}/>",
      escape_xml(node.name), escape_xml(node.shape), escape_xml(node.opcode),
      box.x, box.y, box.width, kNodeHeight, node_kind_color(node.kind),
      node.is_outside ? "#999" : "#333",
      node.is_center && !node.is_outside ? 2 : 1,
      node.has_more ? " stroke-dasharray=\"4 3\"" : "",
      node.is_outside ? " opacity=\"0.7\"" : "");
  const std::string* lines[] = {&node.name, &node.opcode, &node.shape};
  for (int i = 0; i < 3; ++i) {
    out +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>", box.center(),
                    box.y + 14 + 13 * i, i == 0 ? " font-weight=\"bold\"" : "",
                    escape_xml(shorten(*lines[i])));
  }
  return out + "</g>\n";
}

/// One curve a layer; straight down through the layers that an edge passes.
/// Bytes of every other edge into a node (`is_odd`) stand higher, clear of
/// their neighbours'.
std::string edge_svg(const GraphEdge& edge, const std::vector<Box>& path,
                     bool is_odd) {
  std::string out =
      fmt::format("<path d=\"M{:.1f},{:.1f}", path.front().center(),
                  path.front().y + kNodeHeight);
  for (size_t i = 1; i < path.size(); ++i) {
    const double y1 = path[i - 1].y + kNodeHeight;
    const double bend = (path[i].y - y1) / 2;
    out += fmt::format(" C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}",
                       path[i - 1].center(), y1 + bend, path[i].center(),
                       path[i].y - bend, path[i].center(), path[i].y);
    if (i + 1 < path.size()) {
      out += fmt::format(" V{:.1f}", path[i].y + kNodeHeight);
    }
  }
  out += edge.is_control ? "\" stroke-dasharray=\"5 4\"/>" : "\"/>";
  if (!edge.is_control) {
    // On the last curve, nearer to the user, where edges of one value have
    // parted.
    const Box& from = path[path.size() - 2];
    const Box& to = path.back();
    const double t = is_odd ? 0.4 : 0.65;
    const double y1 = from.y + kNodeHeight;
    const double x = from.center() + (to.center() - from.center()) *
                                         (3 * t * t - 2 * t * t * t);
    const double y = y1 + (to.y - y1) * (1.5 * t * (1 - t) + t * t * t);
    out +=
        fmt::format("<text class=\"bytes\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                    x, y + 4, short_bytes(edge.bytes));
  }
  return out + "\n";
}

std::string legend_svg(const HloGraph& graph) {
  std::string out =
      fmt::format("<text class=\"title\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
                  kMargin, kMargin, escape_xml(graph.title));
  double x = kMargin;
  for (int i = 0; i < kLegendEntries; ++i) {
    const auto kind = static_cast<OpcodeKind>(i);
    out += fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"12\" height=\"12\" "
        "fill=\"{}\" stroke=\"#333\"/>"
        "<text class=\"legend\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
        x, kMargin + 14, node_kind_color(kind), x + 17, kMargin + 24,
        node_kind_name(kind));
    x += kLegendEntry;
  }
  return out;
}

}  // namespace

std::string graph_svg(const HloGraph& graph) {
  const Layout layout(graph);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n",
      layout.width(), layout.height());
  out +=
      "<style>text{font:11px "
      "sans-serif;text-anchor:middle;fill:#111}.title{font-size:14px;"
      "font-weight:bold;text-anchor:start}.legend{text-anchor:start}.bytes{"
      "font-size:10px;"
      "fill:#444;paint-order:stroke;stroke:#fff;stroke-width:3px}"
      "path{fill:none;stroke:#777;marker-end:url(#tip)}</style>\n"
      "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" "
      "markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" "
      "style=\"fill:#777;stroke:none;marker-end:none\"/></marker></defs>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  out += legend_svg(graph);
  std::vector<size_t> arrived(graph.nodes.size(), 0);
  for (size_t i = 0; i < graph.edges.size(); ++i) {
    const bool is_odd = arrived[graph.edges[i].to]++ % 2 == 1;
    out += edge_svg(graph.edges[i], layout.path(i), is_odd);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    out += node_svg(graph.nodes[i], layout.node(i));
  }
  return out + "</svg>\n";
}

}  // namespace reprise
