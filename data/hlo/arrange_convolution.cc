// Numbers here are the forward convolution's: stride s, dilation d, R taps, H
// places of images and P of outputs in one dimension. Its gradients as HLO has
// them: that by images walks outputs dilated by s; that by the filter walks
// images with P taps dilated by s, d apart.
#include "data/hlo/arrange_convolution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/window.h"

namespace reprise {
namespace {

/// Of the library.
constexpr size_t kMostPlaces = 3;

bool is_library_type(PrimitiveType type) {
  return type == PrimitiveType::kF32 || type == PrimitiveType::kF64 ||
         type == PrimitiveType::kF16 || type == PrimitiveType::kBF16;
}

/// Zeros around places; negative: so many places less.
struct Margins {
  ArrayExtents low, high;
  bool are_some() const {
    const auto is_some = [](int64_t n) { return n != 0; };
    return std::any_of(low.begin(), low.end(), is_some) ||
           std::any_of(high.begin(), high.end(), is_some);
  }
};

/// One dimension of the library's.
struct CanonicalPlace {
  int64_t input, taps, output, padding, stride, dilation;
};

ArrayExtents ordered(int64_t first, const ArrayExtents& places, int64_t last,
                     bool features_last) {
  ArrayExtents all = {first};
  if (!features_last) all.push_back(last);
  all.insert(all.end(), places.begin(), places.end());
  if (features_last) all.push_back(last);
  return all;
}

bool is_counting(const ArrayExtents& order) {
  for (size_t d = 0; d < order.size(); ++d) {
    if (order[d] != static_cast<int64_t>(d)) return false;
  }
  return true;
}

ArrayExtents permuted(const ArrayExtents& shape, const ArrayExtents& order) {
  ArrayExtents made;
  for (const int64_t d : order) made.push_back(shape[static_cast<size_t>(d)]);
  return made;
}

/// Where each dimension of an array stands: two, and places.
ArrayExtents positions(const ConvolutionDimensions::Array& array,
                       bool feature_first, bool features_last) {
  ArrayExtents places;
  for (const size_t d : array.spatial)
    places.push_back(static_cast<int64_t>(d));
  const auto batch = static_cast<int64_t>(array.batch),
             feature = static_cast<int64_t>(array.feature);
  return ordered(feature_first ? feature : batch, places,
                 feature_first ? batch : feature, features_last);
}

/// Dimensions of places among those of a library's array.
ArrayExtents place_dimensions(const CanonicalConvolution& c) {
  ArrayExtents all;
  for (size_t d = 0; d < c.taps.size(); ++d)
    all.push_back(static_cast<int64_t>(d + (c.features_last ? 1 : 2)));
  return all;
}

/// Adds a pad of the places of a library's array, whose shape it changes.
std::string pad(const CanonicalConvolution& c, const std::string& array,
                const Margins& margins, ProgramText* text,
                ArrayExtents* shape) {
  const std::string zero = text->add({}, "constant(0)");
  std::vector<std::string> padding(shape->size(), "0_0");
  const ArrayExtents dimensions = place_dimensions(c);
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const auto at = static_cast<size_t>(dimensions[d]);
    padding[at] = fmt::format("{}_{}", margins.low[d], margins.high[d]);
    (*shape)[at] += margins.low[d] + margins.high[d];
  }
  return text->add(*shape, fmt::format("pad({}, {}), padding={}", array, zero,
                                       fmt::join(padding, "x")));
}

/// `reversed`: places.
std::string reverse(const CanonicalConvolution& c, const std::string& array,
                    const ArrayExtents& reversed, const ArrayExtents& shape,
                    ProgramText* text) {
  if (reversed.empty()) return array;
  const ArrayExtents places = place_dimensions(c);
  ArrayExtents dimensions;
  for (const int64_t d : reversed)
    dimensions.push_back(places[static_cast<size_t>(d)]);
  return text->reverse(array, shape, dimensions);
}

class Arrangement {
 public:
  Arrangement(const Shape& lhs, const Shape& rhs,
              const Instruction& instruction, ConvolutionDimensions dimensions,
              std::vector<WindowDimension> window, bool features_last)
      : lhs_(lhs),
        rhs_(rhs),
        instruction_(instruction),
        at_(std::move(dimensions)),
        window_(std::move(window)),
        feature_groups_(group_count("feature_group_count")),
        batch_groups_(group_count("batch_group_count")) {
    made_.convolution.type = lhs.type;
    made_.convolution.features_last = features_last;
    made_.convolution.groups = std::max(feature_groups_, batch_groups_);
  }

