// dPRO sorts operators by what they lead to: a first walk forward from each
// gradient's communication marks updates, one from the gradients marks the
// backward pass, and what is left is forward. Both walks visit an edge once.
// Source: dag_utils of byteprofile-analysis.
#include "data/formats/dpro/dpro_graph.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>

#include "data/io/decimal.h"
#include "data/io/head_text.h"

namespace reprise {
namespace {

enum class Category : uint8_t { kForward, kBackward, kUpdate, kNamed };

constexpr std::array<std::string_view, 7> kPrefixes = {
    "Comm.", "BW.", "FW.", "UPDATE_", "I/O", "OUTPUT", "Comp."};

bool is_named(std::string_view label) {
  return std::any_of(
      kPrefixes.begin(), kPrefixes.end(),
      [&](std::string_view prefix) { return label.starts_with(prefix); });
}

/// "^a/b/_7" -> "a/b": control inputs and copies are the operator itself.
std::string_view trimmed(std::string_view label) {
  if (label.starts_with('^')) label.remove_prefix(1);
  const size_t slash = label.rfind('/');
  if (slash != label.npos && slash + 1 < label.size() &&
      label[slash + 1] == '_') {
    label = label.substr(0, slash);
  }
  return label;
}

bool assigns(std::string_view label) {
  return label == "GradientDescent" || has(label, "Assign") ||
         has(label, "SGD") ||
         (has(label, "GradientDescent") && has(label, "update"));
}

bool is_gradient(std::string_view label) {
  return label.starts_with("gradients") ||
         (label.starts_with("gradient_tape") && !label.ends_with("ShapeN") &&
          !has(label, "LayoutOptimizer"));
}

std::string dotless(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '.', '_');
  return out;
}

/// Nodes by what they lead to.
class Successors {
 public:
  Successors(size_t nodes,
             const std::vector<std::pair<uint32_t, uint32_t>>& edges)
      : first_(nodes + 1, 0), to_(edges.size()) {
    for (const auto& [from, to] : edges) ++first_[from + 1];
    for (size_t node = 0; node < nodes; ++node)
      first_[node + 1] += first_[node];
    std::vector<size_t> next(first_.begin(), first_.end() - 1);
    for (const auto& [from, to] : edges) to_[next[from]++] = to;
  }

  /// Calls `enter` for all that follow the nodes of `open`; where it says no,
  /// the walk stops.
  void walk(std::vector<uint32_t> open,
            const std::function<bool(uint32_t)>& enter) const {
    while (!open.empty()) {
      const uint32_t node = open.back();
      open.pop_back();
      for (size_t at = first_[node]; at < first_[node + 1]; ++at) {
        if (enter(to_[at])) open.push_back(to_[at]);
      }
    }
  }

 private:
  std::vector<size_t> first_;
  std::vector<uint32_t> to_;
};

class Categorizer {
 public:
  explicit Categorizer(const GmlGraph& gml)
      : gml_(gml),
        communication_(gml.labels.size()),
        categories_(gml.labels.size(), Category::kForward),
        successors_(gml.labels.size(), gml.edges) {}

  std::vector<std::string> run() {
    for (uint32_t node = 0; node < gml_.labels.size(); ++node) sort(node);
    successors_.walk(of(Category::kNamed, true), [&](uint32_t node) {
      if (categories_[node] == Category::kUpdate ||
          categories_[node] == Category::kNamed) {
        return false;
      }
      categories_[node] = Category::kUpdate;
      return true;
    });
    successors_.walk(of(Category::kBackward, false), [&](uint32_t node) {
      if (categories_[node] != Category::kForward) return false;
      categories_[node] = Category::kBackward;
      return true;
    });
    std::vector<std::string> names;
    for (uint32_t node = 0; node < gml_.labels.size(); ++node) {
      names.push_back(name_of(node));
    }
    return names;
  }

