#include "runtime/cpu/convolution_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "runtime/cpu/part_trials.h"

namespace reprise {
namespace {

using Descriptor = dnnl::memory::desc;

/// Features of a register block of oneDNN's, which is not cut.
constexpr int64_t kBlock = 16;

int64_t element_bytes_of(const Descriptor& array) {
  return array.data_type() == dnnl::memory::data_type::f32 ? 4 : 2;
}

dnnl::memory::dims strides_of(const Descriptor& array) {
  const auto& strides = array.data.format_desc.blocking.strides;
  return {strides, strides + array.data.ndims};
}

/// Keeps [begin, end) of a dimension, and moves to its first byte.
void keep(size_t dimension, int64_t begin, int64_t end, Descriptor* array,
          std::byte** data) {
  auto dims = array->dims();
  const auto strides = strides_of(*array);
  dims[dimension] = end - begin;
  *data += begin * strides[dimension] * element_bytes_of(*array);
  *array = Descriptor(dims, array->data_type(), strides);
}

/// What parts are made of: [begin, end) of one of these.
enum class ConvolutionCut : uint8_t {
  kImages,
  kGroups,
  kImageFeatures,
  kResultFeatures,
};

struct ChosenCut {
  ConvolutionCut cut;
  int64_t extent, most;  ///< Places for borders, and how many parts at most.
};

int64_t groups_of(const ConvolutionProblem& problem) {
  const bool grouped = problem.filter.data.ndims > problem.image.data.ndims;
  return grouped ? problem.filter.dims()[0] : 1;
}

ChosenCut choose_cut(const ConvolutionProblem& problem, int64_t count) {
  const int64_t images = problem.image.dims()[0], groups = groups_of(problem);
  if (!problem.is_by_filter() && images >= count)
    return {ConvolutionCut::kImages, images, images};
  if (groups > 1) return {ConvolutionCut::kGroups, groups, groups};
  const bool by_image = problem.form == ConvolutionForm::kByInput;
  const int64_t features =
      by_image ? problem.image.dims()[1] : problem.result.dims()[1];
  return {by_image ? ConvolutionCut::kImageFeatures
                   : ConvolutionCut::kResultFeatures,
          features, features / kBlock};
}

ConvolutionPart part_of(const ConvolutionProblem& problem,
                        const ConvolutionMemory& memory, ConvolutionCut cut,
                        int64_t begin, int64_t end) {
  ConvolutionPart part{.problem = problem, .memory = memory};
  ConvolutionProblem& p = part.problem;
  ConvolutionMemory& at = part.memory;
  switch (cut) {
    case ConvolutionCut::kImages:
      keep(0, begin, end, &p.image, &at.image);
      keep(0, begin, end, &p.result, &at.result);
      break;
    case ConvolutionCut::kGroups: {
      const int64_t groups = groups_of(problem),
                    ins = problem.image.dims()[1] / groups,
                    outs = problem.result.dims()[1] / groups;
      keep(1, begin * ins, end * ins, &p.image, &at.image);
      keep(1, begin * outs, end * outs, &p.result, &at.result);
      keep(0, begin, end, &p.filter, &at.filter);
      break;
    }
    case ConvolutionCut::kImageFeatures:
      keep(1, begin, end, &p.image, &at.image);
      keep(1, begin, end, &p.filter, &at.filter);
      break;
    case ConvolutionCut::kResultFeatures:
      keep(1, begin, end, &p.result, &at.result);
      keep(0, begin, end, &p.filter, &at.filter);
      break;
  }
  return part;
}

std::vector<std::byte> array_of(const Descriptor& array, uint32_t seed) {
  std::vector<std::byte> bytes(array.get_size());
  fill_trial_values(
      element_bytes_of(array) == 4 ? PrimitiveType::kF32 : PrimitiveType::kBF16,
      seed, bytes);
  return bytes;
}

}  // namespace

std::vector<ConvolutionPart> split_convolution(
    const ConvolutionProblem& problem, const ConvolutionMemory& memory,
    size_t count) {
  const bool turns = std::find(problem.turned.begin(), problem.turned.end(),
                               true) != problem.turned.end();
  if (count < 2 || (turns && problem.is_by_filter())) return {};
  const ChosenCut chosen = choose_cut(problem, static_cast<int64_t>(count));
  // Of a filter that is turned in a copy, a part would be no part.
  if (turns && chosen.cut != ConvolutionCut::kImages) return {};
  const int64_t parts = std::min(static_cast<int64_t>(count), chosen.most);
  std::vector<ConvolutionPart> made;
  const int64_t unit =
      chosen.cut != ConvolutionCut::kImages && chosen.extent >= kBlock * parts
          ? kBlock
          : 1;
  const auto border = [&](int64_t p) {
    return p == parts ? chosen.extent : chosen.extent * p / parts / unit * unit;
  };
  for (int64_t p = 0; p < parts; ++p)
    made.push_back(
        part_of(problem, memory, chosen.cut, border(p), border(p + 1)));
  return made;
}

TrialArrays::TrialArrays(const ConvolutionProblem& problem)
    : form_(problem.form),
      image_(array_of(problem.image, 1)),
      filter_(array_of(problem.filter, 2)),
      result_(array_of(problem.result, 3)) {
  take_written();
}

ConvolutionMemory TrialArrays::memory() {
  return {.image = image_.data(),
          .filter = filter_.data(),
          .result = result_.data()};
}

std::vector<std::byte>& TrialArrays::written() {
  switch (form_) {
    case ConvolutionForm::kForward:
      return result_;
    case ConvolutionForm::kByInput:
      return image_;
    default:
      return filter_;
  }
}

std::vector<std::byte> TrialArrays::take_written() {
  std::vector<std::byte> taken = written();
  std::fill(written().begin(), written().end(), std::byte{0});
  return taken;
}

std::string text_of(const ConvolutionProblem& problem) {
  std::string text =
      fmt::format("convolution {} {} {} {} {} {}",
                  static_cast<int>(problem.form), problem.strides,
                  problem.dilations, problem.low, problem.high, problem.turned);
  for (const Descriptor* array :
       {&problem.image, &problem.filter, &problem.result}) {
    text += fmt::format(" {}{}{}", element_bytes_of(*array), array->dims(),
                        strides_of(*array));
  }
  return text;
}

}  // namespace reprise