  std::optional<ArrangedConvolution> run() {
    const std::optional<CanonicalForm> form = form_of();
    if (!form) return std::nullopt;
    made_.convolution.form = *form;
    switch (*form) {
      case CanonicalForm::kForward:
        arrange_forward();
        break;
      case CanonicalForm::kByInput:
        arrange_input_gradient();
        break;
      case CanonicalForm::kByFilter:
        arrange_filter_gradient();
        break;
    }
    return std::move(made_);
  }

 private:
  int64_t group_count(const char* name) const {
    const ArrayExtents given = integer_list(instruction_, name);
    return given.empty() ? 1 : given.front();
  }

  bool any(bool (*holds)(const WindowDimension&)) const {
    return std::any_of(window_.begin(), window_.end(), holds);
  }

  // Gradients by the filter have more taps than places of the result.
  std::optional<CanonicalForm> form_of() const {
    const bool dilates_images =
        any([](const WindowDimension& w) { return w.base_dilation > 1; });
    const bool reverses = any(
        [](const WindowDimension& w) { return w.reversal != 0 && w.size > 1; });
    if (dilates_images) {
      const bool strides =
          any([](const WindowDimension& w) { return w.stride > 1; });
      if (strides || batch_groups_ > 1) return std::nullopt;
      return CanonicalForm::kByInput;
    }
    int64_t taps = 1, places = 1;
    for (size_t d = 0; d < window_.size(); ++d) {
      taps *= window_[d].size;
      places *= instruction_.shape.dimensions[at_.output.spatial[d]];
    }
    const bool of_filter = batch_groups_ > 1 || taps > places;
    if (!of_filter) return CanonicalForm::kForward;
    if (!reverses && feature_groups_ == 1) return CanonicalForm::kByFilter;
    return batch_groups_ > 1 ? std::nullopt
                             : std::optional(CanonicalForm::kForward);
  }

  int64_t lhs_place(size_t d) const {
    return lhs_.dimensions[at_.input.spatial[d]];
  }
  int64_t result_place(size_t d) const {
    return instruction_.shape.dimensions[at_.output.spatial[d]];
  }

  void add_place(const CanonicalPlace& place) {
    CanonicalConvolution& c = made_.convolution;
    c.input_places.push_back(place.input);
    c.taps.push_back(place.taps);
    c.output_places.push_back(place.output);
    c.padding.push_back(place.padding);
    c.stride.push_back(place.stride);
    c.dilation.push_back(place.dilation);
  }

  void arrange_forward() {
    CanonicalConvolution& c = made_.convolution;
    c.images = lhs_.dimensions[at_.input.batch];
    c.inputs = lhs_.dimensions[at_.input.feature];
    c.outputs = rhs_.dimensions[at_.kernel.feature];
    Margins margins;
    ArrayExtents reversed;
    for (size_t d = 0; d < window_.size(); ++d) {
      const WindowDimension& w = window_[d];
      const int64_t both =
          std::max<int64_t>(0, std::min(w.padding_low, w.padding_high));
      margins.low.push_back(w.padding_low - both);
      margins.high.push_back(w.padding_high - both);
      add_place(
          {.input = lhs_place(d) + w.padding_low + w.padding_high - 2 * both,
           .taps = w.size,
           .output = result_place(d),
           .padding = both,
           .stride = w.stride,
           .dilation = w.window_dilation});
      if (w.reversal != 0 && w.size > 1)
        reversed.push_back(static_cast<int64_t>(d));
    }
    made_.lhs =
        operand(lhs_, positions(at_.input, false, c.features_last), margins);
    made_.rhs = filter(positions(at_.kernel, true, c.features_last), reversed);
    made_.result = result(positions(at_.output, false, c.features_last), {});
  }