 private:
  void sort(uint32_t node) {
    const std::string& label = gml_.labels[node];
    communication_[node] = dpro_communication_name(label);
    if (!communication_[node].empty() || is_named(label)) {
      categories_[node] = Category::kNamed;
    } else if (assigns(label)) {
      categories_[node] = Category::kUpdate;
    } else if (is_gradient(trimmed(label))) {
      categories_[node] = Category::kBackward;
    }
  }

  std::vector<uint32_t> of(Category category, bool communicates) const {
    std::vector<uint32_t> nodes;
    for (uint32_t node = 0; node < categories_.size(); ++node) {
      if (categories_[node] == category &&
          communication_[node].empty() != communicates) {
        nodes.push_back(node);
      }
    }
    return nodes;
  }

  std::string name_of(uint32_t node) const {
    if (!communication_[node].empty()) return communication_[node];
    const std::string_view label = trimmed(gml_.labels[node]);
    switch (categories_[node]) {
      case Category::kForward:
        return "FW." + dotless(label);
      case Category::kBackward:
        return "BW." + dotless(label);
      case Category::kUpdate:
        return "UPDATE_." + dotless(label);
      case Category::kNamed:
        break;
    }
    return gml_.labels[node];
  }

  const GmlGraph& gml_;
  std::vector<std::string> communication_;  // [node], "" for others.
  std::vector<Category> categories_;
  Successors successors_;
};

std::string_view without_category(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == name.npos ? name : name.substr(dot + 1);
}

}  // namespace

std::string dpro_communication_name(std::string_view label) {
  if (label.starts_with("Comm.")) return std::string(label);
  if (is_named(label)) return {};
  label = trimmed(label);
  std::string_view ids;
  constexpr std::string_view kBytePs = "BytePSPushPull";
  if (const size_t at = label.rfind(kBytePs); at != label.npos) {
    ids = label.substr(std::min(at + kBytePs.size() + 1, label.size()));
  } else {
    std::string lower(label);
    for (char& c : lower) {
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    const size_t dot = label.rfind('.');
    if (!has(lower, "allreduce") || dot == label.npos || has(label, "Switch") ||
        has(label, "input_barrier")) {
      return {};
    }
    ids = label.substr(dot + 1);
    ids = ids.substr(0, ids.find('_'));
  }
  std::string name(ids);
  std::replace(name.begin(), name.end(), '_', '+');
  return dpro_tensor_ids(name).empty() ? std::string() : "Comm." + name;
}

std::vector<uint32_t> dpro_tensor_ids(std::string_view ids) {
  std::vector<uint32_t> found;
  while (!ids.empty()) {
    const size_t plus = std::min(ids.find('+'), ids.size());
    const auto id = parse_integer(ids.substr(0, plus));
    if (!id || *id < 0 || *id >= UINT32_MAX) return {};
    found.push_back(static_cast<uint32_t>(*id));
    ids.remove_prefix(std::min(plus + 1, ids.size()));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

DproGraph::DproGraph(const GmlGraph& gml) {
  const std::vector<std::string> names = Categorizer(gml).run();
  std::vector<uint32_t> node_of;  // [node of gml]; equal names are one node.
  for (const std::string& name : names) {
    const auto [place, added] =
        nodes_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (added) names_.push_back(name);
    node_of.push_back(place->second);
  }
  for (uint32_t node = 0; node < names_.size(); ++node) {
    nodes_.try_emplace(std::string(without_category(names_[node])), node);
  }
  for (const auto& [from, to] : gml.edges) {
    if (node_of[from] != node_of[to]) {
      edges_.emplace_back(node_of[from], node_of[to]);
    }
  }
  std::sort(edges_.begin(), edges_.end());
  edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
}

uint32_t DproGraph::find(std::string_view operation) const {
  if (const auto exact = nodes_.find(operation); exact != nodes_.end()) {
    return exact->second;
  }
  const auto found = nodes_.find(dotless(trimmed(operation)));
  return found == nodes_.end() ? kNoDproNode : found->second;
}

}  // namespace reprise
