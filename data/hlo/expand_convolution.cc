// Arrays on the way are [group, image, place..., feature]: groups of features
// and groups of images differ only in how they come there.
#include "data/hlo/expand_convolution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/program_text.h"
#include "data/hlo/window.h"

namespace reprise {
namespace {

constexpr int64_t kMostSlices = 128;

ArrayExtents joined(std::initializer_list<ArrayExtents> parts) {
  ArrayExtents all;
  for (const ArrayExtents& part : parts)
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Calls `visit` with every index below `extents`, the last dimension fastest.
void for_each_index(const ArrayExtents& extents,
                    const std::function<void(const ArrayExtents&)>& visit) {
  ArrayExtents index(extents.size(), 0);
  for (int64_t left = product(extents); left > 0; --left) {
    visit(index);
    for (size_t d = extents.size(); d-- > 0 && ++index[d] == extents[d];)
      index[d] = 0;
  }
}

class Expansion {
 public:
  Expansion(const Shape& image, const Shape& filter, const Shape& result,
            ConvolutionDimensions dimensions,
            std::vector<WindowDimension> window, int64_t feature_groups,
            int64_t batch_groups)
      : image_(image),
        filter_(filter),
        result_(result),
        at_(std::move(dimensions)),
        window_(std::move(window)),
        by_images_(batch_groups > 1),
        groups_(std::max(feature_groups, batch_groups)),
        text_(image.type) {
    images_ = image.dimensions[at_.input.batch] / (by_images_ ? groups_ : 1);
    inputs_ = filter.dimensions[at_.kernel.batch];
    outputs_ = filter.dimensions[at_.kernel.feature] / groups_;
    for (size_t d = 0; d < window_.size(); ++d) {
      taps_.push_back(window_[d].size);
      places_.push_back(result.dimensions[at_.output.spatial[d]]);
    }
  }

  std::optional<std::string> run() {
    if (std::min(product(taps_), product(places_)) > kMostSlices ||
        product(image_.dimensions) == 0 || product(filter_.dimensions) == 0 ||
        product(result_.dimensions) == 0)
      return std::nullopt;
    const std::string image = text_.add(image_.dimensions, "parameter(0)");
    const std::string filter = text_.add(filter_.dimensions, "parameter(1)");
    const std::string padded = pad(arrange_image(image));
    const std::string taps = arrange_filter(filter);
    const std::string made = product(taps_) <= product(places_)
                                 ? multiply_patches(padded, taps)
                                 : multiply_places(padded, taps);
    return text_.module(arrange_result(made), result_.dimensions);
  }

 private:
  /// [group, image, place..., feature].
  std::string arrange_image(const std::string& image) {
    ArrayExtents order = {static_cast<int64_t>(at_.input.batch)}, places;
    for (const size_t d : at_.input.spatial) {
      order.push_back(static_cast<int64_t>(d));
      places.push_back(image_.dimensions[d]);
    }
    order.push_back(static_cast<int64_t>(at_.input.feature));
    std::string turned = text_.transpose(image, image_.dimensions, order);
    extents_ = joined({{groups_, images_}, places, {inputs_}});
    if (by_images_ || groups_ == 1) return text_.reshape(turned, extents_);
    const ArrayExtents split = joined({{images_}, places, {groups_, inputs_}});
    turned = text_.reshape(turned, split);
    ArrayExtents group_first = {static_cast<int64_t>(places.size()) + 1};
    for (int64_t d = 0; d <= static_cast<int64_t>(places.size()); ++d)
      group_first.push_back(d);
    group_first.push_back(static_cast<int64_t>(places.size()) + 2);
    return text_.transpose(turned, split, group_first);
  }

  std::string pad(const std::string& image) {
    const std::string zero = text_.add({}, "constant(0)");
    std::string padding = "0_0x0_0";
    for (size_t d = 0; d < window_.size(); ++d) {
      const WindowDimension& w = window_[d];
      int64_t& extent = extents_[d + 2];
      extent =
          (extent - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high;
      padding += fmt::format("x{}_{}_{}", w.padding_low, w.padding_high,
                             w.base_dilation - 1);
    }
    return text_.add(extents_, fmt::format("pad({}, {}), padding={}x0_0", image,
                                           zero, padding));
  }

  /// [group, tap x input feature, output feature].
  std::string arrange_filter(const std::string& filter) {
    ArrayExtents order, turned, reversed;
    for (size_t d = 0; d < window_.size(); ++d) {
      order.push_back(static_cast<int64_t>(at_.kernel.spatial[d]));
      if (window_[d].reversal != 0) reversed.push_back(static_cast<int64_t>(d));
    }
    order.push_back(static_cast<int64_t>(at_.kernel.batch));
    order.push_back(static_cast<int64_t>(at_.kernel.feature));
    std::string made = text_.transpose(filter, filter_.dimensions, order);
    const int64_t depth = product(taps_) * inputs_;
    if (!reversed.empty()) {
      made = text_.add(joined({taps_, {inputs_, groups_ * outputs_}}),
                       fmt::format("reverse({}), dimensions={{{}}}", made,
                                   fmt::join(reversed, ",")));
    }
    const ArrayExtents split = {depth, groups_, outputs_};
    return text_.transpose(text_.reshape(made, split), split, {1, 0, 2});
  }

  /// Along places from `start`, `count` of them, `step` apart.
  std::string slice(const std::string& image, const ArrayExtents& start,
                    const ArrayExtents& count, const ArrayExtents& step) {
    std::string ranges = fmt::format("[0:{}],[0:{}]", groups_, images_);
    for (size_t d = 0; d < start.size(); ++d) {
      ranges += fmt::format(",[{}:{}:{}]", start[d],
                            start[d] + (count[d] - 1) * step[d] + 1, step[d]);
    }
    return text_.add(
        joined({{groups_, images_}, count, {inputs_}}),
        fmt::format("slice({}), slice={{{},[0:{}]}}", image, ranges, inputs_));
  }

  std::string dot(const std::string& rows, const std::string& taps,
                  int64_t count) {
    return text_.add({groups_, count, outputs_},
                     fmt::format("dot({}, {}), lhs_batch_dims={{0}}, "
                                 "rhs_batch_dims={{0}}, "
                                 "lhs_contracting_dims={{2}}, "
                                 "rhs_contracting_dims={{1}}",
                                 rows, taps));
  }

  ArrayExtents strides() const {
    ArrayExtents all;
    for (const WindowDimension& w : window_) all.push_back(w.stride);
    return all;
  }
  ArrayExtents dilations() const {
    ArrayExtents all;
    for (const WindowDimension& w : window_) all.push_back(w.window_dilation);
    return all;
  }
  static ArrayExtents scaled(const ArrayExtents& index,
                             const ArrayExtents& by) {
    ArrayExtents all(index.size());
    std::transform(index.begin(), index.end(), by.begin(), all.begin(),
                   std::multiplies<>());
    return all;
  }

  /// All that a place of the result is made of, side by side.
  std::string multiply_patches(const std::string& image,
                               const std::string& taps) {
    std::vector<std::string> slices;
    for_each_index(taps_, [&](const ArrayExtents& tap) {
      slices.push_back(
          slice(image, scaled(tap, dilations()), places_, strides()));
    });
    const int64_t depth = product(taps_) * inputs_;
    const std::string patches = text_.concatenate(
        slices, joined({{groups_, images_}, places_, {depth}}),
        places_.size() + 2);
    const int64_t rows = images_ * product(places_);
    return dot(text_.reshape(patches, {groups_, rows, depth}), taps, rows);
  }

  /// A product for each place of the result.
  std::string multiply_places(const std::string& image,
                              const std::string& taps) {
    std::vector<std::string> products;
    for_each_index(places_, [&](const ArrayExtents& place) {
      const std::string patch = text_.reshape(
          slice(image, scaled(place, strides()), taps_, dilations()),
          {groups_, images_, product(taps_) * inputs_});
      products.push_back(text_.reshape(dot(patch, taps, images_),
                                       {groups_, images_, 1, outputs_}));
    });
    return text_.concatenate(products,
                             {groups_, images_, product(places_), outputs_}, 2);
  }

  std::string arrange_result(const std::string& made) {
    const ArrayExtents apart =
        joined({{groups_, images_}, places_, {outputs_}});
    const auto last = static_cast<int64_t>(places_.size()) + 2;
    // Groups of features stand before features, groups of images likewise.
    std::vector<ArrayExtents> order(result_.dimensions.size());
    order[at_.output.batch] = {1};
    order[at_.output.feature] = {0, last};
    for (size_t d = 0; d < places_.size(); ++d)
      order[at_.output.spatial[d]] = {static_cast<int64_t>(d) + 2};
    ArrayExtents flat;
    for (const ArrayExtents& part : order)
      flat.insert(flat.end(), part.begin(), part.end());
    return text_.reshape(
        text_.transpose(text_.reshape(made, apart), apart, flat),
        result_.dimensions);
  }

  const Shape &image_, &filter_, &result_;
  const ConvolutionDimensions at_;
  const std::vector<WindowDimension> window_;
  const bool by_images_;
  const int64_t groups_;
  int64_t images_ = 1, inputs_ = 1, outputs_ = 1;  ///< Of one group.
  ArrayExtents taps_, places_;
  ArrayExtents extents_;  ///< Of the arranged image.
  ProgramText text_;
};

}  // namespace

std::optional<InlinedModule> expand_convolution(
    const Computation& computation, const Instruction& convolution) {
  const Shape& image = computation.at(convolution.operands[0]).shape;
  const Shape& filter = computation.at(convolution.operands[1]).shape;
  const bool one_type =
      image.type == filter.type && image.type == convolution.shape.type;
  if (!one_type ||
      (image.type != PrimitiveType::kF32 && image.type != PrimitiveType::kBF16))
    return std::nullopt;
  const auto dimensions = convolution_dimensions(convolution);
  const auto window = window_dimensions(convolution);
  if (!dimensions || !window ||
      window->size() != dimensions->input.spatial.size())
    return std::nullopt;
  const auto count = [&](const char* name) {
    const ArrayExtents given = integer_list(convolution, name);
    return given.empty() ? int64_t{1} : given.front();
  };
  const auto text =
      Expansion(image, filter, convolution.shape, *dimensions, *window,
                count("feature_group_count"), count("batch_group_count"))
          .run();
  if (!text) return std::nullopt;
  return read_program(*text, convolution.name);
}

}  // namespace reprise
