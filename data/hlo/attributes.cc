// Typed views of the attributes that Reprise interprets.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "data/hlo/attribute_reader.h"
#include "data/hlo/hlo.h"
#include "data/hlo/window.h"

namespace reprise {
namespace {

/// Largest size, stride or padding of a window; keeps products of two in 64
/// bits.
constexpr int64_t kMaxWindowValue = int64_t{1} << 30;

int64_t integer_or(const Instruction& instruction, std::string_view name,
                   int64_t fallback) {
  const std::vector<int64_t> list = integer_list(instruction, name);
  return list.size() == 1 ? list[0] : fallback;
}

/// `AxBxC…` of items `a_b_c`, such as `3x3` or `1_1x0_2_1`.
bool read_crossed(std::string_view text,
                  std::vector<std::vector<int64_t>>* out) {
  AttributeReader reader(text);
  do {
    std::vector<int64_t>& item = out->emplace_back();
    do {
      if (!reader.integer(&item.emplace_back())) return false;
    } while (reader.take('_'));
  } while (reader.take('x'));
  return reader.at_end();
}

std::string_view window_field(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const size_t value = at + name.size();
    const bool starts = at > 0 && (text[at - 1] == ' ' || text[at - 1] == '{');
    if (!starts || value >= text.size() || text[value] != '=') continue;
    return text.substr(value + 1, text.find_first_of(" }", value) - value - 1);
  }
  return {};
}

}  // namespace

DotDimensions dot_dimensions(const Instruction& dot) {
  return {.lhs_batch = integer_list(dot, "lhs_batch_dims"),
          .rhs_batch = integer_list(dot, "rhs_batch_dims"),
          .lhs_contracting = integer_list(dot, "lhs_contracting_dims"),
          .rhs_contracting = integer_list(dot, "rhs_contracting_dims")};
}

Attribute slice_attribute(const std::vector<SliceDimension>& dimensions) {
  std::vector<std::string> bounds;
  bounds.reserve(dimensions.size());
  for (const SliceDimension& d : dimensions) {
    bounds.push_back(
        d.stride == 1 ? fmt::format("[{}:{}]", d.start, d.limit)
                      : fmt::format("[{}:{}:{}]", d.start, d.limit, d.stride));
  }
  return {"slice", RawText{fmt::format("{{{}}}", fmt::join(bounds, ", "))}};
}

Result<std::vector<SliceDimension>> slice_dimensions(const Instruction& slice) {
  std::vector<SliceDimension> dimensions;
  if (const Attribute* found = slice.find_attribute("slice")) {
    // `slice={}` of a scalar reads as an empty list.
    if (std::holds_alternative<std::vector<int64_t>>(found->value))
      return dimensions;
  }
  AttributeReader reader(raw_text(slice, "slice"));
  if (!reader.take('{')) return malformed(slice, "slice");
  if (reader.take('}')) return dimensions;
  do {
    SliceDimension& dimension = dimensions.emplace_back();
    if (!reader.take('[') || !reader.integer(&dimension.start) ||
        !reader.take(':') || !reader.integer(&dimension.limit) ||
        (reader.take(':') && !reader.integer(&dimension.stride)) ||
        !reader.take(']')) {
      return malformed(slice, "slice");
    }
    if (dimension.start < 0 || dimension.limit < dimension.start ||
        dimension.stride < 1) {
      return malformed(slice, "slice");
    }
  } while (reader.take(','));
  if (!reader.take('}') || !reader.at_end()) return malformed(slice, "slice");
  return dimensions;
}

Result<std::vector<PadDimension>> pad_dimensions(const Instruction& pad) {
  std::vector<PadDimension> dimensions;
  const std::string_view text = raw_text(pad, "padding");
  if (text.empty()) return dimensions;
  std::vector<std::vector<int64_t>> items;
  if (!read_crossed(text, &items)) return malformed(pad, "padding");
  for (const std::vector<int64_t>& item : items) {
    if (item.size() != 2 && item.size() != 3) return malformed(pad, "padding");
    dimensions.push_back({item[0], item[1], item.size() == 3 ? item[2] : 0});
    if (dimensions.back().interior < 0) return malformed(pad, "padding");
  }
  return dimensions;
}