  // Place h of images is q s + r d - p, of output q, tap r and the padding p;
  // the window begins (R - 1) d - p places before the outputs, reversed.
  void arrange_input_gradient() {
    CanonicalConvolution& c = made_.convolution;
    c.images = lhs_.dimensions[at_.input.batch];
    c.outputs = lhs_.dimensions[at_.input.feature];
    c.inputs = rhs_.dimensions[at_.kernel.feature];
    Margins margins;
    ArrayExtents reversed;
    for (size_t d = 0; d < window_.size(); ++d) {
      const WindowDimension& w = window_[d];
      const int64_t s = w.base_dilation,
                    reach = w.window_dilation * (w.size - 1);
      const int64_t wanted = result_place(d), padding = reach - w.padding_low;
      // All places that some output reaches, padding cut off on both sides.
      const int64_t reached = (lhs_place(d) - 1) * s + 1 + reach;
      const int64_t span = reached - 2 * padding;
      const bool is_even = padding >= 0 && span >= 1 && wanted < span + s;
      const int64_t kept = is_even ? padding : 0;
      const int64_t made = is_even ? std::max(span, wanted) : reached;
      margins.low.push_back(kept - padding);
      margins.high.push_back(wanted - made - margins.low.back());
      add_place({.input = made,
                 .taps = w.size,
                 .output = lhs_place(d),
                 .padding = kept,
                 .stride = s,
                 .dilation = w.window_dilation});
      if (w.reversal == 0 && w.size > 1)
        reversed.push_back(static_cast<int64_t>(d));
    }
    made_.lhs = operand(lhs_, positions(at_.input, false, c.features_last), {});
    made_.rhs = grouped_filter(reversed);
    made_.result =
        result(positions(at_.output, false, c.features_last), margins);
  }

  // Images are summed over, so that HLO calls them features, and inputs images.
  void arrange_filter_gradient() {
    CanonicalConvolution& c = made_.convolution;
    c.images = lhs_.dimensions[at_.input.feature];
    c.inputs = lhs_.dimensions[at_.input.batch];
    c.outputs = rhs_.dimensions[at_.kernel.feature];
    Margins margins;
    for (size_t d = 0; d < window_.size(); ++d) {
      const WindowDimension& w = window_[d];
      const int64_t s = w.window_dilation;
      const int64_t covered =
          (w.size - 1) * s + 1 + (result_place(d) - 1) * w.stride;
      const int64_t beyond =
          lhs_place(d) + w.padding_low + w.padding_high - covered;
      // Fewer than s places beyond the last that is read are the library's.
      const bool is_even = beyond < s;
      const int64_t both =
          is_even
              ? std::max<int64_t>(0, std::min(w.padding_low, w.padding_high))
              : 0;
      margins.low.push_back(w.padding_low - both);
      margins.high.push_back(w.padding_high - both - (is_even ? 0 : beyond));
      add_place(
          {.input = lhs_place(d) + margins.low.back() + margins.high.back(),
           .taps = result_place(d),
           .output = w.size,
           .padding = both,
           .stride = s,
           .dilation = w.stride});
    }
    made_.lhs =
        operand(lhs_, positions(at_.input, true, c.features_last), margins);
    made_.rhs =
        operand(rhs_, positions(at_.kernel, false, c.features_last), {});
    made_.result = result(positions(at_.output, true, c.features_last), {});
  }

  std::optional<InlinedModule> read(const ProgramText& text,
                                    const std::string& made,
                                    const ArrayExtents& shape) const {
    return read_program(text.module(made, shape), instruction_.name);
  }

  std::optional<InlinedModule> operand(const Shape& from,
                                       const ArrayExtents& order,
                                       const Margins& margins) const {
    if (is_counting(order) && !margins.are_some()) return std::nullopt;
    ProgramText text(from.type);
    std::string made = text.add(from.dimensions, "parameter(0)");
    ArrayExtents shape = permuted(from.dimensions, order);
    if (!is_counting(order))
      made = text.transpose(made, from.dimensions, order);
    if (margins.are_some())
      made = pad(made_.convolution, made, margins, &text, &shape);
    return read(text, made, shape);
  }

  std::optional<InlinedModule> filter(const ArrayExtents& order,
                                      const ArrayExtents& reversed) const {
    if (is_counting(order) && reversed.empty()) return std::nullopt;
    ProgramText text(rhs_.type);
    std::string made = text.add(rhs_.dimensions, "parameter(0)");
    const ArrayExtents shape = permuted(rhs_.dimensions, order);
    if (!is_counting(order))
      made = text.transpose(made, rhs_.dimensions, order);
    return read(text, reverse(made_.convolution, made, reversed, shape, &text),
                shape);
  }

