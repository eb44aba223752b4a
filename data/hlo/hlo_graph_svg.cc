// A layered drawing: longest-path layers, barycentre ordering, curved edges.
#include <fmt/format.h>

#include <algorithm>

#include "data/hlo/hlo_graph.h"

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
constexpr size_t kMaxCharacters = 44;
constexpr int kSweeps = 8;

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

class Layout {
 public:
  explicit Layout(const HloGraph& graph)
      : graph_(graph),
        boxes_(graph.nodes.size()),
        layer_(graph.nodes.size(), 0) {
    assign_layers();
    order_layers();
    place();
  }

  const std::vector<Box>& boxes() const { return boxes_; }
  double width() const { return width_; }
  double height() const { return height_; }

 private:
  void assign_layers();
  void order_layers();
  void sweep(bool down);
  void place();

  const HloGraph& graph_;
  std::vector<Box> boxes_;
  std::vector<size_t> layer_;
  std::vector<std::vector<size_t>> layers_;
  std::vector<double> rank_;  ///< Position of a node in its layer, in [0, 1].
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
  size_t count = 1;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!has_operand[i] && first_user[i] > 0) layer_[i] = first_user[i] - 1;
    count = std::max(count, layer_[i] + 1);
  }
  layers_.resize(count);
  for (size_t i = 0; i < graph_.nodes.size(); ++i)
    layers_[layer_[i]].push_back(i);
}

void Layout::order_layers() {
  rank_.assign(graph_.nodes.size(), 0);
  const auto rank_layer = [this](const std::vector<size_t>& layer) {
    for (size_t i = 0; i < layer.size(); ++i) {
      rank_[layer[i]] =
          (static_cast<double>(i) + 0.5) / static_cast<double>(layer.size());
    }
  };
  for (const auto& layer : layers_) rank_layer(layer);
  for (int i = 0; i < kSweeps; ++i) {
    sweep(i % 2 == 0);
    for (const auto& layer : layers_) rank_layer(layer);
  }
}

/// Sorts every layer by the mean rank of its operands (down) or users (up).
void Layout::sweep(bool down) {
  std::vector<double> sum(graph_.nodes.size(), 0);
  std::vector<double> degree(graph_.nodes.size(), 0);
  for (const GraphEdge& edge : graph_.edges) {
    const uint32_t node = down ? edge.to : edge.from;
    sum[node] += rank_[down ? edge.from : edge.to];
    degree[node] += 1;
  }
  for (auto& layer : layers_) {
    std::stable_sort(layer.begin(), layer.end(), [&](size_t a, size_t b) {
      const double mean_a = degree[a] > 0 ? sum[a] / degree[a] : rank_[a];
      const double mean_b = degree[b] > 0 ? sum[b] / degree[b] : rank_[b];
      return mean_a < mean_b;
    });
  }
}

void Layout::place() {
  std::vector<double> widths;
  for (size_t l = 0; l < layers_.size(); ++l) {
    double x = 0;
    for (const size_t node : layers_[l]) {
      const GraphNode& shown = graph_.nodes[node];
      const size_t length =
          std::max({shown_length(shown.name), shown_length(shown.opcode),
                    shown_length(shown.shape)});
      Box& box = boxes_[node];
      box.width = std::max(kMinimumWidth,
                           static_cast<double>(length) * kCharacterWidth + 16);
      box.x = x;
      box.y = kMargin + kLegendHeight +
              static_cast<double>(l) * (kNodeHeight + kLayerGap);
      x += box.width + kNodeGap;
    }
    widths.push_back(x - kNodeGap);
    width_ = std::max(width_, widths.back());
  }
  for (size_t l = 0; l < layers_.size(); ++l) {
    for (const size_t node : layers_[l])
      boxes_[node].x += kMargin + (width_ - widths[l]) / 2;
  }
  width_ = std::max(width_, kLegendEntry * 9) + 2 * kMargin;
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

std::string edge_svg(const GraphEdge& edge, const Box& from, const Box& to) {
  const double y1 = from.y + kNodeHeight;
  const double bend = (to.y - y1) / 2;
  std::string out = fmt::format(
      "<path d=\"M{:.1f},{:.1f} C{:.1f},{:.1f} {:.1f},{:.1f} "
      "{:.1f},{:.1f}\"{}/>",
      from.center(), y1, from.center(), y1 + bend, to.center(), to.y - bend,
      to.center(), to.y, edge.is_control ? " stroke-dasharray=\"5 4\"" : "");
  if (!edge.is_control) {
    // Nearer to the user, where edges of one value have parted.
    const double t = 0.62;
    const double x = from.center() + (to.center() - from.center()) *
                                         (3 * t * t - 2 * t * t * t);
    const double y = y1 + (to.y - y1) * (1.5 * t * (1 - t) + t * t * t);
    out +=
        fmt::format("<text class=\"bytes\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                    x, y, short_bytes(edge.bytes));
  }
  return out + "\n";
}

std::string legend_svg(const HloGraph& graph) {
  std::string out =
      fmt::format("<text class=\"title\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
                  kMargin, kMargin, escape_xml(graph.title));
  double x = kMargin;
  for (int i = 0; i <= static_cast<int>(NodeKind::kCustom); ++i) {
    const auto kind = static_cast<NodeKind>(i);
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
  for (const GraphEdge& edge : graph.edges) {
    out += edge_svg(edge, layout.boxes()[edge.from], layout.boxes()[edge.to]);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    out += node_svg(graph.nodes[i], layout.boxes()[i]);
  }
  return out + "</svg>\n";
}

}  // namespace reprise
