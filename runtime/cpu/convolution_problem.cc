#include "runtime/cpu/convolution_problem.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "runtime/cpu/dnnl_engine.h"

namespace reprise {
namespace {

using SpatialAxes = std::vector<ConvolutionGeometry::Axis>;
using Descriptor = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

/// Of the program's arrays.
struct ArrayTypes {
  dnnl::memory::data_type input, kernel, output;
};

/// Sums over nothing are zeros, which oneDNN leaves to its caller.
bool is_empty(const RoutineCall& call) {
  return std::any_of(call.operands.begin(), call.operands.end(),
                     [](std::span<std::byte> array) { return array.empty(); });
}

bool parts_images(const ConvolutionGeometry& g) { return g.batch_groups > 1; }

/// The best first.
std::vector<ConvolutionForm> forms_of(const ConvolutionGeometry& g) {
  const bool dilated = std::any_of(
      g.window.begin(), g.window.end(),
      [](const WindowDimension& along) { return along.base_dilation != 1; });
  const bool by_filter =
      g.groups == 1 ? g.taps() > g.positions() : parts_images(g);
  if (dilated && by_filter && g.groups == 1)
    return {ConvolutionForm::kByTransposedFilter, ConvolutionForm::kByInput};
  if (dilated) return {ConvolutionForm::kByInput};
  return {by_filter ? ConvolutionForm::kByFilter : ConvolutionForm::kForward};
}

/// (first, second, spatial…) of one array. Where there is one spatial
/// dimension, an empty one comes before it: oneDNN has loops by feature for two
/// only.
Descriptor descriptor(dnnl::memory::data_type type, Dims dims, Dims strides,
                      const SpatialAxes& spatial) {
  if (spatial.size() == 1) {
    dims.push_back(1);
    strides.push_back(spatial[0].extent * spatial[0].stride);
  }
  for (const ConvolutionGeometry::Axis& axis : spatial) {
    dims.push_back(axis.extent);
    strides.push_back(axis.stride);
  }
  return {dims, type, strides};
}

/// (groups, output features of one, input features of one, spatial…), without
/// groups where there is one.
Descriptor filter_descriptor(dnnl::memory::data_type type, int64_t groups,
                             int64_t group_stride,
                             const ConvolutionGeometry::Axis& out,
                             const ConvolutionGeometry::Axis& in,
                             const SpatialAxes& spatial) {
  if (groups == 1) {
    return descriptor(type, {out.extent, in.extent}, {out.stride, in.stride},
                      spatial);
  }
  return descriptor(type, {groups, out.extent, in.extent},
                    {group_stride, out.stride, in.stride}, spatial);
}

/// What one spatial dimension is to oneDNN.
struct Along {
  int64_t stride, dilation, low, image, filter, result;
};

Along along_dimension(ConvolutionForm form, const ConvolutionGeometry& g,
                      size_t d) {
  const WindowDimension& w = g.window[d];
  const int64_t in = g.input[d].extent, taps = g.kernel[d].extent,
                out = g.output[d].extent;
  switch (form) {
    case ConvolutionForm::kForward:
      return {w.stride, w.window_dilation, w.padding_low, in, taps, out};
    case ConvolutionForm::kByInput:
      return {w.base_dilation,
              w.window_dilation,
              (taps - 1) * w.window_dilation - w.padding_low,
              out,
              taps,
              in};
    case ConvolutionForm::kByFilter:
      return {w.window_dilation, w.stride, w.padding_low, in, out, taps};
    case ConvolutionForm::kByTransposedFilter:
      return {w.base_dilation, 1, out - 1 - w.padding_low, taps, out, in};
  }
  return {};
}

/// Fills strides, dilations and paddings; false where oneDNN has no words for
/// them.
bool fit_window(const ConvolutionGeometry& g, ConvolutionProblem* problem) {
  const ConvolutionForm form = problem->form;
  if (g.window.size() == 1) {
    problem->strides = {1};
    problem->dilations = problem->low = problem->high = {0};
  }
  for (size_t d = 0; d < g.window.size(); ++d) {
    const WindowDimension& w = g.window[d];
    const bool reversed = w.reversal != 0;
    if (form == ConvolutionForm::kByInput && w.stride != 1) return false;
    if (problem->is_by_filter() && reversed) return false;
    if (form == ConvolutionForm::kByTransposedFilter &&
        (w.stride != 1 || w.window_dilation != 1))
      return false;
    const Along at = along_dimension(form, g, d);
    const int64_t high = (at.result - 1) * at.stride +
                         (at.filter - 1) * at.dilation + 1 - at.image - at.low;
    if (at.low < 0 || high <= -at.stride) return false;
    problem->strides.push_back(at.stride);
    problem->dilations.push_back(at.dilation - 1);
    problem->low.push_back(at.low);
    problem->high.push_back(high);
    const bool from_other_end = form == ConvolutionForm::kByInput ||
                                form == ConvolutionForm::kByTransposedFilter;
    problem->turned.push_back(at.filter > 1 && from_other_end != reversed);
  }
  return true;
}

/// Input and output as image and result of a convolution whose filter is the
/// program's, either way round.
void fill_arrays(const ConvolutionGeometry& g, const ArrayTypes& types,
                 ConvolutionProblem* problem) {
  const bool forward = problem->form == ConvolutionForm::kForward;
  Descriptor in =
      descriptor(types.input, {g.batch.extent, g.feature.extent * g.groups},
                 {g.batch.stride, g.feature.stride}, g.input);
  Descriptor out = descriptor(
      types.output, {g.out_batch.extent, g.out_feature.extent * g.groups},
      {g.out_batch.stride, g.out_feature.stride}, g.output);
  if (!forward) std::swap(in, out);
  problem->image = in;
  problem->result = out;
  problem->filter =
      filter_descriptor(types.kernel, g.groups, g.kernel_step,
                        forward ? g.kernel_output : g.kernel_input,
                        forward ? g.kernel_input : g.kernel_output, g.kernel);
}

/// Images and features exchanged: what is summed over are the program's input
/// features, oneDNN's images.
void fill_arrays_by_filter(const ConvolutionGeometry& g,
                           const ArrayTypes& types,
                           ConvolutionProblem* problem) {
  ConvolutionGeometry::Axis result_feature = g.out_feature,
                            image_feature = g.out_batch;
  problem->image =
      descriptor(types.input, {g.feature.extent, g.batch.extent * g.groups},
                 {g.feature.stride, g.batch.stride}, g.input);
  problem->result = descriptor(
      types.kernel, {g.kernel_input.extent, g.kernel_output.extent * g.groups},
      {g.kernel_input.stride, g.kernel_output.stride}, g.kernel);
  if (problem->form == ConvolutionForm::kByTransposedFilter) {
    std::swap(problem->image, problem->result);
    std::swap(image_feature, result_feature);
  }
  problem->filter = filter_descriptor(types.output, g.groups, g.output_step,
                                      result_feature, image_feature, g.output);
}

/// Nothing where oneDNN has no words for it.
std::optional<ConvolutionProblem> problem_of_form(ConvolutionForm form,
                                                  const ConvolutionGeometry& g,
                                                  const ArrayTypes& types) {
  ConvolutionProblem problem;
  problem.form = form;
  // Only a gradient by the filter has groups of images.
  if (parts_images(g) != (problem.is_by_filter() && g.groups > 1))
    return std::nullopt;
  if (!fit_window(g, &problem)) return std::nullopt;
  if (problem.is_by_filter()) {
    fill_arrays_by_filter(g, types, &problem);
  } else {
    fill_arrays(g, types, &problem);
  }
  return problem;
}

}  // namespace

std::optional<ConvolutionProblem> convolution_problem(
    const RoutineCall& call, const ConvolutionGeometry& geometry) {
  if (geometry.window.empty() || geometry.window.size() > 3 || is_empty(call))
    return std::nullopt;
  const std::array types = {call.operand_shape(0).type,
                            call.operand_shape(1).type,
                            call.result_shape(0).type};
  for (const PrimitiveType type : types) {
    if (type != PrimitiveType::kF32 && type != PrimitiveType::kBF16)
      return std::nullopt;
  }
  const ArrayTypes elements{.input = *dnnl_type(types[0]),
                            .kernel = *dnnl_type(types[1]),
                            .output = *dnnl_type(types[2])};
  for (const ConvolutionForm form : forms_of(geometry)) {
    if (auto problem = problem_of_form(form, geometry, elements))
      return problem;
  }
  return std::nullopt;
}

}  // namespace reprise
