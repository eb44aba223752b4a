#include "runtime/cpu/convolution_geometry.h"

#include "data/hlo/hlo.h"
#include "runtime/cpu/array_view.h"

namespace reprise {
namespace {

using Axis = ConvolutionGeometry::Axis;

Axis axis_of(const Shape& shape, size_t dimension) {
  return {shape.dimensions.at(dimension), element_strides(shape).at(dimension)};
}

std::vector<Axis> axes_of(const Shape& shape,
                          const std::vector<size_t>& dimensions) {
  std::vector<Axis> axes;
  axes.reserve(dimensions.size());
  for (const size_t dimension : dimensions)
    axes.push_back(axis_of(shape, dimension));
  return axes;
}

int64_t count_attribute(const Instruction& instruction, const char* name) {
  const std::vector<int64_t> count = integer_list(instruction, name);
  return count.size() == 1 && count[0] > 0 ? count[0] : 1;
}

/// Parts the features, or the images, among the groups.
bool part_groups(int64_t feature_groups, int64_t batch_groups,
                 ConvolutionGeometry* geometry) {
  ConvolutionGeometry& g = *geometry;
  g.groups = feature_groups * batch_groups;
  g.batch_groups = batch_groups;
  if (feature_groups > 1 && batch_groups > 1) return false;
  if (g.kernel_output.extent % g.groups != 0 ||
      g.out_feature.extent != g.kernel_output.extent) {
    return false;
  }
  g.kernel_output.extent /= g.groups;
  g.out_feature.extent /= g.groups;
  g.kernel_step = g.kernel_output.extent * g.kernel_output.stride;
  g.output_step = g.out_feature.extent * g.out_feature.stride;
  Axis& parted = batch_groups > 1 ? g.batch : g.feature;
  if (parted.extent % g.groups != 0) return false;
  parted.extent /= g.groups;
  g.input_step = parted.extent * parted.stride;
  return g.feature.extent == g.kernel_input.extent &&
         g.batch.extent == g.out_batch.extent;
}

}  // namespace

std::vector<std::vector<int64_t>> ConvolutionGeometry::offsets() const {
  std::vector<std::vector<int64_t>> all(window.size());
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDimension& along = window[d];
    for (int64_t p = 0; p < output[d].extent; ++p) {
      for (int64_t tap = 0; tap < kernel[d].extent; ++tap) {
        // A reversed window meets its last tap first.
        const int64_t place =
            along.reversal != 0 ? kernel[d].extent - 1 - tap : tap;
        const int64_t at = p * along.stride + place * along.window_dilation -
                           along.padding_low;
        const bool inside = at >= 0 && at % along.base_dilation == 0 &&
                            at / along.base_dilation < input[d].extent;
        all[d].push_back(inside ? at / along.base_dilation * input[d].stride
                                : -1);
      }
    }
  }
  return all;
}

Result<ConvolutionGeometry> convolution_geometry(const RoutineCall& call) {
  const Result<ConvolutionDimensions> numbers =
      convolution_dimensions(call.instruction);
  if (!numbers) return pass(numbers.error());
  Result<std::vector<WindowDimension>> window =
      window_dimensions(call.instruction);
  if (!window) return pass(window.error());
  const Shape &input = call.operand_shape(0), &kernel = call.operand_shape(1),
              &output = call.result_shape(0);
  const size_t spatial = numbers->input.spatial.size();
  if (window->empty()) window->resize(spatial);
  for (const Shape* shape : {&input, &kernel, &output}) {
    if (shape->dimensions.size() != spatial + 2 || window->size() != spatial) {
      return fail(ErrorKind::kInvalid,
                  "dim_labels and window do not fit its shapes");
    }
  }
  ConvolutionGeometry g;
  g.window = *std::move(window);
  g.batch = axis_of(input, numbers->input.batch);
  g.feature = axis_of(input, numbers->input.feature);
  g.kernel_input = axis_of(kernel, numbers->kernel.batch);
  g.kernel_output = axis_of(kernel, numbers->kernel.feature);
  g.out_batch = axis_of(output, numbers->output.batch);
  g.out_feature = axis_of(output, numbers->output.feature);
  g.input = axes_of(input, numbers->input.spatial);
  g.kernel = axes_of(kernel, numbers->kernel.spatial);
  g.output = axes_of(output, numbers->output.spatial);
  for (size_t d = 0; d < spatial; ++d) {
    if (g.kernel[d].extent != g.window[d].size)
      return fail(ErrorKind::kInvalid,
                  "its window is not of its kernel's size");
  }
  if (!part_groups(count_attribute(call.instruction, "feature_group_count"),
                   count_attribute(call.instruction, "batch_group_count"),
                   &g)) {
    return fail(ErrorKind::kInvalid, "its groups do not fit its shapes");
  }
  return g;
}

}  // namespace reprise