GatherDimensions gather_dimensions(const Instruction& gather) {
  return {
      .offset_dims = integer_list(gather, "offset_dims"),
      .collapsed_slice_dims = integer_list(gather, "collapsed_slice_dims"),
      .start_index_map = integer_list(gather, "start_index_map"),
      .slice_sizes = integer_list(gather, "slice_sizes"),
      .operand_batching_dims = integer_list(gather, "operand_batching_dims"),
      .start_indices_batching_dims =
          integer_list(gather, "start_indices_batching_dims"),
      .index_vector_dim = integer_or(gather, "index_vector_dim", 0)};
}

ScatterDimensions scatter_dimensions(const Instruction& scatter) {
  return {.update_window_dims = integer_list(scatter, "update_window_dims"),
          .inserted_window_dims = integer_list(scatter, "inserted_window_dims"),
          .scatter_dims_to_operand_dims =
              integer_list(scatter, "scatter_dims_to_operand_dims"),
          .input_batching_dims = integer_list(scatter, "input_batching_dims"),
          .scatter_indices_batching_dims =
              integer_list(scatter, "scatter_indices_batching_dims"),
          .index_vector_dim = integer_or(scatter, "index_vector_dim", 0)};
}

std::string compare_direction(const Instruction& compare) {
  return std::string(raw_text(compare, "direction"));
}

bool compares_total_order(const Instruction& compare) {
  return raw_text(compare, "type") == "TOTALORDER";
}

Result<std::vector<WindowDimension>> window_dimensions(
    const Instruction& instruction) {
  const std::string_view text = raw_text(instruction, "window");
  std::vector<WindowDimension> window;
  const auto read = [&](std::string_view field, auto assign) {
    const std::string_view value = window_field(text, field);
    if (value.empty()) return true;
    std::vector<std::vector<int64_t>> items;
    if (!read_crossed(value, &items)) return false;
    if (field == "size") window.resize(items.size());
    if (items.size() != window.size()) return false;
    for (size_t i = 0; i < items.size(); ++i) {
      if (!assign(&window[i], items[i])) return false;
    }
    return true;
  };
  const auto single = [](int64_t WindowDimension::*member, int64_t least) {
    return [member, least](WindowDimension* dimension,
                           const std::vector<int64_t>& item) {
      dimension->*member = item[0];
      return item.size() == 1 && item[0] >= least && item[0] <= kMaxWindowValue;
    };
  };
  const auto padding = [](WindowDimension* dimension,
                          const std::vector<int64_t>& item) {
    if (item.size() != 2) return false;
    if (std::abs(item[0] / 2) > kMaxWindowValue ||
        std::abs(item[1] / 2) > kMaxWindowValue) {
      return false;
    }
    dimension->padding_low = item[0];
    dimension->padding_high = item[1];
    return true;
  };
  if (!read("size", single(&WindowDimension::size, 0)) ||
      !read("stride", single(&WindowDimension::stride, 1)) ||
      !read("pad", padding) ||
      !read("lhs_dilate", single(&WindowDimension::base_dilation, 1)) ||
      !read("rhs_dilate", single(&WindowDimension::window_dilation, 1)) ||
      !read("rhs_reversal", single(&WindowDimension::reversal, 0))) {
    return malformed(instruction, "window");
  }
  return window;
}

std::optional<CumulativeWindow> cumulative_window(
    const std::vector<WindowDimension>& window,
    const std::vector<int64_t>& extents) {
  std::optional<CumulativeWindow> found;
  if (window.size() != extents.size()) return std::nullopt;
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDimension& w = window[d];
    if (w.stride != 1 || w.base_dilation != 1 || w.window_dilation != 1)
      return std::nullopt;
    if (w.size == 1 && w.padding_low == 0 && w.padding_high == 0) continue;
    const int64_t others = extents[d] - 1;
    const bool is_before = w.padding_low == others && w.padding_high == 0,
               is_after = w.padding_high == others && w.padding_low == 0;
    if (found || w.size != extents[d] || (!is_before && !is_after))
      return std::nullopt;
    found = CumulativeWindow{d, is_before};
  }
  return found;
}

}  // namespace reprise