  // HLO has [outputs of a group] and [group, inputs of a group], the library
  // [group, outputs of a group] and [inputs of a group].
  std::optional<InlinedModule> grouped_filter(
      const ArrayExtents& reversed) const {
    const CanonicalConvolution& c = made_.convolution;
    if (c.groups == 1)
      return filter(positions(at_.kernel, false, c.features_last), reversed);
    ProgramText text(rhs_.type);
    std::string made = text.add(rhs_.dimensions, "parameter(0)");
    ArrayExtents split = rhs_.dimensions;
    const auto at = at_.kernel.feature;
    split[at] /= c.groups;
    split.insert(split.begin() + static_cast<int64_t>(at), c.groups);
    made = text.reshape(made, split);
    const auto moved = [&](int64_t d) {
      return d >= static_cast<int64_t>(at) ? d + 1 : d;
    };
    ArrayExtents order = positions(at_.kernel, false, c.features_last);
    std::transform(order.begin(), order.end(), order.begin(), moved);
    order.insert(order.begin(), static_cast<int64_t>(at));
    made = text.transpose(made, split, order);
    const ArrayExtents shape = c.filter_shape();
    made = text.reshape(made, shape);
    return read(text, reverse(made_.convolution, made, reversed, shape, &text),
                shape);
  }

  /// `order`: where the library's dimensions stand in the result.
  std::optional<InlinedModule> result(const ArrayExtents& order,
                                      const Margins& margins) const {
    if (is_counting(order) && !margins.are_some()) return std::nullopt;
    ProgramText text(lhs_.type);
    ArrayExtents shape = made_.convolution.result_shape();
    std::string made = text.add(shape, "parameter(0)");
    if (margins.are_some())
      made = pad(made_.convolution, made, margins, &text, &shape);
    if (!is_counting(order)) {
      ArrayExtents back(order.size());
      for (size_t d = 0; d < order.size(); ++d)
        back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
      made = text.transpose(made, shape, back);
    }
    return read(text, made, instruction_.shape.dimensions);
  }

  const Shape &lhs_, &rhs_;
  const Instruction& instruction_;
  const ConvolutionDimensions at_;
  const std::vector<WindowDimension> window_;
  const int64_t feature_groups_, batch_groups_;
  ArrangedConvolution made_;
};

/// The library counts in int.
bool is_countable(const CanonicalConvolution& c) {
  for (const ArrayExtents& shape :
       {c.image_shape(), c.filter_shape(), c.output_shape()}) {
    int64_t elements = 1;
    for (const int64_t extent : shape) {
      if (extent < 1 || __builtin_mul_overflow(elements, extent, &elements) ||
          elements > std::numeric_limits<int32_t>::max())
        return false;
    }
  }
  return true;
}

}  // namespace

ArrayExtents CanonicalConvolution::image_shape() const {
  return ordered(images, input_places, inputs, features_last);
}
ArrayExtents CanonicalConvolution::filter_shape() const {
  return ordered(outputs, taps, inputs / groups, features_last);
}
ArrayExtents CanonicalConvolution::output_shape() const {
  return ordered(images, output_places, outputs, features_last);
}
ArrayExtents CanonicalConvolution::lhs_shape() const {
  return form == CanonicalForm::kByInput ? output_shape() : image_shape();
}
ArrayExtents CanonicalConvolution::rhs_shape() const {
  return form == CanonicalForm::kByFilter ? output_shape() : filter_shape();
}
ArrayExtents CanonicalConvolution::result_shape() const {
  return form == CanonicalForm::kForward   ? output_shape()
         : form == CanonicalForm::kByInput ? image_shape()
                                           : filter_shape();
}

std::optional<ArrangedConvolution> arrange_convolution(
    const Computation& computation, const Instruction& convolution,
    bool features_last) {
  const Shape& lhs = computation.at(convolution.operands[0]).shape;
  const Shape& rhs = computation.at(convolution.operands[1]).shape;
  if (lhs.type != rhs.type || lhs.type != convolution.shape.type ||
      !is_library_type(lhs.type))
    return std::nullopt;
  const auto dimensions = convolution_dimensions(convolution);
  const auto window = window_dimensions(convolution);
  if (!dimensions || !window || window->empty() ||
      window->size() != dimensions->input.spatial.size() ||
      window->size() > kMostPlaces)
    return std::nullopt;
  for (const Shape* shape : {&lhs, &rhs, &convolution.shape}) {
    if (product(shape->dimensions) == 0) return std::nullopt;
  }
  auto made =
      Arrangement(lhs, rhs, convolution, *dimensions, *window, features_last)
          .run();
  if (!made || !is_countable(made->convolution)) return std::nullopt;
  return made;
}

}  // namespace reprise
