// Labels of a convolution's dimensions, `b01f_01io->b01f`.
#include <string_view>
#include <variant>

#include "data/hlo/window.h"

namespace reprise {
namespace {

/// Reads labels such as "b01f"; false unless each stands once.
bool read_labels(std::string_view labels, char batch, char feature,
                 ConvolutionDimensions::Array* array) {
  const size_t rank = labels.size();
  std::vector<size_t> place(rank, rank);  // Of batch, feature, 0, 1, …
  for (size_t d = 0; d < rank; ++d) {
    const char label = labels[d];
    const size_t which = label == batch     ? 0
                         : label == feature ? 1
                         : label >= '0' && label <= '9'
                             ? static_cast<size_t>(label - '0') + 2
                             : rank;
    if (which >= rank || place[which] != rank) return false;
    place[which] = d;
  }
  if (rank < 2) return false;
  array->batch = place[0];
  array->feature = place[1];
  array->spatial.assign(place.begin() + 2, place.end());
  return true;
}

}  // namespace

Result<ConvolutionDimensions> convolution_dimensions(
    const Instruction& convolution) {
  const Attribute* found = convolution.find_attribute("dim_labels");
  const auto* raw =
      found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
  const std::string_view labels =
      raw == nullptr ? std::string_view() : std::string_view(raw->text);
  const size_t kernel = labels.find('_'), output = labels.find("->");
  ConvolutionDimensions result;
  if (kernel != labels.npos && output != labels.npos && kernel < output &&
      read_labels(labels.substr(0, kernel), 'b', 'f', &result.input) &&
      read_labels(labels.substr(kernel + 1, output - kernel - 1), 'i', 'o',
                  &result.kernel) &&
      read_labels(labels.substr(output + 2), 'b', 'f', &result.output) &&
      result.input.spatial.size() == result.kernel.spatial.size() &&
      result.input.spatial.size() == result.output.spatial.size()) {
    return result;
  }
  return fail(ErrorKind::kInvalid,
              "instruction `{}`: attribute dim_labels={} is malformed",
              convolution.name, labels);
}

}  // namespace reprise
